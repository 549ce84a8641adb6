//! A run on a terminal: laid-out answers, calls with their changes, folded thinking.

use std::borrow::Cow;

use ah_agent::{SessionUpdate, without_agent_id};
use ah_conversation::{ContentBlock, JsonText, Message, Role, ToolResult};
use ah_render::tool::{self, CallOutcome, Layout, ToolCall};
use ah_render::{Line, Style, wrap};
use serde_json::Value;

use super::{State, Text};
use crate::print::in_short::{in_background, in_short};

impl Text {
    /// Returns whether the run is drawn; otherwise it is printed as lines, from the same events.
    pub(super) fn is_drawn(&self) -> bool {
        self.screen.look.drawn && self.view.shows_work
    }

    /// Separates the next block from the last one.
    pub(super) fn part(&self, state: &mut State) {
        self.tell_looked(state);
        (state.is_after_call, state.is_after_line) = (false, false);
        if self.is_drawn() && std::mem::replace(&mut state.has_content, true) {
            self.screen.note("\n");
        }
    }

    /// Draws the updates that are not events.
    pub(super) fn draw_part(&self, state: &mut State, part: SessionUpdate<'_>) {
        match part {
            SessionUpdate::Block(ContentBlock::Thinking { thinking, .. }) => {
                let rows = tool::thinking(thinking, false, self.layout());
                self.draw_rows(state, &rows);
            }
            SessionUpdate::Stored(Message {
                role: Role::Assistant,
                seq,
                ..
            }) => state.answer_number = Some(*seq),
            SessionUpdate::Result(result, _) => {
                let key = std::mem::take(&mut state.ended_key);
                let more = state.answer_number.map(|number| self.way_to_output(number));
                self.draw_result(state, result, &key, more.as_deref());
            }
            _ => {}
        }
    }

    /// Notes the change that a result tells of, for the lines about its call, and whether it is an answer that was just given.
    pub fn note_change(&self, update: &SessionUpdate<'_>) {
        if let SessionUpdate::Result(result, _) = update
            && !self.is_drawn()
        {
            let mut state = self.state.lock();
            state.is_told = state.answered.remove(&result.tool_use_id) && !result.is_error;
            drop(state);
            let details = result.details.as_ref().map(JsonText::value);
            // Of a new file its output says enough.
            let is_patch = |patch: &Value| patch.as_array().is_some_and(|it| !it.is_empty());
            let details = details.filter(|it| it.get("structuredPatch").is_some_and(is_patch));
            let width = self.paint.width.saturating_sub(2);
            let rows = details.and_then(|details| tool::changes(&details, width));
            let rows = rows.unwrap_or_default();
            let rows = rows.iter().map(|row| row.paint(self.screen.look.palette()));
            let mut state = self.state.lock();
            state.change = rows.map(|row| row.trim_end().to_owned()).collect();
        }
    }

    /// Returns what shows the whole outputs of a message's calls.
    pub(super) fn way_to_output(&self, number: u32) -> String {
        match self.view.is_conversation {
            true => match &self.view.elsewhere {
                Some(way) => format!("{way} show {number} --output"),
                None => format!("/show {number}"),
            },
            false => format!("ah -c show {number} --output"),
        }
    }

    /// Draws an ended call with the beginning of its output; `more` is the command that shows all of it.
    pub(super) fn draw_result(
        &self,
        state: &mut State,
        result: &ToolResult,
        key: &str,
        more: Option<&str>,
    ) {
        if state.answered.remove(&result.tool_use_id) && !result.is_error {
            return;
        }
        let (key, kind) = self.key(&result.tool_name, key);
        if !result.is_error && state.looked.add(&result.tool_name, key, result.duration_ms) {
            return;
        }
        let call = ToolCall {
            name: &result.tool_name,
            key,
            kind,
        };
        let output = result.text();
        let details = result.details.as_ref().map(JsonText::value);
        let output = match result.is_error {
            true => in_short(&output),
            false => {
                let told = details.as_ref().filter(|_| self.view.is_conversation);
                match told.and_then(|details| in_background(&result.tool_name, &output, details)) {
                    Some(short) if self.view.elsewhere.is_some() => Cow::Borrowed(short),
                    Some(short) => Cow::Owned(format!("{short} (/tasks)")),
                    None => Cow::Borrowed(output.as_ref()),
                }
            }
        };
        let outcome = CallOutcome {
            output: without_agent_id(&output),
            lines: result.lines,
            details: details.as_ref(),
            is_error: result.is_error,
            duration_ms: result.duration_ms,
            more,
        };
        let layout = self.layout();
        if self.view.is_conversation
            && !result.is_error
            && let Some(details) = &details
            && details.get("newTodos").is_some()
        {
            // It is in sight while it is worked on, and stays at the end.
            state.tasks = tool::ended(&call, &outcome, layout);
            return;
        }
        let rows = match state.seen.remove(&result.tool_use_id) && !result.is_error {
            true => tool::title(&call, &outcome, layout),
            false => tool::ended(&call, &outcome, layout),
        };
        self.tell_looked(state);
        self.draw_call(state, &rows);
    }

    /// Draws a dim line.
    pub(super) fn draw_words(&self, state: &mut State, words: &str) {
        let none = Line::default();
        let rows = wrap(&Line::of(words, Style::DIM), self.paint.width, &none, &none);
        self.draw_rows(state, &rows);
    }

    /// Draws rows as a block of their own.
    pub(super) fn draw_rows(&self, state: &mut State, rows: &[Line]) {
        if rows.is_empty() {
            return;
        }
        self.part(state);
        self.write_rows(rows);
    }

    /// Draws a call. Those of one answer stand together.
    fn draw_call(&self, state: &mut State, rows: &[Line]) {
        if state.is_after_call {
            self.write_rows(rows);
        } else {
            self.draw_rows(state, rows);
        }
        state.is_after_call = true;
    }

    fn write_rows(&self, rows: &[Line]) {
        let palette = self.screen.look.palette();
        let rows: String = rows.iter().map(|row| row.paint(palette) + "\n").collect();
        self.screen.note(&rows);
    }

    /// Returns the layout of blocks.
    pub(super) fn layout(&self) -> Layout {
        Layout::of(self.paint.width)
    }

    /// Draws the reads and searches so far, in one row.
    pub(super) fn tell_looked(&self, state: &mut State) {
        let looked = std::mem::take(&mut state.looked);
        let Some(row) = looked.row(self.paint.width) else {
            return;
        };
        self.draw_call(state, &[row]);
    }

    /// Draws what was held back: reads and searches, and the task list.
    pub(super) fn settle(&self, state: &mut State) {
        self.tell_looked(state);
        let tasks = std::mem::take(&mut state.tasks);
        self.draw_rows(state, &tasks);
    }

    /// Says in one line how often a request was tried again, and why the last time.
    pub(super) fn tell_retries(&self, state: &mut State) {
        let (retries, error) = std::mem::take(&mut state.retries);
        let times = match retries {
            0 => return,
            1 => "once".to_owned(),
            retries => format!("{retries} times"),
        };
        self.draw_words(state, &format!("retried {times}: {error}"));
    }
}
