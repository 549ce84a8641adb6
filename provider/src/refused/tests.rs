//! Refusals in the words of servers, and what of a request they are about.

use ah_conversation::{Model, Sampling, Thinking, Time, ToolResult, ToolUse, Truncation};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::abilities::Abilities;
use crate::openai::{Additions, Quirks};
use crate::request_encoder::RequestEncoder;
use crate::{anthropic, openai, responses};

const OF_USER: &str = "b2YgdGhlIHVzZXI=";
const OF_TOOL: &str = "b2YgYSB0b29s";
const CALL: &str = "toolu_0123456789";

fn image(data: &str) -> Image {
    Image {
        media_type: "image/png".to_owned(),
        data: data.to_owned(),
    }
}

fn message(role: Role, content: Vec<ContentBlock>) -> Arc<Message> {
    Arc::new(Message {
        id: "1".into(),
        parent: None,
        seq: 0,
        role,
        origin: Origin::Prompt,
        created_at: Time(0),
        content,
        response: None,
    })
}

fn tool(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: String::new(),
        input_schema: Arc::new(json!({"type": "object"})),
        guidance: None,
        truncation: Truncation::DEFAULT,
        key: None,
    }
}

/// A prompt with a picture and a document, a call, and its result with a picture.
fn request() -> Request {
    let call = ToolUse {
        id: CALL.into(),
        name: "shot".to_owned(),
        input: json!({}).into(),
    };
    let result = ToolResult {
        content: vec![
            ResultBlock::Text {
                text: "see".to_owned(),
            },
            ResultBlock::Image(image(OF_TOOL)),
        ],
        ..ToolResult::error(&call, "")
    };
    let document = json!({"type": "document", "source": {"type": "text", "data": "words"}});
    Request {
        system: Arc::from(["You help.".to_owned()]),
        tools: Arc::from([tool("read"), tool("shot")]),
        added: Arc::default(),
        messages: Arc::new(vec![
            message(
                Role::User,
                vec![
                    ContentBlock::text("Look."),
                    ContentBlock::Image(image(OF_USER)),
                    ContentBlock::Other { raw: document },
                ],
            ),
            message(Role::Assistant, vec![ContentBlock::ToolUse(call)]),
            message(Role::User, vec![ContentBlock::ToolResult(result)]),
        ]),
        max_output: 1_000,
        thinking: Thinking::default(),
        first_thinking: Thinking::default(),
        sampling: Sampling::default(),
        tells_progress: false,
        answer: None,
        summary: None,
        whole: false,
        precedes_pause: false,
    }
}

fn body(api: &str, request: &Request) -> Vec<Bytes> {
    let model = Model {
        provider: "p".to_owned(),
        name: "m".to_owned(),
        context_window: 100_000,
        max_output: 1_000,
        price: None,
        long_price: None,
    };
    let (abilities, additions) = (Abilities::default(), Additions::default());
    match api {
        "messages" => anthropic::Encoder::new(model, abilities).encode(request),
        "chat" => {
            openai::Encoder::new(model, abilities, additions, Quirks::default()).encode(request)
        }
        _ => {
            responses::Encoder::new(model, abilities, additions, Quirks::default()).encode(request)
        }
    }
}

fn refusal(status: u16, text: &str) -> ProviderError {
    let class = match status {
        500 => ErrorClass::Server,
        _ => ErrorClass::InvalidRequest,
    };
    ProviderError {
        status: Some(status),
        ..ProviderError::new(class, text)
    }
}

fn shown(parts: &[Part], request: &Request) -> String {
    let document = match &request.messages[0].content[2] {
        ContentBlock::Other { raw } => hash(raw),
        _ => unreachable!(),
    };
    let parts = parts.iter().map(|part| match part {
        Part::Picture(_) if *part == picture(&image(OF_USER)) => "picture of the user".to_owned(),
        Part::Picture(_) => "picture of a tool".to_owned(),
        Part::Block(block) if *block == document => "document".to_owned(),
        Part::Block(_) => "another block".to_owned(),
        Part::Tool(name) => format!("tool {name}"),
        Part::Call(id) => format!("call {id}"),
    });
    parts.collect::<Vec<_>>().join(", ")
}

/// Sentences of servers, read in November 2026 in their documentation and in issues about them.
#[test]
fn a_refusal_says_what_of_the_request_is_refused() {
    let request = request();
    for (api, status, text, expected) in [
        // Messages API.
        (
            "messages",
            400,
            "messages.0.content.1.image.source.base64.data: Image format image/png not supported",
            "picture of the user",
        ),
        (
            "messages",
            400,
            "messages.2.content.0.tool_result.content.1.image.source.base64: image cannot be empty",
            "picture of a tool",
        ),
        (
            "messages",
            400,
            "messages.2.content.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6500712 bytes > 5242880",
            "picture of a tool",
        ),
        (
            "messages",
            400,
            "image_dimensions_too_large: images exceed 2000 pixels (messages.0.content.1, messages.2.content.0.content.1)",
            "picture of the user, picture of a tool",
        ),
        (
            "messages",
            400,
            "Could not process image",
            "picture of a tool",
        ),
        (
            "messages",
            400,
            "messages.0.content.2.document.source.text.data: The PDF specified was not valid.",
            "document",
        ),
        (
            "messages",
            400,
            "tools.1.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'",
            "tool shot",
        ),
        (
            "messages",
            400,
            "tools.0.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12",
            "tool read",
        ),
        (
            "messages",
            400,
            "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
            "call toolu_0123456789",
        ),
        // OpenAI.
        (
            "chat",
            400,
            "Invalid 'messages[1].content[1].image_url': unsupported image",
            "picture of the user",
        ),
        (
            "responses",
            400,
            "Invalid 'input[3].output[1].image_url'. Expected a valid URL, but got a value with an invalid format.",
            "picture of a tool",
        ),
        (
            "responses",
            400,
            "The image data you provided does not represent a valid image. Please check your input and try again.",
            "picture of a tool",
        ),
        (
            "chat",
            400,
            "Invalid schema for function 'read': In context=('properties', 'x'), array schema missing items.",
            "tool read",
        ),
        (
            "chat",
            400,
            "Invalid 'tools[1].function.name': string does not match pattern. Expected '^[a-zA-Z0-9_-]+$'.",
            "tool shot",
        ),
        (
            "responses",
            400,
            "Invalid schema. (tools[1].parameters)",
            "tool shot",
        ),
        (
            "chat",
            400,
            "Invalid 'messages[2].tool_calls[0].id': string too long. Expected a string with maximum length 10",
            "call toolu_0123456789",
        ),
        // Mistral.
        (
            "chat",
            400,
            "Tool call id was toolu_0123456789 but must be a-z, A-Z, 0-9, with a length of 9.",
            "call toolu_0123456789",
        ),
        // Gemini, also behind its OpenAI-compatible address.
        (
            "chat",
            400,
            "Provided image is not valid.",
            "picture of a tool",
        ),
        (
            "chat",
            400,
            "* GenerateContentRequest.tools[0].function_declarations[1].parameters.properties: should be non-empty",
            "tool shot",
        ),
        (
            "chat",
            400,
            "Request contains an invalid argument.",
            "picture of a tool",
        ),
        // xAI, OpenRouter, DeepSeek, llama.cpp.
        ("chat", 400, "Invalid PNG image.", "picture of a tool"),
        (
            "chat",
            400,
            "Base64 string of provided image cannot be decoded.",
            "picture of a tool",
        ),
        (
            "chat",
            404,
            "No endpoints found that support image input",
            "picture of the user, picture of a tool",
        ),
        (
            "chat",
            400,
            "messages[1]: unknown variant `image_url`, expected `text`",
            "picture of the user",
        ),
        (
            "chat",
            500,
            "image input is not supported - hint: you may need to provide the mmproj",
            "picture of the user, picture of a tool",
        ),
        (
            "chat",
            500,
            "Failed to load image or audio file",
            "picture of a tool",
        ),
        // What is about something else, or about what is not there.
        ("messages", 400, "messages: roles must alternate", ""),
        (
            "messages",
            400,
            "temperature: Input should be less than or equal to 1",
            "",
        ),
        (
            "messages",
            400,
            "messages.9.content.1.image: no",
            "picture of a tool",
        ),
        ("messages", 400, "messages.2: roles must alternate", ""),
        ("chat", 400, "Unknown parameter: 'tools_of_mine'.", ""),
        ("chat", 400, "The function `other` is not known", ""),
        ("chat", 400, "tools[7].function.name: no", ""),
        ("chat", 500, "The server had an error", ""),
    ] {
        let found = refused(&refusal(status, text), &request, &body(api, &request));
        assert_eq!(shown(&found, &request), expected, "{api}: {text}");
    }
}

#[test]
fn a_part_that_is_left_out_is_gone_from_every_later_request() {
    for api in ["messages", "chat", "responses"] {
        let request = request();
        let mut left_out = LeftOut::default();
        let all = vec![
            picture(&image(OF_USER)),
            picture(&image(OF_TOOL)),
            Part::Tool("shot".to_owned()),
            Part::Call(CALL.to_owned()),
        ];
        assert!(left_out.add(all.clone()));
        assert!(!left_out.add(all));
        let first = left_out.apply(request.clone());
        let sent = String::from_utf8(body(api, &first).concat()).unwrap();
        for gone in [OF_USER, OF_TOOL, CALL, r#""name":"shot""#] {
            assert!(!sent.contains(gone), "{api}: {gone} in {sent}");
        }
        assert!(sent.contains("[called shot: {}]") && sent.contains("[result of shot: see]"));
        // Encoded messages are known by their address.
        let again = left_out.apply(request);
        let pairs = first.messages.iter().zip(again.messages.iter());
        assert!(
            pairs
                .into_iter()
                .all(|(one, other)| Arc::ptr_eq(one, other))
        );
    }
}

proptest! {
    #[test]
    fn any_refusal_is_read(text in "(?s).{0,80}", place in r"(messages|input|tools)[.\[\]0-9a-z]{0,20}") {
        let request = request();
        let body = body("chat", &request);
        for text in [text.clone(), place.clone(), format!("{text} {place} image {text}")] {
            let found = refused(&refusal(400, &text), &request, &body);
            let _ = notice(&found, &refusal(400, &text));
            LeftOut::default().add(found);
        }
    }
}
