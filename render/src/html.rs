//! The same for a page of the web that is looked at without one: no script, no address that is fetched, and nothing of
//! what models and tools say that a browser would take for more than text.

use pulldown_cmark::{CodeBlockKind, CowStr, Event, Options, Parser, Tag, TagEnd, html};

use crate::{Highlighter, Line, Style};

/// How the classes look that [`lines`] gives, by the reader's choice of light or dark.
pub const STYLE: &str = include_str!("html.css");

/// `text` as text of a page, also between quotation marks.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in crate::neutralise(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Styled rows as they stand in a `pre`: a span with classes for each piece that has a style.
pub fn lines(lines: &[Line]) -> String {
    lines.iter().map(|row| line(row) + "\n").collect()
}

fn line(line: &Line) -> String {
    let span = |text: &str, style: Style| match style.mark().as_str() {
        "" => escape(text),
        classes => format!("<span class=\"{classes}\">{}</span>", escape(text)),
    };
    let spans = line.spans().iter();
    spans
        .map(|piece| span(piece.text(), piece.style()))
        .collect()
}

/// Code in a language, as it stands in a `pre`.
pub fn code(language: &str, code: &str) -> String {
    let mut highlighter = Highlighter::of_language(language);
    let rows: Vec<_> = code.lines().map(|line| highlighter.line(line)).collect();
    lines(&rows)
}

/// Markdown as a page shows it. Tags in it are shown as they are, pictures become links, and of links only those lead
/// somewhere that lead to a page or an address of mail.
pub fn markdown(text: &str) -> String {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut events = Vec::new();
    let mut fence: Option<(String, String)> = None;
    let text = crate::neutralise(text);
    for event in Parser::new_ext(&text, options) {
        match (event, &mut fence) {
            (Event::Start(Tag::CodeBlock(kind)), _) => {
                let language = match &kind {
                    CodeBlockKind::Fenced(info) => info.split([' ', ',']).next().unwrap_or(""),
                    CodeBlockKind::Indented => "",
                };
                fence = Some((language.to_owned(), String::new()));
            }
            (Event::Text(text), Some((_, code))) => code.push_str(&text),
            (Event::End(TagEnd::CodeBlock), open) => {
                let (language, text) = open.take().unwrap_or_default();
                let block = format!("<pre>{}</pre>\n", code(&language, &text));
                events.push(Event::Html(block.into()));
            }
            (Event::Html(tag) | Event::InlineHtml(tag), _) => events.push(Event::Text(tag)),
            (Event::Start(tag @ Tag::Link { .. }), _) => events.push(Event::Start(link(tag))),
            (Event::Start(tag @ Tag::Image { .. }), _) => {
                events.push(Event::Start(link(tag)));
                events.push(Event::Text("picture: ".into()));
            }
            (Event::End(TagEnd::Image), _) => events.push(Event::End(TagEnd::Link)),
            (Event::Start(Tag::HtmlBlock), _) => events.push(Event::Start(Tag::Paragraph)),
            (Event::End(TagEnd::HtmlBlock), _) => events.push(Event::End(TagEnd::Paragraph)),
            (event, _) => events.push(event),
        }
    }
    let mut page = String::new();
    html::push_html(&mut page, events.into_iter());
    page
}

/// A link or a picture as a link that does no harm. Any other tag stays as it is.
fn link(tag: Tag<'_>) -> Tag<'_> {
    match tag {
        Tag::Link {
            link_type,
            dest_url,
            title,
            id,
        }
        | Tag::Image {
            link_type,
            dest_url,
            title,
            id,
        } => Tag::Link {
            link_type,
            dest_url: harmless(dest_url),
            title,
            id,
        },
        other => other,
    }
}

/// The address, if following it can do no more than open a page or a letter; else one that leads nowhere.
fn harmless(address: CowStr<'_>) -> CowStr<'_> {
    let scheme = address
        .split_once(':')
        .map(|(scheme, _)| scheme.trim().to_ascii_lowercase());
    match scheme.as_deref() {
        Some("http" | "https" | "mailto") => address,
        _ => "#".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_hostile_is_left() {
        for (text, expected) in [
            (
                "<script>alert(1)</script>",
                "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>\n",
            ),
            (
                "a <img src=x onerror=alert(1)> b",
                "<p>a &lt;img src=x onerror=alert(1)&gt; b</p>\n",
            ),
            ("[x](javascript:alert(1))", "<p><a href=\"#\">x</a></p>\n"),
            ("[x](  JavaScript:alert(1))", "<p><a href=\"#\">x</a></p>\n"),
            (
                "<data:text/html,x>",
                "<p><a href=\"#\">data:text/html,x</a></p>\n",
            ),
            (
                "[x](https://a.b/\"onclick=\"x)",
                "<p><a href=\"https://a.b/%22onclick=%22x\">x</a></p>\n",
            ),
            (
                "![x](https://a.b/c.png \"t\")",
                "<p><a href=\"https://a.b/c.png\" title=\"t\">picture: x</a></p>\n",
            ),
            (
                "```\"><script>\n</pre><script>\n```",
                "<pre>&lt;/pre&gt;&lt;script&gt;\n</pre>\n",
            ),
            ("\u{1b}[31m", "<p>␛[31m</p>\n"),
        ] {
            assert_eq!(markdown(text), expected, "{text}");
        }
        assert_eq!(
            escape("<a href=\"x\" b='y'>&"),
            "&lt;a href=&quot;x&quot; b=&#39;y&#39;&gt;&amp;"
        );
    }

    #[test]
    fn code_has_classes() {
        assert_eq!(
            markdown("```rs\nlet x = \"<\";\n```"),
            "<pre><span class=\"keyword\">let</span> x = <span class=\"quoted\">&quot;&lt;&quot;</span>;\n</pre>\n"
        );
    }
}
