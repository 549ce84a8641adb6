//! A server that holds conversations is sent what is new, and all of it whenever it may have forgotten.

use std::sync::Arc;
use std::time::Duration;

use ah_conversation::{
    ContentBlock, Delta, Message, MessageId, Origin, Provider, Request, Response, Role, StopReason,
    StreamEvent, Time, Usage,
};
use ah_provider::held::ConversationState;
use ah_provider::retry::Policy;
use ah_provider::{Options, connect};
use ah_testkit::script::{fails, says};
use ah_testkit::server::Server;
use futures_util::StreamExt as _;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::route::with_options;

/// What happens before a prompt is answered.
#[derive(Debug, Clone)]
enum Step {
    Nothing,
    /// The server forgets everything.
    Forgets,
    /// The conversation goes on from so many prompts ago.
    Forks(usize),
    /// The system prompt is another one.
    Prompted,
    /// The server is busy at first.
    Busy,
    /// The first answer is cut off.
    Cut,
    /// Another process goes on.
    Restarts,
}

impl Step {
    /// Whether the server has to be sent all messages.
    fn needs_all(&self) -> bool {
        !matches!(self, Self::Nothing | Self::Busy)
    }
}

struct Talk {
    server: Server,
    provider: Arc<dyn Provider>,
    system: usize,
    messages: Vec<Arc<Message>>,
}

impl Talk {
    fn new(server: Server, state: ConversationState) -> Self {
        Self {
            provider: provider(&server.url(), state),
            server,
            system: 0,
            messages: Vec::new(),
        }
    }

    /// Says something and takes the answer into the conversation.
    async fn say(&mut self, text: &str) {
        self.push(Role::User, text, None);
        let mut events = self.provider.stream(Request {
            system: Arc::new([format!("You are number {}.", self.system)]),
            messages: Arc::new(self.messages.clone()),
            max_output: 100,
            ..Request::default()
        });
        let (mut said, mut id) = (String::new(), None);
        while let Some(event) = events.next().await {
            match event.expect("an answer") {
                StreamEvent::Sent { .. } => said.clear(),
                StreamEvent::Accepted { request_id } => id = Some(request_id),
                StreamEvent::Delta {
                    delta: Delta::Text(text),
                    ..
                } => said.push_str(&text),
                _ => {}
            }
        }
        self.push(Role::Assistant, &said, id);
    }

    fn push(&mut self, role: Role, text: &str, request_id: Option<String>) {
        let response = (role == Role::Assistant).then(|| Response {
            stop_reason: StopReason::EndTurn,
            usage: Usage::default(),
            cost: None,
            model: "claude-opus-4-6".to_owned(),
            provider: "anthropic".to_owned(),
            latency_ms: 0,
            request_id,
            opaque: None,
        });
        let seq = u32::try_from(self.messages.len()).unwrap_or_default();
        self.messages.push(Arc::new(Message {
            id: MessageId::from(format!("m{seq}")),
            parent: None,
            seq,
            role,
            origin: if role == Role::User {
                Origin::Prompt
            } else {
                Origin::Model
            },
            created_at: Time(0),
            content: vec![ContentBlock::text(text)],
            response,
        }));
    }

    /// Returns the texts of the conversation without the last answer.
    fn asked(&self) -> Vec<String> {
        let messages = self.messages.iter().rev().skip(1).rev();
        messages.map(|message| message.text()).collect()
    }

    /// Returns the texts that the server had before it answered, with what it held.
    fn seen(&self) -> Vec<String> {
        let requests = self.server.requests();
        let last = requests.last().expect("a request");
        let body = last.whole.as_ref().unwrap_or(&last.body);
        let messages = body["messages"].as_array().expect("messages").iter();
        let blocks = messages.flat_map(|message| message["content"].as_array().expect("blocks"));
        let text = |block: &Value| block["text"].as_str().unwrap_or_default().to_owned();
        blocks.map(text).collect()
    }
}

fn provider(url: &str, conversation_state: ConversationState) -> Arc<dyn Provider> {
    let variables = [("ANTHROPIC_BASE_URL", url), ("ANTHROPIC_API_KEY", "key")];
    let provider = with_options(&variables, &json!({}), |options| {
        let options = Options {
            betas: &[],
            conversation_state,
            retry: Policy {
                retries: 3,
                first_delay: Duration::ZERO,
                has_fallback: false,
            },
            ..*options
        };
        connect("claude-opus-4-6", &options)
    });
    provider.expect("connected")
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Nothing),
        1 => Just(Step::Forgets),
        1 => (1_usize..4).prop_map(Step::Forks),
        1 => Just(Step::Prompted),
        1 => Just(Step::Busy),
        1 => Just(Step::Cut),
        1 => Just(Step::Restarts),
    ]
}

async fn goes_on(steps: &[Step]) -> Result<(), TestCaseError> {
    let mut turns = vec![says("Answer 0.")];
    for (number, step) in steps.iter().enumerate() {
        let answer = says(&format!("Answer {}.", number + 1));
        turns.extend(match step {
            Step::Busy => Some(fails(529, "overloaded_error")),
            Step::Cut => Some(ah_provider::script::format::Turn {
                cut: true,
                ..says("Half an")
            }),
            _ => None,
        });
        turns.push(answer);
    }
    let mut talk = Talk::new(Server::new(turns), ConversationState::On);
    talk.say("Prompt 0.").await;
    for (number, step) in steps.iter().enumerate() {
        match step {
            Step::Forgets => talk.server.forget(),
            Step::Forks(prompts) => {
                let left = talk.messages.len().saturating_sub(2 * prompts);
                talk.messages.truncate(left);
            }
            Step::Prompted => talk.system += 1,
            Step::Restarts => talk.provider = provider(&talk.server.url(), ConversationState::On),
            Step::Nothing | Step::Busy | Step::Cut => {}
        }
        let before = talk.server.requests().len();
        talk.say(&format!("Prompt {}.", number + 1)).await;
        prop_assert_eq!(talk.seen(), talk.asked());
        let requests = talk.server.requests();
        let creates = requests[before..]
            .iter()
            .filter(|it| it.body["thread"]["type"] == "create");
        prop_assert_eq!(creates.count(), usize::from(step.needs_all()), "{:?}", step);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn nothing_is_lost_or_sent_twice(steps in vec(step(), 4..16)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(goes_on(&steps))?;
    }
}

#[tokio::test]
async fn requests_do_not_grow_with_the_conversation() {
    const TURNS: usize = 300;
    let turns = (0..TURNS).map(|number| says(&format!("Answer {number:03}.")));
    let mut talk = Talk::new(Server::new(turns), ConversationState::On);
    for number in 0..TURNS {
        talk.say(&format!("Prompt {number:03}.")).await;
    }
    let requests = talk.server.requests();
    let sizes: Vec<_> = requests.iter().map(|it| it.bytes).collect();
    let (least, most) = (sizes[10..].iter().min(), sizes[10..].iter().max());
    let (least, most) = least.zip(most).expect("sizes");
    assert!(most * 20 <= least * 21, "{least} {most}");
}

#[tokio::test]
async fn a_server_that_cannot_hold_is_asked_once() {
    let mut refuses = fails(400, "invalid_request_error");
    if let Some(error) = &mut refuses.error {
        error.message = Some("thread: not supported for this organization".to_owned());
    }
    let turns = [refuses, says("One."), says("Two.")];
    let mut talk = Talk::new(Server::new(turns), ConversationState::On);
    talk.say("a").await;
    talk.say("b").await;
    let requests = talk.server.requests();
    let asked = requests.iter().map(|it| it.body["thread"]["type"].clone());
    let asked: Vec<_> = asked.collect();
    assert_eq!(asked, [Value::from("create"), Value::Null, Value::Null]);
}

#[tokio::test]
async fn a_gateway_is_sent_everything() {
    for state in [ConversationState::Auto, ConversationState::Off] {
        let mut talk = Talk::new(Server::new([says("One."), says("Two.")]), state);
        talk.say("a").await;
        talk.say("b").await;
        assert_eq!(talk.seen(), talk.asked());
        let requests = talk.server.requests();
        assert!(requests.iter().all(|it| it.body["thread"].is_null()));
    }
}
