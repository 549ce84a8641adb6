//! The text of one page of a PDF, in the order of the file.
//!
//! A page draws strings at positions. A string that starts lower than the last one starts a new line; one that starts well
//! to the right of the end of the last one has a space before it. Rotated text and text in form objects is left out.

use std::collections::BTreeMap;

use lopdf::content::{Content, Operation};
use lopdf::{Dictionary, Document, Encoding, Object, ObjectId};

/// Limit for a decompressed stream of the file, in bytes.
pub(super) const MAX_STREAM: usize = 32 << 20;

/// Distance between strings of a line that stands for a space, in units of the font size.
const SPACE: f32 = 0.15;
/// Vertical distance between strings that ends a line, in units of the font size, and one that ends a paragraph.
const LINE: f32 = 0.4;
const PARAGRAPH: f32 = 1.8;
/// Limit for the text of a page in bytes; no page for people has more.
const MAX_TEXT: usize = 1 << 20;

/// Returns the text of the page.
pub(super) fn text(document: &Document, page: ObjectId) -> lopdf::Result<String> {
    let dictionaries = document.get_page_fonts(page)?;
    let fonts = dictionaries
        .into_iter()
        .filter_map(|(name, font)| Some((name, Font::of(document, font)?)))
        .collect();
    let content = document.get_page_content_with_limit(page, MAX_STREAM)?;
    let mut pen = Pen::new(&fonts);
    for operation in Content::decode_iter(&content) {
        pen.follow(&operation?);
        if pen.text.len() > MAX_TEXT {
            pen.text.push_str("\n[more text on this page]");
            break;
        }
    }
    Ok(pen.text)
}

/// Encoding and widths of a font.
struct Font<'a> {
    encoding: Encoding<'a>,
    /// In thousandths of the font size, from the first byte on; empty if the font has them in another form.
    widths: Vec<f32>,
    first_byte: usize,
}

impl<'a> Font<'a> {
    fn of(document: &'a Document, font: &'a Dictionary) -> Option<Self> {
        let encoding = font
            .get_font_encoding_with_limit(document, MAX_STREAM)
            .ok()?;
        let width = |object| {
            let (_, object) = document.dereference(object).ok()?;
            object.as_float().ok()
        };
        let first_byte = font.get(b"FirstChar").and_then(Object::as_i64);
        Some(Self {
            encoding,
            widths: font
                .get_deref(b"Widths", document)
                .and_then(Object::as_array)
                .into_iter()
                .flatten()
                .map(|object| width(object).unwrap_or(0.0))
                .collect(),
            first_byte: first_byte.map_or(0, |byte| usize::try_from(byte).unwrap_or(0)),
        })
    }

    /// Returns the width of the string in units of the font size; `None` if the widths are not known.
    fn width(&self, string: &[u8]) -> Option<f32> {
        if self.widths.is_empty() {
            return None;
        }
        let width = |byte: &u8| {
            let at = usize::from(*byte).checked_sub(self.first_byte)?;
            self.widths.get(at).copied()
        };
        Some(string.iter().filter_map(width).sum::<f32>() / 1000.0)
    }
}

/// State of drawing, and the text so far.
struct Pen<'a> {
    fonts: &'a BTreeMap<Vec<u8>, Font<'a>>,
    font: Option<&'a Font<'a>>,
    size: f32,
    leading: f32,
    /// Units of the page per unit of text.
    scale: f32,
    /// Start of the line, and the width of the strings on it; `None` if that is not known.
    line: (f32, f32),
    advance: Option<f32>,
    /// End of the last string; `None` if it cannot be compared with the next.
    last: Option<(Option<f32>, f32)>,
    text: String,
}

impl<'a> Pen<'a> {
    fn new(fonts: &'a BTreeMap<Vec<u8>, Font<'a>>) -> Self {
        Self {
            fonts,
            font: None,
            size: 1.0,
            leading: 0.0,
            scale: 1.0,
            line: (0.0, 0.0),
            advance: Some(0.0),
            last: None,
            text: String::new(),
        }
    }

    fn follow(&mut self, operation: &Operation) {
        let operands = &operation.operands;
        let number = |at: usize| {
            let object = operands.get(at);
            object.map_or(0.0, |object| object.as_float().unwrap_or(0.0))
        };
        match operation.operator.as_str() {
            "BT" => {
                self.scale = 1.0;
                self.begin_line(0.0, 0.0);
            }
            "Tf" => {
                let name = operands.first().and_then(|object| object.as_name().ok());
                self.font = name.and_then(|name| self.fonts.get(name));
                self.size = number(1);
            }
            "TL" => self.leading = number(0),
            "Tm" => {
                self.scale = number(0).hypot(number(1));
                self.begin_line(number(4), number(5));
            }
            "Td" => self.move_line(number(0), number(1)),
            "TD" => {
                self.leading = -number(1);
                self.move_line(number(0), number(1));
            }
            "T*" => self.move_line(0.0, -self.leading),
            "'" | "\"" => {
                self.move_line(0.0, -self.leading);
                self.show(operands.last());
            }
            "Tj" => self.show(operands.first()),
            "TJ" => {
                if let Some(Object::Array(parts)) = operands.first() {
                    parts.iter().for_each(|part| self.show(Some(part)));
                }
            }
            // These change the coordinates: positions before and after cannot be compared.
            "cm" | "Q" => self.last = None,
            _ => {}
        }
    }

    fn begin_line(&mut self, x: f32, y: f32) {
        self.line = (x, y);
        self.advance = Some(0.0);
    }

    fn move_line(&mut self, x: f32, y: f32) {
        let (from_x, from_y) = self.line;
        self.begin_line(from_x + x * self.scale, from_y + y * self.scale);
    }

    /// Draws a string, or moves by the number between two strings.
    fn show(&mut self, part: Option<&Object>) {
        let em = (self.size * self.scale).abs().max(f32::MIN_POSITIVE);
        let string = match part {
            Some(Object::String(string, _)) if !string.is_empty() => string,
            Some(other) => {
                if let Ok(back) = other.as_float() {
                    self.move_within_line(-back / 1000.0 * em, em);
                }
                return;
            }
            None => return,
        };
        let Some(font) = self.font else { return };
        self.separate(em);
        if font
            .encoding
            .write_to_string(string, &mut self.text)
            .is_err()
        {
            self.text.push(char::REPLACEMENT_CHARACTER);
        }
        self.advance = self
            .advance
            .zip(font.width(string))
            .map(|(advance, width)| advance + width * em);
        self.last = Some((self.x(), self.line.1));
    }

    fn x(&self) -> Option<f32> {
        self.advance.map(|advance| self.line.0 + advance)
    }

    fn move_within_line(&mut self, by: f32, em: f32) {
        match &mut self.advance {
            Some(advance) => *advance += by,
            // The width of the strings is not known, but that of the gap between them is.
            None if by > SPACE * em => self.push(" "),
            None => {}
        }
    }

    /// Adds the separator that the distance between the last string and the next stands for.
    fn separate(&mut self, em: f32) {
        let (x, y) = (self.x(), self.line.1);
        match self.last {
            None => self.push("\n"),
            Some((_, last)) if (y - last).abs() > PARAGRAPH * em => self.push("\n\n"),
            Some((_, last)) if (y - last).abs() > LINE * em => self.push("\n"),
            Some((Some(end), _)) if x.is_some_and(|x| (x - end).abs() > SPACE * em) => {
                self.push(" ");
            }
            // A string at a new position after one of unknown width.
            Some((None, _)) if self.advance == Some(0.0) => self.push(" "),
            Some(_) => {}
        }
    }

    fn push(&mut self, separator: &str) {
        if !self.text.is_empty() && !self.text.ends_with([' ', '\n']) {
            self.text.push_str(separator);
        }
    }
}
