//! Converts HTML to Markdown. A page may be hostile: nested without end, or with a few tags that expand to millions of
//! elements. So it is first parsed without building a tree; a page that exceeds the limits becomes plain text.

use std::borrow::Cow;
use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use htmd::HtmlToMarkdown;
use html5ever::tendril::{StrTendril, TendrilSink};
use html5ever::tree_builder::{ElementFlags, NodeOrText, QuirksMode, TreeSink};
use html5ever::{Attribute, ExpandedName, ParseOpts, QualName, local_name, ns, parse_document};

/// Limits for the number of elements of a page and for their nesting.
const ELEMENTS: usize = 100_000;
const DEPTH: usize = 250;
/// Time limit for the first parse.
const PATIENCE: Duration = Duration::from_secs(3);
/// Number of bytes that are parsed between two checks of the limits.
const PIECE: usize = 1_024;

/// Elements that hold no text for a reader.
const SKIPPED: [&str; 12] = [
    "script", "style", "head", "noscript", "iframe", "svg", "canvas", "object", "template",
    "dialog", "form", "nav",
];

/// Returns the text of a page as Markdown, and its title.
pub fn markdown(html: &str) -> (String, Option<String>) {
    let title = title(html);
    let text = if is_harmless(html) {
        std::panic::catch_unwind(|| convert(html)).ok().flatten()
    } else {
        None
    };
    (text.unwrap_or_else(|| plain(html)), title)
}

fn convert(html: &str) -> Option<String> {
    let converter = HtmlToMarkdown::builder()
        .skip_tags(SKIPPED.to_vec())
        .build();
    let text = converter.convert(html).ok()?;
    Some(without_blank_runs(&text))
}

/// Collapses runs of blank lines into one.
fn without_blank_runs(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut is_blank = true;
    for line in text.lines().map(str::trim_end) {
        if line.is_empty() && is_blank {
            continue;
        }
        is_blank = line.is_empty();
        out.push_str(line);
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out
}

/// Returns the content of the first `title`.
fn title(html: &str) -> Option<String> {
    let lower = html
        .get(..html.floor_char_boundary(20_000))?
        .to_ascii_lowercase();
    let tag = lower.find("<title")?;
    let start = tag + lower[tag..].find('>')? + 1;
    let end = start + lower[start..].find("</title")?;
    let title = decoded(&html[start..end])
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    (!title.is_empty()).then_some(title)
}

/// Removes all tags in one pass, however broken they are.
fn plain(html: &str) -> String {
    let mut out = String::new();
    let mut rest = html;
    while let Some(start) = rest.find('<') {
        out.push_str(&rest[..start]);
        let tag = &rest[start + 1..];
        let name = tag
            .split(|c: char| !c.is_ascii_alphanumeric())
            .next()
            .unwrap_or_default();
        let is_raw = ["script", "style"]
            .iter()
            .any(|raw| name.eq_ignore_ascii_case(raw));
        let end = match tag {
            _ if is_raw => tag
                .find("</")
                .map(|end| end + 2 + tag[end + 2..].find('>').unwrap_or(0)),
            _ if tag.starts_with("!--") => tag.find("-->").map(|end| end + 2),
            _ => tag.find('>'),
        };
        out.push(' ');
        rest = match end {
            Some(end) => tag.get(end + 1..).unwrap_or_default(),
            None => "",
        };
    }
    out.push_str(rest);
    let lines = out
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    without_blank_runs(&decoded(&lines.collect::<Vec<_>>().join("\n")))
}

/// Resolves the common character references.
fn decoded(text: &str) -> String {
    let mut text = Cow::Borrowed(text);
    for (reference, character) in [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&nbsp;", " "),
        ("&amp;", "&"),
    ] {
        if text.contains(reference) {
            text = Cow::Owned(text.replace(reference, character));
        }
    }
    text.into_owned()
}

/// Returns whether the page is within the limits for building a tree.
fn is_harmless(html: &str) -> bool {
    let counter = Counter::default();
    let (elements, depth) = (counter.elements.clone(), counter.depth.clone());
    let mut parser = parse_document(counter, ParseOpts::default());
    let started = Instant::now();
    let mut rest = html;
    while !rest.is_empty() {
        let (piece, further) = rest.split_at(rest.floor_char_boundary(PIECE.min(rest.len())));
        parser.process(StrTendril::from(piece));
        if elements.get() > ELEMENTS || depth.get() > DEPTH || started.elapsed() > PATIENCE {
            return false;
        }
        rest = further;
    }
    true
}

/// Tree sink that builds nothing and counts elements and their depth.
struct Counter {
    document: Handle,
    elements: Rc<Cell<usize>>,
    depth: Rc<Cell<usize>>,
}

type Handle = Rc<Counted>;

/// A node of the page.
struct Counted {
    name: QualName,
    depth: Cell<usize>,
}

impl Default for Counter {
    fn default() -> Self {
        Self {
            document: Rc::new(Counted::nameless()),
            elements: Rc::default(),
            depth: Rc::default(),
        }
    }
}

impl Counted {
    fn nameless() -> Self {
        Self {
            name: QualName::new(None, ns!(), local_name!("")),
            depth: Cell::new(0),
        }
    }
}

impl Counter {
    fn place(&self, node: NodeOrText<Handle>, depth: usize) {
        if let NodeOrText::AppendNode(node) = node {
            node.depth.set(depth);
            self.depth.set(self.depth.get().max(depth));
        }
    }

    fn count(&self) {
        self.elements.set(self.elements.get() + 1);
    }
}

impl TreeSink for Counter {
    type Handle = Handle;
    type Output = ();
    type ElemName<'a> = ExpandedName<'a>;

    fn finish(self) {}

    fn parse_error(&self, _: Cow<'static, str>) {}

    fn get_document(&self) -> Handle {
        self.document.clone()
    }

    fn elem_name<'a>(&'a self, target: &'a Handle) -> ExpandedName<'a> {
        target.name.expanded()
    }

    fn create_element(&self, name: QualName, _: Vec<Attribute>, _: ElementFlags) -> Handle {
        self.count();
        Rc::new(Counted {
            name,
            depth: Cell::new(0),
        })
    }

    fn create_comment(&self, _: StrTendril) -> Handle {
        self.count();
        Rc::new(Counted::nameless())
    }

    fn create_pi(&self, _: StrTendril, _: StrTendril) -> Handle {
        self.create_comment(StrTendril::new())
    }

    fn append(&self, parent: &Handle, child: NodeOrText<Handle>) {
        self.place(child, parent.depth.get() + 1);
    }

    fn append_based_on_parent_node(&self, element: &Handle, _: &Handle, child: NodeOrText<Handle>) {
        self.place(child, element.depth.get() + 1);
    }

    fn append_doctype_to_document(&self, _: StrTendril, _: StrTendril, _: StrTendril) {}

    fn get_template_contents(&self, target: &Handle) -> Handle {
        target.clone()
    }

    fn same_node(&self, one: &Handle, other: &Handle) -> bool {
        Rc::ptr_eq(one, other)
    }

    fn set_quirks_mode(&self, _: QuirksMode) {}

    fn append_before_sibling(&self, sibling: &Handle, node: NodeOrText<Handle>) {
        self.place(node, sibling.depth.get());
    }

    fn add_attrs_if_missing(&self, _: &Handle, _: Vec<Attribute>) {}

    fn remove_from_parent(&self, _: &Handle) {}

    fn reparent_children(&self, _: &Handle, _: &Handle) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_becomes_markdown() {
        let html = "<!doctype html><html><head><title> A &amp; B\n page</title><style>p{}</style></head><body>\
            <nav><a href=/x>menu</a></nav><h1>Head</h1><p>Some <b>bold</b> &lt;text&gt; and <a href='https://e.org/x'>a link</a>.\
            <script>alert(1)</script><ul><li>one<li>two</ul><pre><code>let x = 1;\n  y</code></pre>\
            <table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>\
            <table><tr><td>no</td><td>head</td></tr></table></body></html>";
        let (text, title) = markdown(html);
        assert_eq!(title.as_deref(), Some("A & B page"));
        insta::assert_snapshot!(text, @r"
        # Head

        Some **bold** \<text> and [a link](https://e.org/x).

        *   one
        *   two

        ```
        let x = 1;
          y
        ```

        | a | b |
        | - | - |
        | 1 | 2 |

        no

        head
        ");
    }

    /// Pages that would take all memory, all time or the whole stack become plain text in time.
    #[test]
    fn hostile_pages_become_plain_text() {
        let deep = "<div>".repeat(100_000) + "deep";
        let fonts: String = (0..2_000).map(|at| format!("<p><b a{at}>x")).collect();
        let many = "<i></i>".repeat(ELEMENTS + 1);
        let lists = "<ul><li>".repeat(50_000);
        let attributes: String = (0..20_000).map(|at| format!(" a{at}")).collect();
        let attributes = format!("<p{attributes}>x");
        for (name, html) in [
            ("deep", &deep),
            ("fonts", &fonts),
            ("many", &many),
            ("lists", &lists),
        ] {
            assert!(!is_harmless(html), "{name}");
            let (text, _) = markdown(html);
            assert!(!text.contains('<'), "{name}: {text}");
        }
        // A long page within the limits is converted.
        assert_eq!(markdown(&attributes).0, "x");
        assert_eq!(markdown(&deep).0, "deep");
    }

    #[test]
    fn broken_html_becomes_plain_text() {
        for (html, expected) in [
            ("a<b>b</b>c", "a b c"),
            ("a <script>if (x < y) {}</script> b", "a b"),
            ("a<!-- x > y -->b", "a b"),
            ("1 &lt; 2 &amp;lt;", "1 < 2 &lt;"),
            ("a<b", "a"),
            ("a<script", "a"),
            ("a<script>b", "a"),
            ("<", ""),
            ("", ""),
            ("a\n\n\n\n b ", "a\n\nb"),
        ] {
            assert_eq!(plain(html), expected, "{html}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_page_panics(html in "(<[a-z/!-]{0,6}[ >]?|[<>&;'\"a-z \n]){0,200}") {
            markdown(&html);
            plain(&html);
        }
    }
}
