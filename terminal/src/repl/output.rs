//! Full output of the last tool calls; the conversation itself shows only parts of long outputs.

use std::io::{self, Write};

use ah_agent::without_agent_id;
use ah_conversation::StoreError;
use ah_store::Tree;

use super::activity::RunningTool;
use crate::message::Keys;
use ah_conversation::neutralise;

/// Longest part of an output that is shown, in bytes. It goes into the scrollback.
const MOST: usize = 256 * 1024;
/// Width of a call, in characters.
const CALL: usize = 100;

/// Returns the outputs of the last tool calls, each below its call.
///
/// # Errors
///
/// If the session cannot be read.
pub fn last(tree: &Tree, keys: &Keys) -> Result<String, StoreError> {
    let mut next = tree.current()?;
    while let Some(id) = next {
        let Some(message) = tree.message(&id)? else {
            break;
        };
        let mut text = String::new();
        for call in message.tool_uses() {
            let mut head = Head::default();
            // A running call has no output yet.
            if let Some(length) = tree.copy_output(&call.id, &mut head)? {
                text.push_str(&section(
                    &keys.show(call, CALL),
                    &head.0,
                    length,
                    message.seq,
                ));
            }
        }
        if !text.is_empty() {
            return Ok(text);
        }
        next = message.parent;
    }
    Ok("  no tool output yet\n\n".to_owned())
}

/// Returns the end of what a running tool has written, below its call; `None` if it has written nothing.
pub fn so_far(tool: &RunningTool) -> Option<String> {
    if tool.output.is_empty() {
        return None;
    }
    let (bytes, before) = tool.output.last(MOST);
    let text = String::from_utf8_lossy(&bytes);
    let left_out = match before {
        0 => String::new(),
        before => format!("  ... {before} bytes before\n"),
    };
    let lines = indented(&text);
    Some(format!(
        "{} {}, so far:\n{left_out}{lines}\n",
        tool.name, tool.key
    ))
}

fn indented(output: &str) -> String {
    let lines = neutralise(output);
    lines.lines().map(|line| format!("  {line}\n")).collect()
}

fn section(call: &str, head: &[u8], length: u64, number: u32) -> String {
    let lines = indented(without_agent_id(&String::from_utf8_lossy(head)));
    let rest = if length > head.len() as u64 {
        format!("  ... the first {MOST} of {length} bytes: ah show {number} --output\n")
    } else {
        String::new()
    };
    format!("{call}\n{lines}{rest}\n")
}

/// Keeps the beginning of what is written.
#[derive(Default)]
struct Head(Vec<u8>);

impl Write for Head {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = MOST - self.0.len();
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
        let mut head = Head::default();
        let long = vec![b'x'; MOST + 5];
        assert_eq!(head.write(&long).unwrap(), long.len());
        let text = section("bash yes", &head.0, long.len() as u64, 4);
        assert!(text.starts_with("bash yes\n  xxx"));
        assert!(text.ends_with("... the first 262144 of 262149 bytes: ah show 4 --output\n\n"));
        assert_eq!(
            section("bash", b"\x1b[2Jone\n", 8, 4)
                .matches('\x1b')
                .count(),
            0
        );
    }
}
