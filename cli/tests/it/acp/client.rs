//! The official client of the protocol (npm), in version 1 and in version 2: one session with everything, each message held
//! against the protocol's JSON schema. The editor is `interop/acp/client.mjs`; here is what its model says.
//!
//! `cargo xtask test acp` installs the client and passes its folder; without it, these tests pass without testing anything.

use std::env;
use std::path::Path;

use ah_conversation::Usage;
use ah_provider::script::format::Turn;
use ah_testkit::script::{hangs, says, thinks, uses};
use ah_testkit::server::Server;
use serde_json::json;

use super::{edits, served};
use crate::support::binary::World;

fn turns(path: &Path) -> Vec<Turn> {
    let todo =
        |content: &str| json!({"content": content, "status": "pending", "activeForm": content});
    let option = |label: &str| json!({"label": label, "description": "a colour"});
    let question = |text: &str, several: bool| {
        json!({"question": text, "header": "Colour", "multiSelect": several,
            "options": [option("red"), option("blue")]})
    };
    vec![
        edits(path),
        Turn {
            usage: Some(Usage {
                input_tokens: 1000,
                output_tokens: 20,
                ..Usage::default()
            }),
            ..thinks("Let me see.", "Done.")
        },
        uses("bash", json!({"command": "echo ready"})),
        says("It ran."),
        uses("todo", json!({"todos": [todo("read"), todo("write")]})),
        says("Planned."),
        uses(
            "ask_user_question",
            json!({"questions": [question("Which colour?", false), question("Which else?", true)]}),
        ),
        says("Red, then."),
        says("I have looked."),
        uses(
            "bash",
            json!({"command": "until [ -e go ]; do sleep 0.05; done"}),
        ),
        says("Faster it was."),
        hangs("Hanging"),
    ]
}

fn session(version: &str) {
    let Some(folder) = env::var_os("AH_TEST_ACP") else {
        return;
    };
    let world = World::new();
    let path = world.write("a.txt", "one\ntwo\n");
    let server = Server::new(turns(&path));
    let client = concat!(env!("CARGO_MANIFEST_DIR"), "/../interop/acp/client.mjs");
    let folder = folder.to_str().unwrap();
    let ah = served(&world, &server, &[]).through("node", [client, folder, version]);
    let ended = ah.run().expect(0);
    assert!(ended.stdout.contains(" messages of "), "{ended:#?}");
    assert!(server.refusals().is_empty(), "{:?}", server.refusals());
    let requests = server.requests();
    let said = requests.last().unwrap().body["messages"].to_string();
    for words in [
        "as you like",
        "attached words",
        "[STEERING] Faster",
        "image",
    ] {
        assert!(said.contains(words), "{words}");
    }
}

#[test]
fn the_first_version_has_everything() {
    session("1");
}

#[test]
fn the_second_version_has_everything() {
    session("2");
}
