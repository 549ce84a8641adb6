//! A session with everything real except the model and the tools.

mod below;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ah_agent::agents::{Agent, Agents};
use ah_agent::hooks::{Hook, HookSession, Hooks};
use ah_agent::{
    Audience, Leaving, Ports, Ready, RunOutcome, Session, SessionSettings, SessionUpdate, Stop,
    SubagentKinds, Subagents, Toolbox, Watcher, no_variables,
};
use ah_conversation::{
    Access, Branch, ContentBlock, Context, Elicitation, ElicitationAnswer, Host, HostPermission,
    Input, Limits, MailKind, Mailbox, Message, Nobody, Output, OutputPage, PermissionAnswer,
    PermissionMode, PermissionRequest, PermissionUpdate, Permissions, Provider, Record, Request,
    Rulebook, Store, StoreError, StoreLayer, TaskUpdate, Tool, ToolExtras, ToolSpec, ToolUse,
    Truncation,
};
use ah_testkit::script::{Scenario, Scripted, Turn, scenario};
use ah_testkit::show;
use ah_testkit::world::Steps;
use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use below::{Below, One};

pub(crate) struct World {
    provider: Scripted,
    summarizer: Option<Scripted>,
    /// A model in the place of the scripted one.
    pub(crate) real: Option<Arc<dyn Provider>>,
    /// Wraps the scripted model.
    pub(crate) between: fn(Scripted) -> Arc<dyn Provider>,
    store: Arc<Mortal>,
    clock: Arc<Steps>,
    screen: Arc<Seen>,
    tools: Vec<Arc<dyn Tool>>,
    hooks: Vec<Arc<dyn Hook>>,
    /// Definitions of subagents as a host sends them; `None` for none.
    agents: Option<Value>,
    pub(crate) settings: SessionSettings,
}

impl World {
    /// Returns a world whose model answers with `turns`, and where everything is allowed.
    pub(crate) fn new(turns: impl IntoIterator<Item = Turn>) -> Self {
        Self::playing(scenario(turns))
    }

    /// Returns a world whose model plays `scenario`.
    pub(crate) fn playing(scenario: Scenario) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let store = ah_testkit::world::SessionStore::in_memory(scratch.path()).unwrap();
        let store = Mortal {
            store: Arc::new(store),
            writes: AtomicUsize::new(usize::MAX),
            results: Mutex::default(),
            late: Mutex::default(),
            _scratch: Arc::new(scratch),
        };
        Self::on(Arc::new(store), Arc::default(), scenario)
    }

    fn on(store: Arc<Mortal>, clock: Arc<Steps>, scenario: Scenario) -> Self {
        // Each process has a script of its own, from the beginning.
        let provider = Scripted::playing(Scenario {
            resume: false,
            ..scenario
        });
        let settings = SessionSettings {
            prompt: vec!["You are tested.".to_owned()].into(),
            limits: Limits {
                context_window: provider.model().context_window,
                ..Limits::default()
            },
            permissions: Permissions {
                mode: PermissionMode::BypassPermissions,
                ..Permissions::default()
            },
            ..SessionSettings::default()
        };
        Self {
            provider,
            summarizer: None,
            real: None,
            between: |provider| Arc::new(provider),
            store,
            clock,
            screen: Arc::default(),
            tools: Vec::new(),
            hooks: Vec::new(),
            agents: None,
            settings,
        }
    }

    /// Adds these subagents.
    pub(crate) fn with_agents(mut self, agents: Value) -> Self {
        self.agents = Some(agents);
        self
    }

    fn subagents(&self, provider: Arc<dyn Provider>) -> Option<Arc<Subagents>> {
        let mut agents = Agents::default();
        for (name, definition) in self.agents.as_ref()?.as_object().unwrap() {
            agents.add(Agent::from_json(name, definition).unwrap());
        }
        let kinds = SubagentKinds {
            agents,
            skills: Arc::default(),
            models: Arc::new(One(provider)),
            context: Box::new(|| ("# AGENTS.md".to_owned(), "# Environment".to_owned())),
            memory: Vec::new(),
            allow_background: true,
            isolation: None,
            servers: None,
        };
        Some(Arc::new(Subagents::new(
            kinds,
            Subagents::OWN_NAME,
            Vec::new(),
        )))
    }

    pub(crate) fn with(mut self, tool: Fake) -> Self {
        self.tools.push(Arc::new(tool));
        self
    }

    /// Requires a structured answer.
    pub(crate) fn in_form(mut self, schema: serde_json::Value) -> Self {
        let form = ah_agent::AnswerForm::new(schema).unwrap();
        self.tools.push(form.tool());
        self.settings.answer_form = Some(form);
        self
    }

    pub(crate) fn with_hooks(mut self, hooks: impl IntoIterator<Item = Arc<dyn Hook>>) -> Self {
        self.hooks.extend(hooks);
        self
    }

    /// Sets another model for summaries.
    pub(crate) fn summarised_by(&mut self, scenario: Scenario) -> Scripted {
        let summarizer = Scripted::playing(scenario);
        self.summarizer = Some(summarizer.clone());
        summarizer
    }

    /// Returns the same session in another process, whose model answers with `turns`.
    pub(crate) fn resumed(&self, turns: impl IntoIterator<Item = Turn>) -> Self {
        self.store.writes.store(usize::MAX, Ordering::SeqCst);
        Self::on(self.store.clone(), self.clock.clone(), scenario(turns))
    }

    pub(crate) async fn run(&mut self, prompt: &str) -> RunOutcome {
        self.try_run(prompt, CancellationToken::new())
            .await
            .unwrap()
    }

    /// Runs until the model has sent `text`, then interrupts.
    pub(crate) async fn run_until_text(&mut self, prompt: &str, text: &str) -> RunOutcome {
        self.run_until(
            prompt,
            Cue {
                event: "text_delta".to_owned(),
                text: text.to_owned(),
            },
        )
        .await
    }

    /// Runs until an event with this beginning is shown, then interrupts.
    pub(crate) async fn run_until_event(&mut self, prompt: &str, event: &str) -> RunOutcome {
        self.run_until(
            prompt,
            Cue {
                event: event.to_owned(),
                text: String::new(),
            },
        )
        .await
    }

    async fn run_until(&mut self, prompt: &str, cue: Cue) -> RunOutcome {
        let token = CancellationToken::new();
        *self.screen.interrupt.lock() = Some((cue, token.clone()));
        let outcome = self.try_run(prompt, token).await.unwrap();
        *self.screen.interrupt.lock() = None;
        outcome
    }

    /// Runs until the write after `writes` fails; returns whether it did.
    pub(crate) async fn run_until_write(&mut self, prompt: &str, writes: usize) -> bool {
        self.store.writes.store(writes, Ordering::SeqCst);
        self.try_run(prompt, CancellationToken::new())
            .await
            .is_err()
    }

    /// Checks what was done, without a prompt.
    pub(crate) async fn check_alone(&mut self) -> RunOutcome {
        let mut session = self.open().await.unwrap();
        let stop = Stop::interrupt(CancellationToken::new());
        let outcome = session.run_or_check(Vec::new(), &stop).await.unwrap();
        session.close("other").await.unwrap();
        outcome
    }

    async fn try_run(
        &self,
        prompt: &str,
        token: CancellationToken,
    ) -> Result<RunOutcome, StoreError> {
        let mut session = self.open().await?;
        let outcome = session
            .run(vec![ContentBlock::text(prompt)], &Stop::interrupt(token))
            .await?;
        session.close("other").await?;
        Ok(outcome)
    }

    /// Runs `prompt` until it ends, or is left.
    pub(crate) async fn run_leaving(&self, prompt: &str, leaving: Leaving) -> RunOutcome {
        let mut session = self.open().await.unwrap();
        let stop = Stop::interrupt(CancellationToken::new()).leaving(leaving);
        let outcome = session.run(vec![ContentBlock::text(prompt)], &stop).await;
        session.close("other").await.unwrap();
        outcome.unwrap()
    }

    /// Runs until the model has sent `text`, and leaves the run at once then.
    pub(crate) async fn run_leaving_at_text(&self, prompt: &str, text: &str) -> RunOutcome {
        let (token, leaving) = (CancellationToken::new(), Leaving::default());
        let cue = Cue {
            event: "text_delta".to_owned(),
            text: text.to_owned(),
        };
        *self.screen.interrupt.lock() = Some((cue, token.clone()));
        let leave = async {
            token.cancelled().await;
            leaving.at_once();
        };
        let (outcome, ()) = tokio::join!(self.run_leaving(prompt, leaving.clone()), leave);
        *self.screen.interrupt.lock() = None;
        outcome
    }

    /// Resumes the run that another process has left.
    pub(crate) async fn take_over(&self) -> Option<RunOutcome> {
        let (ports, tools) = self.parts();
        let session = Session::take_over(ports, tools, self.settings.clone()).await;
        let mut session = session.unwrap();
        let stop = Stop::interrupt(CancellationToken::new());
        let outcome = session.resume(&stop).await.unwrap();
        session.close("other").await.unwrap();
        outcome
    }

    /// Answers what somebody else has left open.
    pub(crate) async fn answer_open_calls(&self) {
        let answered = ah_agent::answer_open_calls(&*self.store, &*self.clock);
        answered.await.unwrap();
    }

    /// Opens the session without running it.
    pub(crate) async fn open(&self) -> Result<Session, StoreError> {
        let (ports, tools) = self.parts();
        Session::open(ports, tools, self.settings.clone()).await
    }

    fn parts(&self) -> (Ports, Toolbox) {
        let provider = match &self.real {
            Some(real) => real.clone(),
            None => (self.between)(self.provider.clone()),
        };
        let subagents = self.subagents(provider.clone());
        let summarizer = match &self.summarizer {
            Some(summarizer) => Arc::new(summarizer.clone()),
            None => provider.clone(),
        };
        let ports = Ports {
            provider,
            summarizer,
            store: self.store.clone(),
            clock: self.clock.clone(),
            audience: Audience::of(self.screen.clone()),
            variables: no_variables(),
            agent_id: None,
            rules: self.screen.clone(),
            hooks: Hooks::new(self.hooks.clone(), HookSession::default()),
            pictures: ah_agent::unchecked_pictures(),
            refusals: ah_agent::no_refusals(),
            command_files: None,
        };
        let tools = self.tools.iter().cloned();
        let tools = Toolbox::new(tools.chain(subagents.iter().map(|it| it.clone() as _)));
        let tools = match subagents {
            Some(subagents) => tools.with_subagents(subagents),
            None => tools,
        };
        (ports, tools)
    }

    /// Returns the events shown so far, one per line, without values that differ from run to run.
    pub(crate) fn events(&self) -> String {
        self.screen.lines.lock().join("\n")
    }

    pub(crate) fn notices(&self) -> String {
        self.screen.notices.lock().join("\n")
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.provider.requests()
    }

    /// Returns request number `at`, one message per line.
    pub(crate) fn request(&self, at: usize) -> String {
        let requests = self.requests();
        show::messages(requests[at].messages.iter())
    }

    /// Sets the host's answers, in the order of the requests.
    pub(crate) fn answering(self, answers: impl IntoIterator<Item = PermissionAnswer>) -> Self {
        *self.screen.answers.lock() = answers.into_iter().collect();
        self
    }

    /// Returns the permission requests to the host.
    pub(crate) fn questions(&self) -> Vec<PermissionRequest> {
        self.screen.questions.lock().clone()
    }

    /// Returns the saved permission updates as JSON.
    pub(crate) fn saved(&self) -> Vec<String> {
        self.screen.saved.lock().clone()
    }

    /// Returns the stored branch.
    pub(crate) async fn messages(&self) -> Vec<Arc<Message>> {
        self.store.load().await.unwrap().messages().to_vec()
    }

    /// Returns the texts of the last results sent to the model.
    pub(crate) fn last_results(&self) -> Vec<String> {
        let results = self.store.results.lock();
        results.iter().map(|(text, _)| text.clone()).collect()
    }

    pub(crate) fn last_errors(&self) -> String {
        let results = self.store.results.lock();
        let signs = results
            .iter()
            .map(|(_, is_error)| if *is_error { "error" } else { "ok" });
        signs.collect::<Vec<_>>().join(" ")
    }

    /// Returns lines of the whole output of the last answer's first call.
    pub(crate) async fn stored_output(&self, offset: usize, limit: usize) -> OutputPage {
        let messages = self.messages().await;
        let call = messages
            .iter()
            .rev()
            .find_map(|message| message.tool_results().next())
            .unwrap();
        self.store
            .output(&call.tool_use_id, offset, limit)
            .await
            .unwrap()
            .unwrap()
    }

    /// Queues a message from another process.
    pub(crate) async fn send(&self, kind: MailKind, text: &str) {
        self.store.store.send(kind, text.to_owned()).await.unwrap();
    }

    /// Queues steering just before the next answer is complete.
    pub(crate) fn steer_late(&self, text: &'static str) {
        *self.store.late.lock() = Some(text);
    }

    /// A tool that steers its own session while it runs.
    pub(crate) fn steering_tool(&self, name: &'static str, text: &'static str) -> Fake {
        let store = self.store.store.clone();
        Fake::reading(name, move |_| {
            let store = store.clone();
            async move {
                store.send(MailKind::Steer, text.to_owned()).await.unwrap();
                Output::text("seen")
            }
        })
    }
}

/// Event to interrupt at: its line's beginning and a part of it.
struct Cue {
    event: String,
    text: String,
}

impl Cue {
    fn is_met_by(&self, line: &str) -> bool {
        line.starts_with(&self.event) && line.contains(&self.text)
    }
}

/// Everything that was shown.
#[derive(Default)]
struct Seen {
    lines: Mutex<Vec<String>>,
    notices: Mutex<Vec<String>>,
    interrupt: Mutex<Option<(Cue, CancellationToken)>>,
    /// Answers of the host, in order.
    answers: Mutex<VecDeque<PermissionAnswer>>,
    questions: Mutex<Vec<PermissionRequest>>,
    saved: Mutex<Vec<String>>,
}

impl Seen {
    fn line(&self, line: String) {
        if let Some((wanted, token)) = &*self.interrupt.lock()
            && wanted.is_met_by(&line)
        {
            token.cancel();
        }
        self.lines.lock().push(line);
    }
}

#[async_trait]
impl Host for Seen {
    async fn permission(&self, question: &PermissionRequest) -> PermissionAnswer {
        let answers = self.answers.lock().pop_front();
        self.questions.lock().push(question.clone());
        answers.unwrap_or_else(|| PermissionAnswer::nobody(question))
    }

    async fn new_host(&self, host: &str) -> HostPermission {
        Nobody.new_host(host).await
    }

    async fn elicitation(&self, question: &Elicitation) -> ElicitationAnswer {
        Nobody.elicitation(question).await
    }

    fn elicitation_complete(&self, _: &str, _: &str) {}
}

impl Rulebook for Seen {
    fn save(&self, update: &PermissionUpdate) -> Result<(), String> {
        let line = serde_json::to_string(update).unwrap();
        self.saved.lock().push(line);
        Ok(())
    }
}

impl Watcher for Seen {
    fn update(&self, update: SessionUpdate<'_>) {
        if let Some(event) = update.event() {
            self.line(show::event(&event));
        }
        if let SessionUpdate::Progress { call, progress, .. } = update {
            self.line(format!("progress {} {}", call.name, progress.done));
        }
        let line = match update {
            SessionUpdate::Notice(text) => {
                return self.notices.lock().push(text.to_owned());
            }
            SessionUpdate::Task(_, TaskUpdate::Started) => "task started".to_owned(),
            SessionUpdate::Task(_, TaskUpdate::Progress { doing, .. }) => format!("task {doing}"),
            SessionUpdate::Task(
                _,
                TaskUpdate::Ended {
                    ending, summary, ..
                },
            ) => format!("task {}: {summary}", ending.as_str()),
            SessionUpdate::Subagent(_, SessionUpdate::Result(result, _)) => {
                format!("below {}", result.text())
            }
            _ => return,
        };
        self.line(line);
    }

    fn ready(&self) -> Option<Ready<'_>> {
        None
    }
}

/// A store that fails after so many writes, as if its process were killed there.
struct Mortal {
    store: Arc<ah_testkit::world::SessionStore>,
    writes: AtomicUsize,
    results: Mutex<Vec<(String, bool)>>,
    /// Steering queued while the next answer is being stored.
    late: Mutex<Option<&'static str>>,
    _scratch: Arc<tempfile::TempDir>,
}

impl Mortal {
    /// Fails if the process would be dead by now.
    fn survive(&self) -> Result<(), StoreError> {
        let survives = self
            .writes
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
                left.checked_sub(1)
            });
        if survives.is_err() {
            let reason = "killed".to_owned();
            return Err(StoreError {
                action: "cannot write",
                path: PathBuf::new(),
                reason,
                hint: None,
            });
        }
        Ok(())
    }
}

#[async_trait]
impl StoreLayer for Mortal {
    fn below(&self) -> &dyn Store {
        &*self.store
    }

    async fn append(&self, records: Vec<Record>) -> Result<(), StoreError> {
        self.survive()?;
        for record in &records {
            if let Record::Message(message) = record
                && message.is_results()
            {
                let results = message
                    .tool_results()
                    .map(|result| (result.text(), result.is_error));
                *self.results.lock() = results.collect();
            }
        }
        let is_answer = |record: &Record| matches!(record, Record::Message(message) if message.response.is_some());
        let late = if records.iter().any(is_answer) {
            self.late.lock().take()
        } else {
            None
        };
        if let Some(text) = late {
            self.store.send(MailKind::Steer, text.to_owned()).await?;
        }
        self.store.append(records).await
    }

    fn mailbox(&self) -> Option<&dyn Mailbox> {
        self.store.mailbox()
    }

    fn branch(self: Arc<Self>, branch: Branch) -> Arc<dyn Store> {
        Arc::new(Below {
            store: self.store.clone().branch(branch),
            mortal: self,
        })
    }
}

type Run =
    Box<dyn Fn(Input, Context) -> Pin<Box<dyn Future<Output = Output> + Send>> + Send + Sync>;

/// A tool with the behaviour given by a test.
pub(crate) struct Fake {
    spec: ToolSpec,
    access: Access,
    run: Run,
}

impl Fake {
    /// A read-only tool.
    pub(crate) fn reading<F: Future<Output = Output> + Send + 'static>(
        name: &str,
        run: impl Fn(Input) -> F + Send + Sync + 'static,
    ) -> Self {
        Self::touching(name, Access::Read("x".into()), run)
    }

    /// A read-only tool that may report progress.
    pub(crate) fn telling<F: Future<Output = Output> + Send + 'static>(
        name: &str,
        run: impl Fn(Context) -> F + Send + Sync + 'static,
    ) -> Self {
        Self {
            run: Box::new(move |_, context| Box::pin(run(context))),
            ..Self::reading(name, |_| async { Output::text("") })
        }
    }

    pub(crate) fn touching<F: Future<Output = Output> + Send + 'static>(
        name: &str,
        access: Access,
        run: impl Fn(Input) -> F + Send + Sync + 'static,
    ) -> Self {
        let spec = ToolSpec {
            name: name.to_owned(),
            description: String::new(),
            input_schema: Arc::new(json!({"type": "object"})),
            guidance: None,
            truncation: Truncation::DEFAULT,
            key: None,
        };
        Self {
            spec,
            access,
            run: Box::new(move |input, _| Box::pin(run(input))),
        }
    }

    pub(crate) fn with_truncation(mut self, bytes: usize) -> Self {
        self.spec.truncation.bytes = bytes;
        self
    }

    pub(crate) fn with_schema(mut self, schema: Value) -> Self {
        self.spec.input_schema = Arc::new(schema);
        self
    }
}

#[async_trait]
impl Tool for Fake {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, _: &Input) -> Vec<Access> {
        vec![self.access.clone()]
    }

    fn extras(&self) -> ToolExtras<'_> {
        ToolExtras::default()
    }

    async fn run(&self, call: &ToolUse, context: &Context) -> Output {
        (self.run)(call.input.clone(), context.clone()).await
    }
}
