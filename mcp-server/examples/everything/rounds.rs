//! Tools and prompts of the suite that need several rounds.

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, GetPromptRequestParams,
    GetPromptResponse, InputRequests, InputRequiredResult, InputResponses,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Value, json};

use crate::contents::of_json;

/// Tools of several rounds.
pub const TOOLS: [&str; 8] = [
    "test_input_required_result_elicitation",
    "test_input_required_result_sampling",
    "test_input_required_result_list_roots",
    "test_input_required_result_request_state",
    "test_input_required_result_multiple_inputs",
    "test_input_required_result_multi_round",
    "test_input_required_result_tampered_state",
    "test_input_required_result_capabilities",
];

const STATE: &str = "state-1";
const LATER_STATE: &str = "state-2";

/// Returns the request of a form with one field.
pub fn elicits(message: &str, field: &str, kind: &str) -> Value {
    json!({"method": "elicitation/create", "params": {
        "mode": "form", "message": message,
        "requestedSchema": {"type": "object", "properties": {field: {"type": kind}}, "required": [field]},
    }})
}

fn samples(text: &str, most: u32) -> Value {
    json!({"method": "sampling/createMessage", "params": {
        "messages": [{"role": "user", "content": {"type": "text", "text": text}}], "maxTokens": most,
    }})
}

fn roots() -> Value {
    json!({"method": "roots/list", "params": {}})
}

/// Returns a round with these questions.
///
/// # Errors
///
/// If they are no questions.
pub fn required(requests: Value, state: Option<&str>) -> Result<InputRequiredResult, ErrorData> {
    let requests: InputRequests = of_json(requests)?;
    Ok(InputRequiredResult::new(
        Some(requests),
        state.map(str::to_owned),
    ))
}

/// Returns what `responses` have under `key`, if it is an object.
fn given<'a>(responses: &'a InputResponses, key: &str) -> Option<&'a Value> {
    responses.get(key).filter(|value| value.is_object())
}

/// Answer to a round: a result, or further questions.
type Round = Result<Option<CallToolResponse>, ErrorData>;

fn done(text: impl Into<String>) -> Round {
    Ok(Some(
        CallToolResult::success(vec![ContentBlock::text(text)]).into(),
    ))
}

fn asks(requests: Value, state: Option<&str>) -> Round {
    required(requests, state).map(|it| Some(it.into()))
}

/// Returns the answer to a round; `None` if the tool has no rounds.
pub fn called(request: &CallToolRequestParams, context: &RequestContext<RoleServer>) -> Round {
    let none = InputResponses::new();
    let responses = request.input_responses.as_ref().unwrap_or(&none);
    match request.name.strip_prefix("test_input_required_result_") {
        Some("capabilities") => {
            let known = context.client_capabilities().unwrap_or_default();
            let mut questions = json!({});
            if known.sampling.is_some() {
                questions["greeting"] = samples("Generate a greeting", 50);
            }
            if known.elicitation.is_some() {
                questions["user_name"] = elicits("What is your name?", "name", "string");
            }
            asks(questions, None)
        }
        Some(kind @ ("elicitation" | "sampling" | "list_roots")) => one(kind, responses),
        Some(kind) => with_state(kind, responses, request.request_state.as_deref()),
        None if request.name == "test_streaming_elicitation" => one("elicitation", responses),
        None => Ok(None),
    }
}

/// Tools with one question.
fn one(kind: &str, responses: &InputResponses) -> Round {
    let (key, question) = match kind {
        "elicitation" => ("user_name", elicits("What is your name?", "name", "string")),
        "sampling" => (
            "capital_question",
            samples("What is the capital of France?", 100),
        ),
        _ => ("client_roots", roots()),
    };
    let Some(answer) = given(responses, key) else {
        return asks(json!({key: question}), None);
    };
    match kind {
        "elicitation" => {
            let name = answer["content"]["name"].as_str().unwrap_or_default();
            done(format!("Hello, {name}!"))
        }
        "sampling" => done(answer["content"]["text"].as_str().unwrap_or_default()),
        _ => done(format!("roots: {}", answer["roots"])),
    }
}

/// Tools that carry a state from round to round.
fn with_state(kind: &str, responses: &InputResponses, state: Option<&str>) -> Round {
    let has = |key: &str| given(responses, key).is_some();
    let confirm = json!({"confirm": elicits("Please confirm", "ok", "boolean")});
    match kind {
        "request_state" => match (state, has("confirm")) {
            (Some(STATE), true) => done("state-ok"),
            _ => asks(confirm, Some(STATE)),
        },
        "multiple_inputs" => {
            let all = ["user_name", "greeting", "client_roots"];
            let questions = json!({
                "user_name": elicits("What is your name?", "name", "string"),
                "greeting": samples("Generate a greeting", 50),
                "client_roots": roots(),
            });
            match all.iter().all(|key| has(key)) {
                true => done("all"),
                false => asks(questions, Some(STATE)),
            }
        }
        "multi_round" => match state {
            Some(LATER_STATE) if has("step2") => done("done"),
            Some(STATE) if has("step1") => {
                let step = elicits("Step 2: What is your favorite color?", "color", "string");
                asks(json!({"step2": step}), Some(LATER_STATE))
            }
            _ => {
                let step = elicits("Step 1: What is your name?", "name", "string");
                asks(json!({"step1": step}), Some(STATE))
            }
        },
        "tampered_state" => match state {
            None => asks(confirm, Some(STATE)),
            Some(STATE) => done("state-ok"),
            Some(_) => Err(ErrorData::invalid_params(
                "the request state is not ours",
                None,
            )),
        },
        _ => Ok(None),
    }
}

/// Returns the question of a prompt that has one, until it is answered.
pub fn prompted(request: &GetPromptRequestParams) -> Result<Option<GetPromptResponse>, ErrorData> {
    let none = InputResponses::new();
    let responses = request.input_responses.as_ref().unwrap_or(&none);
    let is_open = given(responses, "user_context").is_none();
    if request.name != "test_input_required_result_prompt" || !is_open {
        return Ok(None);
    }
    let question = elicits("What context should the prompt use?", "context", "string");
    required(json!({"user_context": question}), None).map(|it| Some(it.into()))
}
