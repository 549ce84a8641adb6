//! The text of a PDF's pages.

mod page;

use std::ops::RangeInclusive;

use lopdf::{Document, LoadOptions};

use crate::blocking::Stop;
use page::MAX_STREAM;

/// Limit for the pages that are read at once.
const MAX_PAGES: u32 = 20;

/// The text of some pages.
pub(crate) struct Pages {
    /// The text of each page behind a line with its number.
    pub(crate) text: String,
    /// Numbers of these pages, from 1.
    pub(crate) given: RangeInclusive<u32>,
    /// Number of pages of the file.
    pub(crate) count: u32,
}

/// Returns whether a file that starts like this is a PDF. Viewers accept anything before the header, but then a text
/// about PDFs would be one too.
pub(crate) fn is_pdf(start: &[u8]) -> bool {
    start.trim_ascii_start().starts_with(b"%PDF-")
}

/// Reads the wanted pages (`3`, `1-5`; by default the first 20).
pub(crate) fn read(content: &[u8], wanted: Option<&str>, stop: &Stop) -> Result<Pages, String> {
    // The library may still panic on a broken file.
    let work = || read_pages(content, wanted, stop);
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err("the PDF is broken".into()))
}

fn read_pages(content: &[u8], wanted: Option<&str>, stop: &Stop) -> Result<Pages, String> {
    let options = LoadOptions {
        max_decompressed_size: Some(MAX_STREAM),
        ..LoadOptions::default()
    };
    let document = Document::load_mem_with_options(content, options).map_err(explain)?;
    if document.is_encrypted() {
        return Err("the PDF is encrypted with a password".into());
    }
    let ids = document.get_pages();
    let count = u32::try_from(ids.len()).unwrap_or(u32::MAX);
    let given = choose(wanted, count)?;
    let mut text = String::new();
    for number in given.clone() {
        stop.check()?;
        text.push_str(&format!("[page {number} of {count}]\n"));
        let page = match ids.get(&number) {
            Some(id) => page::text(&document, *id).map_err(explain),
            None => Err("the PDF has no such page".into()),
        };
        match page.as_deref().map(str::trim) {
            Ok("") => text.push_str("[no text; it may be a picture]\n"),
            Ok(page) => text.extend([page, "\n"]),
            Err(error) => text.push_str(&format!("[not readable: {error}]\n")),
        }
    }
    text.pop();
    Ok(Pages { text, given, count })
}

/// Returns the range of pages for `3`, `1-5` or nothing, limited to those of the file.
fn choose(wanted: Option<&str>, count: u32) -> Result<RangeInclusive<u32>, String> {
    if count == 0 {
        return Err("the PDF has no pages".into());
    }
    let Some(wanted) = wanted.map(str::trim).filter(|wanted| !wanted.is_empty()) else {
        return Ok(1..=count.min(MAX_PAGES));
    };
    let (first, last) = wanted.split_once('-').unwrap_or((wanted, wanted));
    let page = |text: &str| text.trim().parse::<u32>().ok();
    match (page(first), page(last)) {
        (Some(first), Some(last)) if first > count && last >= first => {
            Err(format!("the PDF has only {count} pages"))
        }
        (Some(first @ 1..), Some(last)) if last >= first => {
            let last = last.min(count);
            match last - first {
                0..MAX_PAGES => Ok(first..=last),
                _ => Err(format!("at most {MAX_PAGES} pages can be read at once")),
            }
        }
        _ => Err(format!(
            "pages `{wanted}` is neither a page, as `3`, nor a range, as `1-5`"
        )),
    }
}

fn explain(error: lopdf::Error) -> String {
    match error {
        lopdf::Error::InvalidPassword => "the PDF is encrypted with a password".into(),
        lopdf::Error::Decompress(_) => "the PDF decompresses to too much, or is broken".into(),
        other => format!("the PDF is broken: {other}"),
    }
}
