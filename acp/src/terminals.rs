//! The output of commands while they run. An editor that has terminals for it is given each byte; any other sees the end
//! of the output as text.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agent_client_protocol::v1::schema::{
    Meta, SessionUpdate as Told, Terminal, ToolCallContent, ToolCallUpdate, ToolCallUpdateFields,
};
use agent_client_protocol::v2::schema as second;
use ah_conversation::{LiveOutput, ResultBlock, ToolResult, ToolUse, ToolUseId, neutralise};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::call::said;
use crate::patch::fenced;
use crate::wire::Wire;

/// Time between two looks at an output.
const PERIOD: Duration = Duration::from_millis(250);
/// Most bytes of an output that are shown as text while it runs.
const SHOWN: usize = 4096;

/// The terminals of a session.
pub(crate) struct Terminals {
    wire: Arc<Wire>,
    running: Mutex<HashMap<ToolUseId, Running>>,
}

/// A command that runs.
struct Running {
    output: LiveOutput,
    /// Number of bytes that the editor has.
    told: u64,
}

impl Terminals {
    pub(crate) fn new(wire: Arc<Wire>) -> Self {
        Self {
            wire,
            running: Mutex::default(),
        }
    }

    /// Shows the output of a command from now on. It is looked at until the call ends.
    pub(crate) fn begin(
        self: &Arc<Self>,
        call: &ToolUse,
        command: &str,
        folder: &Path,
        output: &LiveOutput,
    ) {
        if self.wire.abilities.terminals {
            self.open(&call.id, command, folder);
        }
        let output = output.clone();
        let running = Running { output, told: 0 };
        self.running.lock().insert(call.id.clone(), running);
        let (all, id) = (self.clone(), call.id.clone());
        // Without a connection nobody looks.
        let _ = self.wire.peer.beside(async move {
            let mut ticks = tokio::time::interval(PERIOD);
            loop {
                ticks.tick().await;
                if !all.flush(&id) {
                    return;
                }
            }
        });
    }

    /// Shows the rest of the output of a command, and that it has ended; returns the content of its call, if that is a
    /// terminal. A command of before is shown as it has ended.
    pub(crate) fn end(
        &self,
        result: &ToolResult,
        command: &str,
        folder: &Path,
    ) -> Option<Vec<ToolCallContent>> {
        let was_shown = self.flush(&result.tool_use_id);
        self.running.lock().remove(&result.tool_use_id);
        if !self.wire.abilities.terminals || result.content.iter().any(is_no_text) {
            return None;
        }
        let id = &result.tool_use_id;
        if !was_shown {
            self.open(id, command, folder);
            self.output(id, result.text().as_bytes());
        }
        let details = result.details.as_ref();
        let code = details.and_then(|details| details.get("exit_code")?.as_i64());
        let code = code.or((!result.is_error).then_some(0));
        if self.wire.is_second() {
            let status = second::TerminalExitStatus::new().exit_code(code);
            let update = second::TerminalUpdate::new(id.as_str()).exit_status(status);
            self.wire
                .tell_second(second::SessionUpdate::TerminalUpdate(update));
        } else {
            let exit = json!({"terminal_id": id, "exit_code": code, "signal": null});
            self.note(id, "terminal_exit", exit, None);
        }
        let mut content = vec![terminal(id)];
        if result.is_error {
            content.push(said(&fenced("", &result.text())));
        }
        Some(content)
    }

    fn open(&self, id: &ToolUseId, command: &str, folder: &Path) {
        if self.wire.is_second() {
            let update = second::TerminalUpdate::new(id.as_str())
                .command(neutralise(command).into_owned())
                .cwd(folder.to_owned());
            self.wire
                .tell_second(second::SessionUpdate::TerminalUpdate(update));
            let fields = ToolCallUpdateFields::new().content(vec![terminal(id)]);
            let update = ToolCallUpdate::new(id.as_str().to_owned(), fields);
            self.wire.tell(Told::ToolCallUpdate(update));
        } else {
            let info = json!({"terminal_id": id, "cwd": folder});
            self.note(id, "terminal_info", info, Some(vec![terminal(id)]));
        }
    }

    /// Tells what an output has beyond what the editor has; returns whether the command still runs.
    fn flush(&self, id: &ToolUseId) -> bool {
        let mut running = self.running.lock();
        let Some(Running { output, told }) = running.get_mut(id) else {
            return false;
        };
        let (bytes, before) = output.last(usize::MAX);
        let all = before + bytes.len() as u64;
        let new = usize::try_from(all - *told).unwrap_or(usize::MAX);
        let new = &bytes[bytes.len() - new.min(bytes.len())..];
        // A letter that has come in part is told when it is there.
        let whole = new.len() - unfinished(new);
        if whole > 0 {
            *told = all - (new.len() - whole) as u64;
            if self.wire.abilities.terminals {
                self.output(id, &new[..whole]);
            } else {
                let shown = &bytes[bytes.len().saturating_sub(SHOWN)..];
                let text = String::from_utf8_lossy(shown);
                let text = fenced("", &neutralise(&text));
                let fields = ToolCallUpdateFields::new().content(vec![said(&text)]);
                let update = ToolCallUpdate::new(id.as_str().to_owned(), fields);
                self.wire.tell(Told::ToolCallUpdate(update));
            }
        }
        true
    }

    fn output(&self, id: &ToolUseId, bytes: &[u8]) {
        let data = String::from_utf8_lossy(bytes);
        let data = neutralise(&data);
        if self.wire.is_second() {
            let data = STANDARD.encode(data.as_bytes());
            let chunk = second::TerminalOutputChunk::new(id.as_str(), data);
            self.wire
                .tell_second(second::SessionUpdate::TerminalOutputChunk(chunk));
        } else {
            let output = json!({"terminal_id": id, "data": data});
            self.note(id, "terminal_output", output, None);
        }
    }

    /// Tells an editor of version 1 something about a terminal.
    fn note(&self, id: &ToolUseId, key: &str, value: Value, content: Option<Vec<ToolCallContent>>) {
        let mut meta = Meta::new();
        meta.insert(key.to_owned(), value);
        let mut fields = ToolCallUpdateFields::new();
        fields.content = content;
        let update = ToolCallUpdate::new(id.as_str().to_owned(), fields).meta(meta);
        self.wire.tell(Told::ToolCallUpdate(update));
    }
}

fn terminal(id: &ToolUseId) -> ToolCallContent {
    ToolCallContent::Terminal(Terminal::new(id.as_str().to_owned()))
}

fn is_no_text(block: &ResultBlock) -> bool {
    !matches!(block, ResultBlock::Text { .. })
}

/// Returns how many bytes at the end are the beginning of a letter.
fn unfinished(bytes: &[u8]) -> usize {
    for (at, byte) in bytes.iter().rev().take(3).enumerate() {
        let wanted = match byte {
            0x80..=0xbf => continue,
            0xc0..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            _ => 1,
        };
        return if wanted > at + 1 { at + 1 } else { 0 };
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_told_whole() {
        for (text, rest) in [("", 0), ("abc", 0), ("aé", 0), ("a€", 0), ("éé€", 0)] {
            assert_eq!(unfinished(text.as_bytes()), rest, "{text}");
        }
        assert_eq!(unfinished(&"a€".as_bytes()[..3]), 2);
        assert_eq!(unfinished(&"éé€".as_bytes()[..5]), 1);
        assert_eq!(unfinished(b"ab\xff"), 0);
    }
}
