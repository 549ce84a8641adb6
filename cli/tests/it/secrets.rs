//! Values of secret variables reach no command, and are in nothing that is stored or shown.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use parking_lot::Mutex;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;

use crate::support::binary::{Ah, World};

/// Variables that hold secrets, with each recognised name ending, and one that does not.
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
    // A project file contains a variable's value: the tool may read it, and the model sees it.
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

/// What no other process finds: a key of the agent's environment.
const CANARY: &str = "sk-canary-of-the-agent";

/// Who looks into processes is alone: one that has just begun cannot have closed itself to others yet.
static LOOKS: Mutex<()> = Mutex::new(());

/// Runs the calls with the key in the environment; returns the results, joined.
fn results_with_key(options: &[&str], turns: Vec<ah_provider::script::format::Turn>) -> String {
    let _alone = LOOKS.lock();
    let world = World::new();
    let model = world.scenario("s", turns.into_iter().chain([says("Done.")]));
    let arguments = [options, &["-m", &model, "--", "go"]].concat();
    let ah = world.as_typed(arguments).env("ANTHROPIC_API_KEY", CANARY);
    ah.env("STRIPE_SECRET_KEY", CANARY).run().expect(0);
    crate::sandbox::stored_results(&world).join("\n")
}

/// Commands that look for the key where the system shows processes.
const LOOKING: [&str; 6] = [
    "grep -a -h sk-canary /proc/*/environ",
    "cat /proc/$PPID/environ",
    "cat /proc/[0-9]*/environ",
    "cd /proc; cat self/environ */environ",
    "head -c 9999 /proc/*/environ",
    "env",
];

#[test]
fn no_call_finds_the_key_in_another_process() {
    for options in [
        &["-n", "--no-sandbox", "--permission-mode", "default"][..],
        &["-n", "--no-sandbox", "--permission-mode", "plan"],
        &["-n", "--no-sandbox", "--dangerously-skip-permissions"],
    ] {
        let lines = LOOKING.map(|line| uses("bash", json!({"command": line})));
        let found = results_with_key(options, lines.to_vec());
        assert!(!found.contains(CANARY), "{options:?}: {found}");
    }
}

#[test]
fn the_agent_leaves_no_core_file() {
    // As it is where somebody debugs programs.
    let limit = getrlimit(Resource::Core);
    let all = Rlimit {
        current: limit.maximum,
        ..limit
    };
    setrlimit(Resource::Core, all).unwrap();
    let line = "grep 'Max core file size' /proc/$PPID/limits";
    let options = ["-n", "--no-sandbox", "--dangerously-skip-permissions"];
    let found = results_with_key(&options, vec![uses("bash", json!({"command": line}))]);
    assert_eq!(found.split_whitespace().nth(4), Some("0"), "{found}");
}

#[test]
fn the_file_tools_refuse_what_belongs_to_processes() {
    let reads = [
        "self/environ",
        "1/environ",
        "self/mem",
        "1/maps",
        "self/fd/0",
        "self/task/1/environ",
    ]
    .map(|name| uses("Read", json!({"file_path": format!("/proc/{name}")})));
    let greps = ["/proc/self", "/proc/1/environ", "/proc"].map(|path| {
        let input = json!({"pattern": "sk-canary", "path": path, "glob": "environ", "output_mode": "content"});
        uses("Grep", input)
    });
    let turns = reads.into_iter().chain(greps).collect();
    let options = ["-n", "--no-sandbox", "--dangerously-skip-permissions"];
    let found = results_with_key(&options, turns);
    assert!(!found.contains(CANARY), "{found}");
    let refusals = found.matches("shows the memory or the environment of a process");
    assert!(refusals.count() >= 6, "{found}");
}

#[test]
fn a_variable_that_the_user_names_reaches_commands_outside_the_sandbox_too() {
    let turns = || {
        vec![uses(
            "bash",
            json!({"command": "echo got $STRIPE_SECRET_KEY"}),
        )]
    };
    let free = ["-n", "--no-sandbox", "--dangerously-skip-permissions"];
    let named = [&free[..], &["--env", "STRIPE_SECRET_KEY"]].concat();
    assert!(!results_with_key(&free, turns()).contains(CANARY));
    assert!(results_with_key(&named, turns()).contains(CANARY));
}

#[test]
fn the_file_that_holds_the_key_is_not_read_by_tools() {
    for (options, is_confined) in [
        (
            &["--no-sandbox", "--dangerously-skip-permissions"][..],
            false,
        ),
        (&["--sandbox"], true),
        (&["--sandbox=namespaces"], true),
        (&["--sandbox=landlock"], true),
    ] {
        if is_confined && crate::sandbox::is_missing() {
            continue;
        }
        let world = World::new();
        world.write(".env", format!("ANTHROPIC_API_KEY={CANARY}\n"));
        let calls = [
            uses("Read", json!({"file_path": world.file(".env")})),
            uses("bash", json!({"command": "cat .env"})),
            uses(
                "bash",
                json!({"command": "cat .en*; [[ -f .env ]] && cat .env"}),
            ),
            uses(
                "Grep",
                json!({"pattern": "sk-", "glob": ".env", "output_mode": "content"}),
            ),
        ];
        let model = world.scenario("s", calls.into_iter().chain([says("Done.")]));
        let common = ["-n", "--trust", "-m", &model, "--", "go"];
        let arguments = [options, &common].concat();
        world.as_typed(arguments).run().expect(0);
        let found = crate::sandbox::stored_results(&world).join("\n");
        assert!(!found.contains(CANARY), "{options:?}: {found}");
        assert!(
            found.contains("sandbox hides it") || found.contains(".env)`"),
            "{found}"
        );
    }
}

#[test]
fn files_with_secrets_in_the_users_folder_are_not_read_by_tools() {
    for options in [
        &["--no-sandbox", "--dangerously-skip-permissions"][..],
        &["--sandbox"],
        &["--sandbox=landlock"],
    ] {
        if options[0] != "--no-sandbox" && crate::sandbox::is_missing() {
            continue;
        }
        let world = World::new();
        let folder = world.home().join(".ah");
        let names = [
            "credentials.json",
            "server-credentials.json",
            "serve/7.json",
        ];
        let mut calls = Vec::new();
        fs::create_dir_all(folder.join("serve")).unwrap();
        for name in names {
            let path = folder.join(name);
            fs::write(&path, json!({"variables": {"TOKEN": CANARY}}).to_string()).unwrap();
            let line = format!("cat {}", path.display());
            calls.push(uses("Read", json!({"file_path": path})));
            calls.push(uses("bash", json!({"command": line})));
        }
        let search = json!({"pattern": "sk-", "path": folder, "output_mode": "content"});
        calls.push(uses("Grep", search));
        let model = world.scenario("s", calls.into_iter().chain([says("Done.")]));
        let arguments = [options, &["-n", "-m", &model, "--", "go"]].concat();
        world.as_typed(arguments).run().expect(0);
        let found = crate::sandbox::stored_results(&world).join("\n");
        assert!(!found.contains(CANARY), "{options:?}: {found}");
    }
}

#[test]
fn what_a_run_writes_about_itself_is_for_its_owner_only() {
    let world = World::new();
    let model = world.scenario(
        "s",
        [uses("bash", json!({"command": "true"})), says("Done.")],
    );
    // A file that is left from before must not lend its mode to the new one.
    world.write("run.yaml.part", "");
    let arguments = [
        "--record",
        "run.yaml",
        "--debug-file",
        "run.log",
        "-m",
        &model,
        "go",
    ];
    world.ah(arguments).run().expect(0);
    let folder = world.database().parent().unwrap().to_owned();
    let stored = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let written = [world.file("run.yaml"), world.file("run.log")];
    for path in written.into_iter().chain(stored) {
        let metadata = fs::metadata(&path).unwrap();
        let mode = metadata.permissions().mode();
        assert_eq!(mode & 0o077, 0, "{}: {mode:o}", path.display());
    }
}
