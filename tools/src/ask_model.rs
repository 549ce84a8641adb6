//! One question to a model, beside the conversation.

use std::future::poll_fn;
use std::sync::Arc;

use ah_conversation::{
    ContentBlock, Delta, Message, ModelUsage, Origin, Provider, Request, Role, StreamEvent, Usage,
};

fn request(instructions: &str, prompt: String, max_output: u64) -> Request {
    let message = Message {
        id: "question".into(),
        parent: None,
        seq: 0,
        role: Role::User,
        origin: Origin::Prompt,
        created_at: Default::default(),
        content: vec![ContentBlock::text(prompt)],
        response: None,
    };
    Request {
        system: Arc::new([instructions.trim_end().to_owned()]),
        messages: Arc::new(vec![Arc::new(message)]),
        max_output,
        ..Request::default()
    }
}

/// Asks a model, which has no tools, for an answer of at most `longest` tokens; returns its text with its usage and cost.
///
/// # Errors
///
/// If it does not answer to the end; the text says why.
pub async fn ask_model(
    model: &dyn Provider,
    instructions: &str,
    prompt: String,
    longest: u64,
) -> Result<(String, ModelUsage), String> {
    let longest = longest.min(model.model().max_output);
    answer(model, request(instructions, prompt, longest)).await
}

/// Returns the text of the answer to a request, and what it has used.
///
/// # Errors
///
/// If the model cannot be asked, with the reason.
pub async fn answer(
    model: &dyn Provider,
    request: Request,
) -> Result<(String, ModelUsage), String> {
    let mut stream = model.stream(request);
    let mut answer = String::new();
    let mut model = model.model().clone();
    let (mut usage, mut billed) = (Usage::default(), None);
    loop {
        match poll_fn(|context| stream.as_mut().poll_next(context)).await {
            Some(Ok(StreamEvent::Delta {
                delta: Delta::Text(text),
                ..
            })) => answer.push_str(&text),
            Some(Ok(StreamEvent::Retry(_))) => answer.clear(),
            Some(Ok(StreamEvent::Fallback(notice))) => {
                answer.clear();
                model = *notice.model;
            }
            Some(Ok(
                StreamEvent::Started { usage: sent, .. }
                | StreamEvent::Stopping { usage: sent, .. },
            )) => usage = sent,
            Some(Ok(StreamEvent::Billed { cost })) => billed = Some(cost),
            Some(Ok(StreamEvent::Ended)) => {
                let share = ModelUsage {
                    cost: billed.or_else(|| model.cost(&usage)),
                    provider: model.provider,
                    model: model.name,
                    usage,
                };
                return Ok((answer, share));
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(error.to_string()),
            None => return Err("the answer ended early".to_owned()),
        }
    }
}
