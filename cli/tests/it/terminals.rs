//! The terminals of the user: what runs unasked neither writes to one nor reads from it, in any manner, and no program that the
//! engine starts has one as `/dev/tty`.

use std::fs;
use std::io::Read as _;
use std::os::fd::AsFd as _;

use ah_testkit::mcp::McpScript;
use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use rustix::fs::OFlags;
use serde_json::json;

use crate::sandbox;
use crate::support::binary::{World, open_terminal};
use crate::support::pseudo_terminal::Seat;

/// A sequence that sets the clipboard, with the number of the line that has written it; the same as `printf` is told it.
const LOOT: &str = "\x1b]52;c;LOOT";
const TOLD: &str = r"\033]52;c;LOOT";
/// What somebody has typed at another terminal.
const TYPED: &str = "typed-elsewhere";

/// Lines that write to the terminal of the session. `MARK` is the sequence for `printf`, `LOOTFILE` a file with it, `PTS` another
/// terminal of the user, `LINK` and `TTYLINK` links to these in the project.
const OWN: [&str; 16] = [
    "printf 'MARK' > /dev/tty",
    "printf 'MARK' >> /dev/tty",
    "cat LOOTFILE 2>/dev/null > /dev/tty",
    "tee /dev/tty < LOOTFILE",
    "cp LOOTFILE /dev/tty",
    "cat LOOTFILE > TTYLINK",
    "tee TTYLINK < LOOTFILE",
    "printf 'MARK' >&0",
    "printf 'MARK' > /dev/stdin",
    "printf 'MARK' > /proc/self/fd/0",
    "for fd in 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do printf 'MARK' >&$fd; done",
    "printf 'MARK' > /proc/$PPID/fd/1",
    "cat LOOTFILE > /proc/$PPID/fd/2",
    "for fd in /proc/*/fd/0; do case $(readlink $fd) in PTS) cat LOOTFILE > $fd;; esac; done",
    "sort -o /dev/tty LOOTFILE",
    "head -n 1 /dev/tty",
];

/// Lines that write to another terminal by its number.
const BY_NUMBER: [&str; 22] = [
    "printf 'MARK' > PTS",
    "printf 'MARK' >> PTS",
    "printf 'MARK' 1<> PTS",
    "cat LOOTFILE > PTS",
    "tee PTS < LOOTFILE",
    "tee -a PTS < LOOTFILE",
    "cp LOOTFILE PTS",
    "dd if=LOOTFILE of=PTS conv=notrunc",
    "sort -o PTS LOOTFILE",
    "uniq LOOTFILE PTS",
    "sed -n 'w PTS' LOOTFILE",
    "awk '{ print > \"PTS\" }' LOOTFILE",
    "find LOOTFILE -fprintf PTS 'MARK'",
    "git diff --no-index --output=PTS /dev/null LOOTFILE",
    "cat LOOTFILE > LINK",
    "cp LOOTFILE LINK",
    "tee LINK < LOOTFILE",
    "bash -c 'cat LOOTFILE > PTS'",
    "exec 5<>PTS; cat LOOTFILE >&5",
    "python3 -c 'open(\"PTS\", \"w\").write(open(\"LOOTFILE\").read())'",
    "python3 -c 'import fcntl, termios; f = open(\"PTS\"); [fcntl.ioctl(f, termios.TIOCSTI, bytes([c])) for c in open(\"LOOTFILE\", \"rb\").read()]'",
    "x=PTS; cat LOOTFILE > $x",
];

/// Lines that read what is typed at another terminal.
const READING: [&str; 9] = [
    "head -n 1 PTS",
    "timeout 1 cat PTS",
    "timeout 1 cat LINK",
    "timeout 1 cat < PTS",
    "read -r line < PTS; echo $line",
    "timeout 1 grep -m 1 -r . PTS",
    "timeout 1 sed 1q PTS",
    "timeout 1 dd if=PTS bs=20 count=1",
    "timeout 1 python3 -c 'print(open(\"PTS\").readline())'",
];

/// Manners in which nobody is asked, and nothing was allowed.
const MANNERS: [&[&str]; 10] = [
    &["-p", "--no-sandbox"],
    &["-p", "--no-sandbox", "--permission-mode", "plan"],
    &["-p", "--no-sandbox", "--permission-mode", "acceptEdits"],
    &["-p", "--no-sandbox", "--permission-mode", "dontAsk"],
    &["-n", "--no-sandbox"],
    &["-n", "--no-sandbox", "--permission-mode", "plan"],
    &["-n", "--no-sandbox", "--permission-mode", "acceptEdits"],
    &["-n", "--sandbox"],
    &["-n", "--sandbox", "--dangerously-skip-permissions"],
    &["-n", "--sandbox=landlock", "--dangerously-skip-permissions"],
];
/// A manner in which all was allowed.
const ALLOWED: &[&str] = &["-n", "--no-sandbox", "--dangerously-skip-permissions"];

/// What has come through of the lines.
struct Outcome {
    own: Vec<usize>,
    other: Vec<usize>,
    was_read: bool,
}

/// Runs lines in a session at a terminal, one call each.
fn outcome(manner: &[&str], lines: &[&str]) -> Outcome {
    let world = World::new();
    let (mut person, other) = open_terminal();
    let other_name = rustix::termios::ttyname(&other, Vec::new()).unwrap();
    let other_name = other_name.to_str().unwrap().to_owned();
    std::os::unix::fs::symlink(&other_name, world.file("other-link")).unwrap();
    std::os::unix::fs::symlink("/dev/tty", world.file("tty-link")).unwrap();
    rustix::io::write(&person, format!("{TYPED}\n").repeat(lines.len()).as_bytes()).unwrap();
    let calls = lines.iter().enumerate().map(|(number, line)| {
        let file = format!("loot-{number}");
        world.write(&file, format!("{LOOT}{number}.\x07\n"));
        let line = line
            .replace("MARK", &format!("{TOLD}{number}.\\007"))
            .replace("TTYLINK", "tty-link")
            .replace("LINK", "other-link")
            .replace("LOOTFILE", &file)
            .replace("PTS", &other_name);
        uses("bash", json!({"command": line, "timeout": 5_000}))
    });
    let tools = [
        uses("read", json!({"path": other_name})),
        uses("read", json!({"path": "other-link"})),
        uses("grep", json!({"pattern": "typed", "path": other_name})),
    ];
    let server = Server::new(calls.chain(tools).chain([says("Done.")]));
    let arguments = manner.iter().copied().chain(["-m", "sonnet", "go"]);
    let ah = world.asking_as_typed(&server, arguments);
    // It is its terminal, though nobody can be asked there.
    let seat = Seat::seeing(
        ah.through("sh", ["-c", "exec \"$0\" \"$@\" < /dev/null"]),
        80,
        24,
    );
    seat.wait_until("its end", |_, screen| screen.contains("Done."));
    let own = come(&seat.bytes(), LOOT, lines.len());
    seat.leaves();
    let requests = server.requests();
    let told = requests
        .iter()
        .map(|request| request.body["messages"].to_string());
    let told: String = told.collect();
    let flags = rustix::fs::fcntl_getfl(&person).unwrap();
    rustix::fs::fcntl_setfl(person.as_fd(), flags | OFlags::NONBLOCK).unwrap();
    let mut seen = Vec::new();
    // There is nothing more at the moment.
    let _ = person.read_to_end(&mut seen);
    drop(other);
    Outcome {
        own,
        // The terminal shows what is put into its input in a form of its own.
        other: come(&seen, "52;c;LOOT", lines.len()),
        was_read: told.contains(TYPED),
    }
}

/// Returns the numbers of the lines whose mark is in what a terminal was sent.
fn come(bytes: &[u8], mark: &str, lines: usize) -> Vec<usize> {
    let text = String::from_utf8_lossy(bytes);
    let is_there = |number: &usize| text.contains(&format!("{mark}{number}."));
    (0..lines).filter(is_there).collect()
}

#[test]
fn what_runs_unasked_neither_writes_to_a_terminal_nor_reads_from_it() {
    let is_missing = sandbox::is_missing();
    let lines: Vec<_> = OWN
        .iter()
        .chain(&BY_NUMBER)
        .chain(&READING)
        .copied()
        .collect();
    let mut faults = Vec::new();
    for manner in MANNERS {
        if is_missing && manner.iter().any(|word| word.starts_with("--sandbox")) {
            continue;
        }
        let outcome = outcome(manner, &lines);
        let through = outcome.own.iter().chain(&outcome.other);
        faults.extend(through.map(|number| format!("{manner:?}: {}", lines[*number])));
        if outcome.was_read {
            faults.push(format!("{manner:?}: what was typed elsewhere was read"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// A control: the lines do what they are for. That an allowed command writes to a terminal by its number is known.
#[test]
fn what_was_allowed_can_use_a_terminal_by_its_number_and_no_command_has_one() {
    let written = outcome(ALLOWED, &BY_NUMBER);
    let missed: Vec<_> = (0..BY_NUMBER.len())
        .filter(|number| !written.other.contains(number))
        .map(|number| BY_NUMBER[number])
        .collect();
    assert!(missed.is_empty(), "{missed:?}");
    for line in READING {
        let read = outcome(ALLOWED, &[line]);
        assert!(read.was_read, "{line}");
    }
    let own = outcome(ALLOWED, &OWN[..7]);
    assert_eq!(own.own, Vec::<usize>::new());
}

/// Hooks, the status line, servers, notifications, lines of the user's and executables as tools.
#[test]
fn no_program_of_the_engine_has_the_terminal() {
    let world = World::new();
    let (marks, bin) = (world.home().join("marks"), world.file(".ah/bin"));
    fs::create_dir(&marks).unwrap();
    fs::create_dir_all(&bin).unwrap();
    let tries = |name: &str| {
        let mark = marks.join(name).display().to_string();
        format!(
            "if (printf '{TOLD}0.\\007' > /dev/tty) 2>/dev/null; then echo held > {mark}; else echo free > {mark}; fi"
        )
    };
    let server = McpScript::new()
        .start(&format!("{}\n", tries("server")))
        .tool("greet");
    let script = format!("#!/bin/sh\n{}\necho '{{}}'\n", tries("tool"));
    let tool = world.write(".ah/bin/own", script);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&tool, mode).unwrap();
    let hook = |name: &str| json!([{"hooks": [{"type": "command", "command": tries(name)}]}]);
    let settings = json!({
        "mcpServers": {"s": server.config()},
        "statusLine": {"type": "command", "command": format!("{}; echo ready", tries("status"))},
        "notify": {"command": tries("notify")},
        "hooks": {"UserPromptSubmit": hook("prompt"), "PreToolUse": hook("hook"), "Stop": hook("stop")},
    });
    world.write(
        ".claude/commands/look.md",
        format!("Look: !`{}`", tries("line")),
    );
    let turns = [
        uses("bash", json!({"command": tries("bash")})),
        says("Done."),
    ];
    let server = Server::new(turns);
    let settings = settings.to_string();
    let arguments = ["-m", "sonnet", "--trust", "--settings", &settings];
    let mut seat = Seat::take(world.asking(&server, arguments));
    seat.sees("ready");
    seat.says(&format!("!{}", tries("bang")));
    crate::support::binary::wait_for_file(&marks.join("bang"));
    seat.sees_no_more("interrupts");
    seat.says("/look");
    seat.sees("Done.");
    seat.sees_no_more("interrupts");
    assert_eq!(come(&seat.bytes(), LOOT, 1), Vec::<usize>::new());
    seat.types("\x04");
    seat.leaves();
    let held: Vec<_> = { fs::read_dir(&marks).unwrap() }
        .map(|entry| entry.unwrap().path())
        .filter(|path| fs::read_to_string(path).unwrap() != "free\n")
        .collect();
    assert!(held.is_empty(), "{held:?}");
    for name in [
        "server", "status", "prompt", "hook", "stop", "bash", "bang", "line",
    ] {
        assert!(marks.join(name).exists(), "{name}");
    }
}
