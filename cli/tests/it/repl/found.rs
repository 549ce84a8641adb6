//! What is found by typing: models of a server, and commands, files and sessions from one list.

use ah_testkit::script::says;
use ah_testkit::server::Server;

use crate::models::server_of;
use crate::support::binary::World;
use crate::support::pseudo_terminal::Seat;

const LIST: &str = r#"{"data": [
    {"id": "claude-team-large", "max_input_tokens": 123000},
    {"id": "claude-team-small", "max_input_tokens": 45000}
]}"#;

#[test]
fn models_are_those_of_the_server_and_are_searched() {
    let world = World::new();
    let ah = world
        .ah(["-n", "-m", "sonnet"])
        .env("ANTHROPIC_BASE_URL", server_of(LIST))
        .env("ANTHROPIC_API_KEY", "key-of-a-test");
    let mut seat = Seat::take(ah);
    seat.says("/model");
    seat.sees("❯ opus");
    // The catalogue at once, the server's list when it has answered.
    seat.types("teamsm");
    seat.sees("❯ anthropic/claude-team-small        45.0k tokens");
    assert!(!seat.screen().contains("team-large"), "{}", seat.screen());
    seat.types("\r");
    seat.sees("· claude-team-small");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
}

#[test]
fn without_an_answer_of_the_server_the_catalogue_is_searched() {
    let world = World::new();
    let ah = world
        .ah(["-n", "-m", "sonnet"])
        .env("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")
        .env("ANTHROPIC_API_KEY", "key-of-a-test");
    let mut seat = Seat::take(ah);
    seat.says("/model");
    seat.sees("❯ opus");
    seat.types("claudehaiku55");
    seat.sees("❯ claude-haiku-5-5");
    seat.types("\x1b");
    seat.sees_no_more("model:");
    seat.says("/exit");
    assert_eq!(seat.leaves(), 0);
}

#[test]
fn commands_files_and_sessions_are_found_in_one_list() {
    let world = World::new();
    world.write("src/parser_of_dates.rs", "");
    let server = Server::new([says("An answer."), says("Another.")]);
    let asks = world.asking(&server, ["-n", "-m", "sonnet", "tell me about herons"]);
    asks.run().expect(0);
    let mut seat = Seat::take(world.asking(&server, ["-n", "-m", "sonnet"]));
    seat.types("look at \x10");
    seat.sees("find:");
    seat.types("prsrdates");
    seat.sees("❯ @src/parser_of_dates.rs");
    seat.types("\r");
    seat.sees("> look at @src/parser_of_dates.rs");
    seat.types("\x10stat");
    seat.sees("❯ /status");
    seat.types("\r");
    seat.sees("session   01");
    seat.sees("> look at @src/parser_of_dates.rs");
    seat.types("\x10rename");
    seat.sees("❯ /rename");
    seat.types("\r");
    seat.sees("> /rename look at @src/parser_of_dates.rs");
    seat.types("\x03\x10herons");
    seat.sees("tell me about herons");
    seat.types("\r");
    seat.sees("An answer.");
    seat.says("/exit");
    assert_eq!(seat.leaves(), 0);
}
