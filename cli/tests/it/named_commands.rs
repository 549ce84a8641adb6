//! The commands that texts name: each can be typed, and does what is said in the state in which it is named.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use ah_cli::args::{Action, KnownNames, parse};
use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use regex::Regex;
use serde_json::json;

use crate::binary::{Ended, World, wait_for_file};
use crate::docs::words;
use crate::seat::Seat;

/// The sources below a folder, without tests.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_test = path.file_stem().is_some_and(|stem| stem == "tests");
        if path.is_dir() && !is_test {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") && !is_test {
            found.push(path);
        }
    }
}

/// Returns the commands that the texts of a source name, with something in the place of what is filled in.
fn commands(path: &Path) -> Vec<String> {
    let is_help = path.components().any(|part| part.as_os_str() == "args");
    let source = fs::read_to_string(path).unwrap();
    let source = source.split("#[cfg(test)]").next().unwrap();
    let is_text = |line: &&str| {
        let line = line.trim_start();
        !line.starts_with("//") || is_help && line.starts_with("///")
    };
    let text: Vec<_> = source.lines().filter(is_text).collect();
    let joined = Regex::new(r"\\\n\s*").unwrap();
    let text = text.join("\n");
    let text = joined.replace_all(&text, "");
    let named = Regex::new(r"`(ah [^`\n]+)`").unwrap();
    let filled = Regex::new(r"\{[^}]*\}").unwrap();
    let commands = named.captures_iter(&text).map(|found| found[1].to_owned());
    commands
        // All of it is filled in.
        .filter(|command| !filled.is_match(command.split(' ').nth(1).unwrap()))
        .map(|command| filled.replace_all(&command, "1").replace("\\\"", "\""))
        // The name of a phase.
        .map(|command| command.replace("ah work 1", "ah work plan"))
        .collect()
}

/// What is said of commands that take more.
const NAMED: [&str; 3] = [
    "required arguments were not provided",
    "a value is required",
    "needs a command",
];

/// Returns why a command cannot be typed as it stands.
fn fault(command: &str) -> Option<String> {
    let names = KnownNames {
        is_tool: &|_| false,
        is_session: &|word| ["ID", "1"].contains(&word),
    };
    let is_prompt = ["\"", "PROMPT", "TASK", "MESSAGE", "WORDS"];
    let is_prompt = is_prompt.iter().any(|sign| command.contains(sign));
    let command = command.split(" < ").next().unwrap();
    let command = command.replace("@N", "@1").replace(" N ", " 1 ");
    let typed = words(&command).into_iter().skip(1).map(OsString::from);
    match parse(typed.collect(), &names) {
        // It is named, and what it takes is left out.
        Err(error) if NAMED.iter().any(|words| error.message.contains(words)) => None,
        Err(error) => Some(error.to_string()),
        // What is no command would be sent to a model.
        Ok(parsed) => match parsed.action {
            Action::Run(prompt) if prompt.text.is_some() && !is_prompt => {
                Some(format!("it would be a prompt: {prompt:?}"))
            }
            _ => None,
        },
    }
}

#[test]
fn every_command_that_a_text_names_can_be_typed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for crate_ in fs::read_dir(&root).unwrap().flatten() {
        sources(&crate_.path().join("src"), &mut files);
    }
    let mut count = 0;
    let mut faults = Vec::new();
    for path in files {
        for command in commands(&path) {
            count += 1;
            let fault = fault(&command);
            faults.extend(fault.map(|fault| format!("{}: {command}: {fault}", path.display())));
        }
    }
    assert!(count > 80, "{count}");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Runs the command that stands behind these words, as a shell would in the project.
fn typed(world: &World, text: &str, behind: &str) -> Ended {
    let at = text
        .find(behind)
        .unwrap_or_else(|| panic!("no `{behind}`: {text}"));
    let rest = &text[at + behind.len()..];
    let line = rest.split(['`', '\n', ',', ';']).next().unwrap().trim();
    let words = words(line);
    assert_eq!(words.first().map(String::as_str), Some("ah"), "{line}");
    let server = Server::new([says("Here I am.")]);
    let words = words.iter().skip(1).map(String::as_str);
    world.asking_as_typed(&server, words).run()
}

/// What is printed at the end, in errors and as hints, leads where it says.
#[test]
fn a_named_command_does_what_is_said_in_that_state() {
    let world = World::new();
    let ran = |turns: Vec<_>, words: &[&str]| {
        let server = Server::new(turns);
        let words = ["-m", "sonnet"].iter().chain(words).copied();
        world.asking(&server, words).run()
    };
    // No session yet.
    let none = world.as_typed(["tree"]).run();
    let begun = none.stderr.replace("TASK", "Do it.");
    let ended = typed(&world, &begun, "start one with `").expect(0);
    assert!(ended.stdout.contains("Here I am."), "{}", ended.stdout);
    ran(vec![says("The first one.")], &["-n", "First."]).expect(0);
    let edit = uses("write", json!({"path": "a.txt", "content": "a\n"}));
    ran(vec![edit, says("The second one.")], &["-n", "Second."]).expect(0);
    // An undo names what reverses it.
    let undone = world.as_typed(["undo"]).run().expect(0);
    assert!(!world.file("a.txt").exists());
    typed(&world, &undone.stdout, "changed; `").expect(0);
    assert_eq!(world.text("a.txt"), "a\n");
    // What looks like a subcommand and is none.
    let refused = world.as_typed(["undo", "the", "last", "edit"]).run();
    assert_ne!(refused.code, Some(0));
    let ended = typed(&world, &refused.stderr, "begins so: ").expect(0);
    assert!(ended.stdout.contains("Here I am."), "{}", ended.stdout);
    // A message that is not there.
    let missing = world.as_typed(["show", "99"]).run();
    let ended = typed(&world, &missing.stderr, "hint: `").expect(0);
    assert!(ended.stdout.contains("Second."), "{}", ended.stdout);
    // A session that nobody runs.
    let idle = world.as_typed(["attach"]).run();
    assert!(idle.stderr.contains("ah -d PROMPT"), "{}", idle.stderr);
    let id = newest(&world);
    let idle = world.as_typed(["attach", &id]).run().expect(0);
    let ended = typed(&world, &idle.stderr, "not running; `").expect(0);
    assert!(ended.stdout.contains("Second."), "{}", ended.stdout);
}

/// The id of the newest session.
fn newest(world: &World) -> String {
    let listed = world.as_typed(["sessions", "--json"]).run().expect(0);
    let listed: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap();
    let mut ids: Vec<_> = { listed.as_array().unwrap().iter() }
        .map(|session| session["id"].as_str().unwrap().to_owned())
        .collect();
    ids.sort();
    ids.pop().unwrap()
}

/// While another terminal has the session open: each way out of the error is one.
#[test]
fn every_way_out_of_a_busy_session_is_one() {
    let world = World::new();
    let waits = uses(
        "bash",
        json!({"command": "echo yes > begun; while [ ! -e go ]; do sleep 0.05; done"}),
    );
    let server = Server::new([waits, says("And this."), says("All is done.")]);
    let mut seat = Seat::take(world.asking(&server, ["-m", "sonnet", "-n"]));
    seat.says("Wait.");
    wait_for_file(&world.file("begun"));
    let id = newest(&world);
    let busy = world
        .asking_as_typed(&server, ["-r", &id, "@1", "More."])
        .run();
    assert_ne!(busy.code, Some(0));
    let hint = busy.stderr.replace("MESSAGE", "\"And this?\"");
    let queued = typed(&world, &hint, "queue a message with `").expect(0);
    assert_eq!(queued.stdout, "");
    for way in ["start a new one with `", "continue in a copy with `"] {
        let hint = hint.replacen("`,", " Hello`,", 2);
        let hint = hint.replace("--fork-session`", "--fork-session Hello`");
        let ended = typed(&world, &hint, way).expect(0);
        assert!(ended.stdout.contains("Here I am."), "{}", ended.stdout);
    }
    world.write("go", "");
    seat.sees("> And this?");
    seat.sees("All is done.");
    seat.types("\x04");
    seat.sees("Resume: ");
    // The goodbye names the session of this terminal first, unless another was used since.
    let screen = seat.screen();
    assert_eq!(seat.leaves(), 0);
    let goodbye = screen.replace(&format!("ah -r {id}"), &format!("ah -r {id} scan"));
    let ended = typed(&world, &goodbye, ", or ").expect(0);
    assert!(ended.stdout.contains("And this?"), "{}", ended.stdout);
}
