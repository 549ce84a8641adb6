//! The end of the program that the user asks for, by whatever key or word.

use super::super::app::App;
use super::super::effect::{Effect, Task};

/// Leaves the terminal. The current task is stopped, since nobody could see it any more, unless it goes on elsewhere. What
/// was read of an answer stays on the screen, and what was typed can be called up the next time.
pub fn leave(app: &mut App) -> Vec<Effect> {
    app.keep_draft();
    let mut effects = Vec::new();
    if app.work.is_some() {
        let rows = std::mem::take(&mut app.answer.rest);
        effects.extend(app.answer.finish().map(Effect::Print));
        effects.extend((!rows.is_empty()).then(|| Effect::Print(rows.join("\n") + "\n")));
        if !app.is_remote {
            effects.push(Effect::Print(app.warning("interrupted")));
            effects.push(Effect::Task(Task::Interrupt));
        }
        effects.push(Effect::Print("\n".to_owned()));
    }
    let stopped = match app.background.running() {
        _ if app.is_remote => None,
        0 => None,
        1 => Some("1 background task is stopped".to_owned()),
        tasks => Some(format!("{tasks} background tasks are stopped")),
    };
    effects.extend(stopped.map(|stopped| Effect::Print(app.warning(&stopped))));
    effects.push(Effect::Quit);
    effects
}
