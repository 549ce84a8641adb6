//! A session that other processes write to, and prompts that override run options.

use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use serde_json::json;

use crate::binary::World;
use crate::seat::Seat;

#[test]
fn what_others_write_while_nothing_is_on_is_answered() {
    let world = World::new();
    let server = Server::new(["One.", "Two."].map(says));
    let mut seat = Seat::take(world.asking(&server, ["-m", "sonnet"]));
    seat.says("first");
    seat.sees("One.");
    seat.sees_no_more("Esc interrupts");
    seat.types("half a sen");
    let elsewhere = world.asking(&server, ["-m", "sonnet", "from elsewhere"]);
    elsewhere.run().expect(0);
    seat.sees("follow-up: from elsewhere");
    seat.sees("Two.");
    seat.sees_no_more("Esc interrupts");
    seat.types("tence");
    seat.sees("> half a sentence");
    seat.types("\x15\x04");
    assert_eq!(seat.leaves(), 0);
    let connection = crate::talk::open_sound(&world.database());
    assert_eq!(
        crate::talk::texts(&connection, "user"),
        ["first", "from elsewhere"]
    );
    assert_eq!(server.refusals(), Vec::<String>::new());
}

#[test]
fn a_command_has_its_own_model_and_rules_for_its_run() {
    let world = World::new();
    let command = world.home().join(".ah/commands/mark.md");
    std::fs::create_dir_all(command.parent().unwrap()).unwrap();
    let text = "---\nmodel: haiku\nallowed-tools: Bash(touch marked)\n---\nMark it.\n";
    std::fs::write(command, text).unwrap();
    let touches = || uses("bash", json!({"command": "touch marked"}));
    let server = Server::by_history([touches(), says("Marked."), touches(), says("Again.")]);
    let asking = ["--no-sandbox", "--permission-mode", "default"];
    let ah = world.asking(&server, asking).env("AH_MODEL", "sonnet");
    let mut seat = Seat::take(ah);
    seat.types("/mark \r");
    seat.sees("Marked.");
    seat.sees_no_more("Esc interrupts");
    seat.sees("claude-sonnet");
    assert!(world.file("marked").exists());
    seat.says("mark it again");
    seat.sees("Allow?");
    seat.says("y");
    seat.sees("Again.");
    seat.sees_no_more("Esc interrupts");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
    let models = server.requests();
    let models = models.iter().map(|request| {
        let model = request.body["model"].as_str().unwrap();
        model.split('-').nth(1).unwrap().to_owned()
    });
    assert_eq!(
        models.collect::<Vec<_>>(),
        ["haiku", "haiku", "sonnet", "sonnet"]
    );
}

#[test]
fn a_repository_has_one_place_for_its_sessions() {
    let world = World::new();
    world.write(".git/HEAD", "ref: refs/heads/main\n");
    world.write("deep/down/file", "x");
    let below = world.file("deep/down");
    let server = Server::new([says("One."), says("Two.")]);
    let begun = world.asking(&server, ["-m", "sonnet", "first"]);
    begun.within(&below).run().expect(0);
    assert!(!below.join(".ah").exists());
    // From the top, and from another folder, it goes on.
    let listed = world.as_typed(["sessions"]).run().expect(0);
    assert_eq!(listed.stdout.lines().count(), 1, "{}", listed.stdout);
    let listed = world.as_typed(["sessions", "--json"]).run().expect(0);
    let listed: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap();
    let id = listed[0]["id"].as_str().unwrap();
    let named = world.as_typed(["sessions", "rename", id, "painting"]);
    named.run().expect(0);
    let further = world.asking(&server, ["-m", "sonnet", "-r", "painting", "second"]);
    further.within(world.file("deep")).run().expect(0);
    let connection = crate::talk::open_sound(&world.database());
    let texts = crate::talk::texts(&connection, "user");
    assert_eq!(texts[..2], ["first", "second"]);
    let moved = format!("Working directory: {}", world.file("deep").display());
    assert!(texts[2].ends_with(&moved), "{texts:?}");
}

#[test]
fn a_project_that_cannot_be_written_has_its_session_elsewhere() {
    if crate::sandbox::is_missing() {
        return;
    }
    let world = World::new();
    let server = Server::new([says("One."), says("Two.")]);
    let read_only = [
        "-rm",
        "sh",
        "-c",
        "mount -o bind,ro \"$PWD\" \"$PWD\" && cd \"$PWD\" && exec \"$@\"",
        "sh",
    ];
    for (prompt, answer) in [("first", "One."), ("second", "Two.")] {
        let ah = world.asking(&server, ["-m", "sonnet", prompt]);
        let ended = ah.through("unshare", read_only).run().expect(0);
        assert!(ended.stdout.contains(answer), "{}", ended.stdout);
        let notice = "this folder cannot be written, so the session is kept in `";
        assert!(ended.stderr.contains(notice), "{}", ended.stderr);
    }
    assert!(!world.file(".ah").exists());
    assert!(world.home().join(".ah/projects").exists());
    let told = server.requests()[1].body["messages"].to_string();
    assert!(told.contains("first"), "{told}");
}

#[test]
fn the_open_session_is_not_opened_again() {
    let world = World::new();
    let server = Server::new([says("One.")]);
    let mut seat = Seat::take(world.asking(&server, ["-m", "sonnet"]));
    seat.says("Hi");
    seat.sees("One.");
    seat.sees_no_more("Esc interrupts");
    let listed = world.as_typed(["sessions", "--json"]).run().expect(0);
    let listed: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap();
    seat.says(&format!("/resume {}", listed[0]["id"].as_str().unwrap()));
    seat.sees("This session is open here.");
    seat.sees_no_more("Esc interrupts");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
}
