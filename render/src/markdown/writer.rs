//! Rendering of one block.

use std::mem;

use anstyle::Effects;
use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use super::table::Table;
use crate::highlight::Highlighter;
use crate::{Ink, Line, Style, wrap};

/// Mark of an item of a list without numbers.
const BULLET: &str = "• ";

/// Returns the rows of a block. At most `coloured` bytes of its code are highlighted, and `coloured` is reduced by them. A
/// block without output, such as a link reference definition, is shown as it is.
pub fn rows(block: &str, width: usize, coloured: &mut usize) -> Vec<Line> {
    let mut writer = Writer {
        width,
        rows: Vec::new(),
        containers: Vec::new(),
        text: Vec::new(),
        style: vec![Style::PLAIN],
        lists: Vec::new(),
        links: Vec::new(),
        code: None,
        table: None,
        is_first: true,
        coloured,
    };
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    for event in Parser::new_ext(block, options) {
        writer.write(event);
    }
    if writer.rows.is_empty() {
        for line in block.trim_end().lines() {
            writer.text.push(Line::of(line, Style::PLAIN));
        }
        writer.flush();
    }
    writer.rows
}

struct Writer<'a> {
    width: usize,
    rows: Vec<Line>,
    containers: Vec<Container>,
    /// Lines of the current paragraph.
    text: Vec<Line>,
    /// Stack of styles, each including those below it.
    style: Vec<Style>,
    /// Next numbers of the open lists; `None` for bullets.
    lists: Vec<Option<u64>>,
    /// Addresses and texts of the open links.
    links: Vec<(String, String)>,
    code: Option<(Highlighter, String)>,
    table: Option<Table>,
    /// Whether the next block is the first in its container.
    is_first: bool,
    coloured: &'a mut usize,
}

/// Prefixes of the rows in a quote or list item.
struct Container {
    /// Prefix of the next row.
    first: Line,
    /// Prefix of later rows.
    rest: Line,
}

impl Writer<'_> {
    fn write(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => match &mut self.code {
                Some((_, code)) => code.push_str(&text),
                None => self.push(&text),
            },
            Event::Code(text) => {
                let style = Style {
                    ink: Ink::Code,
                    ..self.style()
                };
                self.push_as(&format!("`{text}`"), style);
            }
            Event::InlineHtml(tag) if matches!(&*tag, "<br>" | "<br/>" | "<br />") => {
                self.break_line();
            }
            Event::Html(text) => {
                for line in text.trim_end_matches('\n').split('\n') {
                    self.push(line);
                    self.break_line();
                }
            }
            Event::InlineHtml(text)
            | Event::InlineMath(text)
            | Event::DisplayMath(text)
            | Event::FootnoteReference(text) => {
                self.push(&text);
            }
            Event::SoftBreak => self.push(" "),
            Event::HardBreak => self.break_line(),
            Event::Rule => {
                self.apart();
                let (first, _) = self.prefixes();
                let room = self.width.saturating_sub(first.width()).min(60);
                self.rows
                    .push(Line::of(&"─".repeat(room), Style::DIM).behind(&first));
            }
            Event::TaskListMarker(is_done) => self.task(is_done),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.apart(),
            Tag::Heading { level, .. } => {
                self.apart();
                let mark = "#".repeat(depth(level));
                let style = Style::of(Ink::Accent, Effects::BOLD);
                self.style.push(style);
                self.push(&format!("{mark} "));
            }
            Tag::BlockQuote(_) => {
                self.apart();
                let bar = Line::of("│ ", Style::DIM);
                self.contain(bar.clone(), bar);
            }
            Tag::CodeBlock(kind) => {
                self.apart();
                let language = match &kind {
                    CodeBlockKind::Fenced(info) => {
                        info.split([' ', '\t', ',', '{']).next().unwrap_or("")
                    }
                    CodeBlockKind::Indented => "",
                };
                self.code = Some((Highlighter::within(language, *self.coloured), String::new()));
            }
            Tag::List(number) => {
                self.flush();
                self.lists.push(number);
            }
            Tag::Item => self.item(),
            Tag::Table(aligns) => {
                self.apart();
                self.table = Some(Table::new(aligns));
            }
            Tag::TableHead => self.style.push(Style::BOLD),
            Tag::TableRow => {
                if let Some(table) = &mut self.table {
                    table.begin_row();
                }
            }
            Tag::Emphasis => self.emphasise(Effects::ITALIC),
            Tag::Strong => self.emphasise(Effects::BOLD),
            Tag::Strikethrough => self.emphasise(Effects::STRIKETHROUGH),
            Tag::Link { dest_url, .. } => self.link(dest_url.into_string(), ""),
            Tag::Image { dest_url, .. } => self.link(dest_url.into_string(), "image: "),
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.flush(),
            TagEnd::Heading(_) => {
                self.flush();
                self.style.pop();
            }
            TagEnd::BlockQuote(_) => {
                self.flush();
                self.containers.pop();
            }
            TagEnd::CodeBlock => self.end_code(),
            TagEnd::List(_) => {
                self.lists.pop();
            }
            TagEnd::Item => self.end_item(),
            TagEnd::Table => self.end_table(),
            TagEnd::TableHead => {
                self.style.pop();
            }
            TagEnd::TableCell => {
                let cell = mem::take(&mut self.text);
                if let Some(table) = &mut self.table {
                    table.push(cell);
                }
            }
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => {
                self.style.pop();
            }
            TagEnd::Link | TagEnd::Image => self.end_link(),
            _ => {}
        }
    }

    fn style(&self) -> Style {
        self.style.last().copied().unwrap_or(Style::PLAIN)
    }

    fn emphasise(&mut self, effects: Effects) {
        self.style.push(self.style().with(effects));
    }

    fn push(&mut self, text: &str) {
        self.push_as(text, self.style());
    }

    fn push_as(&mut self, text: &str, style: Style) {
        if let Some((_, words)) = self.links.last_mut() {
            words.push_str(text);
        }
        match self.text.last_mut() {
            Some(line) => line.push(text, style),
            None => self.text.push(Line::of(text, style)),
        }
    }

    fn break_line(&mut self) {
        self.text.push(Line::default());
    }

    fn link(&mut self, address: String, sign: &str) {
        self.push(sign);
        self.links.push((address, String::new()));
        let style = self.style().with(Effects::UNDERLINE);
        self.style.push(Style {
            ink: Ink::Link,
            ..style
        });
    }

    /// Adds the address of a link, unless its text is the address.
    fn end_link(&mut self) {
        self.style.pop();
        let Some((address, words)) = self.links.pop() else {
            return;
        };
        let is_shown = words == address || address.strip_prefix("mailto:") == Some(&words);
        if !is_shown && !address.is_empty() {
            self.push_as(&format!(" ({address})"), Style::DIM);
        }
    }

    fn contain(&mut self, first: Line, rest: Line) {
        self.containers.push(Container { first, rest });
        self.is_first = true;
    }

    fn item(&mut self) {
        let mark = match self.lists.last_mut() {
            Some(Some(number)) => {
                let mark = format!("{number}. ");
                *number += 1;
                mark
            }
            _ => BULLET.to_owned(),
        };
        self.flush();
        let rest = Line::of(&" ".repeat(mark.chars().count()), Style::PLAIN);
        self.contain(
            Line::of(&mark, Style::of(Ink::Accent, Effects::new())),
            rest,
        );
    }

    /// Marks the item that has begun as a task, in the place of its bullet.
    fn task(&mut self, is_done: bool) {
        let mark = if is_done { "☑ " } else { "☐ " };
        match self.containers.last_mut() {
            Some(item) if item.first.text() == BULLET => {
                item.first = Line::of(mark, Style::of(Ink::Accent, Effects::new()));
            }
            _ => self.push(mark),
        }
    }

    fn end_item(&mut self) {
        self.flush();
        // An empty item has its marker all the same.
        if let Some(container) = self.containers.last()
            && !container.first.is_blank()
        {
            let (first, _) = self.prefixes();
            self.rows.push(first);
        }
        self.containers.pop();
        self.is_first = false;
    }

    fn end_code(&mut self) {
        let Some((mut highlighter, code)) = self.code.take() else {
            return;
        };
        for line in code.lines() {
            let line = highlighter.line(line);
            for row in super::code(&line, self.room()) {
                let (first, _) = self.prefixes();
                self.rows.push(row.behind(&first));
            }
        }
        *self.coloured = highlighter.left();
        self.is_first = false;
    }

    fn end_table(&mut self) {
        let Some(table) = self.table.take() else {
            return;
        };
        for row in table.rows(self.room()) {
            let (first, _) = self.prefixes();
            self.rows.push(row.behind(&first));
        }
        self.is_first = false;
    }

    /// Adds a blank row before a block, except before the first one.
    fn apart(&mut self) {
        self.flush();
        if !self.is_first {
            let mut row = Line::default();
            for container in &self.containers {
                row.append(&container.rest);
            }
            self.rows
                .push(if row.is_blank() { Line::default() } else { row });
        }
        self.is_first = true;
    }

    /// Ends the current paragraph.
    fn flush(&mut self) {
        let mut text = mem::take(&mut self.text);
        if text.last().is_some_and(Line::is_blank) {
            text.pop();
        }
        for line in text {
            let (first, rest) = self.prefixes();
            self.rows.extend(wrap(&line, self.width, &first, &rest));
            self.is_first = false;
        }
    }

    /// The prefixes of the next row and of later ones. The markers of items are used once.
    fn prefixes(&mut self) -> (Line, Line) {
        let (mut first, mut rest) = (Line::default(), Line::default());
        for container in &mut self.containers {
            first.append(&container.first);
            rest.append(&container.rest);
            container.first = container.rest.clone();
        }
        (first, rest)
    }

    fn room(&self) -> usize {
        let taken: usize = self
            .containers
            .iter()
            .map(|container| container.rest.width())
            .sum();
        self.width.saturating_sub(taken)
    }
}

fn depth(level: HeadingLevel) -> usize {
    match level {
        HeadingLevel::H1 => 1,
        HeadingLevel::H2 => 2,
        HeadingLevel::H3 => 3,
        HeadingLevel::H4 => 4,
        HeadingLevel::H5 => 5,
        HeadingLevel::H6 => 6,
    }
}
