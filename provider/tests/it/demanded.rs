//! A form that an answer has to have, as each protocol demands it.

use std::sync::Arc;

use ah_conversation::{DemandedAnswer, Model, Request, Thinking};
use ah_provider::abilities::Abilities;
use ah_provider::openai::{Additions, AnswerField, Quirks};
use ah_provider::request_encoder::RequestEncoder;
use ah_provider::{anthropic, openai, responses};
use serde_json::{Value, json};

use crate::requests::{request, tool, user};

fn model() -> Model {
    Model {
        provider: "p".to_owned(),
        name: "claude-sonnet-4-5".to_owned(),
        context_window: 200_000,
        max_output: 16_384,
        price: None,
        long_price: None,
    }
}

fn body(encoder: &mut impl RequestEncoder, request: &Request) -> Value {
    let bytes = encoder.encode(request).concat();
    serde_json::from_slice(&bytes).expect("JSON")
}

#[test]
fn each_protocol_has_a_field_for_it() {
    let schema = json!({"type": "object", "properties": {"sum": {"type": "integer"}}});
    let answer = DemandedAnswer {
        tool: "StructuredOutput".to_owned(),
        schema: Arc::new(schema.clone()),
    };
    let plain = Request {
        tools: Arc::from([tool("StructuredOutput")]),
        ..request(vec![user("Go.")])
    };
    let demanding = Request {
        answer: Some(answer),
        ..plain.clone()
    };
    let fields = |body: &Value| {
        let names = ["tool_choice", "response_format", "text"];
        let set = names.iter().filter(|name| body.get(**name).is_some());
        set.map(|name| json!({*name: body[*name]}))
            .collect::<Vec<_>>()
    };
    let format = json!({"name": "answer", "schema": schema});
    for (field, by_chat, by_responses) in [
        (
            AnswerField::Usual,
            vec![json!({"response_format": {"type": "json_schema", "json_schema": format}})],
            vec![
                json!({"text": {"format": {"type": "json_schema", "name": "answer", "schema": schema}}}),
            ],
        ),
        (
            AnswerField::ToolChoice,
            vec![
                json!({"tool_choice": {"type": "function", "function": {"name": "StructuredOutput"}}}),
            ],
            vec![json!({"tool_choice": {"type": "function", "name": "StructuredOutput"}})],
        ),
        (AnswerField::None, vec![], vec![]),
    ] {
        let quirks = Quirks {
            answer_form: field,
            ..Quirks::default()
        };
        let (abilities, additions) = (Abilities::default(), Additions::default());
        let mut chat = openai::Encoder::new(
            model(),
            abilities.clone(),
            additions.clone(),
            quirks.clone(),
        );
        assert_eq!(fields(&body(&mut chat, &demanding)), by_chat, "{field:?}");
        assert_eq!(fields(&body(&mut chat, &plain)), Vec::<Value>::new());
        let mut responses = responses::Encoder::new(model(), abilities, additions, quirks);
        assert_eq!(
            fields(&body(&mut responses, &demanding)),
            by_responses,
            "{field:?}"
        );
    }
    let mut messages = anthropic::Encoder::new(model(), Abilities::default());
    let chosen = json!({"tool_choice": {"type": "tool", "name": "StructuredOutput"}});
    assert_eq!(fields(&body(&mut messages, &demanding)), [chosen]);
    // A model that thinks may not be made to call a tool.
    let thinking = Request {
        thinking: Thinking {
            budget: Some(2_048),
            effort: None,
        },
        ..demanding
    };
    assert_eq!(fields(&body(&mut messages, &thinking)), Vec::<Value>::new());
}
