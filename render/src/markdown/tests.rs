use proptest::prelude::*;

use super::*;

fn whole(text: &str, width: usize) -> Vec<Line> {
    let mut markdown = Markdown::new(width);
    let mut rows = markdown.feed(text);
    rows.extend(markdown.finish());
    rows
}

fn shown(rows: &[Line]) -> String {
    let rows = rows
        .iter()
        .map(|row| format!("{row:?}").trim_end().to_owned());
    rows.collect::<Vec<_>>().join("\n")
}

const ANSWER: &str = "\
# What *happens*

A paragraph with **bold**, *italic*, ~~struck~~, `code` and a [link](https://example.org/a), <https://example.org>
that goes on.  
Broken by hand.
## Steps
1. First, with a paragraph
that goes on lazily

   and a second one:
   ```rust
   let x = 1;

   - not an item
   ```
2. Second
   - nested **one**
   - nested two
     deeper
10. Tenth

- [ ] open
- [x] done

> quoted
> > twice
> - item

```sh
ls -l # all

  indented
```
Right after.

| name | what it is | n |
|------|:----------:|--:|
| `a` | a thing | 1 |
| longer | 日本語 | 1000 |

***
    indented code

Under
=====
<div>
tag
</div>

[ref]: https://example.org
";

#[test]
fn every_kind_of_block_is_rendered() {
    insta::assert_snapshot!(shown(&whole(ANSWER, 60)), @r#"
‹accent bold:# What ›‹accent bold italic:happens›

A paragraph with ‹bold:bold›, ‹italic:italic›, ‹struck:struck›, ‹code:`code`› and a ‹link underline:link›
‹dim:(https://example.org/a)›, ‹link underline:https://example.org› that goes on.
Broken by hand.

‹accent bold:## Steps›

‹accent:1. ›First, with a paragraph that goes on lazily

   and a second one:

     ‹keyword:let› x = ‹constant:1›;

     - not an item
‹accent:2. ›Second
   ‹accent:• ›nested ‹bold:one›
   ‹accent:• ›nested two deeper
‹accent:10. ›Tenth

‹accent:☐ ›open
‹accent:☑ ›done

‹dim:│ ›quoted
‹dim:│ ›
‹dim:│ │ ›twice
‹dim:│ ›‹accent:• ›item

  ‹name:ls› -l ‹dim:# all›

    ‹name:indented›

Right after.

‹bold:name›  ‹dim: │ ›‹bold:what it is›‹dim: │ ›   ‹bold:n›
‹dim:───────┼────────────┼─────›
‹code:`a`›   ‹dim: │ › a thing  ‹dim: │ ›   1
longer‹dim: │ ›  日本語  ‹dim: │ ›1000

‹dim:────────────────────────────────────────────────────────────›

  indented code

‹accent bold:# Under›
<div>
tag
</div>

[ref]: https://example.org
"#);
}

#[test]
fn tables_fit_or_are_listed_cell_by_cell() {
    let table =
        "| name | description |\n|---|---|\n| a | some words that are long |\n| b | x<br>y |\n";
    insta::assert_snapshot!(shown(&whole(table, 24)), @r#"
‹bold:name›‹dim: │ ›‹bold:description›
‹dim:─────┼──────────────────›
a   ‹dim: │ ›some words that
    ‹dim: │ ›are long
b   ‹dim: │ ›x
    ‹dim: │ ›y
"#);
    insta::assert_snapshot!(shown(&whole(table, 10)), @r#"
‹bold:name›‹dim:: ›a
‹bold:descriptio›
  ‹bold:n›‹dim:: ›some
  words
  that are
  long

‹bold:name›‹dim:: ›b
‹bold:descriptio›
  ‹bold:n›‹dim:: ›x y
"#);
}

#[test]
fn final_rows_are_returned_at_once_and_the_rest_is_the_tail() {
    let mut markdown = Markdown::new(40);
    let mut log = Vec::new();
    for piece in [
        "Some **wor",
        "ds**\n",
        "\n",
        "- a\n- b",
        "\n```rs\nlet",
        " x;\n",
        "}\n``",
        "`\n",
        "end",
    ] {
        let rows = markdown.feed(piece);
        log.push(format!("{piece:?} → {rows:?} + {:?}", markdown.tail()));
    }
    log.push(format!("{:?}", markdown.finish()));
    insta::assert_snapshot!(log.join("\n"), @r#"
"Some **wor" → [] + [Some **wor]
"ds**\n" → [] + [Some ‹bold:words›]
"\n" → [Some ‹bold:words›] + []
"- a\n- b" → [] + [‹accent:• ›a, ‹accent:• ›b]
"\n```rs\nlet" → [‹accent:• ›a, ‹accent:• ›b, ] + [  ‹keyword:let›]
" x;\n" → [  ‹keyword:let› x;] + []
"}\n``" → [  }] + []
"`\n" → [] + []
"end" → [] + [, end]
[, end]
"#);
}

#[test]
fn a_blank_line_separates_two_texts() {
    let mut markdown = Markdown::new(40);
    markdown.feed("one");
    assert_eq!(shown(&markdown.finish()), "one");
    markdown.feed("two");
    assert_eq!(shown(&markdown.finish()), "\ntwo");
}

#[test]
fn the_tail_of_a_long_rest_is_its_end() {
    let mut markdown = Markdown::new(40);
    markdown.feed(&"many words ".repeat(100_000));
    let tail = markdown.tail();
    assert!(tail.len() < 200, "{} rows", tail.len());
    assert!(tail.last().unwrap().text().ends_with("words"));
}

#[test]
fn only_the_start_of_long_code_is_highlighted() {
    let fence = format!("```rs\n{}```\n", "let x = 1;\n".repeat(500));
    let rows = whole(&fence.repeat(4), 40);
    let is_coloured = |row: &&Line| row.spans().len() > 1;
    let coloured = rows.iter().filter(is_coloured).count();
    assert_eq!(coloured, MAX_HIGHLIGHTED / "let x = 1;".len());
    assert!(rows.iter().rposition(|row| is_coloured(&row)).unwrap() < rows.len() - 300);
}

/// Markdown, and text that only looks like it.
fn texts() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        "[ab 日*_`\\[\\]()|<>#~-]{0,12}",
        "( {0,5})(- |\\* |1\\. |2\\) |> |# |```|~~~|---|\\| a \\| b \\||\\|-\\|-\\||===)[ab `*]{0,8}",
        Just(String::new()),
    ];
    prop::collection::vec(line, 0..16).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #[test]
    fn rows_are_the_same_however_the_text_is_cut(
        text in texts(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        width in 8usize..40,
    ) {
        let expected = whole(&text, width);
        let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| *cut.get(&ends)).collect();
        cuts.sort_unstable();
        let mut markdown = Markdown::new(width);
        let mut rows = Vec::new();
        let mut from = 0;
        for to in cuts.into_iter().chain([text.len()]) {
            rows.extend(markdown.feed(&text[from..to]));
            markdown.tail();
            from = to;
        }
        rows.extend(markdown.finish());
        prop_assert_eq!(rows, expected);
    }

    #[test]
    fn no_row_is_too_wide(text in texts(), width in 12usize..40) {
        for row in whole(&text, width) {
            prop_assert!(row.width() <= width, "{:?}", row);
        }
    }

    /// Every letter of the source is shown; markup may be dropped.
    #[test]
    fn no_letter_is_lost(text in texts()) {
        let letters = |text: &str| text.chars().filter(|c| c.is_alphabetic()).collect::<Vec<_>>();
        let rows: String = whole(&text, 200).iter().map(Line::text).collect();
        let (mut shown, mut written) = (letters(&rows), letters(&text));
        shown.sort_unstable();
        written.sort_unstable();
        // The language after a fence is not shown.
        for letter in written {
            prop_assert!(shown.contains(&letter) || text.contains("```") || text.contains("~~~"), "{} in {:?}", letter, text);
        }
    }
}
