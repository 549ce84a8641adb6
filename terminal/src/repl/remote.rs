//! The conversation with a session that another process runs: the same terminal, whose tasks go to that process and whose
//! output is what comes from there. Leaving it ends nothing.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use ah_config::{Config, Error};
use ah_conversation::{
    Clock as _, ContentBlock, EventKind, ExitReason, Interface, LiveOutput, MailKind, Message,
    MessageId, Model, Origin, Time, ToolSpec, ToolUseId, Verdicts, neutralise, title_of,
};
use ah_desk::{Asked, BlockKind, Ended, Growth, RunningCall, State};
use ah_ids::SystemClock;
use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::activity::RunningTool;
use super::app::App;
use super::asker::{Asker, Closer};
use super::effect::Task;
use super::frontend::{Link, ReplFrontend};
use super::history::History;
use super::input::{self, Ending, Input, Queued};
use super::notify::Notifier;
use super::terminal::Terminal;
use super::{Display, begin, intro, link, open_history, signals, title};
use crate::exit;
use crate::print::divert;
use crate::print::question::{Form, Said, answer, answers, verdict_sheet};
use crate::print::text::View;
use crate::print::text::replay::{Replay, take_back};

/// A session in another process. Errors are texts for the person.
#[async_trait]
pub trait RemoteSession: Send + Sync + 'static {
    /// Begins a run.
    async fn prompt(&self, text: &str) -> Result<(), String>;

    /// Queues a message for the run; returns its id.
    async fn send(&self, kind: MailKind, text: &str) -> Result<MessageId, String>;

    /// Interrupts the run; its end still comes.
    async fn interrupt(&self) -> Result<(), String>;

    /// Answers a question: the text for each choice.
    async fn answer(&self, question: u64, answers: BTreeMap<String, String>) -> Result<(), String>;
}

/// What comes from the session.
#[derive(Debug)]
pub enum RemoteEvent {
    /// The next message of the branch.
    Message(Box<Message>),
    /// Another branch is the current one: its messages come.
    Reset,
    /// What is new of the answer in progress.
    Answer(Growth),
    /// What the session is doing.
    State(State),
    /// The calls in progress, with the last lines of their outputs.
    Calls(Vec<RunningCall>),
    /// The process is gone, or says nothing any more; the reason.
    Lost(String),
}

/// A session in another process, and what the terminal shows of it.
pub struct Remote {
    /// The session.
    pub session: Arc<dyn RemoteSession>,
    /// What comes from it, after `past`.
    pub events: UnboundedReceiver<RemoteEvent>,
    /// The messages that are shown first.
    pub past: Vec<Message>,
    /// What the checks of its runs have shown at their ends.
    pub verdicts: Verdicts,
    /// Number of all its messages.
    pub messages: usize,
    /// Its id.
    pub id: String,
    /// Its model.
    pub model: Model,
    /// The name of its folder, if that is another one than this.
    pub place: Option<String>,
    /// The command that opens it from here.
    pub way: String,
    /// The tools that the program knows, for the key arguments of calls.
    pub tools: Arc<[ToolSpec]>,
}

/// Shows the session at the terminal until the person leaves it or its process is gone; returns the exit code. Without a
/// display it is only printed, until the end of its run.
///
/// # Errors
///
/// If the terminal cannot be used.
pub async fn attach(
    display: Option<Display>,
    remote: Remote,
    config: &Config,
) -> Result<u8, Error> {
    let is_drawn = display == Some(Display::Drawn);
    let signals = signals(is_drawn)?;
    let (inputs, happened) = channel();
    let link = link(is_drawn, inputs.clone());
    let (tasks, wanted) = unbounded_channel();
    let history = match display {
        Some(Display::Drawn) => open_history(config.home.as_deref()),
        _ => History::default(),
    };
    let mode = config.conversation.editor_mode.as_ref();
    let keys = mode.map(|mode| mode.value).unwrap_or_default();
    let mut app = App::new(keys, history, Terminal::size(), link.colours);
    app.notifier = Notifier::new(&config.environment, config.conversation.notify.as_ref());
    app.is_remote = true;
    app.way.clone_from(&remote.way);
    let is_over = match display {
        Some(display) => begin(display, app, config, (inputs.clone(), happened), tasks)
            .map_err(|error| Error::failure(format!("cannot use the terminal: {error}")))?,
        None => std::thread::spawn(move || print(&happened)),
    };
    let id = remote.id.clone();
    let frontend = link.frontend(View {
        shows_work: true,
        model: remote.model.clone(),
        tools: remote.tools.clone(),
        cwd: config.environment.cwd().to_owned(),
        session: None,
        group: None,
        asks: None,
        is_conversation: true,
        elsewhere: Some(remote.way.clone()),
    });
    let mut worker = RemoteWorker::new(remote, wanted, link, config);
    worker.is_watching_only = display.is_none();
    let end = tokio::select! {
        end = worker.work(&frontend) => end,
        () = signals.token().cancelled() => End::Left { is_running: true, },
    };
    let _ = inputs.send(Input::Stop(0));
    drop(inputs);
    if !matches!(display, Some(Display::Plain(_))) {
        // A panic of the thread has been printed already.
        let _ = is_over.join();
        divert(None);
    }
    match end {
        End::Left { is_running: true } => {
            crate::note(&format!("Still running. Reattach: ah attach {id}"));
        }
        End::Left { is_running: false } => crate::note(&format!("Resume: ah -r {id}")),
        End::Lost(reason) => {
            let lost = Error::failure(format!("the session is gone: {reason}"));
            return Err(lost.hint(format!("the conversation is saved: `ah -r {id}`")));
        }
        End::Watched(ended) => return Ok(watched(&ended, &id)),
    }
    Ok(0)
}

/// Tells how a run has ended that was only watched; returns its exit code.
fn watched(ended: &Ended, id: &str) -> u8 {
    let reason = if ended.is_stopped {
        ExitReason::Interrupted
    } else if ended.is_error {
        let text = neutralise(&ended.text);
        crate::report(&Error::failure(format!("the run failed: {text}")));
        ExitReason::Error
    } else {
        ExitReason::EndTurn
    };
    crate::note(&format!("Resume: ah -r {id}"));
    exit::code(Interface::Native, &reason, None)
}

/// Why the terminal shows the session no longer.
enum End {
    /// The person has left.
    Left {
        /// Whether a run is in progress.
        is_running: bool,
    },
    /// The process is gone.
    Lost(String),
    /// The run has ended that nobody did more than watch.
    Watched(Ended),
}

/// Does the tasks of the terminal, and shows what comes.
struct RemoteWorker<'a> {
    session: Arc<dyn RemoteSession>,
    events: UnboundedReceiver<RemoteEvent>,
    tasks: UnboundedReceiver<Task>,
    past: Vec<Message>,
    verdicts: Verdicts,
    opened: input::Opened,
    /// The command that opens the session from here.
    way: String,
    link: Link,
    config: &'a Config,
    run: Run,
    /// Whether nobody types, so that nothing is asked, and the end of the run is the end.
    is_watching_only: bool,
    /// Open questions.
    asked: HashMap<u64, Closer>,
    /// Questions that were answered here since the last results.
    answered: Arc<Mutex<Vec<String>>>,
}

/// The run in progress, as far as it is shown.
#[derive(Default)]
struct Run {
    /// Whether the terminal waits for its end.
    is_shown: bool,
    /// Whether it is known if there is one.
    is_known: bool,
    /// Whether it was told that the run waits for an answer that nobody here can give.
    is_told_to_wait: bool,
    /// Whether something of it has come, so that the next end is its own.
    has_begun: bool,
    /// Prompts that were typed here, and are on the screen already.
    typed: VecDeque<String>,
    /// Messages that were typed here and not read yet.
    queued: Vec<String>,
    /// What is shown of the answer in progress.
    answer: String,
    /// Calls in progress.
    calls: Vec<ToolUseId>,
}

impl<'a> RemoteWorker<'a> {
    fn new(remote: Remote, tasks: UnboundedReceiver<Task>, link: Link, config: &'a Config) -> Self {
        let opened = input::Opened {
            session: remote.id,
            model: remote.model,
            title: { remote.past.iter() }
                .find(|message| message.origin == Origin::Prompt)
                .map(|message| title_of(&message.said(), title::MOST)),
            mode: config.permission_mode.value,
            may_bypass: false,
            context: 0,
            messages: remote.messages,
            place: remote
                .place
                .unwrap_or_else(|| intro::short_place(&config.environment)),
            is_sandboxed: config.leaves_mode_open(),
            is_bound: false,
            check: None,
            cost: 0.0,
            facts: None,
        };
        Self {
            session: remote.session,
            events: remote.events,
            tasks,
            past: remote.past,
            verdicts: remote.verdicts,
            opened,
            way: remote.way,
            link,
            config,
            run: Run::default(),
            is_watching_only: false,
            asked: HashMap::new(),
            answered: Arc::default(),
        }
    }

    async fn work(mut self, frontend: &ReplFrontend) -> End {
        let mut replay = frontend.replay();
        for message in std::mem::take(&mut self.past) {
            self.count(&message);
            replay.show(&message);
            replay.recorded(self.verdicts.get(&message.id));
        }
        frontend.flush();
        self.tell(Input::Opened(Box::new(self.opened.clone())));
        loop {
            tokio::select! {
                event = self.events.recv() => match event {
                    Some(RemoteEvent::Lost(reason)) => return End::Lost(reason),
                    None => return End::Lost("its process has ended".to_owned()),
                    Some(event) => {
                        let ended = match &event {
                            RemoteEvent::State(state) if !state.running => {
                                Some(state.ended.clone().unwrap_or_default())
                            }
                            _ => None,
                        };
                        self.take(event, frontend, &mut replay);
                        if let Some(ended) = ended.filter(|_| self.is_watching_only) {
                            return End::Watched(ended);
                        }
                    }
                },
                task = self.tasks.recv(), if !self.is_watching_only => match task {
                    None | Some(Task::Quit) => {
                        let is_running = self.run.is_shown || !self.run.is_known;
                        return End::Left { is_running };
                    }
                    Some(task) => self.perform(task).await,
                },
            }
        }
    }

    async fn perform(&mut self, task: Task) {
        match task {
            Task::Prompt(text) => {
                self.run.has_begun = false;
                self.run.typed.push_back(text.clone());
                match self.session.prompt(&text).await {
                    Ok(()) => self.run.is_shown = true,
                    Err(reason) => {
                        self.run.typed.pop_back();
                        self.tell(Input::Ended(Ending::Failed(reason, None)));
                    }
                }
            }
            // A run that somebody else has begun, and a prompt for which another process has the connection.
            Task::TakeMail | Task::Expect => {}
            Task::Send(kind, text) => match self.session.send(kind, &text).await {
                Ok(id) => {
                    self.run.queued.push(text.clone());
                    self.tell(Input::Sent(Queued { id, kind, text }));
                }
                Err(reason) => crate::warn(&reason),
            },
            Task::Interrupt => {
                // There may be no run any more.
                let _ = self.session.interrupt().await;
            }
            Task::Notify(kind, message) => {
                super::side_tasks::notify(self.config, &self.opened.session, kind, &message);
            }
            _ => {
                let way = &self.way;
                crate::note(&format!(
                    "not while attached; `{way}` opens the session after its run"
                ));
                if !self.run.is_shown {
                    self.tell(Input::Ended(Ending::Well));
                }
            }
        }
    }

    fn take(&mut self, event: RemoteEvent, frontend: &ReplFrontend, replay: &mut Replay<'_>) {
        match event {
            RemoteEvent::Message(message) => self.message(&message, frontend, replay),
            RemoteEvent::Reset => {
                self.run.answer.clear();
                crate::note("the conversation was changed elsewhere and is now:");
            }
            RemoteEvent::Answer(Growth::Piece(piece)) => {
                // What it thinks and calls is shown with its message.
                if piece.kind == BlockKind::Text {
                    self.run.answer.push_str(&piece.text);
                    frontend.piece(&piece.text);
                }
            }
            RemoteEvent::Answer(Growth::Void { .. }) => {
                if !std::mem::take(&mut self.run.answer).is_empty() {
                    frontend.notice("the answer starts over");
                }
            }
            RemoteEvent::State(state) => self.state(state, frontend, replay),
            RemoteEvent::Calls(calls) => self.calls(calls),
            RemoteEvent::Lost(_) => {}
        }
    }

    fn message(&mut self, message: &Message, frontend: &ReplFrontend, replay: &mut Replay<'_>) {
        self.run.has_begun = true;
        self.count(message);
        match &message.origin {
            Origin::Prompt
                if { self.run.typed.front() }
                    .is_some_and(|typed| message.said().contains(typed)) =>
            {
                self.run.typed.pop_front();
                return;
            }
            Origin::Steering | Origin::FollowUp => {
                let said = message.text();
                self.forget_queued(|queued| said.contains(queued));
            }
            Origin::Results => {
                let answered = std::mem::take(&mut *self.answered.lock());
                replay.note_answered(&answered, message);
                self.tell(requested());
            }
            _ => {}
        }
        let shown = std::mem::take(&mut self.run.answer);
        if message.origin == Origin::Model && !shown.is_empty() {
            let said = message.text();
            let text = said.strip_prefix(&*shown).unwrap_or_default().to_owned();
            if !text.is_empty() {
                frontend.piece(&text);
            }
            frontend.end_answer();
            let mut rest = message.clone();
            rest.content
                .retain(|block| matches!(block, ContentBlock::ToolUse(_)));
            replay.show(&rest);
        } else {
            replay.show(message);
        }
        frontend.flush();
        for block in &message.content {
            if let ContentBlock::ToolUse(call) = block {
                let key = frontend.key_value(call);
                let tool =
                    RunningTool::new(call.id.clone(), &call.name, &key, &LiveOutput::default());
                self.tell(Input::Running(tool));
            }
        }
    }

    /// Shows the calls in progress, each with the end of its output.
    fn calls(&mut self, calls: Vec<RunningCall>) {
        let ids = calls.iter().map(|call| call.id.clone()).collect();
        for id in std::mem::replace(&mut self.run.calls, ids) {
            if !self.run.calls.contains(&id) {
                self.tell(Input::Ran(id));
            }
        }
        for call in calls {
            let output = LiveOutput::default();
            output.write(call.tail.as_bytes());
            let tool = RunningTool::new(call.id, &call.name, &call.about, &output);
            self.tell(Input::Running(tool));
        }
    }

    fn state(&mut self, state: State, frontend: &ReplFrontend, replay: &Replay<'_>) {
        if self.is_watching_only && !state.questions.is_empty() && !self.run.is_told_to_wait {
            self.run.is_told_to_wait = true;
            let session = &self.opened.session;
            crate::note(&format!(
                "the run needs an answer: answer it with `ah attach {session}` at a terminal"
            ));
        }
        let asked = state.questions.iter().filter(|_| !self.is_watching_only);
        for question in asked.collect::<Vec<_>>() {
            if !self.asked.contains_key(&question.id) {
                self.ask(question.clone(), frontend);
            }
        }
        self.run.is_known = true;
        // What was answered elsewhere is asked no more.
        let is_open = |id: &u64| state.questions.iter().any(|question| question.id == *id);
        self.asked.retain(|id, _| is_open(id));
        if state.running {
            self.run.has_begun = true;
            if !std::mem::replace(&mut self.run.is_shown, true) {
                self.tell(Input::Mail);
                self.tell(Input::Began(state.begun_ms.map_or(0, |begun| {
                    SystemClock::default().now().since(Time(begun))
                })));
                self.tell(requested());
            }
            return;
        }
        if self.run.is_shown && self.run.has_begun {
            self.run.is_shown = false;
            self.run.has_begun = false;
            self.run.answer.clear();
            frontend.end_answer();
            let ended = state.ended.unwrap_or_default();
            if let Some(known) = &ended.verification {
                replay.end(known);
            }
            frontend.flush();
            self.opened.check.clone_from(&ended.verification);
            self.tell(Input::Opened(Box::new(self.opened.clone())));
            self.tell(Input::Ended(match (ended.is_stopped, ended.is_error) {
                (true, _) => Ending::Interrupted,
                (false, true) => Ending::Failed(ended.text, None),
                (false, false) => Ending::Well,
            }));
        }
    }

    /// Asks the person. If it is answered elsewhere meanwhile, the question is closed.
    fn ask(&mut self, question: Asked, frontend: &ReplFrontend) {
        frontend.set_apart();
        let mut asker = Asker::open(&self.link.inputs);
        self.asked.insert(question.id, asker.closer());
        let (session, answered) = (self.session.clone(), self.answered.clone());
        tokio::spawn(async move {
            let id = question.id;
            let asked = tokio::task::spawn_blocking(move || ask(&question, &mut asker));
            if let Ok(Ok(Some(answers))) = asked.await {
                // Before the result can come. Somebody else's answer is not known here, and is shown.
                let questions: Vec<_> = answers.keys().cloned().collect();
                answered.lock().extend_from_slice(&questions);
                if let Err(reason) = session.answer(id, answers).await {
                    take_back(&mut answered.lock(), &questions);
                    crate::note(&reason);
                }
            }
        });
    }

    /// Keeps the tokens and the cost that the terminal shows.
    fn count(&mut self, message: &Message) {
        if let Some(response) = &message.response {
            self.opened.context = response.usage.total();
            self.opened.cost += response.cost.map_or(0.0, |cost| cost.usd());
        }
    }

    fn forget_queued(&mut self, is_read: impl Fn(&str) -> bool) {
        let (read, kept) = std::mem::take(&mut self.run.queued)
            .into_iter()
            .partition(|queued| is_read(queued));
        self.run.queued = kept;
        let read: Vec<String> = read;
        for content in read {
            self.tell(Input::Event(Box::new(EventKind::SteeringReceived {
                content,
                message_count: 1,
            })));
        }
    }

    fn tell(&self, input: Input) {
        tell(&self.link.inputs, input);
    }
}

/// Prints what is shown, until the end.
fn print(happened: &Receiver<Input>) {
    for input in happened {
        match input {
            Input::Written(text) | Input::Output(text) => {
                // If nobody reads, the run goes on all the same.
                let _ = crate::glyphs::out().write_all(text.as_bytes());
            }
            Input::Noted(text) => {
                let _ = crate::glyphs::err().write_all(text.as_bytes());
            }
            Input::Stop(_) => return,
            _ => {}
        }
    }
}

fn tell(inputs: &Sender<Input>, input: Input) {
    // If the terminal has gone, the program ends.
    let _ = inputs.send(input);
}

/// The model is asked, so no tool runs any more.
fn requested() -> Input {
    Input::Event(Box::new(EventKind::ApiCallStart { payload_bytes: 0 }))
}

/// Asks what is to be answered; `None` if nobody answers.
fn ask(question: &Asked, form: &mut impl Form) -> io::Result<Option<BTreeMap<String, String>>> {
    if !question.is_permission {
        return answers(&question.picks, form);
    }
    let mut verdicts = BTreeMap::new();
    for choice in &question.picks {
        let Some(said) = answer(&verdict_sheet(&question.about, choice), form)? else {
            return Ok(None);
        };
        let text = match said {
            Said::Words(words) => words,
            Said::Chosen(chosen, reason) => {
                let labels = chosen.iter().map(|at| choice.options[*at].label.as_str());
                let labels = labels.collect::<Vec<_>>().join(", ");
                match reason.is_empty() {
                    true => labels,
                    false => format!("{labels}: {reason}"),
                }
            }
        };
        verdicts.insert(choice.question.clone(), text);
    }
    Ok(Some(verdicts))
}
