//! What passes between a script and the one that answers for it.

use ah_conversation::Output;
use serde_json::Value;
use tokio::sync::oneshot;

/// A call by a script: the tool and its input.
pub(super) type Wanted = (String, Value);
/// Result of a call: the text, or why it failed.
pub(super) type Given = Result<String, String>;

/// A step of a script.
pub(super) enum Step {
    /// It waits for these calls.
    Calls(Vec<Wanted>, oneshot::Sender<Vec<Given>>),
    /// It has ended.
    Ended(Output),
}
