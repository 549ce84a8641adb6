//! The transcript on a screen of its own: everything that was said, thought and written by tools and subagents, to be
//! scrolled, searched, folded and copied. A value: keys change it, and it gives the rows of the screen. What it shows is read
//! from the store (`transcript.rs`), and painted by the driver on the alternate screen, so that the scrollback stays as it was.

pub mod transcript;

use ah_conversation::{ToolUseId, neutralise};
use ah_render::{Line, Markdown, Palette, Style, wrap_hard};
use anstyle::Effects;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::activity::RunningTool;
use super::output;

/// What the keys do, in the last row.
const KEYS: &str = "q back · Tab next · Enter fold · / search · c copy · z all";

/// A part of the transcript: its first row, and a text that can be folded away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// Whose it is.
    pub kind: Kind,
    /// Its first row.
    pub head: String,
    /// The text below.
    pub text: String,
    /// 0 in the conversation, 1 in a subagent's. A folded section hides the deeper ones behind it.
    pub depth: usize,
    /// Whether only the first row is shown.
    pub is_folded: bool,
    /// The call whose output it is.
    pub call: Option<ToolUseId>,
}

/// Whose words a section has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The person's.
    Prompt,
    /// The model's, in Markdown.
    Answer,
    /// The model's thinking.
    Thinking,
    /// A tool's.
    Output,
    /// The beginning of a subagent's conversation.
    Subagent,
}

impl Section {
    /// Lays the section out for this width, the first row apart.
    fn lay_out(&self, width: usize) -> Vec<Line> {
        let indent = 4 + 2 * self.depth;
        let room = width.saturating_sub(indent).max(1);
        let (none, dim) = (Line::default(), Style::DIM);
        let plain = |style| {
            let lines = self.text.lines().map(move |line| Line::of(line, style));
            let rows = lines.flat_map(|line| wrap_hard(&line, room, &none, &none));
            rows.collect::<Vec<_>>()
        };
        let rows = match self.kind {
            Kind::Answer => {
                let mut markdown = Markdown::new(room);
                let mut rows = markdown.feed(&self.text);
                rows.extend(markdown.finish());
                rows
            }
            Kind::Thinking => plain(dim),
            Kind::Prompt | Kind::Output | Kind::Subagent => plain(Style::PLAIN),
        };
        rows.iter().map(|row| row.indented(indent)).collect()
    }

    /// Returns the first row: whether it is marked, whether it is folded, what it is.
    fn first_row(&self, is_marked: bool, has_more: bool, width: usize) -> Line {
        let mark = if is_marked { "❯ " } else { "  " };
        let fold = match (has_more, self.is_folded) {
            (false, _) => "",
            (true, true) => "+ ",
            (true, false) => "- ",
        };
        let style = match self.kind {
            Kind::Prompt => Style::BOLD.with(Effects::INVERT),
            Kind::Thinking => Style::DIM,
            Kind::Answer | Kind::Output | Kind::Subagent => Style::BOLD,
        };
        let mut row = Line::of(
            &format!("{}{mark}{fold}", "  ".repeat(self.depth)),
            Style::PLAIN,
        );
        row.push(&self.head.replace('\n', " "), style);
        row.cut(width)
    }
}

/// What a key has done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Looked {
    /// Something that only the screen shows, or nothing.
    On,
    /// This text is to be copied.
    Copied(String),
    /// The viewer is closed.
    Closed,
}

/// The transcript, and the part of it that is on the screen.
#[derive(Debug, Clone)]
pub struct Viewer {
    sections: Vec<Section>,
    /// Each section's rows below its first one, for `width`.
    laid_out: Vec<Vec<Line>>,
    /// The rows that are not folded away: a section, and which of its rows, of which 0 is the first.
    rows: Vec<(usize, usize)>,
    /// Columns, and lines without the last one.
    size: (usize, usize),
    /// Index of the row at the top of the screen.
    top: usize,
    /// Index of the marked section.
    at: usize,
    /// What is looked for; empty if nothing is.
    sought: String,
    /// The row where it was found last, until the person moves elsewhere.
    found: Option<(usize, usize)>,
    /// Whether it is being typed.
    is_seeking: bool,
    /// A remark in the place of the keys, until the next key.
    remark: Option<String>,
}

impl Viewer {
    /// Returns the viewer of a terminal of this size, before there is a transcript.
    pub fn new(size: (usize, usize)) -> Self {
        let mut viewer = Self {
            sections: Vec::new(),
            laid_out: Vec::new(),
            rows: Vec::new(),
            size: (0, 0),
            top: 0,
            at: 0,
            sought: String::new(),
            found: None,
            is_seeking: false,
            remark: None,
        };
        viewer.resize(size);
        viewer
    }

    /// Shows a transcript from its end, or another state of the same: then what was folded stays so, and the end stays in sight.
    pub fn renew(&mut self, mut sections: Vec<Section>) {
        let is_at_end = self.is_at_end();
        if self.sections.is_empty() {
            self.at = sections.len().saturating_sub(1);
        }
        for (new, old) in sections.iter_mut().zip(&self.sections) {
            new.is_folded = old.is_folded;
        }
        self.sections = sections;
        let width = self.size.0;
        let laid_out = self.sections.iter().map(|section| section.lay_out(width));
        self.laid_out = laid_out.collect();
        self.unfold_rows();
        self.go_to(if is_at_end { usize::MAX } else { self.top });
    }

    /// Shows what running tools have written so far.
    pub fn follow(&mut self, tools: &[RunningTool]) {
        let is_at_end = self.is_at_end();
        let mut has_changed = false;
        for tool in tools {
            let Some(text) = output::so_far(tool) else {
                continue;
            };
            let is_its = |section: &Section| section.call.as_ref() == Some(&tool.call);
            let at = self.sections.iter().position(is_its);
            let at = at.unwrap_or_else(|| {
                self.sections.push(Section {
                    kind: Kind::Output,
                    head: format!("{} {}", tool.name, tool.key),
                    text: String::new(),
                    depth: 0,
                    is_folded: false,
                    call: Some(tool.call.clone()),
                });
                self.laid_out.push(Vec::new());
                self.sections.len() - 1
            });
            if self.sections[at].text != text {
                self.sections[at].text = text;
                self.laid_out[at] = self.sections[at].lay_out(self.size.0);
                has_changed = true;
            }
        }
        if has_changed {
            self.unfold_rows();
            self.go_to(if is_at_end { usize::MAX } else { self.top });
        }
    }

    /// Lays everything out for another terminal.
    pub fn resize(&mut self, (columns, lines): (usize, usize)) {
        let size = (columns.max(1), lines.saturating_sub(1).max(1));
        if size == self.size {
            return;
        }
        let top = self.rows.get(self.top).copied();
        self.size = size;
        let sections = self.sections.iter();
        self.laid_out = sections.map(|section| section.lay_out(size.0)).collect();
        self.unfold_rows();
        let place = top.and_then(|(section, _)| self.row_of(section));
        self.go_to(place.unwrap_or(self.top));
    }

    /// Applies a key.
    pub fn press(&mut self, key: KeyEvent) -> Looked {
        self.remark = None;
        if self.is_seeking {
            return self.seek(key);
        }
        let page = self.size.1.saturating_sub(1).max(1);
        match (key.modifiers, key.code) {
            (KeyModifiers::CONTROL, KeyCode::Char('o' | 'c' | 'd'))
            | (_, KeyCode::Esc | KeyCode::Char('q')) => return Looked::Closed,
            (KeyModifiers::CONTROL, KeyCode::Char('b')) => self.scroll(false, page),
            (KeyModifiers::CONTROL, KeyCode::Char('f')) => self.scroll(true, page),
            (_, KeyCode::PageUp | KeyCode::Char('b')) => self.scroll(false, page),
            (_, KeyCode::PageDown | KeyCode::Char(' ')) => self.scroll(true, page),
            (_, KeyCode::Up | KeyCode::Char('k')) => self.scroll(false, 1),
            (_, KeyCode::Down | KeyCode::Char('j')) => self.scroll(true, 1),
            (_, KeyCode::Home | KeyCode::Char('g')) => self.scroll(false, usize::MAX),
            (_, KeyCode::End | KeyCode::Char('G')) => self.scroll(true, usize::MAX),
            (_, KeyCode::BackTab) | (KeyModifiers::SHIFT, KeyCode::Tab) => self.step(false),
            (_, KeyCode::Tab) => self.step(true),
            (_, KeyCode::Enter) => self.fold(),
            (_, KeyCode::Char('z')) => self.fold_all(),
            (_, KeyCode::Char('/')) => {
                self.is_seeking = true;
                self.sought.clear();
            }
            (_, KeyCode::Char('n')) => self.find(true),
            (_, KeyCode::Char('N')) => self.find(false),
            (_, KeyCode::Char('c')) => {
                if let Some(section) = self.sections.get(self.at) {
                    let text = match section.text.trim() {
                        "" => section.head.clone(),
                        text => text.to_owned(),
                    };
                    self.remark = Some(format!("copied {} characters", text.chars().count()));
                    return Looked::Copied(text);
                }
            }
            _ => {}
        }
        Looked::On
    }

    /// Returns the rows of the screen, the last of which says where one is, or `waiting`.
    pub fn frame(&self, waiting: Option<&str>, palette: Palette) -> Vec<String> {
        let (columns, lines) = self.size;
        let shown = self.rows.iter().skip(self.top).take(lines);
        let mut frame: Vec<_> = shown.map(|row| self.paint(*row, palette)).collect();
        frame.resize(lines, String::new());
        let first = (self.top + 1).min(self.rows.len());
        let last = (self.top + lines).min(self.rows.len());
        let foot = match (self.is_seeking, &self.remark, waiting) {
            (true, _, _) => format!("/{}", neutralise(&self.sought)),
            (false, Some(remark), _) => remark.clone(),
            (false, None, Some(waiting)) => format!("{waiting} · q back"),
            (false, None, None) => format!("{first}-{last} of {} · {KEYS}", self.rows.len()),
        };
        frame.push(Line::of(&foot, Style::DIM).cut(columns).paint(palette));
        frame
    }

    /// Returns a row, with what is looked for in reverse video.
    fn paint(&self, (section, row): (usize, usize), palette: Palette) -> String {
        let line = self.line(section, row);
        let text = line.text();
        if self.sought.is_empty() || palette == Palette::Plain || !self.has(&text) {
            return line.paint(palette);
        }
        let (lower, sought) = (text.to_lowercase(), self.sought.to_lowercase());
        // Where lower case has another length, the places would be wrong.
        if lower.len() != text.len() {
            return line.paint(palette);
        }
        let mut painted = String::new();
        let mut done = 0;
        for (begin, found) in lower.match_indices(&sought) {
            let end = begin + found.len();
            if let (Some(before), Some(found)) = (text.get(done..begin), text.get(begin..end)) {
                painted.push_str(&format!("{before}\x1b[7m{found}\x1b[27m"));
                done = end;
            }
        }
        painted + &text[done..]
    }

    fn line(&self, section: usize, row: usize) -> Line {
        match row.checked_sub(1) {
            Some(row) => self.laid_out[section][row].clone(),
            None => {
                let is_parent = self
                    .sections
                    .get(section + 1)
                    .is_some_and(|next| next.depth > self.sections[section].depth);
                let has_more = is_parent || !self.laid_out[section].is_empty();
                self.sections[section].first_row(section == self.at, has_more, self.size.0)
            }
        }
    }

    /// Lists the rows that are not folded away.
    fn unfold_rows(&mut self) {
        self.rows.clear();
        let mut hidden_below = usize::MAX;
        for (at, section) in self.sections.iter().enumerate() {
            if section.depth > hidden_below {
                continue;
            }
            hidden_below = if section.is_folded {
                section.depth
            } else {
                usize::MAX
            };
            let rows = match section.is_folded {
                true => 0,
                false => self.laid_out[at].len(),
            };
            self.rows.extend((0..=rows).map(|row| (at, row)));
        }
    }

    fn row_of(&self, section: usize) -> Option<usize> {
        self.rows.iter().position(|row| *row == (section, 0))
    }

    fn last_top(&self) -> usize {
        self.rows.len().saturating_sub(self.size.1)
    }

    fn is_at_end(&self) -> bool {
        self.top >= self.last_top()
    }

    fn go_to(&mut self, top: usize) {
        self.top = top.min(self.last_top());
    }

    /// Scrolls, and marks a section that is on the screen.
    fn scroll(&mut self, is_down: bool, rows: usize) {
        self.found = None;
        self.go_to(match is_down {
            true => self.top.saturating_add(rows),
            false => self.top.saturating_sub(rows),
        });
        let seen = self.rows.iter().skip(self.top).take(self.size.1);
        let seen: Vec<_> = seen.map(|(section, _)| *section).collect();
        if let (Some(first), Some(last)) = (seen.first(), seen.last()) {
            self.at = match (is_down, rows) {
                (false, usize::MAX) => *first,
                (true, usize::MAX) => *last,
                _ => self.at.clamp(*first, *last),
            };
        }
    }

    /// Marks the next or the previous section that is not hidden, and shows its first row.
    fn step(&mut self, is_down: bool) {
        let mut heads = self
            .rows
            .iter()
            .filter(|(_, row)| *row == 0)
            .map(|row| row.0);
        let next = match is_down {
            true => heads.find(|section| *section > self.at),
            false => heads.rfind(|section| *section < self.at),
        };
        if let Some(next) = next {
            self.at = next;
            self.show_marked();
        }
    }

    fn show_marked(&mut self) {
        let Some(row) = self.row_of(self.at) else {
            return;
        };
        if row < self.top || row >= self.top + self.size.1 {
            self.found = None;
            self.go_to(row);
        }
    }

    fn fold(&mut self) {
        if let Some(section) = self.sections.get_mut(self.at) {
            section.is_folded = !section.is_folded;
            self.unfold_rows();
            self.go_to(self.top);
            self.show_marked();
        }
    }

    /// Folds everything, or unfolds it if everything is.
    fn fold_all(&mut self) {
        let folds = self.sections.iter().any(|section| !section.is_folded);
        for section in &mut self.sections {
            section.is_folded = folds;
        }
        self.unfold_rows();
        while self.row_of(self.at).is_none() && self.at > 0 {
            self.at -= 1;
        }
        self.go_to(self.top);
        self.show_marked();
    }

    /// Applies a key while it is typed what is looked for.
    fn seek(&mut self, key: KeyEvent) -> Looked {
        match (key.modifiers, key.code) {
            (_, KeyCode::Enter) => {
                self.is_seeking = false;
                self.found = None;
                self.unfold_found();
                self.find(true);
            }
            (_, KeyCode::Esc) | (KeyModifiers::CONTROL, KeyCode::Char('c')) => {
                self.is_seeking = false;
                self.sought.clear();
            }
            (_, KeyCode::Backspace) => drop(self.sought.pop()),
            (KeyModifiers::NONE | KeyModifiers::SHIFT, KeyCode::Char(c)) => self.sought.push(c),
            _ => {}
        }
        Looked::On
    }

    fn has(&self, text: &str) -> bool {
        let sought = self.sought.to_lowercase();
        !sought.is_empty() && text.to_lowercase().contains(&sought)
    }

    /// Unfolds the sections that have what is looked for, and those that hide them.
    fn unfold_found(&mut self) {
        for at in 0..self.sections.len() {
            if !self.has(&self.sections[at].text) && !self.has(&self.sections[at].head) {
                continue;
            }
            self.sections[at].is_folded = false;
            let mut depth = self.sections[at].depth;
            for above in self.sections[..at].iter_mut().rev() {
                if above.depth < depth {
                    above.is_folded = false;
                    depth = above.depth;
                }
            }
        }
        self.unfold_rows();
    }

    /// Goes to the next or the previous row with what is looked for, from the one found last or the top of the screen on, and
    /// around.
    fn find(&mut self, is_down: bool) {
        let found: Vec<usize> = (0..self.rows.len())
            .filter(|at| self.has(&self.line(self.rows[*at].0, self.rows[*at].1).text()))
            .collect();
        let is_behind = |at: &&usize| match self.found {
            Some(last) => self.rows[**at] > last,
            None => **at >= self.top,
        };
        let is_before = |at: &&usize| match self.found {
            Some(last) => self.rows[**at] < last,
            None => **at < self.top,
        };
        let next = match is_down {
            true => found.iter().find(is_behind).or(found.first()),
            false => found.iter().rfind(is_before).or(found.last()),
        };
        let Some(next) = next.copied() else {
            self.remark = Some(match self.sought.is_empty() {
                true => "/ searches".to_owned(),
                false => format!("nothing contains `{}`", neutralise(&self.sought)),
            });
            return;
        };
        self.at = self.rows[next].0;
        self.found = Some(self.rows[next]);
        self.go_to(next);
        let number = found.iter().position(|at| *at == next).unwrap_or(0) + 1;
        self.remark = Some(format!("{number} of {} · n next · N previous", found.len()));
    }
}

#[cfg(test)]
mod tests;
