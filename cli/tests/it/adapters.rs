//! The same sessions over every provider protocol, with one test for each behaviour of the loop. The tests of hooks
//! are in `hooks`.
//!
//! Encoding and decoding of each protocol are tested in `provider`.

use std::thread;

use ah_conversation::Usage;
use ah_provider::script::format::Turn;
use ah_testkit::script::{hangs, says, uses_all};
use ah_testkit::server::{Outcome, Server};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::binary::{Ah, Ended, World, wait_for_file};
use crate::support::cases::{BETA, Case, cases};
use crate::support::stored::stored;

/// One model for each protocol. Its catalogue entry does not depend on the endpoint.
const ADAPTERS: [&str; 4] = [
    "anthropic/claude-sonnet-4-5",
    "litellm/claude-sonnet-4-5",
    "openai/claude-sonnet-4-5",
    "openai-responses/claude-sonnet-4-5",
];

/// Configures `ah` to send requests to `server` over any of the protocols.
fn reach(ah: Ah, server: &Server) -> Ah {
    ["ANTHROPIC", "LITELLM", "OPENAI"]
        .iter()
        .fold(ah, |ah, vendor| {
            ah.env(&format!("{vendor}_BASE_URL"), server.url())
                .env(&format!("{vendor}_API_KEY"), "key-of-a-test")
        })
}

/// A session over one protocol.
struct Talk {
    adapter: &'static str,
    world: World,
    server: Server,
}

impl Talk {
    /// Returns one session of `turns` for each protocol.
    fn over_each(turns: &[Turn]) -> impl Iterator<Item = Self> {
        ADAPTERS.into_iter().map(|adapter| Self {
            adapter,
            world: World::new(),
            server: Server::new(turns.to_vec()),
        })
    }

    fn ah(&self, arguments: &[&str]) -> Ah {
        let all = ["-m", self.adapter, "--output-format", "events"]
            .into_iter()
            .chain(arguments.iter().copied());
        reach(self.world.ah(all.chain(["go"])), &self.server)
    }

    /// Runs with these arguments; fails unless the exit code is `code` and the server refused no request.
    #[track_caller]
    fn run(&self, arguments: &[&str], code: i32) -> Ended {
        let ended = self.ah(arguments).run().without_panic();
        assert_eq!(ended.code, Some(code), "{}: {ended:#?}", self.adapter);
        self.assert_nothing_refused();
        ended
    }

    #[track_caller]
    fn assert_nothing_refused(&self) {
        assert_eq!(
            self.server.refusals(),
            Vec::<String>::new(),
            "{}",
            self.adapter
        );
    }

    fn stored(&self) -> Vec<Value> {
        stored(&self.world, &self.server)
    }

    /// The tool results in the last request.
    fn results(&self) -> Vec<String> {
        let requests = self.server.requests();
        results(&requests.last().unwrap().body)
    }
}

/// A tool call whose result is its number.
fn call(number: usize) -> (&'static str, Value) {
    ("bash", json!({"command": format!("printf {number}")}))
}

fn looks(number: usize) -> Turn {
    uses_all([call(number)])
}

/// The tool results in a request body of any protocol, one entry per result.
fn results(body: &Value) -> Vec<String> {
    let lists = ["messages", "input"].into_iter();
    let items = lists.filter_map(|list| body[list].as_array()).flatten();
    let mut results = Vec::new();
    for item in items {
        let blocks = item["content"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|block| block["type"] == "tool_result");
        results.extend(blocks.map(|block| &block["content"]));
        if item["role"] == "tool" {
            results.push(&item["content"]);
        }
        if item["type"] == "function_call_output" {
            results.push(&item["output"]);
        }
    }
    let text = |content: &Value| {
        let text = content.pointer("/0/text").unwrap_or(content);
        text.as_str().unwrap_or_default().to_owned()
    };
    results.into_iter().map(text).collect()
}

fn events(ended: &Ended) -> Vec<Value> {
    let lines = ended.stdout.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// A stored conversation without the fields that only some protocols have.
fn common(mut messages: Vec<Value>) -> Vec<Value> {
    for message in &mut messages {
        if let Some(Value::Object(response)) = message.get_mut("response") {
            // Not all protocols report tokens written to the cache, which have a price of their own.
            response.remove("cost");
        }
        if let Some(usage) = message.pointer_mut("/response/usage") {
            let written = usage["cache_creation_input_tokens"].take().as_u64();
            let read = usage["input_tokens"].as_u64();
            usage["input_tokens"] = (written.unwrap_or(0) + read.unwrap_or(0)).into();
        }
        for block in message["content"].as_array_mut().unwrap() {
            if block["type"] == "thinking" {
                // Each protocol has its own signature, or none.
                block.as_object_mut().unwrap().remove("signature");
            }
        }
    }
    messages
}

#[test]
fn a_session_is_the_same_over_every_adapter() {
    let cases = cases();
    // Most of the time is spent in retry delays, so the cases run in parallel.
    thread::scope(|scope| {
        for case in &cases {
            scope.spawn(|| assert_same_over_every_adapter(case));
        }
    });
}

fn assert_same_over_every_adapter(case: &Case) {
    if case.arguments.contains(&BETA) {
        // Only some protocols have them.
        return;
    }
    let [first, others @ ..] = ADAPTERS.map(|adapter| {
        let server = case.server();
        let (world, code) = case.run(adapter, |ah| reach(ah, &server));
        assert_eq!(code, Some(case.code), "{} over {adapter}", case.name);
        assert_eq!(server.refusals(), Vec::<String>::new(), "{}", case.name);
        (
            adapter,
            server.requests().len(),
            common(stored(&world, &server)),
        )
    });
    for (adapter, requests, messages) in others {
        assert_eq!(requests, first.1, "{} over {adapter}", case.name);
        assert_eq!(messages, first.2, "{} over {adapter}", case.name);
    }
}

/// Each model response counts as one turn.
#[test]
fn box_01_turn_counting() {
    for talk in Talk::over_each(&[looks(1), looks(2), says("Done.")]) {
        let events = events(&talk.run(&[], 0));
        let ends = events
            .iter()
            .filter(|event| event["event_type"] == "api_call_end");
        assert_eq!((ends.count(), talk.server.requests().len()), (3, 3));
    }
}

/// All four stop reasons are mapped.
#[test]
fn box_02_stop_reason_mapping() {
    // Chat completions use one word for `end_turn` and `stop_sequence`; the Responses API has none for `tool_use` and
    // `stop_sequence`.
    for (word, by_messages, by_chat, by_responses, code) in [
        ("end_turn", "end_turn", "end_turn", "end_turn", 0),
        ("tool_use", "tool_use", "tool_use", "end_turn", 0),
        ("stop_sequence", "stop_sequence", "end_turn", "end_turn", 0),
        ("max_tokens", "max_tokens", "max_tokens", "max_tokens", 3),
    ] {
        let turn = || Turn {
            stop_reason: Some(word.to_owned()),
            ..says("Words.")
        };
        let kept = [by_messages, by_chat, by_chat, by_responses];
        for (talk, kept) in Talk::over_each(&[turn(), turn(), turn(), turn()]).zip(kept) {
            talk.run(&[], code);
            let stored = talk.stored();
            assert_eq!(
                stored[1]["response"]["stop_reason"], kept,
                "{word} over {}",
                talk.adapter
            );
        }
    }
}

/// Each tool call gets one result with its id; the server refuses a request otherwise.
#[test]
fn box_03_tool_result_format() {
    for talk in Talk::over_each(&[uses_all([call(1), call(2)]), says("Done.")]) {
        talk.run(&[], 0);
        assert_eq!(talk.results().len(), 2, "{}", talk.adapter);
    }
}

/// A run has at most the allowed number of turns.
#[test]
fn box_04_max_turns_enforcement() {
    let turns: Vec<_> = (0..9).map(looks).collect();
    for talk in Talk::over_each(&turns) {
        talk.run(&["--max-turns", "3"], 3);
        assert_eq!(talk.server.requests().len(), 3, "{}", talk.adapter);
    }
}

/// A run ends once its cost reaches the budget.
#[test]
fn box_05_budget_enforcement() {
    // A little more than a third of a dollar.
    let usage = Usage {
        input_tokens: 50_000,
        output_tokens: 15_000,
        ..Usage::default()
    };
    let turn = |number| Turn {
        usage: Some(usage),
        ..looks(number)
    };
    let turns: Vec<_> = (0..9).map(turn).collect();
    for talk in Talk::over_each(&turns) {
        talk.run(&["--max-budget-usd", "0.5"], 3);
        assert_eq!(talk.server.requests().len(), 2, "{}", talk.adapter);
    }
}

/// An interrupt ends the stream, and the next tool does not start.
#[test]
fn box_06_interrupt_behaviour() {
    for talk in Talk::over_each(&[hangs("Let me"), says("Done.")]) {
        let running = talk.ah(&[]).start();
        running.wait_for_output("Let me");
        running.signal(Signal::INT);
        running.wait().expect(130);
        talk.server
            .wait_until(|asked| asked[0].outcome == Outcome::Closed);
        assert_eq!(talk.stored()[1]["response"]["stop_reason"], "interrupted");
        talk.run(&[], 0);
    }
    let slow = ("bash", json!({"command": "echo begun >begun; sleep 1000"}));
    let next = ("bash", json!({"command": "touch next"}));
    for talk in Talk::over_each(&[uses_all([slow, next]), says("Done.")]) {
        let running = talk.ah(&[]).start();
        wait_for_file(&talk.world.file("begun"));
        running.signal(Signal::INT);
        running.wait().expect(130);
        assert!(!talk.world.file("next").exists(), "{}", talk.adapter);
        talk.run(&[], 0);
        assert_eq!(talk.results().len(), 2, "{}", talk.adapter);
    }
}

/// An answer cut off by a full context window continues after compaction.
#[test]
fn box_07_context_overflow() {
    let full = Usage {
        input_tokens: 190_000,
        output_tokens: 10,
        ..Usage::default()
    };
    let cut = Turn {
        stop_reason: Some("max_tokens".to_owned()),
        usage: Some(full),
        ..says("Half")
    };
    for talk in Talk::over_each(&[says("One."), cut, says("In short."), says("Whole.")]) {
        talk.run(&[], 0);
        let events = events(&talk.run(&[], 0));
        let mut kinds = events.iter().map(|event| &event["event_type"]);
        assert!(
            kinds.any(|kind| kind == "compaction_complete"),
            "{}",
            talk.adapter
        );
    }
}

/// Results are sent in the order of the calls.
#[test]
fn box_08_message_ordering() {
    let slowest_first = [3, 2, 1].map(|number| {
        let command = format!("sleep 0.{number}; printf {number}");
        ("bash", json!({"command": command}))
    });
    for talk in Talk::over_each(&[uses_all(slowest_first), says("Done.")]) {
        talk.run(&[], 0);
        assert_eq!(talk.results(), ["3", "2", "1"], "{}", talk.adapter);
    }
}

/// Events are emitted in order.
#[test]
fn box_09_emission_order() {
    let mut first = None;
    for talk in Talk::over_each(&[looks(1), says("Done.")]) {
        let events = events(&talk.run(&[], 0));
        let kinds: Vec<_> = events
            .iter()
            .map(|event| event["event_type"].to_string())
            .collect();
        assert_eq!(kinds.first().unwrap(), "\"agent_start\"");
        assert_eq!(kinds.last().unwrap(), "\"agent_end\"");
        assert_eq!(
            first.get_or_insert_with(|| kinds.clone()),
            &kinds,
            "{}",
            talk.adapter
        );
    }
}

/// The session is persisted.
#[test]
fn box_10_session_persistence() {
    for talk in Talk::over_each(&[says("Done.")]) {
        talk.run(&[], 0);
        let stored = talk.stored();
        let texts: Vec<_> = stored
            .iter()
            .map(|message| &message["content"][0]["text"])
            .collect();
        assert_eq!(texts, ["go", "Done."], "{}", talk.adapter);
    }
    for talk in Talk::over_each(&[says("Done.")]) {
        talk.run(&["--no-session-persistence"], 0);
        assert!(talk.world.databases().is_empty(), "{}", talk.adapter);
    }
}

/// A stop for tool use without a tool call ends the run.
#[test]
fn box_12_empty_tool_use() {
    let turn = Turn {
        stop_reason: Some("tool_use".to_owned()),
        ..says("Nothing to do.")
    };
    for talk in Talk::over_each(&[turn]) {
        talk.run(&[], 0);
        assert_eq!(talk.server.requests().len(), 1, "{}", talk.adapter);
    }
}

/// All tool calls of one response run.
#[test]
fn box_13_several_tools_in_one_turn() {
    let turn = uses_all((0..4).map(call));
    for talk in Talk::over_each(&[turn, says("Done.")]) {
        talk.run(&[], 0);
        assert_eq!(talk.results(), ["0", "1", "2", "3"], "{}", talk.adapter);
    }
}
