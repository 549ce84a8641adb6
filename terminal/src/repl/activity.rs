//! The current task of the session, as the terminal shows it.

use std::time::Instant;

use ah_conversation::{LiveOutput, SkipDelay, ToolUseId, neutralise};
use ah_render::Line;

use crate::print::Looked;

/// Bytes of an output that are looked at for its last lines.
const LOOKED_AT: usize = 8 * 1024;

/// A running tool.
#[derive(Debug, Clone)]
pub struct RunningTool {
    /// Id of its call: calls of the same tool may run at once.
    pub call: ToolUseId,
    /// Its name.
    pub name: String,
    /// Short form of its input, or its progress.
    pub key: String,
    /// Its output so far.
    pub output: LiveOutput,
}

impl RunningTool {
    /// Returns a tool with the name and the key argument that a model has given.
    pub fn new(call: ToolUseId, name: &str, key: &str, output: &LiveOutput) -> Self {
        Self {
            call,
            name: neutralise(name).into_owned(),
            key: neutralise(key).into_owned(),
            output: output.clone(),
        }
    }

    /// Returns the last `most` lines of its output that are not empty, without control characters. Of a line that was
    /// written over and over, such as a progress bar, it is what was written last.
    pub fn last_lines(&self, most: usize) -> Vec<String> {
        let (bytes, _) = self.output.last(LOOKED_AT);
        let text = String::from_utf8_lossy(&bytes);
        let shown = |line: &str| {
            let last = line.trim_end_matches('\r').rsplit('\r').next();
            neutralise(last.unwrap_or_default()).into_owned()
        };
        let lines = text.lines().map(shown);
        let mut lines: Vec<_> = lines.filter(|line| !line.trim().is_empty()).collect();
        let surplus = lines.len().saturating_sub(most);
        lines.drain(..surplus);
        lines
    }
}

/// The current task.
#[derive(Debug, Clone)]
pub struct Activity {
    /// Its start.
    pub since: Instant,
    /// Label of the spinner.
    pub label: String,
    /// Running tools.
    pub tools: Vec<RunningTool>,
    /// End of the delay before a failed request is tried again, and what ends it earlier.
    pub retry: Option<(Instant, SkipDelay)>,
    /// Time at which something has come of the answer that is being read.
    pub heard: Option<Instant>,
    /// Number of failed requests since the last answer, and why the last one failed.
    pub failures: (usize, String),
    /// Reads and searches that are not printed yet.
    pub looked: Looked,
    /// The task list.
    pub tasks: Vec<Line>,
    /// Tokens used by the run.
    pub tokens: u64,
    /// Whether it was told to stop.
    pub is_stopping: bool,
    /// Whether it is a run, which a process in the background could continue.
    pub is_run: bool,
    /// Whether it goes to the background once its step has ended.
    pub is_leaving: bool,
}

impl Activity {
    /// Returns a task that starts now.
    pub fn begin(label: &str, now: Instant) -> Self {
        Self {
            since: now,
            label: label.to_owned(),
            tools: Vec::new(),
            retry: None,
            heard: None,
            failures: (0, String::new()),
            looked: Looked::default(),
            tasks: Vec::new(),
            tokens: 0,
            is_stopping: false,
            is_run: false,
            is_leaving: false,
        }
    }

    /// Returns a run that starts now.
    pub fn run(label: &str, now: Instant) -> Self {
        Self {
            is_run: true,
            ..Self::begin(label, now)
        }
    }
}
