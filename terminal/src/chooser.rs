//! Questions before a conversation begins: a list to choose from, and a line to type. On a terminal that can be drawn on they
//! have arrow keys, a filter and Esc, as the lists of the conversation have, and leave one line each when they are answered.
//! On any other, the list has numbers. What is asked is left to the caller.

use std::io::{self, IsTerminal as _, Write as _};

use ah_conversation::{Environment, neutralise};
use ah_render::Style;
use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, read};
use crossterm::terminal::{disable_raw_mode, enable_raw_mode};
use rustix::process::{Signal, kill_current_process_group};
use rustix::termios::{LocalModes, OptionalActions, QueueSelector, tcflush, tcgetattr, tcsetattr};

use crate::glyphs;
use crate::repl::layout::{fit, wrap};
use crate::repl::painter::{Live, Painter};
use crate::repl::picker::{best, extent};
use crate::repl::terminal::Terminal;

/// Largest number of rows of a list that are shown at once.
const SHOWN: usize = 12;
/// What the keys of a list do.
const KEYS: &str = "Up, Down and Enter choose · typing filters · Esc goes back";

/// The terminal at which somebody is asked.
#[derive(Debug, Clone, Copy)]
pub struct Chooser {
    /// Whether questions are drawn, with arrow keys.
    is_drawn: bool,
    /// Whether colours are used.
    has_colours: bool,
}

/// Outcome of a key.
enum Pressed<T> {
    /// The question is still open.
    Open,
    /// It is answered.
    Answered(T),
    /// The user goes back.
    Back,
}

impl Chooser {
    /// Returns the terminal of the process.
    pub fn of_process(environment: &Environment) -> Self {
        let is_dumb = matches!(environment.get("TERM"), None | Some("dumb"));
        Self {
            is_drawn: !is_dumb && io::stdin().is_terminal() && io::stderr().is_terminal(),
            has_colours: glyphs::err_has_colours(),
        }
    }

    /// Lets the user choose one of `rows` and returns its index; `None` if they go back. `about` is a remark on the choice, or
    /// empty.
    ///
    /// # Errors
    ///
    /// If the terminal cannot be read or written.
    pub fn choose(self, head: &str, about: &str, rows: &[String]) -> io::Result<Option<usize>> {
        if !self.is_drawn {
            return numbered(head, about, rows);
        }
        let mut list = List::of(rows);
        let live = |list: &List<'_>, size| list.live(head, about, size, self.has_colours);
        let chosen = ask(&mut list, live, List::press)?;
        if let Some(at) = chosen {
            crate::note(&format!("{head}: {}", neutralise(&rows[at])));
        }
        Ok(chosen)
    }

    /// Returns a typed line without the blanks around it; `None` if it is empty, or the user goes back.
    ///
    /// # Errors
    ///
    /// If the terminal cannot be read or written.
    pub fn line(self, prompt: &str) -> io::Result<Option<String>> {
        self.typed(prompt, false)
    }

    /// Returns a typed line that the terminal does not show, likewise.
    ///
    /// # Errors
    ///
    /// If the terminal cannot be read or written.
    pub fn secret(self, prompt: &str) -> io::Result<Option<String>> {
        self.typed(prompt, true)
    }

    fn typed(self, prompt: &str, is_hidden: bool) -> io::Result<Option<String>> {
        if !self.is_drawn {
            return plain_line(prompt, is_hidden);
        }
        let mut typed = Typed {
            prompt: format!("{prompt}: "),
            text: String::new(),
            is_hidden,
        };
        let Some(text) = ask(&mut typed, Typed::live, Typed::press)? else {
            return Ok(None);
        };
        crate::note(&format!("{}{}", typed.prompt, typed.shown()));
        let text = text.trim().to_owned();
        Ok(Some(text).filter(|text| !text.is_empty()))
    }
}

/// Draws a question and gives it keys until it is answered; what was drawn is erased then. Ctrl-C ends the program.
fn ask<S, T>(
    state: &mut S,
    live: impl Fn(&S, (usize, usize)) -> Live,
    press: impl Fn(&mut S, KeyEvent) -> Pressed<T>,
) -> io::Result<Option<T>> {
    let raw = Raw::enter()?;
    let mut painter = Painter::new(glyphs::raw_err(), true);
    let answer = loop {
        painter.draw("", &live(state, Terminal::size()))?;
        let Event::Key(key) = read()? else {
            continue;
        };
        if key.kind == KeyEventKind::Release {
            continue;
        }
        if (key.modifiers, key.code) == (KeyModifiers::CONTROL, KeyCode::Char('c')) {
            painter.clear()?;
            drop(raw);
            // As in a terminal that nobody has changed.
            kill_current_process_group(Signal::INT)?;
            return Ok(None);
        }
        match press(state, key) {
            Pressed::Open => {}
            Pressed::Answered(answer) => break Some(answer),
            Pressed::Back => break None,
        }
    };
    painter.clear()?;
    Ok(answer)
}

/// The terminal in raw mode, until this value is dropped.
struct Raw;

impl Raw {
    /// Sets it up. What was typed before is no answer.
    fn enter() -> io::Result<Self> {
        tcflush(io::stdin(), QueueSelector::IFlush)?;
        enable_raw_mode()?;
        Ok(Self)
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // A failure cannot be reported.
        let _ = disable_raw_mode();
    }
}

/// A list, filtered by what is typed.
struct List<'a> {
    rows: &'a [String],
    typed: String,
    /// Indices of the rows that match, the best first.
    left: Vec<usize>,
    /// Index in `left` of the marked one.
    at: usize,
}

impl<'a> List<'a> {
    fn of(rows: &'a [String]) -> Self {
        Self {
            rows,
            typed: String::new(),
            left: (0..rows.len()).collect(),
            at: 0,
        }
    }

    fn press(&mut self, key: KeyEvent) -> Pressed<usize> {
        let last = self.left.len().saturating_sub(1);
        match (key.modifiers, key.code) {
            (_, KeyCode::Esc) => return Pressed::Back,
            (KeyModifiers::CONTROL, KeyCode::Char('d')) => return Pressed::Back,
            (_, KeyCode::Up) | (KeyModifiers::CONTROL, KeyCode::Char('p')) => {
                self.at = self.at.saturating_sub(1);
            }
            (_, KeyCode::Down) | (KeyModifiers::CONTROL, KeyCode::Char('n')) => {
                self.at = (self.at + 1).min(last);
            }
            (_, KeyCode::Home) => self.at = 0,
            (_, KeyCode::End) => self.at = last,
            // Where nothing matches, there is nothing to choose.
            _ if is_enter(key) => {
                if let Some(at) = self.left.get(self.at) {
                    return Pressed::Answered(*at);
                }
            }
            _ if edit(&mut self.typed, key) => {
                self.at = 0;
                self.left = match self.typed.trim() {
                    "" => (0..self.rows.len()).collect(),
                    words => best(words, self.rows),
                };
            }
            _ => {}
        }
        Pressed::Open
    }

    fn live(&self, head: &str, about: &str, size: (usize, usize), has_colours: bool) -> Live {
        let (columns, lines) = (size.0.max(1), size.1.max(1));
        let styled = |code: &str, text: &str| match has_colours {
            true => format!("\x1b[{code}m{text}\x1b[0m"),
            false => text.to_owned(),
        };
        let head = fit(head, columns);
        let mut rows = vec![match has_colours {
            true => Style::WARNING.around(&head),
            false => head,
        }];
        if !about.is_empty() && lines > SHOWN {
            rows.push(styled("2", &fit(about, columns)));
        }
        // The head, the number of those that are left out, the keys and the typed text.
        let room = lines.saturating_sub(rows.len() + 4).clamp(1, SHOWN);
        let first = (self.at + 1).saturating_sub(room);
        for (place, row) in self.left.iter().enumerate().skip(first).take(room) {
            let text = neutralise(&self.rows[*row]).into_owned();
            rows.push(match place == self.at {
                true => styled("1", &fit(&format!("❯ {text}"), columns)),
                false => fit(&format!("  {text}"), columns),
            });
        }
        let foot = match self.left.len() {
            0 => Some("nothing matches; Backspace".to_owned()),
            all => extent(first, room.min(all), all),
        };
        let foot = foot.map(|foot| format!("  {foot}"));
        rows.extend(foot.map(|foot| styled("2", &fit(&foot, columns))));
        rows.push(styled("2", &fit(KEYS, columns)));
        let text = neutralise(&self.typed);
        let (typed, (_, column)) = wrap(&text, text.len(), columns, ("> ", "  "));
        rows.extend(typed);
        Live {
            cursor: (rows.len() - 1, column.min(columns - 1)),
            rows,
            columns,
        }
    }
}

/// A line that is being typed.
struct Typed {
    prompt: String,
    text: String,
    is_hidden: bool,
}

impl Typed {
    /// Returns what is shown of the text.
    fn shown(&self) -> String {
        match self.is_hidden {
            true => "•".repeat(self.text.chars().count().min(16)),
            false => neutralise(&self.text).into_owned(),
        }
    }

    fn press(&mut self, key: KeyEvent) -> Pressed<String> {
        match (key.modifiers, key.code) {
            (_, KeyCode::Esc) => return Pressed::Back,
            (KeyModifiers::CONTROL, KeyCode::Char('d')) if self.text.is_empty() => {
                return Pressed::Back;
            }
            _ if is_enter(key) => return Pressed::Answered(self.text.clone()),
            _ => drop(edit(&mut self.text, key)),
        }
        Pressed::Open
    }

    fn live(&self, size: (usize, usize)) -> Live {
        let (columns, lines) = (size.0.max(1), size.1.max(1));
        let shown = self.shown();
        let lead = (self.prompt.as_str(), "  ");
        let (mut rows, (_, column)) = wrap(&shown, shown.len(), columns, lead);
        let rows = rows.split_off(rows.len().saturating_sub(lines));
        Live {
            cursor: (rows.len() - 1, column.min(columns - 1)),
            rows: rows.iter().map(|row| fit(row, columns)).collect(),
            columns,
        }
    }
}

/// Whether a key is Enter; some terminals send it as Ctrl-J.
fn is_enter(key: KeyEvent) -> bool {
    key.code == KeyCode::Enter
        || (key.modifiers, key.code) == (KeyModifiers::CONTROL, KeyCode::Char('j'))
}

/// Applies a key to a text; returns whether it had a meaning.
fn edit(text: &mut String, key: KeyEvent) -> bool {
    match (key.modifiers, key.code) {
        (KeyModifiers::NONE | KeyModifiers::SHIFT, KeyCode::Char(c)) => text.push(c),
        (_, KeyCode::Backspace) => drop(text.pop()),
        (KeyModifiers::CONTROL, KeyCode::Char('u')) => text.clear(),
        (KeyModifiers::CONTROL, KeyCode::Char('w')) => {
            let kept = text.trim_end().rfind(char::is_whitespace);
            text.truncate(kept.map_or(0, |at| at + 1));
        }
        _ => return false,
    }
    true
}

/// Lets the user choose by a number or a part of the text, where nothing is drawn.
fn numbered(head: &str, about: &str, rows: &[String]) -> io::Result<Option<usize>> {
    crate::note(head);
    if !about.is_empty() {
        crate::note(about);
    }
    let mut left: Vec<usize> = (0..rows.len()).collect();
    loop {
        for (place, row) in left.iter().take(2 * SHOWN).enumerate() {
            crate::note(&format!("  {:>2}  {}", place + 1, neutralise(&rows[*row])));
        }
        let Some(said) = plain_line("Number, or a part of the text", false)? else {
            return Ok(None);
        };
        let number = said.parse::<usize>().ok();
        if let Some(at) = number.and_then(|number| left.get(number.checked_sub(1)?)) {
            return Ok(Some(*at));
        }
        let lower = said.to_lowercase();
        let has = |at: &usize| rows[*at].to_lowercase().contains(&lower);
        let found: Vec<_> = (0..rows.len()).filter(has).collect();
        match found.as_slice() {
            [] => crate::note(&format!("nothing contains `{}`", neutralise(&said))),
            [one] => return Ok(Some(*one)),
            _ => left = found,
        }
    }
}

/// Returns a typed line where nothing is drawn; `None` for an empty one, or at the end of the input.
fn plain_line(prompt: &str, is_hidden: bool) -> io::Result<Option<String>> {
    let input = io::stdin();
    let before = match is_hidden && input.is_terminal() {
        true => tcgetattr(&input).ok(),
        false => None,
    };
    if let Some(before) = &before {
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        let _ = tcsetattr(&input, OptionalActions::Now, &silent);
    }
    let mut output = crate::glyphs::err();
    write!(output, "{prompt}: ")?;
    output.flush()?;
    let mut line = String::new();
    let read = input.read_line(&mut line);
    if let Some(before) = &before {
        let _ = tcsetattr(&input, OptionalActions::Now, before);
        crate::note("");
    }
    read?;
    Ok(Some(line.trim().to_owned()).filter(|line| !line.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<String> {
        ["Anthropic API key", "OpenAI", "Gemini", "Exit"]
            .map(str::to_owned)
            .into()
    }

    /// Presses keys by their names, or types letters; returns the chosen row, `back`, or nothing.
    fn pressed(keys: &str) -> (String, String) {
        let rows = rows();
        let mut list = List::of(&rows);
        let mut said = String::new();
        for key in keys.split(' ').filter(|key| !key.is_empty()) {
            let code = match key {
                "Enter" => KeyCode::Enter,
                "Esc" => KeyCode::Esc,
                "Up" => KeyCode::Up,
                "Down" => KeyCode::Down,
                "End" => KeyCode::End,
                "Backspace" => KeyCode::Backspace,
                letter => KeyCode::Char(letter.chars().next().unwrap()),
            };
            match list.press(KeyEvent::new(code, KeyModifiers::NONE)) {
                Pressed::Open => {}
                Pressed::Answered(at) => said.clone_from(&rows[at]),
                Pressed::Back => "back".clone_into(&mut said),
            }
        }
        let shown = list.live("Choose a model provider", "", (30, 24), false);
        (said, shown.rows.join("\n"))
    }

    #[test]
    fn rows_are_chosen_by_arrows_and_by_what_is_typed() {
        for (keys, expected) in [
            ("Enter", "Anthropic API key"),
            ("Down Enter", "OpenAI"),
            ("Up Enter", "Anthropic API key"),
            ("End Enter", "Exit"),
            ("Down Down Down Down Down Up Enter", "Gemini"),
            ("g e m Enter", "Gemini"),
            ("x y z Enter", ""),
            ("x y z Backspace Backspace Backspace Down Enter", "OpenAI"),
            ("Esc", "back"),
        ] {
            assert_eq!(pressed(keys).0, expected, "{keys}");
        }
    }

    #[test]
    fn the_marked_row_and_what_is_typed_are_seen() {
        insta::assert_snapshot!(pressed("a i Down").1, @"
        Choose a model provider
          OpenAI
        ❯ Anthropic API key
        Up, Down and Enter choose · t…
        > ai
        ");
        insta::assert_snapshot!(pressed("x x x").1, @"
        Choose a model provider
          nothing matches; Backspace
        Up, Down and Enter choose · t…
        > xxx
        ");
    }
}
