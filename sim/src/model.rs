//! What the model says, as chance has it, and each request of the agent as a strict reader sees it.

use std::fmt;
use std::sync::Arc;

use ah_conversation::{
    BlockStart, ContentBlock, Delta, ErrorClass, EventStream, Message, Model, Provider,
    ProviderError, ProviderExtras, Request, StopReason, StreamEvent, Usage,
};
use futures_util::StreamExt as _;
use serde_json::json;

use crate::agents;
use crate::law::Law;
use crate::laws;
use crate::plant::PlantedFault;
use crate::remote;
use crate::workspace::FILES;
use crate::world::{State, World};

/// Answers with calls in a run; the next one has none, so that each run ends.
const ROUNDS: usize = 8;
/// Requests of a run that ends, at most: those of its rounds, again for what breaks off and for mail.
const MOST_ROUNDS: usize = 60;

/// An answer.
pub(crate) struct Said {
    pub(crate) text: String,
    pub(crate) calls: Vec<Call>,
}

/// A call of a tool.
pub(crate) struct Call {
    pub(crate) name: &'static str,
    pub(crate) id: String,
    /// JSON, or the beginning of it.
    pub(crate) input: String,
}

impl Call {
    fn next(state: &mut State) -> Self {
        let other = if state.asks { "ask" } else { "read" };
        // One in five is of no tool.
        let name = match state.has_agents && state.chance.one_in(4) {
            true => "agent",
            false if state.has_servers && state.chance.one_in(4) => remote::tool(),
            false => ["write", "edit", "read", other, "absent"][state.chance.below(5)],
        };
        state.calls += 1;
        let id = format!("call-{}", state.calls);
        if name == "ask" {
            // The same question may come again.
            let about = if state.chance.one_in(3) { "it" } else { &id };
            let input = json!({"about": about}).to_string();
            return Self { name, id, input };
        }
        let input = match state.chance.below(40) {
            _ if name == "agent" => agents::input(state).to_string(),
            0 => r#"{"file": 1, "te"#.to_owned(),
            1 => json!({"file": 1, "text": "long ".repeat(4_000)}).to_string(),
            _ => json!({"file": state.chance.below(FILES)}).to_string(),
        };
        Self { name, id, input }
    }
}

impl Said {
    /// Returns the next answer.
    pub(crate) fn next(state: &mut State) -> Self {
        state.turns += 1;
        let wants = !state.asking().is_summary && state.rounds <= ROUNDS && !state.chance.one_in(6);
        let calls = match wants || state.planted(PlantedFault::CallsForEver, 1) {
            true => 1 + state.chance.below(3),
            false => 0,
        };
        let calls = (0..calls).map(|_| Call::next(state)).collect();
        Self {
            text: format!("says {}", state.turns),
            calls,
        }
    }
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        let mut calls = self.calls.iter();
        calls.try_for_each(|call| write!(f, " {}({})", call.name, call.id))
    }
}

/// A model whose requests are looked at, and whose events come a moment apart.
pub(crate) struct WatchedModel {
    world: Arc<World>,
    inner: Arc<dyn Provider>,
    /// Number of the process among those of its session.
    entered: usize,
}

impl WatchedModel {
    pub(crate) fn new(world: Arc<World>, inner: Arc<dyn Provider>) -> Self {
        let entered = world.state().entered;
        Self {
            world,
            inner,
            entered,
        }
    }
}

impl Provider for WatchedModel {
    fn model(&self) -> &Model {
        self.inner.model()
    }

    fn stream(&self, request: Request) -> EventStream {
        let world = self.world.clone();
        if world.state().entered != self.entered {
            // Another process has the session; this one does not know it yet.
            return self.inner.stream(request);
        }
        let (has_enough, asking) = {
            let mut state = world.state();
            state.rounds += 1;
            let owner = |message: &Arc<Message>| state.owners.get(&message.id).cloned();
            let asking = request.messages.iter().rev().find_map(owner).flatten();
            // What asks for a summary is not stored.
            let is_summary =
                request.summary.is_some() || request.messages.last().and_then(owner).is_none();
            state.asking.clone_from(&asking);
            let model = self.inner.model();
            let asked = (model.provider.clone(), model.name.clone());
            let conversation = state.asking();
            conversation.giving = None;
            conversation.is_summary = is_summary;
            let before = match is_summary {
                true => Arc::default(),
                false => conversation.requested.clone(),
            };
            let is_same_model = conversation.asked == asked;
            if let Err(fault) = laws::bounded(&state) {
                state.fail(fault);
            }
            let conversation = state.asking();
            if !is_summary {
                conversation.requested = request.messages.clone();
                conversation.asked = asked;
            }
            if let Err(fault) = laws::request(&request.messages, &before, is_same_model) {
                state.fail(fault);
            }
            if state.rounds > MOST_ROUNDS {
                state.fail(Law::Ended.broken(format!("a run has {MOST_ROUNDS} requests")));
            }
            (state.rounds > MOST_ROUNDS, asking)
        };
        if has_enough {
            return Box::pin(futures_util::stream::once(async move {
                world.gone().await;
                Ok(StreamEvent::Ended)
            }));
        }
        let request = sent(&mut world.state(), request);
        let mut events = self.inner.stream(request);
        let (present, conversation) = (world.clone(), asking.clone());
        let events = futures_util::stream::poll_fn(move |context| {
            // Answers to several agents may come at the same time.
            present.state().asking.clone_from(&conversation);
            events.poll_next_unpin(context)
        });
        Box::pin(events.then(move |event| {
            let (world, asking) = (world.clone(), asking.clone());
            async move {
                world.moment().await;
                let mut state = world.state();
                state.asking = asking;
                if matches!(event, Ok(StreamEvent::Ended)) && !state.interrupt.is_cancelled() {
                    state.read_whole();
                }
                drop(state);
                event
            }
        }))
    }

    fn extras(&self) -> ProviderExtras<'_> {
        self.inner.extras()
    }
}

/// Returns what is really sent of a request.
fn sent(state: &mut State, mut request: Request) -> Request {
    let is_less = state.planted(PlantedFault::RequestWithoutResult, 4);
    let is_other = state.planted(PlantedFault::CallIdChanged, 4);
    if !is_less && !is_other {
        return request;
    }
    let mut messages = request.messages.to_vec();
    if let Some(last) = messages.last_mut() {
        let content = &mut Arc::make_mut(last).content;
        if let Some(ContentBlock::ToolResult(result)) = content.first_mut() {
            result.tool_use_id = "another".into();
            if is_less {
                content.remove(0);
            }
        }
    }
    request.messages = Arc::new(messages);
    request
}

/// A model that needs no server.
pub(crate) struct SimulatedModel {
    world: Arc<World>,
    model: Model,
}

impl SimulatedModel {
    pub(crate) fn new(world: Arc<World>) -> Self {
        Self {
            world,
            model: Model::new("simulated", "model", 200_000, 8_000),
        }
    }

    /// Returns the events of an answer, and how its stream ends.
    fn answer(&self) -> (Vec<StreamEvent>, End) {
        let mut state = self.world.state();
        let said = Said::next(&mut state);
        let mut events = vec![
            StreamEvent::Sent {
                payload_bytes: 1_000,
                held_bytes: None,
            },
            StreamEvent::Started {
                id: format!("answer-{}", state.turns),
                usage: Usage::default(),
            },
        ];
        let text = Delta::Text(said.text.clone());
        events.extend(block(0, BlockStart::Text(String::new()), text));
        for (index, call) in said.calls.iter().enumerate() {
            let start = BlockStart::ToolUse {
                id: call.id.as_str().into(),
                name: call.name.to_owned(),
                input: json!({}),
            };
            let input = Delta::InputJson(call.input.clone());
            events.extend(block(index + 1, start, input));
        }
        let (cut, silent) = (state.mishap(12), state.mishap(12));
        // An interrupt does not reach subagents in the background.
        if cut || silent && state.will_be_stopped && state.asking.is_none() {
            events.truncate(1 + state.chance.below(events.len()));
            let (how, end) = match cut {
                true => ("breaks off", End::Broken),
                false => ("falls silent", End::Silent(self.world.clone())),
            };
            state.tell(format!("the model {said}, and {how}"));
            return (events, end);
        }
        state.tell(format!("the model {said}"));
        let stop_reason = match said.calls.len() {
            0 => StopReason::EndTurn,
            _ => StopReason::ToolUse,
        };
        // Now and then the window is full.
        let input_tokens = match state.mishap(60) {
            true => 195_000,
            false => 100,
        };
        let usage = Usage {
            input_tokens,
            output_tokens: 10,
            ..Usage::default()
        };
        events.push(StreamEvent::Stopping { stop_reason, usage });
        events.push(StreamEvent::Ended);
        (events, End::Closed)
    }
}

fn block(index: usize, block: BlockStart, delta: Delta) -> [StreamEvent; 3] {
    [
        StreamEvent::BlockStarted { index, block },
        StreamEvent::Delta { index, delta },
        StreamEvent::BlockStopped { index },
    ]
}

impl Provider for SimulatedModel {
    fn model(&self) -> &Model {
        &self.model
    }

    fn stream(&self, _: Request) -> EventStream {
        let (events, end) = self.answer();
        let events = futures_util::stream::iter(events.into_iter().map(Ok));
        let end = futures_util::stream::once(end.come());
        Box::pin(events.chain(end.filter_map(std::future::ready)))
    }

    fn extras(&self) -> ProviderExtras<'_> {
        ProviderExtras::default()
    }
}

/// How a stream of events ends.
enum End {
    Closed,
    Broken,
    Silent(Arc<World>),
}

impl End {
    async fn come(self) -> Option<Result<StreamEvent, ProviderError>> {
        match self {
            Self::Closed => None,
            Self::Broken => Some(Err(ProviderError::new(
                ErrorClass::Network,
                "the connection broke",
            ))),
            Self::Silent(world) => {
                world.inject().await;
                std::future::pending().await
            }
        }
    }
}
