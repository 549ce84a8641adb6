//! Questions and plans for the user, and the results for the model.

use ah_conversation::{Access, Interaction, Interface, Tool};
use ah_tools::{Ask, EnterPlan, ExitPlan};
use serde_json::{Value, json};

use crate::folder::{run, text};

fn questions() -> Value {
    json!([
        {"question": "Which library?", "header": "Dates", "options": [
            {"label": "jiff", "description": "new"}, {"label": "chrono", "description": "known"},
        ]},
        {"question": "Which tests?", "header": "Tests", "multiSelect": true, "options": [
            {"label": "unit", "description": ""}, {"label": "binary", "description": ""},
        ]},
    ])
}

#[test]
fn the_call_carries_the_questions() {
    let tool = Ask::new(Interface::AgentSdk);
    let accesses = tool.access(&json!({ "questions": questions() }).into());
    let [Access::Ask(Interaction::Choices(choices))] = accesses.as_slice() else {
        panic!("{accesses:?}");
    };
    let told: Vec<_> = choices
        .iter()
        .map(|choice| {
            let labels = choice
                .options
                .iter()
                .map(|option| option.label.as_str())
                .collect::<Vec<_>>()
                .join("|");
            let sign = if choice.is_multiple { "*" } else { "" };
            format!("{}{sign} {} {labels}", choice.header, choice.question)
        })
        .collect();
    assert_eq!(
        told,
        [
            "Dates Which library? jiff|chrono",
            "Tests* Which tests? unit|binary"
        ]
    );
}

/// Hosts of the Agent SDKs send the answers as texts by question.
#[test]
fn the_model_gets_the_answer_to_each_question() {
    let tool = Ask::new(Interface::AgentSdk);
    let input = json!({
        "questions": questions(),
        "answers": {"Which library?": "neither", "Which tests?": ["unit", "binary"], "Another?": "x"},
        "annotations": {"Which library?": {"notes": "n"}},
    });
    let output = run(&tool, input);
    insta::assert_snapshot!(text(&output), @r"
    The user has answered:
    - Which library? neither
    - Which tests? unit, binary
    ");
    let details = output.details.unwrap();
    assert_eq!(details["questions"], questions());
    assert_eq!(
        details["answers"],
        json!({"Which library?": "neither", "Which tests?": "unit, binary"})
    );
    assert_eq!(details["annotations"]["Which library?"]["notes"], "n");
    for answers in [json!({}), json!({"Which library?": " "})] {
        let output = run(
            &tool,
            json!({ "questions": questions(), "answers": answers }),
        );
        assert!(output.is_error, "{answers}");
    }
}

#[test]
fn plans_are_submitted_and_returned() {
    let (enter, exit) = (
        EnterPlan::new(Interface::Native),
        ExitPlan::new(Interface::Native),
    );
    assert_eq!(
        enter.access(&json!({}).into()),
        [Access::Ask(Interaction::ToPlan)]
    );
    let plan = Interaction::Plan(Some("1. Read.".to_owned()));
    assert_eq!(
        exit.access(&json!({"plan": "1. Read."}).into()),
        [Access::Ask(plan)]
    );
    let output = run(&exit, json!({"plan": "1. Write."}));
    insta::assert_snapshot!(text(&output), @r"
    The plan is approved; begin with the work. It reads:

    1. Write.
    ");
    assert_eq!(
        output.details,
        Some(json!({"plan": "1. Write.", "isAgent": false}))
    );
    let output = run(
        &exit,
        json!({"allowedPrompts": [{"tool": "Bash", "prompt": "run tests"}]}),
    );
    assert_eq!(text(&output), "The plan is approved; begin with the work.");
    assert!(!run(&enter, json!({})).is_error);
}
