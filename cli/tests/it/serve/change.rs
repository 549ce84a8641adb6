//! What a client changes beside the conversation, and what it gives a run besides its prompt.

use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use serde_json::{Value, json};

use super::FREE;
use super::client::Client;
use crate::support::binary::{World, wait_for_file};

/// A picture of one pixel.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg==";

/// Begins a session, and waits for the end of its run; returns its place.
fn session(client: &Client, body: &Value) -> String {
    let begun = client.post("/v1/sessions", body);
    assert_eq!(begun.status, 201, "{begun:?}");
    let place = format!("/v1/sessions/{}", begun.json["session"].as_str().unwrap());
    client.events(&format!("{place}/events"), None).until_idle();
    place
}

#[test]
fn a_session_is_renamed_and_deleted_but_not_while_it_runs() {
    let world = World::new();
    let wait = uses(
        "bash",
        json!({"command": "echo yes > begun; while [ ! -e go ]; do sleep 0.05; done"}),
    );
    let server = Server::new([says("One."), says("Two."), wait, says("Three.")]);
    let client = Client::of(world.asking(&server, FREE).start());
    let one = session(&client, &json!({"prompt": "First."}));
    let two = session(&client, &json!({"prompt": "Second."}));
    let name = |place: &str, name: &str| client.patch(place, &json!({"name": name})).status;
    assert_eq!(name(&one, "The shed"), 200);
    assert_eq!(name(&one, "The shed"), 200);
    assert_eq!(name(&two, "The shed"), 422);
    assert_eq!(name(&two, " "), 422);
    assert_eq!(name("/v1/sessions/nothing", "x"), 404);
    let tree = client.get(&format!("{one}/tree")).json;
    assert_eq!(tree["name"], "The shed");
    let begun = client.post(&format!("{two}/prompt"), &json!({"prompt": "Wait."}));
    assert_eq!(begun.status, 201);
    wait_for_file(&world.file("begun"));
    assert_eq!(name(&two, "Another"), 409);
    assert_eq!(client.delete(&two).status, 409);
    assert_eq!(client.get(&format!("{two}/files/undo")).status, 409);
    world.write("go", "");
    client.events(&format!("{two}/events"), None).until_idle();
    assert_eq!(client.delete(&two).status, 200);
    assert_eq!(client.delete(&two).status, 404);
    assert_eq!(client.get(&two).status, 404);
    let listed = client.get("/v1/sessions").json;
    let titles: Vec<_> = listed["sessions"].as_array().unwrap().iter().collect();
    assert_eq!(titles.len(), 1);
    assert_eq!(titles[0]["title"], "The shed");
    assert_eq!(world.databases().len(), 1);
    client.conforms();
}

#[test]
fn files_are_listed_undone_as_they_were_shown_and_redone() {
    let world = World::new();
    world.write("a.txt", "one\ntwo\n");
    let (a, b) = (world.file("a.txt"), world.file("b.txt"));
    let server = Server::new([
        uses("read", json!({"path": a})),
        uses(
            "edit",
            json!({"path": a, "old_string": "two", "new_string": "three"}),
        ),
        uses("write", json!({"path": b, "content": "new\n"})),
        says("Done."),
    ]);
    let client = Client::of(world.asking(&server, FREE).start());
    let place = session(&client, &json!({"prompt": "Change them."}));
    let files = |at: &str| client.get(&format!("{place}/files/{at}"));
    let all = files("beginning").json;
    let told = |diff: &Value, name: &str| {
        let files = diff["files"].as_array().unwrap().iter();
        files.map(|file| file[name].clone()).collect::<Vec<_>>()
    };
    assert_eq!(told(&all, "path"), ["a.txt", "b.txt"]);
    assert_eq!(told(&all, "change"), ["changed", "created"]);
    assert_eq!(told(&all, "added"), [1, 1]);
    assert_eq!(told(&all, "removed"), [1, 0]);
    assert_eq!(
        all["files"][0]["hunks"],
        json!([{"old": 1, "new": 1, "lines": [" one", "-two", "+three"]}])
    );
    assert_eq!(files("redo").json["files"], json!([]));
    assert_eq!(files("nowhere").status, 404);
    let undo = files("undo").json;
    assert_eq!(told(&undo, "change"), ["changed", "removed"]);
    assert_eq!(undo["files"][1]["hunks"][0]["lines"], json!(["-new"]));
    let go = |at: &str, plan: &Value| {
        let place = format!("{place}/files/{at}");
        client.post(&place, &json!({ "plan": plan }))
    };
    // Who has agreed to something else has not agreed to this.
    world.write("b.txt", "newer\n");
    assert_eq!(go("undo", &undo["plan"]).status, 409);
    assert_eq!(world.text("a.txt"), "one\nthree\n");
    world.write("b.txt", "new\n");
    let undo = files("undo").json;
    let done = go("undo", &undo["plan"]);
    assert_eq!((done.status, &done.json["failed"]), (200, &json!([])));
    assert_eq!(world.text("a.txt"), "one\ntwo\n");
    assert_eq!(files("beginning").json["files"], json!([]));
    let redo = files("redo").json;
    assert_eq!(go("redo", &redo["plan"]).status, 200);
    assert_eq!(world.text("a.txt"), "one\nthree\n");
    client.conforms();
}

#[test]
fn a_message_that_waits_is_listed_and_taken_back() {
    let world = World::new();
    let wait = uses(
        "bash",
        json!({"command": "echo so far; echo yes > begun; while [ ! -e go ]; do sleep 0.05; done"}),
    );
    let server = Server::new([wait, says("Done.")]);
    let client = Client::of(world.asking(&server, FREE).start());
    let begun = client.post("/v1/sessions", &json!({"prompt": "Wait."}));
    let place = format!("/v1/sessions/{}", begun.json["session"].as_str().unwrap());
    wait_for_file(&world.file("begun"));
    let steer = |text: &str| {
        let sent = client.post(&format!("{place}/steer"), &json!({ "message": text }));
        sent.json["message"].as_str().unwrap().to_owned()
    };
    let (kept, taken) = (steer("Be quick."), steer("Be slow."));
    let queue = || client.get(&format!("{place}/queue")).json["messages"].clone();
    let waiting = |id: &str, text: &str| json!({"id": id, "text": text});
    assert_eq!(
        queue(),
        json!([waiting(&kept, "Be quick."), waiting(&taken, "Be slow.")])
    );
    let back = format!("{place}/queue/{taken}");
    assert_eq!(client.delete(&back).status, 200);
    assert_eq!(client.delete(&back).status, 409);
    assert_eq!(queue(), json!([waiting(&kept, "Be quick.")]));
    // The call that waits has written something already.
    let messages = client.get(&format!("{place}/messages")).json;
    let call = messages["messages"][1]["content"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let output = client.get(&format!("{place}/calls/{call}/output"));
    assert_eq!((output.status, &*output.body), (200, "so far\n"));
    world.write("go", "");
    let events = client.events(&format!("{place}/events"), None).until_idle();
    assert!(events.iter().any(|event| event.data["id"] == kept));
    let asked = server.requests();
    let last = asked.last().unwrap().body["messages"].to_string();
    assert!(
        last.contains("Be quick.") && !last.contains("Be slow."),
        "{last}"
    );
    assert_eq!(queue(), json!([]));
    client.conforms();
}

#[test]
fn a_prompt_brings_its_model_its_mode_and_pictures() {
    let world = World::new();
    let file = world.file("a.txt");
    let write = uses("write", json!({"path": file, "content": "a"}));
    let server = Server::new([write, says("Written."), says("Seen.")]);
    let ah = world.asking_as_typed(&server, ["--no-sandbox", "serve"]);
    let client = Client::of(ah.start());
    let choices = client.get("/v1/choices").json;
    assert_eq!(choices["mode"], "default");
    assert_eq!(choices["modes"], json!(["default", "acceptEdits", "plan"]));
    let models = choices["models"].as_array().unwrap();
    let haiku = models
        .iter()
        .find(|model| model["name"] == "haiku")
        .unwrap();
    let place = session(
        &client,
        &json!({"prompt": "Write it.", "mode": "acceptEdits", "model": "haiku"}),
    );
    assert_eq!(world.text("a.txt"), "a");
    assert_eq!(server.requests()[0].body["model"], haiku["title"]);
    assert_eq!(client.get(&place).json["state"]["mode"], "acceptEdits");
    let prompt = |body: Value| client.post(&format!("{place}/prompt"), &body);
    for body in [
        json!({"prompt": "x", "mode": "bypassPermissions"}),
        json!({"prompt": "x", "pictures": ["no picture"]}),
    ] {
        let refused = prompt(body);
        assert_eq!(refused.status, 422, "{refused:?}");
    }
    let seen = prompt(json!({"prompt": "What is it?", "pictures": [PNG]}));
    assert_eq!(seen.status, 201, "{seen:?}");
    client.events(&format!("{place}/events"), None).until_idle();
    let asked = server.requests();
    let sent = asked.last().unwrap().body["messages"].to_string();
    assert!(sent.contains("image/png"), "{sent}");
    client.conforms();
}

#[test]
fn a_question_about_an_edit_has_its_change() {
    let world = World::new();
    world.write("a.txt", "one\ntwo\n");
    let file = world.file("a.txt");
    let edit = json!({"path": file, "old_string": "one\ntwo\n", "new_string": "one\nthree\n"});
    let server = Server::new([
        uses("read", json!({"path": file})),
        uses("edit", edit),
        says("Done."),
    ]);
    let ah = world.asking_as_typed(&server, ["--no-sandbox", "serve"]);
    let client = Client::of(ah.start());
    let begun = client.post("/v1/sessions", &json!({"prompt": "Change it."}));
    let place = format!("/v1/sessions/{}", begun.json["session"].as_str().unwrap());
    let mut stream = client.events(&format!("{place}/events"), None);
    let question = stream.until_asked();
    assert_eq!(
        question["proposal"]["hunks"],
        json!([{"old": 1, "new": 1, "lines": [" one", "-two", "+three"]}])
    );
    let about = question["proposal"]["about"].as_str().unwrap();
    assert!(
        about.contains("a.txt") && !about.contains("three"),
        "{about}"
    );
    assert!(question["about"].as_str().unwrap().contains("three"));
    let answer = format!("{place}/questions/{}", question["id"]);
    let pick = question["picks"][0]["question"].as_str().unwrap();
    let denied = client.post(&answer, &json!({"answers": {pick: "Deny: not today"}}));
    assert_eq!(denied.status, 200);
    stream.until_idle();
    let asked = server.requests();
    let last = asked.last().unwrap().body["messages"].to_string();
    assert!(last.contains("not today"), "{last}");
    assert_eq!(world.text("a.txt"), "one\ntwo\n");
    client.conforms();
}
