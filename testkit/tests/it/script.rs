use ah_conversation::{Provider, ProviderError, Request, StreamEvent};
use ah_testkit::script::{Scripted, fails, says, uses};
use futures_util::StreamExt;
use serde_json::json;

fn request() -> Request {
    Request {
        max_output: 1_000,
        ..Request::default()
    }
}

async fn answer(model: &Scripted) -> Vec<Result<StreamEvent, ProviderError>> {
    model.stream(request()).collect().await
}

#[tokio::test]
async fn a_scripted_model_plays_its_turns() {
    let model = Scripted::new([
        uses("bash", json!({"command": "ls"})),
        fails(529, "overloaded_error"),
        says("Two files."),
    ]);
    for expected in ["\"command\\\":\\\"ls", "API error 529", "Two files."] {
        let events = answer(&model).await;
        let text = format!(
            "{events:?}{}",
            events
                .iter()
                .filter_map(|event| event.as_ref().err())
                .map(ToString::to_string)
                .collect::<String>()
        );
        assert!(text.contains(expected), "no {expected} in {text}");
    }
    assert_eq!(model.requests().len(), 3);
}
