//! The text of Word documents (`.docx`): an archive with an XML file, of which each paragraph becomes a line.

use std::fmt::Write as _;
use std::io::{BufReader, Cursor, Read as _};

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use zip::ZipArchive;

use crate::blocking::Stop;

/// Part of the archive with the text.
const TEXT: &str = "word/document.xml";
/// Most bytes of that part, which may be packed tightly.
const MAX_TEXT: u64 = 64 << 20;

/// Returns the text: a line for each paragraph and each row of a table, headings and list items as in Markdown.
pub(crate) fn text(content: &[u8], stop: &Stop) -> Result<String, String> {
    let mut archive = ZipArchive::new(Cursor::new(content)).map_err(|error| error.to_string())?;
    let part = archive
        .by_name(TEXT)
        .map_err(|_| "it is not a Word document".to_owned())?;
    if part.size() > MAX_TEXT {
        return Err(format!("its text has more than {MAX_TEXT} bytes"));
    }
    let mut reader = Reader::from_reader(BufReader::new(part.take(MAX_TEXT)));
    let mut lines = Lines::default();
    let mut buffer = Vec::new();
    loop {
        stop.check()?;
        buffer.clear();
        let event = reader.read_event_into(&mut buffer);
        match event.map_err(|error| error.to_string())? {
            Event::Start(start) => lines.begin(&start),
            Event::Empty(start) => {
                lines.begin(&start);
                lines.end(start.local_name().as_ref());
            }
            Event::End(end) => lines.end(end.local_name().as_ref()),
            Event::Text(text) if lines.is_in_text => {
                lines.line.push_str(&text);
            }
            Event::GeneralRef(name) if lines.is_in_text => lines.refer(&name),
            Event::Eof => return Ok(lines.text),
            _ => {}
        }
    }
}

/// The lines so far.
#[derive(Default)]
struct Lines {
    text: String,
    line: String,
    /// Level of the paragraph, if it is a heading.
    heading: Option<usize>,
    is_item: bool,
    is_in_text: bool,
    /// Cells of the table's row; a table in a cell is a part of its text.
    cells: Vec<String>,
    /// Number of tables around.
    depth: usize,
}

impl Lines {
    fn begin(&mut self, start: &BytesStart<'_>) {
        match start.local_name().as_ref() {
            "t" => self.is_in_text = true,
            "tab" => self.line.push('\t'),
            "br" | "cr" => self.line.push(' '),
            "tbl" => self.depth += 1,
            "numPr" => self.is_item = true,
            "pStyle" => {
                let style = style(start).unwrap_or_default();
                self.heading = level(&style);
                self.is_item |= style.starts_with("List");
            }
            _ => {}
        }
    }

    fn end(&mut self, name: &str) {
        match name {
            "t" => self.is_in_text = false,
            "p" => self.end_paragraph(),
            "tc" => {
                let cell = std::mem::take(&mut self.line);
                self.cells.push(cell.trim().to_owned());
            }
            "tr" if self.depth == 1 => {
                let row = std::mem::take(&mut self.cells).join(" | ");
                self.push(&row);
            }
            "tbl" => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
    }

    fn end_paragraph(&mut self) {
        let heading = self.heading.take();
        let is_item = std::mem::take(&mut self.is_item);
        if self.depth > 0 {
            // Paragraphs of a cell stand in one line.
            self.line.push(' ');
            return;
        }
        let line = std::mem::take(&mut self.line);
        let mark = match heading {
            Some(level) => format!("{} ", "#".repeat(level)),
            None if is_item => "- ".to_owned(),
            None => String::new(),
        };
        self.push(&format!("{mark}{line}"));
    }

    fn push(&mut self, line: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{}", line.trim_end());
    }

    /// Adds the character that a reference stands for; of names only those of XML itself are known.
    fn refer(&mut self, name: &str) {
        let character = match name {
            "amp" => Some('&'),
            "lt" => Some('<'),
            "gt" => Some('>'),
            "quot" => Some('"'),
            "apos" => Some('\''),
            _ => number(name).and_then(char::from_u32),
        };
        self.line.extend(character);
    }
}

/// Returns the number of a reference such as `#x41`.
fn number(name: &str) -> Option<u32> {
    let digits = name.strip_prefix('#')?;
    match digits.strip_prefix('x') {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => digits.parse().ok(),
    }
}

/// Returns the name of a paragraph's style.
fn style(start: &BytesStart<'_>) -> Option<String> {
    let mut attributes = start.attributes().flatten();
    let name = attributes.find(|it| it.key.local_name().as_ref() == "val")?;
    Some(name.value.into_owned())
}

/// Returns the level of a heading's style, as in `Heading2`.
fn level(style: &str) -> Option<usize> {
    let level: usize = style.strip_prefix("Heading")?.parse().ok()?;
    (1..=9).contains(&level).then_some(level)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use zip::ZipWriter;
    use zip::write::SimpleFileOptions;

    use super::*;

    fn docx(body: &str) -> Vec<u8> {
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        writer
            .start_file(TEXT, SimpleFileOptions::default())
            .unwrap();
        let start = r#"<?xml version="1.0"?><w:document xmlns:w="x"><w:body>"#;
        write!(writer, "{start}{body}</w:body></w:document>").unwrap();
        writer.finish().unwrap().into_inner()
    }

    fn read(body: &str) -> String {
        let read = text(&docx(body), &Stop::default());
        read.unwrap_or_else(|error| format!("error: {error}"))
    }

    #[test]
    fn paragraphs_headings_lists_and_tables_become_lines() {
        let cell = |text: &str| format!("<w:tc><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:tc>");
        let row = |texts: [&str; 2]| format!("<w:tr>{}</w:tr>", texts.map(cell).concat());
        let body = format!(
            r#"<w:p><w:pPr><w:pStyle w:val="Heading2"/></w:pPr><w:r><w:t>Title</w:t></w:r></w:p>
            <w:p><w:r><w:t xml:space="preserve">A &amp; </w:t></w:r><w:r><w:t>B&#x21;</w:t><w:tab/><w:t>C</w:t></w:r></w:p>
            <w:p/>
            <w:p><w:pPr><w:numPr/></w:pPr><w:r><w:t>item</w:t></w:r></w:p>
            <w:p><w:pPr><w:pStyle w:val="ListBullet"/></w:pPr><w:r><w:t>other</w:t></w:r></w:p>
            <w:tbl>{}{}</w:tbl>
            <w:p><w:r><w:delText>gone</w:delText><w:instrText>PAGE</w:instrText><w:t>end</w:t></w:r></w:p>"#,
            row(["a", "b"]),
            row(["c", ""]),
        );
        insta::assert_snapshot!(read(&body), @"
        ## Title
        A & B!	C

        - item
        - other
        a | b
        c |
        end
        ");
    }

    #[test]
    fn what_is_no_document_is_an_error() {
        assert!(text(b"PK\x03\x04 and no more", &Stop::default()).is_err());
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        writer
            .start_file("other", SimpleFileOptions::default())
            .unwrap();
        let other = writer.finish().unwrap().into_inner();
        assert_eq!(
            text(&other, &Stop::default()).unwrap_err(),
            "it is not a Word document"
        );
        assert!(read("<w:p></w:q>").starts_with("error: "));
    }
}
