//! One question to a model, beside the conversation.

use std::future::poll_fn;
use std::sync::Arc;

use ah_conversation::{
    ContentBlock, Delta, Message, ModelUsage, Origin, Provider, Request, Role, StopReason,
    StreamEvent, Usage,
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
    let answered = answer(model, request(instructions, prompt, longest)).await;
    match answered {
        Ok(Answer { text, share, .. }) => Ok((text, share)),
        Err(NoAnswer { reason, .. }) => Err(reason),
    }
}

/// What a model has answered.
pub struct Answer {
    /// Its text.
    pub text: String,
    /// Why it has stopped.
    pub stop: Option<StopReason>,
    /// What it has used.
    pub share: ModelUsage,
}

/// Why there is no answer.
pub struct NoAnswer {
    /// The reason.
    pub reason: String,
    /// What was used nevertheless.
    pub share: Option<ModelUsage>,
}

/// Returns the answer to a request.
///
/// # Errors
///
/// If the model cannot be asked, or does not answer to the end.
pub async fn answer(model: &dyn Provider, request: Request) -> Result<Answer, NoAnswer> {
    let mut stream = model.stream(request);
    let mut text = String::new();
    let mut model = model.model().clone();
    let (mut usage, mut billed, mut stop) = (Usage::default(), None, None);
    let ended = loop {
        match poll_fn(|context| stream.as_mut().poll_next(context)).await {
            Some(Ok(StreamEvent::Delta {
                delta: Delta::Text(more),
                ..
            })) => text.push_str(&more),
            Some(Ok(StreamEvent::Retry(_))) => text.clear(),
            Some(Ok(StreamEvent::Fallback(notice))) => {
                text.clear();
                model = *notice.model;
            }
            Some(Ok(StreamEvent::Started { usage: sent, .. })) => usage = sent,
            Some(Ok(StreamEvent::Stopping {
                usage: sent,
                stop_reason,
                ..
            })) => (usage, stop) = (sent, Some(stop_reason)),
            Some(Ok(StreamEvent::Billed { cost })) => billed = Some(cost),
            Some(Ok(StreamEvent::Ended)) => break Ok(()),
            Some(Ok(_)) => {}
            Some(Err(error)) => break Err(error.to_string()),
            None => break Err("the answer ended early".to_owned()),
        }
    };
    let is_paid = billed.is_some() || usage != Usage::default();
    let share = ModelUsage {
        cost: billed.or_else(|| model.cost(&usage)),
        provider: model.provider,
        model: model.name,
        usage,
    };
    match ended {
        Ok(()) => Ok(Answer { text, stop, share }),
        Err(reason) => Err(NoAnswer {
            reason,
            share: is_paid.then_some(share),
        }),
    }
}
