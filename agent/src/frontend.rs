//! Where a run is shown, and whoever sits there is asked. Terminal, JSON lines and the Agent-SDK protocol are frontends
//! of the same events.

use ah_conversation::{Event, Host};

/// Something that shows a run. Called in order, from the task that drives the session; must not block for long.
pub trait Frontend: Host {
    /// Shows an event.
    fn show(&self, event: &Event);

    /// Tells the person something that is no part of the conversation: a limit that was lowered, messages that were
    /// left out.
    fn notice(&self, text: &str);
}
