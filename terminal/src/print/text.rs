//! A run for people: answers on standard output, everything else on standard error.

use std::borrow::Cow;
use std::collections::HashSet;
use std::time::Instant;

use ah_agent::{Ready, SessionUpdate, Watcher, without_agent_id};
use ah_conversation::{
    Cost, DisplayKey, EventKind, Evidence, ExitReason, Interaction, PermissionAnswer,
    PermissionRequest, Progress, StreamEvent, ToolUse, ToolUseId, Usage, Verification, neutralise,
};
use ah_render::Line;
use parking_lot::Mutex;
use serde_json::Value;

use super::in_short::in_short;
use super::tool_block::{Block, Paint, cut, seconds};
use super::{Looked, Screen, count, elapsed, money};

/// Length of a session's id as shown, also by `ah sessions`.
const SESSION_WIDTH: usize = 11;

/// Shows a run to people.
pub struct Text {
    view: View,
    screen: Screen,
    paint: Paint,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Text of the current answer, if it is shown later.
    answer: String,
    /// Whether any text of the current answer was shown.
    has_shown: bool,
    /// Whether a blank line comes before the next tool's block.
    owes_blank: bool,
    /// Last complete answer.
    last: String,
    /// Error that the end of the run may repeat.
    error: Option<String>,
    usage: Usage,
    /// What the run has cost, with its subagents.
    cost: Option<Cost>,
    /// Start of the run.
    started: Option<Instant>,
    /// Tokens of the last request.
    context: u64,
    /// Key argument of the last ended call, if it is drawn.
    ended_key: String,
    /// The change that the call has made whose end comes next, if it is printed.
    change: Vec<String>,
    /// Reads and searches that are told together.
    looked: Looked,
    /// The task list as it is now, if it is shown at the end of the run.
    tasks: Vec<Line>,
    /// Number of failed requests since the last answer, and why the last one failed.
    retries: (usize, String),
    /// Whether the last block is a call.
    is_after_call: bool,
    /// Whether it is a line about the run.
    is_after_line: bool,
    /// Calls whose questions were answered here: their results say nothing new.
    answered: HashSet<ToolUseId>,
    /// Where nothing is drawn, whether the call that ends now is one of those.
    is_told: bool,
    /// Calls whose changes were shown with their questions.
    seen: HashSet<ToolUseId>,
    /// Number of the last stored answer.
    answer_number: Option<u32>,
    /// What the check of the run has shown, told below everything else.
    verification: Option<Verification>,
    /// Whether something was printed that the next block has to be separated from.
    has_content: bool,
}

impl Text {
    /// Returns a frontend that writes to `screen`.
    pub fn new(view: View, screen: Screen) -> Self {
        let paint = Paint {
            colours: screen.look.colours,
            // Screen readers cannot read the icon.
            sign: screen.look.err_is_terminal && screen.look.colours,
            width: screen.look.size.width,
        };
        Self {
            view,
            screen,
            paint,
            state: Mutex::default(),
        }
    }

    /// Writes all collected output.
    pub fn flush(&self) {
        self.screen.flush();
    }

    /// Separates the next output from the last, also if it comes another way.
    pub fn set_apart(&self) {
        let mut state = self.state.lock();
        self.part(&mut state);
    }

    /// Notes that a call was the question that was just answered, which is seen with its answer.
    pub fn note_answered(&self, question: &PermissionRequest, answer: &PermissionAnswer) {
        let shows_all = matches!(
            question.inquiry.interaction,
            Some(Interaction::Choices(_) | Interaction::Plan(_))
        );
        let mut state = self.state.lock();
        match answer {
            PermissionAnswer::Allow { .. } if shows_all => {
                state.answered.insert(question.call.id.clone());
            }
            PermissionAnswer::Allow { input: None, .. } if !question.inquiry.change.is_empty() => {
                state.seen.insert(question.call.id.clone());
            }
            _ => {}
        }
    }

    /// Ends the answer that was shown piece by piece.
    pub fn break_off(&self) {
        let mut state = self.state.lock();
        self.end_answer(&mut state);
    }

    fn show_text(&self, state: &mut State, text: &str) {
        if !self.view.shows_work {
            state.answer.push_str(text);
        } else if self.is_drawn() {
            if !std::mem::replace(&mut state.has_shown, true) {
                self.part(state);
            }
            self.screen.draw(text);
        } else {
            state.has_shown = true;
            self.write_answer(text);
        }
    }

    fn write_answer(&self, text: &str) {
        // A program that reads the answer gets it unchanged.
        if self.screen.look.out_is_terminal {
            self.screen.answer(neutralise(text).as_bytes());
        } else {
            self.screen.answer(text.as_bytes());
        }
    }

    fn end_answer(&self, state: &mut State) {
        if std::mem::take(&mut state.has_shown) {
            self.end_lines();
            state.owes_blank = true;
        }
        let answer = std::mem::take(&mut state.answer);
        if !answer.is_empty() {
            state.last = answer;
        }
    }

    fn void_answer(&self, state: &mut State) {
        state.answer.clear();
        if std::mem::take(&mut state.has_shown) {
            self.end_lines();
            self.note(
                &self
                    .paint
                    .warn("connection lost; retrying the answer from the start"),
            );
        }
    }

    fn end_lines(&self) {
        if self.is_drawn() {
            self.screen.end_drawing();
        } else {
            self.screen.end_line();
        }
    }

    /// Shows a spinner.
    fn spin(&self, label: &str) {
        if self.view.shows_work {
            self.screen.spin(label);
        }
    }

    fn note(&self, text: &str) {
        self.screen.note(&format!("{text}\n"));
    }

    fn dim(&self, text: &str) {
        self.note(&self.paint.dim(&neutralise(text)));
    }

    /// Shows the last line of a run with a check.
    fn show_verdict(&self, line: &str, evidence: Evidence) {
        let line = neutralise(line).replace('\n', " ");
        match evidence {
            Evidence::Verified => self.dim(&line),
            Evidence::Claimed | Evidence::NotTried => self.note(&self.paint.warn(&line)),
        }
    }

    /// Returns the name of the argument that stands for a call.
    pub fn key_argument(&self, call: &ToolUse) -> Option<String> {
        let spec = self.view.tools.iter().find(|spec| spec.name == call.name)?;
        Some(spec.key.as_ref()?.argument().to_owned())
    }

    /// Returns the value of the argument that stands for a call, or an empty text.
    pub fn key_value(&self, call: &ToolUse) -> String {
        let argument = self.key_argument(call);
        let value = argument.and_then(|argument| call.input.get(&argument));
        let text = |value: &Value| {
            value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned)
        };
        value.map(text).unwrap_or_default()
    }

    /// Returns a call in a few words: `read src/main.rs`.
    pub fn in_words(&self, call: &ToolUse) -> String {
        let key = self.key_value(call);
        let (key, _) = self.key(&call.name, &key);
        format!("{} {key}", call.name)
    }

    /// Returns the key argument of a call, with paths relative to the working directory, and its kind.
    fn key<'a>(&self, tool: &str, key: &'a str) -> (&'a str, Option<&DisplayKey>) {
        let spec = self.view.tools.iter().find(|spec| spec.name == tool);
        let kind = spec.and_then(|spec| spec.key.as_ref());
        let relative = match kind {
            Some(DisplayKey::Path(_)) => {
                let cwd = self.view.cwd.to_str();
                cwd.and_then(|cwd| key.strip_prefix(cwd)?.strip_prefix('/'))
            }
            Some(DisplayKey::Command(_) | DisplayKey::Text(_)) | None => None,
        };
        (relative.unwrap_or(key), kind)
    }

    fn start(&self, prompt: &str) {
        if let Some(group) = &self.view.group {
            self.screen.answer(format!("::group::{group}\n").as_bytes());
        }
        let is_shown = !self.screen.look.err_is_terminal && !prompt.is_empty();
        if is_shown && self.view.shows_work {
            self.note(&format!(">>> {}", neutralise(prompt)));
        }
    }

    fn end(&self, state: &mut State, reason: &ExitReason, error: Option<&String>) {
        self.screen.rest();
        self.end_answer(state);
        self.settle(state);
        let is_whole = reason.is_end_of_turn() || matches!(reason, ExitReason::Other(_));
        if !self.view.shows_work && is_whole {
            let last = std::mem::take(&mut state.last);
            self.write_answer(&last);
            self.screen.answer(b"\n");
        }
        if let Some(stopped) = stopped(reason) {
            self.note(&self.paint.warn(stopped));
        }
        if state.usage.total() > 0 && self.view.shows_work {
            let summary = match self.view.is_conversation {
                true => brief(state),
                false => self.summary(state),
            };
            if self.is_drawn() {
                self.draw_words(state, &summary);
            } else {
                self.dim(&summary);
            }
        }
        if let Some(verification) = state.verification.take() {
            self.show_verdict(&verification.line(), verification.evidence);
        }
        if self.view.group.is_some() {
            self.screen.answer(b"::endgroup::\n");
            if let Some(error) = error {
                self.screen
                    .answer(format!("::error::{}\n", error.replace('\n', "%0A")).as_bytes());
            }
        }
        self.screen.flush();
    }

    /// `12.3k in (10.0k cached) / 1.2k out (13.5k total), $0.0123, 7% of 200.0k [01ARZ3ND]`
    fn summary(&self, state: &State) -> String {
        let usage = &state.usage;
        let mut line = format!("{} in", count(usage.effective_input()));
        if usage.cache_read_input_tokens > 0 {
            line.push_str(&format!(
                " ({} cached)",
                count(usage.cache_read_input_tokens)
            ));
        }
        line.push_str(&format!(
            " / {} out ({} total)",
            count(usage.output_tokens),
            count(usage.total())
        ));
        if let Some(cost) = state.cost {
            line.push_str(&format!(", {cost}"));
        }
        let window = self.view.model.context_window;
        if let Some(percent) = (state.context * 100).checked_div(window) {
            line.push_str(&format!(", {percent}% of {}", count(window)));
        }
        if let Some(session) = &self.view.session {
            line.push_str(&format!(" [{}]", cut(session, SESSION_WIDTH)));
        }
        line
    }

    fn show_event(&self, state: &mut State, kind: &EventKind) {
        match kind {
            // A piece of an answer is shown by itself.
            EventKind::TextDelta { .. } => return,
            EventKind::AgentEnd {
                stop_reason, error, ..
            } => {
                // The program reports the error that ended the run itself, with a hint.
                state.error.take_if(|held| Some(&*held) == error.as_ref());
                self.tell_error(state);
                self.tell_retries(state);
                return self.end(state, stop_reason, error.as_ref());
            }
            EventKind::StateChange { .. } => return,
            EventKind::Error { .. } => {}
            _ => self.tell_error(state),
        }
        match kind {
            EventKind::AgentStart { prompt, .. } => {
                // A run may have been shown before.
                (state.owes_blank, state.has_content) = (false, false);
                (state.usage, state.cost) = (Usage::default(), None);
                state.started = Some(Instant::now());
                self.start(prompt);
            }
            EventKind::ApiCallStart { .. } => self.spin("thinking"),
            EventKind::ApiCallEnd { .. } => {
                self.end_answer(state);
                self.tell_retries(state);
                spent::add_usage(
                    (&mut state.usage, &mut state.context, &mut state.cost),
                    kind,
                );
            }
            EventKind::ToolCallStart {
                tool_name,
                tool_key,
                ..
            } => {
                let key = neutralise(tool_key).replace('\n', " ");
                let (key, _) = self.key(tool_name, &key);
                self.spin(&format!("{} {key}", neutralise(tool_name)));
            }
            EventKind::ToolCallEnd { tool_key, .. } => {
                if self.is_drawn() {
                    // The result follows at once, with its details.
                    state.ended_key = tool_key.clone();
                    return;
                }
                self.show_ended(state, kind);
            }
            EventKind::Checked {
                verification,
                is_last: true,
                ..
            } => state.verification = Some(verification.clone()),
            EventKind::Error { error } => state.error = Some(error.clone()),
            EventKind::Retry {
                delay_ms,
                status,
                error,
                ..
            } => self.show_retry(state, error, *status, *delay_ms),
            _ => self.tell(state, kind),
        }
    }

    /// Prints a call that has ended, where nothing is drawn.
    fn show_ended(&self, state: &mut State, kind: &EventKind) {
        let EventKind::ToolCallEnd {
            tool_name,
            tool_output,
            is_error,
            duration_ms,
            tool_key,
            tool_lines,
            ..
        } = kind
        else {
            return;
        };
        if std::mem::take(&mut state.is_told) {
            return;
        }
        let (key, kind) = self.key(tool_name, tool_key);
        let change = std::mem::take(&mut state.change);
        let output = match *is_error {
            true => in_short(tool_output),
            false => Cow::Borrowed(tool_output.as_str()),
        };
        let block = Block {
            change: &change,
            name: tool_name,
            key,
            is_command: matches!(kind, Some(DisplayKey::Command(_))),
            output: without_agent_id(&output),
            lines: *tool_lines,
            is_error: *is_error,
            duration_ms: *duration_ms,
        };
        self.show_block(state, &block);
    }

    fn show_block(&self, state: &mut State, block: &Block<'_>) {
        let owes_blank = std::mem::take(&mut state.owes_blank);
        let blank = if owes_blank { "\n" } else { "" };
        let block = block.render(self.paint);
        self.screen.note(&format!("{blank}{block}"));
    }

    fn show_retry(&self, state: &mut State, error: &str, status: u16, delay_ms: u64) {
        self.void_answer(state);
        let status = match status {
            0 => String::new(),
            // The title of a web page has it mostly.
            status if names(error, status) => String::new(),
            status => format!(" ({status})"),
        };
        let wait = seconds(delay_ms);
        if self.is_drawn() {
            // One line counts them, once it is known how it ended.
            state.retries = (state.retries.0 + 1, format!("{error}{status}"));
            let retry = format!("retry {} in {wait}: {error}{status}", state.retries.0);
            return self.spin(&neutralise(&retry).replace('\n', " "));
        }
        self.dim(&format!("{error}{status}, retrying in {wait}"));
        self.spin("waiting");
    }

    /// Prints an error that the run survived.
    fn tell_error(&self, state: &mut State) {
        if let Some(error) = state.error.take() {
            self.tell_line(state, &self.paint.warn(&neutralise(&error)));
        }
    }
}

/// Returns the limit that has stopped the run, unless an event has told it.
fn stopped(reason: &ExitReason) -> Option<&'static str> {
    match reason {
        ExitReason::MaxTurns => Some("stopped by --max-turns"),
        ExitReason::MaxBudget => Some("stopped by --max-budget-usd"),
        ExitReason::Timeout => Some("stopped by --timeout"),
        ExitReason::MaxTokens => {
            Some("stopped: the answer was cut off at the output limit several times")
        }
        ExitReason::MaxStructuredOutputRetries => {
            Some("stopped: the answer did not match the schema several times")
        }
        ExitReason::BudgetExceeded
        | ExitReason::LoopDetected
        | ExitReason::CheckFailed
        | ExitReason::EndTurn
        | ExitReason::StopSequence
        | ExitReason::Interrupted
        | ExitReason::Aborted
        | ExitReason::Refusal
        | ExitReason::Error
        | ExitReason::Other(_) => None,
    }
}

impl Watcher for Text {
    fn update(&self, update: SessionUpdate<'_>) {
        if let Some(text) = update.text() {
            return self.text(text);
        }
        self.note_change(&update);
        if let Some(event) = update.event() {
            self.event(&event);
        }
        self.part_of(update);
    }

    fn ready(&self) -> Option<Ready<'_>> {
        None
    }
}

impl Text {
    /// Shows a piece of the answer.
    pub fn text(&self, text: &str) {
        let mut state = self.state.lock();
        self.tell_error(&mut state);
        self.tell_retries(&mut state);
        self.show_text(&mut state, text);
    }

    /// Shows an event.
    pub fn event(&self, event: &EventKind) {
        let mut state = self.state.lock();
        self.show_event(&mut state, event);
    }

    /// Shows what is no event of an update; the event of a result is shown before it.
    pub fn part_of(&self, update: SessionUpdate<'_>) {
        match update {
            SessionUpdate::Notice(text) => return self.notice(text),
            SessionUpdate::Progress { call, progress, .. } => {
                let label = format!("{}: {}", call.name, measure(progress));
                self.screen.relabel(neutralise(&label).replace('\n', " "));
            }
            SessionUpdate::Piece(StreamEvent::Reading { read, total }) => {
                self.screen.relabel(reading(*read, *total));
            }
            _ => {}
        }
        if let SessionUpdate::Subagent(task, SessionUpdate::Call(call, ..)) = update {
            let label = format!("{}: {}", task.description, self.in_words(call));
            self.screen.relabel(neutralise(&label).replace('\n', " "));
        }
        let mut state = self.state.lock();
        spent::add_cost(&mut state.cost, update);
        if self.is_drawn() {
            self.draw_part(&mut state, update);
        }
    }

    /// Shows a notice.
    pub fn notice(&self, text: &str) {
        let mut state = self.state.lock();
        self.tell_line(&mut state, &self.paint.dim(&neutralise(text)));
    }
}

/// Whether a status is among the words of an error. The digits of an id are none.
fn names(error: &str, status: u16) -> bool {
    let status = status.to_string();
    let is_apart = |c: char| !(c.is_alphanumeric() || ['-', '_'].contains(&c));
    error.split(is_apart).any(|word| word == status)
}

/// Says how far a server has read a request: `reading the prompt, 38 %`.
pub(crate) fn reading(read: u64, total: u64) -> String {
    let percent = (read.min(total) * 100).checked_div(total).unwrap_or(0);
    format!("reading the prompt, {percent} %")
}

/// Formats the progress of a tool: `reading (3/10)`.
pub(crate) fn measure(progress: &Progress) -> String {
    let mut words = progress.done.to_string();
    if let Some(total) = progress.total {
        words.push_str(&format!("/{total}"));
    }
    match &progress.message {
        Some(message) => format!("{message} ({words})"),
        None => words,
    }
}

mod drawing;
mod host;
pub mod replay;
mod spent;
mod telling;
mod view;

pub use view::View;

/// Returns the line below a run in a conversation, whose status line tells the rest: `12s · $0.02`.
fn brief(state: &State) -> String {
    let time = state.started.map_or(0, |start| start.elapsed().as_secs());
    let time = elapsed(time);
    match state.cost {
        Some(cost) => format!("{time} · {}", money(cost.usd())),
        None => time,
    }
}

#[cfg(test)]
mod tests;
