//! The current task of the session, as the terminal shows it.

use std::time::Instant;

/// The current task.
#[derive(Debug, Clone)]
pub struct Activity {
    /// Its start.
    pub since: Instant,
    /// Label of the spinner.
    pub label: String,
    /// Running tools, each with a short form of its input.
    pub tools: Vec<(String, String)>,
    /// Tokens used by the run.
    pub tokens: u64,
    /// Whether it was told to stop.
    pub is_stopping: bool,
}

impl Activity {
    /// Returns a task that starts now.
    pub fn begin(label: &str, now: Instant) -> Self {
        Self {
            since: now,
            label: label.to_owned(),
            tools: Vec::new(),
            tokens: 0,
            is_stopping: false,
        }
    }
}
