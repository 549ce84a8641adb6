//! Prompts one after the other, and what a host wants in between and meanwhile.

use std::io::{Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use ah_agent::{RunFailure, RunOutcome, Stop};
use ah_conversation::{ContentBlock, ExitReason, Origin, StoreError};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::callback::callbacks;
use super::control::{Handles, unknown};
use super::input::{self, Line};
use super::introduction;
use super::link::Link;
use super::message::{error_kind, error_text};
use super::output::Lines;
use super::queue::{Queue, Ticket};
use super::result::{Circumstances, Totals, not_begun, result};
use super::speaker::Speaker;
use super::wire::{self, Fault, Incoming, Initialize, Listed, Priority, Prompt, Return, Wish};
use super::{Pipes, Wanted};
use crate::transcript::unwritten;
use crate::{Engaged, Engine, Ids, Introduction, Refusal, Setting, TranscriptFile};

/// How long what was said may take to be read once somebody wants us gone.
const PATIENCE: Duration = Duration::from_secs(2);

/// Where a host's words come from.
pub enum Source {
    /// Lines of the protocol.
    Lines(Box<dyn Read + Send>),
    /// One prompt, and nothing else.
    Prompt(String),
}

/// The two ends of the talk.
pub struct Streams {
    /// What the host says.
    pub source: Source,
    /// What we say.
    pub output: Box<dyn Write + Send>,
}

/// How it ended.
#[derive(Debug)]
pub enum Served {
    /// The host has no more prompts. Whether the last result, or a line of the host, was an error.
    Ended {
        /// Whether it was.
        is_error: bool,
        /// Why the last run could not go on.
        failure: Option<RunFailure>,
    },
    /// The session could not be opened.
    Refused,
    /// The conversation could not be kept.
    Lost(StoreError),
    /// The host does not read any more; why.
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
    let closed = stop.clone();
    let link = Arc::new(Link::new(Lines::new(streams.output, closed), ids));
    let (work, next) = mpsc::unbounded_channel();
    let desk = Arc::new(Desk {
        link: link.clone(),
        work: Mutex::new(Some(work)),
        open: OnceLock::new(),
        early: Mutex::new(Some(Vec::new())),
        queue: Queue::new(stop.clone()),
        is_faulty: OnceLock::new(),
        engine,
        introduction: OnceLock::new(),
    });
    match streams.source {
        Source::Lines(input) => {
            tokio::spawn(desk.clone().hear(input::lines(input)));
        }
        Source::Prompt(text) => {
            desk.prompt(Prompt {
                content: vec![ContentBlock::text(text)],
                ..Prompt::default()
            });
            desk.end();
        }
    }
    let speaker = Arc::new(Speaker::new(link.clone(), wanted));
    let server = Server {
        desk,
        speaker,
        stop: stop.clone(),
        totals: Totals::default(),
        is_error: false,
        failure: None,
    };
    let served = server.work(next).await;
    link.close();
    link.lines.finish(stop.is_cancelled().then_some(PATIENCE));
    match link.lines.fault() {
        Some(fault) => Served::Closed(fault),
        None => served,
    }
}

/// Something to do, in the order in which the host asked for it.
enum Work {
    /// The host has said who it is.
    Open(Return, Box<Initialize>),
    /// Something else of the host needs the session.
    OpenAnyhow,
    Prompt(Prompt, Arc<Ticket>),
}

/// What both sides of the talk look at: the one that hears the host, and the one that works.
struct Desk {
    link: Arc<Link>,
    /// Gone when the host has said its last word.
    work: Mutex<Option<mpsc::UnboundedSender<Work>>>,
    open: OnceLock<Handles>,
    /// What was asked for before the session was open; gone since.
    early: Mutex<Option<Vec<(Return, Wish)>>>,
    /// The prompts that are not answered yet.
    queue: Queue,
    /// Set by a line that could not be read.
    is_faulty: OnceLock<()>,
    engine: Arc<dyn Engine>,
    introduction: OnceLock<Introduction>,
}

impl Desk {
    /// Hears the host to its end.
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
        // Questions that are open now are answered by nobody.
        self.link.close();
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
            Incoming::Request(to, wish) => self.request(to, wish),
            Incoming::Withdrawal(_) | Incoming::Nothing => {}
        }
    }

    fn request(self: &Arc<Self>, to: Return, wish: Wish) {
        match wish {
            Wish::Interrupt { cancels_others } => {
                let told = self.queue.interrupt(cancels_others);
                self.reply(&to, Ok(told));
            }
            Wish::Withdraw { prompt } => {
                let cancelled = self.queue.withdraw(&prompt);
                self.reply(&to, Ok(json!({"cancelled": cancelled})));
            }
            Wish::Introduction(listed) => {
                let told = introduction::part(self.introduction(), listed);
                self.reply(&to, Ok(told));
            }
            Wish::Unknown { subtype, fault } => self.reply(&to, Err(unknown(&subtype, fault))),
            Wish::Initialize(wishes) if self.open.get().is_none() => {
                self.put(Work::Open(to, wishes));
            }
            // A host that has lost the answer asks again; what it wants besides comes too late.
            Wish::Initialize(_) => {
                let told = introduction::part(self.introduction(), Listed::All);
                self.reply(&to, Ok(told));
            }
            wish => {
                let mut early = lock(&self.early);
                if let Some(early) = &mut *early {
                    early.push((to, wish));
                    self.put(Work::OpenAnyhow);
                    return;
                }
                drop(early);
                let desk = self.clone();
                tokio::spawn(async move { desk.grant(to, wish).await });
            }
        }
    }

    /// Does what the host asks for of an open session.
    async fn grant(&self, to: Return, wish: Wish) {
        let Some(handles) = self.open.get() else {
            let fault = Fault::new("the session could not be opened");
            return self.reply(&to, Err(fault));
        };
        let mode = wish.mode();
        let outcome = handles.grant(wish).await;
        let mode = mode.filter(|_| outcome.is_ok());
        self.reply(&to, outcome);
        mode.into_iter().for_each(|mode| handles.speaker.mode(mode));
    }

    /// What the program tells of itself: read once, since it stands in many files.
    fn introduction(&self) -> &Introduction {
        self.introduction.get_or_init(|| self.engine.introduction())
    }

    fn reply(&self, to: &Return, outcome: Result<Value, Fault>) {
        self.link.lines.send(to.line(outcome));
    }

    /// Takes a prompt in.
    fn prompt(&self, prompt: Prompt) {
        let ticket = self.queue.join(prompt.uuid.clone());
        self.put(Work::Prompt(prompt, ticket));
    }

    /// Tells the host that a line of its own could not be understood, and goes on.
    fn complain(&self, number: usize, fault: &str) {
        let _ = self.is_faulty.set(());
        let text = format!("line {number} of the input is left out: {fault}");
        tracing::error!("{text}");
        self.link.lines.send(json!({
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
            // The other side ends only with all of this.
            let _ = sender.send(work);
        }
    }

    fn end(&self) {
        *lock(&self.work) = None;
    }
}

/// The side that works.
struct Server {
    desk: Arc<Desk>,
    speaker: Arc<Speaker>,
    stop: CancellationToken,
    totals: Totals,
    /// Whether the last result was an error.
    is_error: bool,
    /// Why the last run could not go on.
    failure: Option<RunFailure>,
}

impl Server {
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
                    let mut told = introduction::all(self.desk.introduction());
                    told["agents"] = introduction::agents(&engaged.agents);
                    let mode = engaged.session.settings().permissions.mode;
                    told["current_permission_mode"] = json!(mode.as_str());
                    told["hook_on_failure_supported"] = json!(true);
                    for applied in ["hooks", "mcp_servers", "plugins"] {
                        told[format!("{applied}_applied")] = json!(true);
                    }
                    self.desk.reply(&to, Ok(told));
                }
                Work::OpenAnyhow => {}
                Work::Prompt(prompt, ticket) => {
                    self.catch_up().await;
                    if self.desk.queue.begin(&ticket)
                        && let Err(error) = self.turn(engaged, prompt, &ticket.run).await
                    {
                        return Served::Lost(error);
                    }
                    self.desk.queue.leave();
                }
            }
            self.catch_up().await;
        }
        if let Some(engaged) = engaged
            && let Err(error) = engaged.session.close("other").await
        {
            return Served::Lost(error);
        }
        let is_error = self.is_error || self.desk.is_faulty.get().is_some();
        Served::Ended {
            is_error,
            failure: self.failure,
        }
    }

    /// Answers what was asked for before the session was open, in its order.
    async fn catch_up(&self) {
        let early = lock(&self.desk.early).take();
        for (to, wish) in early.into_iter().flatten() {
            self.desk.grant(to, wish).await;
        }
    }

    async fn open(&self, wishes: &Initialize) -> Result<Engaged, Refusal> {
        let (desk, speaker) = (&self.desk, &self.speaker);
        let pipes = Pipes::new(desk.link.clone());
        let given = wishes.hooks.clone().unwrap_or_default();
        let (hooks, faults) = callbacks(&given, &desk.link);
        let engaged = desk.engine.open(Setting {
            wishes,
            frontend: speaker.clone(),
            hooks,
            pipes: pipes.clone(),
        });
        let engaged = engaged.await?;
        speaker.name(&engaged.session_id, engaged.max_retries);
        if let Some(path) = &engaged.transcript_path {
            let opened = TranscriptFile::open(
                path.clone(),
                &engaged.session_id,
                &engaged.cwd,
                &desk.introduction().version,
                wishes.title.as_deref(),
                engaged.session.transcript().messages(),
                &*desk.link.ids,
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
        let _ = desk.open.set(handles);
        Ok(engaged)
    }

    /// No session, so no run: the host learns why.
    fn refuse(&self, refusal: &Refusal) -> Served {
        self.speaker.say(not_begun(&refusal.text));
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
        // The host is told of all tools that the first request will have.
        tokio::select! {
            () = run.cancelled() => {}
            () = engaged.session.prepare_tools() => {}
        }
        let init = introduction::init(engaged, self.desk.introduction());
        let mode = engaged.session.settings().permissions.mode;
        self.speaker.begin(init, mode, prompt.uuid.clone());
        let is_verbatim = prompt.is_verbatim;
        let content = match self.expanded(prompt).await {
            Ok(content) => content,
            Err(refusal) => {
                self.finish(not_begun(&refusal.text));
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
                self.finish(not_begun(&error.to_string()));
                return Err(error);
            }
        }
        Ok(())
    }

    /// What a prompt calls by name comes in its place.
    async fn expanded(&self, prompt: Prompt) -> Result<Vec<ContentBlock>, Refusal> {
        let content = prompt.content;
        match &content[..] {
            [ContentBlock::Text { text }] if !prompt.is_verbatim => {
                let text = self.desk.engine.expand(text).await?;
                Ok(vec![ContentBlock::Text { text }])
            }
            _ => Ok(content),
        }
    }

    /// Tells how a run ended.
    fn ended(&mut self, engaged: &Engaged, outcome: &RunOutcome) {
        let last = engaged.session.transcript().last();
        let while_speaking = last.is_none_or(|last| last.origin != Origin::Results);
        if let Some(RunFailure::Provider(error)) = &outcome.failure {
            self.speaker.failed(&error_text(error), error_kind(error));
        }
        if outcome.reason == ExitReason::Interrupted {
            let words = match while_speaking {
                true => "[Request interrupted by user]",
                false => "[Request interrupted by user for tool use]",
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
        self.finish(result(outcome, &self.totals, circumstances, &describe));
    }

    fn finish(&mut self, result: Value) {
        self.is_error = result["is_error"] == json!(true);
        self.speaker.say(result);
        self.speaker.state("idle");
    }
}

/// A prompt that we answer ourselves.
enum Local<'a> {
    /// The conversation is to be summarised, and what the summary is to heed.
    Compact(Option<&'a str>),
}

fn local(content: &[ContentBlock]) -> Option<Local<'_>> {
    let [ContentBlock::Text { text }] = content else {
        return None;
    };
    let (name, wanted) = match text.trim().split_once(char::is_whitespace) {
        Some((name, wanted)) => (name, Some(wanted.trim())),
        None => (text.trim(), None),
    };
    (name == "/compact").then_some(Local::Compact(wanted))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
