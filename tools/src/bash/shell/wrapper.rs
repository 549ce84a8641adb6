//! Programs that start the program which their arguments name: it must not escape the rules.

use super::options;
use super::word::{Influence, Word};

/// Something that a command starts.
pub(super) enum Start {
    /// The program and arguments `words`, which begin at the command's word `from`.
    Words {
        from: usize,
        words: Vec<Word>,
        /// Whether the wrapper has no effect of its own.
        transparent: bool,
    },
    /// A command line.
    Line(String),
}

/// Programs that start others in ways that are not parsed, or change the meaning of names.
const NOT_UNDERSTOOD: [&str; 83] = [
    "alias",
    "unalias",
    "shopt",
    "enable",
    "hash",
    "trap",
    "bind",
    "complete",
    "busybox",
    "toybox",
    "watch",
    "script",
    "strace",
    "ltrace",
    "gdb",
    "parallel",
    "flock",
    "chroot",
    "unshare",
    "nsenter",
    "su",
    "runuser",
    "pkexec",
    "systemd-run",
    "entr",
    "fakeroot",
    "firejail",
    "bwrap",
    "proot",
    "chrt",
    "taskset",
    "prlimit",
    "setpriv",
    "unbuffer",
    "expect",
    "rlwrap",
    "at",
    "batch",
    "csh",
    "tcsh",
    "setarch",
    "linux32",
    "linux64",
    "i386",
    "i486",
    "i586",
    "i686",
    "x86_64",
    "uname26",
    "choom",
    "ssh-agent",
    "dbus-run-session",
    "dbus-launch",
    "sg",
    "newgrp",
    "capsh",
    "valgrind",
    "perf",
    "rr",
    "lldb",
    "gdbserver",
    "numactl",
    "cgexec",
    "cpulimit",
    "schedtool",
    "xvfb-run",
    "screen",
    "tmux",
    "faketime",
    "eatmydata",
    "chpst",
    "softlimit",
    "setuidgid",
    "start-stop-daemon",
    "run-parts",
    "gosu",
    "su-exec",
    "machinectl",
    "torsocks",
    "proxychains",
    "proxychains4",
    "hyperfine",
    "watchexec",
];
/// Folders in which only the system's programs are.
const SYSTEM_FOLDERS: [&str; 5] = ["/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin"];
const SHELLS: [&str; 6] = ["sh", "bash", "dash", "ash", "ksh", "mksh"];
/// Shells with another grammar.
const OTHER_SHELLS: [&str; 4] = ["zsh", "fish", "nu", "pwsh"];

/// Arguments of a wrapper before the program that it starts.
struct Grammar {
    /// Short options without a value.
    flags: &'static str,
    /// Short options with one, in the same word or the next.
    values: &'static str,
    /// Long options without a value, or with one behind `=`.
    long: &'static [&'static str],
    /// Number of operands.
    operands: usize,
    /// Whether assignments may follow the options.
    assignments: bool,
    /// Whether the wrapper has no effect of its own.
    transparent: bool,
}

const PLAIN: Grammar = Grammar {
    flags: "",
    values: "",
    long: &[],
    operands: 0,
    assignments: false,
    transparent: true,
};

fn grammar(program: &str) -> Option<Grammar> {
    transparent(program).or_else(|| changing(program))
}

/// Returns the grammar of wrappers that only set when, for how long and at which priority the program runs.
fn transparent(program: &str) -> Option<Grammar> {
    Some(match program {
        "nohup" | "builtin" => PLAIN,
        "time" => Grammar {
            flags: "p",
            ..PLAIN
        },
        "timeout" => Grammar {
            flags: "v",
            values: "sk",
            long: &[
                "--signal",
                "--kill-after",
                "--foreground",
                "--preserve-status",
                "--verbose",
            ],
            operands: 1,
            ..PLAIN
        },
        "nice" => Grammar {
            values: "n",
            long: &["--adjustment"],
            ..PLAIN
        },
        "ionice" => Grammar {
            flags: "t",
            values: "cn",
            ..PLAIN
        },
        "stdbuf" => Grammar {
            values: "ioe",
            long: &["--input", "--output", "--error"],
            ..PLAIN
        },
        _ => return None,
    })
}

/// Returns the grammar of wrappers that change which program runs, its environment or its rights.
fn changing(program: &str) -> Option<Grammar> {
    const CHANGING: Grammar = Grammar {
        transparent: false,
        ..PLAIN
    };
    Some(match program {
        "command" => Grammar {
            flags: "p",
            ..CHANGING
        },
        "exec" => Grammar {
            flags: "cl",
            values: "a",
            ..CHANGING
        },
        "setsid" => Grammar {
            flags: "fwc",
            ..CHANGING
        },
        "env" => Grammar {
            flags: "i0",
            values: "u",
            long: &["--ignore-environment", "--unset", "--null"],
            assignments: true,
            ..CHANGING
        },
        "sudo" | "doas" => Grammar {
            flags: "EHnSkAbP",
            values: "ugCpTrt",
            long: &[
                "--non-interactive",
                "--preserve-env",
                "--stdin",
                "--user",
                "--group",
                "--set-home",
            ],
            assignments: true,
            ..CHANGING
        },
        "xargs" => Grammar {
            flags: "0rtpxo",
            values: "InPLsdEa",
            long: &[
                "--null",
                "--no-run-if-empty",
                "--verbose",
                "--max-args",
                "--max-procs",
                "--replace",
                "--delimiter",
                "--max-lines",
                "--max-chars",
                "--arg-file",
                "--exit",
                "--interactive",
            ],
            ..CHANGING
        },
        _ => return None,
    })
}

/// Returns what the command starts; `None` if that is not understood.
pub(super) fn starts(words: &[Word]) -> Option<Vec<Start>> {
    let program = words.first()?.text.as_deref()?;
    let name = program.rsplit('/').next()?;
    // A dynamic loader runs the program that it is given.
    let is_loader = name.starts_with("ld") && name.contains(".so");
    if NOT_UNDERSTOOD.contains(&name) || is_loader || name.starts_with("ld-musl") {
        return None;
    }
    if SHELLS.contains(&name) {
        return shell(words);
    }
    if OTHER_SHELLS.contains(&name) {
        // A script is a program like others.
        let script = words.get(1)?.text.as_ref()?;
        return (!script.starts_with('-')).then(Vec::new);
    }
    match name {
        "eval" => {
            let texts: Option<Vec<_>> = words[1..].iter().map(|word| word.text.clone()).collect();
            let line = texts?.join(" ");
            Some(vec![Start::Line(line)])
        }
        "find" => actions_of_find(words),
        // A script is a program like others, unless it comes from elsewhere than a file.
        "." | "source" => {
            let script = words.get(1)?.text.as_ref()?;
            is_file(script).then(Vec::new)
        }
        // Looks the program up, and does not start it.
        "command" if is_question(words) => Some(Vec::new()),
        _ => match grammar(name) {
            Some(grammar) => {
                let transparent = grammar.transparent && is_of_system(program);
                let grammar = Grammar {
                    transparent,
                    ..grammar
                };
                started(words, &grammar, name == "xargs")
            }
            None => lines(name, words),
        },
    }
}

/// Whether a program is the one that its name suggests, not a file of the project with the same name.
fn is_of_system(program: &str) -> bool {
    program
        .rsplit_once('/')
        .is_none_or(|(folder, _)| SYSTEM_FOLDERS.contains(&folder))
}

fn is_question(words: &[Word]) -> bool {
    let option = words.get(1).and_then(|word| word.text.as_deref());
    matches!(option, Some("-v" | "-V"))
}

/// Returns the program after the options and operands. `has_more` says that it is given further arguments.
fn started(words: &[Word], grammar: &Grammar, has_more: bool) -> Option<Vec<Start>> {
    let mut at = 1;
    let mut transparent = grammar.transparent;
    let mut operands = grammar.operands;
    let mut marks = Vec::new();
    while let Some(word) = words.get(at) {
        // The position of the program depends on each word before it.
        let text = word.text.as_deref()?;
        if text == "--" {
            at += 1;
            break;
        } else if let Some(long) = text.strip_prefix("--") {
            let name = long.split('=').next()?;
            if !grammar
                .long
                .iter()
                .any(|known| known.strip_prefix("--") == Some(name))
            {
                return None;
            }
            // Others may take their value from the next word.
            let is_alone = [
                "foreground",
                "preserve-status",
                "verbose",
                "null",
                "no-run-if-empty",
                "interactive",
                "exit",
                "ignore-environment",
                "non-interactive",
                "stdin",
                "set-home",
            ];
            if !long.contains('=') && !is_alone.contains(&name) {
                return None;
            }
            marks.extend(long.strip_prefix("replace="));
        } else if let Some(short) = text.strip_prefix('-').filter(|short| !short.is_empty()) {
            let further = short_options(short, grammar)?;
            if has_more && short.contains('I') {
                marks.push(mark(short, further, words.get(at + 1))?);
            }
            at += further;
        } else {
            break;
        }
        at += 1;
    }
    while grammar.assignments && words.get(at).is_some_and(Word::is_assignment) {
        transparent = false;
        at += 1;
    }
    while operands > 0 {
        words.get(at)?.text.as_ref()?;
        operands -= 1;
        at += 1;
    }
    let mut inner = words[at.min(words.len())..].to_vec();
    if inner.is_empty() {
        return Some(Vec::new());
    }
    if has_more {
        take_place(&mut inner, &marks)?;
        inner.push(Word::unknown_arguments());
    }
    Some(vec![Start::Words {
        from: at,
        words: inner,
        transparent,
    }])
}

/// Returns what `xargs -I` replaces: the rest of the word, or the next one if the option takes `further` words.
fn mark<'a>(short: &'a str, further: usize, next: Option<&'a Word>) -> Option<&'a str> {
    match further {
        0 => short.split_once('I').map(|(_, mark)| mark),
        _ => next?.text.as_deref(),
    }
}

/// Lets arguments from the standard input take the place of the marks; `None` if they may become the program.
fn take_place(words: &mut [Word], marks: &[&str]) -> Option<()> {
    for word in &mut *words {
        let text = word.text.as_deref().unwrap_or_default();
        if marks.iter().any(|mark| text.contains(mark)) {
            word.may_begin_option |= marks.iter().any(|mark| text.starts_with(mark));
            word.influence = word.influence.max(Influence::OfText);
            word.text = None;
        }
    }
    let program = words.first()?.text.as_deref()?;
    (!program.contains("{}")).then_some(())
}

/// Returns how many further words the short options take; `None` if one is unknown.
fn short_options(short: &str, grammar: &Grammar) -> Option<usize> {
    for (index, option) in short.char_indices() {
        if grammar.values.contains(option) {
            let has_value = index + option.len_utf8() < short.len();
            return Some(usize::from(!has_value));
        }
        if !grammar.flags.contains(option) {
            return None;
        }
    }
    Some(0)
}

/// Returns the line after `-c`. A script is a program like others; commands from a pipe are not understood.
fn shell(words: &[Word]) -> Option<Vec<Start>> {
    let mut has_line = false;
    let mut at = 1;
    while let Some(word) = words.get(at) {
        let text = word.text.as_deref()?;
        let Some(flags) = text.strip_prefix(['-', '+']) else {
            break;
        };
        at += 1;
        // It ends the options like two of them.
        if text == "-" {
            break;
        }
        if let Some(long) = flags.strip_prefix('-') {
            if long.is_empty() {
                break;
            }
            if !matches!(
                long,
                "norc" | "noprofile" | "posix" | "login" | "verbose" | "version" | "help"
            ) {
                return None;
            }
            continue;
        }
        if !flags.chars().all(|flag| "ceuxlvnfho".contains(flag)) {
            return None;
        }
        has_line |= flags.contains('c');
        // Each has a name of its own.
        for _ in flags.matches('o') {
            words.get(at)?.text.as_ref()?;
            at += 1;
        }
    }
    let operand = words.get(at)?.text.clone()?;
    if has_line {
        return Some(vec![Start::Line(operand)]);
    }
    is_file(&operand).then(Vec::new)
}

/// Whether a script is in a file of its own, not in the standard input or another open file.
fn is_file(script: &str) -> bool {
    script != "-" && !script.starts_with("/dev/") && !script.starts_with("/proc/")
}

/// Returns the command lines in options of a program; `None` if one is known only at run time.
fn lines(program: &str, words: &[Word]) -> Option<Vec<Start>> {
    let mut lines = match program {
        "git" if configures_git(words) => return None,
        "git" => run_by_git(words)?,
        _ => Vec::new(),
    };
    lines.extend(options::read(words).started.into_iter().map(Start::Line));
    Some(lines)
}

/// Keys of git's configuration, or beginnings of them, that name no program.
const HARMLESS_KEYS: [&str; 8] = [
    "advice.",
    "color.",
    "column.",
    "core.quotepath",
    "init.defaultbranch",
    "log.date",
    "user.email",
    "user.name",
];

/// Returns whether options before git's subcommand may have it start a program: most settings can.
fn configures_git(words: &[Word]) -> bool {
    let is_harmless = |setting: &str| {
        let setting = setting.to_ascii_lowercase();
        HARMLESS_KEYS.iter().any(|key| setting.starts_with(key))
    };
    let mut rest = words.iter().skip(1);
    while let Some(text) = rest.next().and_then(|word| word.text.as_deref()) {
        match text {
            "-c" => {
                let setting = rest.next().and_then(|word| word.text.as_deref());
                if !setting.is_some_and(is_harmless) {
                    return true;
                }
            }
            "-C" | "--git-dir" | "--work-tree" | "--namespace" => drop(rest.next()),
            _ if text.starts_with("--config-env") || text.starts_with("--exec-path=") => {
                return true;
            }
            _ if text.starts_with('-') => {}
            _ => return false,
        }
    }
    false
}

/// Returns the program that `git bisect run` or `git submodule foreach` starts.
fn run_by_git(words: &[Word]) -> Option<Vec<Start>> {
    let texts: Vec<_> = words.iter().map(|word| word.text.as_deref()).collect();
    let bisect = [Some("bisect"), Some("run")];
    if let Some(at) = texts.windows(2).position(|pair| pair == bisect) {
        return Some(vec![Start::Words {
            from: at + 2,
            words: words[at + 2..].to_vec(),
            transparent: false,
        }]);
    }
    let is_submodule = |text: &Option<&str>| text.is_some_and(|text| text.starts_with("submodule"));
    let is_option = |text: &&Option<&str>| text.is_some_and(|text| text.starts_with('-'));
    let Some(at) = texts.iter().position(is_submodule) else {
        return Some(Vec::new());
    };
    let mut from = at + 1 + texts[at + 1..].iter().take_while(is_option).count();
    if texts.get(from) != Some(&Some("foreach")) {
        return Some(Vec::new());
    }
    from += 1;
    from += texts[from..].iter().take_while(is_option).count();
    let line: Option<Vec<&str>> = texts[from..].iter().copied().collect();
    Some(vec![Start::Line(line?.join(" "))])
}

/// Whether a word that is known only at run time begins like a path.
fn is_path(word: &Word) -> bool {
    let raw = word.raw.trim_start_matches('"');
    raw.starts_with(['.', '/'])
        || ["$PWD/", "$PWD\"", "$HOME/", "$HOME\""]
            .iter()
            .any(|start| raw.starts_with(start))
}

/// Returns the programs of `-exec` and its like.
fn actions_of_find(words: &[Word]) -> Option<Vec<Start>> {
    let mut starts = Vec::new();
    let mut at = 1;
    let mut is_value = false;
    while let Some(word) = words.get(at) {
        at += 1;
        let was_value = std::mem::take(&mut is_value);
        let Some(text) = word.text.as_deref() else {
            // It may become an action, or take one for its value.
            let is_harmless = was_value || !word.raw.contains(['$', '`', '{']) || is_path(word);
            if !is_harmless || word.may_become_option() || word.may_be_nothing() {
                return None;
            }
            continue;
        };
        is_value = !was_value && options::has_value_in_find(text);
        if !matches!(text, "-exec" | "-execdir" | "-ok" | "-okdir") {
            continue;
        }
        let is_end = |word: &Word| matches!(word.text.as_deref(), Some(";" | "+"));
        let length = words[at..].iter().position(is_end)?;
        let mut inner = words[at..at + length].to_vec();
        // Behind another end, there may be another action.
        if inner.first()?.raw.contains("{}") || inner.iter().any(Word::may_become_end) {
            return None;
        }
        // It stands for the names of the files that were found.
        for word in inner.iter_mut().filter(|word| word.raw.contains("{}")) {
            word.text = None;
        }
        starts.push(Start::Words {
            from: at,
            words: inner,
            transparent: false,
        });
        at += length + 1;
    }
    Some(starts)
}
