//! Turns the body of a response into text. Pure.

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};

use super::html;

/// Number of bytes of a page that are searched for the name of its encoding.
const HEAD: usize = 1_024;
/// Number of bytes of a page that become Markdown; the rest is dropped.
const LONGEST: usize = 2_000_000;

/// A page that was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// The text; HTML as Markdown.
    pub text: String,
    /// The title of an HTML page.
    pub title: Option<String>,
    /// Length of the body in bytes.
    pub bytes: usize,
    /// Whether the page is longer than the text.
    pub is_cut: bool,
    /// Status code of the response and its reason phrase.
    pub status: (u16, String),
}

/// Reads the text of `body`, whose header says `content_type`; if it is not text, the error is its type.
pub fn read(body: &[u8], content_type: Option<&str>) -> Result<Page, String> {
    let (kind, charset) = parts(content_type);
    let kind = match kind.as_str() {
        "" => sniffed(body),
        kind => kind.to_owned(),
    };
    if !is_text(&kind) {
        return Err(kind);
    }
    let is_html = matches!(kind.as_str(), "text/html" | "application/xhtml+xml");
    let text = decoded(body, charset.as_deref(), is_html);
    if text.contains('\0') {
        return Err(format!("{kind}, but not text"));
    }
    let mut page = Page {
        bytes: body.len(),
        ..Page::default()
    };
    if is_html {
        let end = text.floor_char_boundary(LONGEST);
        page.is_cut = end < text.len();
        (page.text, page.title) = html::markdown(&text[..end]);
    } else {
        page.text = text;
    }
    Ok(page)
}

/// Splits a content type into the media type, in lower case, and the charset.
fn parts(content_type: Option<&str>) -> (String, Option<String>) {
    let mut parts = content_type.unwrap_or_default().split(';').map(str::trim);
    let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
    let charset = parts.find_map(|part| {
        let (name, value) = part.split_once('=')?;
        let value = value.trim().trim_matches(['"', '\'']);
        name.trim()
            .eq_ignore_ascii_case("charset")
            .then(|| value.to_owned())
    });
    (kind, charset)
}

/// Guesses the media type of a body.
fn sniffed(body: &[u8]) -> String {
    let start = String::from_utf8_lossy(&body[..body.len().min(HEAD)]).to_ascii_lowercase();
    let is_html = start.trim_start().starts_with("<!doctype html") || start.contains("<html");
    let kind = if body.contains(&0) {
        "application/octet-stream"
    } else if is_html {
        "text/html"
    } else {
        "text/plain"
    };
    kind.to_owned()
}

fn is_text(kind: &str) -> bool {
    let subtype = kind.split_once('/').map_or("", |(_, subtype)| subtype);
    let is_code = matches!(
        subtype.trim_start_matches("x-"),
        "json"
            | "ndjson"
            | "jsonlines"
            | "xml"
            | "xhtml+xml"
            | "javascript"
            | "ecmascript"
            | "typescript"
            | "yaml"
            | "toml"
            | "sh"
            | "sql"
            | "graphql"
            | "tex"
            | "httpd-php"
            | "www-form-urlencoded"
    );
    kind.starts_with("text/")
        || is_code
        || subtype.ends_with("+json")
        || subtype.ends_with("+xml") && kind != "image/svg+xml"
        || subtype.ends_with("+yaml")
}

/// Decodes a body in the encoding of its byte order mark, of the header or of the page itself; else in UTF-8 or
/// Windows-1252.
fn decoded(body: &[u8], charset: Option<&str>, is_html: bool) -> String {
    let label = |label: &str| Encoding::for_label(label.as_bytes());
    let of_page = || is_html.then(|| label(&meta(body)?)).flatten();
    let guessed = || match std::str::from_utf8(body) {
        Ok(_) => UTF_8,
        // Cut off in the middle of a character.
        Err(error) if error.error_len().is_none() => UTF_8,
        Err(_) => WINDOWS_1252,
    };
    let encoding = charset
        .and_then(label)
        .or_else(of_page)
        .unwrap_or_else(guessed);
    // A byte order mark counts more than `encoding` here.
    encoding.decode(body).0.into_owned()
}

/// Returns the encoding that an HTML page names at its beginning.
fn meta(body: &[u8]) -> Option<String> {
    let head = String::from_utf8_lossy(&body[..body.len().min(HEAD)]).to_ascii_lowercase();
    let metas = head.split("<meta").skip(1);
    metas
        .filter_map(|meta| meta.split('>').next())
        .find_map(|meta| {
            let (_, value) = meta.split_once("charset")?;
            let value = value
                .trim_start()
                .strip_prefix('=')?
                .trim_start()
                .trim_start_matches(['"', '\'']);
            let name = value.split(['"', '\'', ';', ' ', '/']).next()?;
            (!name.is_empty()).then(|| name.to_owned())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_text_is_read() {
        for (content_type, body, expected) in [
            (Some("text/plain"), &b"a"[..], Ok("a")),
            (Some("TEXT/HTML; charset=utf-8"), b"<p>a</p>", Ok("a")),
            (Some("application/json"), b"{\"a\":1}", Ok("{\"a\":1}")),
            (Some("application/ld+json"), b"{}", Ok("{}")),
            (Some("application/atom+xml"), b"<a/>", Ok("<a/>")),
            (Some("application/x-yaml"), b"a: 1", Ok("a: 1")),
            (None, b"<!DOCTYPE html><p>a", Ok("a")),
            (None, b"plain", Ok("plain")),
            (Some(""), b"", Ok("")),
            (None, b"\x7fELF\0", Err("application/octet-stream")),
            (Some("image/png"), b"x", Err("image/png")),
            (Some("image/svg+xml"), b"<svg/>", Err("image/svg+xml")),
            (Some("application/pdf"), b"%PDF", Err("application/pdf")),
            (Some("text/plain"), b"a\0b", Err("text/plain, but not text")),
        ] {
            let actual = read(body, content_type).map(|page| page.text);
            assert_eq!(
                actual.as_deref().map_err(String::as_str),
                expected,
                "{content_type:?}"
            );
        }
    }

    #[test]
    fn the_named_encoding_is_used() {
        for (content_type, body, expected) in [
            (Some("text/plain; charset=\"ISO-8859-1\""), &b"caf\xe9"[..], "café"),
            (Some("text/plain; charset=shift_jis"), b"\x93\xfa\x96{", "日本"),
            (Some("text/plain; charset=nonsense"), "café".as_bytes(), "café"),
            (Some("text/plain"), "café".as_bytes(), "café"),
            (Some("text/plain"), b"caf\xe9!", "café!"),
            (Some("text/plain"), b"caf\xc3", "caf\u{fffd}"),
            (Some("text/plain; charset=latin1"), b"\xef\xbb\xbfcaf\xc3\xa9", "café"),
            (Some("text/plain"), b"\xff\xfea\0b\0", "ab"),
            (Some("text/html"), b"<meta charset=windows-1251><p>\xef\xf0", "пр"),
            (
                Some("text/html"),
                b"<META http-equiv='Content-Type' content='text/html; charset=windows-1251'><p>\xef\xf0",
                "пр",
            ),
        ] {
            assert_eq!(read(body, content_type).unwrap().text, expected, "{content_type:?}");
        }
    }

    #[test]
    fn a_very_long_page_is_cut() {
        let body = "<p>word word</p>\n".repeat(LONGEST / 10);
        let page = read(body.as_bytes(), Some("text/html")).unwrap();
        assert!(page.is_cut && page.text.len() < LONGEST);
    }
}
