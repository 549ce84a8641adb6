//! A process whose host is a program, by the real protocol: it has the prompt, interrupts, hangs up, and is told what happens.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use ah_agent::{Session, Stop};
use ah_conversation::{
    Check, Clock, ContentBlock, ExitReason, Message as Conversed, MessageId, PermissionMode,
    SessionId, StoreError, TellSealed, Time, Verdicts,
};
use ah_desk::{Command, ExpandedPrompt, Place, Prompt, Refusal};
use ah_ids::{message_of, uuid_of};
use ah_protocol::stream_json::{Messages, Program, Requests, Served, Wanted, serve_program};
use ah_protocol::{Engaged, Engine, Introduction, Message, Setting};
use ah_store::Paths;
use ah_transcript::Ids;
use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::agents::OneModel;
use crate::hosts::SimulatedHost;
use crate::opening::{self, Screen};
use crate::plan::{Act, Process};
use crate::plant::PlantedFault;
use crate::store::SimulatedStore;
use crate::world::{State, World};

/// Opens the session of a process for its host.
struct Opener {
    world: Arc<World>,
    store: Arc<SimulatedStore>,
    process: Process,
    /// Why it could not be opened.
    failed: Mutex<Option<StoreError>>,
}

impl Opener {
    async fn session(&self, setting: Setting<'_>) -> Result<Session, StoreError> {
        let mut ports = opening::ports(&self.world, self.store.clone(), &self.process);
        let screen = Arc::new(Screen(self.world.clone()));
        ports.audience = setting.audience.with_first(screen);
        let stop = Stop::interrupt(self.world.state().interrupt.clone());
        opening::opened(&self.world, &self.store, ports, &self.process, &stop).await
    }
}

#[async_trait]
impl Engine for Opener {
    fn introduction(&self) -> Introduction {
        Introduction::default()
    }

    async fn open(&self, setting: Setting<'_>) -> Result<Engaged, Refusal> {
        let session = self.session(setting).await.map_err(|error| {
            let refusal = error.to_string();
            *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            Refusal::failed(refusal)
        })?;
        let paths = self.world.paths();
        let (cwd, transcript_path) = {
            let state = self.world.state();
            (state.workspace.folder().to_owned(), file(&paths, &state))
        };
        Ok(Engaged {
            session,
            session_id: "session".to_owned(),
            entrypoint: "sdk-cli".to_owned(),
            cwd,
            settings: Vec::new(),
            models: Arc::new(OneModel),
            place: Arc::new(NoPlace),
            max_turns: None,
            max_budget_usd: None,
            max_retries: 0,
            task_patience: None,
            api_key_source: "none".to_owned(),
            transcript_path: Some(transcript_path),
            skills: Vec::new(),
            plugins: Vec::new(),
        })
    }
}

/// Serves the host of a process until it has what it wants, or has hung up.
pub(crate) async fn hosted(
    world: &Arc<World>,
    store: Arc<SimulatedStore>,
    process: &Process,
) -> Result<ExitReason, StoreError> {
    let opener = Arc::new(Opener {
        world: world.clone(),
        store,
        process: process.clone(),
        failed: Mutex::default(),
    });
    let (mut program, requests, messages) = Program::new();
    program.host = Some(Arc::new(SimulatedHost(world.clone())));
    program.resumes = process.act == Act::TakeOver;
    // What was left, and the prompt.
    let runs = 1 + usize::from(program.resumes);
    let (ids, stop) = (Arc::new(HostIds(world.clone())), CancellationToken::new());
    let wanted = Wanted {
        subagent_text: true,
        ..Wanted::default()
    };
    let serving = serve_program(program, opener.clone(), ids, wanted, &stop);
    let (reason, served) = tokio::join!(drive(world, requests, messages, runs), serving);
    let failed = { opener.failed.lock() }
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    match served {
        Served::Lost(error) => Err(error),
        Served::Refused if failed.is_some() => Err(failed.expect("it is one")),
        Served::Refused | Served::Closed(_) => Ok(ExitReason::Interrupted),
        Served::Ended { .. } => Ok(reason),
    }
}

/// Sends the prompt, and takes what is told until there is nothing more; returns how the last run has ended.
async fn drive(
    world: &Arc<World>,
    requests: Requests,
    messages: Messages,
    runs: usize,
) -> ExitReason {
    let (interrupt, hang_up) = {
        let state = world.state();
        (state.interrupt.clone(), state.hang_up.clone())
    };
    requests.prompt(vec![ContentBlock::text("Go on.")]);
    let done = CancellationToken::new();
    let asking = async {
        tokio::select! {
            // A session that has ended needs none.
            () = interrupt.cancelled() => drop(requests.interrupt().await),
            () = done.cancelled() => {}
        }
        done.cancelled().await;
        // It ends when there is nobody who could ask for more.
        drop(requests);
        std::future::pending::<()>().await;
    };
    let told = tokio::select! {
        biased;
        () = hang_up.cancelled() => None,
        told = take(world, messages, runs, &done) => Some(told),
        () = asking => None,
    };
    told.unwrap_or(ExitReason::Interrupted)
}

/// Takes what is told; says when so many runs have ended.
async fn take(
    world: &World,
    mut messages: Messages,
    runs: usize,
    done: &CancellationToken,
) -> ExitReason {
    let (mut reason, mut ends) = (ExitReason::Interrupted, 0);
    while let Some(message) = messages.next().await {
        let mut state = world.state();
        if let Message::Result(result) = &message {
            reason = result.exit_reason.clone().unwrap_or(ExitReason::Error);
            ends += 1;
        }
        if ends == runs {
            done.cancel();
        }
        if state.planted(PlantedFault::HostNotTold, 4) {
            continue;
        }
        state.told.push(message);
    }
    reason
}

/// Returns the file of a session's transcript. No power cut touches it.
fn file(paths: &Paths, state: &State) -> PathBuf {
    let name = paths.database().with_extension("jsonl");
    let folder = state.workspace.folder();
    folder.join(name.file_name().unwrap_or_default())
}

/// Returns the conversation in the transcript of a session.
pub(crate) fn transcript(paths: &Paths, state: &State) -> Vec<Conversed> {
    let text = fs::read_to_string(file(paths, state)).unwrap_or_default();
    let fresh = || MessageId::from("another");
    ah_transcript::read_transcript(&text, message_of, fresh).messages
}

/// UUIDs of what is told.
struct HostIds(Arc<World>);

impl Clock for HostIds {
    fn now(&self) -> Time {
        self.0.clock.now()
    }

    fn message_id(&self) -> MessageId {
        self.0.clock.message_id()
    }
}

impl Ids for HostIds {
    fn fresh(&self) -> String {
        self.of(&self.message_id())
    }

    fn of(&self, message: &MessageId) -> String {
        uuid_of(&SessionId::from(message.as_str()))
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
