//! Prompts: the typed text is printed above, and the session is given its task.

use std::time::Instant;

use super::super::activity::Activity;
use super::super::app::App;
use super::super::effect::{Effect, Task};
use super::super::title;
use crate::print::said;
use ah_conversation::{neutralise, title_of};

/// Runs a prompt and prints it as it was typed.
pub fn prompt(app: &mut App, typed: &str, text: String, now: Instant) -> Vec<Effect> {
    run(app, typed, Task::Prompt(text), now)
}

/// Runs the task of a prompt and prints it as it was typed.
pub fn run(app: &mut App, typed: &str, task: Task, now: Instant) -> Vec<Effect> {
    app.work = Some(match &task {
        // Nobody could read the answer elsewhere.
        Task::Aside(_) => Activity::begin("starting", now),
        _ => Activity::run("starting", now),
    });
    app.title
        .get_or_insert_with(|| title_of(typed, title::MOST));
    vec![echo(app, typed), Effect::Task(task)]
}

/// Prints the typed text, apart from what is above it.
pub fn echo(app: &App, typed: &str) -> Effect {
    let shown = neutralise(typed).replace('\n', "\n  ");
    let said = said(&format!("> {shown}"), app.colours);
    let before = if app.is_apart { "" } else { "\n" };
    Effect::Print(format!("{before}{said}\n\n"))
}
