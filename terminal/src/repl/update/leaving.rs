//! The end of the program that the user asks for, by whatever key or word: with the end of what runs, or in the background.

use std::time::Instant;

use ah_conversation::MailKind;

use super::super::app::{App, Held};
use super::super::effect::{Effect, Task};

/// What a session that no other process can open is told.
const BOUND: &str = "only a stored session of this folder can go to the background";

/// What is said while a command of the user's is queued.
const HELD: &str = "the queued !COMMAND runs in this terminal only; Esc takes it back";

/// Leaves the run to a process in the background: once its step has ended, or at once if that was asked before.
pub fn to_background(app: &mut App) -> Vec<Effect> {
    if app.is_remote {
        return leave(app);
    }
    let is_bound = is_bound(app);
    let hint = match &mut app.work {
        None => "nothing is running; /background PROMPT continues in the background",
        Some(_) if is_bound => BOUND,
        Some(_) if app.held.iter().any(Held::is_command) => HELD,
        Some(work) if !work.is_run => "only a run of the agent can go to the background",
        Some(work) => {
            let is_at_once = work.is_leaving || work.retry.is_some();
            work.is_leaving = true;
            return vec![Effect::Task(Task::Leave(is_at_once))];
        }
    };
    app.hint = Some(hint.to_owned());
    Vec::new()
}

/// Carries out `/background`: a prompt is for the process in the background.
pub fn background(app: &mut App, prompt: String, now: Instant) -> Vec<Effect> {
    if prompt.is_empty() || app.is_remote {
        return to_background(app);
    }
    if is_bound(app) {
        app.hint = Some(BOUND.to_owned());
        return Vec::new();
    }
    match &app.work {
        Some(work) if work.is_run => {
            let send = Effect::Task(Task::Send(MailKind::FollowUp, prompt));
            [send].into_iter().chain(to_background(app)).collect()
        }
        Some(_) => to_background(app),
        None => super::prompt::run(app, &prompt.clone(), Task::HandOver(prompt), now),
    }
}

/// Shows the end of what was read of a run that a process in the background continues. What is queued goes along; what was
/// typed can be called up the next time.
pub fn left(app: &mut App) -> Vec<Effect> {
    app.keep_draft();
    let queued = app.held.drain(..).map(|held| held.text).collect();
    let printed = app.answer.finish().map(Effect::Print).into_iter();
    printed
        .chain([Effect::Task(Task::Queued(queued))])
        .collect()
}

fn is_bound(app: &App) -> bool {
    let session = app.session.as_ref();
    session.is_some_and(|session| session.is_bound)
}

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
        1 => Some("1 background task stopped".to_owned()),
        tasks => Some(format!("{tasks} background tasks stopped")),
    };
    effects.extend(stopped.map(|stopped| Effect::Print(app.warning(&stopped))));
    effects.push(Effect::Quit);
    effects
}
