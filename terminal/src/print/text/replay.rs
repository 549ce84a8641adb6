//! Messages of an earlier run, shown as they were when they came.

use std::collections::HashMap;

use ah_conversation::{
    ContentBlock, Input, Message, Origin, Role, ToolUse, ToolUseId, Verification, neutralise,
};
use ah_render::tool;
use serde_json::Value;

use super::Text;
use crate::print::said;

/// Number of rows shown of each prompt; a long one is mostly pasted.
const PROMPT_ROWS: usize = 12;

/// Takes back the questions of an answer that was refused from those that were answered; others stay.
pub fn take_back(answered: &mut Vec<String>, refused: &[String]) {
    for question in refused {
        if let Some(at) = answered.iter().position(|known| known == question) {
            answered.swap_remove(at);
        }
    }
}

/// Shows stored messages, oldest first.
pub struct Replay<'a> {
    text: &'a Text,
    /// Calls of the last answer: number of its message, key argument, by id.
    calls: HashMap<ToolUseId, (u32, ToolUse)>,
}

impl<'a> Replay<'a> {
    /// Returns a replay on the streams of `text`.
    pub fn on(text: &'a Text) -> Self {
        Self {
            text,
            calls: HashMap::new(),
        }
    }

    /// Shows the next message.
    pub fn show(&mut self, message: &Message) {
        match (&message.origin, message.role) {
            (Origin::Prompt, _) => self.prompt(&message.said()),
            (Origin::FollowUp, _) => self.prompt(&message.said()),
            (Origin::Steering, _) => {
                let text = message.text();
                let said = text.strip_prefix("[STEERING]").unwrap_or(&text);
                self.prompt(said);
            }
            (Origin::Summary { .. }, _) => self.words("compacted", ""),
            (_, Role::Assistant) => self.answer(message),
            (Origin::Results, _) => self.results(message),
            // What the program told the model was not shown then either.
            _ => {}
        }
    }

    /// Notes that questions were answered at this terminal: of `results`, that of the call that asks them says nothing new.
    pub fn note_answered(&self, questions: &[String], results: &Message) {
        let ends = |id: &ToolUseId| results.tool_results().any(|it| it.tool_use_id == *id);
        let asks = |call: &ToolUse| {
            let Input::Object(input) = &call.input else {
                return false;
            };
            let asked = input.get("questions").and_then(Value::as_array);
            asked.into_iter().flatten().any(|one| {
                let text = one.get("question").and_then(Value::as_str);
                text.is_some_and(|text| questions.iter().any(|known| known == text))
            })
        };
        let mut state = self.text.state.lock();
        let calls = self.calls.iter();
        let calls = calls.filter(|(id, (_, call))| ends(id) && asks(call));
        state.answered.extend(calls.map(|(id, _)| id.clone()));
    }

    /// Shows what a check has shown of the run whose end has just come.
    pub fn end(&self, known: &Verification) {
        self.verdict(&known.line(), known);
    }

    /// Shows what was recorded of the run that ended with the last message, if it had a check.
    pub fn recorded(&self, known: Option<&Verification>) {
        if let Some(known) = known {
            self.verdict(&known.replayed_line(), known);
        }
    }

    fn verdict(&self, line: &str, known: &Verification) {
        self.settle();
        self.part();
        self.text.show_verdict(line, known.evidence);
    }

    /// Writes what was collected.
    pub fn finish(self) {
        self.settle();
        self.text.flush();
    }

    fn prompt(&self, typed: &str) {
        let typed = neutralise(typed.trim());
        let lines = typed.lines().count();
        let shown: Vec<_> = typed.lines().take(PROMPT_ROWS).collect();
        let mut shown = format!("> {}", shown.join("\n  "));
        if lines > PROMPT_ROWS {
            shown.push_str(&format!("\n  … {} more lines", lines - PROMPT_ROWS));
        }
        self.settle();
        self.part();
        let shown = said(&shown, self.text.paint.colours);
        self.text.screen.note(&format!("{shown}\n"));
    }

    fn words(&self, kind: &str, text: &str) {
        let mut state = self.text.state.lock();
        let words = neutralise(text);
        let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
        self.text.draw_words(&mut state, &format!("{kind}{words}"));
    }

    fn answer(&mut self, message: &Message) {
        self.calls.clear();
        let mut state = self.text.state.lock();
        for block in &message.content {
            match block {
                ContentBlock::Thinking { thinking, .. } => {
                    let rows = tool::thinking(thinking, false, self.text.layout());
                    self.text.draw_rows(&mut state, &rows);
                }
                ContentBlock::ToolUse(call) => {
                    self.calls
                        .insert(call.id.clone(), (message.seq, call.clone()));
                }
                block => {
                    let said = block.as_text().unwrap_or_default();
                    if !said.trim().is_empty() {
                        self.text.show_text(&mut state, said);
                        self.text.end_answer(&mut state);
                    }
                }
            }
        }
    }

    fn results(&mut self, message: &Message) {
        let mut state = self.text.state.lock();
        for block in &message.content {
            let ContentBlock::ToolResult(result) = block else {
                continue;
            };
            let known = self.calls.get(&result.tool_use_id);
            let key = known.map(|(_, call)| self.text.key_value(call));
            let more = known.map(|(number, _)| self.text.way_to_output(*number));
            let key = key.unwrap_or_default();
            self.text
                .draw_result(&mut state, result, &key, more.as_deref());
        }
    }

    fn settle(&self) {
        let mut state = self.text.state.lock();
        self.text.settle(&mut state);
    }

    fn part(&self) {
        let mut state = self.text.state.lock();
        self.text.part(&mut state);
    }
}
