//! What a line begins, and whether a block goes on with it: as CommonMark has it, seen from the margin. What stands
//! further in is left to the parser.

use super::Kind;

/// What a line begins that belongs to nothing before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    Blank,
    Fence(Fence),
    Heading,
    Rule,
    /// An item of a list, whose text stands so far in.
    Item {
        indent: usize,
    },
    Quote,
    Indented,
    Text,
}

/// A fence that was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fence {
    mark: u8,
    length: usize,
    indent: usize,
}

impl Start {
    pub fn of(line: &str) -> Self {
        let indent = indent(line);
        let rest = line.trim_start();
        if rest.is_empty() {
            return Self::Blank;
        }
        if indent >= 4 {
            return Self::Indented;
        }
        if let Some(fence) = Fence::of(line) {
            return Self::Fence(fence);
        }
        if is_heading(rest) {
            return Self::Heading;
        }
        // Before items, since `* * *` looks like one.
        if is_rule(rest) {
            return Self::Rule;
        }
        if let Some(marker) = marker(rest) {
            return Self::Item {
                indent: indent + marker,
            };
        }
        match rest.starts_with('>') {
            true => Self::Quote,
            false => Self::Text,
        }
    }

    /// Whether it ends a paragraph without a blank line between. `line` is the one it was made of.
    fn interrupts(self, line: &str) -> bool {
        match self {
            Self::Blank | Self::Fence(_) | Self::Heading | Self::Rule | Self::Quote => true,
            Self::Item { indent } => {
                let rest = line.trim_start();
                let is_numbered = rest.starts_with(|c: char| c.is_ascii_digit());
                let is_first = rest.starts_with("1.") || rest.starts_with("1)");
                let has_text = indent < line.trim_end().len();
                has_text && (!is_numbered || is_first)
            }
            Self::Indented | Self::Text => false,
        }
    }
}

impl Kind {
    /// Whether the block goes on with `line`. `after_blank` tells whether a blank line stands before it.
    pub fn takes(&mut self, line: &str, after_blank: bool) -> bool {
        let start = Start::of(line);
        let column = indent(line);
        match self {
            Self::Paragraph if is_underline(line) => true,
            Self::Paragraph => !start.interrupts(line),
            Self::Quote => start == Start::Quote || !start.interrupts(line),
            Self::Indented => matches!(start, Start::Indented | Start::Blank),
            Self::Item { indent, fence } => match (start, column >= *indent) {
                (Start::Blank, _) => true,
                (_, true) => {
                    let inner = line.get(*indent..).unwrap_or("");
                    *fence = match *fence {
                        Some(open) => (!open.is_closed_by(inner)).then_some(open),
                        None => Fence::of(inner),
                    };
                    true
                }
                // What was begun further in ends with the item; a paragraph may go on at the margin.
                (Start::Text | Start::Indented, false) => !after_blank && fence.is_none(),
                (_, false) => false,
            },
            Self::Heading | Self::Rule | Self::Fenced => false,
        }
    }
}

impl Fence {
    /// The one that `line` opens.
    pub fn of(line: &str) -> Option<Self> {
        let indent = indent(line);
        let rest = line.trim_start();
        let mark = *rest.as_bytes().first()?;
        let length = rest.bytes().take_while(|byte| *byte == mark).count();
        let is_fence = matches!(mark, b'`' | b'~') && length >= 3 && indent < 4;
        let has_tick = mark == b'`' && rest[length..].contains('`');
        (is_fence && !has_tick).then_some(Self {
            mark,
            length,
            indent,
        })
    }

    /// The one that the first line of an item opens behind the item's mark.
    pub fn within_item(line: &str, indent: usize) -> Option<Self> {
        Self::of(line.get(indent..)?)
    }

    /// The language that the line which opened it names.
    pub fn language(self, line: &str) -> &str {
        let info = line.trim_start().get(self.length..).unwrap_or("").trim();
        let end = info.find([' ', '\t', ',', '{']).unwrap_or(info.len());
        &info[..end]
    }

    pub fn is_closed_by(self, line: &str) -> bool {
        let rest = line.trim();
        let is_mark = rest.bytes().all(|byte| byte == self.mark);
        is_mark && rest.len() >= self.length && indent(line) < 4
    }

    /// A line in it, without the indent that the fence has itself.
    pub fn content(self, line: &str) -> &str {
        let blanks = line.bytes().take_while(|byte| *byte == b' ').count();
        &line[blanks.min(self.indent)..]
    }
}

/// Columns before the first character that is no blank; a tab reaches to the next multiple of four.
fn indent(line: &str) -> usize {
    let mut column = 0;
    for byte in line.bytes() {
        match byte {
            b' ' => column += 1,
            b'\t' => column += 4 - column % 4,
            _ => break,
        }
    }
    column
}

fn is_heading(rest: &str) -> bool {
    let level = rest.bytes().take_while(|byte| *byte == b'#').count();
    let after = rest.as_bytes().get(level);
    (1..=6).contains(&level) && matches!(after, None | Some(b' ' | b'\t'))
}

fn is_rule(rest: &str) -> bool {
    let mut marks = rest.bytes().filter(|byte| !matches!(byte, b' ' | b'\t'));
    let Some(mark @ (b'-' | b'*' | b'_')) = marks.next() else {
        return false;
    };
    let mut count = 1;
    marks.all(|byte| {
        count += 1;
        byte == mark
    }) && count >= 3
}

/// Whether `line` makes a heading of the paragraph above it.
pub fn is_underline(line: &str) -> bool {
    let rest = line.trim();
    let is_of = |mark: u8| !rest.is_empty() && rest.bytes().all(|byte| byte == mark);
    indent(line) < 4 && (is_of(b'=') || is_of(b'-'))
}

/// The length of the mark of an item and of the blanks behind it.
fn marker(rest: &str) -> Option<usize> {
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let marks: &[u8] = match digits {
        0 => b"-*+",
        1..=9 => b".)",
        _ => return None,
    };
    let mark = rest.as_bytes().get(digits)?;
    if !marks.contains(mark) {
        return None;
    }
    let after = &rest[digits + 1..];
    let blanks = indent(after);
    match (after.is_empty(), blanks) {
        (true, _) => Some(digits + 2),
        (false, 0) => None,
        // Code within the item, or nothing at all.
        (false, 5..) => Some(digits + 2),
        (false, 1..=4) if after.trim().is_empty() => Some(digits + 2),
        (false, 1..=4) => Some(digits + 1 + blanks),
    }
}
