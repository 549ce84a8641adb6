//! Results of hooks in the form of the SDKs.

use ah_agent::hooks::{HookAnswer, HookOutput, HookReply};
use serde_json::{Value, json};

/// Upper limit of the bytes of each output stream of a hook.
const MAX_HOOK_TEXT: usize = 64 * 1024;

/// Returns the result of a hook. A hook that blocks counts as an error, like its exit code.
pub(super) fn said(answered: &HookAnswer) -> Value {
    let HookAnswer { reply, printed } = answered;
    let (fault, is_error) = match reply {
        HookReply::Failed(failure) => (failure.to_string(), true),
        HookReply::Block(fault) => (fault.clone(), true),
        HookReply::Nothing | HookReply::Object(_) | HookReply::Text(_) => (String::new(), false),
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

/// Cuts the output of a hook.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_HOOK_TEXT)]
}
