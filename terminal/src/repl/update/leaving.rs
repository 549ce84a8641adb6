//! The end of the program that the user asks for, by whatever key or word.

use super::super::app::App;
use super::super::effect::{Effect, Task};

/// Leaves the terminal. The current task is stopped, since nobody could see it any more, unless it goes on elsewhere.
pub fn leave(app: &App) -> Vec<Effect> {
    let mut effects = Vec::new();
    if app.work.is_some() && !app.is_remote {
        effects.push(Effect::Task(Task::Interrupt));
    }
    effects.push(Effect::Quit);
    effects
}
