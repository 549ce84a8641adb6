//! What a newcomer meets: the first screen, words after a slash, and the way out.

use ah_testkit::script::says;
use ah_testkit::server::Server;

use crate::support::binary::{ASKS_UNCONFINED, World};
use crate::support::pseudo_terminal::Seat;

#[test]
fn the_first_screen_says_where_one_is_and_what_to_try() {
    let world = World::new();
    world.write(".git/HEAD", "ref: refs/heads/feature\n");
    let server = Server::new([says("Hello.")]);
    let mut seat = Seat::take(world.asking(&server, ASKS_UNCONFINED));
    seat.sees("? lists commands and keys");
    let screen = seat.screen();
    for part in [
        "ah 0.1.0 · ",
        "project (feature)",
        "sandbox off: commands run with your full",
        "/init writes",
        "ask before each action · claude-sonnet",
        "? for help",
    ] {
        assert!(screen.contains(part), "{part}:\n{screen}");
    }
    seat.says("Hi");
    seat.sees("Hello.");
    seat.sees_no_more("Esc interrupts");
    assert!(!seat.screen().contains("? for help"));
    seat.says("exit");
    seat.wait_until("it says how to come back", |bytes, _| {
        String::from_utf8_lossy(bytes).contains("Resume: ah -c, or ah -r 0")
    });
    assert_eq!(seat.leaves(), 0);
}

#[test]
fn an_unknown_word_after_a_slash_reaches_no_model() {
    let world = World::new();
    let server = Server::new([says("Sent as it is.")]);
    let mut seat = Seat::take(world.asking(&server, ["-m", "sonnet"]));
    for (typed, said) in [
        (
            "/nosuch",
            "There is no command `/nosuch`; `/help` lists all commands.",
        ),
        ("/modle opus", "did you mean `/model`?"),
        ("/status1", "did you mean `/status`?"),
    ] {
        seat.says(typed);
        seat.sees(said);
    }
    assert_eq!(server.requests().len(), 0);
    seat.says(" /nosuch");
    seat.sees("Sent as it is.");
    seat.sees_no_more("Esc interrupts");
    seat.says("/quit");
    assert_eq!(seat.leaves(), 0);
    for (prompt, said) in [
        ("/nosuch", "There is no command `/nosuch`"),
        ("/status", "`/status` is a command of the conversation"),
    ] {
        let ended = world
            .asking(&server, ["-m", "sonnet", prompt])
            .run()
            .expect(2);
        assert!(ended.stderr.contains(said), "{}", ended.stderr);
    }
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn words_stay_whole_on_a_narrow_terminal() {
    let world = World::new();
    let server = Server::new([says("Unused.")]);
    for columns in [20, 30, 47] {
        let mut seat = Seat::of_size(world.asking(&server, ["-n", "-m", "sonnet"]), columns, 50);
        seat.says("/nosuch");
        seat.says("/effort");
        seat.sees("high");
        let rows = seat.scrollback();
        let words: Vec<_> = rows.split_whitespace().collect();
        for text in [
            "There is no command `/nosuch`; `/help` lists all commands.",
            "the effort is the model's default; /effort takes one of low,",
        ] {
            let said: Vec<_> = text.split_whitespace().collect();
            let is_whole = words.windows(said.len()).any(|shown| shown == said);
            assert!(is_whole, "{columns}: {text}\n{rows}");
        }
        seat.says("/quit");
        assert_eq!(seat.leaves(), 0);
    }
}

#[test]
fn commands_of_the_peers_are_there() {
    let world = World::new();
    let server = Server::new([says("An answer.")]);
    let mut seat = Seat::of_size(world.asking(&server, ["-m", "sonnet"]), 100, 60);
    seat.says("Hi");
    seat.sees("An answer.");
    seat.sees_no_more("Esc interrupts");
    for (typed, said) in [
        ("/status", "session   01"),
        ("/rename parser", "Renamed. Resume with: ah -r parser"),
        (
            "/effort",
            "the effort is the model's default; /effort takes one of low,",
        ),
        ("/effort high", "effort: high"),
        ("/memory", "No instruction files; `/init` writes one."),
        ("/theme", "the sixteen colours of your terminal"),
        ("/usage", "1 call  total"),
        ("/agents", "general-purpose"),
        ("?", "edit the text in $EDITOR"),
    ] {
        seat.types("\x0c");
        seat.says(typed);
        seat.sees(said);
        seat.sees_no_more("Esc interrupts");
    }
    seat.says("/copy");
    seat.sees("copied 10 characters");
    let bytes = String::from_utf8_lossy(&seat.bytes()).into_owned();
    assert!(bytes.contains("\x1b]52;c;QW4gYW5zd2VyLg==\x07"));
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
}
