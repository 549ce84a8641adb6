//! A real model on a real server of this machine: llama.cpp with SmolLM2-135M, which writes nonsense, but by the protocol. What is
//! looked at is the way to it: that it is found, what it reads anew, how it is stopped, and that nothing it says ends a session.
//!
//! `cargo xtask test local` installs both and passes their Python; without it, these tests pass without testing anything.

mod llama;

use std::env;
use std::fs;
use std::process::Command;
use std::thread;

use ah_testkit::wait::until;
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};

use self::llama::Llama;
use crate::litellm::proxy::{KEY, Proxy};
use crate::support::binary::{Ah, World};
use crate::support::pseudo_terminal::Seat;

/// One test at a time: the server has one slot, and what one test reads would push out what another has read.
static TURN: Mutex<()> = Mutex::new(());

/// A server, an empty home, and the settings for its runs.
struct Place {
    world: World,
    llama: Llama,
    _turn: MutexGuard<'static, ()>,
}

/// What the server holds an answer to where only the way to it is looked at. What the model says by itself may go on and on.
fn done() -> Value {
    let format = json!({"name": "answer", "schema": {"const": "Done."}});
    json!({"response_format": {"type": "json_schema", "json_schema": format}})
}

/// The end of a run.
#[derive(Debug)]
struct Ended {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Place {
    /// Starts a server with this window, and a template with tools or that of the model; `None` without a Python that has it.
    fn of(window: u32, has_tools: bool) -> Option<Self> {
        let python = env::var_os("AH_TEST_LOCAL")?;
        let turn = TURN.lock();
        let place = Self {
            world: World::new(),
            llama: Llama::start(&python, window, has_tools),
            _turn: turn,
        };
        // The model ends with its first sentence, or it would go on and on.
        place.set(&json!({"model": "llamacpp/smollm2", "maxOutputTokens": 200, "stop": ["."]}));
        Some(place)
    }

    /// Writes the user's settings.
    fn set(&self, settings: &Value) {
        let folder = self.world.home().join(".ah");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("settings.json"), settings.to_string()).unwrap();
    }

    fn ah<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Ah {
        let free = ["--no-sandbox", "--dangerously-skip-permissions"];
        let all = free.into_iter().chain(arguments);
        { self.world.as_typed(all) }
            .env("LLAMACPP_BASE_URL", self.llama.url())
            .through("timeout", ["900"])
    }

    fn run<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Ended {
        ended(self.ah(arguments).into_command())
    }

    /// Runs a prompt; returns the tokens that were read anew and those that were cached.
    fn tokens<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> (u64, u64) {
        let ended = self.run(
            ["-p", "--output-format", "json"]
                .into_iter()
                .chain(arguments),
        );
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let result: Value = serde_json::from_str(&ended.stdout).unwrap();
        let number = |name: &str| result["usage"][name].as_u64().unwrap_or_default();
        (number("input_tokens"), number("cache_read_input_tokens"))
    }
}

fn ended(mut command: Command) -> Ended {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ended {
        code: output.status.code(),
        stdout: text(&output.stdout),
        stderr: text(&output.stderr),
    }
}

#[test]
fn it_is_found_listed_and_tried() {
    let Some(place) = Place::of(8_192, true) else {
        return;
    };
    place.set(&json!({}));
    let login = place.world.as_typed(["login"]);
    let mut seat = Seat::seeing(login.env("LLAMACPP_BASE_URL", place.llama.url()), 100, 30);
    seat.sees("llama.cpp, running on this machine (1 model)");
    seat.says("llama.cpp");
    seat.sees("Default model: llamacpp/smollm2");
    seat.sees("asking llamacpp/smollm2 to call a tool");
    seat.wait_until("what came back", |_, screen| {
        ["it called", "it gave", "it failed"]
            .iter()
            .any(|words| screen.contains(words))
    });
    assert_eq!(seat.leaves(), 0);
    let listed = place.run(["models"]);
    let line = listed.stdout.lines().find(|line| line.contains("smollm2"));
    assert!(line.is_some_and(|line| line.contains("8.1k")), "{listed:?}");
    let doctor = place.run(["doctor"]);
    assert!(
        doctor
            .stdout
            .contains("llamacpp answered: it has the model"),
        "{doctor:?}"
    );
}

#[test]
fn a_template_without_tools_is_told() {
    let Some(place) = Place::of(4_096, false) else {
        return;
    };
    let told = "shows no tools";
    let first = place.run(["Say hello."]);
    assert!(first.stderr.contains(told), "{first:?}");
    let doctor = place.run(["doctor"]);
    assert!(doctor.stdout.contains(told), "{doctor:?}");
}

#[test]
fn what_was_read_is_not_read_again() {
    let Some(place) = Place::of(8_192, true) else {
        return;
    };
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@b.example"])
            .args(arguments);
        assert!(
            git.current_dir(place.world.project())
                .status()
                .unwrap()
                .success()
        );
    };
    place.set(&json!({
        "model": "llamacpp/smollm2",
        "maxOutputTokens": 64,
        "providers": {"llamacpp": {"extraBody": done()}},
    }));
    git(&["init", "--quiet"]);
    git(&["commit", "--quiet", "--allow-empty", "--message", "one"]);
    let (first, _) = place.tokens(["Count to 1."]);
    assert!(first <= 700, "the first request has {first} tokens");
    // Twelve turns of a session, each in a process of its own.
    let mut before = first;
    for turn in 2..=12 {
        let prompt = format!("Count to {turn}.");
        let (anew, cached) = place.tokens(["-c", &prompt]);
        assert!(
            cached * 100 >= before * 95,
            "turn {turn}: {cached} of {before} cached"
        );
        before = anew + cached;
    }
    // A session of another commit.
    git(&["commit", "--quiet", "--allow-empty", "--message", "two"]);
    let (anew, cached) = place.tokens(["Count to 1."]);
    assert!(anew <= 200, "{anew} anew, {cached} cached");
}

#[test]
fn a_full_window_is_summarised_and_the_session_goes_on() {
    let Some(place) = Place::of(3_072, true) else {
        return;
    };
    for number in 0..6 {
        // Nothing that the model could go on repeating.
        let words =
            (0..60).map(|at| format!("Item {at} of list {number} costs {}.", at * 7 + number));
        let words = words.collect::<Vec<_>>().join(" ");
        let prompt = format!("{words} Which is list {number}?");
        let arguments = match number {
            0 => vec![prompt.as_str()],
            _ => vec!["-c", prompt.as_str()],
        };
        let ended = place.run(arguments);
        assert_eq!(ended.code, Some(0), "{number}: {ended:?}");
    }
    let last = place.run(["-c", "And now?"]);
    assert_eq!(last.code, Some(0), "{last:?}");
}

#[test]
fn a_run_that_is_cancelled_frees_the_slot() {
    let Some(place) = Place::of(8_192, true) else {
        return;
    };
    place.set(&json!({"model": "llamacpp/smollm2", "maxOutputTokens": 2_000}));
    let ah = place.ah(["Write a long story about a king."]);
    let mut running = ah.into_command().spawn().unwrap();
    until("it answers", || place.llama.is_busy());
    let pid = rustix::process::Pid::from_child(&running);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    running.wait().unwrap();
    until("the slot is free", || !place.llama.is_busy());
}

#[test]
fn empty_and_endless_answers_end() {
    let Some(place) = Place::of(8_192, true) else {
        return;
    };
    let biased = |word: Value, most: u32| {
        let body = json!({"logit_bias": [[word, 100]]});
        place.set(&json!({
            "model": "llamacpp/smollm2",
            "maxOutputTokens": most,
            "providers": {"llamacpp": {"extraBody": body}},
        }));
    };
    // The token that ends a message.
    biased(json!(2), 24);
    let empty = place.run(["Say hello."]);
    assert_eq!(empty.code, Some(1), "{empty:?}");
    biased(json!(" again"), 2_000);
    let endless = place.run(["Say hello."]);
    assert_eq!(endless.code, Some(3), "{endless:?}");
    assert!(
        endless.stderr.contains("in a row; stopping the run"),
        "{endless:?}"
    );
    assert!(
        endless.stdout.matches("again").count() < 1_000,
        "{endless:?}"
    );
}

#[test]
fn a_structured_answer_is_whole() {
    let Some(place) = Place::of(8_192, true) else {
        return;
    };
    let schema =
        json!({"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]});
    let (output, schema) = (
        ["-p", "--output-format", "json", "--json-schema"],
        schema.to_string(),
    );
    let ended = place.run(output.into_iter().chain([&*schema, "What is 17 + 4?"]));
    let result: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(result["subtype"], "success", "{ended:?}");
    assert!(result["structured_output"]["sum"].is_i64(), "{ended:?}");
}

/// The model is held to a call by the server, and calls the same tool, which is not there, until it is stopped.
#[test]
fn a_call_of_an_unknown_tool_is_answered_and_a_loop_ends() {
    let Some(place) = Place::of(8_192, true) else {
        return;
    };
    let call = json!({
        "type": "object",
        "properties": {"name": {"const": "read_file"}, "arguments": {"const": {"path": "a"}}},
        "required": ["name", "arguments"],
    });
    let format = json!({"type": "json_schema", "json_schema": {"name": "call", "schema": call}});
    place.set(&json!({
        "model": "llamacpp/smollm2",
        "maxOutputTokens": 64,
        "providers": {"llamacpp": {
            "extraBody": {"response_format": format},
            "quirks": {"textTags": {"toolCall": "llama"}},
        }},
    }));
    let looping = place.run(["Read a."]);
    assert_eq!(looping.code, Some(3), "{looping:?}");
    let told = "there is no tool `read_file`; did you mean `read`?";
    assert!(
        looping.stderr.contains(told) || looping.stdout.contains(told),
        "{looping:?}"
    );
}

#[test]
fn four_sessions_share_a_slot() {
    let Some(place) = Place::of(8_192, true) else {
        return;
    };
    let _ = place.tokens(["Say hello."]);
    thread::scope(|scope| {
        let runs = ["one", "two", "three", "four"].map(|word| {
            let ah = place.ah([&*format!("Say {word}.")]);
            scope.spawn(move || ended(ah.into_command()))
        });
        for run in runs {
            let ended = run.join().unwrap();
            assert_eq!(ended.code, Some(0), "{ended:?}");
        }
    });
}

#[test]
fn its_other_protocols_answer_as_well() {
    let Some(place) = Place::of(8_192, true) else {
        return;
    };
    // The Messages API takes no form, so an answer ends with its first line.
    place.set(&json!({
        "maxOutputTokens": 64,
        "stop": [".", "\n"],
        "providers": {"openai-responses": {"extraBody": done()}},
    }));
    for (model, variable) in [
        ("anthropic/smollm2", "ANTHROPIC_BASE_URL"),
        ("openai-responses/smollm2", "OPENAI_BASE_URL"),
    ] {
        for turn in ["-n", "-c"] {
            let ah = place.ah([turn, "--profile", "small", "-m", model, "Say hello."]);
            let ah = ah
                .env(variable, place.llama.url())
                .env("ANTHROPIC_API_KEY", "none");
            let ended = ended(ah.into_command());
            assert_eq!(ended.code, Some(0), "{model} {turn}: {ended:?}");
            assert!(!ended.stdout.trim().is_empty(), "{model} {turn}: {ended:?}");
        }
    }
}

#[test]
fn it_answers_behind_litellm() {
    let (Some(place), Some(python)) = (Place::of(8_192, true), env::var_os("AH_TEST_LITELLM"))
    else {
        return;
    };
    let model = json!({
        "model_name": "smollm2",
        "litellm_params": {
            "model": "openai/smollm2",
            "api_base": format!("{}/v1", place.llama.url()),
            "api_key": "none",
        },
    });
    let proxy = Proxy::start(&python, [model]);
    place.set(&json!({
        "model": "litellm/smollm2",
        "maxOutputTokens": 64,
        "providers": {"litellm": {"extraBody": done()}},
    }));
    for turn in ["-n", "-c"] {
        let ah = place.ah([turn, "--profile", "small", "Say hello."]);
        let ah = { ah.env("LITELLM_BASE_URL", proxy.url()) }.env("LITELLM_API_KEY", KEY);
        let ended = ended(ah.into_command());
        assert_eq!(ended.code, Some(0), "{turn}: {ended:?}");
        assert!(ended.stdout.contains("Done."), "{turn}: {ended:?}");
    }
}
