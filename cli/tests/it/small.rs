//! What small models get, and which models are taken for small ones.

use std::fs;

use ah_testkit::script::{says, uses_all};
use ah_testkit::server::Server;
use ah_testkit::server::local::Program;
use serde_json::{Value, json};

use crate::support::binary::World;

/// Most bytes of the system prompt and the tools: at 3.2 bytes a token, 700 tokens.
const MOST: usize = 2_240;

/// Returns the body of the first request of a run that asks a server on this machine.
fn body(arguments: &[&str]) -> Value {
    let world = World::new();
    let server = Server::new([says("Done.")]);
    let arguments = arguments.iter().copied().chain(["go"]);
    { world.asking_as_typed(&server, arguments) }
        .env("LLAMACPP_BASE_URL", server.url())
        .env("OPENAI_BASE_URL", server.url())
        .env("LITELLM_BASE_URL", server.url())
        .env("LLAMA_API_KEY", "key")
        .env("OPENAI_API_KEY", "key")
        .env("LITELLM_API_KEY", "key")
        .run()
        .expect(0);
    let mut requests = server.requests();
    requests.pop().unwrap().body
}

fn names(body: &Value) -> String {
    let tools = body["tools"].as_array().into_iter().flatten();
    let names = tools.map(|tool| {
        let name = tool["function"]["name"].as_str();
        name.or(tool["name"].as_str()).unwrap().to_owned()
    });
    names.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_model_of_this_machine_gets_few_tools_in_few_words() {
    for (arguments, expected) in [
        (&["-m", "llamacpp/qwen"][..], "read write edit bash"),
        (&["-m", "openai/qwen"], "read write edit bash"),
        (&["-p", "-m", "llamacpp/qwen"], "Read Write Edit Bash"),
        (
            &["-m", "sonnet", "--profile", "small"],
            "read write edit bash",
        ),
        (
            &["-m", "sonnet", "--settings", r#"{"profile": "small"}"#],
            "read write edit bash",
        ),
        (&["-p", "-m", "llamacpp/qwen", "--tools", "Glob"], "Glob"),
    ] {
        assert_eq!(names(&body(arguments)), expected, "{arguments:?}");
    }
    let body = body(&["--sandbox", "-m", "llamacpp/qwen"]);
    let (tools, system) = (&body["tools"], &body["messages"][0]);
    assert_eq!(system["role"], "system");
    let bytes = tools.to_string().len() + system["content"].as_str().unwrap().len();
    assert!(bytes <= MOST, "{bytes} bytes: {body:#}");
}

#[test]
fn other_models_and_other_choices_get_all_tools() {
    let off = json!({"profile": "default"}).to_string();
    for arguments in [
        &["-m", "sonnet"][..],
        &["-m", "litellm/qwen"],
        &["-m", "openai/gpt-6-sol"],
        &["-m", "llamacpp/qwen", "--profile", "default"],
        &["-m", "llamacpp/qwen", "--settings", &off],
    ] {
        let names = names(&body(arguments));
        assert!(names.contains("grep glob"), "{arguments:?}: {names}");
    }
}

#[test]
fn a_small_window_is_that_of_a_small_model() {
    for (window, is_small) in [(32_768, true), (40_960, false)] {
        let world = World::new();
        let server = Server::new([says("Done.")]);
        let models = json!({"models": {"litellm/qwen": {"context_window": window}}});
        let home = world.home().join(".ah");
        fs::create_dir_all(&home).unwrap();
        fs::write(home.join("models.json"), models.to_string()).unwrap();
        { world.asking(&server, ["-m", "litellm/qwen", "go"]) }
            .env("LITELLM_BASE_URL", server.url())
            .env("LITELLM_API_KEY", "key")
            .run()
            .expect(0);
        let names = names(&server.requests()[0].body);
        assert_eq!(names == "read write edit bash", is_small, "{names}");
    }
}

/// The server says of its chat template what it cannot do; nothing else would tell.
#[test]
fn a_template_without_tools_is_told_and_calls_are_sent_one_by_one() {
    let world = World::new();
    world.write("a", "first");
    let reads = uses_all([
        ("read", json!({"path": "a"})),
        ("read", json!({"path": "b"})),
    ]);
    let server =
        Server::new([reads, says("Done.")]).on_this_machine(Program::LlamaCppPlain, "qwen", 8_192);
    let ended = { world.ah(["-m", "llamacpp/qwen", "Read a and b."]) }
        .env("LLAMACPP_BASE_URL", server.url())
        .env("LLAMA_API_KEY", "key")
        .run()
        .expect(0);
    assert!(ended.stderr.contains("of qwen shows no tools"), "{ended:?}");
    assert_eq!(server.refusals(), Vec::<String>::new());
    let body = &server.requests().pop().unwrap().body;
    let roles = body["messages"].as_array().unwrap().iter();
    let roles: Vec<_> = roles
        .map(|message| message["role"].as_str().unwrap())
        .collect();
    assert!(
        roles.ends_with(&["assistant", "tool", "assistant", "tool"]),
        "{roles:?}"
    );
    // It is kept for the next look.
    let doctor = { world.ah(["-m", "llamacpp/qwen", "doctor"]) }
        .env("LLAMACPP_BASE_URL", server.url())
        .env("LLAMA_API_KEY", "key")
        .run();
    assert!(
        doctor.stdout.contains("of llamacpp/qwen shows no tools"),
        "{doctor:?}"
    );
}
