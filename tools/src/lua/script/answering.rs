//! A running script as the one that answers in a conversation: each step of it is an answer that asks for calls, and the
//! results in the next request are what its functions return.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ah_conversation::{
    BlockStart, EventStream, LiveOutput, Model, Output, Price, Provider, ProviderExtras, Request,
    ResultBlock, Role, StopReason, StreamEvent, ToolResult, ToolUse, ToolUseId, Usage,
};
use futures_util::{StreamExt as _, stream};
use serde_json::json;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::time::timeout_at;

use super::limits::{LIMITS, MOST_CALLS};
use super::state::{Printed, run};
use super::step::{Given, Step};
use crate::lua::leash::{Holder, Leash};
use crate::lua::load::STACK;

/// Time that a script is given to end after its time limit.
const GRACE: Duration = Duration::from_secs(1);
/// Maximum number of calls that the details of the result list.
const MOST_LISTED: usize = 200;
/// Maximum length of the last answer, in bytes: the whole is the result of the call.
const MOST_SAID: usize = 2_000;

/// A running script. When it is dropped, the script ends.
pub(super) struct Answering {
    model: Model,
    call: ToolUseId,
    leash: Leash,
    printed: Printed,
    dialogue: Arc<Mutex<Dialogue>>,
    _holder: Holder,
}

/// State of the conversation with a script.
struct Dialogue {
    steps: mpsc::UnboundedReceiver<Step>,
    /// The calls that the script waits for, and where it takes their results.
    waiting: Option<(Vec<ToolUseId>, oneshot::Sender<Vec<Given>>)>,
    /// Its calls so far, by tool and whether they failed.
    calls: Vec<(String, bool)>,
    /// What hooks said to the model meanwhile.
    notes: Vec<String>,
    ended: Option<Output>,
}

impl Answering {
    /// Starts a script on its thread, for the call `call`. What it prints goes to `live` as well.
    pub(super) fn start(
        call: &ToolUse,
        code: &str,
        live: LiveOutput,
    ) -> std::io::Result<Arc<Self>> {
        let leash = Leash::new(LIMITS);
        let holder = leash.holder();
        let printed = Printed::new(live);
        let (sender, steps) = mpsc::unbounded_channel();
        let (own, words, code) = (leash.clone(), printed.clone(), code.to_owned());
        thread::Builder::new()
            .name("lua".into())
            .stack_size(STACK)
            .spawn(move || {
                let output = run(&code, &own, &words, &sender);
                // Nobody waits for a script whose call was dropped.
                let _ = sender.send(Step::Ended(output));
            })?;
        Ok(Arc::new(Self {
            model: model(),
            call: call.id.clone(),
            leash,
            printed,
            dialogue: Arc::new(Mutex::new(Dialogue {
                steps,
                waiting: None,
                calls: Vec::new(),
                notes: Vec::new(),
                ended: None,
            })),
            _holder: holder,
        }))
    }

    /// Returns the output of the script; `early` says why its conversation ended before it did.
    pub(super) async fn output(&self, early: Option<String>) -> Output {
        let mut dialogue = self.dialogue.lock().await;
        let ended = dialogue.ended.take();
        let mut output = match (early, ended) {
            (None, Some(output)) => output,
            (early, _) => {
                let reason = early.unwrap_or_else(|| "it did not end".to_owned());
                Output::error(
                    self.printed
                        .with(&format!("[the script was ended: {reason}]")),
                )
            }
        };
        if !dialogue.notes.is_empty() {
            let text = format!("{}\n{}", output.content.text(), dialogue.notes.join("\n"));
            output = Output {
                is_error: output.is_error,
                ..Output::text(text)
            };
        }
        let calls = dialogue.calls.iter().take(MOST_LISTED);
        let calls: Vec<_> = calls
            .map(|(name, is_error)| json!({"tool_name": name, "is_error": is_error}))
            .collect();
        let count = dialogue.calls.len();
        output.with_details(json!({"call_count": count, "calls": calls}))
    }
}

impl Provider for Answering {
    fn model(&self) -> &Model {
        &self.model
    }

    fn extras(&self) -> ProviderExtras<'_> {
        ProviderExtras::default()
    }

    fn stream(&self, request: Request) -> EventStream {
        let (dialogue, leash) = (self.dialogue.clone(), self.leash.clone());
        let call = self.call.clone();
        let events = async move {
            let mut dialogue = dialogue.lock().await;
            dialogue.take_results(&request);
            let events = dialogue.next(&leash, &call).await;
            stream::iter(events.into_iter().map(Ok))
        };
        Box::pin(stream::once(events).flatten())
    }
}

impl Dialogue {
    /// Hands the results of the last calls to the script.
    fn take_results(&mut self, request: &Request) {
        let Some((ids, reply)) = self.waiting.take() else {
            return;
        };
        let latest = request.messages.iter().rev();
        let latest = latest.take_while(|message| message.role == Role::User);
        let mut given = Vec::new();
        for message in latest {
            given.extend(message.tool_results().cloned());
            if message.is_results() {
                let notes = message.content.iter().filter_map(|block| block.as_text());
                self.notes.extend(notes.map(str::to_owned));
            }
        }
        let result = |id: &ToolUseId| {
            let found = given.iter().find(|result| result.tool_use_id == *id);
            found.map_or_else(|| Err("the call has no result".to_owned()), text_of)
        };
        let results: Vec<_> = ids.iter().map(result).collect();
        let first = self.calls.len() - ids.len();
        for (call, result) in self.calls[first..].iter_mut().zip(&results) {
            call.1 = result.is_err();
        }
        // A script that was ended does not wait.
        let _ = reply.send(results);
    }

    /// Returns the script's next answer.
    async fn next(&mut self, leash: &Leash, call: &ToolUseId) -> Vec<StreamEvent> {
        let mut answer = Answer::new();
        // Some functions of the interpreter cannot be interrupted.
        let step = timeout_at((leash.deadline() + GRACE).into(), self.steps.recv()).await;
        let reason = match step {
            Ok(Some(Step::Calls(wanted, reply))) => {
                let mut ids = Vec::new();
                for (name, input) in wanted {
                    self.calls.push((name.clone(), false));
                    let id = ToolUseId::from(format!("{call}_{}", self.calls.len()));
                    ids.push(id.clone());
                    answer.add(BlockStart::ToolUse { id, name, input });
                }
                self.waiting = Some((ids, reply));
                StopReason::ToolUse
            }
            Ok(Some(Step::Ended(output))) => {
                answer.add(BlockStart::Text(said(&output)));
                self.ended = Some(output);
                StopReason::EndTurn
            }
            Ok(None) => self.broken(&mut answer, "its thread crashed"),
            Err(_) => self.broken(&mut answer, "it took too long"),
        };
        answer.end(reason)
    }

    fn broken(&mut self, answer: &mut Answer, why: &str) -> StopReason {
        let output = Output::error(format!("the script was ended: {why}"));
        answer.add(BlockStart::Text(said(&output)));
        self.ended = Some(output);
        StopReason::EndTurn
    }
}

/// The events of an answer.
struct Answer {
    events: Vec<StreamEvent>,
    blocks: usize,
}

impl Answer {
    fn new() -> Self {
        Self {
            events: vec![StreamEvent::Started {
                id: String::new(),
                usage: Usage::default(),
            }],
            blocks: 0,
        }
    }

    fn add(&mut self, block: BlockStart) {
        let index = self.blocks;
        self.blocks += 1;
        self.events.push(StreamEvent::BlockStarted { index, block });
        self.events.push(StreamEvent::BlockStopped { index });
    }

    fn end(mut self, stop_reason: StopReason) -> Vec<StreamEvent> {
        self.events.push(StreamEvent::Stopping {
            stop_reason,
            usage: Usage::default(),
        });
        self.events.push(StreamEvent::Ended);
        self.events
    }
}

/// Returns the text of a result, in which pictures are named only.
fn text_of(result: &ToolResult) -> Given {
    let texts = result.content.iter().filter_map(|block| match block {
        ResultBlock::Text { text } => Some(text.clone()),
        ResultBlock::Image(image) => Some(format!("[{}]", image.media_type)),
        // The text before it says what it is.
        ResultBlock::Audio(_) => None,
    });
    let text = texts.collect::<Vec<_>>().join("\n");
    if result.is_error { Err(text) } else { Ok(text) }
}

/// Returns the beginning of an output as the last answer.
fn said(output: &Output) -> String {
    let text = output.content.text();
    match text.floor_char_boundary(MOST_SAID) {
        0 => "(nothing)".to_owned(),
        end => text[..end].to_owned(),
    }
}

/// A script as a model: it is free, and no conversation is too long for it.
fn model() -> Model {
    Model {
        provider: crate::SCRIPTS.to_owned(),
        name: "script".to_owned(),
        context_window: (MOST_CALLS as u64) << 40,
        max_output: 0,
        price: Some(Price {
            input: 0,
            output: 0,
            cache_read: 0,
            cache_write: 0,
            cache_write_1h: 0,
        }),
        long_price: None,
    }
}
