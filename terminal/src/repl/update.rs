//! The state transition of the terminal: from an input to the next state and the effects to carry out. It does no I/O.

pub mod command;
mod key;
mod leaving;
mod lists;
mod palette;
pub mod prompt;
pub mod submit;
mod tasks;
mod viewer;

use std::time::{Duration, Instant};

use ah_conversation::{CallReason, EventKind, ExitReason, MailKind, TaskUpdate};
use ah_render::Palette;
use crossterm::event::Event;

use super::activity::{Activity, RunningTool};
use super::app::{App, Unread};
use super::attach::Attached;
use super::background::BackgroundTasks;
use super::effect::{Effect, Task};
use super::facts::Totals;
use super::input::{Ending, Input, Opened, Queued, Then};
use super::notify::Notification;
use super::picker::Picker;
use super::question::{Page, QuestionUpdate};
use super::{keys, slash, status};
use crate::print::Looked;
use ah_conversation::neutralise;

/// Applies an input to the state and returns the effects to carry out.
pub fn update(app: &mut App, input: Input, now: Instant) -> Vec<Effect> {
    if matches!(&input, Input::Noted(text) if text == "\n")
        && app.is_apart
        && app.answer.open.is_empty()
    {
        // What comes next is apart already.
        return Vec::new();
    }
    let is_stale = status::is_stale_after(&input);
    let is_key = matches!(input, Input::Key(_));
    let place = |app: &App| (app.editor.text().to_owned(), app.editor.cursor());
    let before = (is_key || app.suggestions.menu.is_some()).then(|| place(app));
    app.settle(now);
    let mut effects = apply(app, input, now);
    if app.picker.is_none() && effects.iter().any(Effect::opens_list) {
        app.ahead.get_or_insert_default();
    }
    app.settle(now);
    if let Some((text, cursor)) = before {
        let is_other = app.editor.text() != text;
        let is_elsewhere = app.editor.cursor() != cursor && app.suggestions.menu.is_some();
        if is_other && is_key || is_elsewhere {
            effects.extend(key::suggest(app));
        } else if is_other {
            app.suggestions.close();
        }
    }
    if is_stale {
        effects.extend(app.refresh_status());
    }
    effects
}

fn apply(app: &mut App, input: Input, now: Instant) -> Vec<Effect> {
    match input {
        Input::Key(event) => return typed(app, event, now),
        Input::Resized(columns, lines) => app.size = (columns, lines),
        Input::Gone | Input::Stop(_) => return vec![Effect::Quit],
        Input::Suspend => return vec![Effect::Suspend],
        Input::Continued => return vec![Effect::Continue],
        Input::Output(text) => return vec![Effect::Output(text)],
        Input::Written(text) | Input::Noted(text) => return written(app, &text),
        Input::Event(kind) => {
            event(app, &kind);
            return viewer::renewal(app, &kind);
        }
        Input::Progress(..)
        | Input::Began(_)
        | Input::Ran(_)
        | Input::Heard
        | Input::Reading(..)
        | Input::Retry(..)
        | Input::Running(_) => {
            if let Some(work) = &mut app.work {
                advance(work, input, now);
            }
        }
        Input::Doing(id, words) => app.background.note_doing(&id, words),
        Input::Tasks(rows) => {
            if let Some(work) = &mut app.work {
                work.tasks = rows;
            }
        }
        Input::Background(report) => background(app, &report, now),
        Input::Prompts(prompts, servers) => return key::know_prompts(app, prompts, servers),
        Input::Completions(before, items) => key::propose(app, &before, items),
        Input::Files(files) => {
            palette::add_files(app, &files);
            app.suggestions.files = Some(files);
            return key::suggest(app);
        }
        Input::More(subject, entries, replaces) => lists::add(app, subject, entries, replaces),
        Input::Pick(picker) => return picked(app, picker, now),
        // What was typed was meant for the list.
        Input::Unlisted => app.ahead = None,
        Input::Question(change) => return question(app, change, now),
        Input::Sent(queued) => return sent(app, queued),
        Input::Withdrawn(taken, then) => return withdrawn(app, taken, then, now),
        Input::Model(model) => {
            if let Some(session) = &mut app.session {
                session.model = model;
            }
        }
        Input::Spent(totals) => spent(app, *totals),
        Input::Opened(session) => opened(app, *session, now),
        Input::Ended(ending) => return ended(app, ending, now),
        Input::Mail if app.work.is_none() && (app.queued.is_empty() || app.is_remote) => {
            app.work = Some(Activity::run("reading", now));
            return vec![Effect::Task(Task::TakeMail)];
        }
        Input::Tick => viewer::follow(app),
        Input::Line(_) | Input::Mail | Input::Done => {}
        Input::Attached(picture) => attached(app, picture),
        Input::Copied(text) => {
            app.hint = Some(format!("copied {} characters", text.chars().count()));
            return vec![Effect::Copy(text)];
        }
        Input::Status(said) => app.status.said = Some(said),
        Input::Typed(text) => app.give_back(&text),
        Input::View(sections) => viewer::show(app, sections),
        Input::Lend(lent) => return vec![Effect::Lend(lent)],
    }
    Vec::new()
}

fn written(app: &mut App, text: &str) -> Vec<Effect> {
    let whole = app.answer.feed(text);
    whole.map(Effect::Print).into_iter().collect()
}

fn attached(app: &mut App, picture: Attached) {
    match picture {
        Attached::Shown(image) => app.pictures.insert(image, &mut app.editor),
        Attached::Not(error, text) => {
            app.hint = Some(error);
            app.editor.insert(text.unwrap_or_default());
        }
    }
}

/// Applies a key; while a list is awaited, it is kept for that.
fn typed(app: &mut App, event: Event, now: Instant) -> Vec<Effect> {
    match app.ahead.take() {
        Some(mut ahead) if !keys::gives_up(&event) => {
            ahead.push(event);
            app.ahead = Some(ahead);
            Vec::new()
        }
        _ => key::key(app, event, now),
    }
}

/// Opens a list, and applies the keys that it was awaited with.
fn picked(app: &mut App, picker: Picker, now: Instant) -> Vec<Effect> {
    lists::pick(app, picker);
    let ahead = app.ahead.take().unwrap_or_default().into_iter();
    ahead
        .flat_map(|event| update(app, Input::Key(event), now))
        .collect()
}

/// Notes how far the work is.
fn advance(work: &mut Activity, input: Input, now: Instant) {
    match input {
        Input::Progress(call, progress) => {
            if let Some(tool) = work.tools.iter_mut().find(|tool| tool.call == call) {
                tool.key = crate::print::text::measure(&progress);
            }
        }
        Input::Heard => work.heard = Some(now),
        Input::Ran(call) => work.tools.retain(|tool| tool.call != call),
        Input::Reading(read, total) => {
            work.label = match read < total {
                true => crate::print::text::reading(read, total),
                false => "thinking".to_owned(),
            };
        }
        Input::Retry(delay, skip) => work.retry = Some((now + delay, skip)),
        Input::Running(tool) => note_running(work, tool),
        Input::Began(ago) => {
            work.since = now.checked_sub(Duration::from_millis(ago)).unwrap_or(now);
        }
        _ => {}
    }
}

/// Notes a running tool; of one that is known, the output so far.
fn note_running(work: &mut Activity, tool: RunningTool) {
    if work.is_run {
        "working".clone_into(&mut work.label);
    }
    match work.tools.iter_mut().find(|known| known.call == tool.call) {
        Some(known) => known.output = tool.output,
        None => work.tools.push(tool),
    }
}

/// Notes a queued message. If what it was for has ended meanwhile, it is the next prompt.
fn sent(app: &mut App, queued: Queued) -> Vec<Effect> {
    app.queued.push(queued);
    if app.work.is_some() || app.is_remote {
        return Vec::new();
    }
    let late = app.queued.clone();
    vec![Effect::Task(Task::Withdraw(late, Then::Prompt))]
}

/// Shows what the session has cost so far.
fn spent(app: &mut App, totals: Totals) {
    if let Some(session) = &mut app.session {
        session.cost = totals.cost.usd();
        if let Some(facts) = &mut session.facts {
            facts.totals = totals;
        }
    }
}

fn opened(app: &mut App, session: Opened, now: Instant) {
    let former = app.session.as_ref().map(|former| &former.session);
    let is_another = former.is_some_and(|former| *former != session.session);
    if is_another {
        app.background = BackgroundTasks::default();
    }
    // It has got its first words here, perhaps before it was open.
    if session.title.is_some() || is_another {
        app.title.clone_from(&session.title);
    }
    app.session = Some(session);
    app.begun.get_or_insert(now);
    app.notifier.typed_at.get_or_insert(now);
}

fn question(app: &mut App, change: QuestionUpdate, now: Instant) -> Vec<Effect> {
    let is_asked = matches!(change, QuestionUpdate::Asked(_, _, None));
    if is_asked && let Some(work) = &mut app.work {
        // They are above the question.
        work.looked = Looked::default();
    }
    let is_own = app.work.as_ref().is_some_and(|work| work.is_stopping);
    let is_late = app.questions.is_withdrawn_by(&change) && !is_own && is_being_typed(app, now);
    let page = Page {
        size: app.size,
        palette: if app.colours {
            Palette::Ansi
        } else {
            Palette::Plain
        },
    };
    let printed = app
        .questions
        .update(change, &mut app.reply, page)
        .map(Effect::Print);
    if is_late && !app.questions.is_answering() {
        app.is_answer_late = true;
        app.hint = Some("the question is closed; the answer you typed was dropped".to_owned());
    }
    let mut effects: Vec<_> = printed.into_iter().collect();
    if is_asked && let Some(panel) = app.questions.first() {
        effects.extend(notify(app.notifier.waiting(&panel.sheet.head, now)));
    }
    effects
}

/// Whether an answer is being typed, or the next key would begin one in the same breath.
fn is_being_typed(app: &App, now: Instant) -> bool {
    !app.reply.is_empty() || app.is_in_one_breath(now)
}

/// Applies a report of a task beside the conversation. The end of one in the background is told: nothing else shows it.
fn background(app: &mut App, (task, report): &(ah_conversation::Task, TaskUpdate), now: Instant) {
    app.background.note(task, report, now);
    if let (TaskUpdate::Ended { ending, .. }, Some(known)) = (report, app.background.find(&task.id))
    {
        let (number, ending) = (known.number, ending.as_str());
        app.hint = Some(format!(
            "task #{number} {ending}; /tasks {number} shows its output"
        ));
    }
}

fn notify(notification: Option<Notification>) -> Vec<Effect> {
    let Some(notification) = notification else {
        return Vec::new();
    };
    let mut effects: Vec<_> = notification
        .sequence
        .map(Effect::Ring)
        .into_iter()
        .collect();
    if notification.has_command {
        let task = Task::Notify(notification.kind, notification.text);
        effects.push(Effect::Task(task));
    }
    effects
}

fn event(app: &mut App, kind: &EventKind) {
    match kind {
        EventKind::SteeringReceived { content, .. }
        | EventKind::FollowupReceived { content, .. } => {
            if let Some(at) = app.queued.iter().position(|queued| queued.text == *content) {
                app.queued.remove(at);
            }
        }
        EventKind::ApiCallEnd {
            input_tokens,
            output_tokens,
            cache_creation_input_tokens,
            cache_read_input_tokens,
            reason,
            ..
        } if CallReason::is_of_conversation(*reason) => {
            let tokens = input_tokens
                + output_tokens
                + cache_creation_input_tokens
                + cache_read_input_tokens;
            if let Some(work) = &mut app.work {
                work.tokens += tokens;
            }
            // What a summary was made of is the context no more.
            if let Some(session) = app.session.as_mut().filter(|_| reason.is_none()) {
                session.context = tokens;
            }
        }
        EventKind::Checked { verification, .. } => {
            if let Some(session) = &mut app.session {
                session.check = Some(Box::new(verification.clone()));
            }
        }
        _ => {}
    }
    let beside = app.background.running();
    if let Some(work) = &mut app.work {
        event_of_work(work, beside, kind);
    }
}

/// Notes what happens in the present work; `beside` tasks run in the background.
fn event_of_work(work: &mut Activity, beside: usize, kind: &EventKind) {
    match kind {
        EventKind::ApiCallStart { .. } => {
            work.tools.clear();
            (work.retry, work.heard) = (None, None);
            "thinking".clone_into(&mut work.label);
        }
        EventKind::TextDelta { .. } => {
            work.looked = Looked::default();
            "answering".clone_into(&mut work.label);
        }
        EventKind::ToolCallStart { .. } => "working".clone_into(&mut work.label),
        EventKind::ToolCallEnd {
            tool_name,
            tool_key,
            is_error,
            ..
        } if *is_error || !work.looked.add(tool_name, tool_key, 0) => {
            work.looked = Looked::default();
        }
        EventKind::ApiCallEnd { reason: None, .. } => {
            work.failures = (0, String::new());
            work.heard = None;
            // Where no call follows, they are all that the run waits for.
            match beside {
                0 => {}
                1 => "waiting for 1 task".clone_into(&mut work.label),
                tasks => work.label = format!("waiting for {tasks} tasks"),
            }
        }
        EventKind::CompactionTriggered { .. } => "compacting".clone_into(&mut work.label),
        EventKind::Retry { error, .. } => {
            work.failures = (work.failures.0 + 1, error.clone());
            "waiting".clone_into(&mut work.label);
        }
        EventKind::AgentEnd { stop_reason, .. } => {
            work.tools.clear();
            work.tasks.clear();
            work.retry = None;
            work.looked = Looked::default();
            work.is_stopping |= *stop_reason == ExitReason::Interrupted;
        }
        _ => {}
    }
}

/// Ends the current task. Queued messages go back to the editor if it was stopped or failed, and are the next prompt
/// otherwise.
fn ended(app: &mut App, ending: Ending, now: Instant) -> Vec<Effect> {
    if ending == Ending::Left {
        return leaving::left(app);
    }
    let was_leaving = app.work.as_ref().is_some_and(|work| work.is_leaving);
    if was_leaving && ending == Ending::Well {
        app.hint = Some("the run has ended here".to_owned());
    }
    let since = app.work.take().map(|work| work.since);
    let notification = since
        .filter(|_| app.queued.is_empty() && app.held.is_empty())
        .and_then(|since| app.notifier.done(since, &ending, now));
    let mut effects: Vec<_> = app.answer.finish().map(Effect::Print).into_iter().collect();
    let mut then = Then::GiveBack;
    app.unread = match &ending {
        Ending::Well => Some(Unread::Answer),
        Ending::Interrupted | Ending::Left => None,
        Ending::Failed(..) => Some(Unread::Failure),
    };
    match ending {
        Ending::Well => then = Then::Prompt,
        Ending::Left => {}
        Ending::Interrupted => effects.push(Effect::Print(app.warning("interrupted"))),
        Ending::Failed(message, hint) => {
            effects.push(Effect::Print(app.warning(&format!("error: {message}"))));
            if let Some(hint) = hint {
                let hint = match app.is_remote {
                    true => hint,
                    false => slash::in_its_words(&hint),
                };
                effects.push(Effect::Print(format!("hint: {}\n", neutralise(&hint))));
            }
        }
    }
    effects.push(Effect::Print("\n".to_owned()));
    // In another process they stay queued, and are read in the next run.
    if !app.queued.is_empty() && !app.is_remote {
        let queued = app.queued.clone();
        effects.push(Effect::Task(Task::Withdraw(queued, then)));
    } else if then == Then::Prompt {
        effects.extend(submit::release(app, now));
    }
    if then == Then::GiveBack {
        app.give_held_back();
    }
    effects.extend(notify(notification));
    effects
}

fn withdrawn(app: &mut App, taken: Vec<Queued>, then: Then, now: Instant) -> Vec<Effect> {
    app.queued
        .retain(|queued| !taken.iter().any(|taken| taken.id == queued.id));
    let texts: Vec<_> = taken.into_iter().map(|taken| taken.text).collect();
    if texts.is_empty() {
        // The agent has read them in the meantime.
        return match then {
            Then::Prompt if app.work.is_none() => submit::release(app, now),
            Then::Prompt | Then::GiveBack => Vec::new(),
        };
    }
    let text = texts.join("\n\n");
    match then {
        // The next prompt runs already.
        Then::Prompt if app.work.is_some() => vec![Effect::Task(Task::Send(MailKind::Steer, text))],
        Then::Prompt => prompt::prompt(app, &text.clone(), text, now),
        Then::GiveBack => {
            app.give_back(&text);
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests;
