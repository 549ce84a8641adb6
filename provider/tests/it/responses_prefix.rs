//! The Responses API of OpenAI's newer models: what is said stands where it was said, so that each request continues the one
//! before, and what the server reports when one does not.

use std::sync::Arc;

use ah_conversation::{
    ContentBlock, Effort, Input, Known, Message, MessageId, Model, Origin, PermissionMode,
    PrefixBreak, Provider, Request, ResultBlock, Role, StreamEvent, Thinking, ToolDefinition,
    Update,
};
use ah_provider::abilities::Abilities;
use ah_provider::caching::CacheTtl;
use ah_provider::exchange::Timeouts;
use ah_provider::openai::Additions;
use ah_provider::request_encoder::RequestEncoder;
use ah_provider::responses::{Encoder, Responses};
use futures_util::StreamExt;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::openai_api::server;
use crate::requests::{call, message, quirks_of, request, result, thinking, tool, user};
use crate::server::{Server, events, plain, stream_end, stream_head};

fn encoder(name: &str) -> Encoder {
    let model = Model {
        provider: "anthropic".to_owned(),
        name: name.to_owned(),
        context_window: 200_000,
        max_output: 16_384,
        price: None,
        long_price: None,
    };
    let abilities = Abilities {
        efforts: Some(Effort::ALL.to_vec()),
        ..Abilities::default()
    };
    Encoder::new(model, abilities, Additions::default(), quirks_of("openai"))
}

fn body(encoder: &mut Encoder, request: &Request) -> String {
    String::from_utf8(encoder.encode(request).concat()).expect("UTF-8")
}

fn effort(effort: Effort) -> Thinking {
    Thinking {
        budget: None,
        effort: Some(effort),
    }
}

/// An update with a text for each field that says something, as the engine stores it.
fn update(update: Update) -> Arc<Message> {
    let said = [
        ("Facts.", !update.facts.is_empty()),
        ("Mode.", update.mode.is_some()),
        ("Tools.", !update.tools.is_empty()),
        ("Effort.", update.thinking.is_some()),
    ];
    let texts = said.into_iter().filter(|(_, is_said)| *is_said);
    let content = texts.map(|(text, _)| ContentBlock::text(text)).collect();
    let mut message = Message::clone(&message(Role::User, None, content));
    message.origin = Origin::Update(Box::new(update));
    Arc::new(message)
}

fn late(names: &[&str]) -> Vec<ToolDefinition> {
    { names.iter() }
        .map(|name| ToolDefinition::from(&tool(name)))
        .collect()
}

/// A session in which tools, the permission mode and the effort have changed.
fn changed() -> Request {
    let updates = [
        Update {
            facts: vec![Known {
                name: "date".to_owned(),
                value: "2".to_owned(),
            }],
            mode: Some(PermissionMode::Plan),
            // One of them is known from the beginning.
            tools: late(&["read", "look"]),
            thinking: Some(effort(Effort::Max)),
        },
        Update {
            tools: late(&["look"]),
            thinking: Some(Thinking::default()),
            ..Update::default()
        },
    ];
    let [first, second] = updates.map(update);
    Request {
        system: ["Be brief.".to_owned(), " ".to_owned()].into(),
        tools: [tool("read")].into(),
        added: [tool("look")].into(),
        first_thinking: effort(Effort::Low),
        thinking: Thinking::default(),
        ..request(vec![
            user("Hi"),
            first,
            message(Role::Assistant, Some("m"), vec![ContentBlock::text("So.")]),
            user("Go on."),
            second,
        ])
    }
}

/// The request, with each item on a line of its own.
fn lines(name: &str, request: &Request) -> String {
    let body: Value = serde_json::from_str(&body(&mut encoder(name), request)).expect("JSON");
    let fields = body.as_object().expect("an object").iter();
    let lines = fields.flat_map(|(field, value)| match value {
        Value::Array(items) => items
            .iter()
            .map(|item| format!("{field} {item}"))
            .collect::<Vec<_>>(),
        value => vec![format!("{field} {value}")],
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn changes_stand_where_they_were_told_for_models_that_take_them() {
    insta::assert_snapshot!(lines("gpt-6.2-sol", &changed()), @r#"
    model "gpt-6.2-sol"
    stream true
    store false
    include "reasoning.encrypted_content"
    prompt_cache_key "1"
    max_output_tokens 1000
    reasoning {"effort":"low"}
    tools {"type":"function","name":"read","description":"Does read.","parameters":{"type":"object"},"strict":false}
    input {"role":"developer","content":"Be brief."}
    input {"role":"user","content":"Hi"}
    input {"role":"user","content":"Facts."}
    input {"type":"additional_tools","role":"developer","tools":[{"type":"function","name":"look","description":"Does look.","parameters":{"type":"object"},"strict":false}]}
    input {"role":"developer","content":"Mode."}
    input {"role":"developer","content":"Tools."}
    input {"type":"configuration_update","reasoning":{"effort":"max"}}
    input {"type":"message","role":"assistant","content":"So."}
    input {"role":"user","content":"Go on."}
    input {"type":"additional_tools","role":"developer","tools":[{"type":"function","name":"look","description":"Does look.","parameters":{"type":"object"},"strict":false}]}
    input {"type":"configuration_update","reasoning":{"effort":null}}
    "#);
    // It takes effort only in the head.
    insta::assert_snapshot!(lines("gpt-5.6-sol", &changed()), @r#"
    model "gpt-5.6-sol"
    stream true
    store false
    include "reasoning.encrypted_content"
    prompt_cache_key "1"
    max_output_tokens 1000
    tools {"type":"function","name":"read","description":"Does read.","parameters":{"type":"object"},"strict":false}
    input {"role":"developer","content":"Be brief."}
    input {"role":"user","content":"Hi"}
    input {"role":"user","content":"Facts."}
    input {"type":"additional_tools","role":"developer","tools":[{"type":"function","name":"look","description":"Does look.","parameters":{"type":"object"},"strict":false}]}
    input {"role":"developer","content":"Mode."}
    input {"role":"developer","content":"Tools."}
    input {"type":"message","role":"assistant","content":"So."}
    input {"role":"user","content":"Go on."}
    input {"type":"additional_tools","role":"developer","tools":[{"type":"function","name":"look","description":"Does look.","parameters":{"type":"object"},"strict":false}]}
    "#);
    // A name that says nothing.
    insta::assert_snapshot!(lines("my-deployment", &changed()), @r#"
    model "my-deployment"
    stream true
    store false
    include "reasoning.encrypted_content"
    max_output_tokens 1000
    instructions "Be brief."
    tools {"type":"function","name":"read","description":"Does read.","parameters":{"type":"object"},"strict":false}
    tools {"type":"function","name":"look","description":"Does look.","parameters":{"type":"object"},"strict":false}
    input {"role":"user","content":"Hi"}
    input {"role":"user","content":[{"type":"input_text","text":"Facts."},{"type":"input_text","text":"Mode."},{"type":"input_text","text":"Tools."},{"type":"input_text","text":"Effort."}]}
    input {"type":"message","role":"assistant","content":"So."}
    input {"role":"user","content":"Go on."}
    input {"role":"user","content":[{"type":"input_text","text":"Tools."},{"type":"input_text","text":"Effort."}]}
    "#);
}

#[test]
fn an_hour_in_the_cache_is_asked_for_where_it_is_known() {
    for (name, ttl, expected) in [
        ("gpt-6.2-sol", CacheTtl::FiveMinutes, Value::Null),
        ("gpt-6.2-sol", CacheTtl::Hour, json!({"ttl": "12h"})),
        ("gpt-5.5", CacheTtl::Hour, Value::Null),
    ] {
        let mut encoder = encoder(name).cached_for(ttl);
        let body = body(&mut encoder, &request(vec![user("Hi")]));
        let body: Value = serde_json::from_str(&body).expect("JSON");
        assert_eq!(body["prompt_cache_options"], expected, "{name}");
        assert_eq!(body["prompt_cache_key"], "1", "{name}");
    }
}

/// The output limit follows the effort that holds now, wherever it was told.
#[test]
fn the_output_limit_is_that_of_the_current_effort() {
    for (thinking, expected) in [(effort(Effort::Low), 3_048), (effort(Effort::Max), 16_384)] {
        let request = Request {
            thinking,
            first_thinking: effort(Effort::Low),
            ..request(vec![user("Hi")])
        };
        let body = body(&mut encoder("gpt-6.2-sol"), &request);
        let body: Value = serde_json::from_str(&body).expect("JSON");
        assert_eq!(body["max_output_tokens"], expected);
        assert_eq!(body["reasoning"], json!({"effort": "low"}));
    }
}

fn answer(response: &Value) -> String {
    let mut response = response.clone();
    response["status"] = "completed".into();
    let completed = json!({"type": "response.completed", "response": response});
    format!(
        r#"{{"type":"response.created","response":{{"id":"r"}}}}
        {{"type":"response.output_text.delta","output_index":0,"delta":"Hello"}}
        {completed}"#,
    )
}

async fn asked(provider: &dyn Provider) -> Vec<StreamEvent> {
    let events = provider.stream(changed());
    events.filter_map(async |event| event.ok()).collect().await
}

fn connected(loopback: &Server, name: &str) -> Responses {
    let server = server(&loopback.url, Timeouts::default());
    Responses::new(server, encoder(name)).expect("an address")
}

#[tokio::test]
async fn reasoning_that_the_server_leaves_out_is_reported_once_for_each_reason() {
    use PrefixBreak::{EndUserMismatch, ModelMismatch, OrganizationMismatch, PrefixMismatch};
    for (reasons, expected) in [
        (&[][..], &[][..]),
        (&["turn_boundary", "of_tomorrow"], &[]),
        (
            &["prefix_mismatch", "model_mismatch", "prefix_mismatch"],
            &[PrefixMismatch, ModelMismatch],
        ),
        (
            &["organization_mismatch", "end_user_mismatch"],
            &[OrganizationMismatch, EndUserMismatch],
        ),
    ] {
        let removed = |reason: &&str| json!({"id": "rs_1", "action": "removed", "reason": reason, "type": "reasoning"});
        let removed: Vec<_> = reasons.iter().map(removed).collect();
        let answer = events(&answer(&json!({"input_transformations": removed})));
        let loopback = Server::start(vec![vec![stream_head(), answer, stream_end()]]).await;
        let events = asked(&connected(&loopback, "gpt-6.2-sol")).await;
        let dropped = events.iter().filter_map(|event| match event {
            StreamEvent::ThinkingDropped(reason) => Some(*reason),
            _ => None,
        });
        assert_eq!(dropped.collect::<Vec<_>>(), expected);
        assert_eq!(events.last(), Some(&StreamEvent::Ended));
    }
}

#[tokio::test]
async fn what_is_written_to_the_cache_is_counted_by_its_lifetime() {
    let usage = json!({"input_tokens": 1_000, "output_tokens": 5, "input_tokens_details": {
        "cached_tokens": 300, "cache_write_tokens": 500,
        "cache_write_tokens_details": {"ttl_30m_tokens": 100, "ttl_12h_tokens": 400}}});
    let answer = events(&answer(&json!({"usage": usage})));
    let loopback = Server::start(vec![vec![stream_head(), answer, stream_end()]]).await;
    let events = asked(&connected(&loopback, "gpt-6.2-sol")).await;
    let usage = events.iter().find_map(|event| match event {
        StreamEvent::Stopping { usage, .. } => Some(*usage),
        _ => None,
    });
    let usage = usage.expect("usage");
    assert_eq!(
        (
            usage.input_tokens,
            usage.cache_read_input_tokens,
            usage.cache_creation_input_tokens,
            usage.cache_creation_1h_input_tokens
        ),
        (200, 300, 500, 400)
    );
}

/// A gateway may know the model and not what it takes.
#[tokio::test]
async fn a_server_that_refuses_the_newer_features_is_asked_without_them_from_then_on() {
    let refusals = [
        ("400 -", "Unsupported input item type: 'additional_tools'"),
        ("422 -", "configuration_update: no such type"),
        ("400 -", "prompt_cache_options are for other models."),
        ("400 -", "Unexpected message role."),
    ];
    for (status, refusal) in refusals {
        let said = || vec![stream_head(), events(&answer(&json!({}))), stream_end()];
        let error = json!({"error": {"message": refusal}}).to_string();
        let loopback = Server::start(vec![plain(status, "", &error), said(), said()]).await;
        let provider = connected(&loopback, "gpt-6.2-sol");
        assert!(provider.extras().continuity.appends_tools);
        for _ in 0..2 {
            let events = asked(&provider).await;
            assert_eq!(events.last(), Some(&StreamEvent::Ended), "{refusal}");
        }
        let sent = loopback.requests().into_iter();
        let forms: Vec<_> = sent
            .map(|request| request.contains("instructions"))
            .collect();
        assert_eq!(forms, [false, true, true], "{refusal}");
        let continuity = provider.extras().continuity;
        assert!(!continuity.appends_tools && !continuity.appends_thinking);
        // It is the model that does so.
        assert!(continuity.binds_thinking);
    }
    // Any other refusal is one.
    let error = json!({"error": {"message": "Invalid schema for function 'x'"}}).to_string();
    let loopback = Server::start(vec![plain("400 -", "", &error)]).await;
    asked(&connected(&loopback, "gpt-6.2-sol")).await;
    assert_eq!(loopback.requests().len(), 1);
}

/// A step of a session.
#[derive(Debug, Clone, Copy)]
enum Step {
    Say,
    Call,
    NewTool(usize),
    ChangedTool,
    Mode,
    Effort(usize),
}

/// A session that grows by the rules of the engine: an update is the last thing said before an answer.
struct Growing {
    request: Request,
    thinking: Thinking,
}

impl Growing {
    fn new() -> Self {
        let request = Request {
            system: ["Be brief.".to_owned()].into(),
            tools: [tool("read"), tool("bash")].into(),
            first_thinking: effort(Effort::Medium),
            thinking: effort(Effort::Medium),
            ..request(Vec::new())
        };
        Self {
            thinking: request.thinking,
            request,
        }
    }

    fn turn(&mut self, number: usize, step: Step) {
        let sealed = json!({"type": "reasoning", "id": format!("rs_{number}"), "summary": [], "encrypted_content": "x"});
        let id = format!("call_{number}");
        let mut said = vec![user(&format!("é {number}\n\"quoted\""))];
        let mut told = Update::default();
        match step {
            Step::Say | Step::Call => {}
            Step::NewTool(number) => {
                let name = format!("late{number}");
                told.tools = late(&[&name]);
                let known = self.request.added.iter().cloned();
                self.request.added = known.chain([tool(&name)]).collect();
            }
            Step::ChangedTool => told.tools = late(&["bash"]),
            Step::Mode => told.mode = Some(PermissionMode::Plan),
            Step::Effort(at) => {
                self.thinking = effort(Effort::ALL[at]);
                told.thinking = Some(self.thinking);
            }
        }
        if !told.is_empty() {
            said.push(update(told));
        }
        for message in said {
            self.say(&message, number);
        }
        self.request.thinking = self.thinking;
        let seal = thinking(Some(&sealed.to_string()));
        if let Step::Call = step {
            let input = Input::from(json!({"command": "ls"}));
            self.say(
                &message(
                    Role::Assistant,
                    Some("gpt-6.2-sol"),
                    vec![seal, call(&id, input)],
                ),
                number,
            );
            let seen = ResultBlock::Text {
                text: "seen".to_owned(),
            };
            let results = vec![result(&id, vec![seen], false)];
            self.say(&message(Role::User, None, results), number);
        } else {
            let content = vec![seal, ContentBlock::text(format!("answer {number}"))];
            let answer = message(Role::Assistant, Some("gpt-6.2-sol"), content);
            self.say(&answer, number);
        }
    }

    fn say(&mut self, message: &Message, number: usize) {
        let mut message = message.clone();
        message.id = MessageId::from(format!("m{number}_{}", self.request.messages.len()));
        Arc::make_mut(&mut self.request.messages).push(Arc::new(message));
    }
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        Just(Step::Say),
        Just(Step::Call),
        (0usize..3).prop_map(Step::NewTool),
        Just(Step::ChangedTool),
        Just(Step::Mode),
        (0usize..5).prop_map(Step::Effort),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Nothing before the end of a request ever changes, but for its output limit, which no cache covers.
    #[test]
    fn each_request_continues_the_one_before_byte_for_byte(
        steps in proptest::collection::vec(step(), 1..50),
    ) {
        let mut kept = encoder("gpt-6.2-sol");
        let mut session = Growing::new();
        let mut former: Option<(String, String)> = None;
        for (number, step) in steps.into_iter().enumerate() {
            session.turn(number, step);
            session.say(&user("And?"), number);
            let body = body(&mut kept, &session.request);
            prop_assert_eq!(&body, &self::body(&mut encoder("gpt-6.2-sol"), &session.request));
            let (head, input) = body.split_once(r#""input":["#).expect("input");
            let (before, limit) = head.split_once(r#""max_output_tokens":"#).expect("a limit");
            let head = format!("{before}{}", limit.trim_start_matches(|c: char| c.is_ascii_digit()));
            let input = input.strip_suffix("]}").expect("the end");
            if let Some((former_head, former_input)) = &former {
                prop_assert_eq!(&head, former_head);
                prop_assert!(input.starts_with(former_input.as_str()), "{}\nbehind\n{}", input, former_input);
            }
            former = Some((head, input.to_owned()));
        }
    }
}
