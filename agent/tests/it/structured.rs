//! Structured answers.

use ah_conversation::ExitReason;
use ah_testkit::script::{Turn, fails, says, uses};
use serde_json::{Value, json};

use crate::world::World;

fn gives(name: &str, count: impl Into<Value>) -> Turn {
    uses(
        "StructuredOutput",
        json!({"name": name, "count": count.into()}),
    )
}

fn schema() -> Value {
    json!({
        "type": "object",
        "required": ["name", "count"],
        "properties": {"name": {"type": "string"}, "count": {"type": "integer"}},
    })
}

/// Returns the end of the run, the number of answers of the model, and the structured answer.
async fn ends(turns: Vec<Turn>) -> (ExitReason, usize, Option<Value>) {
    let mut world = World::new(turns).in_form(schema());
    let outcome = world.run("Which fruit?").await;
    (outcome.reason, outcome.turns, outcome.structured)
}

#[tokio::test]
async fn an_invalid_answer_is_retried_and_then_an_error() {
    let kiwi = Some(json!({"name": "kiwi", "count": 3}));
    let wrong = |name: &str| gives(name, "three");
    let right = || gives("kiwi", 3);
    let over = || says("Nobody hears this.");
    let tries = ["a", "b", "c", "d", "e"].map(wrong);
    let failed = ExitReason::MaxStructuredOutputRetries;
    for (turns, expected) in [
        (
            vec![right(), over()],
            (ExitReason::EndTurn, 1, kiwi.clone()),
        ),
        (
            vec![wrong("a"), right(), over()],
            (ExitReason::EndTurn, 2, kiwi.clone()),
        ),
        (
            [&tries[..4], &[right(), over()]].concat(),
            (ExitReason::EndTurn, 5, kiwi.clone()),
        ),
        ([&tries[..], &[right()]].concat(), (failed.clone(), 5, None)),
        // Reminded once.
        (
            vec![says("A kiwi."), right(), over()],
            (ExitReason::EndTurn, 2, kiwi.clone()),
        ),
        (
            vec![says("A kiwi."), says("I said so."), over()],
            (failed, 2, None),
        ),
        // A model that writes the answer as text instead of calling the tool.
        (
            vec![says(r#"{"name": "kiwi", "count": 3}"#), over()],
            (ExitReason::EndTurn, 1, kiwi),
        ),
    ] {
        assert_eq!(ends(turns.clone()).await, expected, "{turns:?}");
    }
}

/// A server that cannot hold the model to a form refuses the request with the form, and is asked once without.
#[tokio::test]
async fn a_form_that_a_server_refuses_is_only_asked_for() {
    let refusal = || fails(400, "invalid_request_error");
    let in_words = says("A kiwi.");
    let kiwi = json!({"name": "kiwi", "count": 3});
    for (turns, expected) in [
        (
            vec![in_words.clone(), refusal(), gives("kiwi", 3)],
            (ExitReason::EndTurn, 2, Some(kiwi)),
        ),
        // What is refused without it as well is not about the form.
        (
            vec![in_words, refusal(), refusal(), gives("kiwi", 3)],
            (ExitReason::Error, 1, None),
        ),
        // Nothing was demanded yet.
        (
            vec![refusal(), gives("kiwi", 3)],
            (ExitReason::Error, 0, None),
        ),
    ] {
        assert_eq!(ends(turns.clone()).await, expected, "{turns:?}");
    }
}

#[tokio::test]
async fn each_prompt_has_its_own_answer() {
    let turns = [gives("kiwi", 3), gives("plum", 1)];
    let mut world = World::new(turns).in_form(schema());
    for (name, count) in [("kiwi", 3), ("plum", 1)] {
        let outcome = world.run("Which fruit?").await;
        assert_eq!(
            outcome.structured,
            Some(json!({"name": name, "count": count}))
        );
    }
}
