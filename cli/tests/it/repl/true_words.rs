//! What the conversation says of itself: its costs are the same everywhere, and the commands that it names work in the
//! state in which they are named.

use ah_conversation::Usage;
use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use serde_json::{Value, json};

use crate::support::binary::World;
use crate::support::pseudo_terminal::Seat;

/// Returns the last amount of dollars with four digits that is seen after these words.
fn dollars(screen: &str, after: &str) -> f64 {
    let pattern = format!(r"(?s).*{after}.*?\$(\d+\.\d{{4}})");
    let found = regex::Regex::new(&pattern).unwrap().captures(screen);
    let found = found.unwrap_or_else(|| panic!("no cost after `{after}`: {screen}"));
    found[1].parse().unwrap()
}

/// A subagent and another branch are paid for: every place that shows the cost counts them.
#[test]
fn the_cost_of_a_session_is_the_same_everywhere() {
    let world = World::new();
    let input =
        json!({"description": "dig", "prompt": "Find gold.", "subagent_type": "general-purpose"});
    let paid = |mut turn: ah_provider::script::format::Turn, tokens: u64| {
        turn.usage = Some(Usage {
            input_tokens: 10,
            output_tokens: tokens,
            ..Usage::default()
        });
        turn
    };
    let server = Server::new([
        paid(uses("agent", input), 1_000),
        paid(says("Gold."), 30_000),
        paid(says("It found gold."), 2_000),
        paid(says("Once more."), 3_000),
        paid(says("On another branch."), 4_000),
    ]);
    let mut seat = Seat::take(world.asking(&server, ["-m", "sonnet"]));
    seat.says("dig");
    seat.sees("It found gold.");
    seat.sees_no_more("interrupts");
    seat.says("again");
    seat.sees("Once more.");
    seat.sees_no_more("interrupts");
    // Back to an earlier message: what the branch that is left has cost stays paid.
    seat.says("/tree");
    seat.sees("❯ ");
    // The answer to the first prompt.
    seat.types("\x1b[A\x1b[A\r");
    seat.sees_no_more("❯ ");
    seat.says("elsewhere");
    seat.sees("On another branch.");
    seat.sees_no_more("interrupts");
    let usage = world.as_typed(["usage", "--json"]).run().expect(0);
    let usage: Value = serde_json::from_str(&usage.stdout).unwrap();
    assert_eq!(usage["api_calls"], 5, "{usage}");
    let known = usage["cost_usd"].as_f64().unwrap();
    seat.sees(&format!("${known:.2}"));
    seat.says("/cost");
    seat.sees("/ 40.0k out");
    let shown = dollars(&seat.screen(), "/cost");
    assert!((shown - known).abs() < 0.000_1, "{shown} {known}");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
}

#[test]
fn the_doctor_of_a_conversation_knows_its_key() {
    let world = World::new();
    let server = Server::new([says("Hello.")]);
    let mut seat = Seat::of_size(world.asking(&server, ["-m", "sonnet"]), 120, 60);
    seat.says("/doctor");
    seat.sees("ok       key");
    seat.sees_no_more("interrupts");
    let screen = seat.screen();
    assert!(!screen.contains("no API key"), "{screen}");
    assert!(!screen.contains("not a terminal"), "{screen}");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
}

/// The name is quoted, so that the line can be pasted into a shell.
#[test]
fn a_renamed_session_is_opened_by_the_line_that_is_shown() {
    let world = World::new();
    let model = world.scenario("s", [says("Hello.")]);
    let mut seat = Seat::take(world.ah(["-m", &model]));
    seat.says("Hi");
    seat.sees("Hello.");
    seat.sees_no_more("interrupts");
    seat.says("/rename My first session");
    seat.sees("Resume with: ah -r 'My first session'");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
    let shown = world.as_typed(["-r", "My first session", "tree"]);
    assert!(shown.run().expect(0).stdout.contains("Hi"));
}
