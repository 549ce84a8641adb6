use serde_json::json;

use super::*;

const BASH: DisplayKey = DisplayKey::Command("command");
const PATH: DisplayKey = DisplayKey::Path("path");

fn shown(rows: &[Line]) -> String {
    let rows = rows.iter().map(|row| format!("{row:?}"));
    rows.collect::<Vec<_>>().join("\n")
}

fn call<'a>(name: &'a str, key: &'a str, kind: Option<&'a DisplayKey>) -> ToolCall<'a> {
    ToolCall { name, key, kind }
}

const DONE: CallOutcome<'_> = CallOutcome {
    output: "",
    lines: None,
    details: None,
    is_error: false,
    duration_ms: 1234,
    more: None,
};

#[test]
fn a_running_call_is_one_row() {
    let bash = call("bash", "make\ntest \x1b[2J", Some(&BASH));
    let row = running(&bash, "⠋", Layout::of(60));
    insta::assert_snapshot!(shown(&[row]), @r#"‹accent:⠋› ‹bold:bash›‹dim: $ ›make test ␛[2J"#);
    let layout = Layout {
        width: 24,
        depth: 2,
    };
    let row = running(
        &call("read", "src/a/long/path.rs", Some(&PATH)),
        "⠋",
        layout,
    );
    insta::assert_snapshot!(shown(&[row]), @r#"‹dim:│ │ ›‹accent:⠋› ‹bold:read›‹dim: ›src/a/long/p‹dim:…›"#);
}

#[test]
fn a_long_output_is_cut_in_the_middle() {
    let bash = call("bash", "seq 100", Some(&BASH));
    let output: String = (1..=100).map(|n| format!("{n}\n\n")).collect();
    let outcome = CallOutcome {
        output: &output,
        more: Some("ah show 4 --output"),
        ..DONE
    };
    insta::assert_snapshot!(shown(&ended(&bash, &outcome, Layout::of(60))), @r#"
‹done:✓ ›‹bold:bash›‹dim: $ ›seq 100‹dim: (1.2s)›
  ‹dim:1›
  ‹dim:2›
  ‹dim:... 193 more lines: ah show 4 --output›
  ‹dim:99›
  ‹dim:100›
"#);
    // The model was shown a part of it.
    let cut = CallOutcome {
        output: "1\n2\n3\n4\n[4990 lines omitted; …]\n4995\n4996\n4997\n4998\n",
        lines: Some(4_998),
        ..DONE
    };
    let rows = ended(&bash, &cut, Layout::of(60));
    assert_eq!(rows[3].text(), "  ... 4994 more lines");
    let output = "1\n2\n3\n4\n5\n";
    let few = ended(&bash, &CallOutcome { output, ..DONE }, Layout::of(60));
    assert_eq!(few.len(), 6);
    let failed = CallOutcome {
        output: "no file `src/mian.rs`: a line that is far too long for this place",
        is_error: true,
        duration_ms: 125_000,
        ..DONE
    };
    let read = call("read", "src/mian.rs", Some(&PATH));
    insta::assert_snapshot!(shown(&ended(&read, &failed, Layout { width: 40, depth: 1 })), @r#"
‹dim:│ ›‹failed bold:✗ read›‹dim: ›src/mian.rs‹dim: (2m05s)›
‹dim:│ ›  ‹dim:no file `src/mian.rs`: a line that …›
"#);
}

#[test]
fn a_long_command_is_below_its_name() {
    let bash = call(
        "bash",
        "for file in *.rs; do\n  rustfmt --check --edition 2024 \"$file\"\ndone\na\nb\nc\nd\n",
        Some(&BASH),
    );
    insta::assert_snapshot!(shown(&ended(&bash, &DONE, Layout::of(36))), @r#"
‹done:✓ ›‹bold:bash›‹dim: (1.2s)›
‹dim:  $ ›for file in *.rs; do
      rustfmt --check --edition 2024
    "$file"
    done
    a
    b
‹dim:    ... 2 more lines›
"#);
}

#[test]
fn details_show_changes_new_files_and_tasks() {
    let patch = json!({ "structuredPatch": [
        { "oldStart": 1, "newStart": 1, "lines": [" a", "-one two", "+one three"] },
    ] });
    let edit = call("change", "src/a.rs", Some(&PATH));
    let outcome = CallOutcome {
        details: Some(&patch),
        ..DONE
    };
    insta::assert_snapshot!(shown(&ended(&edit, &outcome, Layout::of(40))), @r#"
‹done:✓ ›‹bold:change›‹dim: ›src/a.rs‹added: +1›‹removed: -1›‹dim: (1.2s)›
  ‹dim:1 ›  a
  ‹dim:2 ›‹removed:- one ›‹removed bold underline:two›
  ‹dim:2 ›‹added:+ one ›‹added bold underline:three›
"#);

    let created = json!({ "type": "create", "content": "one\n\ttwo\n", "structuredPatch": [] });
    let outcome = CallOutcome {
        details: Some(&created),
        ..DONE
    };
    insta::assert_snapshot!(shown(&ended(&edit, &outcome, Layout::of(40))), @r#"
‹done:✓ ›‹bold:change›‹dim: ›src/a.rs‹added: +2›‹removed: -0›‹dim: (1.2s)›
  ‹dim:1 ›‹added:+ one›
  ‹dim:2 ›‹added:+     two›
"#);

    let long: Vec<_> = (0..100).map(|n| format!("+{n}")).collect();
    let long = json!({ "structuredPatch": [{ "oldStart": 1, "newStart": 1, "lines": long }] });
    let rows = ended(
        &edit,
        &CallOutcome {
            details: Some(&long),
            ..DONE
        },
        Layout::of(40),
    );
    assert_eq!(rows.len(), 1 + 2 * CHANGE_ENDS + 1);
    assert_eq!(rows[1 + CHANGE_ENDS].text(), "  ... 60 more lines");

    let tasks = json!({ "newTodos": [
        { "content": "Look", "status": "completed" },
        { "content": "Do", "status": "in_progress", "activeForm": "Doing" },
        { "content": "Say", "status": "pending" },
    ] });
    let outcome = CallOutcome {
        output: "[x] Look",
        details: Some(&tasks),
        ..DONE
    };
    insta::assert_snapshot!(shown(&ended(&call("list", "", None), &outcome, Layout::of(40))), @r#"
‹done:✓ ›‹bold:list›‹dim: (1.2s)›
  ‹done:✓ ›‹dim struck:Look›
  ‹accent:▶ ›‹bold:Doing›
  ‹accent:☐ ›Say
"#);
}

#[test]
fn thinking_is_folded() {
    let text = "First I look\naround.\n\nThen I do it.";
    insta::assert_snapshot!(shown(&thinking(text, false, Layout::of(30))), @r#"‹dim:∴ ›‹dim italic:First I look›‹dim: (2 more lines)›"#);
    insta::assert_snapshot!(shown(&thinking(text, true, Layout::of(14))), @r#"
‹dim:∴ ›‹dim italic:First I look›
‹dim:  ›‹dim italic:around.›
‹dim:  ›‹dim italic:Then I do›
‹dim:  ›‹dim italic:it.›
"#);
    assert_eq!(shown(&thinking(" \n", false, Layout::of(30))), "");
}

#[test]
fn a_failure_shows_the_lines_that_say_why() {
    let output = "collecting\n1\n2\n3\ntest a ... ok\ntest b ... FAILED\n4\n5\n\nassertion failed: left == right\n6\n7\n8\nlast\n";
    let outcome = CallOutcome {
        output,
        is_error: true,
        more: Some("/show 4"),
        ..DONE
    };
    let rows = ended(&call("bash", "make", Some(&BASH)), &outcome, Layout::of(60));
    let rows: Vec<_> = rows.iter().map(Line::text).collect();
    insta::assert_snapshot!(rows.join("\n"), @r#"
✗ bash $ make (1.2s)
  ... 5 more lines
  test b ... FAILED
  ... 2 more lines
  assertion failed: left == right
  ... 1 more line: /show 4
  7
  8
  last
"#);
}

#[test]
fn a_subagent_says_how_much_it_has_done() {
    let details = json!({"totalToolUseCount": 3, "totalTokens": 13_400, "agentId": "a"});
    let outcome = CallOutcome {
        output: "All is well.",
        details: Some(&details),
        ..DONE
    };
    let rows = ended(&call("agent", "look", None), &outcome, Layout::of(60));
    let rows: Vec<_> = rows.iter().map(Line::text).collect();
    assert_eq!(
        rows,
        [
            "✓ agent look · 3 calls · 13.4k tokens (1.2s)",
            "  All is well."
        ]
    );
}

/// A report is wrapped, and what is counted are the rows that are folded, not its lines, of which the model may have seen a part.
#[test]
fn what_is_folded_of_a_report_is_counted_in_rows() {
    let details = json!({"totalToolUseCount": 3, "totalTokens": 13_400, "agentId": "a"});
    let report = "word ".repeat(60);
    let outcome = CallOutcome {
        output: &report,
        lines: Some(1),
        details: Some(&details),
        ..DONE
    };
    // Ten words a row.
    let rows = ended(&call("agent", "look", None), &outcome, Layout::of(52));
    let folded = rows.iter().map(Line::text).find(|row| row.contains("more"));
    let number = 6 - 2 * OUTPUT_ENDS;
    assert_eq!(folded.unwrap(), format!("  ... {number} more rows"));
}
