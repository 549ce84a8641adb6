//! The model: it looks at each request as a strict server does, and answers as chance has it.

use std::sync::Arc;

use ah_conversation::{
    BlockStart, Delta, ErrorClass, EventStream, Model, Provider, ProviderError, ProviderExtras,
    Request, StopReason, StreamEvent, Usage,
};
use futures_util::StreamExt as _;
use serde_json::json;

use crate::law::Law;
use crate::laws;
use crate::plant::PlantedFault;
use crate::world::World;

/// Answers with calls in a run; the next one has none, so that each run ends.
const ROUNDS: usize = 4;
/// Requests of a run that ends, at most: those of its rounds, again for what breaks off and for mail.
const MOST_ROUNDS: usize = 60;

pub(crate) struct Simulated {
    world: Arc<World>,
    model: Model,
}

impl Simulated {
    pub(crate) fn new(world: Arc<World>) -> Self {
        Self {
            world,
            model: Model::new("simulated", "model", 200_000, 8_000),
        }
    }

    /// Returns the events of an answer, and how its stream ends.
    fn answer(&self, request: &Request) -> (Vec<StreamEvent>, End) {
        let mut state = self.world.state();
        state.turns += 1;
        state.rounds += 1;
        if let Err(fault) = laws::request(&request.messages, &state.requested) {
            state.fail(fault);
        }
        state.requested = request.messages.clone();
        if state.rounds > MOST_ROUNDS {
            state.fail(Law::Ended.broken(format!("a run has {MOST_ROUNDS} requests")));
            self.world.killed.notify_one();
            return (Vec::new(), End::Silent(self.world.clone()));
        }
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
        let mut said = format!("says {}", state.turns);
        let text = Delta::Text(said.clone());
        events.extend(block(0, BlockStart::Text(String::new()), text));
        let wants = state.rounds <= ROUNDS && !state.chance.one_in(3);
        let calls = match wants || state.planted(PlantedFault::CallsForEver, 1) {
            true => 1 + state.chance.below(3),
            false => 0,
        };
        for index in 1..=calls {
            // One in five is of no tool.
            let name = ["write", "write", "read", "read", "absent"][state.chance.below(5)];
            state.calls += 1;
            let id = format!("call-{}", state.calls);
            said += &format!(" {name}({id})");
            let start = BlockStart::ToolUse {
                id: id.into(),
                name: name.to_owned(),
                input: json!({}),
            };
            events.extend(block(index, start, Delta::InputJson("{}".to_owned())));
        }
        let (cut, silent) = (state.chance.one_in(12), state.chance.one_in(12));
        if cut || silent && state.will_be_stopped {
            events.truncate(1 + state.chance.below(events.len()));
            let (how, end) = match cut {
                true => ("breaks off", End::Broken),
                false => ("falls silent", End::Silent(self.world.clone())),
            };
            state.tell(format!("the model {said}, and {how}"));
            return (events, end);
        }
        state.tell(format!("the model {said}"));
        let stop_reason = match calls {
            0 => StopReason::EndTurn,
            _ => StopReason::ToolUse,
        };
        let usage = Usage {
            input_tokens: 100,
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

impl Provider for Simulated {
    fn model(&self) -> &Model {
        &self.model
    }

    fn stream(&self, request: Request) -> EventStream {
        let (events, end) = self.answer(&request);
        let world = self.world.clone();
        let events = futures_util::stream::iter(events.into_iter().map(Ok));
        let events = events.then(move |event| {
            let world = world.clone();
            async move {
                world.moment().await;
                event
            }
        });
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
