//! What the model is told beside the conversation never looks as if it were typed, and what only it needs is not shown.

use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use serde_json::json;

use crate::support::binary::World;
use crate::support::pseudo_terminal::Seat;

#[test]
fn what_undo_a_command_and_a_hook_tell_the_model_is_not_the_users() {
    let world = World::new();
    let hook = json!({"type": "command", "command": "echo a word of the hook"});
    let settings = json!({"hooks": {"UserPromptSubmit": [{"hooks": [hook]}]}});
    world.write(".ah/settings.json", settings.to_string());
    let server = Server::new([
        uses("write", json!({"path": "a.txt", "content": "one\n"})),
        says("Written."),
        says("Gone, I see."),
    ]);
    let mut seat = Seat::take(world.asking(&server, ["--trust", "-m", "sonnet"]));
    seat.says("write it");
    seat.sees("Written.");
    seat.sees_no_more("Esc interrupts");
    seat.says("/undo");
    seat.sees("Continue?");
    seat.says("y");
    seat.sees("1 file changed");
    seat.says("!echo ran");
    seat.sees("\nran\n");
    seat.sees_no_more("Esc interrupts");
    seat.says("go on");
    seat.sees("Gone, I see.");
    seat.sees_no_more("Esc interrupts");
    seat.says("/exit");
    assert_eq!(seat.leaves(), 0);
    // Blocks of their own, with a mark.
    let told = server.requests().pop().unwrap().body["messages"].clone();
    let blocks = told.as_array().unwrap().last().unwrap()["content"].clone();
    let texts: Vec<_> = { blocks.as_array().unwrap().iter() }
        .filter_map(|block| block["text"].as_str())
        .collect();
    assert_eq!(texts.len(), 4, "{texts:?}");
    assert!(texts[0].starts_with("[ah] The user undid file changes:\nremove a.txt"));
    assert!(texts[1].starts_with("[ah] The user ran `echo ran`:"));
    assert_eq!(texts[2], "go on");
    assert!(texts[3].starts_with("[HOOK] ") && texts[3].contains("a word of the hook"));
    // Opened again, the user has said what they have typed.
    let mut seat = Seat::take(world.asking(&server, ["-c", "--trust", "-m", "sonnet"]));
    seat.sees("> go on");
    seat.sees("Gone, I see.");
    let shown = seat.scrollback();
    assert!(
        !shown.contains("[ah]") && !shown.contains("[HOOK]"),
        "{shown}"
    );
    seat.says("/tree");
    seat.sees("U go on");
    seat.types("\x03\x03\x03");
    seat.leaves();
    for arguments in [&["sessions"][..], &["scan"], &["tree"]] {
        let listed = world.ah(arguments.iter().copied()).run().expect(0).stdout;
        assert!(
            !listed.contains("[ah]") && !listed.contains("[HOOK]"),
            "{listed}"
        );
    }
    let shown = world.ah(["show", "4"]).run().expect(0).stdout;
    assert!(shown.contains("\n| [ah] The user undid"), "{shown}");
    assert!(shown.contains("\ngo on\n"), "{shown}");
}

#[test]
fn the_id_of_a_subagent_is_for_the_model_alone() {
    let world = World::new();
    let input = json!({"description": "find gold", "prompt": "Find gold."});
    let server = Server::new([uses("agent", input), says("Gold."), says("It found gold.")]);
    let mut seat = Seat::take(world.asking(&server, ["-m", "sonnet"]));
    seat.says("go");
    seat.sees("It found gold.");
    seat.sees_no_more("Esc interrupts");
    seat.types("\x0f");
    seat.sees("+ subagent ");
    seat.sees("    Gold.");
    let shown = seat.screen();
    assert!(!shown.contains("agentId"), "{shown}");
    seat.types("q");
    seat.sees_no_more("q back");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
    let told = server.requests().pop().unwrap().body["messages"].to_string();
    assert!(told.contains("agentId: "), "{told}");
    for arguments in [&["show", "1"][..], &["show", "2"], &["export"]] {
        let shown = world.ah(arguments.iter().copied()).run().expect(0).stdout;
        assert!(!shown.contains("agentId"), "{shown}");
    }
}
