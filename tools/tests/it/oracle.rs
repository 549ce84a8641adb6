//! Verdicts against bash itself: lines of its grammar are judged, and those that are allowed run in a jail. What they changed,
//! showed and started must be what the verdict allows.
//!
//! The lines are made at random from words that matter to the judgement, always the same ones for a seed. A usual run tries
//! ten thousand; `AH_ORACLE_LINES` says how many, and `AH_ORACLE_SEED` where to begin.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use ah_conversation::{
    Content, Decision, Environment, Interface, PatternRoots, PermissionMode, Permissions, Tool,
    ToolUse,
};
use ah_process::{Behind, Bounds, Command, Keep, ShellLine};
use ah_tools::{Bash, Shell, Workspace};
use serde_json::json;

/// Content of the file that a rule hides.
const SECRET: &str = "5ecret-of-the-test";
/// Number of lines of a usual run.
const USUAL: u64 = 10_000;
/// Number of jails that try lines side by side, each others.
const JAILS: u64 = 4;
/// Number of lines of each jail that run whatever the verdict, to see that the lines do what they must not.
const CONTROLS: u64 = 100;

/// Numbers that look random: splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn one_of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }

    fn is(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// Beginnings of commands, with options whose values come next.
const PROGRAMS: &[&str] = &[
    "echo",
    "echo",
    "cat",
    "cat",
    "cat --",
    "head -n 1",
    "ls",
    "ls -l",
    "grep -r .",
    "sort",
    "wc -c",
    "true",
    "test",
    "test -v",
    "test -f",
    "test -n",
    "[ -v x ] &&",
    "printf %s",
    "printf -v",
    "printf -v x %s",
    "read",
    "read -r x",
    "read -a",
    "declare",
    "declare -i",
    "declare -n",
    "declare -a",
    "typeset -n",
    "export",
    "readonly",
    "let",
    "unset",
    "mapfile -t",
    "getopts a",
    "cd",
    "cd",
    "pushd",
    "pushd -n",
    "popd",
    "touch",
    "mkdir -p",
    "cp",
    "cp -r",
    "mv",
    "ln -s",
    "rm -f",
    "tee",
    "eval",
    "bash -c",
    "sh -c",
    "bash -coo pipefail posix",
    "env",
    "env x=1",
    "command",
    "builtin",
    "xargs",
    "xargs -I{}",
    "xargs -I x",
    "nohup",
    "timeout 5",
    "find . -name",
    "find . -exec",
    "victim",
    "set --",
    "shift",
    "wait -p",
    "date -f",
    "tar xf a.tar",
    "diff notes",
    ":",
    "exec 3<",
    "cat <&3",
    "type",
    "command -v",
    "!",
    "coproc",
    "sed -n p",
    "sed -i s/u/U/",
    "awk 1",
    "git diff --no-index",
    "trap",
    "hash -p",
    "source",
    "exec",
    "cat << E\n$x $(cat secret/key)\nE\ncat",
    "cat << E\n$((y))\nE\n",
];

/// Words, some of which are quoted or expanded.
const WORDS: &[&str] = &[
    "notes",
    "sub",
    "sub/deep",
    "secret",
    "secret/key",
    "guard",
    "guard/file",
    "./guard",
    "a",
    "b",
    "x",
    "y",
    "..",
    ".",
    "../project/secret/key",
    "~",
    "~/key",
    "-",
    "-n",
    "-r",
    "--",
    "*",
    "s*",
    "*/key",
    "sec?et/key",
    "{secret,notes}",
    "{}",
    "';'",
    "$x",
    "\"$x\"",
    "$y",
    "\"$y\"",
    "${x}",
    "$1",
    "\"$@\"",
    "$HOME",
    "$PWD/secret",
    "'a[y]'",
    "'a[x]'",
    "OPTIND",
    "RANDOM=$y",
    "\"OPTIND=$x\"",
    "'a=([$(victim)]=1)'",
    "a=$y",
    "{a[y]}<&0",
    "a[0]",
    "'b[$(victim)]'",
    "\"victim\"",
    "victim",
    "vic''tim",
    "'victim; true'",
    "$(victim)",
    "$(cat secret/key)",
    "$(echo secret)",
    "`echo guard`",
    "<(cat secret/key)",
    "x=secret",
    "'x=-v'",
    "HOME=secret",
    "'HOME=secret'",
    "CDPATH=secret",
    "\"z=$y\"",
    "'cat secret/key'",
    "'echo x > guard/file'",
    "\"echo x > made\"",
    "made",
    "/dev/null",
    "$((y))",
    "$[y]",
    "${a[y]}",
    "${x:y}",
    "${!y}",
    "${y@P}",
    "${x:-$(victim)}",
    "\"${x:=secret/key}\"",
    "${x%%*}",
    "$'vic\\x74im'",
    "$'secret\\x2fkey'",
    "{s,}ecret/key",
    "~+/secret/key",
    "\"$(< secret/key)\"",
    ">(victim)",
    "-exec",
    "EXIT",
    "&",
    "|| victim",
];

/// What comes before a command.
const ASSIGNMENTS: &[&str] = &[
    "x=secret; ",
    "x=-v; ",
    "x='a[y]'; ",
    "y='b[$(victim)]'; ",
    "y=`echo secret`; ",
    "x=guard/file; ",
    "HOME=secret; ",
    "CDPATH=secret; ",
    "a[y]=1; ",
    "IFS=/; ",
    "x=1 ",
    "HOME=secret ",
    "for x in secret notes; do ",
    "for y in 'b[$(victim)]'; do ",
    "x=(secret/key victim); ",
    "y='$(victim)'; ",
    "declare -n x=y; ",
    "PATH=sub:$PATH; ",
    "PS4='$(victim)'; set -x; ",
    "trap victim EXIT; ",
    "cat() { victim; }; ",
    "f() { victim; }; ",
    "set -- secret/key; ",
    "shopt -s expand_aliases extglob\n",
    "until ",
];

/// Programs with a rule that allows them.
const ALLOWED: [&str; 16] = [
    "echo", "cat", "export", "declare", "read", "printf", "env", "xargs", "bash", "eval",
    "timeout", "find", "test", "cd", "command", "touch",
];

const REDIRECTIONS: &[&str] = &[
    " < notes",
    " < secret/key",
    " <> secret/key",
    " <> guard/file",
    " > made",
    " >> notes",
    " > guard/file",
    " <<< secret",
    " <<< 'b[$(victim)]'",
    " 2>/dev/null",
    " > $x",
    " < $x",
    " 1<> guard/file",
    " >| made",
    " &> made",
    " > /dev/null",
];

fn simple(random: &mut Random) -> String {
    let mut line = String::new();
    let mut ends = String::new();
    if random.is(35) {
        let assignment = random.one_of(ASSIGNMENTS);
        line.push_str(assignment);
        match assignment {
            "until " => ends.push_str("; do break; done"),
            _ if assignment.starts_with("for ") => ends.push_str("; done"),
            _ => {}
        }
    }
    line.push_str(random.one_of(PROGRAMS));
    for _ in 0..random.below(4) {
        line.push(' ');
        line.push_str(random.one_of(WORDS));
    }
    if random.is(30) {
        line.push_str(random.one_of(REDIRECTIONS));
    }
    line + &ends
}

/// A condition or a calculation, in which bash evaluates words of its own accord.
fn evaluated(random: &mut Random) -> String {
    let mut word = || random.one_of(WORDS);
    let (left, right) = (word(), word());
    match random.below(6) {
        0 => format!("[[ {left} -eq {right} ]]"),
        1 => format!("[[ -v {left} || {right} == x ]]"),
        2 => "(( y ))".to_owned(),
        3 => format!("case {left} in {right}) victim;; *) cat {right};; esac"),
        4 => format!("for ((i=y; i<1; i++)); do cat {left}; done"),
        _ => format!("f() {{ cat {left}; }}; f {right}"),
    }
}

/// Returns a line of up to three commands.
fn line(random: &mut Random) -> String {
    let mut line = simple(random);
    for _ in 0..random.below(3) {
        let next = match random.is(15) {
            true => evaluated(random),
            false => simple(random),
        };
        line = match random.below(9) {
            0..=2 => format!("{line}; {next}"),
            3 => format!("{line} && {next}"),
            4 => format!("{line} | {next}"),
            5 => format!("( {line} ); {next}"),
            6 => format!("if {line}; then {next}; fi"),
            7 => format!("{{ {line}; }}; {next}"),
            _ => format!("{line}\n{next}"),
        };
    }
    line
}

/// The folder in which lines run: a project with its surroundings.
struct Jail {
    folder: tempfile::TempDir,
}

impl Jail {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let jail = Self { folder };
        let program = jail.base().join("bin/victim");
        fs::create_dir(program.parent().unwrap()).unwrap();
        fs::write(&program, "#!/bin/sh\n: > \"$RAN\"\n").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        jail
    }

    fn base(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    fn project(&self) -> PathBuf {
        self.base().join("world/project")
    }

    /// Puts everything back.
    fn reset(&self) {
        let world = self.base().join("world");
        let _ = fs::remove_dir_all(&world);
        for (name, text) in [
            ("project/notes", "note\n"),
            ("project/sub/deep/key", "other\n"),
            ("project/secret/key", SECRET),
            ("project/guard/file", "guarded\n"),
            ("home/key", "home\n"),
            ("outside/file", "outside\n"),
        ] {
            let path = world.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    /// Returns the content of all files, by their paths below the world; links by where they lead.
    fn state(&self) -> BTreeMap<PathBuf, String> {
        let world = self.base().join("world");
        let mut found = BTreeMap::new();
        let mut folders = vec![world.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let (path, kind) = (entry.path(), entry.file_type().unwrap());
                let text = if kind.is_symlink() {
                    format!("link to {}", fs::read_link(&path).unwrap().display())
                } else if kind.is_dir() {
                    folders.push(path.clone());
                    "folder".to_owned()
                } else {
                    fs::read_to_string(&path).unwrap_or_default()
                };
                found.insert(path.strip_prefix(&world).unwrap().to_owned(), text);
            }
        }
        found
    }

    fn variables(&self) -> Vec<(String, String)> {
        let path = std::env::var("PATH").unwrap();
        let base = self.base();
        let of = |name: &str| base.join(name).to_string_lossy().into_owned();
        vec![
            ("PATH".to_owned(), format!("{}:{path}", of("bin"))),
            ("HOME".to_owned(), of("world/home")),
            ("RAN".to_owned(), of("ran")),
            ("LC_ALL".to_owned(), "C".to_owned()),
        ]
    }

    /// Runs the line in bash, which can change nothing outside of the folder. Returns its output, and whether the victim ran.
    async fn run(&self, shell: &Path, line: &str) -> (String, bool) {
        let ran = self.base().join("ran");
        let _ = fs::remove_file(&ran);
        let ShellLine { arguments, stdin } = ShellLine::new(shell, line, Behind::Nothing);
        let command = Command {
            program: shell.to_owned(),
            arguments,
            stdin,
            cwd: self.project(),
            environment: self.variables(),
            deadline: Some(Duration::from_secs(20)),
            keep: Keep::new(self.base().join("output"), 1 << 20),
            sandbox: None,
            bounds: Some(Bounds {
                writable: vec![self.base()],
                changes_attributes: true,
                ..Bounds::default()
            }),
            note: |_| None,
        };
        let outcome = command.run().await.unwrap();
        let text = match outcome.output {
            Content::Bytes(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Content::Spool(spool) => String::from_utf8_lossy(&spool.head).into_owned(),
            Content::Blocks(_) => String::new(),
        };
        (text, ran.exists())
    }
}

/// Whether bash takes the line for one of its grammar.
fn is_of_grammar(shell: &Path, line: &str) -> bool {
    let mut check = std::process::Command::new(shell);
    let check = check.args(["-n", "-c", line]).stderr(Stdio::null());
    check.status().unwrap().success()
}

/// What a line did.
struct Deeds {
    before: BTreeMap<PathBuf, String>,
    after: BTreeMap<PathBuf, String>,
    output: String,
    has_victim_run: bool,
}

impl Deeds {
    fn has_changed(&self, folder: &str) -> bool {
        let below = |state: &BTreeMap<PathBuf, String>| -> Vec<_> {
            let files = state.iter().filter(|(path, _)| path.starts_with(folder));
            files
                .map(|(path, text)| (path.clone(), text.clone()))
                .collect()
        };
        below(&self.before) != below(&self.after)
    }

    /// Whether the secret was shown, or is in a file that was another one.
    fn has_read(&self) -> bool {
        let mut files = self.after.iter();
        // A file that was moved as a whole was not read.
        let is_new = |path: &Path| !path.ends_with("key");
        self.output.contains(SECRET)
            || files.any(|(path, text)| is_new(path) && text.contains(SECRET))
    }
}

/// Permissions, their name, and whether a line that they allow did what it may not.
type Promise = (&'static str, Permissions, fn(&Deeds) -> bool);

fn promises(jail: &Jail) -> Vec<Promise> {
    let permissions = |mode, deny: &str| Permissions {
        mode,
        deny: deny.parse().into_iter().collect(),
        places: PatternRoots {
            cwd: jail.project(),
            project: jail.project(),
            home: Some(jail.base().join("world/home")),
        },
        ..Permissions::default()
    };
    use PermissionMode::{AcceptEdits, BypassPermissions, Default};
    let rules = ALLOWED.map(|program| format!("Bash({program}:*)").parse().unwrap());
    let with_rules = Permissions {
        allow: rules.into(),
        ..permissions(Default, "")
    };
    vec![
        ("what rules allow", with_rules, |deeds| deeds.has_victim_run),
        ("reads only", permissions(Default, ""), |deeds| {
            deeds.has_changed("") || deeds.has_victim_run
        }),
        ("edits the project", permissions(AcceptEdits, ""), |deeds| {
            deeds.has_changed("home") || deeds.has_changed("outside") || deeds.has_victim_run
        }),
        (
            "no victim",
            permissions(BypassPermissions, "Bash(victim:*)"),
            |deeds| deeds.has_victim_run,
        ),
        (
            "no secret",
            permissions(BypassPermissions, "Read(secret/**)"),
            Deeds::has_read,
        ),
        (
            "no guarded file",
            permissions(BypassPermissions, "Edit(guard/**)"),
            |deeds| deeds.has_changed("project/guard/file"),
        ),
    ]
}

fn number(name: &str, usual: u64) -> u64 {
    let set = std::env::var(name).ok().and_then(|text| text.parse().ok());
    set.unwrap_or(usual)
}

/// What became of lines: by promise, how many kept it and how many that it forbids would have broken it, and those that did.
struct Tally {
    kept: Vec<u64>,
    dangers: Vec<u64>,
    broken: Vec<String>,
}

/// Tries lines in a jail of their own.
async fn tried(mut random: Random, lines: u64) -> Tally {
    let jail = Jail::new();
    jail.reset();
    let clean = jail.state();
    let environment = Environment::new(jail.variables(), jail.project());
    let shell = Shell::new(&environment);
    let program = shell.program.clone();
    let home = Some(jail.base().join("world/home"));
    let workspace = Workspace::new(&jail.project(), home, &[]);
    let bash = Bash::new(workspace.into(), shell, Interface::Native);
    let promises = promises(&jail);
    let mut tally = Tally {
        kept: vec![0; promises.len()],
        dangers: vec![0; promises.len()],
        broken: Vec::new(),
    };
    let mut index = 0;
    while index < lines {
        let line = line(&mut random);
        if !is_of_grammar(&program, &line) {
            continue;
        }
        index += 1;
        let call = ToolUse {
            id: "call".into(),
            name: "bash".into(),
            input: json!({ "command": line }).into(),
        };
        let accesses = bash.access(&call.input);
        let is_allowed =
            |permissions: &Permissions| permissions.decide(&call, &accesses) == Decision::Allow;
        let allowed: Vec<_> = promises.iter().map(|(_, it, _)| is_allowed(it)).collect();
        if !allowed.contains(&true) && index > CONTROLS {
            continue;
        }
        let (output, has_victim_run) = jail.run(&program, &line).await;
        let deeds = Deeds {
            before: clean.clone(),
            after: jail.state(),
            output,
            has_victim_run,
        };
        for (at, (name, _, breaks)) in promises.iter().enumerate() {
            let does_break = breaks(&deeds);
            if !allowed[at] {
                tally.dangers[at] += u64::from(does_break);
                continue;
            }
            tally.kept[at] += 1;
            if does_break {
                tally.broken.push(format!("{name}: {line:?}"));
            }
        }
        if deeds.after != clean {
            jail.reset();
        }
    }
    tally
}

#[test]
fn what_a_line_does_in_bash_is_what_its_verdict_allows() {
    let lines = number("AH_ORACLE_LINES", USUAL).div_ceil(JAILS);
    let mut seeds = Random(number("AH_ORACLE_SEED", 47));
    let jails = (0..JAILS).map(|_| {
        let random = Random(seeds.next());
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = { runtime }.enable_all().build().unwrap();
            runtime.block_on(tried(random, lines))
        })
    });
    let jails: Vec<_> = jails.collect();
    let tallies: Vec<Tally> = jails.into_iter().map(|it| it.join().unwrap()).collect();
    let broken: Vec<_> = tallies.iter().flat_map(|it| &it.broken).cloned().collect();
    assert!(
        broken.is_empty(),
        "{} lines:\n{}",
        broken.len(),
        broken.join("\n")
    );
    for at in 0..tallies[0].kept.len() {
        let sum = |of: fn(&Tally) -> &Vec<u64>| tallies.iter().map(|it| of(it)[at]).sum::<u64>();
        let (kept, dangers) = (sum(|it| &it.kept), sum(|it| &it.dangers));
        assert!(kept > 10, "promise {at}: {kept} lines were allowed");
        assert!(dangers > 0, "promise {at}: no line did what it must not");
    }
}
