//! Output for programs: `--output-format events` and `json`, field by field; and neither colours nor control
//! sequences in it.

use std::collections::{BTreeMap, BTreeSet};

use ah_conversation::Usage;
use ah_provider::script::failure::Failure;
use ah_provider::script::format::Turn;
use ah_testkit::script::{fails, hangs, says, uses};
use ah_testkit::server::Server;
use rusqlite::Connection;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::binary::World;
use crate::support::shown::{shown, steady};

/// The fields of each event type.
type Fields = BTreeMap<String, BTreeSet<String>>;

fn costs(input_tokens: u64, output_tokens: u64) -> Option<Usage> {
    Some(Usage {
        input_tokens,
        output_tokens,
        cache_read_input_tokens: 5,
        ..Usage::default()
    })
}

fn soon(status: u16, kind: &str) -> Turn {
    Turn {
        error: Some(Failure {
            retry_after: Some(0.0),
            ..fails(status, kind).error.unwrap()
        }),
        ..Turn::default()
    }
}

/// A session with every type of event, and the fields of the events it printed.
fn eventful() -> (World, Fields) {
    let world = World::new();
    let state = json!({"conversationState": "on"}).to_string();
    world.write("../home/.ah/settings.json", state);
    let server = Server::new([
        Turn {
            usage: costs(190_000, 20),
            ..uses("bash", json!({"command": "echo hello"}))
        },
        says("So far: an echo."),
        soon(529, "overloaded_error"),
        says("Done."),
        says("And done again."),
        Turn {
            // Each reads less from the cache than the one before left there.
            usage: Some(Usage {
                cache_creation_input_tokens: 5,
                ..costs(10, 1).unwrap()
            }),
            repeat: Some(5),
            ..uses("bash", json!({"command": "true"}))
        },
        Turn {
            usage: costs(90, 20),
            ..uses("bash", json!({"command": "true"}))
        },
        soon(529, "overloaded_error"),
        soon(529, "overloaded_error"),
        soon(529, "overloaded_error"),
        soon(529, "overloaded_error"),
        says("I am another."),
        uses(
            "bash",
            json!({"command": "mkdir tests; echo 'echo no; exit 1' > tests/t.sh"}),
        ),
        says("Tested."),
        fails(400, "invalid_request_error"),
    ]);
    // Messages can be queued only for an existing session.
    let model = world.scenario("s", [says("Hello.")]);
    world.ah(["-m", &model, "hello"]).run().expect(0);
    world
        .ah(["--steer", "carefully", "--followup", "again"])
        .run()
        .expect(0);
    let large = "large ".repeat(150_000);
    let checked = ["--until", "sh tests/t.sh", "--max-checks", "1"];
    let checked = [&["-m", "sonnet"], &checked[..], &["test it"]].concat();
    let runs: [(&[&str], &str, i32); 6] = [
        (&["-m", "sonnet", "go"], "", 0),
        (&["-m", "sonnet", "again and again"], "", 3),
        (&["-m", "sonnet", "--max-tokens", "100", "spend"], "", 3),
        (
            &["-m", "sonnet", "--fallback-model", "haiku", "please"],
            "",
            0,
        ),
        (&checked, "", 3),
        (&["-m", "opus"], &large, 1),
    ];
    let mut fields = Fields::new();
    for (arguments, stdin, code) in runs {
        let common = ["--output-format", "events"];
        let ah = world.asking(&server, common.iter().chain(arguments).copied());
        let ended = ah.stdin(stdin).run().expect(code);
        for line in ended.stdout.lines() {
            let event: BTreeMap<String, Value> = serde_json::from_str(line).unwrap();
            let known = fields
                .entry(event["event_type"].as_str().unwrap().to_owned())
                .or_default();
            known.extend(event.into_keys());
        }
    }
    (world, fields)
}

/// The events documented in docs/interfaces.md with their fields, and which of them are stored.
fn documented() -> (Fields, BTreeSet<String>) {
    let page = include_str!("../../../docs/interfaces.md");
    let rows = page
        .lines()
        .skip_while(|line| !line.starts_with("| event | fields |"))
        .skip(2);
    let mut fields = Fields::new();
    let mut stored = BTreeSet::new();
    for row in rows.take_while(|line| line.starts_with('|')) {
        let [_, events, described, _] = row.split('|').collect::<Vec<_>>()[..] else {
            panic!("{row}");
        };
        // Text in parentheses explains a field.
        let mut depth = 0;
        let outside = described.chars().filter(|c| {
            depth += i32::from(*c == '(');
            let is_outside = depth == 0;
            depth -= i32::from(*c == ')');
            is_outside
        });
        let outside: String = outside.collect();
        let mut names: BTreeSet<_> = quoted(&outside).map(str::to_owned).collect();
        names.extend(["event_type", "timestamp"].map(str::to_owned));
        for event in quoted(events) {
            fields.insert(event.to_owned(), names.clone());
            if events.contains('*') {
                stored.insert(event.to_owned());
            }
        }
    }
    (fields, stored)
}

/// The texts between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn every_event_has_the_fields_that_are_documented() {
    let (world, printed) = eventful();
    let (documented, to_be_stored) = documented();
    assert_eq!(printed, documented);
    let connection = Connection::open(world.database()).unwrap();
    let mut statement = connection
        .prepare("SELECT DISTINCT event_type FROM events")
        .unwrap();
    let stored = statement
        .query_map([], |row| row.get::<_, String>(0))
        .unwrap();
    let stored: BTreeSet<_> = stored.map(Result::unwrap).collect();
    assert_eq!(stored, to_be_stored);
}

#[test]
fn events_come_in_the_order_in_which_things_happen() {
    let world = World::new();
    let calls = Turn {
        text: Some("I look.".into()),
        usage: costs(10, 5),
        ..uses("bash", json!({"command": "echo hello"}))
    };
    let model = world.scenario("s", [calls, says("Done.")]);
    let ended = world
        .ah(["-m", &model, "--output-format", "events", "go"])
        .run();
    insta::assert_snapshot!(shown(&world, &ended), @r#"
stdout:
{"event_type":"agent_start","model":"s","prompt":"go","parent_id":null,"timestamp": <time>}
{"event_type":"state_change","from_state":"idle","to_state":"processing","timestamp": <time>}
{"event_type":"api_call_start","payload_bytes":0,"timestamp": <time>}
{"event_type":"text_delta","text":"I look.","timestamp": <time>}
{"event_type":"api_call_end","message_id":"<id>","input_tokens":10,"output_tokens":5,"cache_creation_input_tokens":0,"cache_read_input_tokens":5,"api_latency_ms": <n>,"model":"s","timestamp": <time>}
{"event_type":"tool_call_start","tool_name":"bash","tool_input":"{\"command\":\"echo hello\"}","tool_key":"echo hello","tool_index":1,"tool_count":1,"timestamp": <time>}
{"event_type":"tool_call_end","tool_name":"bash","tool_output":"hello\n","is_error":false,"duration_ms": <n>,"tool_key":"echo hello","tool_index":1,"tool_count":1,"timestamp": <time>}
{"event_type":"api_call_start","payload_bytes":0,"timestamp": <time>}
{"event_type":"text_delta","text":"Done.","timestamp": <time>}
{"event_type":"api_call_end","message_id":"<id>","input_tokens":0,"output_tokens":0,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"api_latency_ms": <n>,"model":"s","timestamp": <time>}
{"event_type":"state_change","from_state":"processing","to_state":"idle","timestamp": <time>}
{"event_type":"agent_end","stop_reason":"end_turn","total_input_tokens":15,"total_output_tokens":5,"total_cache_read_tokens":5,"timestamp": <time>}
exit code 0
"#);
}

/// The SDK's `result` has its documented fields, on success and on each kind of failure.
#[test]
fn a_result_has_the_fields_of_the_sdk() {
    let success = || Turn {
        usage: costs(1_000, 50),
        ..says("Done.")
    };
    let denied = [uses("Bash", json!({"command": "touch x"})), success()];
    let again = || Turn {
        repeat: Some(9),
        usage: costs(1_000, 50),
        ..uses("Read", json!({"file_path": "{{turn}}"}))
    };
    let cases: [(Vec<Turn>, &[&str]); 4] = [
        (denied.into(), &[]),
        (vec![again()], &["--max-turns", "2"]),
        (vec![again()], &["--max-budget-usd", "0.005"]),
        (vec![fails(400, "invalid_request_error")], &[]),
    ];
    let pages = cases.map(|(turns, arguments)| {
        let world = World::new();
        let server = Server::new(turns);
        let common = ["-m", "sonnet", "--output-format", "json", "go"];
        let ended = world
            .asking(&server, arguments.iter().copied().chain(common))
            .run();
        shown(&world, &ended)
    });
    insta::assert_snapshot!(pages.join("\n\n"), @r#"
stdout:
{"type":"result","subtype":"success","is_error":false,"duration_ms": <n>,"duration_api_ms": <n>,"num_turns":2,"result":"Done.","stop_reason":"end_turn","total_cost_usd":0.0037515,"usage":{"input_tokens":1000,"cache_creation_input_tokens":0,"cache_read_input_tokens":5,"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0},"output_tokens":50,"service_tier":"standard","server_tool_use":{"web_search_requests":0,"web_fetch_requests":0},"inference_geo":"","iterations":[],"speed":"standard"},"modelUsage":{"claude-sonnet-4-5-20250929":{"inputTokens":1000,"outputTokens":50,"cacheReadInputTokens":5,"cacheCreationInputTokens":0,"webSearchRequests":0,"costUSD":0.0037515,"contextWindow":200000,"maxOutputTokens":16384,"cacheCreationEphemeral5mInputTokens":0,"cacheCreationEphemeral1hInputTokens":0,"canonicalModel":"claude-sonnet-4-5-20250929","provider":"firstParty","costBasis":"list"}},"model_usage_since_last_result":{"claude-sonnet-4-5-20250929":{"inputTokens":1000,"outputTokens":50,"cacheReadInputTokens":5,"cacheCreationInputTokens":0,"webSearchRequests":0,"costUSD":0.0037515,"contextWindow":200000,"maxOutputTokens":16384,"cacheCreationEphemeral5mInputTokens":0,"cacheCreationEphemeral1hInputTokens":0,"canonicalModel":"claude-sonnet-4-5-20250929","provider":"firstParty","costBasis":"list"}},"fast_mode_state":"off","permission_denials":[{"tool_name":"Bash","tool_use_id":"<call>","tool_input":{"command":"touch x"}}],"terminal_reason":"completed","api_error_status":null,"result_index":0,"queued_turn_count":0,"session_id":"<uuid>","uuid":"<uuid>"}
exit code 0

stdout:
{"type":"result","subtype":"error_max_turns","is_error":true,"duration_ms": <n>,"duration_api_ms": <n>,"num_turns":3,"errors":["Reached maximum number of turns (2)"],"stop_reason":"tool_use","total_cost_usd":0.007503,"usage":{"input_tokens":2000,"cache_creation_input_tokens":0,"cache_read_input_tokens":10,"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0},"output_tokens":100,"service_tier":"standard","server_tool_use":{"web_search_requests":0,"web_fetch_requests":0},"inference_geo":"","iterations":[],"speed":"standard"},"modelUsage":{"claude-sonnet-4-5-20250929":{"inputTokens":2000,"outputTokens":100,"cacheReadInputTokens":10,"cacheCreationInputTokens":0,"webSearchRequests":0,"costUSD":0.007503,"contextWindow":200000,"maxOutputTokens":16384,"cacheCreationEphemeral5mInputTokens":0,"cacheCreationEphemeral1hInputTokens":0,"canonicalModel":"claude-sonnet-4-5-20250929","provider":"firstParty","costBasis":"list"}},"model_usage_since_last_result":{"claude-sonnet-4-5-20250929":{"inputTokens":2000,"outputTokens":100,"cacheReadInputTokens":10,"cacheCreationInputTokens":0,"webSearchRequests":0,"costUSD":0.007503,"contextWindow":200000,"maxOutputTokens":16384,"cacheCreationEphemeral5mInputTokens":0,"cacheCreationEphemeral1hInputTokens":0,"canonicalModel":"claude-sonnet-4-5-20250929","provider":"firstParty","costBasis":"list"}},"fast_mode_state":"off","permission_denials":[],"terminal_reason":"max_turns","result_index":0,"queued_turn_count":0,"session_id":"<uuid>","uuid":"<uuid>"}
exit code 1

stdout:
{"type":"result","subtype":"error_max_budget_usd","is_error":true,"duration_ms": <n>,"duration_api_ms": <n>,"num_turns":3,"errors":["Reached maximum budget ($0.005)"],"stop_reason":"tool_use","total_cost_usd":0.007503,"usage":{"input_tokens":2000,"cache_creation_input_tokens":0,"cache_read_input_tokens":10,"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0},"output_tokens":100,"service_tier":"standard","server_tool_use":{"web_search_requests":0,"web_fetch_requests":0},"inference_geo":"","iterations":[],"speed":"standard"},"modelUsage":{"claude-sonnet-4-5-20250929":{"inputTokens":2000,"outputTokens":100,"cacheReadInputTokens":10,"cacheCreationInputTokens":0,"webSearchRequests":0,"costUSD":0.007503,"contextWindow":200000,"maxOutputTokens":16384,"cacheCreationEphemeral5mInputTokens":0,"cacheCreationEphemeral1hInputTokens":0,"canonicalModel":"claude-sonnet-4-5-20250929","provider":"firstParty","costBasis":"list"}},"model_usage_since_last_result":{"claude-sonnet-4-5-20250929":{"inputTokens":2000,"outputTokens":100,"cacheReadInputTokens":10,"cacheCreationInputTokens":0,"webSearchRequests":0,"costUSD":0.007503,"contextWindow":200000,"maxOutputTokens":16384,"cacheCreationEphemeral5mInputTokens":0,"cacheCreationEphemeral1hInputTokens":0,"canonicalModel":"claude-sonnet-4-5-20250929","provider":"firstParty","costBasis":"list"}},"fast_mode_state":"off","permission_denials":[],"terminal_reason":"budget_exhausted","result_index":0,"queued_turn_count":0,"session_id":"<uuid>","uuid":"<uuid>"}
exit code 1

stdout:
{"type":"result","subtype":"success","is_error":true,"duration_ms": <n>,"duration_api_ms": <n>,"num_turns":1,"result":"API Error: 400 scripted failure","stop_reason":"stop_sequence","total_cost_usd":0.0,"usage":{"input_tokens":0,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0},"output_tokens":0,"service_tier":"standard","server_tool_use":{"web_search_requests":0,"web_fetch_requests":0},"inference_geo":"","iterations":[],"speed":"standard"},"modelUsage":{},"model_usage_since_last_result":{},"fast_mode_state":"off","permission_denials":[],"terminal_reason":"api_error","api_error_status":400,"api_error_type":"invalid_request_error","result_index":0,"queued_turn_count":0,"session_id":"<uuid>","uuid":"<uuid>"}
exit code 1
"#);
}

#[test]
fn a_result_tells_of_an_interrupt() {
    let world = World::new();
    let server = Server::new([hangs("So far")]);
    let running = world
        .asking(&server, ["-m", "sonnet", "--output-format", "json", "go"])
        .start();
    server.wait_until(|seen| seen.len() == 1);
    running.signal(Signal::INT);
    let ended = running.wait().expect(0);
    let result: Value = serde_json::from_str(&ended.stdout).unwrap();
    let told =
        ["subtype", "is_error", "errors", "terminal_reason"].map(|key| result[key].to_string());
    insta::assert_snapshot!(told.join(" "), @r#""error_during_execution" true ["Request interrupted by user"] "aborted_streaming""#);
}

#[test]
fn colours_are_for_terminals_or_for_who_insists() {
    let cases: [(&[&str], &[&str], bool); 5] = [
        (&[], &[], false),
        (&["CLICOLOR_FORCE"], &[], true),
        (&["CLICOLOR_FORCE"], &["--plain"], false),
        (&["NO_COLOR"], &[], false),
        (&["NO_COLOR", "CLICOLOR_FORCE"], &[], false),
    ];
    for (variables, arguments, is_coloured) in cases {
        let world = World::new();
        let model = world.scenario(
            "s",
            [uses("bash", json!({"command": "false"})), says("Done.")],
        );
        let ah = world.ah(arguments.iter().copied().chain(["-m", &model, "go"]));
        let ah = variables
            .iter()
            .fold(ah, |ah, variable| ah.env(variable, "1"));
        let ended = ah.run().expect(0);
        assert_eq!(
            ended.stderr.contains('\u{1b}'),
            is_coloured,
            "{variables:?} {arguments:?} {ended:#?}"
        );
        assert!(!ended.stdout.contains('\u{1b}'));
    }
}

/// Control sequences from a tool or a model are shown as text.
#[test]
fn control_sequences_are_shown_and_not_sent() {
    let world = World::new();
    let wicked = "printf '\\033]0;owned\\007\\033[2Jgone\\r\\n\\033[31mred\\n'";
    let turns = [
        uses("bash", json!({"command": wicked})),
        says("\u{1b}[2JAll \u{9b}31mclear."),
    ];
    let model = world.scenario("s", turns);
    let ended = world
        .ah(["-m", &model, "--permission-mode", "bypassPermissions", "go"])
        .run()
        .expect(0);
    insta::assert_snapshot!(steady(&world, &ended.stderr), @r"
>>> go
bash (<n>s)
  $ printf '\033]0;owned\007\033[2Jgone\r\n\033[31mred\n'
  ␛]0;owned␇␛[2Jgone
  ␛[31mred
");
    // A program reads the answer unchanged; on a terminal control sequences are neutralised.
    assert_eq!(ended.stdout, "\u{1b}[2JAll \u{9b}31mclear.\n");
    for command in ["scan", "tree", "branches", "sessions"] {
        let listed = world.ah([command]).run().expect(0);
        let text = listed.stdout;
        assert!(
            !text.contains(['\u{1b}', '\u{9b}', '\u{7}', '\r']),
            "{command} {text:?}"
        );
    }
}
