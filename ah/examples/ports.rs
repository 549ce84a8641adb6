//! Your own model and store below an `Agent`, and the engine's events.
//!
//! `cargo run -p ah --example ports`

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ah::model::{
    BlockStart, Delta, EventStream, Model, Provider, ProviderExtras, Request, StopReason,
    StreamEvent, Usage,
};
use ah::store::{
    Branch, Mailbox, Message, OutputPage, Record, SharedState, Store, StoreError, ToolUseId,
    Transcript,
};
use ah::{Agent, Error, Options, async_trait};

/// A model that repeats the last message.
struct Echo(Model);

impl Provider for Echo {
    fn model(&self) -> &Model {
        &self.0
    }

    fn extras(&self) -> ProviderExtras<'_> {
        ProviderExtras::default()
    }

    fn stream(&self, request: Request) -> EventStream {
        let heard = request.messages.last().map(|last| last.text());
        let text = format!("You said: {}", heard.unwrap_or_default());
        let usage = Usage {
            input_tokens: 1,
            output_tokens: 1,
            ..Usage::default()
        };
        let events = [
            StreamEvent::Started {
                id: "echo".to_owned(),
                usage,
            },
            StreamEvent::BlockStarted {
                index: 0,
                block: BlockStart::Text(String::new()),
            },
            StreamEvent::Delta {
                index: 0,
                delta: Delta::Text(text),
            },
            StreamEvent::BlockStopped { index: 0 },
            StreamEvent::Stopping {
                stop_reason: StopReason::EndTurn,
                usage,
            },
            StreamEvent::Ended,
        ];
        Box::pin(futures_util::stream::iter(events.map(Ok)))
    }
}

/// A store in memory.
#[derive(Default)]
pub struct Shelf(Mutex<Vec<Arc<Message>>>);

impl Shelf {
    /// Returns the stored messages.
    pub fn messages(&self) -> MutexGuard<'_, Vec<Arc<Message>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Store for Shelf {
    async fn load(&self) -> Result<Transcript, StoreError> {
        Ok(Transcript::new(self.messages().clone(), HashMap::new()))
    }

    async fn append(&self, records: Vec<Record>) -> Result<(), StoreError> {
        for record in records {
            if let Record::Message(message) = record {
                self.messages().push(message);
            }
        }
        Ok(())
    }

    async fn output(
        &self,
        _: &ToolUseId,
        _: usize,
        _: usize,
    ) -> Result<Option<OutputPage>, StoreError> {
        Ok(None)
    }

    fn spool_path(&self, call: &ToolUseId) -> PathBuf {
        std::env::temp_dir().join(call.as_str())
    }

    fn mailbox(&self) -> Option<&dyn Mailbox> {
        None
    }

    fn shared(&self) -> Option<&dyn SharedState> {
        None
    }

    fn branch(self: Arc<Self>, _: Branch) -> Arc<dyn Store> {
        // Only needed for subagents, which are not used here.
        Arc::new(Self::default())
    }
}

/// Runs two prompts on one conversation; returns the answers, the names of the events, and the conversation.
///
/// # Errors
///
/// If the conversation cannot be stored, which cannot happen with this store.
pub async fn run() -> Result<(Vec<String>, Vec<String>, Arc<Shelf>), Error> {
    let model = Arc::new(Echo(Model::new("echo", "echo", 100_000, 1_000)));
    let (store, events) = (Arc::new(Shelf::default()), Arc::new(Mutex::new(Vec::new())));
    let mut answers = Vec::new();
    for prompt in ["Hello", "And again"] {
        let seen = events.clone();
        let on_event = move |event: &ah::event::Event| {
            let name = serde_json::to_value(event).map(|event| event["event_type"].to_string());
            if let (Ok(mut seen), Ok(name)) = (seen.lock(), name) {
                seen.push(name);
            }
        };
        let options = Options::new()
            .provider(model.clone())
            .system_prompt("You are an echo.");
        let mut agent = Agent::with(options)
            .store(store.clone())
            .on_event(on_event)
            .open()
            .await?;
        answers.push(agent.run(prompt).await?.answer);
        agent.close().await?;
    }
    let events = events.lock().map(|events| events.clone());
    Ok((answers, events.unwrap_or_default(), store))
}

#[expect(clippy::print_stdout, reason = "what came of it is shown")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let (answers, events, _) = run().await?;
    println!("{}\n{}", answers.join("\n"), events.join(" "));
    Ok(())
}
