//! The model: it looks at each request as a strict server does, and answers as chance has it.

use std::sync::Arc;

use ah_conversation::{
    BlockStart, Delta, ErrorClass, EventStream, Model, Provider, ProviderError, ProviderExtras,
    Request, StopReason, StreamEvent, Usage,
};
use futures_util::StreamExt as _;
use serde_json::json;

use crate::laws;
use crate::world::World;

/// Answers with calls in a run; the next one has none, so that each run ends.
const ROUNDS: usize = 4;

pub(crate) struct Simulated {
    world: Arc<World>,
    model: Model,
}

/// How the model answers.
enum Answer {
    /// These events.
    Events(Vec<StreamEvent>),
    /// These events, and then the connection breaks.
    Cut(Vec<StreamEvent>),
    /// These events, and then nothing.
    Silence(Vec<StreamEvent>),
}

impl Simulated {
    pub(crate) fn new(world: Arc<World>) -> Self {
        Self {
            world,
            model: Model::new("simulated", "model", 200_000, 8_000),
        }
    }

    fn answer(&self, request: &Request) -> Answer {
        let mut state = self.world.state();
        state.turns += 1;
        if let Err(fault) = laws::request(&request.messages, &state.requested) {
            state.fail(fault);
        }
        let ids = request.messages.iter().map(|message| message.id.clone());
        state.requested = ids.collect();
        state.rounds += 1;
        let mut events = vec![
            StreamEvent::Sent {
                payload_bytes: 1_000,
                held_bytes: None,
            },
            StreamEvent::Started {
                id: format!("answer {}", state.turns),
                usage: Usage::default(),
            },
        ];
        let mut said = state.said("says", 2);
        events.extend(block(
            0,
            BlockStart::Text(String::new()),
            Delta::Text(said.clone()),
        ));
        if state.rounds <= ROUNDS && !state.chance.one_in(3) {
            let count = 1 + state.chance.below(3);
            for index in 1..=count {
                // One in five is of no tool.
                let name = ["write", "write", "write", "read", "absent"][state.chance.below(5)];
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
        }
        let (cut, silent) = (state.chance.one_in(12), state.chance.one_in(12));
        if cut || silent && state.will_be_stopped {
            events.truncate(1 + state.chance.below(events.len()));
            let how = if cut { "breaks off" } else { "falls silent" };
            state.tell(format!("the model {said}, and {how}"));
            return if cut {
                Answer::Cut(events)
            } else {
                Answer::Silence(events)
            };
        }
        state.tell(format!("the model {said}"));
        let stop_reason = match events.len() > 5 {
            true => StopReason::ToolUse,
            false => StopReason::EndTurn,
        };
        let usage = Usage {
            input_tokens: 100,
            output_tokens: 10,
            ..Usage::default()
        };
        events.push(StreamEvent::Stopping { stop_reason, usage });
        events.push(StreamEvent::Ended);
        Answer::Events(events)
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
        let (events, end) = match self.answer(&request) {
            Answer::Events(events) => (events, End::Closed),
            Answer::Cut(events) => (events, End::Broken),
            Answer::Silence(events) => (events, End::Silent(self.world.clone())),
        };
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
                world.strike().await;
                std::future::pending().await
            }
        }
    }
}
