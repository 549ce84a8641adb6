//! What is seen at a glance: who speaks, what is asked, what is being done, and what a key or a command has changed.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use serde_json::json;

use super::waits_for;
use crate::support::binary::World;
use crate::support::pseudo_terminal::Seat;

const ASKING: [&str; 5] = [
    "-m",
    "sonnet",
    "--no-sandbox",
    "--permission-mode",
    "default",
];

fn leave(mut seat: Seat) {
    seat.sees_no_more("interrupts");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
}

/// What was said is in reverse video, a question has the colour of warnings, the input a rule above it, and the task list stays in
/// sight.
#[test]
fn speech_questions_and_tasks_are_told_apart() {
    let world = World::new();
    let todo = json!({"todos": [
        {"content": "Look", "status": "completed", "activeForm": "Looking"},
        {"content": "Touch", "status": "in_progress", "activeForm": "Touching it"},
        {"content": "Tell", "status": "pending", "activeForm": "Telling"},
    ]});
    let server = Server::new([
        uses("todo", todo),
        uses("bash", json!({"command": "touch a"})),
        waits_for("go"),
        says("Done."),
    ]);
    let mut seat = Seat::take(world.asking(&server, ASKING));
    seat.says("do it");
    seat.sees("bash: touch a");
    seat.sees("Allow?");
    seat.sees("  ▶ Touching it\n  ☐ Tell\n");
    seat.says("y");
    seat.sees("  bash until");
    seat.sees("  ▶ Touching it\n  ☐ Tell\n────────");
    world.write("go", "");
    seat.sees("Done.");
    seat.sees_no_more("interrupts");
    // The list is printed once, at its end.
    assert_eq!(seat.scrollback().matches("Touching it").count(), 1);
    let bytes = String::from_utf8_lossy(&seat.bytes()).into_owned();
    assert!(bytes.contains("\x1b[1;7m> do it\x1b[0m"));
    assert!(bytes.contains("\x1b[1m\x1b[35mbash: touch a\x1b[0m"));
    leave(seat);
}

/// The model that was chosen a moment ago counts, in the report on the context and in a copy of the session, which is told in a
/// line.
#[test]
fn a_model_that_was_chosen_counts_at_once() {
    let world = World::new();
    world.write("AGENTS.md", "Be brief.\n");
    let server = Server::new([says("Hello."), says("From the copy.")]);
    let mut seat = Seat::of_size(world.asking(&server, ["-m", "sonnet", "--trust"]), 80, 50);
    seat.says("Hi");
    seat.sees("Hello.");
    seat.sees_no_more("interrupts");
    seat.says("/model opus");
    seat.sees("claude-opus");
    seat.says("/context");
    seat.sees("context window of claude-opus");
    for part in ["  built-in prompt\n", "/project/AGENTS.md\n"] {
        seat.sees(part);
    }
    assert!(!seat.screen().contains("claude.md"), "{}", seat.screen());
    seat.says("/memory");
    seat.sees("/project/AGENTS.md\n");
    seat.says("/fork");
    seat.sees("continuing in a copy: session 01");
    seat.says("and here?");
    seat.sees("From the copy.");
    seat.sees_no_more("interrupts");
    assert_eq!(seat.scrollback().matches("Hello.").count(), 1);
    assert!(
        seat.screen().contains(" · claude-opus"),
        "{}",
        seat.screen()
    );
    let requests = server.requests();
    let models: Vec<_> = { requests.iter() }
        .map(|request| request.body["model"].as_str().unwrap().to_owned())
        .collect();
    assert!(models[1].starts_with("claude-opus"), "{models:?}");
    // Two Escs that come together, as tmux passes them on.
    seat.types("\x1b\x1b");
    seat.sees("edit:");
    seat.types("\x1b");
    seat.sees_no_more("edit:");
    leave(seat);
}

/// What is queued behind a command of the user's comes back when that is stopped, as behind a run.
#[test]
fn what_is_queued_behind_a_command_comes_back() {
    let world = World::new();
    let server = Server::new([says("Unused.")]);
    let mut seat = Seat::take(world.asking(&server, ["-m", "sonnet"]));
    seat.says("!until [ -e go ]; do sleep 0.02; done");
    seat.sees("  ! until");
    seat.says("hello queued");
    seat.sees("queued for the next step: hello queued");
    seat.types("\x03");
    seat.sees("[stopped]");
    seat.sees("\n> hello queued\n");
    seat.sees_no_more("interrupts");
    assert_eq!(server.requests().len(), 0);
    seat.types("\x15");
    seat.sees_no_more("> hello");
    leave(seat);
}

/// Whoever leaves is told what that stops.
#[test]
fn what_is_stopped_by_leaving_is_said() {
    let world = World::new();
    let waits = json!({"command": "sleep 1000", "run_in_background": true});
    let server = Server::new([uses("bash", waits), says("Started.")]);
    let mut seat = Seat::take(world.asking(&server, ["-m", "sonnet"]));
    seat.says("begin");
    seat.sees("Started.");
    seat.sees("1 task running");
    seat.types("\x04");
    seat.wait_until("what is stopped", |bytes, _| {
        String::from_utf8_lossy(bytes).contains("1 background task stopped")
    });
    assert_eq!(seat.leaves(), 0);
    world.assert_nothing_runs();
}

/// tmux drops a program's own sequence for the clipboard by default.
#[test]
fn in_tmux_its_clipboard_is_used() {
    let world = World::new();
    let folder = world.home().join("bin");
    fs::create_dir_all(&folder).unwrap();
    let (program, kept) = (folder.join("tmux"), world.home().join("kept"));
    let text = format!(
        "#!/bin/sh\necho \"$@\" > {0}.args\ncat > {0}\n",
        kept.display()
    );
    fs::write(&program, text).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let server = Server::new([says("An answer.")]);
    let ah = world.asking(&server, ["-m", "sonnet"]);
    let path = format!("{}:/usr/bin:/bin", folder.display());
    let mut seat = Seat::take(ah.env("TMUX", "/tmp/x,1,0").env("PATH", path));
    seat.says("Hi");
    seat.sees("An answer.");
    seat.sees_no_more("interrupts");
    seat.says("/copy");
    seat.sees("copied 10 characters");
    assert_eq!(fs::read_to_string(&kept).unwrap(), "An answer.");
    let arguments = fs::read_to_string(format!("{}.args", kept.display())).unwrap();
    assert_eq!(arguments, "load-buffer -w -\n");
    assert!(!String::from_utf8_lossy(&seat.bytes()).contains("\x1b]52;"));
    leave(seat);
}

/// A plan is laid out where it is asked about, and not printed again.
#[test]
fn a_plan_is_shown_once() {
    let world = World::new();
    let plan = json!({"plan": "# Paint\n\n- the **door**\n"});
    let server = Server::new([uses("exit_plan_mode", plan), says("Painted.")]);
    let arguments = ["-m", "sonnet", "--permission-mode", "plan"];
    let mut seat = Seat::take(world.asking(&server, arguments));
    seat.says("paint");
    seat.sees("• the door");
    seat.sees("yes, back to `");
    seat.sees("Approve?");
    seat.says("y");
    seat.sees("Painted.");
    seat.sees_no_more("interrupts");
    let shown = seat.scrollback();
    assert_eq!(shown.matches("the door").count(), 1, "{shown}");
    assert!(!shown.contains("**"), "{shown}");
    leave(seat);
}

/// A line and its Enter that were typed before the terminal was taken are said, and shown as said.
#[test]
fn a_line_that_is_typed_before_anything_is_drawn_is_sent() {
    let world = World::new();
    let server = Server::new([says("Hello.")]);
    let mut seat = Seat::seeing(world.asking(&server, ["-m", "sonnet"]), 80, 24);
    seat.says("early bird");
    seat.sees("Hello.");
    seat.sees("\n> early bird\n");
    leave(seat);
}

/// What was answered stands below its question, and not a second time as the result of a call.
#[test]
fn an_answer_is_shown_once_on_any_terminal() {
    for term in ["dumb", "xterm-256color"] {
        let world = World::new();
        let options = json!([
            {"label": "SQLite", "description": "a file"},
            {"label": "PostgreSQL", "description": "a server"},
        ]);
        let question = json!({
            "question": "Which database?", "header": "Database", "multiSelect": false, "options": options,
        });
        let server = Server::new([
            uses("ask_user_question", json!({"questions": [question]})),
            says("Thanks."),
        ]);
        let ah = world.asking(&server, ["-n", "-m", "sonnet"]);
        let mut seat = Seat::take(ah.env("TERM", term));
        seat.says("ask me");
        seat.sees("A number, or your own words:");
        seat.says("2");
        seat.sees("Thanks.");
        let screen = seat.screen();
        assert!(!screen.contains("The user has answered"), "{screen}");
        drop(seat);
    }
}
