//! Port: one who watches every session of this program beside those who show it, such as one that sends traces.
//!
//! A program says who does so once and before its first session, as it does with its log, so that nobody on the way to a
//! session has to hand it on.

use std::sync::OnceLock;

use ah_agent::{Audience, CallVariables, SessionWatcher, no_variables};
use ah_conversation::Environment;

/// Returns who watches the session with this UUID, `None` if nobody does; the text of an error is a warning.
pub type WatchSession = fn(&Environment, &str) -> Result<Option<SessionWatcher>, String>;

static WATCH: OnceLock<WatchSession> = OnceLock::new();

/// Has each session that is opened from now on watched by the one whom `watch` returns. Only the first call counts.
pub fn watch_sessions(watch: WatchSession) {
    // It stays with the first one.
    let _ = WATCH.set(watch);
}

/// Returns the audience of the session with the UUID `session` and the one who watches it besides, and the variables of its
/// calls.
pub(crate) fn watched(
    audience: Audience,
    environment: &Environment,
    session: &str,
    warnings: &mut Vec<String>,
) -> (Audience, CallVariables) {
    let watch = WATCH
        .get()
        .map_or(Ok(None), |watch| watch(environment, session));
    match watch {
        Ok(Some(SessionWatcher { watcher, variables })) => {
            (audience.with_first(watcher), variables)
        }
        Ok(None) => (audience, no_variables()),
        Err(warning) => {
            warnings.push(warning);
            (audience, no_variables())
        }
    }
}
