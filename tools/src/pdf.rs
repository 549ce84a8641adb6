//! The text of a PDF: which pages are asked for, and what stands on them.

mod page;

use std::ops::RangeInclusive;

use lopdf::{Document, LoadOptions};

use crate::blocking::Stop;

/// How many pages are given at once.
const MAX_PAGES: u32 = 20;
/// How large one stream of the file may become when it is unpacked.
const MAX_STREAM: usize = 32 << 20;

/// The text of some pages.
pub(crate) struct Pages {
    /// Each page's text behind a line with its number.
    pub(crate) text: String,
    /// Which pages these are.
    pub(crate) given: RangeInclusive<u32>,
    /// How many there are.
    pub(crate) count: u32,
}

/// Whether a file that starts like this is a PDF. Viewers put up with anything in front, but then a text that only
/// speaks of PDFs would be one too.
pub(crate) fn is_pdf(start: &[u8]) -> bool {
    start.trim_ascii_start().starts_with(b"%PDF-")
}

/// Reads the wanted pages (`3`, `1-5`; by default the first 20). The error says what is wrong with the file or the
/// wish.
pub(crate) fn read(content: &[u8], wanted: Option<&str>, stop: &Stop) -> Result<Pages, String> {
    // The library has met many broken files, but surely not all.
    let work = || read_pages(content, wanted, stop);
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err("the PDF is broken".into()))
}

fn read_pages(content: &[u8], wanted: Option<&str>, stop: &Stop) -> Result<Pages, String> {
    let options = LoadOptions {
        max_decompressed_size: Some(MAX_STREAM),
        ..LoadOptions::default()
    };
    let document = Document::load_mem_with_options(content, options).map_err(tell)?;
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
            Some(id) => page::text(&document, *id).map_err(tell),
            None => Err("the PDF has no such page".into()),
        };
        match page.as_deref().map(str::trim) {
            Ok("") => text.push_str("[no text; it may be a picture]\n"),
            Ok(page) => text.extend([page, "\n"]),
            Err(fault) => text.push_str(&format!("[not readable: {fault}]\n")),
        }
    }
    text.pop();
    Ok(Pages { text, given, count })
}

/// The pages meant by `3`, `1-5` or nothing at all, as far as there are any.
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

fn tell(error: lopdf::Error) -> String {
    match error {
        lopdf::Error::InvalidPassword => "the PDF is encrypted with a password".into(),
        lopdf::Error::Decompress(_) => "the PDF unpacks to too much, or is broken".into(),
        other => format!("the PDF is broken: {other}"),
    }
}
