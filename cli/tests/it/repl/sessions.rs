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
