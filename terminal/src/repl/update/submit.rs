//! The typed text when it is submitted: an answer, a command, a prompt, or a message to the current run.

use std::time::Instant;

use ah_conversation::MailKind;
use reedline::EditCommand;

use super::super::activity::Activity;
use super::super::app::{App, Held};
use super::super::effect::{Effect, Task};
use super::super::{bang, slash};
use super::command;
use super::leaving::leave;
use super::prompt::{self, echo};
use ah_conversation::neutralise;

/// What is said while something is queued here.
const QUEUED: &str = "queued until the agent finishes; Esc to undo";

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
        return app.refuse_remote("a command of your own");
    }
    let is_bang = typed.starts_with('!') && bang::read(&text).is_some();
    if app.work.is_some() && !app.is_remote && (is_bang || needs_expansion(app, &typed, kind)) {
        app.editor.take();
        app.forget_pastes();
        app.history.keep(&text);
        app.held.push_back(Held { typed, text });
        app.hint = Some(QUEUED.to_owned());
        return Vec::new();
    }
    if is_bang {
        app.editor.take();
        app.forget_pastes();
        app.history.keep(&text);
        return begin(app, &typed, text, now);
    }
    if app.work.is_some() && app.pictures.has_any(&typed) {
        app.hint = Some("pictures can be sent once the agent has finished".to_owned());
        return Vec::new();
    }
    let images = app.pictures.take(&typed);
    // Without the blank before it, it would be a command when it is taken up again.
    let is_escaped = typed.starts_with('/') && !app.editor.text().starts_with('/');
    let blank = if is_escaped { " " } else { "" };
    app.editor.take();
    app.forget_pastes();
    app.history.keep(&format!("{blank}{text}"));
    match app.work {
        Some(_) => vec![Effect::Task(Task::Send(kind, text))],
        None if images.is_empty() => prompt::prompt(app, &typed, text, now),
        None => prompt::run(app, &typed, Task::Show(text, images), now),
    }
}

/// Returns whether a message to a run would reach it as it was typed, though it stands for something else: a command of the
/// user's, or files in what is sent afterwards.
fn needs_expansion(app: &App, typed: &str, kind: MailKind) -> bool {
    let mut words = typed.split_whitespace();
    let first = words.next().unwrap_or_default();
    let is_command = app.editor.text().starts_with('/')
        && first.strip_prefix('/').is_some_and(|name| {
            let is_called = |known: &str| {
                known == name || known.rsplit_once(':').is_some_and(|(_, last)| last == name)
            };
            name.starts_with("skill:") || app.suggestions.known().any(|(known, _)| is_called(known))
        });
    let names_file = |word: &str| word.starts_with('@') && word.len() > 1;
    let has_files = names_file(first) || words.any(names_file);
    is_command || kind == MailKind::FollowUp && has_files
}

/// Sends what was held first, now that nothing runs.
pub fn release(app: &mut App, now: Instant) -> Vec<Effect> {
    if app.held.len() == 1 {
        app.hint.take_if(|hint| hint == QUEUED);
    }
    match app.held.pop_front() {
        Some(Held { typed, text }) => begin(app, &typed, text, now),
        None => Vec::new(),
    }
}

/// Runs a text: as a command of the user's, or as a prompt.
fn begin(app: &mut App, typed: &str, text: String, now: Instant) -> Vec<Effect> {
    match bang::read(&text).filter(|_| typed.starts_with('!')) {
        Some((command, is_told)) => {
            app.work = Some(Activity::begin("running", now));
            let shown = Effect::Print(format!("{}\n", neutralise(typed)));
            vec![shown, Effect::Task(Task::Shell(command, is_told))]
        }
        None => prompt::prompt(app, typed, text, now),
    }
}
