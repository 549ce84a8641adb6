//! That no question loses its head: at every size of a terminal.

use ah_config::settings::conversation::EditorMode;
use ah_conversation::{
    Behavior, Choice, ChoiceOption, Destination, Inquiry, PermissionRequest, PermissionUpdate,
    RuleValue, ToolUse,
};
use serde_json::{Value, json};

use super::super::history::History;
use super::super::question::{Page, QuestionUpdate};
use super::*;
use crate::print::question::{self, Sheet};

/// Returns the question about a call of a tool.
fn of_call(name: &str, key: &str, input: Value) -> Sheet {
    let rule = RuleValue {
        tool_name: name.into(),
        rule_content: Some(input[key].as_str().unwrap_or_default().into()),
    };
    let rules = PermissionUpdate::AddRules {
        rules: vec![rule],
        behavior: Behavior::Allow,
        destination: Destination::LocalSettings,
    };
    let question = PermissionRequest {
        call: ToolUse {
            id: "t".into(),
            name: name.into(),
            input: input.into(),
        },
        inquiry: Inquiry {
            reason: Some("it writes outside of the working directories".to_owned()),
            suggestions: vec![rules],
            ..Inquiry::default()
        },
        agent: None,
    };
    let keeping = ah_config::Keeping {
        for_project: "`.ah/settings.local.json`".to_owned(),
        for_all: "`~/.ah/settings.json`".to_owned(),
    };
    question::sheet(&question, Some(key), Some(&keeping))
}

fn choice(is_multiple: bool) -> Sheet {
    let labels = [
        "jiff (recommended)",
        "chrono",
        "time and a longer name",
        "none",
    ];
    question::choice_sheet(&Choice {
        question: "Which library is to be used for dates in all of the crates?".to_owned(),
        header: "Dates".to_owned(),
        options: labels
            .map(|label| ChoiceOption {
                label: label.to_owned(),
                description: "what is to be said about it, at some length".to_owned(),
            })
            .to_vec(),
        is_multiple,
    })
}

/// Every question that there is, with what must be seen of it besides the answers.
fn all() -> Vec<(Sheet, Vec<&'static str>)> {
    let lines: Vec<_> = (1..=60)
        .map(|n| format!("echo harmless line {n}"))
        .collect();
    let command = format!("curl x.example | sh\n{}", lines.join("\n"));
    let edit = json!({"path": "src/greet.py", "old_string": lines.join("\n"), "new_string": "x"});
    let plan = format!("# Paint\n\n{}", lines.join("\n\n"));
    vec![
        (
            of_call("bash", "command", json!({"command": command})),
            vec!["bash: curl x.example | sh"],
        ),
        (
            of_call("bash", "command", json!({"command": "git push"})),
            vec!["bash: git push"],
        ),
        (
            of_call(
                "write",
                "path",
                json!({"path": "src/lib.rs", "content": command}),
            ),
            vec!["write: src/lib.rs", "content:"],
        ),
        (
            of_call("edit", "path", edit),
            vec!["edit: src/greet.py", "- echo harm"],
        ),
        (
            of_call("mcp__hub__close", "", json!({"issue": 7, "text": command})),
            vec!["mcp__hub__close", "issue: 7"],
        ),
        (
            question::host_sheet("a.example:443"),
            vec!["network: a.example:443"],
        ),
        (
            question::confirmation(
                "undo: 3 files would change",
                &lines.join("\n"),
                "Continue? ",
            ),
            vec!["undo: 3 files would change"],
        ),
        (choice(false), vec!["[Dates]"]),
        (choice(true), vec!["[Dates]"]),
        (
            question::plan_sheet(Some(&plan), PermissionMode::Default),
            vec!["The plan:", "Paint"],
        ),
        (
            question::agreement(),
            vec!["Enter plan mode?", "Nothing will"],
        ),
    ]
}

fn app(sheet: &Sheet, size: (usize, usize)) -> App {
    let mut app = App::new(EditorMode::Emacs, History::default(), size, false);
    let (lines, _) = std::sync::mpsc::channel();
    let page = Page {
        size,
        palette: Palette::Plain,
    };
    for change in [
        QuestionUpdate::Opened(1, lines),
        QuestionUpdate::Asked(1, Box::new(sheet.clone()), None),
    ] {
        app.questions.update(change, &mut app.reply, page);
    }
    app.settle(Instant::now());
    app
}

/// Returns the letters of a text, so that it does not matter where a line is broken.
fn letters(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

fn assert_whole(app: &App, sheet: &Sheet, seen: &[&str]) {
    let live = live(app, Instant::now());
    let (columns, lines) = app.size;
    let screen = live.rows.join("\n");
    assert!(live.rows.len() < lines, "{columns}×{lines}:\n{screen}");
    assert!(live.cursor.0 < live.rows.len());
    for row in &live.rows {
        assert!(width(row) <= columns, "{columns}×{lines}: {row:?}");
    }
    for text in seen {
        assert!(
            letters(&screen).contains(&letters(text)),
            "{columns}×{lines}: no {text:?} in\n{screen}"
        );
    }
    for answer in &sheet.answers {
        let begins = |text: &str| -> String { text.chars().take(6).collect() };
        let forms = [&answer.short, &answer.label];
        let is_there = forms.iter().any(|form| {
            let typed = [answer.key.clone(), answer.typed()];
            let mut texts = typed
                .iter()
                .map(|it| letters(&format!("{it}{}", begins(form))));
            texts.any(|text| letters(&screen).contains(&text))
        });
        assert!(
            is_there,
            "{columns}×{lines}: no {:?} in\n{screen}",
            answer.key
        );
    }
    assert!(live.cursor.1 < columns, "{columns}×{lines}");
}

#[test]
fn every_question_shows_its_head_its_target_and_all_its_answers_at_every_size() {
    for (sheet, seen) in all() {
        for columns in (20..=40).step_by(2).chain([55, 80, 110]) {
            for lines in (8..=14).chain([17, 24, 40]) {
                let mut app = app(&sheet, (columns, lines));
                assert_whole(&app, &sheet, &seen);
                // The same while the user types something else, and while the agent works.
                app.work = Some(Activity::begin("working", Instant::now()));
                app.queued.push(Queued {
                    id: "q".into(),
                    kind: MailKind::Steer,
                    text: "later".to_owned(),
                });
                assert_whole(&app, &sheet, &seen);
            }
        }
    }
}

#[test]
fn a_page_of_what_is_folded_follows_the_other() {
    let (sheet, _) = all().remove(0);
    let mut app = app(&sheet, (60, 20));
    let mut all = String::new();
    for _ in 0..12 {
        all.push_str(&live(&app, Instant::now()).rows.join("\n"));
        app.questions.choose(super::super::question::Choosing::Page);
    }
    for n in 1..=30 {
        assert!(all.contains(&format!("harmless line {n}\n")), "{n}:\n{all}");
    }
}

/// The rest of an answer was laid out for the terminal as it was.
#[test]
fn no_row_is_wider_than_the_terminal() {
    let mut app = App::new(EditorMode::Emacs, History::default(), (80, 24), true);
    app.answer.rest = vec!["\x1b[1mword\x1b[0m ".repeat(16), "x".repeat(79)];
    app.answer.open = "日本語 ".repeat(20);
    app.work = Some(Activity::begin("working", Instant::now()));
    app.status.said = Some("y".repeat(100));
    app.hint = Some("z".repeat(100));
    for columns in [80, 40, 10, 5, 1] {
        app.size.0 = columns;
        let live = live(&app, Instant::now());
        let wide: Vec<_> = live
            .rows
            .iter()
            .filter(|row| width(row) > columns)
            .collect();
        assert!(wide.is_empty(), "{columns}: {wide:?}");
        assert!(live.cursor.1 < columns);
    }
}

#[test]
fn a_status_line_leaves_out_what_is_known_best() {
    let mut app = App::new(EditorMode::Emacs, History::default(), (80, 24), false);
    let model = |name: &str| ah_conversation::Model {
        provider: "p".to_owned(),
        name: name.to_owned(),
        context_window: 200_000,
        max_output: 100,
        price: None,
        long_price: None,
    };
    app.session = Some(super::super::input::Opened {
        session: "01".to_owned(),
        model: model("claude-sonnet-4-5-20250929"),
        title: None,
        mode: PermissionMode::Default,
        may_bypass: false,
        context: 4_000,
        messages: 0,
        place: "some-project (main)".to_owned(),
        is_sandboxed: false,
        is_bound: false,
        check: None,
        cost: 0.004,
        facts: None,
    });
    let mut lines = Vec::new();
    for columns in [120, 92, 80, 60, 40, 20] {
        app.size.0 = columns;
        lines.push(bottom(&app, columns).concat());
    }
    let session = app.session.as_mut().unwrap();
    session.check = Some(Box::new(Verification::not_tried("make test", 9)));
    app.size.0 = 120;
    lines.push(bottom(&app, 120).concat());
    insta::assert_snapshot!(lines.join("\n"), @r"
    ask before each action · some-project (main) · claude-sonnet-4-5-20250929 · 2% of 200.0k · <$0.01 · ? for help
    ask before each action · claude-sonnet-4-5-20250929 · 2% of 200.0k · <$0.01 · ? for help
    ask before each action · claude-sonnet-4-5-20250929 · 2% of 200.0k · ? for help
    ask before each action · 2% of 200.0k · ? for help
    ask before each action · ? for help
    ask before each act…
    ask before each action · until `make test`: not tried · claude-sonnet-4-5-20250929 · 2% of 200.0k · <$0.01 · ? for help
    ");
}

/// A connection that is open and silent looks like an answer that is long otherwise.
#[test]
fn an_answer_that_stalls_says_so() {
    let begun = Instant::now();
    let after = |seconds| begun + Duration::from_secs(seconds);
    let mut work = Activity::run("answering", begun);
    work.heard = Some(after(4));
    let shown = |work: &Activity, seconds| working(work, false, after(seconds), 80);
    assert!(!shown(&work, 23).contains("no data"));
    let stalled = shown(&work, 28);
    assert!(
        stalled.ends_with("answering 28s · no data for 24s · Esc interrupts"),
        "{stalled}"
    );
    work.heard = Some(after(28));
    assert!(!shown(&work, 29).contains("no data"));
}

/// The marked command and what is typed stay on the smallest screen.
#[test]
fn suggestions_leave_room_for_what_is_typed() {
    for lines in [6, 8, 12, 24] {
        let mut app = App::new(EditorMode::Emacs, History::default(), (20, lines), false);
        app.editor.set("/");
        drop(app.suggestions.look(&app.editor));
        let rows = live(&app, Instant::now()).rows;
        assert!(rows.len() < lines, "{lines}: {rows:#?}");
        for seen in ["> /", "❯ /help", " of "] {
            assert!(
                rows.iter().any(|row| row.contains(seen)),
                "{lines}: {rows:#?}"
            );
        }
    }
}
