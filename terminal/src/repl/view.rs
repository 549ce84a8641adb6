//! The live lines at the bottom, made from the state: the open line of the answer, the current task, queued messages,
//! and the typed text.

use std::time::{Duration, Instant};

use super::activity::{Activity, RunningTool};
use super::app::App;
use super::input::Queued;
use super::key_list;
use super::layout::{fit, wrap};
use super::menu::Menu;
use super::painter::Live;
use super::picker::{self, Picker};
use super::question::Panel;
use super::status;
use crate::print::wrap::width;
use crate::print::{count, elapsed, mode, money};
use ah_conversation::{MailKind, PermissionMode, Verification, neutralise, title_of};
use ah_render::{Line, Palette, Style};

const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// Duration of a spinner frame in milliseconds.
pub const FRAME_MS: u64 = 100;
/// Time without anything of an answer after which that is said.
const SILENCE: Duration = Duration::from_secs(20);
/// Prompt before the typed text, and before its further lines.
const PROMPT: &str = "> ";
const FURTHER: &str = "  ";
/// Longest command of a check in the status line, in characters.
const LONGEST_COMMAND: usize = 24;
/// Lines of a terminal from which on there is room for the status line below a question, and for a rule above the input.
const ROOMY: usize = 12;
/// Largest number of lines shown of the output of a running tool.
const TAIL: usize = 6;
/// Largest number of items shown of the task list.
const TASKS: usize = 6;
/// Placeholder in the first prompt of a session, and where there is less room.
const PLACEHOLDER: &str = "Describe a task or ask a question (/help for help)";
const SHORT_PLACEHOLDER: &str = "Describe a task";
/// The same while a question waits for a moment without keys.
const MOMENT: &str = "(in a moment, or after Tab: your answer)";

/// Returns the lines at the bottom.
pub fn live(app: &App, now: Instant) -> Live {
    let columns = app.size.0.max(10);
    let mut above = Vec::new();
    above.extend(open_line(&app.answer.open, columns, app.size.1 / 2));
    above.extend(app.answer.rest.iter().cloned());
    if let Some(work) = &app.work {
        if !above.is_empty() || !app.is_apart {
            above.push(String::new());
        }
        let is_asked = !app.questions.is_empty();
        let row = fit(&working(work, is_asked, now, columns), columns);
        above.push(match is_asked && app.colours {
            true => Style::WARNING.around(&row),
            false => dim(app, &row),
        });
        above.extend(running(app, work, columns));
    }
    above.extend(
        app.queued
            .iter()
            .map(|queued| dim(app, &fit(&waiting(queued), columns))),
    );
    above.extend(app.held.iter().map(|held| {
        let row = later("queued for later", &held.typed);
        dim(app, &fit(&row, columns))
    }));
    let mut below = Vec::new();
    if let Some(picker) = &app.picker {
        below.extend(listed(app, picker, columns));
    } else if let Some(menu) = &app.suggestions.menu {
        below.extend(suggested(app, menu, columns));
    }
    if app.shows_keys() {
        let keys = key_list::shown(app.first_key, (columns, app.size.1));
        below.extend(keys.iter().map(|row| dim(app, row)));
    }
    let most = app.size.1.saturating_sub(1).max(1);
    if app.questions.first().is_none() || most >= ROOMY {
        below.extend(bottom(app, columns));
    }
    let (mut typed, (row, column)) = typed(app, columns);
    // If there is no room, the upper lines go: the user looks at the typed text, and at the question.
    let mut room = most.saturating_sub(below.len()).max(1);
    if let Some(panel) = app.questions.first() {
        let (asked, least) = asked(app, panel, columns, room, typed.len());
        if !above.is_empty() {
            above.push(String::new());
        }
        above.extend(asked);
        room = room.min(least).max(1);
    }
    let first = (row + 1).saturating_sub(room);
    typed.drain(..first);
    typed.truncate(room);
    let mut row = row - first;
    // It sets what is typed apart from what was said, where there is room for it.
    if most >= ROOMY && app.questions.first().is_none() {
        typed.insert(0, dim(app, &"─".repeat(columns)));
        row += 1;
    }
    let spare = most.saturating_sub(below.len() + typed.len());
    let hidden = above.len().saturating_sub(spare);
    above.drain(..hidden);
    let row = above.len() + row;
    above.append(&mut typed);
    above.append(&mut below);
    // The terminal may have become narrower since a row was laid out, and a row that wraps would move all others.
    let columns = app.size.0.max(1);
    Live {
        rows: above.iter().map(|row| fit(row, columns)).collect(),
        cursor: (row, column.min(columns - 1)),
        columns,
    }
}

/// Returns the rows of suggestions.
fn suggested(app: &App, menu: &Menu, columns: usize) -> Vec<String> {
    // The typed text, the number of those that are left out and the status line stay.
    let room = app.size.1.saturating_sub(4);
    let items = || menu.window(room);
    let wide = items().map(|((text, _), _)| width(text)).max().unwrap_or(0);
    let rows = items().map(|((text, about), is_marked)| {
        let pad = " ".repeat(wide - width(text) + 2);
        let text = format!("{text}{pad}{about}");
        mark(app, text.trim_end(), is_marked, columns)
    });
    let shown = items().count();
    let more = picker::extent((menu.at + 1).saturating_sub(shown), shown, menu.items.len());
    let more = more.map(|more| dim(app, &fit(&format!("  {more}"), columns)));
    rows.chain(more).collect()
}

/// Returns the rows of the viewer, which has the whole screen.
pub fn page(app: &App) -> Vec<String> {
    let waiting = (!app.questions.is_empty()).then_some("waiting for your answer");
    let viewer = app.viewer.as_ref();
    viewer.map_or_else(Vec::new, |viewer| viewer.frame(waiting, palette(app)))
}

/// Returns the rows of a question, and how many are left for the typed text.
fn asked(
    app: &App,
    panel: &Panel,
    columns: usize,
    room: usize,
    typed: usize,
) -> (Vec<String>, usize) {
    let palette = palette(app);
    let mut foot = Vec::new();
    if let Some(complaint) = &panel.complaint {
        let complaint = fit(&neutralise(complaint), columns);
        foot.push(complaint);
    }
    if !app.questions.is_answering() && !waits_for_quiet(app) {
        foot.push(fit(
            &format!("{}(Tab, then your answer)", panel.sheet.prompt),
            columns,
        ));
    }
    let typed = typed.min(room.div_ceil(3)).max(1);
    // The head, one line, and the answers in words come before what was wrong.
    let spare = room.saturating_sub(typed);
    let shown = panel.show(columns, spare.saturating_sub(foot.len()).max(1));
    let mut rows: Vec<String> = shown.rows.iter().map(|row| row.paint(palette)).collect();
    rows.append(&mut foot);
    (rows, typed)
}

/// Returns whether the open question takes the next keys once none was pressed for a moment.
fn waits_for_quiet(app: &App) -> bool {
    let is_put_off = app.questions.is_answering() || app.questions.is_put_off();
    app.questions.first().is_some() && !is_put_off && app.editor.is_empty()
}

/// Returns the running tools, each with the last lines of its output.
fn running(app: &App, work: &Activity, columns: usize) -> Vec<String> {
    let agents: Vec<_> = app.background.awaited().collect();
    let of_agent = |tool: &&RunningTool| agents.iter().any(|agent| agent.call == tool.call);
    let tools: Vec<_> = { work.tools.iter() }
        .filter(|tool| !of_agent(tool))
        .collect();
    let most = (app.size.1 / 4).min(TAIL) / tools.len().max(1);
    let looked = work.looked.counts();
    let looked = (!looked.is_empty()).then(|| format!("  {looked}"));
    let few = (app.size.1 / 3).max(1);
    let more = agents.len().saturating_sub(few);
    let tree = agents.iter().take(few).map(|agent| agent.row());
    let noun = if more == 1 { "subagent" } else { "subagents" };
    let more = (more > 0).then(|| format!("  … {more} more {noun}"));
    let tools = tools.into_iter().flat_map(|tool| {
        let call = format!("  {} {}", tool.name, tool.key.replace('\n', " "));
        let lines = tool.last_lines(most);
        let lines = lines.into_iter().map(|line| format!("    {line}"));
        std::iter::once(call).chain(lines)
    });
    let rows = looked.into_iter().chain(tools).chain(tree).chain(more);
    let mut rows: Vec<_> = rows.map(|row| dim(app, &fit(&row, columns))).collect();
    rows.extend(tasks(app, work, columns));
    rows
}

/// Returns the part of the task list around its first open item.
fn tasks(app: &App, work: &Activity, columns: usize) -> Vec<String> {
    let most = (app.size.1 / 4).clamp(1, TASKS);
    let is_done = |row: &Line| row.text().starts_with('✓');
    let done = work.tasks.iter().take_while(|row| is_done(row)).count();
    let last = work.tasks.len().saturating_sub(most);
    let first = done.saturating_sub(1).min(last);
    let rows = work.tasks.iter().skip(first).take(most);
    rows.map(|row| row.indented(2).cut(columns).paint(palette(app)))
        .collect()
}

fn palette(app: &App) -> Palette {
    match app.colours {
        true => Palette::Ansi,
        false => Palette::Plain,
    }
}

/// `⠙ thinking 3s · 1.2k tokens · Esc interrupts`; without the tokens where there is no room for them.
fn working(work: &Activity, is_asked: bool, now: Instant, columns: usize) -> String {
    let time = now.saturating_duration_since(work.since);
    let turns = time.as_millis() / u128::from(FRAME_MS);
    let frame = FRAMES[usize::try_from(turns).unwrap_or(0) % FRAMES.len()];
    let label = if is_asked {
        "waiting for your answer"
    } else {
        &work.label
    };
    if let Some((end, _)) = &work.retry {
        // The second that has begun counts.
        let left = end
            .saturating_duration_since(now)
            .as_millis()
            .div_ceil(1000);
        let left = elapsed(u64::try_from(left).unwrap_or(u64::MAX));
        let (number, error) = &work.failures;
        let what = match number {
            0 => "retrying".to_owned(),
            number => format!("retry {number}"),
        };
        let line = format!("{frame} {what} in {left} · Enter retries now · Esc interrupts");
        return match error.is_empty() {
            true => line,
            false => format!("{line} · {}", neutralise(error).replace('\n', " ")),
        };
    }
    let begun = format!("{frame} {label} {}", elapsed(time.as_secs()));
    let tokens = match work.tokens {
        0 => String::new(),
        tokens => format!(" · {} tokens", count(tokens)),
    };
    let keys = match (work.is_stopping, work.is_leaving) {
        (true, _) => " · stopping",
        (false, true) => " · to the background after this step · Ctrl-B: now",
        (false, false) => " · Esc interrupts",
    };
    let silent = work.heard.map(|heard| now.saturating_duration_since(heard));
    let keys = match silent.filter(|silent| *silent >= SILENCE) {
        Some(silent) => format!(" · no data for {}{keys}", elapsed(silent.as_secs())),
        None => keys.to_owned(),
    };
    let line = format!("{begun}{tokens}{keys}");
    match width(&line) <= columns {
        true => line,
        false => format!("{begun}{keys}"),
    }
}

fn waiting(queued: &Queued) -> String {
    let when = match queued.kind {
        MailKind::Steer => "queued for the next step",
        MailKind::FollowUp => "queued for later",
    };
    later(when, &queued.text)
}

/// Returns the row of a text that is read later.
fn later(when: &str, text: &str) -> String {
    let mut lines = text.lines();
    let first = neutralise(lines.next().unwrap_or_default());
    let more = if lines.next().is_some() { " …" } else { "" };
    format!("  {when}: {first}{more}")
}

/// Returns the rows below the typed text: hints, and the user's status line in place of the built-in one.
fn bottom(app: &App, columns: usize) -> Vec<String> {
    let mut rows = match &app.status.said {
        Some(said) => status::rows(said, app.status.padding, columns, app.colours),
        None => Vec::new(),
    };
    let has_word = app.is_leaving || app.hint.is_some();
    let own = match &app.session {
        Some(session) if !rows.is_empty() && !has_word => match session.mode {
            PermissionMode::Default | PermissionMode::Sandboxed => None,
            _ if app.is_remote => None,
            other => Some(mode(other).to_owned()),
        },
        _ => Some(own_status(app)),
    };
    rows.extend(own.map(|own| dim(app, &fit(&own, columns))));
    rows
}

fn own_status(app: &App) -> String {
    if app.is_leaving {
        return "Press Ctrl-C again to exit".to_owned();
    }
    if let Some(hint) = &app.hint {
        return hint.clone();
    }
    let Some(session) = &app.session else {
        return String::new();
    };
    // Each with what it is worth: the least is left out first where there is no room.
    let mut parts: Vec<(u8, String)> = Vec::new();
    parts.extend(app.typed().vi_mode().map(|mode| (9, mode.to_owned())));
    // The mode of another process is not known.
    parts.push(match app.is_remote {
        true => (9, "attached".to_owned()),
        false => (9, mode(session.mode).to_owned()),
    });
    parts.extend(match app.background.running() {
        0 => None,
        1 => Some((5, "1 task running".to_owned())),
        running => Some((5, format!("{running} tasks running"))),
    });
    parts.extend(session.check.as_ref().map(|check| (7, goal(check))));
    // The folder is known best.
    parts.push((1, neutralise(&session.place).into_owned()));
    parts.push((3, neutralise(&session.model.name).into_owned()));
    if let Some(percent) = (session.context * 100).checked_div(session.model.context_window)
        && session.context > 0
    {
        let window = count(session.model.context_window);
        parts.push((4, format!("{percent}% of {window}")));
    }
    if session.cost > 0.0 {
        parts.push((2, money(session.cost)));
    }
    if session.messages == 0 {
        parts.push((6, "? for help".to_owned()));
    }
    loop {
        let texts = parts.iter().map(|(_, text)| text.as_str());
        let line = texts.collect::<Vec<_>>().join(" · ");
        let least = (0..parts.len()).min_by_key(|at| parts[*at].0);
        match least {
            Some(least) if parts.len() > 1 && width(&line) > app.size.0 => {
                drop(parts.remove(least));
            }
            _ => return line,
        }
    }
}

/// Says what a session works for, and how that stands: ``until `make test`: claimed``.
fn goal(check: &Verification) -> String {
    let command = title_of(&check.command, LONGEST_COMMAND);
    format!(
        "until `{}`: {}",
        neutralise(&command),
        check.evidence.word()
    )
}

/// Returns the end of the open line of the answer, as far as there is room.
fn open_line(open: &str, columns: usize, most: usize) -> Vec<String> {
    let (mut rows, _) = wrap(&neutralise(open), 0, columns, ("", ""));
    if open.is_empty() {
        return Vec::new();
    }
    let hidden = rows.len().saturating_sub(most.max(1));
    rows.drain(..hidden);
    rows
}

/// Returns the rows of the typed text, and the position of the cursor in them.
fn typed(app: &App, columns: usize) -> (Vec<String>, (usize, usize)) {
    let text = app.typed().text();
    let before = &text[..app.typed().cursor()];
    let asked = app
        .questions
        .first()
        .filter(|_| app.questions.is_answering());
    let prompt = match (&app.picker, asked) {
        (Some(picker), _) => picker.prompt(),
        (None, Some(panel)) if width(&panel.sheet.prompt) * 2 > columns => PROMPT,
        (None, Some(panel)) => &panel.sheet.prompt,
        (None, None) => PROMPT,
    };
    let cursor = neutralise(before).len();
    let (mut rows, (at, column)) = wrap(&neutralise(text), cursor, columns, (prompt, FURTHER));
    if let [row] = &mut rows[..]
        && let Some(placeholder) = placeholder(app)
    {
        row.push_str(&dim(app, &fit(placeholder, columns.saturating_sub(column))));
    }
    (rows, (at, column))
}

/// Returns what is shown where nothing is typed. Without colours it could not be told from typed text.
fn placeholder(app: &App) -> Option<&str> {
    if !app.colours || app.picker.is_some() {
        return None;
    }
    if !app.editor.is_empty() {
        let is_typed = app.questions.is_empty();
        return app.suggestions.hint(app.editor.text()).filter(|_| is_typed);
    }
    let session = app.session.as_ref();
    let is_fresh = session.is_some_and(|session| session.messages == 0);
    match app.questions.is_empty() {
        true => (is_fresh && app.work.is_none()).then_some(match app.size.0 {
            ..=55 => SHORT_PLACEHOLDER,
            _ => PLACEHOLDER,
        }),
        false => waits_for_quiet(app).then_some(MOMENT),
    }
}

/// Returns the rows of a list: the entries around the marked one, each of one row or two, and what its keys do.
fn listed(app: &App, picker: &Picker, columns: usize) -> Vec<String> {
    // The typed text, the rule above it and the status line stay.
    let room = app.size.1.saturating_sub(5).max(1);
    let mut rows = Vec::new();
    for (entry, is_marked) in picker.window(room) {
        let (first, second) = match entry.label.split_once('\n') {
            Some((first, second)) => (first, Some(second)),
            None => (entry.label.as_str(), None),
        };
        rows.push(mark(app, first, is_marked, columns));
        rows.extend(second.map(|second| {
            let second = format!("    {}", neutralise(second).replace('\n', " "));
            dim(app, &fit(&second, columns))
        }));
    }
    if rows.is_empty() {
        let words = match app.filter.is_empty() {
            true => "  nothing to choose from",
            false => "  no matches",
        };
        rows.push(dim(app, &fit(words, columns)));
    }
    let foot: Vec<_> = picker
        .extent(room)
        .into_iter()
        .chain(picker.keys())
        .collect();
    if !foot.is_empty() {
        rows.push(dim(app, &fit(&foot.join(" · "), columns)));
    }
    rows
}

/// Returns the row of a list entry.
fn mark(app: &App, text: &str, is_marked: bool, columns: usize) -> String {
    let text = neutralise(text).replace('\n', " ");
    if !is_marked {
        return dim(app, &fit(&format!("  {text}"), columns));
    }
    let row = fit(&format!("❯ {text}"), columns);
    if app.colours {
        format!("\x1b[1m{row}\x1b[0m")
    } else {
        row
    }
}

fn dim(app: &App, text: &str) -> String {
    if app.colours && !text.is_empty() {
        format!("\x1b[2m{text}\x1b[0m")
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests;
