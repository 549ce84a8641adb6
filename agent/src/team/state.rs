//! What the agents of a team share: who belongs to it, its list of tasks, and messages that are not read yet. Pure; it is
//! stored as a note of the session ([`Record::Note`](ah_conversation::Record::Note)).

use std::collections::BTreeMap;

use ah_conversation::{MessageId, Time};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Name of the session's own agent, which starts the others.
pub(crate) const LEAD: &str = "team-lead";
/// Recipient that stands for all others.
pub(crate) const EVERYBODY: &str = "*";

/// State of a team.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct TeamState {
    /// The teammates, without the lead.
    pub(crate) members: Vec<Member>,
    /// Messages that their recipients have not read yet, oldest first.
    pub(crate) letters: Vec<Letter>,
    tasks: BTreeMap<u32, TeamTask>,
    /// Number of the last task that was created.
    last_task: u32,
}

/// A teammate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Member {
    /// Name by which others write to it.
    pub(crate) name: String,
    /// Id of its conversation.
    pub(crate) agent_id: String,
    /// Name of its definition.
    pub(crate) agent_type: String,
    /// The model that it was given, if not that of its definition.
    pub(crate) model: Option<String>,
}

/// A message from one agent of the team to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Letter {
    /// Id that the message has in the recipient's conversation.
    pub(crate) id: MessageId,
    /// Name of the recipient.
    pub(crate) to: String,
    /// Its text, which names the sender.
    pub(crate) text: String,
    /// Time at which it was sent.
    pub(crate) sent_at: Time,
}

/// A task of the shared list.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct TeamTask {
    pub(crate) subject: String,
    pub(crate) description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) active_form: Option<String>,
    pub(crate) status: TeamTaskStatus,
    /// Name of the agent that works on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<String>,
    /// Numbers of the tasks that have to be completed before.
    pub(crate) blocked_by: Vec<u32>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(crate) metadata: Map<String, Value>,
}

/// Status of a task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TeamTaskStatus {
    /// Nobody works on it yet.
    #[default]
    Pending,
    /// Its owner works on it.
    InProgress,
    /// It is done.
    Completed,
}

impl TeamTaskStatus {
    /// Returns its name.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
        }
    }
}

/// A change that an agent wants to make to a task.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct TaskChange {
    pub(crate) subject: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) active_form: Option<String>,
    pub(crate) status: Option<WantedStatus>,
    pub(crate) owner: Option<String>,
    pub(crate) add_blocks: Vec<String>,
    pub(crate) add_blocked_by: Vec<String>,
    pub(crate) metadata: Map<String, Value>,
}

/// A status that a task is to have, or its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WantedStatus {
    Pending,
    InProgress,
    Completed,
    Deleted,
}

impl TeamState {
    /// Returns the teammate with this name.
    pub(crate) fn member(&self, name: &str) -> Option<&Member> {
        self.members.iter().find(|member| member.name == name)
    }

    /// Returns the names to which a message of `from` for `to` goes.
    ///
    /// # Errors
    ///
    /// If nobody has that name.
    pub(crate) fn recipients(&self, from: &str, to: &str) -> Result<Vec<String>, String> {
        let names = self.members.iter().map(|member| member.name.as_str());
        let others: Vec<_> = [LEAD]
            .into_iter()
            .chain(names)
            .filter(|name| *name != from)
            .collect();
        let found: Vec<_> = others
            .iter()
            .filter(|name| to == EVERYBODY || **name == to)
            .map(|name| (*name).to_owned())
            .collect();
        match found.as_slice() {
            [] => Err(format!(
                "there is nobody called `{to}` to write to; there are: {}",
                or_none(&others)
            )),
            _ => Ok(found),
        }
    }

    /// Returns the tasks with their numbers.
    pub(crate) fn tasks(&self) -> impl Iterator<Item = (u32, &TeamTask)> {
        self.tasks.iter().map(|(id, task)| (*id, task))
    }

    /// Adds a task; returns its number.
    pub(crate) fn create(&mut self, task: TeamTask) -> u32 {
        // Numbers are not used again: somebody may still speak of one.
        self.last_task += 1;
        self.tasks.insert(self.last_task, task);
        self.last_task
    }

    /// Returns the task with this number.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub(crate) fn task(&self, id: &str) -> Result<(u32, &TeamTask), String> {
        let number = id.trim_start_matches('#').parse().ok();
        let found = number.and_then(|number| Some((number, self.tasks.get(&number)?)));
        found.ok_or_else(|| format!("there is no task {id}"))
    }

    /// Returns the numbers of the tasks that wait for this one.
    pub(crate) fn blocks(&self, id: u32) -> Vec<u32> {
        let waiting = self
            .tasks()
            .filter(|(_, task)| task.blocked_by.contains(&id));
        waiting.map(|(id, _)| id).collect()
    }

    /// Returns the numbers of the uncompleted tasks that this one waits for.
    pub(crate) fn open_blockers(&self, task: &TeamTask) -> Vec<u32> {
        let is_open = |id: &&u32| {
            let blocker = self.tasks.get(id);
            blocker.is_some_and(|task| task.status != TeamTaskStatus::Completed)
        };
        task.blocked_by.iter().filter(is_open).copied().collect()
    }

    /// Makes a change that the agent `by` wants; returns the status before and the names of the changed fields. Whoever
    /// begins a task that has no owner becomes its owner, so of several who try, one succeeds.
    ///
    /// # Errors
    ///
    /// If there is no such task, another one works on it, or it still waits for others. The state must be discarded then.
    pub(crate) fn change(
        &mut self,
        id: &str,
        change: TaskChange,
        by: &str,
    ) -> Result<(TeamTaskStatus, Vec<&'static str>), String> {
        let (id, task) = self.task(id)?;
        let before = task.status;
        self.check_owner(id, task, &change, by)?;
        for other in &change.add_blocked_by {
            self.link(self.task(other)?.0, id)?;
        }
        for other in &change.add_blocks {
            self.link(id, self.task(other)?.0)?;
        }
        let mut task = self.tasks[&id].clone();
        let mut changed = Vec::new();
        let texts = [
            ("subject", change.subject, &mut task.subject),
            ("description", change.description, &mut task.description),
        ];
        for (field, wanted, own) in texts {
            if let Some(wanted) = wanted {
                *own = wanted;
                changed.push(field);
            }
        }
        if change.active_form.is_some() {
            task.active_form = change.active_form;
            changed.push("activeForm");
        }
        if !change.metadata.is_empty() {
            task.metadata.extend(change.metadata);
            task.metadata.retain(|_, value| !value.is_null());
            changed.push("metadata");
        }
        changed.extend((!change.add_blocked_by.is_empty()).then_some("blockedBy"));
        changed.extend((!change.add_blocks.is_empty()).then_some("blocks"));
        if let Some(owner) = change.owner {
            task.owner = Some(owner).filter(|owner| !owner.is_empty());
            changed.push("owner");
        }
        match change.status {
            None => {}
            Some(WantedStatus::Deleted) => {
                self.tasks.remove(&id);
                for task in self.tasks.values_mut() {
                    task.blocked_by.retain(|other| *other != id);
                }
                return Ok((before, vec!["status"]));
            }
            Some(wanted) => {
                task.status = match wanted {
                    WantedStatus::InProgress => TeamTaskStatus::InProgress,
                    WantedStatus::Completed => TeamTaskStatus::Completed,
                    WantedStatus::Pending | WantedStatus::Deleted => TeamTaskStatus::Pending,
                };
                changed.push("status");
            }
        }
        if task.status == TeamTaskStatus::InProgress && before != task.status {
            let waits_for = self.open_blockers(&task);
            if !waits_for.is_empty() {
                return Err(format!("task {id} is blocked by {}", numbers(&waits_for)));
            }
            if task.owner.is_none() {
                task.owner = Some(by.to_owned());
                changed.push("owner");
            }
        }
        self.tasks.insert(id, task);
        Ok((before, changed))
    }

    /// Whoever works on a task keeps it, unless the lead decides otherwise.
    fn check_owner(
        &self,
        id: u32,
        task: &TeamTask,
        change: &TaskChange,
        by: &str,
    ) -> Result<(), String> {
        let owner = task.owner.as_deref().unwrap_or(by);
        let takes = change.status.is_some() || change.owner.is_some();
        match takes && owner != by && by != LEAD {
            true => Err(format!(
                "task {id} is {owner}'s: take another one, or write to {owner}"
            )),
            false => Ok(()),
        }
    }

    /// Makes `blocked` wait for `blocker`, unless they would wait for each other.
    fn link(&mut self, blocker: u32, blocked: u32) -> Result<(), String> {
        let mut waits_for = vec![blocker];
        let mut seen = Vec::new();
        while let Some(id) = waits_for.pop() {
            if id == blocked {
                return Err(format!(
                    "tasks {blocker} and {blocked} would wait for each other"
                ));
            }
            if !seen.contains(&id) {
                seen.push(id);
                let waiting = self.tasks.get(&id);
                waits_for.extend(waiting.into_iter().flat_map(|task| &task.blocked_by));
            }
        }
        let task = self.tasks.get_mut(&blocked);
        if let Some(task) = task.filter(|task| !task.blocked_by.contains(&blocker)) {
            task.blocked_by.push(blocker);
        }
        Ok(())
    }
}

/// Returns numbers of tasks as people write them: `#1, #2`.
pub(crate) fn numbers(ids: &[u32]) -> String {
    let ids: Vec<_> = ids.iter().map(|id| format!("#{id}")).collect();
    ids.join(", ")
}

fn or_none(names: &[&str]) -> String {
    match names {
        [] => "none".to_owned(),
        names => names.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(count: usize) -> TeamState {
        let mut state = TeamState::default();
        for _ in 0..count {
            state.create(TeamTask::default());
        }
        state
    }

    /// Reads a change: `1 begin`, `1 done`, `1 after 2 3`, `1 before 2`, `1 around 2`, `1 for alice`, `1 delete`.
    fn change(words: &[&str]) -> TaskChange {
        let rest = || words[2..].iter().map(|&word| word.to_owned()).collect();
        let status = |status| TaskChange {
            status: Some(status),
            ..TaskChange::default()
        };
        match words[1] {
            "begin" => status(WantedStatus::InProgress),
            "done" => status(WantedStatus::Completed),
            "leave" => TaskChange {
                owner: Some(String::new()),
                ..status(WantedStatus::Pending)
            },
            "delete" => status(WantedStatus::Deleted),
            "for" => TaskChange {
                owner: Some(words[2].to_owned()),
                ..TaskChange::default()
            },
            "after" => TaskChange {
                add_blocked_by: rest(),
                ..TaskChange::default()
            },
            "before" => TaskChange {
                add_blocks: rest(),
                ..TaskChange::default()
            },
            "around" => TaskChange {
                add_blocked_by: rest(),
                add_blocks: rest(),
                ..TaskChange::default()
            },
            other => panic!("{other}"),
        }
    }

    #[test]
    fn tasks_are_taken_once_and_in_their_order() {
        for (steps, expected) in [
            ("a 1 begin", "#1 in_progress a | #2 pending | #3 pending"),
            (
                "a 1 begin, b 1 begin",
                "task 1 is a's: take another one, or write to a",
            ),
            (
                "a 1 begin, b 1 done",
                "task 1 is a's: take another one, or write to a",
            ),
            (
                "a 1 begin, a 1 leave, b 1 begin",
                "#1 in_progress b | #2 pending | #3 pending",
            ),
            (
                "a 1 begin, team-lead 1 for b, b 1 done",
                "#1 completed b | #2 pending | #3 pending",
            ),
            (
                "team-lead 1 for a, b 1 begin",
                "task 1 is a's: take another one, or write to a",
            ),
            ("a 2 after 1, a 2 begin", "task 2 is blocked by #1"),
            (
                "a 2 after 1, b 1 begin, b 1 done, a 2 begin",
                "#1 completed b | #2 in_progress a after 1 | #3 pending",
            ),
            ("a 1 before 2 3, a 3 begin", "task 3 is blocked by #1"),
            (
                "a 1 before 2, a 1 delete, a 2 begin",
                "#2 in_progress a | #3 pending",
            ),
            ("a 3 delete, a 3 begin", "there is no task 3"),
            (
                "a 1 after 2, a 2 after 1",
                "tasks 1 and 2 would wait for each other",
            ),
            (
                "a 1 after 2, a 2 after 3, a 1 before 3",
                "tasks 1 and 3 would wait for each other",
            ),
            ("a 1 around 2", "tasks 1 and 2 would wait for each other"),
            ("a 2 after 1 1, a 2 begin", "task 2 is blocked by #1"),
            ("a 1 after 1", "tasks 1 and 1 would wait for each other"),
        ] {
            let mut state = state(3);
            let mut said = None;
            for step in steps.split(", ") {
                let words: Vec<_> = step.split(' ').collect();
                let mut next = state.clone();
                match next.change(words[1], change(&words[1..]), words[0]) {
                    Ok(_) => state = next,
                    Err(error) => said = Some(error),
                }
            }
            let lines = state.tasks().map(|(id, task)| {
                let owner = task.owner.iter().map(|owner| format!(" {owner}"));
                let after = task.blocked_by.iter().map(|id| format!(" after {id}"));
                let more: String = owner.chain(after).collect();
                format!("#{id} {}{more}", task.status.as_str())
            });
            let lines: Vec<_> = lines.collect();
            assert_eq!(
                said.unwrap_or_else(|| lines.join(" | ")),
                expected,
                "{steps}"
            );
        }
    }

    #[test]
    fn messages_go_to_those_they_are_for() {
        let mut state = TeamState::default();
        for name in ["a", "b"] {
            state.members.push(Member {
                name: name.to_owned(),
                agent_id: String::new(),
                agent_type: String::new(),
                model: None,
            });
        }
        for (from, to, expected) in [
            ("a", "b", "b"),
            ("a", "*", "team-lead b"),
            (LEAD, "*", "a b"),
            ("b", LEAD, "team-lead"),
            (
                "a",
                "a",
                "there is nobody called `a` to write to; there are: team-lead, b",
            ),
            (
                "a",
                "c",
                "there is nobody called `c` to write to; there are: team-lead, b",
            ),
        ] {
            let found = state.recipients(from, to).map(|names| names.join(" "));
            assert_eq!(
                found.unwrap_or_else(|error| error),
                expected,
                "{from} to {to}"
            );
        }
    }
}
