//! `/tasks`: the tasks beside the conversation.

use std::time::Instant;

use super::super::app::App;
use super::super::effect::{Effect, Task};
use super::lists::pick;

/// Lists the tasks beside the conversation, shows what one has written, or stops one.
pub fn perform(app: &mut App, rest: &str, now: Instant) -> Vec<Effect> {
    if rest.is_empty() {
        match app.background.picker(now) {
            Some(picker) => pick(app, picker),
            None => {
                let none = "  No background tasks.\n\n".to_owned();
                return vec![Effect::Print(none)];
            }
        }
        return Vec::new();
    }
    match rest.strip_prefix("stop") {
        Some(wanted) => end(app, wanted.trim()),
        None => look(app, rest, now),
    }
}

/// Shows what a task beside the conversation has written.
pub fn look(app: &mut App, wanted: &str, now: Instant) -> Vec<Effect> {
    let Some(task) = app.background.find(wanted) else {
        return no_task(app, wanted);
    };
    let head = format!("#{} {}, {}:", task.number, task.label, task.state(now));
    vec![Effect::Task(Task::Look(task.id.clone(), head))]
}

/// Stops a task beside the conversation.
pub fn end(app: &mut App, wanted: &str) -> Vec<Effect> {
    if wanted.is_empty() {
        app.hint = Some("/tasks stop takes the number of a task; /tasks lists them".to_owned());
        return Vec::new();
    }
    let Some(task) = app.background.find(wanted) else {
        return no_task(app, wanted);
    };
    if !task.runs() {
        app.hint = Some(format!("task #{} has ended already", task.number));
        return Vec::new();
    }
    app.hint = Some(format!("stopping task #{}", task.number));
    vec![Effect::Task(Task::End(task.id.clone()))]
}

fn no_task(app: &mut App, wanted: &str) -> Vec<Effect> {
    app.hint = Some(format!("there is no task {wanted}; /tasks lists them"));
    Vec::new()
}
