//! Serving a host: prompts one after the other, control requests between and during them.

use std::io::{Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use ah_agent::hooks::Hook;
use ah_agent::{RunFailure, RunOutcome, Stop};
use ah_conversation::{ContentBlock, ExitReason, Origin, StoreError};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::callback::callbacks;
use super::control::{Handles, unknown};
use super::input::{self, Line};
use super::introduction;
use super::link::Link;
use super::local::{Local, local};
use super::message::{error_kind, error_text};
use super::output::Lines;
use super::program::{Program, Request};
use super::queue::{Queue, Ticket};
use super::result::{Circumstances, Totals, not_begun, result};
use super::sink::Sink;
use super::speaker::Speaker;
use super::wire::{
    self, ControlRequest, Incoming, Initialize, IntroductionPart, Priority, Prompt, RequestError,
    ResponseForm,
};
use super::{Pipes, Wanted};
use crate::transcript::sidechain::Sidechains;
use crate::transcript::{RowHead, unwritten};
use crate::{Engaged, Engine, Ids, Introduction, Refusal, Setting, TranscriptFile};

/// Time limit for flushing the output on shutdown.
const PATIENCE: Duration = Duration::from_secs(2);

/// Input from the host.
pub enum Source {
    /// Lines of the protocol.
    Lines(Box<dyn Read + Send>),
    /// One prompt, and nothing else.
    Prompt(String),
}

/// Input and output of the session.
pub struct Streams {
    /// Input from the host.
    pub source: Source,
    /// Output to the host, a line at a time.
    pub output: Box<dyn Write + Send>,
}

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

/// Serves a host until it has no more prompts, or `stop` is cancelled.
pub async fn serve(
    streams: Streams,
    engine: Arc<dyn Engine>,
    ids: Arc<dyn Ids>,
    wanted: Wanted,
    stop: &CancellationToken,
) -> Served {
    let lines = Lines::new(streams.output, stop.clone());
    let link = Arc::new(Link::new(Sink::Lines(lines), ids));
    let speaker = Speaker::new(link, wanted, None);
    let (worker, next) = Worker::new(speaker, engine, Vec::new(), stop);
    let shared = worker.shared.clone();
    match streams.source {
        Source::Lines(input) => {
            tokio::spawn(shared.hear(input::lines(input)));
        }
        Source::Prompt(text) => {
            shared.prompt(Prompt {
                content: vec![ContentBlock::text(text)],
                ..Prompt::default()
            });
            shared.end();
        }
    }
    worker.perform(next).await
}

/// Serves this program until its requests end, or `stop` is cancelled. The messages and their order are those of
/// [`serve`]. Of `wanted`, `asks` does not count: questions go to the program's host.
pub async fn serve_program(
    program: Program,
    engine: Arc<dyn Engine>,
    ids: Arc<dyn Ids>,
    wanted: Wanted,
    stop: &CancellationToken,
) -> Served {
    let sink = Sink::Messages(program.messages, stop.clone());
    let link = Arc::new(Link::new(sink, ids));
    let speaker = Speaker::new(link, wanted, program.host);
    let (worker, next) = Worker::new(speaker, engine, program.hooks, stop);
    let following = tokio::spawn(worker.shared.clone().follow(program.requests));
    let served = worker.perform(next).await;
    // Later requests fail once it has been dropped.
    following.abort();
    let _ = following.await;
    served
}

/// Work in the order in which the host sent it.
enum Work {
    /// `initialize`.
    Open(ReplyTo, Box<Initialize>),
    /// Another request that needs the session.
    OpenAnyhow,
    Prompt(Prompt, Arc<Ticket>),
}

/// Destination of the response to a request.
enum ReplyTo {
    /// A line to the host.
    Line(ResponseForm),
    /// The caller in this program.
    Caller(oneshot::Sender<Result<Value, String>>),
}

/// State shared by the task that reads the host's input and the one that works.
struct Shared {
    link: Arc<Link>,
    /// `None` after the end of the input.
    work: Mutex<Option<mpsc::UnboundedSender<Work>>>,
    open: OnceLock<Handles>,
    /// Requests from before the session was open; `None` since.
    early: Mutex<Option<Vec<(ReplyTo, ControlRequest)>>>,
    /// Unanswered prompts.
    queue: Queue,
    /// Set by a line that could not be parsed.
    is_faulty: OnceLock<()>,
    engine: Arc<dyn Engine>,
    introduction: OnceLock<Introduction>,
}

impl Shared {
    /// Reads the host's lines until there are no more.
    async fn hear(self: Arc<Self>, mut lines: mpsc::Receiver<Line>) {
        let mut number = 0_usize;
        while let Some(line) = lines.recv().await {
            number += 1;
            let heard = match line {
                Line::Whole(line) => wire::read(&line),
                Line::TooLong => Err("it is longer than 64 MiB".to_owned()),
                Line::Broken(fault) => Err(fault),
            };
            match heard {
                Ok(incoming) => self.take(incoming),
                Err(fault) => self.complain(number, &fault),
            }
        }
        // Requests that are open now get no answer.
        self.link.close();
        self.end();
    }

    /// Takes the requests of this program until there are no more.
    async fn follow(self: Arc<Self>, mut requests: mpsc::UnboundedReceiver<Request>) {
        while let Some(request) = requests.recv().await {
            match request {
                Request::Prompt(prompt) => self.prompt(prompt),
                Request::Control(wish, reply) => self.request(ReplyTo::Caller(reply), wish),
            }
        }
        self.end();
    }

    fn take(self: &Arc<Self>, incoming: Incoming) {
        match incoming {
            Incoming::Prompt(prompt) => {
                if prompt.priority == Priority::Now {
                    self.queue.interrupt(false);
                }
                self.prompt(prompt);
            }
            Incoming::Answer { id, answer } => self.link.answer(&id, answer),
            Incoming::Request(to, wish) => self.request(ReplyTo::Line(to), wish),
            Incoming::Withdrawal(_) | Incoming::Nothing => {}
        }
    }

    fn request(self: &Arc<Self>, to: ReplyTo, wish: ControlRequest) {
        match wish {
            ControlRequest::Interrupt { cancels_others } => {
                let told = self.queue.interrupt(cancels_others);
                self.reply(to, Ok(told));
            }
            ControlRequest::Withdraw { prompt } => {
                let cancelled = self.queue.withdraw(&prompt);
                self.reply(to, Ok(json!({"cancelled": cancelled})));
            }
            ControlRequest::Introduction(listed) => {
                let told = introduction::part(self.introduction(), listed);
                self.reply(to, Ok(told));
            }
            ControlRequest::Unknown { subtype, fault } => {
                self.reply(to, Err(unknown(&subtype, fault)));
            }
            ControlRequest::Initialize(wishes) if self.open.get().is_none() => {
                self.put(Work::Open(to, wishes));
            }
            // A host that lost the response asks again; its options come too late.
            ControlRequest::Initialize(_) => {
                let told = introduction::part(self.introduction(), IntroductionPart::All);
                self.reply(to, Ok(told));
            }
            wish => {
                let mut early = lock(&self.early);
                if let Some(early) = &mut *early {
                    early.push((to, wish));
                    self.put(Work::OpenAnyhow);
                    return;
                }
                drop(early);
                let shared = self.clone();
                tokio::spawn(async move { shared.grant(to, wish).await });
            }
        }
    }

    /// Carries out a request that needs the session.
    async fn grant(&self, to: ReplyTo, wish: ControlRequest) {
        let Some(handles) = self.open.get() else {
            let fault = RequestError::new("the session could not be opened");
            return self.reply(to, Err(fault));
        };
        let mode = wish.mode();
        let outcome = handles.grant(wish).await;
        let mode = mode.filter(|_| outcome.is_ok());
        self.reply(to, outcome);
        mode.into_iter().for_each(|mode| handles.speaker.mode(mode));
    }

    /// Returns the program's description, which is read from many files and therefore once.
    fn introduction(&self) -> &Introduction {
        self.introduction.get_or_init(|| self.engine.introduction())
    }

    fn reply(&self, to: ReplyTo, outcome: Result<Value, RequestError>) {
        match to {
            ReplyTo::Line(to) => {
                self.link.sink.send_control(to.line(outcome));
            }
            // The caller may have dropped its future.
            ReplyTo::Caller(reply) => drop(reply.send(outcome.map_err(|fault| fault.text))),
        }
    }

    /// Queues a prompt.
    fn prompt(&self, prompt: Prompt) {
        let ticket = self.queue.join(prompt.uuid.clone());
        self.put(Work::Prompt(prompt, ticket));
    }

    /// Reports a line of the host that could not be parsed.
    fn complain(&self, number: usize, fault: &str) {
        let _ = self.is_faulty.set(());
        let text = format!("line {number} of the input is ignored: {fault}");
        tracing::error!("{text}");
        self.link.sink.send(json!({
            "type": "system",
            "subtype": "informational",
            "level": "error",
            "content": text,
            "uuid": self.link.ids.fresh(),
            "session_id": "",
        }));
    }

    fn put(&self, work: Work) {
        if let Some(sender) = &*lock(&self.work) {
            // The receiver lives as long as this.
            let _ = sender.send(work);
        }
    }

    fn end(&self) {
        *lock(&self.work) = None;
    }
}

/// Task that runs the prompts.
struct Worker {
    shared: Arc<Shared>,
    speaker: Arc<Speaker>,
    /// Hooks of this program, if it is the host.
    hooks: Vec<Arc<dyn Hook>>,
    stop: CancellationToken,
    totals: Totals,
    /// Whether the last result was an error.
    is_error: bool,
    /// Error that ended the last run.
    failure: Option<RunFailure>,
}

impl Worker {
    fn new(
        speaker: Speaker,
        engine: Arc<dyn Engine>,
        hooks: Vec<Arc<dyn Hook>>,
        stop: &CancellationToken,
    ) -> (Self, mpsc::UnboundedReceiver<Work>) {
        let (work, next) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            link: speaker.link.clone(),
            work: Mutex::new(Some(work)),
            open: OnceLock::new(),
            early: Mutex::new(Some(Vec::new())),
            queue: Queue::new(stop.clone()),
            is_faulty: OnceLock::new(),
            engine,
            introduction: OnceLock::new(),
        });
        let worker = Self {
            shared,
            speaker: Arc::new(speaker),
            hooks,
            stop: stop.clone(),
            totals: Totals::default(),
            is_error: false,
            failure: None,
        };
        (worker, next)
    }

    /// Does the work, then waits until all output is written.
    async fn perform(self, next: mpsc::UnboundedReceiver<Work>) -> Served {
        let (link, stop) = (self.shared.link.clone(), self.stop.clone());
        let served = self.work(next).await;
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
                work = next.recv() => work,
            };
            let Some(work) = work else { break };
            if engaged.is_none() {
                let wishes = match &work {
                    Work::Open(_, wishes) => (**wishes).clone(),
                    Work::OpenAnyhow | Work::Prompt(..) => Initialize::default(),
                };
                match self.open(&wishes).await {
                    Ok(opened) => engaged = Some(opened),
                    Err(refusal) => return self.refuse(&refusal),
                }
            }
            let engaged = engaged.as_mut().expect("it was opened above");
            match work {
                Work::Open(to, _) => {
                    let mut told = introduction::all(self.shared.introduction());
                    told["agents"] = introduction::agents(&engaged.agents);
                    let mode = engaged.session.settings().permissions.mode;
                    told["current_permission_mode"] = json!(mode.as_str());
                    told["hook_on_failure_supported"] = json!(true);
                    for applied in ["hooks", "mcp_servers", "plugins"] {
                        told[format!("{applied}_applied")] = json!(true);
                    }
                    self.shared.reply(to, Ok(told));
                }
                Work::OpenAnyhow => {}
                Work::Prompt(prompt, ticket) => {
                    self.catch_up().await;
                    if self.shared.queue.begin(&ticket)
                        && let Err(error) = self.turn(engaged, prompt, &ticket.run).await
                    {
                        return Served::Lost(error);
                    }
                    self.shared.queue.leave();
                }
            }
            self.catch_up().await;
        }
        if let Some(engaged) = engaged
            && let Err(error) = engaged.session.close("other").await
        {
            return Served::Lost(error);
        }
        let is_error = self.is_error || self.shared.is_faulty.get().is_some();
        Served::Ended {
            is_error,
            failure: self.failure,
        }
    }

    /// Answers the requests from before the session was open, in order.
    async fn catch_up(&self) {
        let early = lock(&self.shared.early).take();
        for (to, wish) in early.into_iter().flatten() {
            self.shared.grant(to, wish).await;
        }
    }

    async fn open(&self, wishes: &Initialize) -> Result<Engaged, Refusal> {
        let (shared, speaker) = (&self.shared, &self.speaker);
        let pipes = Pipes::new(shared.link.clone());
        let given = wishes.hooks.clone().unwrap_or_default();
        let (mut hooks, faults) = callbacks(&given, &shared.link).map_err(|error| Refusal {
            text: error.to_string(),
        })?;
        hooks.append(&mut self.hooks.clone());
        let engaged = shared.engine.open(Setting {
            wishes,
            frontend: speaker.clone(),
            hooks,
            pipes: pipes.clone(),
        });
        let engaged = engaged.await?;
        speaker.name(&engaged.session_id, engaged.max_retries);
        if let Some(path) = &engaged.transcript_path {
            let head = RowHead {
                session_id: engaged.session_id.clone(),
                cwd: engaged.cwd.clone(),
                version: shared.introduction().version.clone(),
                entrypoint: engaged.entrypoint.clone(),
                agent_id: None,
            };
            let sidechains = Mutex::new(Sidechains::of(path, head.clone()));
            // It is opened once.
            drop(speaker.sidechains.set(sidechains));
            let opened = TranscriptFile::open(
                path.clone(),
                head,
                wishes.title.as_deref(),
                engaged.session.transcript().messages(),
                &*shared.link.ids,
            );
            match opened {
                // It is opened once.
                Ok((transcript, rows)) => {
                    speaker.mirror(transcript.path(), rows);
                    drop(speaker.transcript.set(transcript));
                }
                Err(error) => ah_agent::Frontend::notice(&**speaker, &unwritten(path, &error)),
            }
        }
        speaker.forward_words(wishes.forward_subagent_text);
        faults
            .iter()
            .for_each(|fault| ah_agent::Frontend::notice(&**speaker, fault));
        let settings = engaged.session.settings();
        let handles = Handles {
            controls: engaged.session.controls(),
            models: engaged.models.clone(),
            servers: engaged.servers.clone(),
            tasks: engaged.session.tools().tasks(),
            files: engaged.session.files(),
            pipes,
            speaker: speaker.clone(),
            may_bypass: settings.permissions.may_bypass,
            thinking: settings.thinking,
            model: engaged.session.model().clone(),
        };
        // It is opened once.
        let _ = shared.open.set(handles);
        Ok(engaged)
    }

    /// Reports that the session could not be opened.
    fn refuse(&self, refusal: &Refusal) -> Served {
        self.speaker.say_result(not_begun(&refusal.text), None);
        Served::Refused
    }

    /// Runs a prompt to its end.
    async fn turn(
        &mut self,
        engaged: &mut Engaged,
        prompt: Prompt,
        run: &CancellationToken,
    ) -> Result<(), StoreError> {
        engaged.session.take_changes();
        self.speaker.state("running");
        // The `init` message lists all tools that the first request will have.
        tokio::select! {
            () = run.cancelled() => {}
            () = engaged.session.prepare_tools() => {}
        }
        let init = introduction::init(engaged, self.shared.introduction());
        let mode = engaged.session.settings().permissions.mode;
        self.speaker.begin(init, mode, prompt.uuid.clone());
        let is_verbatim = prompt.is_verbatim;
        let content = match self.expanded(prompt).await {
            Ok(content) => content,
            Err(refusal) => {
                self.finish(not_begun(&refusal.text), None);
                return Ok(());
            }
        };
        let stop = Stop::interrupt(run.clone());
        let outcome = match local(&content).filter(|_| !is_verbatim) {
            Some(Local::Compact(wanted)) => {
                self.speaker.set_trigger("manual");
                let outcome = engaged.session.compact_all(wanted, &stop).await;
                self.speaker.set_trigger("auto");
                let is_done = |outcome: &RunOutcome| outcome.reason == ExitReason::EndTurn;
                if outcome.as_ref().is_ok_and(is_done) {
                    let text = "<local-command-stdout>Compacted </local-command-stdout>";
                    self.speaker.user(text, json!({"isReplay": true}));
                }
                outcome
            }
            None => engaged.session.run(content, &stop).await,
        };
        match outcome {
            Ok(outcome) => {
                self.ended(engaged, &outcome);
                self.failure = outcome.failure;
            }
            Err(error) => {
                self.finish(not_begun(&error.to_string()), None);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Expands commands, skills and files in a prompt. Of several texts, those before the last are context, in which only
    /// commands count.
    async fn expanded(&self, prompt: Prompt) -> Result<Vec<ContentBlock>, Refusal> {
        let mut content = prompt.content;
        let mut texts = content.iter_mut().filter_map(|block| match block {
            ContentBlock::Text { text } if !prompt.is_verbatim => Some(text),
            _ => None,
        });
        let last = texts.next_back();
        for text in texts.filter(|text| text.starts_with('/')).chain(last) {
            *text = self.shared.engine.expand(text).await?;
        }
        Ok(content)
    }

    /// Reports the end of a run.
    fn ended(&mut self, engaged: &Engaged, outcome: &RunOutcome) {
        let last = engaged.session.transcript().last();
        let while_speaking = last.is_none_or(|last| last.origin != Origin::Results);
        if let Some(RunFailure::Provider(error)) = &outcome.failure {
            self.speaker.failed(&error_text(error), error_kind(error));
        }
        if outcome.reason == ExitReason::Interrupted {
            let words = if while_speaking {
                "[Request interrupted by user]"
            } else {
                "[Request interrupted by user for tool use]"
            };
            self.speaker.user(words, json!({}));
        }
        self.totals.add(&outcome.models);
        let circumstances = Circumstances {
            max_turns: engaged.max_turns,
            max_budget_usd: engaged.max_budget_usd,
            while_speaking,
        };
        let describe = |provider: &str, name: &str| engaged.model(provider, name);
        let result = result(outcome, &self.totals, circumstances, &describe);
        self.finish(result, Some(outcome.reason.clone()));
    }

    fn finish(&mut self, result: Value, exit_reason: Option<ExitReason>) {
        self.is_error = result["is_error"] == json!(true);
        self.speaker.say_result(result, exit_reason);
        self.speaker.state("idle");
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
