//! Sessions in the small windows of programs on the user's machine, each as strict as the real one: of fifty prompts and
//! results much larger than the window none may fail, whether the window is known before or not.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use ah_conversation::{Environment, ExitReason, Output, Provider};
use ah_testkit::provider::auth::KeySource;
use ah_testkit::provider::caching::CacheTtl;
use ah_testkit::provider::catalog::Catalog;
use ah_testkit::provider::exchange::Timeouts;
use ah_testkit::provider::fact::{Fact, KeepFact};
use ah_testkit::provider::retry::Policy;
use ah_testkit::provider::{Options, connect};
use ah_testkit::script::{Turn, says, scenario, uses};
use ah_testkit::server::local::Program;
use ah_testkit::server::{Pick, Server};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::world::{Fake, World};

const MODEL: &str = "small-7b";

/// The windows that were kept, as `SERVER/NAME` and tokens.
type Kept = Arc<Mutex<Vec<(String, u64)>>>;

/// Connects the model `name` at `address`, of which `catalog` says something.
fn connected(name: &str, address: &str, catalog: &Value, kept: &Kept) -> Arc<dyn Provider> {
    let variables = [
        ("OPENAI_BASE_URL", address),
        ("OLLAMA_HOST", address),
        ("OPENAI_API_KEY", "k"),
        ("OLLAMA_API_KEY", "k"),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let no_command = |_: &str, _: &str| -> Arc<dyn KeySource> { panic!("no command is set") };
    let mut known = Catalog::built_in();
    known
        .extend(&json!({ "models": catalog }).to_string(), "list")
        .unwrap();
    let kept = kept.clone();
    let keep: KeepFact = Arc::new(move |server, model, fact| {
        if let Fact::Window(window) = fact {
            let name = format!("{server}/{model}");
            kept.lock().push((name, window));
        }
    });
    let options = Options {
        environment: &Environment::new(variables, PathBuf::new()),
        catalog: &known,
        servers: &BTreeMap::new(),
        key_source: &no_command,
        http: &Default::default(),
        betas: &[],
        max_output: None,
        keep_fact: Some(&keep),
        cache_ttl: CacheTtl::default(),
        conversation_state: Default::default(),
        server_compaction: false,
        fast_mode: false,
        keep_warm: 0,
        notes: None,
        timeouts: Timeouts::default(),
        retry: Policy {
            retries: 0,
            ..Policy::default()
        },
        seed: 1,
    };
    connect(name, &options).unwrap()
}

/// Answers without an end: of words, with a call of `read` among them.
fn answers() -> impl Iterator<Item = Turn> {
    (0..2_000).map(|number| match number % 4 {
        0 => uses("read", json!({"path": format!("file-{number}")})),
        _ => says(&format!(
            "Answer {number}: {}",
            "so it goes on and on. ".repeat(20)
        )),
    })
}

fn server(program: Program, window: u64) -> Server {
    let server = Server::start(scenario(answers()), Pick::InOrder, 0).unwrap();
    let server = server.answers_asides("They went on, prompt by prompt, and read large files.");
    server.on_this_machine(program, MODEL, window)
}

/// A world with that model, a system prompt as long as that of the small profile, and a tool with large results.
fn world(provider: Arc<dyn Provider>) -> World {
    let read = Fake::reading("read", |input| async move {
        Output::text(format!(
            "{input:?}\n{}",
            "a line of a large file\n".repeat(3_000)
        ))
    });
    let mut world = World::new([says("Never.")]).with(read);
    world.settings.prompt = vec!["You are tested. ".repeat(100)].into();
    world.settings.limits.context_window = provider.model().context_window;
    world.settings.limits.reserved_output = provider.model().max_output;
    world.real = Some(provider);
    world
}

/// Asks so many times; none may fail.
async fn asked(world: &mut World, count: usize, about: &str) {
    for number in 0..count {
        let outcome = world
            .run(&format!("Prompt {number}. {}", "Please go on. ".repeat(20)))
            .await;
        let failure = outcome.failure.map(|failure| failure.to_string());
        assert_eq!(
            (failure, outcome.reason),
            (None, ExitReason::EndTurn),
            "{about}, prompt {number}"
        );
    }
}

const PROGRAMS: [Program; 6] = [
    Program::LlamaCpp,
    Program::LlamaCppRouter,
    Program::Vllm,
    Program::Ollama,
    Program::LmStudio,
    Program::Silent,
];

/// Connects a model of this server that no list is known of.
fn unknown(program: Program, server: &Server, kept: &Kept) -> (String, Arc<dyn Provider>) {
    let name = match program {
        Program::Ollama => format!("ollama/{MODEL}"),
        _ => format!("openai/{MODEL}"),
    };
    let provider = connected(&name, &server.url(), &json!({}), kept);
    (name, provider)
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_prompts_fit_into_a_small_window() {
    for program in PROGRAMS {
        let windows: &[u64] = match program {
            Program::LlamaCpp | Program::Vllm => &[2_048, 4_096, 8_192],
            _ => &[4_096],
        };
        for window in windows.iter().copied() {
            let about = format!("{program:?} with {window}");
            let server = server(program, window);
            let kept = Kept::default();
            let (name, provider) = unknown(program, &server, &kept);
            let mut world = world(provider.clone());
            asked(&mut world, 50, &about).await;
            let refused = server.refusals().len();
            if program == Program::Silent {
                // Nobody says how large it is, so each summary follows a refusal.
                assert!(refused < 100, "{refused} refusals, {about}");
                continue;
            }
            assert!(refused <= 1, "{refused} refusals, {about}");
            assert_eq!(provider.model().context_window, window, "{about}");
            assert_eq!(kept.lock().last(), Some(&(name, window)), "{about}");
            assert_eq!(server.losses(), Vec::<String>::new(), "{about}");
        }
    }
}

/// A program that is started anew with another window says so in its refusal, at once or in a later session.
#[tokio::test(flavor = "multi_thread")]
async fn another_window_is_learned_when_it_changes() {
    for program in [Program::LlamaCpp, Program::Vllm, Program::LmStudio] {
        let server = server(program, 16_384);
        let kept = Kept::default();
        let (_, provider) = unknown(program, &server, &kept);
        let mut world = world(provider.clone());
        asked(&mut world, 20, "before").await;
        server.set_window(4_096);
        asked(&mut world, 20, "smaller").await;
        assert_eq!(provider.model().context_window, 4_096);
        let refused = server.refusals().len();
        assert!((1..=3).contains(&refused), "{refused} refusals");
        server.set_window(32_768);
        let (_, provider) = unknown(program, &server, &kept);
        world.real = Some(provider.clone());
        asked(&mut world, 10, "larger").await;
        assert_eq!(provider.model().context_window, 32_768);
        assert_eq!(server.refusals().len(), refused);
    }
}

/// What the list said some time ago does not count, and a list of one model is about any name.
#[tokio::test(flavor = "multi_thread")]
async fn the_program_is_asked_whatever_was_known() {
    for name in [MODEL, "default"] {
        let server = server(Program::LlamaCpp, 4_096);
        let kept = Kept::default();
        let listed = format!("openai/{name}");
        let known = json!({&listed: {"context_window": 131_072}});
        let provider = connected(&listed, &server.url(), &known, &kept);
        asked(&mut world(provider.clone()), 1, name).await;
        let model = provider.model();
        assert_eq!((model.context_window, model.max_output), (4_096, 1_024));
        let body = &server.requests()[0].body;
        assert_eq!(body["max_completion_tokens"], 1_024);
    }
}

/// A prompt that is too long for the window fails, and the next one does not.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_goes_on_behind_a_prompt_that_is_too_long() {
    for program in PROGRAMS {
        if program == Program::Ollama {
            continue; // It refuses nothing.
        }
        let about = format!("{program:?}");
        let server = server(program, 8_192);
        let (_, provider) = unknown(program, &server, &Kept::default());
        let mut world = world(provider);
        for round in 0..3 {
            let outcome = world.run(&"This is a long prompt. ".repeat(5_000)).await;
            if round == 0 {
                assert_eq!(outcome.reason, ExitReason::Error, "{about}");
            }
            asked(&mut world, 2, &about).await;
        }
    }
}
