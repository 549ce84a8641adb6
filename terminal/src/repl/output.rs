//! Full outputs of tool calls; the conversation itself shows only parts of long outputs.

use std::io::{self, Write};

use ah_agent::without_agent_id;
use ah_conversation::{Head, MessageId, StoreError, ToolUseId};
use ah_store::Tree;

use super::activity::RunningTool;
use super::picker::{Entry, Picker, Subject};
use crate::message::Keys;
use ah_conversation::neutralise;

/// Longest part of an output that is shown, in bytes. It goes into the scrollback.
pub const MOST: u64 = 256 * 1024;
/// Largest number of calls in a list.
const LISTED: usize = 1000;
/// Width of a call, in characters.
const CALL: usize = 100;

/// Tool calls whose output is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// Those of the message with this number.
    Of(u32),
    /// The one with this id.
    Call(ToolUseId),
}

/// Returns the outputs of tool calls, each below its call.
///
/// # Errors
///
/// If the session cannot be read.
pub fn text(tree: &Tree, keys: &Keys, wanted: &Wanted) -> Result<String, StoreError> {
    let text = match wanted {
        Wanted::Of(number) => match tree.numbered(*number)? {
            Some(id) => of_message(tree, keys, &id, |_| true)?,
            None => return Ok(format!("  there is no message {number}\n\n")),
        },
        Wanted::Call(wanted) => {
            let heads = tree.heads()?;
            let asks = |head: &&Head| head.tool_uses.iter().any(|call| call.id == *wanted);
            match heads.iter().rfind(asks) {
                Some(head) => of_message(tree, keys, &head.message.id, |call| call == wanted)?,
                None => String::new(),
            }
        }
    };
    Ok(if text.is_empty() {
        "  no tool output\n\n".to_owned()
    } else {
        text
    })
}

/// Returns the tool calls of the session to choose from, the newest first.
///
/// # Errors
///
/// If the session cannot be read.
pub fn choices(tree: &Tree, keys: &Keys) -> Result<Picker, StoreError> {
    let heads = tree.heads()?;
    let calls = heads.iter().rev().flat_map(|head| {
        let calls = head.tool_uses.iter().rev();
        calls.map(move |call| (head, call))
    });
    let entries = calls.take(LISTED).map(|(head, call)| {
        let who = head.agent_id.as_ref().map_or("", |_| "subagent: ");
        let number = format!("@{}", head.message.seq);
        Entry {
            label: format!("{number:>5}  {who}{}", keys.show(call, CALL)).replace('\n', " "),
            value: call.id.to_string(),
        }
    });
    Ok(Picker::new(Subject::Output, entries.collect()))
}

/// Returns what a task beside the conversation has written, below the line that says which it is. `left_out` is the
/// number of bytes before.
pub fn of_task(head: &str, text: &str, left_out: u64) -> String {
    let before = match left_out {
        0 => String::new(),
        before => format!("  … {before} bytes before\n"),
    };
    let lines = match indented(text) {
        lines if lines.is_empty() => "  nothing yet\n".to_owned(),
        lines => lines,
    };
    format!("{}\n{before}{lines}\n", neutralise(head))
}

/// Returns the outputs of those calls of a message that are wanted; empty if none has one.
fn of_message(
    tree: &Tree,
    keys: &Keys,
    id: &MessageId,
    is_wanted: impl Fn(&ToolUseId) -> bool,
) -> Result<String, StoreError> {
    let mut text = String::new();
    let Some(message) = tree.message(id)? else {
        return Ok(text);
    };
    for call in message.tool_uses().filter(|call| is_wanted(&call.id)) {
        let mut head = Beginning::default();
        // A running call has no output yet.
        if let Some(length) = tree.copy_output(&call.id, &mut head)? {
            let call = keys.show(call, CALL);
            text.push_str(&section(&call, &head.0, length, message.seq));
        }
    }
    Ok(text)
}

/// Returns the end of what a running tool has written; `None` if it has written nothing.
pub fn so_far(tool: &RunningTool) -> Option<String> {
    if tool.output.is_empty() {
        return None;
    }
    let (bytes, before) = tool
        .output
        .last(usize::try_from(MOST).unwrap_or(usize::MAX));
    let text = String::from_utf8_lossy(&bytes);
    let left_out = match before {
        0 => String::new(),
        before => format!("... {before} bytes before\n"),
    };
    Some(format!("{left_out}{}", neutralise(&text).trim_end()))
}

fn indented(output: &str) -> String {
    let lines = neutralise(output);
    lines.lines().map(|line| format!("  {line}\n")).collect()
}

fn section(call: &str, head: &[u8], length: u64, number: u32) -> String {
    let lines = indented(without_agent_id(&String::from_utf8_lossy(head)));
    let rest = if length > head.len() as u64 {
        format!(
            "  ... the first {MOST} of {length} bytes; in a shell: `ah -c show {number} --output`\n"
        )
    } else {
        String::new()
    };
    format!("{call}\n{lines}{rest}\n")
}

/// Keeps the beginning of what is written.
#[derive(Default)]
struct Beginning(Vec<u8>);

impl Write for Beginning {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = usize::try_from(MOST).unwrap_or(usize::MAX) - self.0.len();
        self.0.extend_from_slice(&bytes[..bytes.len().min(room)]);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_output_says_where_the_rest_is() {
        let mut head = Beginning::default();
        let long = vec![b'x'; usize::try_from(MOST).unwrap() + 5];
        assert_eq!(head.write(&long).unwrap(), long.len());
        let text = section("bash yes", &head.0, long.len() as u64, 4);
        assert!(text.starts_with("bash yes\n  xxx"));
        assert!(text.ends_with(
            "... the first 262144 of 262149 bytes; in a shell: `ah -c show 4 --output`\n\n"
        ));
        assert_eq!(
            section("bash", b"\x1b[2Jone\n", 8, 4)
                .matches('\x1b')
                .count(),
            0
        );
    }
}
