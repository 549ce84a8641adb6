//! Truncated, garbled, slow, late and missing responses: nothing partial is stored as complete, and no call runs with
//! partial arguments.

use ah_provider::script::failure::Failure;
use ah_provider::script::format::{ScriptedCall, Turn, Wire};
use ah_testkit::script::{fails, says, uses};
use ah_testkit::server::Server;
use serde_json::{Value, json};

use crate::interrupted_again_and_again::{open_sound, texts};
use crate::support::binary::{Ah, World};
use crate::support::random::{Random, rounds};

/// An upper bound of the size of the truncated response.
const LONGEST: u64 = 2_600;

/// The complete turn: text and a tool call.
fn whole() -> Turn {
    whole_with("Bash")
}

fn whole_with(shell: &str) -> Turn {
    Turn {
        text: Some("I write it down: ü, ✓.".into()),
        pieces: Some(5),
        ..uses(shell, json!({"command": "echo ran >>ran"}))
    }
}

fn wired(wire: Wire, turn: Turn) -> Turn {
    Turn {
        wire: Some(wire),
        ..turn
    }
}

fn in_place_of(turn: Turn, body: &str) -> Turn {
    let body = Some(body.to_owned());
    wired(
        Wire {
            body,
            ..Wire::default()
        },
        turn,
    )
}

fn cut_at(bytes: u64) -> Turn {
    let wire = Wire {
        cut_after_bytes: Some(usize::try_from(bytes).unwrap()),
        ..Wire::default()
    };
    wired(wire, whole())
}

/// A run that does not retry. The first one in a world begins the session, later ones resume it.
fn once(world: &World, server: &Server, prompt: &str) -> Ah {
    let mut arguments = vec![
        "-m",
        "sonnet",
        "-p",
        "--permission-mode",
        "bypassPermissions",
    ];
    if !world.databases().is_empty() {
        arguments.push("-c");
    }
    arguments.push(prompt);
    world
        .asking(server, arguments)
        .env("CLAUDE_CODE_MAX_RETRIES", "0")
}

/// Runs into `turn`, which may fail in any way but must not be taken for complete unless it is, and resumes. Returns
/// whether it was complete.
fn survive(turn: Turn, what: &str) -> bool {
    let world = World::new();
    let server = Server::new([turn, whole(), says("Done."), says("Done.")]);
    let first = once(&world, &server, "go").run().without_panic();
    let is_whole = first.code == Some(0);
    assert!(is_whole || first.code == Some(1), "{what}: {first:#?}");
    let connection = open_sound(&world.database());
    if is_whole {
        // The server has asked for it twice.
        assert_eq!(world.text("ran"), "ran\nran\n", "{what}");
    } else {
        assert!(first.stdout.contains("API Error: "), "{what}: {first:#?}");
        assert_eq!(world.text("ran"), "", "{what}");
        assert_eq!(
            texts(&connection, "assistant"),
            Vec::<String>::new(),
            "{what}"
        );
    }
    drop(connection);
    once(&world, &server, "go on").run().expect(0);
    assert_eq!(server.refusals(), Vec::<String>::new(), "{what}");
    is_whole
}

#[test]
fn an_answer_that_is_cut_at_any_byte_is_no_answer() {
    let mut random = Random::new();
    assert!(survive(cut_at(LONGEST), "not cut at all"));
    for _ in 0..rounds("AH_TEST_CUTS", 50) {
        let bytes = random.below(LONGEST);
        survive(cut_at(bytes), &format!("cut at {bytes}"));
    }
}

#[test]
fn an_answer_that_is_garbled_is_no_reason_to_panic() {
    let mut random = Random::new();
    for _ in 0..rounds("AH_TEST_GARBLED", 25) {
        let mut body = body_of(&whole()).into_bytes();
        for _ in 0..=random.below(3) {
            let at = usize::try_from(random.below(body.len() as u64)).unwrap();
            body[at] = u8::try_from(random.below(128)).unwrap();
        }
        let body = String::from_utf8_lossy(&body).into_owned();
        garbled(&body);
    }
}

/// Runs into a response with this body, which may have any outcome but a panic, and resumes.
fn garbled(body: &str) {
    let world = World::new();
    let server = Server::new([in_place_of(whole(), body), says("Done."), says("Done.")]);
    let first = once(&world, &server, "go").run().without_panic();
    assert!(matches!(first.code, Some(0 | 1)), "{first:#?}\n{body}");
    open_sound(&world.database());
    let server = Server::new([says("Done.")]);
    once(&world, &server, "go on").run().expect(0);
    assert_eq!(server.refusals(), Vec::<String>::new(), "{body}");
}

/// The body that the server sends for a turn.
pub fn body_of(turn: &Turn) -> String {
    let call: &ScriptedCall = turn.tools.first().unwrap();
    let frames = [
        json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant",
            "model": "claude", "content": [], "stop_reason": null, "stop_sequence": null,
            "usage": {"input_tokens": 1, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "I write it."}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "content_block_start", "index": 1, "content_block":
            {"type": "tool_use", "id": "toolu_1", "name": call.name, "input": {}}}),
        json!({"type": "content_block_delta", "index": 1, "delta":
            {"type": "input_json_delta", "partial_json": call.json()}}),
        json!({"type": "content_block_stop", "index": 1}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": null},
            "usage": {"output_tokens": 9}}),
        json!({"type": "message_stop"}),
    ];
    let frame = |data: &Value| {
        format!(
            "event: {}\ndata: {data}\n\n",
            data["type"].as_str().unwrap()
        )
    };
    frames.iter().map(frame).collect()
}

#[test]
fn odd_framing_is_understood_and_broken_framing_is_no_answer() {
    let plain = body_of(&whole());
    let last = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
    let without_last = plain.strip_suffix(last).unwrap();
    let deep = format!("data: {}\n\n", "[".repeat(100_000));
    for (what, body, is_whole) in [
        ("as it is", plain.clone(), true),
        (
            "line ends of another system",
            plain.replace('\n', "\r\n"),
            true,
        ),
        ("a byte order mark", format!("\u{feff}{plain}"), true),
        (
            "comments",
            plain.replace("event:", ": still here\n\nevent:"),
            true,
        ),
        (
            "no event names",
            plain
                .lines()
                .filter(|l| !l.starts_with("event:"))
                .map(|l| format!("{l}\n"))
                .collect(),
            true,
        ),
        (
            "an unknown event",
            plain.replace(
                last,
                &format!("event: new\ndata: {{\"type\":\"new\"}}\n\n{last}"),
            ),
            true,
        ),
        ("two ends", format!("{plain}{last}"), true),
        ("no end", without_last.to_owned(), false),
        (
            "an end without its empty line",
            plain.trim_end().to_owned(),
            true,
        ),
        ("no JSON", plain.replace("\"index\":1", "\"index\":"), false),
        ("nothing", String::new(), false),
        (
            "an opening bracket, a hundred thousand times",
            format!("{without_last}{deep}"),
            false,
        ),
        (
            "a web page",
            "<html><title>Sign in</title></html>".to_owned(),
            false,
        ),
    ] {
        let world = World::new();
        let server = Server::new([in_place_of(whole(), &body), says("Done."), says("Done.")]);
        let first = once(&world, &server, "go").run();
        assert_eq!(first.code, Some(i32::from(!is_whole)), "{what}: {first:#?}");
        assert_eq!(
            world.text("ran"),
            if is_whole { "ran\n" } else { "" },
            "{what}: {first:#?}"
        );
        once(&world, &server, "go on").run().expect(0);
        assert_eq!(server.refusals(), Vec::<String>::new(), "{what}");
    }
}

#[test]
fn an_answer_that_dribbles_is_the_same_answer() {
    let text = "Slowly, but surely: ü ✓ 🦀\n".repeat(20);
    let wire = Wire {
        bytes_per_write: Some(1),
        ..Wire::default()
    };
    let world = World::new();
    let server = Server::new([wired(wire, says(&text))]);
    let ended = once(&world, &server, "go").run().expect(0);
    assert_eq!(ended.stdout.trim_end(), text.trim_end());
}

#[test]
fn what_breaks_off_in_the_midst_is_asked_for_again_and_never_run_half() {
    let error = Failure {
        kind: Some("overloaded_error".to_owned()),
        ..Failure::default()
    };
    let breaks = [
        Turn {
            stream_error: Some(error),
            ..whole_with("bash")
        },
        Turn {
            cut: true,
            ..whole_with("bash")
        },
    ];
    for turn in breaks {
        let world = World::new();
        let server = Server::new([turn, whole_with("bash"), says("Done.")]);
        let ended = world
            .asking(&server, ["-m", "sonnet", "go"])
            .run()
            .expect(0);
        assert_eq!(world.text("ran"), "ran\n");
        assert_eq!(server.requests().len(), 3);
        assert_eq!(server.refusals(), Vec::<String>::new());
        assert_eq!(server.requests()[0].body, server.requests()[1].body);
        let connection = open_sound(&world.database());
        assert_eq!(
            texts(&connection, "assistant"),
            ["I write it down: ü, ✓.", "Done."]
        );
        assert!(ended.stdout.ends_with("Done.\n"), "{ended:#?}");
    }
}

#[test]
fn the_wait_that_a_server_asks_for_is_kept() {
    let world = World::new();
    let busy = Failure {
        status: Some(429),
        retry_after: Some(1.0),
        ..Failure::default()
    };
    let server = Server::new([
        Turn {
            error: Some(busy),
            ..Turn::default()
        },
        says("Now."),
    ]);
    let arguments = ["-m", "sonnet", "--output-format", "events", "go"];
    let ended = world.asking(&server, arguments).run().expect(0);
    let events = ended
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let retry = events
        .into_iter()
        .find(|event| event["event_type"] == "retry")
        .unwrap();
    assert_eq!(
        (&retry["delay_ms"], &retry["status"]),
        (&json!(1_000), &json!(429))
    );
    let requests = server.requests();
    assert!((requests[1].arrived - requests[0].arrived).as_millis() >= 1_000);
}

#[test]
fn a_server_that_stays_overloaded_ends_the_run_and_not_the_session() {
    let busy = Failure {
        status: Some(529),
        retry_after: Some(0.0),
        ..Failure::default()
    };
    let storm = Turn {
        error: Some(busy),
        repeat: Some(4),
        ..Turn::default()
    };
    let world = World::new();
    let server = Server::new([storm, says("Done.")]);
    let first = world
        .asking(&server, ["-m", "sonnet", "go"])
        .run()
        .expect(1);
    assert_eq!(server.requests().len(), 4, "{first:#?}");
    assert!(first.stderr.contains("error: "), "{first:#?}");
    let second = world
        .asking(&server, ["-m", "sonnet", "go on"])
        .run()
        .expect(0);
    assert_eq!(second.stdout, "Done.\n");
    assert_eq!(server.refusals(), Vec::<String>::new());
}

#[test]
fn a_web_page_in_the_place_of_an_answer_is_told_as_what_it_is() {
    let headers = json!({"content-type": "text/html"})
        .as_object()
        .unwrap()
        .clone();
    let wire = Wire {
        body: Some("<html><title>Sign in to the network</title></html>".to_owned()),
        headers,
        ..Wire::default()
    };
    let world = World::new();
    let server = Server::new([wired(wire, says("Never.")), says("Done.")]);
    let first = once(&world, &server, "go").run().expect(1);
    assert!(first.stdout.contains("a web page"), "{first:#?}");
    once(&world, &server, "go on").run().expect(0);
}

#[test]
fn a_conversation_that_stays_too_long_ends_after_one_summary() {
    let too_long = Turn {
        error: Some(Failure {
            status: Some(400),
            kind: Some("invalid_request_error".to_owned()),
            message: Some("prompt is too long: 210000 tokens > 200000 maximum".to_owned()),
            ..Failure::default()
        }),
        ..Turn::default()
    };
    let world = World::new();
    let server = Server::new([
        says("First."),
        says("Second."),
        too_long.clone(),
        says("A summary."),
        Turn {
            repeat: Some(9),
            ..too_long
        },
    ]);
    for _ in 0..2 {
        world
            .asking(&server, ["-m", "sonnet", "go"])
            .run()
            .expect(0);
    }
    let ended = world
        .asking(&server, ["-m", "sonnet", "go"])
        .run()
        .expect(1);
    assert!(server.requests().len() - 2 <= 3, "{ended:#?}");
    assert!(ended.stderr.contains("too long"), "{ended:#?}");
    assert_eq!(server.refusals(), Vec::<String>::new());
}

#[test]
fn a_server_that_only_refuses_is_told_at_once() {
    let world = World::new();
    let server = Server::new([fails(401, "authentication_error"), says("Done.")]);
    let first = world
        .asking(&server, ["-m", "sonnet", "go"])
        .run()
        .expect(1);
    assert_eq!(server.requests().len(), 1, "{first:#?}");
    world
        .asking(&server, ["-m", "sonnet", "go on"])
        .run()
        .expect(0);
}

/// A stream that breaks each time is no answer, but the server may have one in one piece.
#[test]
fn an_answer_whose_stream_breaks_arrives_in_one_piece() {
    let whole = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
        "content": [{"type": "text", "text": "The whole."}],
        "stop_reason": "end_turn", "usage": {"input_tokens": 10, "output_tokens": 5},
    });
    let world = World::new();
    let last = in_place_of(says("-"), &whole.to_string());
    let server = Server::new([cut_at(600), cut_at(600), last]).takes_whole();
    let retrying = once(&world, &server, "go").env("CLAUDE_CODE_MAX_RETRIES", "1");
    let ended = retrying.run().expect(0);
    assert_eq!(ended.stdout, "The whole.\n");
    let streams = server
        .requests()
        .into_iter()
        .map(|it| it.body["stream"].clone());
    assert_eq!(streams.collect::<Vec<_>>(), [true, true, false]);
}
