//! A session that an editor has open.

use std::path::PathBuf;
use std::sync::Arc;

use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::{
    AvailableCommand, AvailableCommandInput, AvailableCommandsUpdate, SessionConfigOption,
    SessionId, SessionInfoUpdate, SessionModeState, SessionUpdate as Told, StopReason,
    UnstructuredCommandInput,
};
use ah_agent::{RunOutcome, Session, SessionChange, Stop};
use ah_conversation::{ExitReason, Goal, Models, neutralise};
use ah_desk::{Command, OpenSession, Place, Prompt, Start, Which};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::call::Shown;
use crate::choice::{BUSY, Busy, Choices, MODE, MODEL};
use crate::editor::{Editor, Inserted};
use crate::fault::{failed, invalid, not_open, refused};
use crate::replay::replay;

/// Longest title of a session, in characters.
const TITLE: usize = 80;

/// An open session.
pub(crate) struct Held {
    id: SessionId,
    /// What it was opened with.
    start: Start,
    /// `None` once it is closed. Prompts run in the order in which they wait for it.
    session: tokio::sync::Mutex<Option<Session>>,
    /// The editor's view.
    pub(crate) editor: Arc<Editor>,
    /// The place that it works in.
    pub(crate) place: Arc<dyn Place>,
    models: Arc<dyn Models>,
    pub(crate) commands: Vec<Command>,
    /// Working directory.
    pub(crate) folder: PathBuf,
    /// Ends the prompts that run or wait; those after them have another one.
    stop: Mutex<CancellationToken>,
    /// Cancelled once it is closed.
    over: CancellationToken,
}

impl Held {
    /// Holds a session that was opened for `editor`.
    pub(crate) fn new(opened: OpenSession, start: Start, editor: Arc<Editor>) -> Self {
        let OpenSession {
            session,
            id,
            folder,
            models,
            offered,
            commands,
            place,
        } = opened;
        let id = SessionId::new(id);
        let shown = Shown {
            tools: session.tools().tools().cloned().collect(),
            folder: folder.clone(),
        };
        let permissions = &session.settings().permissions;
        let choices = Choices {
            mode: permissions.mode,
            is_sandboxed: permissions.confined,
            may_bypass: permissions.may_bypass,
            offered,
            first: session.model().name.clone(),
            model: session.model().name.clone(),
            busy: Busy::default(),
        };
        editor.follow(id.clone(), &session, shown, choices);
        Self {
            id,
            start,
            session: tokio::sync::Mutex::new(Some(session)),
            editor,
            place,
            models,
            commands,
            folder,
            stop: Mutex::default(),
            over: CancellationToken::new(),
        }
    }

    /// Returns the id.
    pub(crate) fn id(&self) -> &SessionId {
        &self.id
    }

    /// Returns what opens it once more as it was.
    pub(crate) fn resumption(&self) -> Start {
        Start {
            which: Which::Resume(self.id.0.to_string(), None),
            ..self.start.clone()
        }
    }

    /// Returns modes and options, with what is chosen.
    pub(crate) fn told_choices(&self) -> (Option<SessionModeState>, Vec<SessionConfigOption>) {
        let told = |choices: &mut Choices| (choices.mode_state(), choices.options());
        let (modes, options) = self.editor.choices(told).unzip();
        (modes, options.unwrap_or_default())
    }

    /// Tells which commands there are, and again once more are known.
    pub(crate) async fn tell_commands(&self) {
        let update = AvailableCommandsUpdate::new(self.told_commands(&[]));
        self.editor.wire.tell(Told::AvailableCommandsUpdate(update));
        let more = tokio::select! {
            more = self.place.more_commands() => more,
            () = self.over.cancelled() => return,
        };
        if !more.is_empty() {
            let update = AvailableCommandsUpdate::new(self.told_commands(&more));
            self.editor.wire.tell(Told::AvailableCommandsUpdate(update));
        }
    }

    /// Returns the commands in the protocol's form.
    pub(crate) fn told_commands(&self, more: &[Command]) -> Vec<AvailableCommand> {
        let own = || self.commands.iter().chain(more);
        let is_taken = own().any(|command| command.name == Goal::NAME);
        let goal = (!is_taken).then(|| Command {
            name: Goal::NAME.to_owned(),
            description: Goal::ABOUT.to_owned(),
            hint: Some(Goal::HINT.to_owned()),
        });
        let commands = own().chain(&goal).map(|command| {
            let input = command.hint.clone().map(|hint| {
                AvailableCommandInput::Unstructured(UnstructuredCommandInput::new(hint))
            });
            AvailableCommand::new(command.name.clone(), command.description.clone()).input(input)
        });
        commands.collect()
    }

    /// Tells the whole conversation.
    pub(crate) async fn replay(&self) {
        if let Some(session) = &*self.session.lock().await {
            let verdicts = self.place.verdicts().await;
            let messages = session.transcript().messages().iter();
            replay(messages.map(|message| &**message), &verdicts, &self.editor);
        }
    }

    /// Returns the token that ends the next prompt. It counts from now on, so that no cancellation is missed.
    pub(crate) fn begin(&self) -> CancellationToken {
        self.stop.lock().child_token()
    }

    /// Ends the prompts that run or wait.
    pub(crate) fn cancel(&self) {
        std::mem::take(&mut *self.stop.lock()).cancel();
    }

    /// Gives the words of a prompt to the run, if there is one and the user wants that; `inserted` is called once it has
    /// taken them. Otherwise they are given back with it. Pictures and commands are prompts of their own.
    pub(crate) fn steer(&self, prompt: &Prompt, inserted: Inserted) -> Result<(), Inserted> {
        let wanted = self.editor.choices(|choices| choices.busy) == Some(Busy::Steer);
        let is_plain = prompt.attached.is_empty() && prompt.pictures.is_empty();
        let is_idle = self.session.try_lock().is_ok();
        if !wanted || !is_plain || is_idle || prompt.text.starts_with('/') {
            return Err(inserted);
        }
        if let Err(refusal) = self.place.send(&prompt.text) {
            tracing::warn!(%refusal, "a run cannot be steered");
            return Err(inserted);
        }
        self.editor.expect_steering(inserted);
        Ok(())
    }

    /// Waits until no prompt runs.
    pub(crate) async fn idle(&self) {
        drop(self.session.lock().await);
    }

    /// Runs a prompt to its end, or until `stop`; returns why it ended. `inserted` is called once it is a message.
    pub(crate) async fn run(
        &self,
        prompt: Prompt,
        stop: &CancellationToken,
        inserted: Inserted,
    ) -> Result<StopReason, Error> {
        let mut held = self.session.lock().await;
        let session = held.as_mut().ok_or_else(|| not_open(&self.id.0))?;
        if stop.is_cancelled() {
            return Ok(StopReason::Cancelled);
        }
        let Some(prompt) = self.aimed(session, prompt).await? else {
            return Ok(StopReason::EndTurn);
        };
        if session.transcript().last().is_none() {
            let title = SessionInfoUpdate::new().title(title(&prompt.text));
            self.editor.wire.tell(Told::SessionInfoUpdate(title));
        }
        let content = self.place.content(prompt).await.map_err(refused)?;
        self.editor.expect_prompt(inserted);
        let ends = Stop::interrupt(stop.clone());
        let outcome = session.run_or_check(content, &ends).await;
        // The editor may have asked for changes after the last step.
        session.take_changes();
        let outcome = outcome.map_err(|error| failed(error.to_string()))?;
        self.reason(&outcome)
    }

    /// Returns why a run has ended. What the protocol has no reason for is said as a message.
    fn reason(&self, outcome: &RunOutcome) -> Result<StopReason, Error> {
        if let Some(verification) = &outcome.verification {
            self.editor.say(&verification.line());
        }
        let said = match &outcome.reason {
            ExitReason::EndTurn | ExitReason::StopSequence | ExitReason::CheckFailed => {
                return Ok(StopReason::EndTurn);
            }
            ExitReason::Interrupted | ExitReason::Aborted => return Ok(StopReason::Cancelled),
            ExitReason::Refusal => return Ok(StopReason::Refusal),
            ExitReason::MaxTokens => return Ok(StopReason::MaxTokens),
            ExitReason::MaxTurns | ExitReason::LoopDetected => {
                return Ok(StopReason::MaxTurnRequests);
            }
            ExitReason::MaxBudget => "The cost limit is reached.",
            ExitReason::BudgetExceeded => "The token limit is reached.",
            ExitReason::Timeout => "The time limit is reached.",
            ExitReason::MaxStructuredOutputRetries => {
                "The answer does not have the requested form."
            }
            ExitReason::Error | ExitReason::Other(_) => {
                let failure = outcome.failure.as_ref();
                let text = failure.map_or_else(
                    || outcome.reason.as_str().to_owned(),
                    |failure| match failure.hint() {
                        Some(hint) => format!("{failure} ({hint})"),
                        None => failure.to_string(),
                    },
                );
                return Err(failed(text));
            }
        };
        self.editor.say(said);
        Ok(StopReason::EndTurn)
    }

    /// Sets the mode with this id.
    pub(crate) async fn set_mode(&self, id: &str) -> Result<(), Error> {
        let mode = self.editor.choices(|choices| choices.mode_of(id)).flatten();
        let mode = mode.ok_or_else(|| invalid(format!("the mode `{id}` cannot be chosen")))?;
        self.place.keep_mode(mode).await.map_err(refused)?;
        self.editor.change(SessionChange::Mode(mode));
        // A run takes the change itself, before its next step.
        if let Ok(mut held) = self.session.try_lock()
            && let Some(session) = held.as_mut()
        {
            session.take_changes();
        }
        self.editor.choices(|choices| choices.mode = mode);
        Ok(())
    }

    /// Sets an option.
    pub(crate) async fn set_option(&self, option: &str, value: &str) -> Result<(), Error> {
        match option {
            MODE => self.set_mode(value).await,
            MODEL => self.set_model(value).await,
            BUSY => {
                let busy = Busy::of(value);
                let busy = busy.ok_or_else(|| invalid(format!("`{value}` cannot be chosen")))?;
                self.editor.choices(|choices| choices.busy = busy);
                Ok(())
            }
            _ => Err(invalid(format!("there is no option `{option}`"))),
        }
    }

    async fn set_model(&self, name: &str) -> Result<(), Error> {
        if self.editor.choices(|choices| choices.offers(name)) != Some(true) {
            return Err(invalid(format!("the model `{name}` is not offered")));
        }
        let provider = self.models.connect(Some(name));
        let provider = provider.map_err(|error| invalid(error.to_string()))?;
        let model = provider.model().clone();
        let kept = self.place.keep_model(&model.name).await;
        kept.map_err(refused)?;
        self.editor.change(SessionChange::Model(provider));
        if let Ok(mut held) = self.session.try_lock()
            && let Some(session) = held.as_mut()
        {
            session.take_changes();
        }
        self.editor.set_window(model.context_window);
        self.editor.choices(|choices| choices.model = model.name);
        Ok(())
    }

    /// Ends its prompts and closes it; the conversation stays.
    pub(crate) async fn close(&self) {
        self.over.cancel();
        self.cancel();
        let session = self.session.lock().await.take();
        if let Some(session) = session
            && let Err(error) = session.close("other").await
        {
            tracing::warn!(%error, "a session was not closed");
        }
        self.editor.leave();
        self.place.leave().await;
    }
}

/// Returns the title of a session that begins with this prompt.
fn title(prompt: &str) -> String {
    let words = prompt.split_whitespace().collect::<Vec<_>>().join(" ");
    let words = neutralise(&words);
    match words.char_indices().nth(TITLE) {
        Some((end, _)) => format!("{}…", &words[..end]),
        None => words.into_owned(),
    }
}
