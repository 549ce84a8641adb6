//! Values of secret variables reach no command, and stand in nothing that is written down or shown.

use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use serde_json::json;

use crate::binary::{Ah, World};

/// Variables that hold secrets, by the endings of their names, and one that holds none.
const VARIABLES: [(&str, &str); 8] = [
    ("ANTHROPIC_API_KEY", "sk-of-the-model-1"),
    ("OPENAI_API_KEY", "sk-of-the-model-2"),
    ("GITHUB_TOKEN", "ghp-of-the-user-3"),
    ("CLIENT_SECRET", "secret-of-the-user-4"),
    ("DATABASE_PASSWORD", "password-of-the-user-5"),
    ("AWS_SECRET_ACCESS_KEY", "access-key-of-the-user-6"),
    ("SIGNING_PRIVATE_KEY", "private-key-of-the-user-7"),
    ("TOKENIZER", "harmless-word-8"),
];

fn with_secrets(ah: Ah) -> Ah {
    VARIABLES
        .iter()
        .fold(ah, |ah, (name, value)| ah.env(name, value))
}

#[track_caller]
fn assert_no_secret(what: &str, text: &str) {
    for (name, value) in VARIABLES.iter().filter(|(name, _)| *name != "TOKENIZER") {
        assert!(!text.contains(value), "{name} stands in {what}:\n{text}");
    }
}

#[test]
fn no_command_gets_a_secret() {
    let world = World::new();
    world.write(".env", "ANTHROPIC_API_KEY=sk-of-the-file-9\n");
    world.write(".ah/settings.json", r#"{"env": {"SETTINGS_TOKEN": "token-of-the-settings-0", "GREETING": "from the settings"}}"#);
    let server = Server::new([
        uses("bash", json!({"command": "env; echo end"})),
        uses(
            "bash",
            json!({"command": "env >job-environment; echo done >done", "run_in_background": true}),
        ),
        uses(
            "bash",
            json!({"command": "until [ -e done ]; do sleep 0.01; done"}),
        ),
        says("Done."),
    ]);
    with_secrets(world.asking(&server, ["-m", "sonnet", "--trust", "go"]))
        .run()
        .expect(0);
    let asked = server.requests().pop().unwrap().body["messages"].to_string();
    let job = world.text("job-environment");
    for (what, text) in [("the model's view", &asked), ("a job's environment", &job)] {
        assert_no_secret(what, text);
        assert!(
            text.contains("harmless-word-8") && text.contains("from the settings"),
            "{text}"
        );
        assert!(
            !text.contains("token-of-the-settings-0") && !text.contains("sk-of-the-file-9"),
            "{text}"
        );
    }
}

#[test]
fn what_is_written_down_or_shown_names_secrets_and_does_not_tell_them() {
    let world = World::new();
    // A file of the project holds what a variable holds: the tool may read it, and the model sees it.
    let values: Vec<_> = VARIABLES.iter().map(|(_, value)| *value).collect();
    world.write("notes", values.join("\n"));
    let server = Server::new([
        uses("bash", json!({"command": "cat notes"})),
        says(&format!("The notes say {}.", values.join(", "))),
    ]);
    let arguments = [
        "-m",
        "sonnet",
        "--record",
        "run.yaml",
        "--debug=trace",
        "--debug-file",
        "log",
        "go",
    ];
    let ah = world.asking(&server, arguments);
    with_secrets(ah)
        .env("ANTHROPIC_BASE_URL", server.url())
        .run()
        .expect(0);
    assert!(
        server.requests()[1].body["messages"]
            .to_string()
            .contains(values[0])
    );
    for name in ["run.yaml", "log"] {
        let text = world.text(name);
        assert!(!text.is_empty(), "{name}");
        assert_no_secret(name, &text);
    }
    assert!(
        world.text("run.yaml").contains("[CLIENT_SECRET]"),
        "{}",
        world.text("run.yaml")
    );
    let commands: [&[&str]; 6] = [
        &["export"],
        &["export", "--html"],
        &["export", "--format", "jsonl"],
        &["doctor"],
        &["doctor", "--json"],
        &["config", "show"],
    ];
    for command in commands {
        let ended = with_secrets(world.ah(command.iter().copied()))
            .run()
            .without_panic();
        assert_no_secret(&command.join(" "), &(ended.stdout + &ended.stderr));
    }
    let exported = with_secrets(world.ah(["export"])).run().expect(0).stdout;
    assert!(
        exported.contains("[DATABASE_PASSWORD]") && exported.contains("harmless-word-8"),
        "{exported}"
    );
}

#[test]
fn a_server_that_repeats_the_key_does_not_get_it_shown() {
    let world = World::new();
    let server = Server::new([says("Never.")]);
    let url = server
        .url()
        .replace("http://", "http://user:password-of-the-user-5@");
    let ah = with_secrets(world.asking(&server, ["-m", "sonnet", "--debug", "go"]));
    let ended = ah
        .env("ANTHROPIC_BASE_URL", url + "/elsewhere")
        .run()
        .without_panic();
    assert_no_secret("what is shown", &(ended.stdout + &ended.stderr));
}
