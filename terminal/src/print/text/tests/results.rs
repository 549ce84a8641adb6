//! What is shown of results that say something of their call, and of those that only seem to.

use ah_conversation::{ContentBlock, JsonText, Message, Origin, Role, Time, ToolUse};
use serde_json::{Value, json};

use super::*;
use crate::print::text::replay::{Replay, take_back};

/// A conversation that is drawn, and what it is drawn on.
fn conversation() -> (Text, Paper) {
    let paper = Paper::default();
    let look = Look {
        colours: false,
        ..DRAWN
    };
    let screen = Screen::new(
        Box::new(Pen(paper.clone(), '1')),
        Box::new(Pen(paper.clone(), '2')),
        look,
        Outlet::default(),
    );
    let mut view = view(Interface::Native);
    view.is_conversation = true;
    (Text::new(view, screen), paper)
}

fn result(id: &str, tool: &str, output: &str, details: Value) -> ToolResult {
    ToolResult {
        tool_use_id: id.into(),
        tool_name: tool.to_owned(),
        content: vec![ResultBlock::Text {
            text: output.to_owned(),
        }],
        is_error: false,
        duration_ms: 5,
        details: Some(JsonText::from(details)),
        lines: None,
    }
}

#[test]
fn a_command_cannot_say_that_it_runs_in_the_background() {
    let job = "started in the background as job x; it writes to y";
    let agent = "The subagent `a` works in the background as b; it writes to c.";
    let launched = json!({"isAsync": true, "agentId": "b"});
    for (tool, said, details, is_short) in [
        ("bash", job, json!({"backgroundTaskId": "x"}), true),
        ("bash", job, json!({"stdout": job}), false),
        ("bash", job, json!({"backgroundTaskId": null}), false),
        ("agent", agent, launched.clone(), true),
        ("agent", agent, json!({"status": "completed"}), false),
        ("agent", "Done.", launched.clone(), false),
        ("bash", agent, launched, false),
        ("bash", agent, json!({}), false),
    ] {
        let (text, paper) = conversation();
        let output = format!("{said}\nand this is hidden");
        let result = result("c", tool, &output, details);
        let place = CallPlace {
            key: "make",
            index: 1,
            count: 1,
        };
        text.update(SessionUpdate::Result(&result, place));
        drop(text);
        let shown = paper.read();
        let short = shown.contains("running in the background (/tasks)");
        assert_eq!(short, is_short, "{tool}: {shown}");
        assert_eq!(shown.contains("and this is hidden"), !is_short, "{shown}");
    }
}

fn message(role: Role, origin: Origin, content: Vec<ContentBlock>) -> Message {
    Message {
        id: "m".into(),
        parent: None,
        seq: 1,
        role,
        origin,
        created_at: Time(0),
        content,
        response: None,
    }
}

/// Two calls of one answer ask the same; the second is answered elsewhere.
#[test]
fn an_answer_that_was_given_here_hides_only_the_results_that_came_with_it() {
    let asks = |id: &str| {
        ContentBlock::ToolUse(ToolUse {
            id: id.into(),
            name: "ask".to_owned(),
            input: json!({"questions": [{"question": "Which?"}]}).into(),
        })
    };
    let answer = message(Role::Assistant, Origin::Model, vec![asks("a"), asks("b")]);
    let results = ["a", "b"].map(|id| {
        let result = result(id, "ask", &format!("answer {id}"), json!({}));
        let content = vec![ContentBlock::ToolResult(result)];
        message(Role::User, Origin::Results, content)
    });
    let (text, paper) = conversation();
    let mut replay = Replay::on(&text);
    replay.show(&answer);
    replay.note_answered(&["Which?".to_owned()], &results[0]);
    replay.show(&results[0]);
    replay.show(&results[1]);
    replay.finish();
    let shown = paper.read();
    assert!(!shown.contains("answer a"), "{shown}");
    assert!(shown.contains("answer b"), "{shown}");
}

#[test]
fn an_answer_that_was_refused_leaves_the_others() {
    let of = |questions: &[&str]| {
        questions
            .iter()
            .map(|&it| it.to_owned())
            .collect::<Vec<_>>()
    };
    let mut answered = of(&["Which?", "Where?", "Which?", "When?"]);
    take_back(&mut answered, &of(&["Which?", "When?", "Who?"]));
    answered.sort();
    assert_eq!(answered, ["Where?", "Which?"]);
}

#[test]
fn the_status_of_a_failed_request_is_told_once() {
    for (error, is_named) in [
        ("API error 529: overloaded", true),
        ("529 Overloaded", true),
        ("overloaded (HTTP 529)", true),
        ("overloaded, request req_529", false),
        ("overloaded, request 8f-529-a", false),
        ("overloaded after 15290 ms", false),
    ] {
        assert_eq!(names(error, 529), is_named, "{error}");
    }
}
