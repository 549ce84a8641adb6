//! Tasks beside the conversation: commands in the background, and subagents. The list follows their reports, so it is there
//! also while nothing else runs.

use std::time::{Duration, Instant};

use ah_conversation::{Task, TaskEnding, TaskKind, TaskUpdate, TaskUsage, ToolUseId, neutralise};

use super::picker::{Entry, Picker, Subject};
use crate::print::{count, elapsed};

/// Number of ended tasks that are kept in the list.
const KEPT: usize = 50;

/// A task in the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackgroundTask {
    /// Its id, for the port that queries and stops it.
    pub id: String,
    /// Its number, for people.
    pub number: usize,
    /// Its kind, and its command or description.
    pub label: String,
    /// Id of the call that has started it.
    pub call: ToolUseId,
    /// Nesting depth, if it is a subagent that its call waits for.
    pub depth: Option<usize>,
    /// What it does.
    pub doing: String,
    /// Its usage so far.
    usage: TaskUsage,
    since: Instant,
    /// Its outcome and how long it took, once it has ended.
    ended: Option<(TaskEnding, Duration)>,
}

/// The tasks of a session, oldest first.
#[derive(Debug, Default)]
pub struct BackgroundTasks {
    tasks: Vec<BackgroundTask>,
    /// Number of the last task.
    last: usize,
}

impl BackgroundTasks {
    /// Applies a report. A subagent that its call waits for is in the list as long as it runs.
    pub fn note(&mut self, task: &Task, update: &TaskUpdate, now: Instant) {
        let known = self.tasks.iter().position(|known| known.id == task.id);
        match (update, known) {
            (TaskUpdate::Started, _) => {
                self.tasks.retain(|known| known.id != task.id);
                self.last += 1;
                self.tasks.push(BackgroundTask {
                    id: task.id.clone(),
                    number: self.last,
                    label: label(task),
                    call: task.call.clone(),
                    depth: match task.kind {
                        TaskKind::Agent { depth, .. } if !task.is_background => Some(depth),
                        TaskKind::Agent { .. } | TaskKind::Command => None,
                    },
                    doing: String::new(),
                    usage: TaskUsage::default(),
                    since: now,
                    ended: None,
                });
            }
            (TaskUpdate::Ended { .. }, Some(at)) if !task.is_background => {
                self.tasks.remove(at);
            }
            (TaskUpdate::Ended { ending, .. }, Some(at)) => {
                let known = &mut self.tasks[at];
                known.ended = Some((*ending, now.saturating_duration_since(known.since)));
                self.forget_old();
            }
            (TaskUpdate::Progress { usage, .. }, Some(at)) => {
                self.tasks[at].usage = *usage;
            }
            (TaskUpdate::Ended { .. } | TaskUpdate::Progress { .. }, _) => {}
        }
    }

    fn forget_old(&mut self) {
        let ended = self.tasks.iter().filter(|task| task.ended.is_some());
        if ended.count() > KEPT
            && let Some(oldest) = self.tasks.iter().position(|task| task.ended.is_some())
        {
            self.tasks.remove(oldest);
        }
    }

    /// Returns how many run.
    pub fn running(&self) -> usize {
        let running = self.tasks.iter().filter(|task| task.ended.is_none());
        running.count()
    }

    /// Notes what the task with this id does.
    pub fn note_doing(&mut self, id: &str, words: String) {
        if let Some(task) = self.tasks.iter_mut().find(|task| task.id == id) {
            task.doing = words;
        }
    }

    /// Returns the subagents that are waited for, oldest first.
    pub fn awaited(&self) -> impl Iterator<Item = &BackgroundTask> {
        let tasks = self.tasks.iter();
        tasks.filter(|task| task.runs() && task.depth.is_some())
    }

    /// Returns the task with this number or id.
    pub fn find(&self, wanted: &str) -> Option<&BackgroundTask> {
        let number = wanted.trim_start_matches('#').parse().ok();
        let is_meant = |task: &&BackgroundTask| Some(task.number) == number || task.id == wanted;
        self.tasks.iter().find(is_meant)
    }

    /// Returns the tasks to choose from, the newest first; `None` without any.
    pub fn picker(&self, now: Instant) -> Option<Picker> {
        let entries = self.tasks.iter().rev().map(|task| Entry {
            label: format!("#{} {}\n{}", task.number, task.label, task.state(now)),
            value: task.id.clone(),
        });
        let entries: Vec<_> = entries.collect();
        (!entries.is_empty()).then(|| Picker::new(Subject::Task, entries))
    }
}

impl BackgroundTask {
    /// Returns whether it has not ended.
    pub fn runs(&self) -> bool {
        self.ended.is_none()
    }

    /// Returns a subagent in one row: `◆ digger: find gold · read a.rs · 3 calls · 13.4k tokens`.
    pub fn row(&self) -> String {
        let indent = "  ".repeat(self.depth.unwrap_or(1));
        let label = self.label.trim_start_matches("subagent ");
        let mut row = format!("{indent}◆ {}", neutralise(label));
        if !self.doing.is_empty() {
            row.push_str(&format!(" · {}", self.doing));
        }
        if self.usage.tool_uses > 0 {
            let (calls, tokens) = (self.usage.tool_uses, count(self.usage.tokens));
            let noun = if calls == 1 { "call" } else { "calls" };
            row.push_str(&format!(" · {calls} {noun} · {tokens} tokens"));
        }
        row
    }

    /// Returns whether it runs, and how long: `running · 1m05s`.
    pub fn state(&self, now: Instant) -> String {
        let (state, took) = match self.ended {
            None => ("running", now.saturating_duration_since(self.since)),
            Some((ending, took)) => (ending.as_str(), took),
        };
        format!("{state} · {}", elapsed(took.as_secs()))
    }
}

fn label(task: &Task) -> String {
    let kind = match &task.kind {
        TaskKind::Agent { name, .. } => format!("subagent {name}"),
        TaskKind::Command => "command".to_owned(),
    };
    let words = task.description.split_whitespace().collect::<Vec<_>>();
    format!("{kind}: {}", words.join(" "))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn task(id: &str, is_background: bool) -> Task {
        Task {
            id: id.to_owned(),
            call: ToolUseId::from(id),
            description: "make\nall".to_owned(),
            kind: TaskKind::Command,
            is_background,
        }
    }

    fn ended() -> TaskUpdate {
        TaskUpdate::Ended {
            ending: TaskEnding::Failed,
            summary: String::new(),
            output_file: None::<PathBuf>,
            usage: TaskUsage::default(),
            spent: Vec::new(),
        }
    }

    #[test]
    fn tasks_are_listed_with_state_and_age() {
        let now = Instant::now();
        let later = now + Duration::from_secs(65);
        let mut tasks = BackgroundTasks::default();
        assert_eq!(tasks.picker(now), None);
        tasks.note(&task("a", true), &TaskUpdate::Started, now);
        tasks.note(&task("b", true), &TaskUpdate::Started, now);
        tasks.note(&task("waited for", false), &TaskUpdate::Started, now);
        assert_eq!(tasks.running(), 3);
        tasks.note(&task("waited for", false), &ended(), later);
        tasks.note(&task("a", true), &ended(), later);
        assert_eq!(tasks.running(), 1);
        let picker = tasks.picker(later).unwrap();
        let labels: Vec<_> = picker.window(10).map(|(entry, _)| &*entry.label).collect();
        assert_eq!(
            labels,
            [
                "#2 command: make all\nrunning · 1m05s",
                "#1 command: make all\nfailed · 1m05s"
            ]
        );
        assert_eq!(tasks.find("2").unwrap().id, "b");
        assert_eq!(tasks.find("#1").unwrap().id, "a");
        assert_eq!(tasks.find("b").unwrap().number, 2);
        assert_eq!(tasks.find("3"), None);
    }

    #[test]
    fn the_oldest_ended_task_is_forgotten() {
        let now = Instant::now();
        let mut tasks = BackgroundTasks::default();
        tasks.note(&task("runs", true), &TaskUpdate::Started, now);
        for n in 0..=KEPT {
            let task = task(&n.to_string(), true);
            tasks.note(&task, &TaskUpdate::Started, now);
            tasks.note(&task, &ended(), now);
        }
        assert_eq!(tasks.tasks.len(), KEPT + 1);
        assert_eq!(tasks.tasks[0].id, "runs");
        assert_eq!(tasks.tasks[1].id, "1");
    }
}
