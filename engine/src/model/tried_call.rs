//! A call of a tool, for a try: whether a model that was just chosen can call one. Chat templates and servers that cannot
//! show tools leave them out without a word, so that nothing but an answer tells.

use std::sync::Arc;

use ah_config::{Config, Error};
use ah_conversation::{
    BlockStart, ContentBlock, Delta, Message, Origin, Request, Role, StreamEvent, Thinking,
    ToolSpec, Truncation,
};
use futures_util::StreamExt as _;
use serde_json::json;

use crate::model::{connect, failure};

/// Most tokens of the answer.
const MOST: u64 = 512;
/// Most characters of the answer that are kept.
const KEPT: usize = 200;

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TriedCall {
    /// A call of the tool.
    Called,
    /// Words, of which this is the beginning.
    Said(String),
}

/// Asks the model `name` to call a tool.
///
/// # Errors
///
/// If it cannot be asked or does not answer.
pub async fn try_call(config: &Config, name: &str) -> Result<TriedCall, Error> {
    let model = connect(config, name, &mut Vec::new())?;
    let mut answer = model.stream(request());
    let mut said = String::new();
    while let Some(event) = answer.next().await {
        match event.map_err(failure)? {
            StreamEvent::BlockStarted {
                block: BlockStart::ToolUse { .. },
                ..
            } => return Ok(TriedCall::Called),
            StreamEvent::BlockStarted {
                block: BlockStart::Text(text),
                ..
            }
            | StreamEvent::Delta {
                delta: Delta::Text(text),
                ..
            } => said.push_str(&text),
            StreamEvent::Retry(_) | StreamEvent::Fallback(_) => said.clear(),
            _ => {}
        }
    }
    Ok(TriedCall::Said(said.trim().chars().take(KEPT).collect()))
}

fn request() -> Request {
    let message = Message {
        id: "question".into(),
        parent: None,
        seq: 0,
        role: Role::User,
        origin: Origin::Prompt,
        created_at: Default::default(),
        content: vec![ContentBlock::text("What is 17 + 25? Call the tool `add`.")],
        response: None,
    };
    let number = json!({"type": "integer"});
    let tool = ToolSpec {
        name: "add".to_owned(),
        description: "Adds two numbers.".to_owned(),
        input_schema: Arc::new(json!({
            "type": "object",
            "properties": {"a": number, "b": number},
            "required": ["a", "b"],
        })),
        guidance: None,
        truncation: Truncation::DEFAULT,
        key: None,
    };
    let thinking = Thinking {
        budget: Some(0),
        effort: None,
    };
    Request {
        system: Arc::new(["You call tools.".to_owned()]),
        tools: Arc::new([tool]),
        messages: Arc::new(vec![Arc::new(message)]),
        max_output: MOST,
        thinking,
        first_thinking: thinking,
        ..Request::default()
    }
}
