//! The text of a PDF's pages.

mod page;

use std::cell::Cell;
use std::ops::RangeInclusive;

use lopdf::{Document, LoadOptions, Object, ObjectId};

use crate::blocking::Stop;
use page::MAX_STREAM;

/// Limit for the pages that are read at once.
const MAX_PAGES: u32 = 20;
/// Limit for all objects of a file that are in compressed streams, in bytes. In memory they take up to sixty times as much.
const MAX_OBJECTS: usize = 16 << 20;
const TOO_MUCH: &str = "the PDF decompresses to too much, or is broken";

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
    let document = load(content, MAX_OBJECTS)?;
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

thread_local! {
    /// How many bytes of objects the file that is being loaded may still decompress to.
    static OBJECTS_LEFT: Cell<usize> = const { Cell::new(0) };
}

/// Loads a file whose objects decompress to at most so many bytes. With its filter the library repairs no file whose page
/// tree cannot be found, so that is asked for.
fn load(content: &[u8], most: usize) -> Result<Document, String> {
    let load = |force_reconstruct| {
        OBJECTS_LEFT.set(most);
        let options = LoadOptions {
            filter: Some(count_objects),
            max_decompressed_size: Some(MAX_STREAM),
            force_reconstruct,
            ..LoadOptions::default()
        };
        let document = Document::load_mem_with_options(content, options).map_err(explain);
        match OBJECTS_LEFT.get() {
            0 => Err(TOO_MUCH.to_owned()),
            _ => document,
        }
    };
    match load(false)? {
        document if document.is_encrypted() || !document.get_pages().is_empty() => Ok(document),
        document => Ok(load(true).unwrap_or(document)),
    }
}

/// Leaves out the streams of objects beyond the limit. The library keeps what is returned only of objects in such a stream,
/// which are no streams themselves.
fn count_objects(id: ObjectId, object: &mut Object) -> Option<(ObjectId, Object)> {
    let size = match object {
        Object::Stream(stream) if stream.dict.has_type(b"ObjStm") => {
            let content = stream.get_plain_content_with_limit(MAX_OBJECTS);
            content.map_or(MAX_OBJECTS, |content| content.len())
        }
        _ => 0,
    };
    let left = OBJECTS_LEFT.get().saturating_sub(size);
    OBJECTS_LEFT.set(left);
    let kept = match object {
        Object::Stream(_) => Object::Null,
        other => other.clone(),
    };
    (left > 0).then_some((id, kept))
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
            "pages `{wanted}` is neither a page such as `3` nor a range such as `1-5`"
        )),
    }
}

fn explain(error: lopdf::Error) -> String {
    match error {
        lopdf::Error::InvalidPassword => "the PDF is encrypted with a password".into(),
        lopdf::Error::Decompress(_) => TOO_MUCH.into(),
        other => format!("the PDF is broken: {other}"),
    }
}

#[cfg(test)]
mod tests {
    use lopdf::dictionary;

    use super::*;

    #[test]
    fn compressed_objects_are_limited_in_all() {
        let mut document = Document::with_version("1.5");
        let page = dictionary! { "Type" => "Page" };
        let page = document.add_object(page);
        let pages = dictionary! { "Type" => "Pages", "Kids" => vec![page.into()], "Count" => 1 };
        let pages = document.add_object(pages);
        document
            .get_dictionary_mut(page)
            .unwrap()
            .set("Parent", pages);
        for number in 0..300 {
            document.add_object(Object::Array(vec![number.into(); 20]));
        }
        let catalog = dictionary! { "Type" => "Catalog", "Pages" => pages };
        let catalog = document.add_object(catalog);
        document.trailer.set("Root", catalog);
        let mut file = Vec::new();
        document.save_modern(&mut file).unwrap();
        assert!(file.windows(6).any(|word| word == b"ObjStm"));
        assert_eq!(load(&file, MAX_OBJECTS).unwrap().get_pages().len(), 1);
        assert_eq!(load(&file, 5_000).unwrap_err(), TOO_MUCH);
    }
}
