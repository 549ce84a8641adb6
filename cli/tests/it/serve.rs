//! `ah serve`: sessions over HTTP, with a real client on the loopback interface.

mod browse;
mod change;
pub mod client;
mod socket;
mod tls;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use ah_testkit::script::{hangs, says, uses};
use ah_testkit::server::Server;
use serde_json::{Value, json};

use self::client::{Client, Stream};
use crate::support::binary::World;

/// A server whose runs ask nothing.
const FREE: [&str; 3] = ["--no-sandbox", "--dangerously-skip-permissions", "serve"];

#[test]
fn a_session_is_begun_followed_and_continued() {
    let world = World::new();
    let server = Server::new([says("Salve."), says("Vale.")]);
    let client = Client::of(world.asking(&server, FREE).start());
    let begun = client.post("/v1/sessions", &json!({"prompt": "Greet me."}));
    assert_eq!(begun.status, 201, "{begun:?}");
    let session = begun.json["session"].as_str().unwrap().to_owned();
    let place = |what: &str| format!("/v1/sessions/{session}{what}");
    let mut stream = client.events(&place("/events"), None);
    let first = stream.until_idle();
    assert_eq!(texts(&first), ["Greet me.", "Salve."]);
    let again = client.post(&place("/prompt"), &json!({"prompt": "Say goodbye."}));
    assert_eq!(again.json["session"], session.as_str());
    let second = stream.until_idle();
    assert_eq!(texts(&second), ["Say goodbye.", "Vale."]);
    let ended = &second.last().unwrap().data["ended"];
    assert_eq!(
        (&ended["text"], &ended["is_error"]),
        (&json!("Vale."), &json!(false))
    );
    // Whoever comes later gets all of it, and whoever was there what is new.
    let all = client.events(&place("/events"), None).until_idle();
    assert_eq!(
        texts(&all),
        ["Greet me.", "Salve.", "Say goodbye.", "Vale."]
    );
    let seqs: Vec<_> = all
        .iter()
        .filter_map(|event| event.id.split('-').next())
        .collect();
    assert_eq!(seqs, ["0", "1", "2", "3", ""]);
    let last = &first[1].id;
    let rest = client.events(&place("/events"), Some(last)).until_idle();
    assert_eq!(texts(&rest), ["Say goodbye.", "Vale."]);
    let page = client.get(&place("/messages"));
    assert_eq!(page.json["messages"].as_array().unwrap().len(), 4);
    assert_eq!(
        client.get("/v1/sessions").json["sessions"][0]["id"],
        session.as_str()
    );
    // A copy that forgets the last exchange.
    let forked = client.post(&place("/fork"), &json!({"prompt": "x", "at": 1}));
    assert_eq!(forked.status, 201, "{forked:?}");
    let copy = forked.json["session"].as_str().unwrap();
    assert_ne!(copy, session);
    let events = format!("/v1/sessions/{copy}/events");
    let events = client.events(&events, None).until_idle();
    assert_eq!(texts(&events)[..3], ["Greet me.", "Salve.", "x"]);
    client.conforms();
}

#[test]
fn the_end_of_a_run_has_what_its_check_has_shown() {
    let world = World::new();
    let server = Server::new([says("Done.")]);
    let options = ["--until", "test -e there"];
    let words = options.into_iter().chain(FREE);
    world.write("there", "");
    let client = Client::of(world.asking(&server, words).start());
    let begun = client.post("/v1/sessions", &json!({"prompt": "Do it."}));
    let session = begun.json["session"].as_str().unwrap().to_owned();
    let mut stream = client.events(&format!("/v1/sessions/{session}/events"), None);
    let events = stream.until_idle();
    let known = &events.last().unwrap().data["ended"]["verification"];
    assert_eq!(known["evidence"], "verified", "{known}");
    assert_eq!(known["command"], "test -e there");
    // It is told again with the message, as what it is.
    let page = client.get(&format!("/v1/sessions/{session}/messages"));
    let last = page.json["messages"].as_array().unwrap().last().unwrap();
    let known = &last["verification"];
    assert_eq!(known["evidence"], "verified", "{last}");
    assert_eq!(known["is_replayed"], true, "{last}");
    client.conforms();
}

/// What is typed into the page is a prompt.
#[test]
fn a_prompt_can_be_a_goal() {
    let world = World::new();
    let server = Server::new([
        says("Done."),
        uses("bash", json!({"command": "touch there"})),
        says("Now it is."),
        says("Hello."),
    ]);
    let client = Client::of(world.asking(&server, FREE).start());
    let prompt = "/goal make it there --until test -e there";
    let begun = client.post("/v1/sessions", &json!({"prompt": prompt}));
    let session = begun.json["session"].as_str().unwrap().to_owned();
    let mut stream = client.events(&format!("/v1/sessions/{session}/events"), None);
    let events = stream.until_idle();
    let known = &events.last().unwrap().data["ended"]["verification"];
    assert_eq!(known["evidence"], "verified", "{known}");
    assert_eq!(known["checks"], 2, "{known}");
    // It is that of its run.
    let place = format!("/v1/sessions/{session}/prompt");
    client.post(&place, &json!({"prompt": "Hello."}));
    let events = stream.until_idle();
    let ended = &events.last().unwrap().data["ended"];
    assert_eq!(ended["text"], "Hello.", "{ended}");
    assert_eq!(ended.get("verification"), None, "{ended}");
    // Without a command, the client is told what the project has.
    world.write("Makefile", "test:\n\ttrue\n");
    client.post(&place, &json!({"prompt": "/goal mend it"}));
    let ended = loop {
        let event = stream.next();
        if event.data["ended"]["is_error"] == true {
            break event.data["ended"].clone();
        }
    };
    let text = ended["text"].as_str().unwrap();
    assert!(text.contains("this project has `make test`"), "{text}");
    client.conforms();
}

#[test]
fn a_question_is_answered_by_one_of_two_clients_once() {
    let world = World::new();
    let file = world.file("a.txt");
    let write = uses("write", json!({"path": file, "content": "a"}));
    let server = Server::new([write, says("Done.")]);
    let ah = world.asking_as_typed(&server, ["--no-sandbox", "serve"]);
    let client = Client::of(ah.start());
    let begun = client.post("/v1/sessions", &json!({"prompt": "Write it."}));
    let session = begun.json["session"].as_str().unwrap().to_owned();
    let place = |what: &str| format!("/v1/sessions/{session}{what}");
    let mut one = client.events(&place("/events"), None);
    let mut other = client.events(&place("/events"), None);
    let question = one.until_asked();
    assert_eq!(question, other.until_asked());
    // An answer to something else is none.
    let answer = place(&format!("/questions/{}", question["id"]));
    for other in [
        json!({"answers": {"Other?": "Allow"}}),
        json!({"answers": {}}),
    ] {
        let refused = client.post(&answer, &other);
        assert_eq!(refused.status, 422, "{refused:?}");
    }
    let about = question["about"].as_str().unwrap();
    assert!(about.starts_with("The agent wants to use "), "{about}");
    assert!(!file.exists());
    let busy = client.post(&place("/prompt"), &json!({"prompt": "More."}));
    assert_eq!(busy.status, 409);
    let pick = question["picks"][0]["question"].as_str().unwrap();
    let allow = json!({"answers": {pick: "Allow"}});
    let both = std::thread::scope(|scope| {
        let ask = || client.post(&answer, &allow).status;
        let (a, b) = (scope.spawn(ask), scope.spawn(ask));
        let mut both = [a.join().unwrap(), b.join().unwrap()];
        both.sort_unstable();
        both
    });
    assert_eq!(both, [200, 409]);
    assert_eq!(texts(&one.until_idle()).last().unwrap(), "Done.");
    assert_eq!(world.text("a.txt"), "a");
    assert_eq!(client.post(&answer, &allow).status, 409);
    client.conforms();
}

#[test]
fn a_run_is_steered_and_interrupted() {
    let world = World::new();
    let wait = uses(
        "bash",
        json!({"command": "echo yes > begun; while [ ! -e go ]; do sleep 0.05; done"}),
    );
    let again = uses("bash", json!({"command": "echo yes > again; sleep 600"}));
    let server = Server::new([wait, again, says("unused")]);
    let client = Client::of(world.asking(&server, FREE).start());
    let begun = client.post("/v1/sessions", &json!({"prompt": "Wait."}));
    let session = begun.json["session"].as_str().unwrap().to_owned();
    let place = |what: &str| format!("/v1/sessions/{session}{what}");
    crate::support::binary::wait_for_file(&world.file("begun"));
    let steered = client.post(&place("/steer"), &json!({"message": "Be quick."}));
    assert_eq!(steered.status, 202, "{steered:?}");
    let empty = client.post(&place("/steer"), &json!({"message": " "}));
    assert_eq!(empty.json["error"], "the message is empty");
    world.write("go", "");
    crate::support::binary::wait_for_file(&world.file("again"));
    let asked = server.requests();
    let last = asked.last().unwrap().body["messages"].to_string();
    assert!(last.contains("Be quick."), "{last}");
    assert_eq!(client.post(&place("/interrupt"), &json!({})).status, 202);
    let events = client.events(&place("/events"), None).until_idle();
    assert_eq!(events.last().unwrap().data["ended"]["is_stopped"], true);
    assert_eq!(client.post(&place("/interrupt"), &json!({})).status, 409);
    client.conforms();
}

#[test]
fn an_answer_in_progress_comes_in_pieces() {
    let world = World::new();
    let server = Server::new([hangs("Salve, amice. Quid agis?")]);
    let client = Client::of(world.asking(&server, FREE).start());
    let begun = client.post("/v1/sessions", &json!({"prompt": "Greet me."}));
    let session = begun.json["session"].as_str().unwrap().to_owned();
    let place = |what: &str| format!("/v1/sessions/{session}{what}");
    let heard = |stream: &mut Stream| {
        let mut text = String::new();
        while text != "Salve, amice. Quid agis?" {
            let event = stream.next();
            if event.name == "piece" {
                assert_eq!(
                    (&event.data["block"], &event.data["kind"]),
                    (&json!(0), &json!("text"))
                );
                assert_eq!(event.id, "");
                text.push_str(event.data["text"].as_str().unwrap());
            }
        }
    };
    let mut early = client.events(&place("/events"), None);
    heard(&mut early);
    // Whoever comes in the middle gets what was said so far.
    heard(&mut client.events(&place("/events"), None));
    assert_eq!(client.post(&place("/interrupt"), &json!({})).status, 202);
    // What there was of the answer is a message now.
    let mut last = early.next();
    while last.name != "message" {
        last = early.next();
    }
    assert_eq!(texts(&[last]), ["Salve, amice. Quid agis?"]);
    client.conforms();
}

/// A run that does not begin is no run: how the last one ended stays, and no copy is left.
#[test]
fn a_request_that_is_refused_changes_nothing() {
    let world = World::new();
    let server = Server::new([says("Salve."), hangs("I begin")]);
    let client = Client::of(world.asking(&server, FREE).start());
    let begun = client.post("/v1/sessions", &json!({"prompt": "Greet me."}));
    let session = begun.json["session"].as_str().unwrap().to_owned();
    let place = |what: &str| format!("/v1/sessions/{session}{what}");
    client.events(&place("/events"), None).until_idle();
    let before = client.get(&place("")).json;
    assert_eq!(before["state"]["ended"]["text"], "Salve.");
    for (what, body) in [
        ("/prompt", json!({"prompt": "x", "at": "nope"})),
        ("/fork", json!({"prompt": "x", "at": "nope"})),
        ("/fork", json!({"prompt": "x", "at": 99})),
    ] {
        let refused = client.post(&place(what), &body);
        assert_eq!(refused.status, 404, "{refused:?}");
        assert_eq!(client.get(&place("")).json, before);
    }
    // Another process has it open.
    let elsewhere = world.asking(&server, ["-r", &session, "go"]).start();
    elsewhere.wait_for_output("I begin");
    let refused = client.post(&place("/prompt"), &json!({"prompt": "x"}));
    assert_eq!(refused.status, 409, "{refused:?}");
    let reason = refused.json["error"].as_str().unwrap();
    assert!(!reason.contains("ah -n"), "{reason}");
    assert_eq!(client.get(&place("")).json, before);
    assert_eq!(world.databases().len(), 1);
    elsewhere.kill();
    client.conforms();
}

#[test]
fn a_request_that_never_ends_does_not_hold_up_the_end_of_the_server() {
    let world = World::new();
    let server = Server::new([says("unused")]);
    let client = Client::of(world.asking(&server, FREE).start());
    let mut half = std::net::TcpStream::connect(client.host()).unwrap();
    std::io::Write::write_all(&mut half, b"GET /v1/sessions HTTP/1.1\r\n").unwrap();
    let host = client.host().to_owned();
    // Who says nothing takes no place of those who have the token.
    let silent: Vec<_> = (0..100)
        .map(|_| std::net::TcpStream::connect(&host).unwrap())
        .collect();
    assert_eq!(client.get("/v1/sessions").status, 200);
    client.end();
    drop((half, silent));
}

#[test]
fn nobody_else_is_answered() {
    let world = World::new();
    let server = Server::new([says("unused")]);
    let client = Client::of(world.asking(&server, FREE).start());
    let folder = fs::read_dir(world.home().join(".ah/serve")).unwrap();
    let [file] = &folder.map(|file| file.unwrap().path()).collect::<Vec<_>>()[..] else {
        panic!("not one file");
    };
    let mode = fs::metadata(file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let known: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(known["token"], client.token());
    let host = client.host();
    let token = format!("Bearer {}", client.token());
    // The bare address tells a person the way in: `browse.rs` looks at that.
    let places = [
        "/openapi.json",
        "/v1/sessions",
        "/v1/sessions/x/events",
        "/nothing",
    ];
    for place in places {
        for (headers, status) in [
            (vec![("Host", host)], 401),
            (vec![("Host", host), ("Authorization", "Bearer 00")], 401),
            (
                vec![("Host", "rebound.example"), ("Authorization", &*token)],
                403,
            ),
            (
                vec![
                    ("Host", host),
                    ("Authorization", &*token),
                    ("Origin", "http://evil.example"),
                ],
                403,
            ),
            (
                vec![
                    ("Host", host),
                    ("Authorization", &*token),
                    ("Origin", "null"),
                ],
                403,
            ),
        ] {
            for method in ["GET", "POST", "OPTIONS"] {
                let reply = client.raw(method, place, &headers, b"");
                assert_eq!(reply.status, status, "{method} {place} {headers:?}");
                assert_eq!(reply.body, "", "{method} {place} {headers:?}");
            }
        }
    }
    let own = [("Host", host), ("Authorization", &*token)];
    let large = vec![b' '; 1024 * 1024 + 1];
    let refused = client.raw("POST", "/v1/sessions", &own, &large);
    assert_eq!(refused.status, 413);
    assert_eq!(refused.json["error"], "the request is longer than 1 MiB");
    for place in ["/v1/sessions/%ff", "/v1/sessions/x/tree?from=x", "/v1/sdk"] {
        let refused = client.raw("GET", place, &own, b"");
        assert!(refused.json["error"].is_string(), "{place}: {refused:?}");
    }
    for (method, place, body, status) in [
        ("POST", "/v1/sessions", "{}", 422),
        ("POST", "/v1/sessions", "not JSON", 422),
        ("POST", "/v1/sessions", r#"{"prompt": " "}"#, 422),
        (
            "POST",
            "/v1/sessions",
            r#"{"prompt": "a", "cwd": "/"}"#,
            422,
        ),
        ("GET", "/v1/sessions/nothing", "", 404),
        ("GET", "/v1/sessions/..%2f..%2fetc/messages", "", 404),
        (
            "POST",
            "/v1/sessions/nothing/prompt",
            r#"{"prompt": "a"}"#,
            404,
        ),
        ("DELETE", "/v1/sessions", "", 405),
        ("GET", "/", "", 404),
    ] {
        let reply = client.raw(method, place, &own, body.as_bytes());
        assert_eq!(
            reply.status, status,
            "{method} {place} {body}: {}",
            reply.body
        );
    }
    assert!(server.requests().is_empty());
    client.end();
    assert!(!file.exists());
}

/// A client that stalls, and others that break off in all places and come back: the run does not wait, and nobody misses
/// anything or gets it twice.
#[test]
fn clients_come_and_go_and_the_run_goes_on() {
    let world = World::new();
    let long = "x".repeat(200_000);
    let mut turns: Vec<_> = (0..40)
        .map(|n| uses("bash", json!({"command": format!("echo {n}; : {long}")})))
        .collect();
    turns.push(says("The end."));
    let server = Server::new(turns);
    let client = Client::of(world.asking(&server, FREE).start());
    let begun = client.post("/v1/sessions", &json!({"prompt": "Count."}));
    let session = begun.json["session"].as_str().unwrap().to_owned();
    let place = format!("/v1/sessions/{session}/events");
    // Its pipe is full long before the end, which the others see nevertheless.
    let mut stalled = client.stalled(&place);
    let all = client.events(&place, None).until_idle();
    let ids: Vec<_> = all.iter().map(|event| event.id.clone()).collect();
    assert_eq!(texts(&all).last().unwrap(), "The end.");
    for seed in 0..disconnecting_clients() {
        let (mut seen, mut last, mut state) = (Vec::new(), None::<String>, seed);
        let whole = loop {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let many = (state >> 33) % 17;
            let mut stream: Stream = client.events(&place, last.as_deref());
            let mut is_whole = false;
            for _ in 0..=many {
                let event = stream.next();
                if event.name == "state" {
                    is_whole = true;
                    break;
                }
                last = Some(event.id.clone());
                seen.push(event.id);
            }
            if is_whole {
                break true;
            }
        };
        assert!(whole);
        assert_eq!(seen, ids[..ids.len() - 1], "{seed}");
    }
    // It goes on where it was.
    let late = stalled.until_idle();
    assert_eq!(
        late.iter()
            .map(|event| event.id.clone())
            .collect::<Vec<_>>(),
        ids
    );
    client.conforms();
}

/// Number of clients that break off; `AH_TEST_CLIENTS` asks for more than a usual run has time for.
fn disconnecting_clients() -> u64 {
    let wanted = std::env::var("AH_TEST_CLIENTS").ok();
    wanted.map_or(40, |wanted| wanted.parse().unwrap())
}

/// The texts of messages.
fn texts(events: &[client::Event]) -> Vec<String> {
    let messages = events.iter().filter(|event| event.name == "message");
    let text = |event: &client::Event| {
        let blocks = event.data["content"].as_array().unwrap().iter();
        let texts = blocks.filter_map(|block| block["text"].as_str());
        texts
            .filter(|text| !text.starts_with("[NOTE]"))
            .collect::<String>()
    };
    messages.map(text).collect()
}
