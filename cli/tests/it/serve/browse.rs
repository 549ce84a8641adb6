//! What a client looks at beside the current branch, and the page that does so.

use std::collections::BTreeSet;

use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use serde_json::{Value, json};

use super::FREE;
use super::client::Client;
use crate::support::binary::World;

const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

#[test]
fn any_branch_is_read_and_gone_on_from() {
    let world = World::new();
    let server = Server::new([says("One."), says("Two."), says("Other."), says("Copied.")]);
    let client = Client::of(world.asking(&server, FREE).start());
    let begun = client.post("/v1/sessions", &json!({"prompt": "First."}));
    let session = begun.json["session"].as_str().unwrap().to_owned();
    let place = |what: &str| format!("/v1/sessions/{session}{what}");
    client.events(&place("/events"), None).until_idle();
    let first = client.get(&place("/tree")).json["current"].clone();
    let go_on = |body: Value| {
        let sent = client.post(&place("/prompt"), &body);
        assert_eq!(sent.status, 201, "{sent:?}");
        client.events(&place("/events"), None).until_idle()
    };
    go_on(json!({"prompt": "Second."}));
    let second = client.get(&place("/tree")).json["current"].clone();
    let texts = super::texts(&go_on(json!({"prompt": "Otherwise.", "at": first})));
    assert_eq!(texts, ["First.", "One.", "Otherwise.", "Other."]);
    let tree = client.get(&place("/tree")).json;
    let nodes: Vec<_> = tree["nodes"].as_array().unwrap().iter().collect();
    let told = |name: &str| {
        nodes
            .iter()
            .map(|node| node[name].clone())
            .collect::<Vec<_>>()
    };
    let texts = ["First.", "One.", "Second.", "Two.", "Otherwise.", "Other."];
    assert_eq!(told("text"), texts);
    assert_eq!(told("seq"), [0, 1, 2, 3, 2, 3]);
    assert_eq!(nodes[4]["parent"], first);
    assert_eq!(nodes[5]["id"], tree["current"]);
    assert_eq!(nodes[5]["used"]["output_tokens"], 0);
    let rest = client.get(&place("/tree?from=5")).json;
    assert_eq!(rest["nodes"], json!([nodes[5]]));
    let at = second.as_str().unwrap();
    let other = client.get(&place(&format!("/messages?at={at}"))).json;
    let seen = other["messages"].as_array().unwrap();
    assert_eq!(seen[3]["content"][0]["text"], "Two.");
    assert_eq!((&other["is_whole"], seen.len()), (&json!(true), 4));
    let copied = client.post(&place("/fork"), &json!({"prompt": "x", "at": second}));
    let copy = copied.json["session"].as_str().unwrap();
    let events = client
        .events(&format!("/v1/sessions/{copy}/events"), None)
        .until_idle();
    assert_eq!(
        super::texts(&events)[2..],
        ["Second.", "Two.", "x", "Copied."]
    );
    for what in ["/prompt", "/fork"] {
        let nowhere = client.post(&place(what), &json!({"prompt": "x", "at": "nothing"}));
        assert_eq!(nowhere.status, 404, "{what}: {}", nowhere.body);
    }
    for (what, status) in [
        ("/messages?at=nothing", 404),
        ("/messages/nothing", 404),
        ("/calls/nothing/output", 404),
        ("/tree?from=1000000", 200),
        ("/tree?from=x", 422),
    ] {
        assert_eq!(client.get(&place(what)).status, status, "{what}");
    }
    client.conforms();
}

#[test]
fn long_texts_are_cut_in_lists_and_whole_at_their_own_place() {
    let world = World::new();
    let long = "x".repeat(100_000);
    let server = Server::new([
        uses("bash", json!({"command": format!("seq 50000; : {long}")})),
        says("Done."),
    ]);
    let client = Client::of(world.asking(&server, FREE).start());
    let begun = client.post("/v1/sessions", &json!({"prompt": "Count."}));
    let session = begun.json["session"].as_str().unwrap();
    let place = |what: &str| format!("/v1/sessions/{session}{what}");
    let events = client.events(&place("/events"), None).until_idle();
    let call = &events[1].data;
    assert_eq!(call["cut"], true);
    assert!(call.to_string().len() < 20_000);
    let whole = client.get(&place(&format!(
        "/messages/{}",
        call["id"].as_str().unwrap()
    )));
    assert_eq!(whole.json["cut"], Value::Null);
    let command = whole.json["content"][0]["input"]["command"]
        .as_str()
        .unwrap();
    assert!(command.ends_with(&long));
    let id = call["content"][0]["id"].as_str().unwrap();
    let output = client.get(&place(&format!("/calls/{id}/output")));
    let lines: Vec<_> = output.body.lines().collect();
    assert_eq!((lines.len(), lines[49_999]), (50_000, "50000"));
    client.conforms();
}

#[test]
fn without_the_token_nothing_answers() {
    let world = World::new();
    let server = Server::new([says("unused")]);
    let client = Client::of(world.asking(&server, FREE).start());
    let description: Value =
        serde_json::from_str(include_str!("../../../../docs/openapi.json")).unwrap();
    let mut places: BTreeSet<String> = description["paths"]
        .as_object()
        .unwrap()
        .keys()
        .map(|path| path.replace(['{', '}'], ""))
        .collect();
    let folder = client.folder();
    // The folder of the page answers for its files alone, and only those who know its name.
    let near = [
        "/",
        "/page.css",
        "/main.js",
        "/0000000000000000/",
        "/0000000000000000/main.js",
    ];
    places.extend(near.map(str::to_owned));
    places.extend([
        folder.trim_end_matches('/').to_owned(),
        format!("{folder}nothing"),
    ]);
    for place in &places {
        for method in METHODS {
            let reply = client.raw(method, place, &[("Host", client.host())], b"{}");
            assert_eq!(reply.status, 401, "{method} {place}");
            // A person at the bare address is told the way in, which says nothing of this server.
            let is_told = place == "/" && method != "HEAD";
            let way = reply
                .body
                .starts_with("This is a server of ah. Open the link");
            assert!(
                if is_told { way } else { reply.body.is_empty() },
                "{method} {place}"
            );
        }
    }
    for method in METHODS
        .iter()
        .filter(|method| !["GET", "HEAD"].contains(method))
    {
        let reply = client.raw(method, &folder, &[("Host", client.host())], b"");
        assert_eq!((reply.status, &*reply.body), (401, ""), "{method}");
    }
}

#[test]
fn the_page_is_served_to_those_who_know_its_address() {
    let world = World::new();
    let server = Server::new([says("unused")]);
    let client = Client::of(world.asking(&server, FREE).start());
    let folder = client.folder();
    let own = [("Host", client.host())];
    let page = client.raw("GET", &folder, &own, b"");
    assert_eq!(page.status, 200);
    assert!(!page.body.contains(client.token()));
    for (what, kind) in [
        ("", "text/html"),
        ("page.css", "text/css"),
        ("main.js", "text/javascript"),
    ] {
        let reply = client.raw("GET", &format!("{folder}{what}"), &own, b"");
        assert_eq!(reply.status, 200, "{what}");
        let head = reply.head.to_lowercase();
        for expected in [
            &*format!("content-type: {kind}"),
            "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
            "referrer-policy: no-referrer",
            "x-content-type-options: nosniff",
            "cross-origin-opener-policy: same-origin",
            "cross-origin-resource-policy: same-origin",
        ] {
            assert!(head.contains(expected), "{what}: {expected}: {head}");
        }
        let tag = head
            .lines()
            .find_map(|line| line.strip_prefix("etag: "))
            .unwrap()
            .to_owned();
        let known = [own[0], ("If-None-Match", &*tag)];
        let again = client.raw("GET", &format!("{folder}{what}"), &known, b"");
        assert_eq!((again.status, &*again.body), (304, ""));
    }
    for strange in [
        vec![("Host", "rebound.example")],
        vec![own[0], ("Origin", "http://evil.example")],
        vec![own[0], ("Origin", "null")],
        vec![],
    ] {
        let reply = client.raw("GET", &folder, &strange, b"");
        assert!(
            [400, 403].contains(&reply.status),
            "{strange:?}: {}",
            reply.status
        );
        assert_eq!(reply.body, "", "{strange:?}");
    }
}
