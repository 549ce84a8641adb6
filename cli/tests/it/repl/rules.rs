//! Permissions, hooks, working directories and the plan mode, from within the conversation.

use ah_testkit::script::{hangs, says};
use ah_testkit::server::Server;

use crate::support::binary::World;
use crate::support::pseudo_terminal::Seat;

#[test]
fn rules_are_seen_changed_and_removed_in_place() {
    let world = World::new();
    world.write("other/file", "x");
    world.write(
        ".ah/settings.json",
        r#"{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}}"#,
    );
    let server = Server::new([says("A plan.")]);
    let ah = world.asking(&server, ["--trust", "-m", "sonnet"]);
    let mut seat = Seat::of_size(ah, 100, 40);
    seat.says("/permissions allow Bash(ls:*)");
    seat.sees("allow Bash(ls:*): saved to `");
    seat.says("/permissions deny nonsense(");
    seat.sees("not a rule");
    seat.says("/permissions");
    seat.sees("  allow    Bash(ls:*)\n");
    seat.sees("  sandbox  ");
    seat.says("/permissions remove Bash(ls:*)");
    seat.sees("remove Bash(ls:*): saved");
    let settings = world.text(".ah/settings.local.json");
    assert!(!settings.contains("Bash(ls"), "{settings}");
    seat.says("/add-dir other");
    seat.sees("is a working directory of the file tools");
    seat.says("/add-dir nowhere");
    seat.sees("there is no folder");
    seat.says("/hooks");
    seat.sees("  Stop ");
    // The keys are shown while a question mark is all that is typed.
    seat.types("?");
    seat.sees("  Shift+Tab     next permission mode");
    seat.types("\x7f");
    seat.sees_no_more("  Shift+Tab     next permission mode");
    seat.says("/plan look around");
    seat.sees("A plan.");
    seat.sees_no_more("interrupts");
    seat.sees("plan (read-only)");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
}

/// A near miss of a short name is told, and no server is asked.
#[test]
fn the_list_of_models_has_prices_and_a_near_miss_is_told() {
    let world = World::new();
    let server = Server::new([says("Unused.")]);
    let mut seat = Seat::take(world.asking(&server, ["-m", "sonnet"]));
    seat.says("/model sonett");
    seat.sees("unknown model `sonett`; did you mean `sonnet`?");
    seat.says("/model");
    seat.sees("model:");
    seat.types("sonnet");
    // Also where there are only eighty columns.
    seat.sees("in use · $");
    seat.sees(" out · ");
    seat.types("\x1b");
    seat.sees_no_more("model:");
    // What was typed before the list was there is in the input.
    seat.types("\x15\x04");
    assert_eq!(seat.leaves(), 0);
}

/// Without a key, too, with the way to one.
#[test]
fn a_model_that_cannot_be_used_comes_with_a_way() {
    let world = World::new();
    let model = world.scenario("s", [says("Hello.")]);
    let mut seat = Seat::take(world.ah(["-m", &model]));
    seat.says("/model sonett");
    seat.sees("warning: no model is named `sonett`\nhint: did you mean `sonnet`? `/model` lists the models\n");
    seat.says("/model gpt-5");
    seat.sees("hint: `/login`, or set OPENAI_API_KEY");
    // Apart from what is above it.
    seat.says("Hi");
    seat.sees("OPENAI_API_KEY\n\n> Hi\n\nHello.");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
}

/// Terminals show it in their tabs.
#[test]
fn the_title_says_what_it_is_about_and_whether_it_works() {
    let world = World::new();
    let server = Server::new([hangs("Let me see."), says("Hello.")]);
    let ah = world.asking(&server, ["-m", "sonnet"]);
    let ah = ah.env("TERM_PROGRAM", "ghostty");
    let mut seat = Seat::take(ah.env("TERM_PROGRAM_VERSION", "1.4.0"));
    let writes = |seat: &mut Seat, part: &str| {
        seat.wait_until(part, |bytes, _| {
            String::from_utf8_lossy(bytes).contains(part)
        });
    };
    seat.says("fix the parser");
    for part in [
        "\x1b]0;* fix the parser - ah\x1b\\",
        "\x1b]9;4;3;0\x1b\\",
        "\x1b]7501;state=working:app=ah:msg=Zml4IHRoZSBwYXJzZXI=\x1b\\",
    ] {
        writes(&mut seat, part);
    }
    seat.sees("Let me see.");
    seat.types("\x1b");
    for part in [
        "\x1b]0;fix the parser - ah\x1b\\",
        "\x1b]9;4;0;0\x1b\\",
        "\x1b]7501;state=idle:app=ah:msg=Zml4IHRoZSBwYXJzZXI=\x1b\\",
    ] {
        writes(&mut seat, part);
    }
    seat.says("again");
    writes(
        &mut seat,
        "\x1b]7501;state=done:app=ah:msg=Zml4IHRoZSBwYXJzZXI=\x1b\\",
    );
    seat.says("/rename parser work");
    writes(&mut seat, "\x1b]0;parser work - ah\x1b\\");
    seat.types("\x04");
    writes(&mut seat, "\x1b[23;0t\x1b]7501;state=clear\x1b\\");
    assert_eq!(seat.leaves(), 0);
}

/// A small model that the settings name is sent the first message; what it costs is counted.
#[test]
fn a_small_model_titles_the_session_for_its_lists_and_the_terminal() {
    let world = World::new();
    let folder = world.home().join(".ah");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("settings.json"), "{\"titleModel\": \"haiku\"}").unwrap();
    let server =
        Server::new([says("Hello."), says("Again.")]).answers_asides("\"Crash of the parser\"\n");
    let mut seat = Seat::take(world.asking(&server, ["-m", "sonnet"]));
    seat.says("could you please look at why it crashes?");
    seat.sees("Hello.");
    seat.wait_until("the title", |bytes, _| {
        String::from_utf8_lossy(bytes).contains("\x1b]0;Crash of the parser - ah\x1b\\")
    });
    seat.says("and now?");
    seat.sees("Again.");
    seat.sees_no_more("interrupts");
    seat.says("/sessions");
    seat.sees("[Crash of the parser] could you please");
    seat.types("\x1b");
    seat.sees_no_more("[Crash of the parser]");
    seat.types("\x15\x04");
    assert_eq!(seat.leaves(), 0);
    // Of each session once.
    assert_eq!(server.requests().len(), 3);
    let asked = server.requests();
    let aside = asked.iter().find(|it| it.body["tools"].is_null()).unwrap();
    assert!(aside.body.to_string().contains("look at why it crashes"));
    let usage = world.as_typed(["usage", "--json"]).run().expect(0);
    let usage: serde_json::Value = serde_json::from_str(&usage.stdout).unwrap();
    assert_eq!(usage["api_calls"], 3, "{usage}");
    let listed = world.as_typed(["-r", "Crash of the parser", "tree"]);
    assert!(listed.run().expect(0).stdout.contains("look at why"));
}
