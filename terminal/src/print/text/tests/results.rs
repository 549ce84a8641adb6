//! What is shown of results that say something of their call, and of those that only seem to.

use ah_conversation::JsonText;
use serde_json::{Value, json};

use super::*;

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
