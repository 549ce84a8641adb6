//! Effect of a simple command, judged by its words.
//!
//! Read-only commands run side by side, without a question, and again after a crash, so a wrong yes is a defect and a
//! wrong no costs little. Therefore programs and their options are listed, and only words whose meaning no shell
//! disputes are judged.

mod links;
mod programs;

pub(super) use links::{follows_links, may_make_links};

use super::options;
use super::word::{Spelling, Word};
pub(super) use programs::program;
use programs::{CHANGING, FILE_OPTIONS, Files, SHOWING, STARTING, files_of, has_any};
pub(super) use programs::{Changes, changes_of};

/// Whether the command changes nothing.
pub(super) fn is_read_only(words: &[Word]) -> bool {
    if words.iter().any(|word| word.spelling == Spelling::Complex) {
        return false;
    }
    let Some((program, arguments)) = words.split_first() else {
        return false;
    };
    match program.text.as_deref() {
        Some(name) if changes_of(name) != Changes::Options => true,
        Some("exit" | "return") => are_literal(arguments, is_number),
        Some("set") => {
            are_literal(arguments, |_| true)
                && texts(arguments).is_some_and(|options| only_shows_or_stops(&options))
        }
        Some("type") => {
            let names = match arguments.first().and_then(|word| word.text.as_deref()) {
                Some("-a" | "-P" | "-p" | "-t") => &arguments[1..],
                _ => arguments,
            };
            are_literal(names, is_operand)
        }
        Some("command") => {
            let first = arguments.first().and_then(|word| word.text.as_deref());
            matches!(first, Some("-V" | "-v"))
                && arguments.len() > 1
                && are_literal(&arguments[1..], is_operand)
        }
        // The names that these tests look at may be expressions.
        Some("test" | "[") => evaluates_nothing(arguments) && !has_any(words, &["-v", "-R"]),
        Some("printf") => {
            let first = arguments.first().and_then(|word| word.text.as_deref());
            let sets_variable = first.is_some_and(|text| text.starts_with('-'));
            evaluates_nothing(arguments) && !sets_variable
        }
        Some("date") => are_literal(arguments, is_harmless_for_date),
        Some("file") => are_literal(arguments, is_harmless_for_file),
        Some("find") => are_literal(arguments, is_harmless_for_find),
        Some("rg") => are_literal(arguments, is_harmless_for_rg),
        Some("sort") => are_literal(arguments, is_harmless_for_sort),
        Some("uniq") => {
            // A second operand is the file to write.
            let has_output = texts(arguments)
                .is_none_or(|texts| texts.into_iter().filter(|text| is_operand(text)).count() > 1);
            !has_output && are_literal(arguments, is_harmless_for_uniq)
        }
        _ => false,
    }
}

/// Whether the command creates, copies, moves or removes the files that its operands name, and nothing else.
pub(super) fn is_file_work(words: &[Word]) -> bool {
    let Some(texts) = texts(words) else {
        return false;
    };
    let Some((program, arguments)) = texts.split_first() else {
        return false;
    };
    let letters = match *program {
        "mkdir" => "pv",
        "touch" => "acm",
        "rm" => "rRfiv",
        "rmdir" => "pv",
        // Of a folder that is copied, the files are not known.
        "cp" => "fpvun",
        "mv" => "fvun",
        _ => return false,
    };
    let is_known = |argument: &&str| {
        if argument.starts_with('-') {
            is_flags(argument, letters)
        } else {
            !argument.contains('=')
        }
    };
    let has_operand = arguments.iter().any(|argument| !argument.starts_with('-'));
    has_operand && arguments.iter().all(is_known)
}

/// Returns the names that `cp` and `mv` make if their target is a folder; `None` if one is not known.
pub(super) fn made_in_folder(words: &[Word]) -> Option<Vec<String>> {
    let texts = texts(words)?;
    let (program, arguments) = texts.split_first()?;
    if !matches!(*program, "cp" | "mv") {
        return Some(Vec::new());
    }
    let operands: Vec<_> = arguments.iter().filter(|it| !it.starts_with('-')).collect();
    let (target, sources) = operands.split_last()?;
    let made = sources.iter().map(|source| {
        let name = source.trim_end_matches('/').rsplit('/').next()?;
        let is_name = !matches!(name, "" | "." | ".." | "~");
        is_name.then(|| format!("{target}/{name}"))
    });
    made.collect()
}

/// Returns whether the command may show, and whether it may change, files that patterns and values known only at run
/// time stand for.
pub(super) fn touches(words: &[Word]) -> (bool, bool) {
    let Some(name) = program(words) else {
        return (true, true);
    };
    let is_any = |of: &[&str]| has_any(words, of);
    match name {
        _ if takes_file(name, words) => (true, false),
        "git" => (is_any(&SHOWING), is_any(&CHANGING)),
        _ => match files_of(name) {
            Some(Files::Unused | Files::Listed | Files::Built) => (false, false),
            Some(Files::Shown) => (true, false),
            Some(Files::Changed) => (false, true),
            None => (true, true),
        },
    }
}

/// Whether an option has the program take text from a file, and may show it.
fn takes_file(name: &str, words: &[Word]) -> bool {
    let texts = || words.iter().skip(1).filter_map(|word| word.text.as_deref());
    let mut known = FILE_OPTIONS
        .iter()
        .filter(|(program, _, _)| *program == name);
    known.any(|(_, letters, long)| {
        texts().any(|text| match text.strip_prefix('-') {
            Some(rest) if rest.starts_with('-') => long.iter().any(|long| text.starts_with(long)),
            Some(rest) => rest.contains(|letter| letters.contains(letter)),
            None => false,
        })
    })
}

/// Whether the command lists files that patterns stand for.
pub(super) fn lists(words: &[Word]) -> bool {
    program(words).and_then(files_of) == Some(Files::Listed)
}

/// Whether the command may make files with names of any kind. Builders run code of the project, which may anyway.
pub(super) fn may_make_files(words: &[Word]) -> bool {
    const OF_GIT: [&str; 22] = [
        "add",
        "blame",
        "branch",
        "cat-file",
        "commit",
        "config",
        "describe",
        "diff",
        "fetch",
        "grep",
        "log",
        "ls-files",
        "ls-tree",
        "merge-base",
        "push",
        "reflog",
        "remote",
        "rev-list",
        "rev-parse",
        "show",
        "status",
        "tag",
    ];
    let makes = match program(words) {
        Some("mkdir" | "touch" | "tee") => true,
        Some("git") => may_make_links(words) || !has_any(words, &OF_GIT),
        _ => may_make_links(words),
    };
    makes || !options::read(words).written.is_empty()
}

/// Whether a command that changes nothing looks at files, and then whether at all that is in the folders that it names;
/// `None` if its arguments are no files.
pub(super) fn looks(words: &[Word]) -> Option<bool> {
    match program(words)? {
        "cd" | "find" => Some(true),
        "test" | "[" => None,
        name => match files_of(name) {
            Some(Files::Unused) => None,
            files => Some(files == Some(Files::Listed) || searches_folders(words)),
        },
    }
}

/// Whether the command goes to another folder.
pub(super) fn is_going(words: &[Word]) -> bool {
    program(words) == Some("cd")
}

/// Returns the position of the argument that a search looks for, unless an option may hold it instead.
pub(super) fn searched(words: &[Word]) -> Option<usize> {
    let is_search = matches!(program(words), Some("grep" | "egrep" | "fgrep" | "rg"));
    let may_hold = |word: &Word| {
        let text = word.text.as_deref().unwrap_or(&word.raw);
        let is_group = text.starts_with('-') && !text.starts_with("--");
        let is_long = |name: &str| text.starts_with(name);
        text == "--"
            || ["--reg", "--fil", "--type-list"].into_iter().any(is_long)
            || (is_group && text.contains(['e', 'f']))
    };
    if !is_search || words.iter().skip(1).any(may_hold) {
        return None;
    }
    { words.iter().skip(1) }
        .position(|word| !word.raw.starts_with('-'))
        .map(|at| at + 1)
}

/// Whether the command may start a program that an argument names, in a way that is not parsed.
pub(super) fn may_start_arguments(words: &[Word]) -> bool {
    let Some(name) = program(words) else {
        return true;
    };
    match name {
        "make" => evaluates(words),
        "git" => has_any(words, &STARTING) || has_any(words, &["-c", "config", "--config-env"]),
        "npm" | "pnpm" | "yarn" | "bun" | "rustup" => has_any(words, &["exec", "x", "dlx", "run"]),
        "cp" | "mv" | "sort" | "uniq" | "uv" if !has_any(words, &["run", "x", "tool"]) => false,
        _ => files_of(name).is_none(),
    }
}

/// Whether `make` is given rules by its arguments.
fn evaluates(words: &[Word]) -> bool {
    let mut arguments = words.iter().skip(1);
    arguments.any(|word| match word.text.as_deref() {
        Some(text) => {
            text.contains('=')
                || text.starts_with("--e")
                || (!text.starts_with("--") && text.starts_with('-') && text.contains('E'))
        }
        None => true,
    })
}

/// Whether the command shows the content of all files below the folders that it names.
pub(super) fn searches_folders(words: &[Word]) -> bool {
    let Some(name) = program(words) else {
        return false;
    };
    let has_flag = |flags: &[char]| {
        let texts = words.iter().skip(1).filter_map(|word| word.text.as_deref());
        texts
            .filter(|text| text.starts_with('-') && !text.starts_with("--"))
            .any(|text| text.contains(flags))
    };
    let is_long = |names: &[&str]| has_any(words, names);
    match name {
        "rg" | "ag" | "ack" | "ugrep" | "tar" | "zip" | "7z" | "rsync" | "bsdtar" | "cpio" => true,
        "grep" | "egrep" | "fgrep" => {
            has_flag(&['r', 'R', 'd'])
                || is_long(&[
                    "--recursive",
                    "--dereference-recursive",
                    "--directories=recurse",
                ])
        }
        "diff" => links::is_recursive_diff(words),
        "cp" | "scp" => has_flag(&['r', 'R', 'a']) || is_long(&["--recursive", "--archive"]),
        "git" => has_any(words, &["grep"]) || compares_folders(words),
        _ => false,
    }
}

/// Whether git may compare two folders with all that is below them, as it also does unasked where there is no repository.
fn compares_folders(words: &[Word]) -> bool {
    let texts = words.iter().skip(1).filter_map(|word| word.text.as_deref());
    let operands = texts.filter(|text| !text.starts_with('-')).count();
    has_any(words, &["--no-index"]) || has_any(words, &["diff"]) && operands == 3
}

/// Whether the command may search the working directory as no operand names another.
pub(super) fn searches_here(words: &[Word]) -> bool {
    const LONG: [&str; 5] = [
        "--count",
        "--hidden",
        "--ignore-case",
        "--line-number",
        "--no-ignore",
    ];
    let (searches, without_value) = match program(words) {
        Some("grep" | "egrep" | "fgrep") => (true, "EFGHILPRUachilnoqrsvwxz"),
        Some("rg") => (true, "FHILPSUacilnopqsuvwxz"),
        Some("ag" | "ack" | "ugrep") => (true, ""),
        Some("git") => (has_any(words, &["grep"]), ""),
        _ => (false, ""),
    };
    let texts = words.iter().skip(1).filter_map(|word| word.text.as_deref());
    let (options, operands): (Vec<_>, Vec<_>) = texts.partition(|text| text.starts_with('-'));
    let stands_alone = |option: &&str| LONG.contains(option) || is_flags(option, without_value);
    let is_git = program(words) == Some("git");
    // What is searched for, and perhaps the value of an option, come before the folder.
    let others = if !is_git && options.iter().all(stands_alone) {
        1
    } else {
        2
    };
    searches && searches_folders(words) && operands.len() <= others
}

/// Whether git may change files here that no argument names.
pub(super) fn rewrites_here(words: &[Word]) -> bool {
    let is_here = || has_any(words, &[".", "./", ":/", ":"]);
    is_of(words, "git")
        && (has_any(words, &["apply", "am", "clean"])
            || (has_any(words, &["checkout", "restore"]) && is_here()))
}

/// Whether the command starts this program.
pub(super) fn is_of(words: &[Word], name: &str) -> bool {
    program(words) == Some(name)
}

/// Returns what the program receives, if that is known.
fn texts(words: &[Word]) -> Option<Vec<&str>> {
    words.iter().map(|word| word.text.as_deref()).collect()
}

/// Whether every argument is `harmless`, and none is a pattern: a file may be named like an option.
fn are_literal(arguments: &[Word], harmless: fn(&str) -> bool) -> bool {
    let is_harmless = |word: &Word| {
        word.spelling == Spelling::Literal && word.text.as_deref().is_some_and(harmless)
    };
    arguments.iter().all(is_harmless)
}

/// Whether no argument can name a variable with a subscript that runs commands: some builtins evaluate it, even if it
/// was quoted or comes from the name of a file.
fn evaluates_nothing(arguments: &[Word]) -> bool {
    let is_known = |word: &Word| word.text.is_some() || word.spelling == Spelling::Literal;
    let mut arguments = arguments.iter();
    arguments.all(|word| is_known(word) && !word.raw.contains(['$', '`']))
}

fn is_operand(argument: &str) -> bool {
    argument == "-" || !argument.starts_with('-')
}

/// Whether the argument is a group of short options, each one of `letters`.
fn is_flags(argument: &str, letters: &str) -> bool {
    argument
        .strip_prefix('-')
        .is_some_and(|flags| !flags.is_empty() && flags.chars().all(|flag| letters.contains(flag)))
}

fn is_number(argument: &str) -> bool {
    argument.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether the options of `set` only have the shell stop at errors, or show what it runs.
fn only_shows_or_stops(options: &[&str]) -> bool {
    // Without options, it shows all variables, the environment too.
    if options.is_empty() {
        return false;
    }
    let mut options = options.iter();
    while let Some(option) = options.next() {
        let Some(letters) = option.strip_prefix(['-', '+']) else {
            return false;
        };
        let plain = letters.strip_suffix('o').unwrap_or(letters);
        if letters.is_empty() || !plain.chars().all(|letter| "eux".contains(letter)) {
            return false;
        }
        let is_named = plain.len() < letters.len();
        let names = ["pipefail", "errexit", "nounset", "xtrace"];
        if is_named && !options.next().is_some_and(|name| names.contains(name)) {
            return false;
        }
    }
    true
}

fn is_harmless_for_uniq(argument: &str) -> bool {
    is_operand(argument) || is_flags(argument, "cdDuifswz0123456789")
}

/// An operand that is no format sets the clock.
fn is_harmless_for_date(argument: &str) -> bool {
    let long = [
        "--date=",
        "--iso-8601",
        "--rfc-3339=",
        "--utc",
        "--universal",
    ];
    argument.starts_with('+')
        || argument.starts_with("-I")
        || is_flags(argument, "uR")
        || long.iter().any(|option| argument.starts_with(option))
}

/// Other options compile a table of kinds, or run programs that unpack.
fn is_harmless_for_file(argument: &str) -> bool {
    let long = [
        "--brief",
        "--mime",
        "--mime-type",
        "--mime-encoding",
        "--dereference",
    ];
    is_operand(argument) || is_flags(argument, "bihLk") || long.contains(&argument)
}

/// Other tests and actions run programs, and remove or write files.
fn is_harmless_for_find(argument: &str) -> bool {
    const KNOWN: [&str; 60] = [
        "-H",
        "-L",
        "-P",
        "-a",
        "-amin",
        "-and",
        "-anewer",
        "-atime",
        "-cmin",
        "-cnewer",
        "-ctime",
        "-daystart",
        "-depth",
        "-empty",
        "-executable",
        "-false",
        "-follow",
        "-gid",
        "-group",
        "-ilname",
        "-iname",
        "-inum",
        "-ipath",
        "-iregex",
        "-iwholename",
        "-links",
        "-lname",
        "-ls",
        "-maxdepth",
        "-mindepth",
        "-mmin",
        "-mount",
        "-mtime",
        "-name",
        "-newer",
        "-newermt",
        "-nogroup",
        "-not",
        "-nouser",
        "-o",
        "-or",
        "-path",
        "-perm",
        "-print",
        "-print0",
        "-printf",
        "-prune",
        "-quit",
        "-readable",
        "-regex",
        "-regextype",
        "-samefile",
        "-size",
        "-true",
        "-type",
        "-user",
        "-wholename",
        "-writable",
        "-xdev",
        "-xtype",
    ];
    // `-mtime -7`, `-size -10k`
    let is_number = argument
        .strip_prefix('-')
        .is_some_and(|number| number.starts_with(|c: char| c.is_ascii_digit()));
    is_operand(argument) || is_number || KNOWN.contains(&argument)
}

/// Some options run a program for each file, or to unpack it.
fn is_harmless_for_rg(argument: &str) -> bool {
    let runs_programs = ["--pre", "--hostname-bin", "--search-zip"]
        .iter()
        .any(|option| argument.starts_with(option));
    let has_short_zip =
        !argument.starts_with("--") && argument.starts_with('-') && argument.contains('z');
    !runs_programs && !has_short_zip
}

/// Other options write a file, or run a program that packs.
fn is_harmless_for_sort(argument: &str) -> bool {
    let long = [
        "--reverse",
        "--unique",
        "--numeric-sort",
        "--human-numeric-sort",
        "--version-sort",
    ];
    let is_key = argument.strip_prefix("-k").is_some_and(|key| {
        key.chars()
            .all(|c| c.is_ascii_digit() || ".,bdfgiMhnRrV".contains(c))
    });
    let is_separator = argument
        .strip_prefix("-t")
        .is_some_and(|separator| separator.chars().count() <= 1);
    is_operand(argument)
        || is_key
        || is_separator
        || is_flags(argument, "bdfghiMnRrVcCmsuz")
        || long.contains(&argument)
}
