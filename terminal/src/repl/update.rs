//! What follows from what happens: the terminal's next state, and what is to be done. Nothing is done here.

use std::time::Instant;

use ah_conversation::{EventKind, ExitReason, MailKind};
use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use reedline::{EditCommand, ReedlineEvent};

use super::app::{App, Effect, Ending, Input, Queued, Task, Then, Work};
use super::picker::{Entry, Picker, Subject};
use super::question::News;
use super::{attach, bang, keys, menu, notify, paste, question, slash, status};
use crate::print::{REST, REST_END, neutralise};

/// Takes in what has happened.
pub fn update(app: &mut App, input: Input, now: Instant) -> Vec<Effect> {
    let is_news = status::is_news(&input);
    let mut effects = follow(app, input, now);
    effects.extend(status::news(app).filter(|_| is_news));
    effects
}

fn follow(app: &mut App, input: Input, now: Instant) -> Vec<Effect> {
    match input {
        Input::Key(event) => key(app, event, now),
        Input::Resized(columns, lines) => {
            app.size = (columns, lines);
            Vec::new()
        }
        Input::Gone | Input::Stop(_) => vec![Effect::Quit],
        Input::Written(text) | Input::Noted(text) => written(app, &text),
        Input::Event(kind) => {
            event(app, &kind);
            Vec::new()
        }
        Input::Progress(name, progress) => {
            if let Some(work) = &mut app.work
                && let Some((_, key)) = work.tools.iter_mut().find(|(tool, _)| *tool == name)
            {
                *key = crate::print::text::measure(&progress);
            }
            Vec::new()
        }
        Input::Files(files) => {
            app.files = Some(files);
            menu::look(app)
        }
        Input::Pick(picker) => {
            pick(app, picker);
            Vec::new()
        }
        Input::Question(news) => {
            let waits = matches!(news, News::Waits(_));
            let mut effects = question::update(app, news);
            if waits {
                effects.extend(notify::waits(app, now));
            }
            effects
        }
        Input::Sent(queued) => {
            app.queued.push(queued);
            Vec::new()
        }
        Input::Withdrawn(taken, then) => withdrawn(app, taken, then, now),
        Input::Model(model) => {
            if let Some(session) = &mut app.session {
                session.model = model;
            }
            Vec::new()
        }
        Input::Opened(opened) => {
            app.session = Some(*opened);
            app.begun.get_or_insert(now);
            app.typed_at.get_or_insert(now);
            Vec::new()
        }
        Input::Ended(ending) => {
            let told = notify::done(app, app.work.as_ref(), &ending, now);
            let mut effects = ended(app, ending);
            effects.extend(told);
            effects
        }
        Input::Mail if app.work.is_none() && app.queued.is_empty() => {
            app.work = Some(Work::begin("reading", now));
            vec![Effect::Task(Task::TakeMail)]
        }
        Input::Mail => Vec::new(),
        Input::Attached(attached) => {
            attach::update(app, attached);
            Vec::new()
        }
        Input::Status(said) => {
            app.status = Some(said);
            Vec::new()
        }
        Input::Done => Vec::new(),
    }
}

/// Lines that are whole go up; the rest waits for its end.
fn written(app: &mut App, text: &str) -> Vec<Effect> {
    let mut pieces = text.split(REST);
    app.open.push_str(pieces.next().unwrap_or_default());
    for piece in pieces {
        let (rest, more) = piece.split_once(REST_END).unwrap_or((piece, ""));
        app.rest = rest.lines().map(str::to_owned).collect();
        app.open.push_str(more);
    }
    let Some(end) = app.open.rfind('\n') else {
        return Vec::new();
    };
    let rest = app.open.split_off(end + 1);
    let whole = std::mem::replace(&mut app.open, rest);
    vec![Effect::Print(whole)]
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
            ..
        } => {
            let tokens = input_tokens
                + output_tokens
                + cache_creation_input_tokens
                + cache_read_input_tokens;
            if let Some(work) = &mut app.work {
                work.tokens += tokens;
            }
            if let Some(session) = &mut app.session {
                session.context = tokens;
                if let Some(facts) = &mut session.facts {
                    facts.sums.take(kind);
                }
            }
        }
        _ => {}
    }
    let Some(work) = &mut app.work else {
        return;
    };
    match kind {
        EventKind::ApiCallStart { .. } => {
            work.tools.clear();
            "thinking".clone_into(&mut work.label);
        }
        EventKind::TextDelta { .. } => "answering".clone_into(&mut work.label),
        EventKind::ToolCallStart {
            tool_name,
            tool_key,
            ..
        } => {
            "working".clone_into(&mut work.label);
            let name = neutralise(tool_name).into_owned();
            work.tools.push((name, neutralise(tool_key).into_owned()));
        }
        EventKind::ToolCallEnd { tool_name, .. } => {
            let name = neutralise(tool_name);
            if let Some(at) = work.tools.iter().position(|(tool, _)| *tool == *name) {
                work.tools.remove(at);
            }
        }
        EventKind::CompactionTriggered { .. } => "summing up".clone_into(&mut work.label),
        EventKind::Retry { .. } => "waiting".clone_into(&mut work.label),
        EventKind::AgentEnd { stop_reason, .. } => {
            work.tools.clear();
            work.is_stopping |= *stop_reason == ExitReason::Interrupted;
        }
        _ => {}
    }
}

/// A task has ended. Words that it did not come to are typed again where somebody has stopped it, and the next prompt
/// where nobody has.
fn ended(app: &mut App, ending: Ending) -> Vec<Effect> {
    app.work = None;
    app.rest.clear();
    let mut effects = Vec::new();
    if !app.open.is_empty() {
        let open = std::mem::take(&mut app.open);
        effects.push(Effect::Print(open + "\n"));
    }
    let mut then = Then::Prompt;
    match ending {
        Ending::Well => {}
        Ending::Interrupted => {
            then = Then::GiveBack;
            effects.push(Effect::Print(warn(app, "interrupted")));
        }
        Ending::Failed(message, hint) => {
            then = Then::GiveBack;
            effects.push(Effect::Print(warn(app, &format!("error: {message}"))));
            if let Some(hint) = hint {
                effects.push(Effect::Print(format!("hint: {}\n", neutralise(&hint))));
            }
        }
    }
    effects.push(Effect::Print("\n".to_owned()));
    if !app.queued.is_empty() {
        let queued = app.queued.clone();
        effects.push(Effect::Task(Task::Withdraw(queued, then)));
    }
    effects
}

fn warn(app: &App, text: &str) -> String {
    let text = neutralise(text);
    match app.colours {
        true => format!("\x1b[1;33m{text}\x1b[0m\n"),
        false => format!("{text}\n"),
    }
}

fn withdrawn(app: &mut App, taken: Vec<Queued>, then: Then, now: Instant) -> Vec<Effect> {
    app.queued
        .retain(|queued| !taken.iter().any(|taken| taken.id == queued.id));
    let texts: Vec<_> = taken.into_iter().map(|taken| taken.text).collect();
    if texts.is_empty() {
        return Vec::new();
    }
    let text = texts.join("\n\n");
    match then {
        Then::Prompt => prompt(app, &text.clone(), text, now),
        Then::GiveBack => {
            let typed = app.editor.take();
            let separator = if typed.is_empty() { "" } else { "\n\n" };
            app.editor.insert(format!("{text}{separator}{typed}"));
            Vec::new()
        }
    }
}

fn key(app: &mut App, event: Event, now: Instant) -> Vec<Effect> {
    let event = match event {
        Event::Paste(text) => {
            if let Some(effects) = attach::begin(&text) {
                return effects;
            }
            paste::insert(app, &text);
            return Vec::new();
        }
        Event::FocusGained | Event::FocusLost => {
            app.is_looked_at = Some(event == Event::FocusGained);
            return Vec::new();
        }
        Event::Resize(..) | Event::Mouse(_) => return Vec::new(),
        Event::Key(key) => key,
    };
    app.typed_at = Some(now);
    app.hint = None;
    if app.picker.is_some() {
        return choose(app, event, now);
    }
    if let Some(effects) = keys::chord(app, &event) {
        return effects;
    }
    let was_leaving = std::mem::take(&mut app.is_leaving);
    match keys::own(&event) {
        Some(keys::Own::Interrupt) => return interrupt(app, was_leaving),
        Some(keys::Own::Escape) if app.menu.take().is_some() => return Vec::new(),
        Some(keys::Own::Turn) if menu::accept(app) => return menu::look(app),
        Some(keys::Own::Escape) if !app.editor.needs_esc() => return escape(app),
        Some(keys::Own::FollowUp) if app.work.is_some() => {
            return submit(app, MailKind::FollowUp, now);
        }
        Some(keys::Own::FollowUp) => {
            app.editor.edit(&[EditCommand::InsertNewline]);
            return Vec::new();
        }
        Some(keys::Own::Turn) if question::turn(app) => return Vec::new(),
        Some(keys::Own::Mode) => return keys::next_mode(app),
        Some(keys::Own::Output) => return vec![Effect::Task(Task::Output)],
        Some(keys::Own::Paste) => return attach::begin("").unwrap_or_default(),
        Some(keys::Own::Escape | keys::Own::Turn) | None => {}
    }
    let event = plain(event);
    let before = app.editor.text().len();
    let meaning = app.editor.read(Event::Key(event));
    let mut effects = apply(app, meaning, now).unwrap_or_default();
    if app.editor.text().len() != before {
        effects.extend(menu::look(app));
    }
    effects
}

/// A key with Shift that has no meaning of its own is the key.
fn plain(event: KeyEvent) -> KeyEvent {
    match event.code {
        KeyCode::Backspace if event.modifiers == KeyModifiers::SHIFT => KeyEvent {
            modifiers: KeyModifiers::NONE,
            ..event
        },
        _ => event,
    }
}

/// Does what a key means; `None` where it means nothing here.
fn apply(app: &mut App, event: ReedlineEvent, now: Instant) -> Option<Vec<Effect>> {
    let none = Some(Vec::new());
    match event {
        ReedlineEvent::Edit(commands) => {
            app.history.settle();
            app.editor.edit(&commands);
            none
        }
        ReedlineEvent::Enter | ReedlineEvent::Submit | ReedlineEvent::SubmitOrNewline => {
            Some(enter(app, now))
        }
        ReedlineEvent::CtrlD if app.editor.is_empty() => Some(leave(app)),
        ReedlineEvent::CtrlD => {
            app.editor.edit(&[EditCommand::Delete]);
            none
        }
        ReedlineEvent::ClearScreen => Some(vec![Effect::ScrollAway]),
        ReedlineEvent::OpenEditor => Some(vec![Effect::OpenEditor]),
        ReedlineEvent::Up | ReedlineEvent::MenuUp if menu::step(app, false) => none,
        ReedlineEvent::Down | ReedlineEvent::MenuDown if menu::step(app, true) => none,
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

/// Begins to choose. What was typed waits.
fn pick(app: &mut App, mut picker: Picker) {
    let typed = app.editor.take();
    if picker.subject == Subject::History {
        app.editor.insert(typed.clone());
        picker.narrow(&typed);
    }
    app.menu = None;
    app.picked_over = typed;
    app.picker = Some(picker);
}

/// A key while something is chosen.
fn choose(app: &mut App, event: KeyEvent, now: Instant) -> Vec<Effect> {
    let Some(picker) = &mut app.picker else {
        return Vec::new();
    };
    match (event.modifiers, event.code) {
        (_, KeyCode::Esc) | (KeyModifiers::CONTROL, KeyCode::Char('c' | 'd')) => {
            app.picker = None;
            let typed = std::mem::take(&mut app.picked_over);
            app.editor.set(&typed);
        }
        (KeyModifiers::CONTROL, KeyCode::Char('r' | 'n')) | (_, KeyCode::Down) => picker.down(),
        (KeyModifiers::CONTROL, KeyCode::Char('p')) | (_, KeyCode::Up) => picker.up(),
        (_, KeyCode::Enter | KeyCode::Tab) => {
            let subject = picker.subject;
            let Some(chosen) = picker.chosen().cloned() else {
                return Vec::new();
            };
            app.picker = None;
            let typed = std::mem::take(&mut app.picked_over);
            app.editor.set(&typed);
            return slash::chosen(app, subject, &chosen.value, now);
        }
        _ => {
            if let ReedlineEvent::Edit(commands) = app.editor.read(Event::Key(event)) {
                app.editor.edit(&commands);
                picker.narrow(app.editor.text());
            }
        }
    }
    Vec::new()
}

fn moved(app: &mut App, command: EditCommand) -> Option<Vec<Effect>> {
    app.editor.edit(&[command]);
    Some(Vec::new())
}

fn up(app: &mut App) -> Vec<Effect> {
    match app.editor.is_at_first_line() {
        true => earlier(app),
        false => {
            app.editor
                .edit(&[EditCommand::MoveLineUp { select: false }]);
            Vec::new()
        }
    }
}

fn down(app: &mut App) -> Vec<Effect> {
    match app.editor.is_at_last_line() {
        true => later(app),
        false => {
            app.editor
                .edit(&[EditCommand::MoveLineDown { select: false }]);
            Vec::new()
        }
    }
}

fn earlier(app: &mut App) -> Vec<Effect> {
    if let Some(line) = app.history.earlier(app.editor.text()) {
        app.editor.set(&line);
    }
    Vec::new()
}

fn later(app: &mut App) -> Vec<Effect> {
    if let Some(line) = app.history.later() {
        app.editor.set(&line);
    }
    Vec::new()
}

/// Ctrl-C: stops what goes on, takes away what is typed, and leaves where there is neither.
fn interrupt(app: &mut App, was_leaving: bool) -> Vec<Effect> {
    if was_leaving {
        return leave(app);
    }
    let is_new = app.work.as_ref().is_some_and(|work| !work.is_stopping);
    if is_new {
        app.is_leaving = true;
        return stop(app);
    }
    if app.work.is_none() && !app.editor.is_empty() {
        app.editor.take();
        app.pastes.clear();
        app.images.clear();
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

/// Esc: takes back what waits, else stops what goes on.
fn escape(app: &mut App) -> Vec<Effect> {
    if !app.queued.is_empty() {
        let queued = app.queued.clone();
        return vec![Effect::Task(Task::Withdraw(queued, Then::GiveBack))];
    }
    match &app.work {
        Some(work) if !work.is_stopping => stop(app),
        _ => Vec::new(),
    }
}

fn leave(app: &App) -> Vec<Effect> {
    let mut effects = Vec::new();
    if app.work.is_some() {
        effects.push(Effect::Task(Task::Interrupt));
    }
    effects.push(Effect::Quit);
    effects
}

/// Enter: a line that ends with a backslash goes on; all else is said.
fn enter(app: &mut App, now: Instant) -> Vec<Effect> {
    if app.is_answering {
        question::answer(app);
        return Vec::new();
    }
    if app.menu.is_some() {
        let is_command = app.editor.text().starts_with('/');
        menu::accept(app);
        if !is_command {
            return Vec::new();
        }
    }
    let before = &app.editor.text()[..app.editor.cursor()];
    if before.ends_with('\\') {
        app.editor
            .edit(&[EditCommand::Backspace, EditCommand::InsertNewline]);
        return Vec::new();
    }
    let typed = app.editor.text().trim().to_owned();
    let mut effects = submit(app, MailKind::Steer, now);
    if slash::call(&typed).is_some() && effects.iter().any(Effect::tells) && !is_said(&effects) {
        effects.insert(0, echo(app, &typed));
    }
    effects
}

/// Whether something is said to the model.
fn is_said(effects: &[Effect]) -> bool {
    let is_prompt =
        |effect: &Effect| matches!(effect, Effect::Task(Task::Prompt(_) | Task::Show(..)));
    effects.iter().any(is_prompt)
}

/// Takes in a line that was typed where no key has a meaning of its own.
pub fn submit_line(app: &mut App, now: Instant) -> Vec<Effect> {
    let effects = submit(app, MailKind::Steer, now);
    // Whoever typed it has seen it.
    let is_echo = |effect: &Effect| app.work.is_some() && matches!(effect, Effect::Print(_));
    effects
        .into_iter()
        .filter(|effect| !is_echo(effect))
        .collect()
}

/// Says what is typed: a prompt, a command of the terminal's, or words for the run that is on.
fn submit(app: &mut App, kind: MailKind, now: Instant) -> Vec<Effect> {
    let typed = app.editor.text().trim().to_owned();
    if typed.is_empty() {
        return Vec::new();
    }
    if let Some(called) = slash::call(&typed) {
        return slash::perform(app, &called, now);
    }
    if app.work.is_none()
        && let Some((command, is_told)) = bang::read(&typed)
    {
        app.editor.take();
        app.history.keep(&typed);
        app.work = Some(Work::begin("running", now));
        let shown = Effect::Print(format!("{}\n", neutralise(&typed)));
        return vec![shown, Effect::Task(Task::Shell(command, is_told))];
    }
    if app.work.is_some() && attach::has_any(app, &typed) {
        app.hint = Some("a picture has to wait until the agent has finished".to_owned());
        return Vec::new();
    }
    let images = attach::take(app, &typed);
    let text = paste::unfold(app, &typed);
    app.editor.take();
    app.is_answering = !app.questions.is_empty();
    app.history.keep(&text);
    match app.work {
        Some(_) => vec![Effect::Task(Task::Send(kind, text))],
        None if images.is_empty() => prompt(app, &typed, text, now),
        None => say(app, &typed, Task::Show(text, images), now),
    }
}

/// A prompt is shown above, as it was typed, and runs.
pub fn prompt(app: &mut App, typed: &str, text: String, now: Instant) -> Vec<Effect> {
    say(app, typed, Task::Prompt(text), now)
}

fn say(app: &mut App, typed: &str, task: Task, now: Instant) -> Vec<Effect> {
    app.work = Some(Work::begin("starting", now));
    vec![echo(app, typed), Effect::Task(task)]
}

/// What was typed, to be shown above.
fn echo(app: &App, typed: &str) -> Effect {
    let shown = neutralise(typed).replace('\n', "\n  ");
    Effect::Print(match app.colours {
        true => format!("\x1b[1m> {shown}\x1b[0m\n\n"),
        false => format!("> {shown}\n\n"),
    })
}

#[cfg(test)]
mod tests;
