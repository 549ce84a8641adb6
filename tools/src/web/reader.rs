//! Lets a small model read a page, so that a question costs an answer and not the page. It has no tools: whatever a page
//! talks it into, all that it can do is to say something, which is quoted in its turn.

use std::future::poll_fn;
use std::sync::Arc;

use ah_conversation::{
    ContentBlock, Delta, Message, ModelUsage, Origin, Provider, Request, Role, Sampling,
    StreamEvent, Thinking, Usage,
};

use super::quote::introduced;

/// How much it may say.
const LONGEST: u64 = 4_096;
const INSTRUCTIONS: &str = include_str!("reader.md");

/// What `reader` answers to `question` from `text`, which stands at `address`, and what it took.
pub async fn answer(
    reader: &dyn Provider,
    address: &str,
    text: &str,
    question: &str,
) -> Result<(String, ModelUsage), String> {
    let words = format!(
        "{}\n\nAnswer from it: {question}",
        introduced(address, text)
    );
    let request = request(words, LONGEST.min(reader.model().max_output));
    let (answer, share) = ask(reader, request).await?;
    match answer.trim() {
        "" => Err("it said nothing".to_owned()),
        answer => Ok((answer.to_owned(), share)),
    }
}

fn request(words: String, max_output: u64) -> Request {
    let message = Message {
        id: "question".into(),
        parent: None,
        seq: 0,
        role: Role::User,
        origin: Origin::Prompt,
        created_at: Default::default(),
        content: vec![ContentBlock::text(words)],
        response: None,
    };
    Request {
        system: Arc::new([INSTRUCTIONS.trim_end().to_owned()]),
        tools: Arc::new([]),
        messages: Arc::new(vec![Arc::new(message)]),
        max_output,
        thinking: Thinking::default(),
        sampling: Sampling::default(),
    }
}

/// The words of the whole answer, and what it took.
async fn ask(reader: &dyn Provider, request: Request) -> Result<(String, ModelUsage), String> {
    let mut stream = reader.stream(request);
    let mut words = String::new();
    let mut model = reader.model().clone();
    let (mut usage, mut billed) = (Usage::default(), None);
    loop {
        match poll_fn(|context| stream.as_mut().poll_next(context)).await {
            Some(Ok(StreamEvent::Delta {
                delta: Delta::Text(text),
                ..
            })) => words.push_str(&text),
            Some(Ok(StreamEvent::Retry(_))) => words.clear(),
            Some(Ok(StreamEvent::Fallback(notice))) => {
                words.clear();
                model = notice.model;
            }
            Some(Ok(
                StreamEvent::Started { usage: told, .. }
                | StreamEvent::Stopping { usage: told, .. },
            )) => usage = told,
            Some(Ok(StreamEvent::Billed { cost })) => billed = Some(cost),
            Some(Ok(StreamEvent::Ended)) => {
                let share = ModelUsage {
                    cost: billed.or_else(|| model.cost(&usage)),
                    provider: model.provider,
                    model: model.name,
                    usage,
                };
                return Ok((words, share));
            }
            Some(Ok(_)) => {}
            Some(Err(fault)) => return Err(fault.to_string()),
            None => return Err("the answer ended early".to_owned()),
        }
    }
}
