//! The task that opens the session and runs the host's prompts one after the other.

mod aim;
mod ending;
mod idle;
mod lent;
mod tasks;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ah_agent::hooks::Hook;
use ah_agent::{Audience, RunFailure, RunOutcome, SessionChange, Stop};
use ah_conversation::{ContentBlock, Cost, ExitReason, StoreError};
use ah_desk::{ExpandedPrompt, Place, Refusal};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Pipes;
use super::callback::callbacks;
use super::context::{self, ContextParts};
use super::control::{Handles, HandlesState};
use super::initialize::Initialize;
use super::introduction;
use super::local::{Local, LocalCommand, local};
use super::queue::Queue;
use super::result::not_begun;
use super::shared::{Shared, Work};
use super::speaker::lifecycle::PromptState;
use super::speaker::{SessionFiles, Speaker};
use super::totals::Totals;
use super::wire::Prompt;
use crate::{Engaged, Engine, Setting};
use ah_transcript::{RowHead, Sidechains, TranscriptFile, unwritten};

/// Time limit for flushing the output on shutdown.
const PATIENCE: Duration = Duration::from_secs(2);

/// End of serving a host.
#[derive(Debug)]
pub enum Served {
    /// The host has no more prompts.
    Ended {
        /// Whether the last result, or a line of the host, was an error.
        is_error: bool,
        /// Failure that ended the last run, if any.
        failure: Option<RunFailure>,
    },
    /// The session could not be opened.
    Refused,
    /// The conversation could not be stored.
    Lost(StoreError),
    /// The output could not be written; the error text.
    Closed(String),
}

/// Task that runs the prompts.
pub(super) struct Worker {
    pub(super) shared: Arc<Shared>,
    speaker: Arc<Speaker>,
    /// Hooks of this program, if it is the host.
    hooks: Vec<Arc<dyn Hook>>,
    stop: CancellationToken,
    /// Whether a run that was left unfinished continues before any prompt.
    resumes: bool,
    /// Options of the host, for the sessions after the first.
    wishes: Initialize,
    /// Cost limit of this process.
    budget: Option<Cost>,
    /// Cost of this process so far.
    spent: Cost,
    /// What the host said about the origin of the current prompt.
    origin: Option<Value>,
    /// Number of results so far.
    results: usize,
    /// Whether the last result was an error.
    is_error: bool,
    /// Error that ended the last run.
    failure: Option<RunFailure>,
}

impl Worker {
    pub(super) fn new(
        speaker: Speaker,
        engine: Arc<dyn Engine>,
        hooks: Vec<Arc<dyn Hook>>,
        stop: &CancellationToken,
    ) -> (Self, mpsc::UnboundedReceiver<Work>) {
        let (work, next) = mpsc::unbounded_channel();
        let speaker = Arc::new(speaker);
        let shared = Arc::new(Shared {
            link: speaker.link.clone(),
            speaker: speaker.clone(),
            work: Mutex::new(Some(work)),
            open: Mutex::default(),
            early: Mutex::new(Some(Vec::new())),
            queue: Queue::new(stop.clone()),
            is_faulty: OnceLock::new(),
            engine,
            introduction: Mutex::default(),
            totals: Mutex::default(),
        });
        let worker = Self {
            shared,
            speaker,
            hooks,
            stop: stop.clone(),
            resumes: false,
            wishes: Initialize::default(),
            budget: None,
            spent: Cost::default(),
            origin: None,
            results: 0,
            is_error: false,
            failure: None,
        };
        (worker, next)
    }

    /// Sets whether a run that was left unfinished continues before any prompt.
    pub(super) fn resuming(self, resumes: bool) -> Self {
        Self { resumes, ..self }
    }

    /// Does the work, then waits until all output is written.
    pub(super) async fn perform(self, next: mpsc::UnboundedReceiver<Work>) -> Served {
        let (shared, stop) = (self.shared.clone(), self.stop.clone());
        let served = self.work(next).await;
        let handles = shared.open.lock().clone();
        if let Some(handles) = handles {
            // The task that reads the input may outlive this one.
            handles.place.leave().await;
        }
        let link = &shared.link;
        link.close();
        link.sink.finish(stop.is_cancelled().then_some(PATIENCE));
        match link.sink.fault() {
            Some(fault) => Served::Closed(fault),
            None => served,
        }
    }

    async fn work(mut self, mut next: mpsc::UnboundedReceiver<Work>) -> Served {
        let mut engaged = None;
        loop {
            let work = tokio::select! {
                biased;
                () = self.stop.cancelled() => break,
                work = self.awaited(&mut next, engaged.as_mut()) => work,
            };
            let Some(work) = work else { break };
            let is_new = engaged.is_none();
            if is_new {
                let wishes = match &work {
                    Work::Open(_, wishes) => (**wishes).clone(),
                    Work::OpenAnyhow | Work::Prompt(..) => Initialize::default(),
                };
                self.wishes = wishes;
                match self.open(false).await {
                    Ok(opened) => {
                        self.budget = opened.session.settings().limits.max_budget;
                        engaged = Some(opened);
                    }
                    Err(refusal) => return self.refuse(&refusal),
                }
            }
            let engaged = engaged.as_mut().expect("it was opened above");
            if let Some(error) = self.wake(engaged).await
                && let Work::Prompt(prompt, ticket) = work
            {
                self.turned_away(&prompt, &ticket, &error);
                continue;
            }
            match work {
                Work::Open(to, wishes) => {
                    let told = self.introduced(engaged, &wishes);
                    self.shared.reply(to, Ok(told));
                }
                Work::OpenAnyhow => {}
                Work::Prompt(prompt, ticket) => {
                    self.catch_up().await;
                    if is_new && let Err(error) = self.take_up(engaged).await {
                        return Served::Lost(error);
                    }
                    if self.shared.queue.begin(&ticket)
                        && let Err(error) = self.followed(engaged, prompt, &ticket.run).await
                    {
                        return Served::Lost(error);
                    }
                    self.shared.queue.leave();
                }
            }
            self.catch_up().await;
            if is_new && let Err(error) = self.take_up(engaged).await {
                return Served::Lost(error);
            }
        }
        match engaged {
            Some(engaged) => self.close(engaged).await,
            None => self.over(),
        }
    }

    /// Ends the session.
    async fn close(mut self, mut engaged: Engaged) -> Served {
        if self.wake(&mut engaged).await.is_some() {
            // Another process goes on with the session. Hooks are told of the end, and nothing is stored.
            let _ = engaged.session.close("other").await;
            return self.over();
        }
        if let Err(error) = self.outlast(&mut engaged).await {
            return Served::Lost(error);
        }
        match engaged.session.close("other").await {
            Ok(()) => self.over(),
            Err(error) => Served::Lost(error),
        }
    }

    /// The answer to a host that has opened the session with these wishes.
    fn introduced(&self, engaged: &Engaged, wishes: &Initialize) -> Value {
        let mut told = introduction::all(&self.shared.introduction());
        told["agents"] = introduction::agents(&engaged.agents());
        let mode = engaged.session.settings().permissions.mode;
        told["current_permission_mode"] = json!(mode.as_str());
        told["hook_on_failure_supported"] = json!(true);
        told["session_state"] = json!("idle");
        told["fast_mode_state"] = json!("off");
        for (wish, is_given) in [
            ("hooks", wishes.hooks.is_some()),
            ("mcp_servers", wishes.mcp_servers.is_some()),
            ("plugins", !wishes.plugins.is_empty()),
        ] {
            if is_given {
                told[format!("{wish}_applied")] = json!(true);
            }
        }
        told
    }

    fn over(self) -> Served {
        let is_error = self.is_error || self.shared.is_faulty.get().is_some();
        Served::Ended {
            is_error,
            failure: self.failure,
        }
    }

    /// Answers the requests from before the session was open, in order.
    async fn catch_up(&self) {
        let early = self.shared.early.lock().take();
        for (to, wish) in early.into_iter().flatten() {
            self.shared.grant(to, wish).await;
        }
    }

    /// Opens the session; with `is_cleared` a new one in the place of the former.
    async fn open(&self, is_cleared: bool) -> Result<Engaged, Refusal> {
        let (shared, speaker, wishes) = (&self.shared, &self.speaker, &self.wishes);
        let pipes = Pipes::new(shared.link.clone());
        let given = wishes.hooks.clone().unwrap_or_default();
        let (mut hooks, faults) =
            callbacks(&given, &shared.link).map_err(|error| Refusal::failed(error.to_string()))?;
        hooks.append(&mut self.hooks.clone());
        let engaged = shared.engine.open(Setting {
            wishes,
            is_cleared,
            audience: Audience::of(speaker.clone()),
            hooks,
            pipes: pipes.clone(),
        });
        let engaged = engaged.await?;
        speaker.name(&engaged.session_id, engaged.max_retries);
        speaker.keep_files(self.files(&engaged));
        speaker.forward_words(wishes.forward_subagent_text);
        faults.iter().for_each(|fault| speaker.notice(fault));
        let messages = engaged.session.transcript().messages().iter();
        let totals = Totals::of(messages.map(|message| &**message), shared.link.ids.now());
        *shared.totals.lock() = totals;
        *shared.open.lock() = Some(Arc::new(self.handles(&engaged, pipes)));
        Ok(engaged)
    }

    /// Opens the transcript of a session, if there is to be one.
    fn files(&self, engaged: &Engaged) -> Option<SessionFiles> {
        let path = engaged.transcript_path.as_ref()?;
        let head = RowHead {
            session_id: engaged.session_id.clone(),
            cwd: engaged.cwd.clone(),
            version: self.shared.introduction().version.clone(),
            entrypoint: engaged.entrypoint.clone(),
            agent_id: None,
        };
        let opened = TranscriptFile::open(
            path.clone(),
            head.clone(),
            self.wishes.title.as_deref(),
            engaged.session.transcript().messages(),
            &*self.shared.link.ids,
        );
        match opened {
            Ok((main, rows)) => {
                self.speaker.mirror(main.path(), rows);
                let below = Sidechains::of(path, head);
                Some(SessionFiles { main, below })
            }
            Err(error) => {
                self.speaker.notice(&unwritten(path, &error));
                None
            }
        }
    }

    fn handles(&self, engaged: &Engaged, pipes: Pipes) -> Handles {
        let settings = engaged.session.settings();
        let model = engaged.session.model().clone();
        let limits = &settings.limits;
        let crowded = limits.used_window() / 100 * ah_conversation::Limits::CROWDED;
        Handles {
            controls: engaged.session.controls(),
            models: engaged.models.clone(),
            servers: engaged.servers().cloned(),
            tasks: engaged.session.tools().tasks(),
            files: engaged.session.files(),
            place: engaged.place.clone(),
            pipes,
            speaker: self.speaker.clone(),
            may_bypass: settings.permissions.may_bypass,
            cwd: engaged.cwd.clone(),
            sources: engaged.settings.clone(),
            state: Mutex::new(HandlesState {
                thinking: settings.thinking,
                initial: settings.thinking,
                flags: serde_json::Map::new(),
                permissions: settings.permissions.clone(),
                model,
            }),
            context: Mutex::new(ContextParts {
                prompt: settings.prompt.clone(),
                tools: engaged.session.tools().specs().clone(),
                agents: engaged.agents(),
                compact_at: limits.compact_tokens().unwrap_or(crowded).min(crowded),
            }),
        }
    }

    /// Runs a prompt to its end, and tells the host of its beginning and its end.
    async fn followed(
        &mut self,
        engaged: &mut Engaged,
        prompt: Prompt,
        run: &CancellationToken,
    ) -> Result<(), StoreError> {
        let uuid = prompt.uuid.clone();
        self.speaker.follow(uuid.as_deref(), PromptState::Started);
        self.speaker.set_prompt(uuid.clone());
        let done = self.turn(engaged, prompt, run).await;
        self.speaker.set_prompt(None);
        let state = if run.is_cancelled() {
            PromptState::Cancelled
        } else {
            PromptState::Completed
        };
        self.speaker.follow(uuid.as_deref(), state);
        if self.shared.queue.waiting() == 0 {
            self.speaker.state("idle");
        }
        done
    }

    /// Runs a prompt to its end.
    async fn turn(
        &mut self,
        engaged: &mut Engaged,
        mut prompt: Prompt,
        run: &CancellationToken,
    ) -> Result<(), StoreError> {
        engaged.session.take_changes();
        self.origin.clone_from(&prompt.origin);
        self.speaker.state("running");
        let known = self.shared.introduction();
        let command = local(&prompt.content, &known).filter(|_| !prompt.is_verbatim);
        if let Some(LocalCommand {
            name,
            task: Local::Clear,
        }) = &command
        {
            return self.clear(engaged, &prompt, name).await;
        }
        // The `init` message lists all tools that the first request will have.
        tokio::select! {
            () = run.cancelled() => {}
            () = engaged.session.prepare_tools() => {}
        }
        self.begin(engaged, Some(&prompt));
        let stop = Stop::interrupt(run.clone());
        let mut local = None;
        let command = match self.aimed(engaged, command, &mut prompt).await {
            Err(refusal) => {
                self.finish(not_begun(&refusal.text), None);
                return Ok(());
            }
            Ok(command) => command,
        };
        let outcome = match command {
            Some(LocalCommand {
                task: Local::Compact(wanted),
                name,
            }) => {
                local = Some(name);
                self.compact(engaged, wanted.as_deref(), &stop).await
            }
            Some(command) => {
                let text = self.answer(engaged, &command.task).await;
                self.speaker.say_locally(&text);
                let is_named = !matches!(command.task, Local::Unavailable | Local::Context);
                let name = is_named.then_some(&*command.name);
                self.finish_locally(engaged, &text, name);
                return Ok(());
            }
            None => match expanded(&*engaged.place, prompt).await {
                Ok((content, lent)) => self.run_with(engaged, content, &lent, &stop).await,
                Err(refusal) => {
                    self.finish(not_begun(&refusal.text), None);
                    return Ok(());
                }
            },
        };
        match outcome {
            Ok(outcome) => {
                // Whoever reads the result may use the session at once.
                if self.shared.queue.waiting() == 0 {
                    engaged.session.rest().await;
                }
                self.ended(engaged, outcome, local.as_deref());
            }
            Err(error) => {
                self.finish(not_begun(&error.to_string()), None);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Sends the `init` message of a run, which the host's prompt begins, if any.
    fn begin(&self, engaged: &Engaged, prompt: Option<&Prompt>) {
        let session = &engaged.session;
        let handles = self.shared.open.lock().clone();
        if let Some(handles) = handles {
            handles.follow(session);
        }
        let init = introduction::init(engaged, &self.shared.introduction());
        let mode = session.settings().permissions.mode;
        self.speaker.begin(init, mode, prompt);
    }

    /// Runs a prompt with what is left of the budget.
    async fn run(
        &mut self,
        engaged: &mut Engaged,
        content: Vec<ContentBlock>,
        stop: &Stop,
    ) -> Result<RunOutcome, StoreError> {
        if !self.limit(engaged) {
            return Ok(RunOutcome::new(ExitReason::MaxBudget));
        }
        engaged.session.run_or_check(content, stop).await
    }

    /// Limits the next run to what is left of the budget; returns whether anything is.
    fn limit(&self, engaged: &mut Engaged) -> bool {
        let Some(budget) = self.budget else {
            return true;
        };
        let left = budget.0.saturating_sub(self.spent.0);
        engaged.session.limit_cost(Some(Cost(left)));
        left > 0
    }

    async fn compact(
        &mut self,
        engaged: &mut Engaged,
        wanted: Option<&str>,
        stop: &Stop,
    ) -> Result<RunOutcome, StoreError> {
        self.speaker.set_trigger("manual");
        let outcome = engaged.session.compact_all(wanted, stop).await;
        self.speaker.set_trigger("auto");
        let is_done = |outcome: &RunOutcome| outcome.reason == ExitReason::EndTurn;
        if outcome.as_ref().is_ok_and(is_done) {
            self.speaker.output("Compacted ");
        }
        outcome
    }

    /// Begins a new conversation, with the same options, in the place of this one.
    async fn clear(
        &mut self,
        engaged: &mut Engaged,
        prompt: &Prompt,
        name: &str,
    ) -> Result<(), StoreError> {
        self.speaker.reset(prompt.uuid.as_deref());
        let new = match self.open(true).await {
            Ok(new) => new,
            Err(refusal) => {
                self.finish(not_begun(&refusal.text), None);
                return Ok(());
            }
        };
        let old = std::mem::replace(engaged, new);
        let controls = engaged.session.controls();
        let settings = old.session.settings();
        controls.request(SessionChange::Mode(settings.permissions.mode));
        controls.request(SessionChange::Thinking(settings.thinking));
        controls.request(SessionChange::Model(old.session.provider()));
        old.session.close("clear").await?;
        engaged.session.take_changes();
        let none = json!({"tasks": []});
        self.speaker.system("background_tasks_changed", none);
        self.begin(engaged, Some(prompt));
        self.finish_locally(engaged, "", Some(name));
        Ok(())
    }

    /// Returns the answer to a local command.
    async fn answer(&self, engaged: &mut Engaged, task: &Local) -> String {
        let shared = &self.shared;
        let handles = shared.open.lock().clone();
        let Some(handles) = handles else {
            return String::new();
        };
        let answered = match task {
            Local::Context => Ok(context::markdown(&handles.context_usage())),
            Local::Cost => Ok(shared.totals.lock().text(shared.link.ids.now())),
            Local::Model(None) => {
                let model = &engaged.session.model().name;
                Ok(format!("Current model: `{model}`\nUsage: /model <name>"))
            }
            Local::Model(Some(name)) => handles.set_model(Some(name)).map(|model| {
                let name = model["model"].as_str().unwrap_or_default();
                format!("Set model to {name}")
            }),
            Local::Effort(None) => {
                let effort = engaged.session.settings().thinking.effort;
                let effort = effort.map_or("default", ah_conversation::Effort::as_str);
                Ok(format!("Current effort level: {effort}"))
            }
            Local::Effort(Some(level)) => {
                let flags = json!({"effortLevel": level});
                let set = handles.apply_settings(flags.as_object().cloned().unwrap_or_default());
                set.map(|_| format!("Set effort level to {level} (this session only)"))
            }
            Local::Goal(typed) => Ok(self.goal(engaged, typed)),
            Local::Rename(None) => Ok("Usage: /rename <name>".to_owned()),
            Local::Rename(Some(name)) => handles
                .rename(name)
                .await
                .map(|_| format!("Session renamed to: {name}")),
            Local::Agents => Ok(introduction::agents_text(&engaged.agents())),
            Local::Styles => Ok(introduction::styles_text(&shared.introduction())),
            Local::Servers(wanted) => handles.manage_servers(wanted.as_deref()).await,
            Local::Compact(_) | Local::Clear | Local::Unavailable => {
                Ok("This command isn't available in this environment.".to_owned())
            }
        };
        engaged.session.take_changes();
        answered.unwrap_or_else(|fault| fault.text)
    }
}

/// Expands commands, skills and files in a prompt. Of several texts, those before the last are context, in which only
/// commands count.
async fn expanded(
    place: &dyn Place,
    prompt: Prompt,
) -> Result<(Vec<ContentBlock>, ExpandedPrompt), Refusal> {
    let mut lent = ExpandedPrompt::default();
    let mut content = prompt.content;
    let mut texts = content.iter_mut().filter_map(|block| match block {
        ContentBlock::Text { text } if !prompt.is_verbatim => Some(text),
        _ => None,
    });
    let last = texts.next_back();
    for text in texts.filter(|text| text.starts_with('/')).chain(last) {
        let expanded = place.expand(text).await?;
        *text = expanded.text;
        lent.allow.extend(expanded.allow);
        lent.model = expanded.model.or(lent.model);
        lent.notices.extend(expanded.notices);
    }
    Ok((content, lent))
}
