//! What hooks have said, as hosts are told.

use ah_agent::hooks::{HookAnswer, HookOutput, HookReply};
use serde_json::{Value, json};

/// How much of what a hook prints is told, of each stream.
const MAX_HOOK_TEXT: usize = 64 * 1024;

/// What a hook has said. What blocks counts as an error here, as its exit code does.
pub(super) fn said(answered: &HookAnswer) -> Value {
    let HookAnswer { reply, printed } = answered;
    let (fault, is_error) = match reply {
        HookReply::Failed(fault) | HookReply::Block(fault) => (fault.as_str(), true),
        HookReply::Nothing | HookReply::Object(_) | HookReply::Text(_) => ("", false),
    };
    let outcome = if is_error { "error" } else { "success" };
    match printed {
        None => json!({"output": fault, "stdout": "", "stderr": "", "outcome": outcome}),
        Some(HookOutput {
            stdout,
            stderr,
            exit_code,
        }) => json!({
            "output": format!("{}{}", cut(stdout), cut(stderr)),
            "stdout": cut(stdout),
            "stderr": cut(stderr),
            "exit_code": exit_code,
            "outcome": outcome,
        }),
    }
}

/// As much of a hook's words as fits into a line.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_HOOK_TEXT)]
}
