//! Connects a session to the terminal. Runs are shown by the same code as without a conversation; its output is sent to
//! the terminal instead of the streams, and questions are asked above the live lines.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::Instant;

use ah_agent::{Ready, SessionUpdate, Watcher};
use ah_conversation::{
    Elicitation, ElicitationAnswer, EventKind, Host, HostPermission, JsonText, ModelUsage,
    PermissionAnswer, PermissionRequest, StreamEvent, Task, TaskUpdate, ToolUse, neutralise,
};
use ah_render::{Palette, tool};
use async_trait::async_trait;
use parking_lot::Mutex;

use super::activity::RunningTool;
use super::asker::Asker;
use super::facts::Totals;
use super::input::Input;
use ah_config::Keeping;

use crate::print::question;
use crate::print::text::replay::Replay;
use crate::print::text::{Text, View};
use crate::print::{Look, Screen, Size};

/// Connection to the terminal, and its abilities.
#[derive(Clone)]
pub struct Link {
    /// Inputs of the terminal.
    pub inputs: Sender<Input>,
    /// Whether colours are used.
    pub colours: bool,
    /// Whether answers are laid out; otherwise they are printed as received.
    pub is_drawn: bool,
    /// Size of the terminal.
    pub size: Size,
    /// Totals of the open session. Each answer is counted when it is stored, as a long run forgets the older ones.
    pub totals: Arc<Mutex<Totals>>,
}

impl Link {
    /// Returns the palette of texts.
    pub fn palette(&self) -> Palette {
        if self.colours {
            Palette::Ansi
        } else {
            Palette::Plain
        }
    }

    /// Begins the totals of a session that was opened.
    pub fn begin(&self, totals: Totals) {
        *self.totals.lock() = totals;
    }

    /// Returns the totals of the open session.
    pub fn totals(&self) -> Totals {
        self.totals.lock().clone()
    }

    /// Counts what a request beside the runs has cost, and tells the terminal.
    pub fn spend(&self, share: ModelUsage, api_ms: u64) {
        let totals = {
            let mut totals = self.totals.lock();
            totals.count(share, api_ms);
            totals.clone()
        };
        let _ = self.inputs.send(Input::Spent(Box::new(totals)));
    }

    /// Returns the frontend of a session.
    pub fn frontend(&self, view: View) -> ReplFrontend {
        let look = Look {
            out_is_terminal: true,
            err_is_terminal: true,
            colours: self.colours,
            spinner: false,
            drawn: self.is_drawn,
            size: self.size,
        };
        let stream = |kind: fn(String) -> Input| Box::new(Stream(self.inputs.clone(), kind));
        let screen = Screen::apart(stream(Input::Written), stream(Input::Noted), look);
        ReplFrontend {
            asks: view.asks.clone(),
            text: Text::new(view, screen),
            link: self.clone(),
            is_answering: AtomicBool::default(),
            begun: Instant::now(),
            heard: AtomicU64::new(u64::MAX),
        }
    }
}

/// Stream whose output is sent to the terminal.
struct Stream(Sender<Input>, fn(String) -> Input);

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes).into_owned();
        match self.0.send((self.1)(text)) {
            Ok(()) => Ok(bytes.len()),
            Err(_) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Shows a session in the conversation.
pub struct ReplFrontend {
    text: Text,
    /// Place of permanent permissions, if a person can be asked.
    asks: Option<Keeping>,
    link: Link,
    /// Whether the terminal knows that the model answers; it is sent once, not with each piece.
    is_answering: AtomicBool,
    /// Time of its beginning, and the second in which the terminal was told last that something has come.
    begun: Instant,
    heard: AtomicU64,
}

impl ReplFrontend {
    /// Returns the display of stored messages, among the output of runs.
    pub fn replay(&self) -> Replay<'_> {
        Replay::on(&self.text)
    }

    /// Writes all collected output.
    pub fn flush(&self) {
        self.text.flush();
    }

    /// Ends the answer that was shown piece by piece.
    pub fn end_answer(&self) {
        self.text.break_off();
        self.is_answering.store(false, Ordering::Relaxed);
    }

    /// Separates the next output from the last.
    pub fn set_apart(&self) {
        self.text.set_apart();
    }

    /// Returns the argument that stands for a call.
    pub fn key_value(&self, call: &ToolUse) -> String {
        self.text.key_value(call)
    }

    /// Counts what an answer has cost, of the conversation or of a subagent, and tells the terminal.
    fn count(&self, update: &SessionUpdate<'_>) {
        let totals = {
            let mut totals = self.link.totals.lock();
            match update {
                SessionUpdate::Stored(message) => {
                    totals.count_message(message);
                    totals.note_own(message);
                }
                SessionUpdate::Subagent(_, SessionUpdate::Stored(message)) => {
                    totals.count_message(message);
                }
                _ => return,
            }
            totals.clone()
        };
        self.send(Input::Spent(Box::new(totals)));
    }

    fn send(&self, input: Input) {
        // If the terminal has gone, the program ends.
        let _ = self.link.inputs.send(input);
    }
}

#[async_trait]
impl Host for ReplFrontend {
    async fn permission(&self, question: &PermissionRequest) -> PermissionAnswer {
        let Some(keeping) = self.asks.clone() else {
            return PermissionAnswer::nobody(question);
        };
        self.text.set_apart();
        let asked = question.clone();
        let key = self.text.key_argument(&question.call);
        let mut asker = Asker::open(&self.link.inputs);
        let _closer = asker.closer();
        let answer = tokio::task::spawn_blocking(move || {
            question::ask(&asked, key.as_deref(), &keeping, &mut asker)
        });
        let answer = match answer.await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) | Err(_) => PermissionAnswer::nobody(question),
        };
        self.text.note_answered(question, &answer);
        answer
    }

    async fn elicitation(&self, question: &Elicitation) -> ElicitationAnswer {
        if self.asks.is_none() {
            return ElicitationAnswer::Decline;
        }
        self.text.set_apart();
        let asked = question.clone();
        let mut asker = Asker::open(&self.link.inputs);
        let _closer = asker.closer();
        let ask = move || question::elicitation::ask(&asked, &mut asker);
        match tokio::task::spawn_blocking(ask).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) | Err(_) => ElicitationAnswer::Cancel,
        }
    }

    fn elicitation_complete(&self, _: &str, _: &str) {}

    async fn new_host(&self, host: &str) -> HostPermission {
        self.text.set_apart();
        let host = host.to_owned();
        let mut asker = Asker::open(&self.link.inputs);
        let _closer = asker.closer();
        let answer = tokio::task::spawn_blocking(move || question::ask_host(&host, &mut asker));
        match answer.await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) | Err(_) => HostPermission::No,
        }
    }
}

impl Watcher for ReplFrontend {
    fn update(&self, update: SessionUpdate<'_>) {
        if let Some(text) = update.text() {
            return self.piece(text);
        }
        self.text.note_change(&update);
        // The end of a call is told before what its result shows, and all else the other way round.
        let event = update.event();
        let is_end = matches!(update, SessionUpdate::Result(..));
        if let Some(event) = event.as_deref().filter(|_| is_end) {
            self.event(event);
        }
        self.part_of(update);
        if let Some(event) = event.as_deref().filter(|_| !is_end) {
            self.event(event);
        }
    }

    fn ready(&self) -> Option<Ready<'_>> {
        None
    }
}

impl ReplFrontend {
    /// Shows a piece of the answer.
    pub fn piece(&self, text: &str) {
        self.text.text(text);
        self.hear();
        if !self.is_answering.swap(true, Ordering::Relaxed) {
            let text = String::new();
            self.send(Input::Event(Box::new(EventKind::TextDelta { text })));
        }
    }

    /// Tells the terminal that something has come of an answer.
    fn hear(&self) {
        let second = self.begun.elapsed().as_secs();
        if self.heard.swap(second, Ordering::Relaxed) != second {
            self.send(Input::Heard);
        }
    }

    fn event(&self, event: &EventKind) {
        self.text.event(event);
        if matches!(event, EventKind::ApiCallStart { .. }) {
            self.text.flush();
            self.is_answering.store(false, Ordering::Relaxed);
            // The first piece of the next answer is told, also in the second in which another one was.
            self.heard.store(u64::MAX, Ordering::Relaxed);
        }
        self.send(Input::Event(Box::new(event.clone())));
    }

    /// Shows what is no event of an update.
    fn part_of(&self, update: SessionUpdate<'_>) {
        match update {
            SessionUpdate::Progress { call, progress, .. } => {
                return self.send(Input::Progress(call.id.clone(), progress.clone()));
            }
            SessionUpdate::Piece(StreamEvent::Reading { read, total }) => {
                return self.send(Input::Reading(*read, *total));
            }
            SessionUpdate::Piece(StreamEvent::Retry(retry)) => {
                return self.send(Input::Retry(retry.delay, retry.skip.clone()));
            }
            SessionUpdate::Piece(_) => self.hear(),
            SessionUpdate::Task(task, report) => {
                let report = (Task::clone(task), TaskUpdate::clone(report));
                self.send(Input::Background(Box::new(report)));
            }
            SessionUpdate::Call(call, output, _) => {
                let key = self.text.key_value(call);
                let tool = RunningTool::new(call.id.clone(), &call.name, &key, output);
                self.send(Input::Running(tool));
            }
            SessionUpdate::Result(result, _) => {
                self.send(Input::Ran(result.tool_use_id.clone()));
                let details = result.details.as_ref().map(JsonText::value);
                if let Some(rows) = details.and_then(|details| tool::tasks(&details)) {
                    self.send(Input::Tasks(rows));
                }
            }
            SessionUpdate::Subagent(task, SessionUpdate::Call(call, ..)) => {
                let words = neutralise(&self.text.in_words(call)).replace('\n', " ");
                self.send(Input::Doing(task.id.clone(), words));
            }
            _ => {}
        }
        self.count(&update);
        self.text.part_of(update);
    }

    /// Shows a notice.
    pub fn notice(&self, text: &str) {
        self.text.notice(text);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use ah_conversation::Model;

    use super::*;

    /// However quickly one request follows another, the terminal learns when the first piece of its answer came: else it
    /// could not say that an answer has stalled.
    #[test]
    fn the_first_piece_of_each_answer_is_told() {
        let (inputs, happened) = channel();
        let link = Link {
            inputs,
            colours: false,
            is_drawn: true,
            size: Size {
                width: 80,
                height: 24,
            },
            totals: Arc::default(),
        };
        let frontend = link.frontend(View {
            shows_work: true,
            model: Model {
                provider: "script".into(),
                name: "m".into(),
                context_window: 200_000,
                max_output: 1000,
                price: None,
                long_price: None,
            },
            tools: Arc::new([]),
            cwd: "/".into(),
            session: None,
            group: None,
            asks: None,
            is_conversation: true,
            elsewhere: None,
        });
        for _ in 0..3 {
            frontend.event(&EventKind::ApiCallStart { payload_bytes: 1 });
            frontend.piece("a word");
        }
        let heard = happened.try_iter().filter(|it| matches!(it, Input::Heard));
        assert_eq!(heard.count(), 3);
    }
}
