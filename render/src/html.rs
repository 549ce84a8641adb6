//! HTML for offline pages: no scripts, no resources that are loaded, and text of models and tools fully escaped.

use pulldown_cmark::{CodeBlockKind, CowStr, Event, Options, Parser, Tag, TagEnd, html};

use crate::{Highlighter, Line, Style};

/// Style sheet for the classes of [`lines`], for light and dark mode.
pub const STYLE: &str = include_str!("html.css");

/// Escapes `text` for HTML, also within quoted attributes.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in ah_conversation::neutralise(text).chars() {
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

/// Returns styled rows for a `pre` element: a `span` with classes for each styled piece.
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

/// Returns highlighted code for a `pre` element.
pub fn code(language: &str, code: &str) -> String {
    let mut highlighter = Highlighter::of_language(language);
    let rows: Vec<_> = code.lines().map(|line| highlighter.line(line)).collect();
    lines(&rows)
}

/// Converts Markdown to HTML. Tags are shown as text, images become links, and only links to web pages and mail addresses
/// have a target.
pub fn markdown(text: &str) -> String {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut events = Vec::new();
    let mut fence: Option<(String, String)> = None;
    let text = ah_conversation::neutralise(text);
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

/// Converts a link or image to a link with a safe target. Other tags are unchanged.
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
            dest_url: safe_target(dest_url),
            title,
            id,
        },
        other => other,
    }
}

/// The address if its scheme is `http`, `https` or `mailto`, otherwise `#`.
fn safe_target(address: CowStr<'_>) -> CowStr<'_> {
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
    fn active_content_is_escaped_or_removed() {
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
    fn code_is_highlighted_with_classes() {
        assert_eq!(
            markdown("```rs\nlet x = \"<\";\n```"),
            "<pre><span class=\"keyword\">let</span> x = <span class=\"quoted\">&quot;&lt;&quot;</span>;\n</pre>\n"
        );
    }
}
