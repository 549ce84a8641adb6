//! A server that holds conversations is sent what is new, and all of it whenever it may have forgotten: in threads, in
//! WebSockets, and with what it stores.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ah_conversation::{
    ContentBlock, Delta, EventStream, Message, MessageId, Origin, Provider, Request, Response,
    Role, StopReason, StreamEvent, Time, Usage,
};
use ah_provider::held::ConversationState;
use ah_provider::note::Notes;
use ah_provider::retry::Policy;
use ah_provider::script::format::{Turn, Wire};
use ah_provider::{Options, connect};
use ah_testkit::script::{fails, says};
use ah_testkit::server::{Outcome, Received, Server};
use futures_util::StreamExt as _;
use parking_lot::Mutex;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::requests::tool;
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
    /// The connection breaks after so many bytes of the first answer.
    Breaks(usize),
    /// All connections are closed.
    Closes,
    /// All connections have been open for too long.
    Expires,
    /// Another process goes on.
    Restarts,
}

/// How conversations are held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    Threads,
    Sockets,
    Stored,
    Interactions,
}

impl Held {
    const ALL: [Self; 4] = [
        Self::Threads,
        Self::Sockets,
        Self::Stored,
        Self::Interactions,
    ];

    /// Whether a request begins a conversation that is to be held.
    fn is_all(self, request: &Received) -> bool {
        match self {
            Self::Threads => request.body["thread"]["type"] == "create",
            Self::Sockets | Self::Stored => request.body["previous_response_id"].is_null(),
            Self::Interactions => request.body["previous_interaction_id"].is_null(),
        }
    }

    /// How often the server has to be sent all messages: at least and at most.
    fn needs_all(self, step: &Step) -> (usize, usize) {
        let is_socket = self == Self::Sockets;
        match step {
            Step::Nothing => (0, 0),
            Step::Busy | Step::Expires if !is_socket => (0, 0),
            Step::Closes if !is_socket => (0, 1),
            // By a note.
            Step::Restarts if !is_socket => (0, 0),
            _ => (1, 1),
        }
    }
}

impl Step {
    /// Whether the server may be found to hold nothing.
    fn may_be_forgotten(&self) -> bool {
        matches!(
            self,
            Self::Forgets | Self::Breaks(_) | Self::Closes | Self::Expires
        )
    }
}

pub struct Talk {
    pub server: Server,
    pub provider: Arc<dyn Provider>,
    held: Held,
    system: usize,
    messages: Vec<Arc<Message>>,
}

impl Talk {
    pub fn new(server: Server, held: Held, state: ConversationState) -> Self {
        Self {
            provider: provider(&server.url(), held, state),
            server,
            held,
            system: 0,
            messages: Vec::new(),
        }
    }

    /// Asks what was said so far.
    pub fn stream(&self) -> EventStream {
        self.provider.stream(Request {
            system: Arc::new([format!("You are number {}.", self.system)]),
            messages: Arc::new(self.messages.clone()),
            tools: Arc::new([tool("read")]),
            max_output: 100,
            ..Request::default()
        })
    }

    /// Says something and takes the answer into the conversation.
    pub async fn say(&mut self, text: &str) {
        self.push(Role::User, text, None);
        let mut events = self.stream();
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

    pub fn push(&mut self, role: Role, text: &str, request_id: Option<String>) {
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

    /// Reads the messages anew, as another process does.
    fn reread(&mut self) {
        let read = |message: &Arc<Message>| Arc::new((**message).clone());
        self.messages = self.messages.iter().map(read).collect();
    }

    /// Returns the texts of the conversation without the last answer.
    pub fn asked(&self) -> Vec<String> {
        let messages = self.messages.iter().rev().skip(1).rev();
        messages.map(|message| message.text()).collect()
    }

    /// Returns the texts that the server had before it answered, with what it held.
    pub fn seen(&self) -> Vec<String> {
        let requests = self.server.requests();
        let last = requests.last().expect("a request");
        let body = last.whole.as_ref().unwrap_or(&last.body);
        let field = match self.held {
            Held::Threads => "messages",
            Held::Sockets | Held::Stored | Held::Interactions => "input",
        };
        let messages = body[field].as_array().expect("messages").iter();
        let of_talk = messages.filter(|it| it["role"] != "developer");
        let contents = of_talk.map(|message| &message["content"]);
        let text = |content: &Value| match content {
            Value::String(text) => text.clone(),
            content => {
                let texts = content.as_array().expect("blocks").iter();
                texts.filter_map(|block| block["text"].as_str()).collect()
            }
        };
        contents.map(text).collect()
    }
}

fn provider(url: &str, held: Held, conversation_state: ConversationState) -> Arc<dyn Provider> {
    noting(url, held, conversation_state, None)
}

/// The model of another process, which finds the notes of those before.
fn noting(
    url: &str,
    held: Held,
    conversation_state: ConversationState,
    notes: Option<&Arc<dyn Notes>>,
) -> Arc<dyn Provider> {
    let variables = [
        ("ANTHROPIC_BASE_URL", url),
        ("ANTHROPIC_API_KEY", "key"),
        ("OPENAI_BASE_URL", url),
        ("OPENAI_API_KEY", "key"),
        ("GEMINI_BASE_URL", url),
        ("GEMINI_API_KEY", "key"),
    ];
    let (model, servers) = match held {
        Held::Threads => ("claude-opus-4-6", json!({})),
        Held::Sockets => ("openai-responses/gpt-6.2-sol", json!({})),
        Held::Stored => (
            "openai-responses/gpt-6.2-sol",
            json!({"openai-responses": {"extraBody": {"store": true}}}),
        ),
        Held::Interactions => (
            "gemini-interactions/gemini-3.8-flash",
            json!({"gemini-interactions": {"extraBody": {"store": true}}}),
        ),
    };
    let provider = with_options(&variables, &servers, |options| {
        let options = Options {
            betas: &[],
            conversation_state,
            notes,
            retry: Policy {
                retries: 3,
                first_delay: Duration::ZERO,
                has_fallback: false,
            },
            ..*options
        };
        connect(model, &options)
    });
    provider.expect("connected")
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => Just(Step::Nothing),
        1 => Just(Step::Forgets),
        1 => (1_usize..4).prop_map(Step::Forks),
        1 => Just(Step::Prompted),
        1 => Just(Step::Busy),
        1 => Just(Step::Cut),
        1 => (0_usize..3000).prop_map(Step::Breaks),
        1 => Just(Step::Closes),
        1 => Just(Step::Expires),
        1 => Just(Step::Restarts),
    ]
}

fn turns(steps: &[Step]) -> Vec<Turn> {
    let mut turns = vec![says("Answer 0.")];
    for (number, step) in steps.iter().enumerate() {
        turns.extend(match step {
            Step::Busy => Some(fails(529, "overloaded_error")),
            Step::Cut => Some(Turn {
                cut: true,
                ..says("Half an")
            }),
            Step::Breaks(bytes) => Some(breaks(*bytes)),
            _ => None,
        });
        turns.push(says(&format!("Answer {}.", number + 1)));
    }
    turns
}

/// An answer whose connection breaks after so many bytes.
fn breaks(bytes: usize) -> Turn {
    Turn {
        wire: Some(Wire {
            cut_after_bytes: Some(bytes),
            ..Wire::default()
        }),
        // There is more of it than that.
        ..says(&"Broken. ".repeat(1000))
    }
}

async fn goes_on(held: Held, steps: &[Step]) -> Result<(), TestCaseError> {
    let server = Server::new(turns(steps)).opens_sockets();
    let notes: Arc<dyn Notes> = Arc::new(Noted::default());
    let mut talk = Talk::new(server, held, ConversationState::On);
    let url = talk.server.url();
    talk.provider = noting(&url, held, ConversationState::On, Some(&notes));
    talk.say("Prompt 0.").await;
    let mut forgotten = 0;
    for (number, step) in steps.iter().enumerate() {
        match step {
            Step::Forgets => talk.server.forget(),
            Step::Forks(prompts) => {
                let left = talk.messages.len().saturating_sub(2 * prompts);
                talk.messages.truncate(left);
            }
            Step::Prompted => talk.system += 1,
            Step::Closes => talk.server.close_connections(),
            Step::Expires => talk.server.expire_sockets(),
            Step::Restarts => {
                talk.reread();
                talk.provider = noting(&url, held, ConversationState::On, Some(&notes));
                forgotten = 0;
            }
            Step::Nothing | Step::Busy | Step::Cut | Step::Breaks(_) => {}
        }
        forgotten += usize::from(step.may_be_forgotten());
        let before = talk.server.requests().len();
        talk.say(&format!("Prompt {}.", number + 1)).await;
        prop_assert_eq!(talk.seen(), talk.asked());
        if forgotten == 3 {
            // It is asked no more.
            break;
        }
        let requests = talk.server.requests();
        let all = { requests[before..].iter() }.filter(|it| held.is_all(it));
        let (all, (least, most)) = (all.count(), held.needs_all(step));
        prop_assert!((least..=most).contains(&all), "{:?}: {}", step, all);
        if all == 0 {
            forgotten = 0;
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn nothing_is_lost_or_sent_twice(
        held in prop_oneof![1 => Just(Held::Threads), 2 => Just(Held::Sockets), 1 => Just(Held::Stored), 1 => Just(Held::Interactions)],
        steps in vec(step(), 4..16),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(goes_on(held, &steps))?;
    }
}

/// From turn 10 to 1,000. Those between the first and the last are told at once, as their requests would take minutes here: the
/// server looks at all of the conversation each time.
#[tokio::test]
async fn requests_do_not_grow_with_the_conversation() {
    const FIRST: usize = 60;
    const LAST: std::ops::Range<usize> = 970..1_000;
    for held in Held::ALL {
        let answer = |number| format!("Answer {number:03}.");
        let prompt = |number| format!("Prompt {number:03}.");
        let answered = (0..FIRST).chain(LAST);
        let turns = answered.map(|number| says(&answer(number)));
        let server = Server::new(turns).opens_sockets().keeps_sizes();
        let mut talk = Talk::new(server, held, ConversationState::On);
        for number in 0..FIRST {
            talk.say(&prompt(number)).await;
        }
        for number in FIRST..LAST.start {
            talk.push(Role::User, &prompt(number), None);
            talk.push(Role::Assistant, &answer(number), None);
        }
        for number in LAST {
            talk.say(&prompt(number)).await;
        }
        let requests = talk.server.requests();
        let sizes: Vec<_> = requests.iter().map(|it| it.bytes).collect();
        // The first of the last turns brings those between.
        let (all, sizes) = (
            sizes[FIRST],
            [&sizes[10..FIRST], &sizes[FIRST + 1..]].concat(),
        );
        let (least, most) = sizes.iter().min().zip(sizes.iter().max()).expect("sizes");
        assert!(most * 20 <= least * 21, "{held:?} {least} {most}");
        assert!(all > 100 * most, "{held:?} {all}");
    }
}

#[tokio::test]
async fn what_a_server_does_not_show_is_sent_once_more() {
    for (held, refusals, expected) in [
        (Held::Interactions, 1, &[true, false, true][..]),
        (Held::Interactions, 2, &[true, false, true]),
        // At another vendor, it is the key that is refused.
        (Held::Threads, 1, &[true, false]),
    ] {
        let refused = std::iter::repeat_n(fails(403, "permission_error"), refusals);
        let turns = std::iter::once(says("One."))
            .chain(refused)
            .chain([says("Two.")]);
        let mut talk = Talk::new(Server::new(turns), held, ConversationState::On);
        talk.say("a").await;
        talk.push(Role::User, "b", None);
        let events: Vec<_> = talk.stream().collect().await;
        let is_told = refusals == 2 || held != Held::Interactions;
        assert_eq!(events.iter().any(Result::is_err), is_told);
        let requests = talk.server.requests();
        let is_all = requests.iter().map(|it| held.is_all(it));
        assert_eq!(is_all.collect::<Vec<_>>(), expected, "{held:?}");
    }
}

/// The same bytes are not sent again.
#[tokio::test]
async fn a_refusal_of_a_whole_interaction_is_told_at_once() {
    let turns = [fails(400, "invalid_request_error"), says("One.")];
    let state = ConversationState::On;
    let mut talk = Talk::new(Server::new(turns), Held::Interactions, state);
    talk.push(Role::User, "a", None);
    let events: Vec<_> = talk.stream().collect().await;
    assert!(events.iter().any(Result::is_err));
    assert_eq!(talk.server.requests().len(), 1);
}

#[tokio::test]
async fn a_server_that_cannot_hold_is_asked_once() {
    let mut refuses = fails(400, "invalid_request_error");
    if let Some(error) = &mut refuses.error {
        error.message = Some("thread: not supported for this organization".to_owned());
    }
    let turns = [refuses, says("One."), says("Two.")];
    let mut talk = Talk::new(Server::new(turns), Held::Threads, ConversationState::On);
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
        for held in Held::ALL {
            let server = Server::new([says("One."), says("Two.")]).opens_sockets();
            let mut talk = Talk::new(server, held, state);
            talk.say("a").await;
            talk.say("b").await;
            assert_eq!(talk.seen(), talk.asked());
            let requests = talk.server.requests();
            let fields = ["thread", "previous_response_id", "previous_interaction_id"];
            let is_all = |it: &Received| fields.iter().all(|field| it.body[field].is_null());
            assert!(requests.iter().all(is_all));
            assert_eq!(talk.server.sockets_wanted(), 0);
        }
    }
}

#[tokio::test]
async fn a_server_that_opens_no_socket_is_asked_once() {
    let server = Server::new([says("One."), says("Two.")]);
    let mut talk = Talk::new(server, Held::Sockets, ConversationState::On);
    talk.say("a").await;
    talk.say("b").await;
    assert_eq!(talk.seen(), talk.asked());
    assert_eq!(talk.server.sockets_wanted(), 1);
    let requests = talk.server.requests();
    let is_stream = |it: &Received| it.body["stream"] == true;
    assert!(requests.len() == 2 && requests.iter().all(is_stream));
}

#[tokio::test]
async fn without_a_socket_that_works_the_request_is_sent_at_once() {
    let turns = [breaks(0), breaks(0), says("One."), says("Two.")];
    let mut talk = Talk::new(
        Server::new(turns).opens_sockets(),
        Held::Sockets,
        ConversationState::On,
    );
    talk.say("a").await;
    let requests = talk.server.requests();
    let streams: Vec<_> = requests
        .iter()
        .map(|it| it.body["stream"].clone())
        .collect();
    assert_eq!(streams, [Value::Null, Value::Null, Value::Bool(true)]);
    talk.say("b").await;
    assert_eq!(talk.seen(), talk.asked());
    assert_eq!(talk.server.sockets_wanted(), 3);
}

#[tokio::test]
async fn an_answer_that_has_begun_is_asked_for_again_as_a_retry() {
    for (bytes, retries) in [(0, 0), (600, 1)] {
        let server = Server::new([says("One."), breaks(bytes), says("Two.")]).opens_sockets();
        let mut talk = Talk::new(server, Held::Sockets, ConversationState::On);
        talk.say("a").await;
        talk.push(Role::User, "b", None);
        let events: Vec<_> = talk.stream().collect().await;
        let is_retry = |event: &&Result<_, _>| matches!(event, Ok(StreamEvent::Retry { .. }));
        assert_eq!(
            events.iter().filter(is_retry).count(),
            retries,
            "{events:?}"
        );
        assert!(events.iter().all(Result::is_ok), "{events:?}");
    }
}

#[tokio::test]
async fn conversations_have_sockets_of_their_own() {
    let turns = (0..6).map(|number| says(&format!("Answer {number}.")));
    let server = Server::new(turns).opens_sockets();
    let mut talk = Talk::new(server, Held::Sockets, ConversationState::On);
    let mut other = Vec::new();
    for number in 0..6 {
        talk.say(&format!("Prompt {number}.")).await;
        assert_eq!(talk.seen(), talk.asked());
        std::mem::swap(&mut talk.messages, &mut other);
    }
    assert_eq!(talk.server.sockets_wanted(), 2);
    let requests = talk.server.requests();
    let all = requests.iter().filter(|it| Held::Sockets.is_all(it));
    assert_eq!(all.count(), 2);
}

#[tokio::test]
async fn a_dropped_answer_closes_its_socket() {
    let hangs = Turn {
        hang: true,
        ..says("Half an")
    };
    let server = Server::new([hangs, says("One.")]).opens_sockets();
    let mut talk = Talk::new(server, Held::Sockets, ConversationState::On);
    talk.push(Role::User, "a", None);
    let mut events = talk.stream();
    while let Some(event) = events.next().await {
        if let StreamEvent::Delta { .. } = event.expect("a beginning") {
            break;
        }
    }
    drop(events);
    let server = &talk.server;
    // Lets the task of the socket close it.
    while server.requests()[0].outcome != Outcome::Closed {
        tokio::task::yield_now().await;
    }
    talk.messages.clear();
    talk.say("b").await;
    assert_eq!(talk.seen(), talk.asked());
}

#[tokio::test]
async fn errors_mean_what_they_mean_without_a_socket() {
    for (status, kind) in [
        (429, "rate_limit_error"),
        (529, "overloaded_error"),
        (401, "authentication_error"),
        (400, "invalid_request_error"),
    ] {
        let mut errors = Vec::new();
        for state in [ConversationState::On, ConversationState::Off] {
            let mut turn = fails(status, kind);
            if let Some(error) = &mut turn.error {
                error.retry_after = Some(7200.0);
            }
            let turns = std::iter::repeat_n(turn, 8);
            let mut talk = Talk::new(Server::new(turns).opens_sockets(), Held::Sockets, state);
            talk.push(Role::User, "a", None);
            let events: Vec<_> = talk.stream().collect().await;
            let error = events.into_iter().find_map(Result::err).expect("an error");
            errors.push((error.class, error.status, error.retry_after, error.hint));
        }
        assert_eq!(errors[0], errors[1], "{status}");
    }
}

#[tokio::test]
async fn an_unexplained_refusal_ends_holding_only_where_it_explains_it() {
    for (refusals, holds) in [(1, false), (2, true)] {
        let refused = std::iter::repeat_n(fails(400, "invalid_request_error"), refusals);
        let turns = refused.chain([says("One."), says("Two.")]);
        for held in [Held::Threads, Held::Sockets] {
            let server = Server::new(turns.clone()).opens_sockets();
            let mut talk = Talk::new(server, held, ConversationState::On);
            talk.push(Role::User, "a", None);
            let events: Vec<_> = talk.stream().collect().await;
            assert_eq!(events.iter().any(Result::is_err), refusals == 2);
            let before = talk.server.requests().len();
            talk.say("b").await;
            let requests = talk.server.requests();
            let last = &requests[before];
            let is_held = match held {
                Held::Threads => last.body["thread"]["type"] == "create",
                Held::Sockets | Held::Stored | Held::Interactions => last.body["stream"].is_null(),
            };
            assert_eq!(is_held, holds, "{held:?} {refusals}");
        }
    }
}

#[tokio::test]
async fn a_key_that_expires_within_a_socket_is_renewed() {
    let turns = [
        says("One."),
        fails(401, "authentication_error"),
        fails(401, "authentication_error"),
        says("Two."),
        says("Three."),
        says("Four."),
    ];
    let server = Server::new(turns).opens_sockets();
    let servers = json!({"mine": {
        "baseUrl": server.url(), "api": "openai-responses", "keyCommand": "first second",
    }});
    let mut talk = Talk::new(server, Held::Sockets, ConversationState::On);
    let provider = with_options(&[], &servers, |options| {
        let options = Options {
            betas: &[],
            conversation_state: ConversationState::On,
            ..*options
        };
        connect("mine/gpt-6.2-sol", &options)
    });
    talk.provider = provider.expect("connected");
    for prompt in ["a", "b", "c", "d"] {
        talk.say(prompt).await;
        assert_eq!(talk.seen(), talk.asked());
    }
    let requests = talk.server.requests();
    let keys = requests
        .iter()
        .map(|it| it.headers["authorization"].clone());
    let keys: Vec<_> = keys.collect();
    let (first, second) = ("Bearer first", "Bearer second");
    assert_eq!(keys, [first, first, first, second, second, second]);
    let all = requests.iter().filter(|it| Held::Sockets.is_all(it));
    // The beginning, the one over HTTP with both keys, and that of another socket.
    assert_eq!(all.count(), 4);
    assert_eq!(talk.server.sockets_wanted(), 2);
}

#[tokio::test]
async fn the_socket_that_a_fork_leaves_is_closed() {
    let turns = (0..4).map(|number| says(&format!("Answer {number}.")));
    let server = Server::new(turns).opens_sockets();
    let mut talk = Talk::new(server, Held::Sockets, ConversationState::On);
    talk.say("a").await;
    talk.say("b").await;
    talk.messages.truncate(2);
    talk.say("c").await;
    assert_eq!(talk.seen(), talk.asked());
    assert_eq!(talk.server.sockets_wanted(), 2);
    // Lets the task of the socket close it.
    while talk.server.connected() > 1 {
        tokio::task::yield_now().await;
    }
    talk.say("d").await;
    assert_eq!(talk.server.sockets_wanted(), 2);
}

/// Notes in memory.
#[derive(Default)]
struct Noted(Mutex<HashMap<MessageId, String>>);

impl Notes for Noted {
    fn keep(&self, first: &MessageId, note: String) {
        self.0.lock().insert(first.clone(), note);
    }

    fn find(&self, first: &MessageId) -> Option<String> {
        self.0.lock().get(first).cloned()
    }
}

/// What another process finds before it goes on.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Found {
    /// All as it was left.
    Same,
    /// The server has forgotten it.
    Forgotten,
    /// Another one has gone on with the conversation meanwhile, and this one has not.
    Fork,
    /// The system prompt is another one.
    Prompted,
    /// A message says something else.
    Edited,
    /// The note cannot be read.
    Damaged,
    /// Somebody does not want it any more.
    Off,
}

#[tokio::test]
async fn the_next_process_goes_on_with_what_is_held() {
    for held in Held::ALL {
        for found in [
            Found::Same,
            Found::Forgotten,
            Found::Fork,
            Found::Prompted,
            Found::Edited,
            Found::Damaged,
            Found::Off,
        ] {
            let kept = Arc::new(Noted::default());
            let notes: Arc<dyn Notes> = kept.clone();
            let turns = (0..5).map(|number| says(&format!("Answer {number}.")));
            let server = Server::new(turns).opens_sockets();
            let mut talk = Talk::new(server, held, ConversationState::On);
            let url = talk.server.url();
            talk.provider = noting(&url, held, ConversationState::On, Some(&notes));
            talk.say("a").await;
            talk.say("b").await;
            talk.reread();
            let mut state = ConversationState::On;
            match found {
                Found::Same => {}
                Found::Forgotten => talk.server.forget(),
                Found::Fork => talk.messages.truncate(2),
                Found::Prompted => talk.system += 1,
                Found::Edited => {
                    let edited = Arc::make_mut(&mut talk.messages[2]);
                    edited.content = vec![ContentBlock::text("something else")];
                }
                Found::Damaged => {
                    let mut all = kept.0.lock();
                    all.values_mut().for_each(|note| note.truncate(20));
                }
                Found::Off => state = ConversationState::Off,
            }
            talk.provider = noting(&url, held, state, Some(&notes));
            let before = talk.server.requests().len();
            for prompt in ["c", "d"] {
                talk.say(prompt).await;
                assert_eq!(talk.seen(), talk.asked(), "{held:?} {found:?}");
            }
            let requests = talk.server.requests();
            let is_all = |it: &&Received| match held {
                Held::Threads => it.body["thread"]["type"] != "continue",
                held => held.is_all(it),
            };
            let all = requests[before..].iter().filter(is_all).count();
            let expected = match (held, found) {
                (_, Found::Off) => 2,
                (Held::Threads | Held::Stored | Held::Interactions, Found::Same) => 0,
                _ => 1,
            };
            assert_eq!(all, expected, "{held:?} {found:?}");
            let is_noted = !kept.0.lock().is_empty();
            assert_eq!(is_noted, held != Held::Sockets);
        }
    }
}

/// A question without tools is hardly continued, so that its note would only lie there.
#[tokio::test]
async fn no_note_is_left_of_a_question_without_tools() {
    let kept = Arc::new(Noted::default());
    let notes: Arc<dyn Notes> = kept.clone();
    let server = Server::new([says("One."), says("Two.")]);
    let url = server.url();
    let provider = noting(&url, Held::Threads, ConversationState::On, Some(&notes));
    for (tools, expected) in [(vec![], 0), (vec![tool("read")], 1)] {
        let request = Request {
            tools: tools.into(),
            ..crate::requests::request(vec![crate::requests::user("Hi")])
        };
        provider.stream(request).count().await;
        assert_eq!(kept.0.lock().len(), expected);
    }
}
