//! The typed text when it is submitted: an answer, a command, a prompt, or a message to the current run.

use std::time::Instant;

use ah_conversation::MailKind;
use reedline::EditCommand;

use super::super::activity::Activity;
use super::super::app::App;
use super::super::effect::{Effect, Task};
use super::super::{bang, slash};
use super::command;
use super::leaving::leave;
use super::prompt::{self, echo};
use ah_conversation::neutralise;

/// Applies Enter: a line that ends with a backslash continues, everything else is submitted.
pub fn enter(app: &mut App, now: Instant) -> Vec<Effect> {
    if app.questions.is_answering() {
        if is_exit(app.reply.text()) {
            return leave(app);
        }
        let typed = app.reply.text().to_owned();
        if let Some(line) = app.unfolded(&typed) {
            app.questions.answer(line, &mut app.reply);
            app.forget_pastes();
        }
        return Vec::new();
    }
    if app.editor.is_empty()
        && let Some((_, delay)) = app.work.as_mut().and_then(|work| work.retry.take())
    {
        return vec![Effect::Skip(delay)];
    }
    let is_command = app.editor.text().starts_with('/');
    if app.suggestions.accept(&mut app.editor) && !is_command {
        return Vec::new();
    }
    let before = &app.editor.text()[..app.editor.cursor()];
    if before.ends_with('\\') {
        app.editor
            .edit(&[EditCommand::Backspace, EditCommand::InsertNewline]);
        return Vec::new();
    }
    let typed = app.editor.text().trim().to_owned();
    let mut effects = submit(app, MailKind::Steer, now);
    if slash::call(&typed).is_some()
        && effects.iter().any(Effect::prints)
        && !effects.iter().any(Effect::is_prompt)
    {
        effects.insert(0, echo(app, &typed));
    }
    effects
}

/// Returns whether a line ends the program wherever it is typed.
pub fn is_exit(line: &str) -> bool {
    matches!(line.trim(), "/exit" | "/quit")
}

/// Submits a line that was typed without the editor. The terminal has echoed it already.
pub fn submit_line(app: &mut App, now: Instant) -> Vec<Effect> {
    let mut effects = submit(app, MailKind::Steer, now);
    if app.work.is_some() {
        effects.retain(|effect| !matches!(effect, Effect::Print(_)));
    }
    effects
}

/// Submits the typed text: as a prompt, a command of the terminal, or a message to the current run.
pub fn submit(app: &mut App, kind: MailKind, now: Instant) -> Vec<Effect> {
    let typed = app.editor.text().trim().to_owned();
    if typed.is_empty() {
        return Vec::new();
    }
    let Some(text) = app.unfolded(&typed) else {
        return Vec::new();
    };
    if let Some(call) = slash::call(&typed) {
        let rest = app.unfolded(&call.rest).unwrap_or_default();
        let rest = rest.trim().to_owned();
        return command::perform(app, &slash::Call { rest, ..call }, now);
    }
    let refusal = {
        let named = app.suggestions.known().map(|(name, _)| name.as_str());
        slash::unknown(&typed, named)
    };
    if app.editor.text().starts_with('/')
        && let Some(refusal) = refusal
    {
        app.editor.take();
        app.history.keep(&typed);
        let echoed = app.work.is_none().then(|| echo(app, &typed));
        let refusal = format!("{refusal} To send it as it is, begin with a space.\n\n");
        return echoed.into_iter().chain([Effect::Print(refusal)]).collect();
    }
    if app.is_remote && bang::read(&typed).is_some() {
        return app.refuse_remote("no commands of your own");
    }
    if app.work.is_none()
        && let Some((command, is_told)) = bang::read(&text).filter(|_| typed.starts_with('!'))
    {
        app.editor.take();
        app.forget_pastes();
        app.history.keep(&text);
        app.work = Some(Activity::begin("running", now));
        let shown = Effect::Print(format!("{}\n", neutralise(&typed)));
        return vec![shown, Effect::Task(Task::Shell(command, is_told))];
    }
    if app.work.is_some() && app.pictures.has_any(&typed) {
        app.hint = Some("pictures can be sent once the agent has finished".to_owned());
        return Vec::new();
    }
    let images = app.pictures.take(&typed);
    app.editor.take();
    app.forget_pastes();
    app.history.keep(&text);
    match app.work {
        Some(_) => vec![Effect::Task(Task::Send(kind, text))],
        None if images.is_empty() => prompt::prompt(app, &typed, text, now),
        None => prompt::run(app, &typed, Task::Show(text, images), now),
    }
}
