//! Sessions that a program drives itself: values in, typed messages out.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ah_agent::hooks::Hooks;
use ah_agent::{Ports, Session, SessionSettings, Toolbox};
use ah_conversation::{
    Check, Clock, ContentBlock, Limits, MessageId, Model, Models, PermissionMode, PermissionUpdate,
    Provider, ProviderError, Rulebook, TellSealed, Time, Verdicts,
};
use ah_desk::{Command, ExpandedPrompt, Place, Prompt, Refusal};
use ah_protocol::stream_json::{Program, Served, Wanted, serve_program};
use ah_protocol::{Engaged, Engine, Introduction, Message, Setting};
use ah_testkit::script::{Scripted, says};
use ah_testkit::world::World;
use ah_transcript::Ids;
use async_trait::async_trait;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// Opens a session with a scripted model, or none.
struct Scene {
    model: Option<Scripted>,
    world: World,
}

#[async_trait]
impl Engine for Scene {
    fn introduction(&self) -> Introduction {
        Introduction::default()
    }

    async fn open(&self, setting: Setting<'_>) -> Result<Engaged, Refusal> {
        let refused = || Refusal::failed("no key");
        let provider = Arc::new(self.model.clone().ok_or_else(refused)?);
        let ports = Ports {
            summarizer: provider.clone(),
            provider: provider.clone(),
            store: self.world.store.clone(),
            clock: self.world.clock.clone(),
            audience: setting.audience,
            variables: ah_agent::no_variables(),
            agent_id: None,
            rules: Arc::new(NoRules),
            hooks: Hooks::default(),
            pictures: ah_agent::unchecked_pictures(),
            refusals: ah_agent::no_refusals(),
            command_files: None,
        };
        let session = Session::open(ports, Toolbox::new(Vec::new()), settings());
        Ok(Engaged {
            session: session.await.unwrap(),
            session_id: "session".to_owned(),
            entrypoint: "sdk-cli".to_owned(),
            cwd: PathBuf::from("/"),
            settings: Vec::new(),
            models: Arc::new(NoModels),
            place: Arc::new(NoPlace),
            max_turns: None,
            max_budget_usd: None,
            max_retries: 0,
            task_patience: None,
            api_key_source: "none".to_owned(),
            transcript_path: None,
            skills: Vec::new(),
            plugins: Vec::new(),
        })
    }
}

/// A place where prompts stay as they are.
struct NoPlace;

#[async_trait]
impl Place for NoPlace {
    async fn content(&self, prompt: Prompt) -> Result<Vec<ContentBlock>, Refusal> {
        Ok(vec![ContentBlock::text(prompt.text)])
    }

    async fn expand(&self, typed: &str) -> Result<ExpandedPrompt, Refusal> {
        Ok(ExpandedPrompt {
            text: typed.to_owned(),
            ..ExpandedPrompt::default()
        })
    }

    async fn check(
        &self,
        _: Option<&str>,
        _: PermissionMode,
        _: TellSealed<'_>,
    ) -> Result<Arc<dyn Check>, Refusal> {
        Err(Refusal::failed("there are no checks"))
    }

    fn end_check(&self) -> Result<(), Refusal> {
        Ok(())
    }

    async fn rename(&self, _: &str) -> Result<(), Refusal> {
        Ok(())
    }

    async fn keep_model(&self, _: &str) -> Result<(), Refusal> {
        Ok(())
    }

    async fn keep_mode(&self, _: PermissionMode) -> Result<(), Refusal> {
        Ok(())
    }

    fn send(&self, _: &str) -> Result<(), Refusal> {
        Ok(())
    }

    async fn verdicts(&self) -> Verdicts {
        Verdicts::new()
    }

    async fn more_commands(&self) -> Vec<Command> {
        Vec::new()
    }

    async fn leave(&self) {}
}

fn settings() -> SessionSettings {
    SessionSettings {
        limits: Limits {
            context_window: 200_000,
            reserved_output: 1_000,
            ..Limits::default()
        },
        ..SessionSettings::default()
    }
}

struct NoRules;

impl Rulebook for NoRules {
    fn save(&self, _: &PermissionUpdate) -> Result<(), String> {
        Err("rules are not saved here".to_owned())
    }
}

struct NoModels;

impl Models for NoModels {
    fn connect(&self, name: Option<&str>) -> Result<Arc<dyn Provider>, ProviderError> {
        panic!("{name:?} is not asked for")
    }

    fn describe(&self, provider: &str, name: &str) -> Model {
        panic!("{provider}/{name} is not asked for")
    }
}

#[derive(Default)]
struct Counted(AtomicU64);

impl Clock for Counted {
    fn now(&self) -> Time {
        Time(0)
    }

    fn message_id(&self) -> MessageId {
        MessageId::from(self.fresh())
    }
}

impl Ids for Counted {
    fn fresh(&self) -> String {
        self.0.fetch_add(1, Ordering::Relaxed).to_string()
    }

    fn of(&self, message: &MessageId) -> String {
        message.to_string()
    }
}

/// Serves `prompts`; returns the messages and the end.
async fn served(model: Option<Scripted>, prompts: &[&str]) -> (Vec<Message>, Served) {
    let scene = Arc::new(Scene {
        model,
        world: World::new(),
    });
    let (program, requests, mut messages) = Program::new();
    for prompt in prompts {
        requests.prompt(vec![ContentBlock::text(*prompt)]);
    }
    drop(requests);
    let (ids, stop) = (Arc::new(Counted::default()), CancellationToken::new());
    let serving = serve_program(program, scene, ids, Wanted::default(), &stop);
    let received = async {
        let mut all = Vec::new();
        while let Some(message) = messages.next().await {
            all.push(message);
        }
        all
    };
    tokio::join!(received, serving)
}

/// A message in a line.
fn line(message: &Message) -> String {
    match message {
        Message::System(message) => format!("system {}", message.subtype),
        Message::Assistant(message) => format!("assistant {}", message.text()),
        Message::Result(result) => format!(
            "result {} {:?} {:?}",
            result.subtype, result.result, result.exit_reason
        ),
        other => format!("{other:?}"),
    }
}

#[tokio::test]
async fn every_prompt_gives_typed_messages_up_to_its_result() {
    let model = Scripted::new([says("Hello."), says("Bye.")]);
    let (messages, served) = served(Some(model), &["Hi", "Go"]).await;
    let lines: Vec<_> = messages.iter().map(line).collect();
    assert_eq!(
        lines,
        [
            "system init",
            "assistant Hello.",
            "result success Some(\"Hello.\") Some(EndTurn)",
            "system init",
            "assistant Bye.",
            "result success Some(\"Bye.\") Some(EndTurn)",
        ]
    );
    assert!(
        matches!(
            served,
            Served::Ended {
                is_error: false,
                ..
            }
        ),
        "{served:?}"
    );
}

#[tokio::test]
async fn a_session_that_cannot_be_opened_is_an_error_result() {
    let (messages, served) = served(None, &["Hi"]).await;
    let [Message::Result(result)] = &messages[..] else {
        panic!("{messages:?}");
    };
    assert_eq!(
        (&result.errors[..], &result.exit_reason),
        (&["no key".to_owned()][..], &None)
    );
    assert!(matches!(served, Served::Refused), "{served:?}");
}

#[tokio::test]
async fn requests_are_answered_with_values() {
    let scene = Arc::new(Scene {
        model: Some(Scripted::new([says("Hello.")])),
        world: World::new(),
    });
    let (program, requests, messages) = Program::new();
    let (ids, stop) = (Arc::new(Counted::default()), CancellationToken::new());
    let serving = serve_program(program, scene, ids, Wanted::default(), &stop);
    let asking = async {
        let told = requests
            .initialize(ah_protocol::stream_json::Initialize::default())
            .await
            .unwrap();
        assert_eq!(told["current_permission_mode"], Value::from("default"));
        requests.set_max_thinking_tokens(Some(1024)).await.unwrap();
        requests.interrupt().await.unwrap();
        let refused =
            requests.set_permission_mode(ah_conversation::PermissionMode::BypassPermissions);
        assert!(refused.await.unwrap_err().contains("bypassPermissions"));
        let late = requests.clone();
        drop(requests);
        late
    };
    let (late, ended) = tokio::join!(
        async {
            let late = asking.await;
            stop.cancel();
            late
        },
        serving
    );
    assert!(matches!(ended, Served::Ended { .. }), "{ended:?}");
    drop(messages);
    drop(late);
}

#[tokio::test]
async fn a_program_that_drops_the_messages_ends_the_run() {
    let scene = Arc::new(Scene {
        model: Some(Scripted::new([says("Hello."), says("Never.")])),
        world: World::new(),
    });
    let (program, requests, messages) = Program::new();
    drop(messages);
    requests.prompt(vec![ContentBlock::text("Hi")]);
    let (ids, stop) = (Arc::new(Counted::default()), CancellationToken::new());
    let ended = serve_program(program, scene, ids, Wanted::default(), &stop).await;
    assert!(matches!(ended, Served::Closed(_)), "{ended:?}");
    assert!(stop.is_cancelled());
    let over = requests.interrupt().await;
    assert_eq!(over, Err("the session has ended".to_owned()));
}
