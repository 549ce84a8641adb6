//! A run on a terminal: laid-out answers, calls with their changes, folded thinking.

use ah_agent::{SessionUpdate, without_agent_id};
use ah_conversation::{
    ContentBlock, Interface, JsonText, Message, Role, Task, TaskKind, TaskUpdate, ToolResult,
};
use ah_render::tool::{self, CallOutcome, Layout, ToolCall};
use ah_render::{Line, Style, wrap};

use super::{State, Text};

impl Text {
    /// Returns whether the run is drawn; otherwise it is printed as lines, from the same events.
    pub(super) fn is_drawn(&self) -> bool {
        self.screen.look.drawn && self.view.interface == Interface::Native
    }

    /// Separates the next block from the last one.
    pub(super) fn part(&self, state: &mut State) {
        if self.is_drawn() && std::mem::replace(&mut state.has_content, true) {
            self.screen.note("\n");
        }
    }

    /// Draws the updates that are not events.
    pub(super) fn draw_part(&self, state: &mut State, part: SessionUpdate<'_>) {
        match part {
            SessionUpdate::Block(ContentBlock::Thinking { thinking, .. }) => {
                let rows = tool::thinking(thinking, false, self.layout(0));
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
                self.draw_result(state, result, &key, more.as_deref(), self.layout(0));
            }
            SessionUpdate::Task(task, TaskUpdate::Started) => self.draw_agent(state, task),
            SessionUpdate::Subagent(task, part) => self.draw_below(state, task, *part),
            _ => {}
        }
    }

    /// Draws the start of a subagent: its name and task. Its calls follow below.
    fn draw_agent(&self, state: &mut State, task: &Task) {
        let TaskKind::Agent { name, depth, .. } = &task.kind else {
            return;
        };
        let call = ToolCall {
            name,
            key: &task.description,
            kind: None,
        };
        let layout = self.layout(depth.saturating_sub(1));
        self.draw_rows(state, &[tool::running(&call, "◆", layout)]);
    }

    /// Draws the results of a subagent's calls, indented by its depth.
    fn draw_below(&self, state: &mut State, task: &Task, part: SessionUpdate<'_>) {
        let TaskKind::Agent { depth, .. } = task.kind else {
            return;
        };
        match part {
            SessionUpdate::Call(call, ..) => {
                let key = self.key_value(call);
                state.keys_below.insert(call.id.clone(), key);
            }
            SessionUpdate::Result(result, _) => {
                let key = state.keys_below.remove(&result.tool_use_id);
                let layout = self.layout(depth);
                self.draw_result(state, result, &key.unwrap_or_default(), None, layout);
            }
            _ => {}
        }
    }

    /// Returns what shows the whole outputs of a message's calls.
    pub(super) fn way_to_output(&self, number: u32) -> String {
        match self.view.is_conversation {
            true => format!("/show {number}"),
            false => format!("ah show {number} --output"),
        }
    }

    /// Draws an ended call with the beginning of its output; `more` is the command that shows all of it.
    pub(super) fn draw_result(
        &self,
        state: &mut State,
        result: &ToolResult,
        key: &str,
        more: Option<&str>,
        layout: Layout,
    ) {
        let (key, kind) = self.key(&result.tool_name, key);
        let call = ToolCall {
            name: &result.tool_name,
            key,
            kind,
        };
        let output = result.text();
        let details = result.details.as_ref().map(JsonText::value);
        let outcome = CallOutcome {
            output: without_agent_id(&output),
            lines: result.lines,
            details: details.as_ref(),
            is_error: result.is_error,
            duration_ms: result.duration_ms,
            more,
        };
        let rows = tool::ended(&call, &outcome, layout);
        self.draw_rows(state, &rows);
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
        let palette = self.screen.look.palette();
        let rows: String = rows.iter().map(|row| row.paint(palette) + "\n").collect();
        self.screen.note(&rows);
    }

    /// Returns the layout at this depth of subagents.
    pub(super) fn layout(&self, depth: usize) -> Layout {
        Layout {
            depth,
            ..Layout::of(self.paint.width)
        }
    }
}
