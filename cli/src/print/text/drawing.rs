//! What a run looks like on a terminal: answers laid out, calls with what they changed, thoughts folded.

use ah_agent::Part;
use ah_conversation::{ContentBlock, Message, Role, ToolResult};
use ah_render::tool::{self, Call, Outcome, Place};
use ah_render::{Line, Style, wrap};

use super::{State, Text};
use crate::args::Manner;

impl Text {
    /// Whether the run is drawn; otherwise it is told in lines, by the same events.
    pub(super) fn is_drawn(&self) -> bool {
        self.screen.look.drawn && self.view.manner == Manner::Own
    }

    /// Sets the next thing apart from what stands there.
    pub(super) fn part(&self, state: &mut State) {
        if self.is_drawn() && std::mem::replace(&mut state.has_content, true) {
            self.screen.note("\n");
        }
    }

    /// Draws what the events do not tell.
    pub(super) fn draw_part(&self, state: &mut State, part: Part<'_>) {
        match part {
            Part::Block(ContentBlock::Thinking { thinking, .. }) => {
                let rows = tool::thinking(thinking, false, self.place());
                self.draw_rows(state, &rows);
            }
            Part::Stored(Message {
                role: Role::Assistant,
                seq,
                ..
            }) => state.answer_number = Some(*seq),
            Part::Result(result) => self.draw_result(state, result),
            _ => {}
        }
    }

    fn draw_result(&self, state: &mut State, result: &ToolResult) {
        let key = std::mem::take(&mut state.ended_key);
        let (key, kind) = self.key(&result.tool_name, &key);
        let more = state.answer_number.map(|n| format!("ah show {n} --output"));
        let call = Call {
            name: &result.tool_name,
            key,
            kind,
        };
        let outcome = Outcome {
            output: &result.text(),
            details: result.details.as_ref(),
            is_error: result.is_error,
            duration_ms: result.duration_ms,
            more: more.as_deref(),
        };
        let rows = tool::ended(&call, &outcome, self.place());
        self.draw_rows(state, &rows);
    }

    /// Draws what is said besides.
    pub(super) fn draw_words(&self, state: &mut State, words: &str) {
        let none = Line::default();
        let rows = wrap(&Line::of(words, Style::DIM), self.paint.width, &none, &none);
        self.draw_rows(state, &rows);
    }

    fn draw_rows(&self, state: &mut State, rows: &[Line]) {
        if rows.is_empty() {
            return;
        }
        self.part(state);
        let palette = self.screen.look.palette();
        let rows: String = rows.iter().map(|row| row.paint(palette) + "\n").collect();
        self.screen.note(&rows);
    }

    fn place(&self) -> Place {
        Place::of(self.paint.width)
    }
}
