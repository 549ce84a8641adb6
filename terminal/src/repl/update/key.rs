//! Keys: what they do to the editor, the open list, the suggestions and the run.

use std::time::Instant;

use ah_conversation::{MailKind, ServerPrompt};
use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use reedline::{EditCommand, ReedlineEvent};

use super::super::app::App;
use super::super::effect::{Effect, Task};
use super::super::input::Then;
use super::super::keys::{self, Chord, Own};
use super::super::picker::{Entry, Picker, Subject};
use super::super::{attach, key_list, paste};
use super::leaving::{leave, to_background};
use super::lists::{close_picker, pick};
use super::submit::{enter, submit};
use super::{command, palette, tasks, viewer};

/// Applies a key, a paste, or a change of focus.
pub fn key(app: &mut App, event: Event, now: Instant) -> Vec<Effect> {
    let event = match event {
        Event::Paste(_) if app.viewer.is_some() => return Vec::new(),
        Event::Paste(text) => {
            return insert_paste(app, &text, now);
        }
        Event::FocusGained | Event::FocusLost => {
            app.notifier.is_focused = Some(event == Event::FocusGained);
            return Vec::new();
        }
        Event::Resize(..) | Event::Mouse(_) => return Vec::new(),
        Event::Key(key) => key,
    };
    let is_in_one_breath = app.is_in_one_breath(now);
    app.notifier.typed_at = Some(now);
    app.typed_at = Some(now);
    app.unread = None;
    // An answer that comes late is no message.
    if std::mem::take(&mut app.is_answer_late) && is_in_one_breath && is_of_answer(&event) {
        app.is_answer_late = event.code != KeyCode::Enter;
        return Vec::new();
    }
    app.hint = None;
    if app.viewer.is_some() {
        return viewer::press(app, event);
    }
    if app.picker.is_some() {
        return choose(app, event, now);
    }
    let had_prefix = std::mem::take(&mut app.has_prefix);
    match keys::chord(had_prefix, &event) {
        Chord::Prefix => {
            app.has_prefix = true;
            return Vec::new();
        }
        Chord::OpenEditor => return vec![Effect::OpenEditor],
        Chord::None => {}
    }
    let was_leaving = std::mem::take(&mut app.is_leaving);
    let was_going_back = std::mem::take(&mut app.is_going_back);
    if app.questions.is_answering()
        && let Some(key) = keys::choosing(&event, !app.reply.is_empty())
        && app.questions.choose(key)
    {
        return Vec::new();
    }
    match keys::own(&event) {
        Some(Own::Interrupt) => return interrupt(app, was_leaving),
        Some(Own::Escape) if app.suggestions.close() => return Vec::new(),
        Some(Own::Turn) if app.suggestions.accept(&mut app.editor) => return Vec::new(),
        Some(Own::Escape) if !app.typed().needs_esc() => return escape(app, was_going_back),
        Some(Own::FollowUp) if app.work.is_some() && !app.questions.is_answering() => {
            return submit(app, MailKind::FollowUp, now);
        }
        Some(Own::FollowUp) => {
            app.typed_mut().edit(&[EditCommand::InsertNewline]);
            return Vec::new();
        }
        Some(Own::Turn) if app.questions.switch() => return Vec::new(),
        Some(Own::Mode) if app.is_remote => return app.refuse_remote("changing the mode"),
        Some(Own::Mode) => return next_mode(app),
        Some(Own::Output) if app.is_remote => return app.refuse_remote("the viewer"),
        Some(Own::Paste) if app.is_remote => return app.refuse_remote("adding a picture"),
        Some(Own::Output) => return viewer::open(app),
        Some(Own::Paste) => return vec![Effect::Task(Task::Attach(attach::Source::Clipboard))],
        Some(Own::Suspend) => return vec![Effect::Suspend],
        Some(Own::Find) => return palette::open(app),
        // With something typed, it moves the cursor.
        Some(Own::Background) if app.typed().is_empty() => return to_background(app),
        Some(Own::Undo) => app.typed_mut().edit(&[EditCommand::Undo]),
        Some(Own::Escape | Own::Turn | Own::Background) | None => {}
    }
    let event = plain(event);
    let meaning = app.typed_mut().read(Event::Key(event));
    apply(app, meaning, now).unwrap_or_default()
}

/// Whether a key types an answer, or sends it.
fn is_of_answer(event: &KeyEvent) -> bool {
    let is_plain = (event.modifiers - KeyModifiers::SHIFT).is_empty();
    is_plain
        && matches!(
            event.code,
            KeyCode::Char(_) | KeyCode::Backspace | KeyCode::Enter
        )
}

/// Inserts a paste where keys go to; a picture into the text for the conversation.
fn insert_paste(app: &mut App, text: &str, now: Instant) -> Vec<Effect> {
    app.typed_at = Some(now);
    let is_message = app.picker.is_none() && !app.questions.is_answering() && !app.is_remote;
    if is_message && let Some(source) = attach::source(text) {
        return vec![Effect::Task(Task::Attach(source))];
    }
    if let Some(picker) = &mut app.picker {
        let words: Vec<_> = text.split_whitespace().collect();
        app.filter.insert(words.join(" "));
        picker.narrow(app.filter.text());
        return Vec::new();
    }
    let editor = match app.questions.is_answering() {
        true => &mut app.reply,
        false => &mut app.editor,
    };
    app.pastes.insert(text, editor);
    Vec::new()
}

/// Removes Shift from a key that means the same without it.
fn plain(event: KeyEvent) -> KeyEvent {
    match event.code {
        KeyCode::Backspace if event.modifiers == KeyModifiers::SHIFT => KeyEvent {
            modifiers: KeyModifiers::NONE,
            ..event
        },
        _ => event,
    }
}

/// Scrolls the list of keys, if it is shown and longer than the screen.
fn step_keys(app: &mut App, is_down: bool) -> bool {
    let size = (app.size.0.max(10), app.size.1);
    let next = key_list::step(app.first_key, is_down, size).filter(|_| app.shows_keys());
    app.first_key = next.unwrap_or(app.first_key);
    next.is_some()
}

/// Applies an event of the editor; `None` if it has no meaning here.
fn apply(app: &mut App, event: ReedlineEvent, now: Instant) -> Option<Vec<Effect>> {
    let none = Some(Vec::new());
    match event {
        ReedlineEvent::Edit(commands) => {
            app.history.settle();
            app.first_key = 0;
            edit(app, &commands);
            none
        }
        ReedlineEvent::Enter | ReedlineEvent::Submit | ReedlineEvent::SubmitOrNewline => {
            Some(enter(app, now))
        }
        ReedlineEvent::CtrlD if app.typed().is_empty() => Some(leave(app)),
        ReedlineEvent::CtrlD => {
            edit(app, &[EditCommand::Delete]);
            none
        }
        ReedlineEvent::ClearScreen => Some(vec![Effect::ScrollAway]),
        ReedlineEvent::OpenEditor => Some(vec![Effect::OpenEditor]),
        ReedlineEvent::Up | ReedlineEvent::MenuUp if app.suggestions.step(false) => none,
        ReedlineEvent::Down | ReedlineEvent::MenuDown if app.suggestions.step(true) => none,
        ReedlineEvent::Up if step_keys(app, false) => none,
        ReedlineEvent::Down if step_keys(app, true) => none,
        ReedlineEvent::SearchHistory => {
            let entries = app.history.search("").map(|line| Entry {
                label: line.replace('\n', " "),
                value: line.to_owned(),
            });
            let picker = Picker::new(Subject::History, entries.collect());
            pick(app, picker);
            none
        }
        ReedlineEvent::Up => Some(up(app)),
        ReedlineEvent::Down => Some(down(app)),
        ReedlineEvent::PreviousHistory => Some(earlier(app)),
        ReedlineEvent::NextHistory => Some(later(app)),
        ReedlineEvent::Left => moved(app, EditCommand::MoveLeft { select: false }),
        ReedlineEvent::Right => moved(app, EditCommand::MoveRight { select: false }),
        ReedlineEvent::ToStart => moved(app, EditCommand::MoveToStart { select: false }),
        ReedlineEvent::ToEnd => moved(app, EditCommand::MoveToEnd { select: false }),
        ReedlineEvent::Multiple(events) => {
            let effects = events
                .into_iter()
                .filter_map(|event| apply(app, event, now));
            Some(effects.flatten().collect())
        }
        ReedlineEvent::UntilFound(events) => {
            events.into_iter().find_map(|event| apply(app, event, now))
        }
        ReedlineEvent::Repaint | ReedlineEvent::Esc => none,
        _ => None,
    }
}

/// Applies edit commands. One that would erase a part of the token of a paste or a picture erases all of it.
fn edit(app: &mut App, commands: &[EditCommand]) {
    let is_before = match commands {
        [EditCommand::Backspace | EditCommand::BackspaceWord | EditCommand::CutWordLeft] => {
            Some(true)
        }
        [EditCommand::Delete | EditCommand::DeleteWord | EditCommand::CutWordRight] => Some(false),
        _ => None,
    };
    let typed = app.typed();
    let pastes = app.pastes.tokens().map(|(token, _)| token);
    let place = is_before.and_then(|is_before| {
        pastes
            .chain(app.pictures.tokens())
            .find_map(|token| paste::at_cursor(typed.text(), typed.cursor(), is_before, &token))
    });
    match place {
        Some(place) => app.typed_mut().replace(place, ""),
        None => app.typed_mut().edit(commands),
    }
}

/// Opens the menu of completions for the word at the cursor, if nothing else is being typed.
pub fn suggest(app: &mut App) -> Vec<Effect> {
    if app.questions.is_answering() || app.picker.is_some() {
        app.suggestions.close();
        return Vec::new();
    }
    app.suggestions.look(&app.editor)
}

/// Learns which prompts MCP servers offer, and suggests them where one is being typed.
pub fn know_prompts(
    app: &mut App,
    prompts: Vec<ServerPrompt>,
    servers: Vec<String>,
) -> Vec<Effect> {
    app.suggestions.servers = servers;
    let about = |prompt: ServerPrompt| {
        let text = format!("{} {}", prompt.hint(), prompt.description);
        (prompt.command(), text.trim().to_owned())
    };
    app.suggestions.prompts.clone_from(&prompts);
    app.suggestions.served = prompts.into_iter().map(about).collect();
    match app.editor.text().starts_with('/') {
        true => suggest(app),
        false => Vec::new(),
    }
}

/// Shows what a server proposes for the word at the cursor.
pub fn propose(app: &mut App, before: &str, items: Vec<(String, String)>) {
    if !app.questions.is_answering() && app.picker.is_none() {
        app.suggestions.propose(&app.editor, before, items);
    }
}

/// Switches to the next permission mode.
fn next_mode(app: &mut App) -> Vec<Effect> {
    let Some(session) = &mut app.session else {
        return Vec::new();
    };
    session.mode = keys::next_mode(session.mode, session.is_sandboxed, session.may_bypass);
    let mut effects = vec![Effect::Task(Task::Mode(session.mode))];
    effects.extend(app.refresh_status());
    effects
}

/// Applies a key while a list is open.
fn choose(app: &mut App, event: KeyEvent, now: Instant) -> Vec<Effect> {
    let Some(picker) = &mut app.picker else {
        return Vec::new();
    };
    match (event.modifiers, event.code) {
        (_, KeyCode::Esc) | (KeyModifiers::CONTROL, KeyCode::Char('c' | 'd')) => {
            close_picker(app);
        }
        (KeyModifiers::CONTROL, KeyCode::Char('a')) if picker.subject == Subject::Session => {
            return vec![Effect::Task(Task::List(Subject::SessionAnywhere))];
        }
        (KeyModifiers::CONTROL, KeyCode::Char('a'))
            if picker.subject == Subject::SessionAnywhere =>
        {
            return vec![Effect::Task(Task::List(Subject::Session))];
        }
        (KeyModifiers::CONTROL, KeyCode::Char('b'))
            if matches!(picker.subject, Subject::Session | Subject::SessionAnywhere) =>
        {
            picker.turn_branch(app.filter.text());
        }
        (KeyModifiers::CONTROL, KeyCode::Char('x')) if picker.subject == Subject::Task => {
            let chosen = picker.chosen().map(|entry| entry.value.clone());
            close_picker(app);
            return chosen.map_or_else(Vec::new, |id| tasks::end(app, &id));
        }
        (KeyModifiers::CONTROL, KeyCode::Char('r' | 'n')) | (_, KeyCode::Down) => picker.down(),
        (KeyModifiers::CONTROL, KeyCode::Char('p')) | (_, KeyCode::Up) => picker.up(),
        (_, KeyCode::Enter | KeyCode::Tab) => {
            let subject = picker.subject;
            let Some(chosen) = picker.chosen().cloned() else {
                return Vec::new();
            };
            close_picker(app);
            return command::chosen(app, subject, &chosen.value, now);
        }
        _ => {
            if let ReedlineEvent::Edit(commands) = app.filter.read(Event::Key(event)) {
                app.filter.edit(&commands);
                picker.narrow(app.filter.text());
            }
        }
    }
    Vec::new()
}

fn moved(app: &mut App, command: EditCommand) -> Option<Vec<Effect>> {
    app.typed_mut().edit(&[command]);
    Some(Vec::new())
}

fn up(app: &mut App) -> Vec<Effect> {
    if app.typed().is_at_first_line() {
        return earlier(app);
    }
    app.typed_mut()
        .edit(&[EditCommand::MoveLineUp { select: false }]);
    Vec::new()
}

fn down(app: &mut App) -> Vec<Effect> {
    if app.typed().is_at_last_line() {
        return later(app);
    }
    app.typed_mut()
        .edit(&[EditCommand::MoveLineDown { select: false }]);
    Vec::new()
}

fn earlier(app: &mut App) -> Vec<Effect> {
    let typed = app.typed().text().to_owned();
    if let Some(line) = app.history.earlier(&typed) {
        app.call_up(&line);
    }
    Vec::new()
}

fn later(app: &mut App) -> Vec<Effect> {
    if let Some(line) = app.history.later() {
        app.call_up(&line);
    }
    Vec::new()
}

/// Applies Ctrl-C: stops the current task, else clears the typed text, which the history keeps, else prepares to exit.
fn interrupt(app: &mut App, was_leaving: bool) -> Vec<Effect> {
    if was_leaving {
        return leave(app);
    }
    let is_new = app.work.as_ref().is_some_and(|work| !work.is_stopping);
    if is_new {
        // Whoever has typed something does not want to leave.
        app.is_leaving = app.editor.is_empty();
        return stop(app);
    }
    if app.work.is_none() && !app.editor.is_empty() {
        app.keep_draft();
        app.editor.take();
        app.forget_pastes();
        app.pictures.clear();
        return Vec::new();
    }
    app.is_leaving = true;
    Vec::new()
}

fn stop(app: &mut App) -> Vec<Effect> {
    if let Some(work) = &mut app.work {
        work.is_stopping = true;
    }
    vec![Effect::Task(Task::Interrupt)]
}

/// Applies Esc: takes back queued messages, else stops the current task; where there is nothing to stop, twice, it offers
/// earlier prompts. What was sent to another process stays there.
fn escape(app: &mut App, was_going_back: bool) -> Vec<Effect> {
    if !app.queued.is_empty() && !app.is_remote {
        app.give_held_back();
        let queued = app.queued.clone();
        return vec![Effect::Task(Task::Withdraw(queued, Then::GiveBack))];
    }
    if app.give_held_back() {
        return Vec::new();
    }
    match &app.work {
        Some(work) if !work.is_stopping => stop(app),
        None if can_go_back(app) => {
            app.is_going_back = !was_going_back;
            if was_going_back {
                return vec![Effect::Task(Task::List(Subject::Prompt))];
            }
            app.hint = Some("Esc again: edit an earlier prompt".to_owned());
            Vec::new()
        }
        _ => Vec::new(),
    }
}

/// Whether there are earlier prompts, and nothing that an Esc could mean instead.
fn can_go_back(app: &App) -> bool {
    let session = app.session.as_ref();
    let has_messages = session.is_some_and(|session| session.messages > 0);
    has_messages && !app.is_remote && app.editor.is_empty() && !app.questions.is_answering()
}
