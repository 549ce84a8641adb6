//! A model in the process, without a socket: its requests are encoded as for the Messages API, or the Responses API if it is
//! one of OpenAI, and refused as by the loopback server. For tests with many requests.

use std::collections::VecDeque;
use std::sync::Arc;

use ah_conversation::{
    BlockStart, Delta, ErrorClass, EventStream, Model, Provider, ProviderError, ProviderExtras,
    Request, StopReason, StreamEvent, Usage,
};
use ah_provider::abilities::Abilities;
use ah_provider::openai::Additions;
use ah_provider::presets::Preset;
use ah_provider::request_encoder::RequestEncoder;
use ah_provider::{anthropic, responses};
use futures_util::stream;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::server;
use crate::server::messages::binding::Binding;

/// Context window of the model, in tokens.
const WINDOW: u64 = 200_000;

/// Model whose summaries the server writes itself.
pub const SUMMARIZED: &str = "claude-haiku-5-5";

/// Beginning of the names of OpenAI's models.
const OF_OPENAI: &str = "gpt-";

/// A model; its answers come from a record that several models can share.
pub struct Bound {
    model: Model,
    encoder: Mutex<Box<dyn RequestEncoder>>,
    record: Arc<BoundRecord>,
}

/// What was asked, and the answers to come.
#[derive(Default)]
pub struct BoundRecord(Mutex<State>);

#[derive(Default)]
struct State {
    asked: Vec<Asked>,
    answers: VecDeque<BoundAnswer>,
    is_declared: bool,
}

/// A request.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Its body.
    pub body: Value,
    /// Whether it was declared that it does not continue an earlier one.
    pub is_declared: bool,
    /// Why it was refused.
    pub refused: Option<String>,
}

impl Asked {
    /// Whether the request begins with everything that `earlier` says.
    pub fn continues(&self, earlier: &Self) -> bool {
        match (is_of_openai(&self.body), is_of_openai(&earlier.body)) {
            (true, true) => server::responses::binding::continues(&self.body, &earlier.body),
            (false, false) => server::messages::binding::continues(&self.body, &earlier.body),
            _ => false,
        }
    }

    /// Whether it carries no answer.
    pub fn is_first(&self) -> bool {
        let answers = match is_of_openai(&self.body) {
            true => server::responses::answers(&self.body),
            false => server::messages::answers(&self.body),
        };
        answers == 0
    }
}

/// Returns why a request is refused, or its thinking left out.
fn refusal(body: &Value) -> Option<String> {
    if !is_of_openai(body) {
        return server::messages::history::check(body).err();
    }
    let checked = server::responses::history::check(body);
    let dropped = || server::responses::binding::dropped(body).map(str::to_owned);
    checked.err().or_else(dropped)
}

/// Returns the signature of the thought in the answer to `body`.
fn seal(body: &Value, number: usize) -> String {
    if is_of_openai(body) {
        let seal = server::responses::binding::seal(body);
        return json!({
            "type": "reasoning",
            "id": format!("rs_{number}"),
            "summary": [],
            "encrypted_content": seal.unwrap_or_else(|| "seal".to_owned()),
        })
        .to_string();
    }
    let binding = Binding::of(body);
    binding.map_or_else(|| "seal".to_owned(), |mut binding| binding.sign())
}

fn is_of_openai(body: &Value) -> bool {
    let name = body["model"].as_str();
    name.is_some_and(|name| name.starts_with(OF_OPENAI))
}

/// An answer to come; without one, the model says `Yes.`
#[derive(Debug, Clone)]
pub enum BoundAnswer {
    /// A text.
    Says(String),
    /// A text, after which the context window is nearly full.
    Fills(String),
    /// A call.
    Calls(String, Value),
    /// The server's own summary.
    Summarizes,
    /// An error of the server.
    Fails,
}

impl Bound {
    /// Returns the model `name`, as a process that has just started sees it.
    pub fn new(name: &str, record: Arc<BoundRecord>) -> Self {
        let model = Model {
            provider: "anthropic".to_owned(),
            name: name.to_owned(),
            context_window: WINDOW,
            max_output: 1_000,
            price: None,
            long_price: None,
        };
        let encoder: Box<dyn RequestEncoder> = if name.starts_with(OF_OPENAI) {
            let quirks = Preset::named("openai").map(|row| row.quirks.clone());
            Box::new(responses::Encoder::new(
                model.clone(),
                Abilities::default(),
                Additions::default(),
                quirks.unwrap_or_default(),
            ))
        } else {
            let encoder = anthropic::Encoder::new(model.clone(), Abilities::default());
            Box::new(encoder.summarizing(name == SUMMARIZED))
        };
        Self {
            encoder: Mutex::new(encoder),
            model,
            record,
        }
    }
}

impl BoundRecord {
    /// Returns the requests so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.0.lock().asked.clone()
    }

    /// Adds answers.
    pub fn will_answer(&self, answers: impl IntoIterator<Item = BoundAnswer>) {
        self.0.lock().answers.extend(answers);
    }

    /// Forgets the answers that were not given.
    pub fn forget_answers(&self) {
        self.0.lock().answers.clear();
    }

    /// Notes that the next request is declared to continue none.
    pub fn declare(&self) {
        self.0.lock().is_declared = true;
    }
}

impl Provider for Bound {
    fn model(&self) -> &Model {
        &self.model
    }

    fn extras(&self) -> ProviderExtras<'_> {
        ProviderExtras {
            continuity: self.encoder.lock().continuity(),
            ..ProviderExtras::default()
        }
    }

    fn stream(&self, request: Request) -> EventStream {
        let bytes = self.encoder.lock().encode(&request).concat();
        let body: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let refused = refusal(&body);
        let mut state = self.record.0.lock();
        let number = state.asked.len();
        let is_declared = std::mem::take(&mut state.is_declared);
        state.asked.push(Asked {
            body: body.clone(),
            is_declared,
            refused: refused.clone(),
        });
        if let Some(refused) = refused {
            let error = ProviderError::new(ErrorClass::InvalidRequest, refused);
            return Box::pin(stream::iter([Err(error)]));
        }
        let answer = match body["compaction"].is_null() {
            true => state.answers.pop_front(),
            false => Some(BoundAnswer::Summarizes),
        };
        drop(state);
        let answer = answer.unwrap_or_else(|| BoundAnswer::Says("Yes.".to_owned()));
        let signature = seal(&body, number);
        Box::pin(stream::iter(events(answer, number, signature)))
    }
}

/// Returns the events of an answer with a thought.
fn events(
    answer: BoundAnswer,
    number: usize,
    signature: String,
) -> Vec<Result<StreamEvent, ProviderError>> {
    let mut usage = Usage {
        input_tokens: 100,
        output_tokens: 10,
        ..Usage::default()
    };
    let (block, stop_reason) = match answer {
        BoundAnswer::Fails => {
            let error = ProviderError::new(ErrorClass::Unknown, "the server is on fire");
            return vec![Err(error)];
        }
        BoundAnswer::Fills(text) => {
            usage.input_tokens = WINDOW * 9 / 10;
            (BlockStart::Text(text), StopReason::EndTurn)
        }
        BoundAnswer::Summarizes => {
            let block = json!({"type": "compaction", "content": "All.", "signature": "seal"});
            let reason = StopReason::Other("compaction".to_owned());
            (BlockStart::Other(block), reason)
        }
        BoundAnswer::Says(text) => (BlockStart::Text(text), StopReason::EndTurn),
        BoundAnswer::Calls(name, input) => {
            let id = format!("toolu_{number}").into();
            (BlockStart::ToolUse { id, name, input }, StopReason::ToolUse)
        }
    };
    let events = [
        StreamEvent::Started {
            id: format!("msg_{number}"),
            usage,
        },
        StreamEvent::BlockStarted {
            index: 0,
            block: BlockStart::Thinking(format!("thought {number}")),
        },
        StreamEvent::Delta {
            index: 0,
            delta: Delta::Signature(signature),
        },
        StreamEvent::BlockStopped { index: 0 },
        StreamEvent::BlockStarted { index: 1, block },
        StreamEvent::BlockStopped { index: 1 },
        StreamEvent::Stopping { stop_reason, usage },
        StreamEvent::Ended,
    ];
    events.map(Ok).into()
}
