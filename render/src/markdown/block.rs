//! Block structure of top-level lines, as in CommonMark: the kind of block that a line starts, and whether it continues the
//! open one. Nested blocks are left to the parser.

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A paragraph, a table or an HTML block.
    Paragraph,
    Quote,
    /// Indented code.
    Indented,
    Item {
        /// Column of its text.
        indent: usize,
        /// Open fence within it.
        fence: Option<Fence>,
    },
    Heading,
    Rule,
    Fenced,
}

impl Kind {
    /// Whether there is always a blank line before and after it.
    pub(super) fn stands_apart(self) -> bool {
        matches!(
            self,
            Self::Heading | Self::Rule | Self::Fenced | Self::Indented
        )
    }
}

/// The kind of block that a line starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    Blank,
    Fence(Fence),
    Heading,
    Rule,
    /// A list item with the column of its text.
    Item {
        indent: usize,
    },
    Quote,
    Indented,
    Text,
}

/// An opening code fence.
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
        if rest.starts_with('>') {
            Self::Quote
        } else {
            Self::Text
        }
    }

    /// Whether it can interrupt a paragraph. `line` is the line that it was made from.
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
    /// Returns whether `line` continues the block. `after_blank` is whether a blank line precedes it.
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
                // A paragraph within the item may continue without indentation.
                (Start::Text | Start::Indented, false) => !after_blank && fence.is_none(),
                (_, false) => false,
            },
            Self::Heading | Self::Rule | Self::Fenced => false,
        }
    }
}

impl Fence {
    /// Returns the fence that `line` opens.
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

    /// Returns the fence that the first line of a list item opens after its marker.
    pub fn within_item(line: &str, indent: usize) -> Option<Self> {
        Self::of(line.get(indent..)?)
    }

    /// Returns the language in `line`, which opened the fence.
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

    /// Returns a line of the code without the indentation of the fence.
    pub fn content(self, line: &str) -> &str {
        let blanks = line.bytes().take_while(|byte| *byte == b' ').count();
        &line[blanks.min(self.indent)..]
    }
}

/// The column of the first character that is not white space, with tab stops of four columns.
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

/// Returns whether `line` is the underline of a heading.
pub fn is_underline(line: &str) -> bool {
    let rest = line.trim();
    let is_of = |mark: u8| !rest.is_empty() && rest.bytes().all(|byte| byte == mark);
    indent(line) < 4 && (is_of(b'=') || is_of(b'-'))
}

/// The length of the marker of a list item with the spaces after it.
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
        // The item starts with indented code or is empty.
        (false, 5..) => Some(digits + 2),
        (false, 1..=4) if after.trim().is_empty() => Some(digits + 2),
        (false, 1..=4) => Some(digits + 1 + blanks),
    }
}
