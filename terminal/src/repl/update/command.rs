//! Slash commands and choices from lists, carried out.

use std::time::Instant;

use ah_conversation::{Goal, MailKind, PermissionMode};

use super::super::activity::Activity;
use super::super::app::App;
use super::super::effect::{About, Effect, Task};
use super::super::output::Wanted;
use super::super::picker::Subject;
use super::super::slash::{self, Action, Call};
use super::leaving::{background, leave};
use super::{prompt, tasks};

/// Carries out a command.
pub fn perform(app: &mut App, call: &Call, now: Instant) -> Vec<Effect> {
    let is_of_terminal = matches!(
        call.command.action,
        Action::Help | Action::Steer | Action::Exit | Action::Say(_) | Action::Background
    );
    if app.is_remote && !is_of_terminal {
        return app.refuse_remote(&format!("/{}", call.command.name));
    }
    let is_possible_meanwhile = matches!(
        call.command.action,
        Action::Help
            | Action::Steer
            | Action::Exit
            | Action::Model
            | Action::Tasks
            | Action::Show
            | Action::Aside
            | Action::Background
    );
    if app.work.is_some() && !is_possible_meanwhile {
        app.hint = Some(format!(
            "/{} is available once the agent has finished; Esc interrupts it",
            call.command.name
        ));
        return Vec::new();
    }
    let typed = app.editor.take();
    if let Some(text) = app.unfolded(typed.trim()) {
        app.history.keep(&text);
    }
    app.forget_pastes();
    let rest = call.rest.clone();
    match call.command.action {
        Action::Help => vec![Effect::Print(slash::help())],
        Action::Model if rest.is_empty() => vec![Effect::Task(Task::List(Subject::Model))],
        Action::Model => vec![Effect::Task(Task::Model(rest))],
        Action::Resume if rest.is_empty() => vec![Effect::Task(Task::List(Subject::Session))],
        Action::Resume => begin(app, "opening", Task::Resume(rest), now),
        Action::Tree => vec![Effect::Task(Task::List(Subject::Message))],
        Action::Fork => begin(app, "copying", Task::Fork, now),
        Action::Compact => begin(app, "compacting", Task::Compact(rest), now),
        Action::Clear => begin(app, "opening", Task::New, now),
        Action::Report(about) => vec![Effect::Task(Task::Report(about))],
        Action::Export => vec![Effect::Task(Task::Export(rest))],
        Action::Changes => vec![Effect::Task(Task::Changes)],
        Action::Rewind(direction) => begin(app, "looking", Task::Rewind(direction), now),
        Action::Steer if rest.is_empty() => Vec::new(),
        Action::Steer => match app.work {
            Some(_) => vec![Effect::Task(Task::Send(MailKind::Steer, rest))],
            None => prompt::prompt(app, &rest.clone(), rest, now),
        },
        Action::Own(arguments) => {
            let arguments = arguments.iter().map(|it| (*it).to_owned());
            begin(app, call.command.name, Task::Own(arguments.collect()), now)
        }
        Action::Plan => plan(app, &rest, now),
        Action::Goal if !matches!(Goal::of(&rest), Goal::Is(..)) => {
            vec![Effect::Task(Task::Goal(rest))]
        }
        Action::Goal => prompt::run(app, &format!("/goal {rest}"), Task::Goal(rest), now),
        Action::Aside => aside(app, rest, now),
        Action::Permissions => vec![Effect::Task(permissions(&rest))],
        Action::AddDirectory => vec![Effect::Task(Task::AddDirectory(rest))],
        Action::StatusLine => vec![Effect::Task(Task::StatusLine(rest))],
        Action::LogIn(arguments) => begin(app, "logging in", Task::LogIn(arguments), now),
        Action::Effort => vec![Effect::Task(Task::Effort(rest))],
        Action::Rename => vec![Effect::Task(Task::Rename(rest))],
        Action::Copy => vec![Effect::Task(Task::Copy)],
        Action::Tasks => tasks::perform(app, &rest, now),
        Action::Show => show(app, &rest),
        Action::Say(text) => vec![Effect::Print(text.to_owned())],
        Action::Background => background(app, rest, now),
        Action::Exit => leave(app),
    }
}

/// Asks a side question: beside what runs, or as a run of its own.
fn aside(app: &mut App, question: String, now: Instant) -> Vec<Effect> {
    if question.is_empty() {
        app.hint = Some("/btw takes a question".to_owned());
        return Vec::new();
    }
    match app.work {
        Some(_) => vec![Effect::Task(Task::Beside(question))],
        None => prompt::run(app, &format!("/btw {question}"), Task::Aside(question), now),
    }
}

/// Shows the outputs of a message, by its number, or offers all.
fn show(app: &mut App, wanted: &str) -> Vec<Effect> {
    match wanted.trim_start_matches('@').parse() {
        Ok(number) => vec![Effect::Task(Task::Output(Wanted::Of(number)))],
        Err(_) if wanted.is_empty() => vec![Effect::Task(Task::List(Subject::Output))],
        Err(_) => {
            app.hint = Some("/show takes the number of a message".to_owned());
            Vec::new()
        }
    }
}

/// Returns the task for `/permissions`: the report, or the change of a rule; without one, that says how rules are changed.
fn permissions(rest: &str) -> Task {
    if rest.is_empty() {
        return Task::Report(About::Permissions);
    }
    let (list, rule) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    Task::Rule(list.to_owned(), rule.trim().to_owned())
}

fn begin(app: &mut App, label: &str, task: Task, now: Instant) -> Vec<Effect> {
    app.work = Some(Activity::begin(label, now));
    vec![Effect::Task(task)]
}

/// Changes to plan mode, and runs a prompt in it if there is one.
fn plan(app: &mut App, words: &str, now: Instant) -> Vec<Effect> {
    if let Some(session) = &mut app.session {
        session.mode = PermissionMode::Plan;
    }
    let mut effects = vec![Effect::Task(Task::Mode(PermissionMode::Plan))];
    if words.is_empty() {
        app.hint = Some("plan mode: nothing is changed until you approve a plan".to_owned());
    } else {
        effects.extend(prompt::prompt(app, words, words.to_owned(), now));
    }
    effects
}

/// Carries out a choice from a list.
pub fn chosen(app: &mut App, subject: Subject, value: &str, now: Instant) -> Vec<Effect> {
    let value = value.to_owned();
    match subject {
        Subject::History => {
            app.call_up(&value);
            Vec::new()
        }
        Subject::Session | Subject::SessionAnywhere => {
            begin(app, "opening", Task::Resume(value), now)
        }
        Subject::Message | Subject::Prompt => begin(app, "opening", Task::GoTo(value), now),
        Subject::Model => vec![Effect::Task(Task::Model(value))],
        Subject::All => found(app, &value, now),
        Subject::Output => vec![Effect::Task(Task::Output(Wanted::Call(value.into())))],
        Subject::Task => tasks::look(app, &value, now),
    }
}

/// Carries out a choice from all that can be found: a command is performed or begun, a file is inserted, a session is opened.
fn found(app: &mut App, value: &str, now: Instant) -> Vec<Effect> {
    let Some(call) = slash::call(value) else {
        if value.starts_with(['@', '/']) {
            let blank = if value.starts_with('@') { "" } else { " " };
            app.typed_mut().insert(format!("{value}{blank}"));
        } else if app.work.is_some() {
            app.hint = Some("sessions can be switched once the agent has finished".to_owned());
        } else {
            return begin(app, "opening", Task::Resume(value.to_owned()), now);
        }
        return Vec::new();
    };
    let wants_words = matches!(
        call.command.action,
        Action::Export | Action::Goal | Action::Steer | Action::Rename | Action::Aside
    );
    let typed = app.editor.take();
    if wants_words {
        app.editor.insert(format!("{value} {typed}"));
        return Vec::new();
    }
    let effects = perform(app, &call, now);
    app.editor.set(&typed);
    effects
}
