//! The present conversation goes to the background: what runs is waited for or cut off, and goes on there.

use std::fs;

use ah_testkit::script::{Turn, hangs, says, uses};
use ah_testkit::server::Server;
use serde_json::json;

use crate::background::end;
use crate::support::binary::{World, wait_for_file};
use crate::support::pseudo_terminal::Seat;

/// What the terminal shows of a run that waits for its step.
const WAITS: &str = "to the background after this step";
const GONE: &str = "Running in the background. View: ah attach";

/// A call that waits for the file `go`.
fn waits() -> Turn {
    let command = "echo yes > begun; while [ ! -e go ]; do sleep 0.05; done; echo gone";
    uses("bash", json!({ "command": command }))
}

/// A call that waits for the file `on`.
fn waits_there() -> Turn {
    uses(
        "bash",
        json!({"command": "while [ ! -e on ]; do sleep 0.05; done"}),
    )
}

/// The key waits for the call that runs; the next one runs in the background, and is seen with the end of its output.
#[test]
fn a_run_goes_to_the_background_by_a_key_and_is_watched_there() {
    let world = World::new();
    let counts = uses(
        "bash",
        json!({"command": "while [ ! -e on ]; do echo tick; echo yes > counting; sleep 0.05; done; echo over"}),
    );
    let server = Server::new([waits(), counts, says("All is done.")]);
    let mut seat = Seat::take(world.asking(&server, ["-m", "sonnet"]));
    // Nothing runs yet; with something typed, the key is the editor's.
    seat.types("\x02");
    seat.sees("nothing is running");
    seat.types("Do t\x02\x02\x02\x02\x05.\r");
    seat.sees("> Do t.");
    wait_for_file(&world.file("begun"));
    seat.types("\x02");
    seat.sees(WAITS);
    world.write("go", "");
    seat.sees(GONE);
    assert_eq!(seat.leaves(), 0);
    wait_for_file(&world.file("counting"));
    let mut seat = Seat::take(world.as_typed(["attach"]));
    seat.sees("> Do t.");
    seat.sees("gone");
    seat.sees("working");
    seat.sees("    tick");
    world.write("on", "");
    seat.sees("All is done.");
    seat.sees_no_more("Esc interrupts");
    // There it is already.
    seat.types("\x02");
    seat.sees("Resume: ah -r");
    assert_eq!(seat.leaves(), 0);
    end(&world);
    assert_eq!(server.refusals(), Vec::<String>::new());
    assert_eq!(server.requests().len(), 3);
}

/// What a command's text allows holds for the run that it was typed for, in this terminal.
#[test]
fn what_a_command_allows_does_not_hold_in_the_background() {
    for goes in [false, true] {
        let world = World::new();
        let commands = world.home().join(".ah/commands");
        fs::create_dir_all(&commands).unwrap();
        let text = "---\nallowed-tools: Bash\n---\nMake it.";
        fs::write(commands.join("make.md"), text).unwrap();
        let touch = uses("bash", json!({"command": "touch made"}));
        let server = Server::new([waits(), touch, says("All is done.")]);
        let options = ["--no-sandbox", "-m", "sonnet"];
        let mut seat = Seat::take(world.asking(&server, options));
        seat.types("/make\r");
        wait_for_file(&world.file("begun"));
        if goes {
            seat.types("\x02");
            seat.sees(WAITS);
        }
        world.write("go", "");
        if goes {
            seat.sees(GONE);
            assert_eq!(seat.leaves(), 0);
            seat = Seat::take(world.as_typed(["attach"]));
            seat.sees("touch made");
            assert!(!world.file("made").exists());
            seat.types("n\r");
        }
        seat.sees("All is done.");
        assert_eq!(world.file("made").exists(), !goes);
        seat.types("\x04");
        seat.leaves();
        end(&world);
    }
}

/// A second press waits for nothing: the answer is asked for again.
#[test]
fn a_second_press_leaves_at_once() {
    let world = World::new();
    let server = Server::new([hangs("I begin to say"), waits(), says("All is said.")]);
    let mut seat = Seat::take(world.asking(&server, ["-m", "sonnet"]));
    seat.says("Say it.");
    seat.sees("I begin to say");
    seat.types("\x02");
    seat.sees(WAITS);
    seat.types("\x02");
    seat.sees(GONE);
    assert_eq!(seat.leaves(), 0);
    wait_for_file(&world.file("begun"));
    let seat = Seat::take(world.as_typed(["attach"]));
    seat.sees("> Say it.");
    world.write("go", "");
    seat.sees("All is said.");
    drop(seat);
    end(&world);
    let shown = world.as_typed(["-c", "scan"]).run().expect(0).stdout;
    assert!(!shown.contains("I begin"), "{shown}");
}

/// A question goes along, with what was chosen in the conversation; Esc after the key is an interrupt.
#[test]
fn a_question_is_asked_there_and_the_mode_goes_along() {
    let world = World::new();
    let server = Server::new([
        hangs("First"),
        uses("bash", json!({"command": "sh -c 'echo yes > a.txt'"})),
        uses("write", json!({"path": "b.txt", "content": "b\n"})),
        says("Written."),
    ]);
    let options = [
        "-m",
        "sonnet",
        "--no-sandbox",
        "--permission-mode",
        "default",
    ];
    let mut seat = Seat::take(world.asking(&server, options));
    seat.says("Wait.");
    seat.sees("First");
    seat.types("\x02");
    seat.sees(WAITS);
    seat.types("\x1b");
    seat.sees("interrupted");
    seat.sees_no_more(WAITS);
    seat.types("\x1b[Z");
    seat.sees("accept edits");
    seat.says("Write both.");
    seat.sees("bash: sh -c");
    seat.types("\x02");
    seat.sees(GONE);
    assert_eq!(seat.leaves(), 0);
    let mut seat = Seat::take(world.as_typed(["attach"]));
    seat.sees("The agent wants to use bash:");
    seat.sees("Allow it?");
    seat.says("y");
    // Edits need no answer in this mode.
    seat.sees("Written.");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
    assert_eq!(world.text("a.txt"), "yes\n");
    assert_eq!(world.text("b.txt"), "b\n");
    end(&world);
}

#[test]
fn a_prompt_begins_there() {
    let world = World::new();
    let server = Server::new([says("Hello."), waits(), says("All is done.")]);
    let mut seat = Seat::take(world.asking(&server, ["-m", "sonnet"]));
    seat.says("Hi.");
    seat.sees("Hello.");
    seat.sees_no_more("Esc interrupts");
    seat.says("/background Do it.");
    seat.sees(GONE);
    assert_eq!(seat.leaves(), 0);
    wait_for_file(&world.file("begun"));
    let seat = Seat::take(world.as_typed(["attach"]));
    seat.sees("Hello.");
    seat.sees("> Do it.");
    world.write("go", "");
    seat.sees("All is done.");
    drop(seat);
    end(&world);
}

/// In a worktree, which stays although nothing in it has changed yet.
#[test]
fn a_worktree_goes_along() {
    let world = crate::worktrees::repository();
    let server = Server::new([hangs("I begin"), waits(), says("All is done.")]);
    let mut seat = Seat::take(world.asking(&server, ["-m", "sonnet", "-w"]));
    seat.says("Do it.");
    seat.sees("I begin");
    seat.types("\x02");
    seat.sees(WAITS);
    seat.types("\x02");
    seat.sees(GONE);
    assert_eq!(seat.leaves(), 0);
    wait_for_file(&world.file(".ah/worktrees/1/begun"));
    let mut seat = Seat::take(world.as_typed(["attach"]));
    world.write(".ah/worktrees/1/go", "");
    seat.sees("All is done.");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
    end(&world);
}

/// A command that is queued is looked up there, once the run has ended.
#[test]
fn what_is_queued_goes_along() {
    let world = World::new();
    world.write(".ah/commands/ship.md", "Ship it now.\n");
    let server = Server::new([
        waits(),
        waits_there(),
        says("The first is done."),
        says("Shipped."),
    ]);
    let mut seat = Seat::take(world.asking(&server, ["-m", "sonnet", "--trust"]));
    seat.says("Do it.");
    wait_for_file(&world.file("begun"));
    seat.says("/ship");
    seat.sees("queued for later: /ship");
    seat.types("\x02");
    seat.sees(WAITS);
    world.write("go", "");
    seat.sees(GONE);
    assert_eq!(seat.leaves(), 0);
    let seat = Seat::take(world.as_typed(["attach"]));
    world.write("on", "");
    seat.sees("The first is done.");
    seat.sees("Shipped.");
    drop(seat);
    end(&world);
    let last = server.requests().last().unwrap().body.to_string();
    assert!(last.contains("Ship it now."), "{last}");
}

/// The model that a command names is that of its run, wherever it ends, and of no later one.
#[test]
fn a_model_that_a_command_names_goes_along() {
    let world = World::new();
    world.write(
        ".ah/commands/quick.md",
        "---\nmodel: haiku\n---\nDo it quickly.\n",
    );
    world.write(".ah/settings.json", r#"{"model": "sonnet"}"#);
    let server = Server::new([
        waits(),
        waits_there(),
        says("Quickly done."),
        says("As usual."),
    ]);
    let mut seat = Seat::take(world.asking(&server, ["--trust"]));
    seat.says("/quick");
    wait_for_file(&world.file("begun"));
    seat.types("\x02");
    seat.sees(WAITS);
    world.write("go", "");
    seat.sees(GONE);
    assert_eq!(seat.leaves(), 0);
    let mut seat = Seat::take(world.as_typed(["attach"]));
    world.write("on", "");
    seat.sees("Quickly done.");
    seat.sees_no_more("Esc interrupts");
    seat.says("And now?");
    seat.sees("As usual.");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
    end(&world);
    let models = server.requests().into_iter();
    let models: Vec<_> = models
        .map(|request| request.body["model"].as_str().unwrap().to_owned())
        .collect();
    for (model, name) in models.iter().zip(["haiku", "haiku", "haiku", "sonnet"]) {
        assert!(model.contains(name), "{models:?}");
    }
}

/// A file elsewhere is no session of the folder, and the next one is.
#[test]
fn only_a_session_of_the_folder_goes() {
    let world = World::new();
    let server = Server::new([
        hangs("I begin"),
        hangs("I begin again"),
        says("All is said."),
    ]);
    let mut seat = Seat::take(world.asking(&server, ["-m", "sonnet", "--db", "elsewhere.db"]));
    seat.says("Say it.");
    seat.sees("I begin");
    seat.types("\x02");
    seat.sees("only a stored session of this folder can go to the background");
    seat.types("\x1b");
    seat.sees("interrupted");
    seat.says("/new");
    seat.says("Say it again.");
    seat.sees("I begin again");
    seat.types("\x02");
    seat.sees(WAITS);
    seat.types("\x02");
    seat.sees(GONE);
    assert_eq!(seat.leaves(), 0);
    end(&world);
}

/// It holds the session open, so it is given up; the answer that it would have got belongs to no later session either.
#[test]
fn a_run_goes_to_the_background_with_a_side_question_unanswered() {
    let world = World::new();
    let server = Server::new([waits(), hangs("It"), waits_there(), says("All is done.")]);
    let mut seat = Seat::take(world.asking(&server, ["-m", "sonnet"]));
    seat.says("Do it.");
    wait_for_file(&world.file("begun"));
    seat.says("/btw what is it?");
    server.wait_until(|requests| requests.len() == 2);
    seat.types("\x02");
    seat.sees(WAITS);
    world.write("go", "");
    seat.sees(GONE);
    assert_eq!(seat.leaves(), 0);
    server.wait_until(|requests| requests.len() == 3);
    let mut seat = Seat::take(world.as_typed(["attach"]));
    world.write("on", "");
    seat.sees("All is done.");
    seat.types("\x04");
    seat.leaves();
    end(&world);
}
