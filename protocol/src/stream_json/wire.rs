//! Parsing of the host's lines, one JSON object each. Pure.
//!
//! Control requests of the SDKs are nested (`request.subtype`); the flat form (`command`, `params`) of the older
//! specification is accepted too, and answered in that form.

use ah_conversation::{ContentBlock, Image, PermissionMode, json};
use serde_json::{Map, Value, json};

use super::initialize::Initialize;

/// One line from the host.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Incoming {
    /// A prompt.
    Prompt(Prompt),
    /// A control request.
    Request(ResponseForm, ControlRequest),
    /// The host's answer to a request of ours.
    Answer {
        /// Id of the request.
        id: String,
        /// Value, or error text.
        answer: Result<Value, String>,
    },
    /// The host withdraws a request.
    Withdrawal(String),
    /// A keep-alive, or a type of line that needs no action.
    Nothing,
}

/// A prompt as the host sent it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Prompt {
    pub(crate) content: Vec<ContentBlock>,
    /// The content as it came, which is echoed to hosts that look for it.
    pub(crate) sent: Option<Value>,
    /// UUID given by the host.
    pub(crate) uuid: Option<String>,
    pub(crate) priority: Priority,
    /// What the host says about its origin, for the result.
    pub(crate) origin: Option<Value>,
    /// Whether it was composed by a program, so that nothing in it is expanded.
    pub(crate) is_verbatim: bool,
}

/// Time at which a prompt that arrives during a run takes effect.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Priority {
    /// Interrupts the run and is answered next.
    Now,
    /// After the current prompt.
    #[default]
    Next,
    /// After all others.
    Later,
}

/// Form of the response to a control request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ResponseForm {
    /// With the id of the request.
    Nested { id: String },
    /// With the name of the command.
    Flat { command: String, id: Option<Value> },
}

impl ResponseForm {
    /// Returns the response as a line.
    pub(crate) fn line(&self, outcome: Result<Value, RequestError>) -> Value {
        match self {
            Self::Nested { id } => {
                let mut response = json!({"subtype": "success", "request_id": id});
                match outcome {
                    Ok(value) => response["response"] = value,
                    Err(fault) => {
                        response["subtype"] = json!("error");
                        response["error"] = json!(fault.text);
                        if let Some(code) = fault.code {
                            response["error_code"] = json!(code);
                        }
                    }
                }
                json!({"type": "control_response", "response": response})
            }
            Self::Flat { command, id } => {
                let mut line = json!({"type": "control_response", "command": command});
                if let Some(id) = id {
                    line["request_id"] = id.clone();
                }
                line["success"] = json!(outcome.is_ok());
                match outcome {
                    Ok(value) => line["result"] = value,
                    Err(fault) => line["error"] = json!(fault.text),
                }
                line
            }
        }
    }
}

/// Error response to a control request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestError {
    pub(crate) text: String,
    pub(crate) code: Option<&'static str>,
}

impl RequestError {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            code: None,
        }
    }

    pub(crate) fn of_code(code: &'static str, text: impl Into<String>) -> Self {
        Self {
            code: Some(code),
            ..Self::new(text)
        }
    }
}

/// A control request of the host.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ControlRequest {
    Initialize(Box<Initialize>),
    Interrupt {
        /// Whether queued prompts are withdrawn.
        cancels_others: bool,
    },
    /// Withdraw a queued prompt.
    Withdraw {
        /// UUID given by the host.
        prompt: String,
    },
    SetPermissionMode {
        mode: String,
    },
    SetModel {
        model: Option<String>,
    },
    SetMaxThinkingTokens {
        tokens: Option<u32>,
    },
    McpStatus,
    McpReconnect {
        server: String,
    },
    McpToggle {
        server: String,
        enabled: bool,
    },
    McpSetServers {
        servers: Map<String, Value>,
    },
    McpMessage {
        server: String,
        message: Value,
    },
    /// Call a tool of an MCP server without the model.
    McpCall {
        tool: String,
        arguments: Map<String, Value>,
    },
    McpReadResource {
        server: String,
        uri: String,
    },
    ContextUsage,
    /// Return the end of a background command's output.
    TaskOutput {
        id: String,
    },
    StopTask {
        id: String,
    },
    RewindFiles {
        /// UUID of the prompt.
        prompt: String,
        dry_run: bool,
    },
    /// Apply settings from now on.
    ApplySettings {
        settings: Map<String, Value>,
    },
    GetSettings,
    SessionCost,
    /// Return cost and usage as values.
    SessionUsage,
    RenameSession {
        title: String,
    },
    /// Return a title for a conversation about this.
    TitleOf {
        description: String,
        /// Whether the session is renamed to it.
        persists: bool,
    },
    PermissionRules,
    ReadFile {
        path: String,
    },
    /// Return a part of the response to `initialize`.
    Introduction(IntroductionPart),
    /// Unknown request, or one that lacks a field.
    Unknown {
        subtype: String,
        fault: Option<String>,
    },
}

impl ControlRequest {
    /// Returns the requested permission mode, if it is such a request.
    pub(crate) fn mode(&self) -> Option<PermissionMode> {
        match self {
            Self::SetPermissionMode { mode: word } => mode(word).ok(),
            _ => None,
        }
    }
}

/// Part of the response to `initialize`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IntroductionPart {
    All,
    Commands,
    Models,
    Account,
    /// The models, as an object.
    ModelList,
    /// Commands, agents and plugins, read anew.
    Plugins,
    /// Commands and skills, read anew.
    Skills,
    /// Names of the output styles, read anew.
    Styles,
    /// The version.
    Version,
}

impl IntroductionPart {
    /// Whether the files behind it are to be read anew.
    pub(crate) fn is_reread(self) -> bool {
        matches!(self, Self::Plugins | Self::Skills | Self::Styles)
    }
}

/// Parses a line.
///
/// # Errors
/// The reason why it is no object of the protocol.
pub(crate) fn read(line: &[u8]) -> Result<Incoming, String> {
    let value: Value =
        json::from_slice(line).map_err(|error| format!("it is not JSON: {error}"))?;
    let Value::Object(object) = value else {
        return Err("it is not a JSON object".to_owned());
    };
    let kind = object.get("type").and_then(Value::as_str);
    match kind {
        Some("user") => prompt(&object).map(Incoming::Prompt),
        Some("control_request") => request(object),
        Some("control_response") => Ok(answer(&object)),
        Some("control_cancel_request") => Ok(match object.get("request_id") {
            Some(Value::String(id)) => Incoming::Withdrawal(id.clone()),
            _ => Incoming::Nothing,
        }),
        Some(_) => Ok(Incoming::Nothing),
        None => Err("it has no `type`".to_owned()),
    }
}

fn prompt(object: &Map<String, Value>) -> Result<Prompt, String> {
    let sent = object.get("message").and_then(|it| it.get("content"));
    let content = match sent {
        Some(Value::String(text)) => vec![ContentBlock::text(text.clone())],
        Some(Value::Array(blocks)) => blocks.iter().map(block).collect(),
        _ => return Err("the user message has no `message.content`".to_owned()),
    };
    Ok(Prompt {
        content,
        sent: sent.cloned(),
        uuid: text(object, "uuid"),
        priority: match object.get("priority").and_then(Value::as_str) {
            Some("now") => Priority::Now,
            Some("later") => Priority::Later,
            _ => Priority::Next,
        },
        origin: object.get("origin").filter(|it| it.is_object()).cloned(),
        is_verbatim: object.get("client_composed") == Some(&Value::Bool(true)),
    })
}

/// Parses a block of a prompt; unknown types go to the model unchanged.
fn block(raw: &Value) -> ContentBlock {
    let image = || {
        let source = raw.get("source")?;
        let field = |name: &str| Some(source.get(name)?.as_str()?.to_owned());
        (field("type")? == "base64").then_some(())?;
        Some(ContentBlock::Image(Image {
            media_type: field("media_type")?,
            data: field("data")?,
        }))
    };
    let known = match raw.get("type").and_then(Value::as_str) {
        Some("text") => raw
            .get("text")
            .and_then(Value::as_str)
            .map(ContentBlock::text),
        Some("image") => image(),
        _ => None,
    };
    known.unwrap_or_else(|| ContentBlock::Other { raw: raw.clone() })
}

fn answer(object: &Map<String, Value>) -> Incoming {
    let Some(Value::Object(response)) = object.get("response") else {
        return Incoming::Nothing;
    };
    let Some(id) = text(response, "request_id") else {
        return Incoming::Nothing;
    };
    let answer = match response.get("subtype").and_then(Value::as_str) {
        Some("error") => Err(text(response, "error").unwrap_or_else(|| "no reason given".into())),
        // The older form has `result` or `error` and no subtype.
        _ => match response.get("error") {
            Some(Value::String(error)) => Err(error.clone()),
            _ => {
                let mut given = ["response", "result"].into_iter();
                let given = given.find_map(|name| response.get(name).cloned());
                Ok(given.unwrap_or_else(|| json!({})))
            }
        },
    };
    Incoming::Answer { id, answer }
}

fn request(mut object: Map<String, Value>) -> Result<Incoming, String> {
    if let Some(command) = text(&object, "command") {
        let params = object.get("params").and_then(Value::as_object);
        let wish = flat(&command, params.unwrap_or(&Map::new()));
        let id = object.remove("request_id");
        return Ok(Incoming::Request(ResponseForm::Flat { command, id }, wish));
    }
    let Some(id) = text(&object, "request_id") else {
        return Err("the control request has no `request_id`".to_owned());
    };
    let fields = match object.remove("request") {
        Some(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    let subtype = text(&fields, "subtype").unwrap_or_default();
    Ok(Incoming::Request(
        ResponseForm::Nested { id },
        nested(&subtype, fields),
    ))
}

fn nested(subtype: &str, fields: Map<String, Value>) -> ControlRequest {
    let lacks = |name: &str| ControlRequest::Unknown {
        subtype: subtype.to_owned(),
        fault: Some(format!("`{subtype}` needs `{name}`")),
    };
    let server = |name: &str| text(&fields, name).or_else(|| text(&fields, "server_name"));
    if let Some(wish) = of_typescript(subtype, &fields) {
        return wish.unwrap_or_else(lacks);
    }
    match subtype {
        "initialize" => match serde_json::from_value(Value::Object(fields)) {
            Ok(wishes) => ControlRequest::Initialize(Box::new(wishes)),
            Err(error) => ControlRequest::Unknown {
                subtype: subtype.to_owned(),
                fault: Some(format!("`initialize` cannot be read: {error}")),
            },
        },
        "interrupt" => ControlRequest::Interrupt {
            cancels_others: fields.get("cancel_queued") == Some(&Value::Bool(true)),
        },
        "cancel_async_message" => match text(&fields, "message_uuid") {
            Some(prompt) => ControlRequest::Withdraw { prompt },
            None => lacks("message_uuid"),
        },
        "set_permission_mode" => match text(&fields, "mode") {
            Some(mode) => ControlRequest::SetPermissionMode { mode },
            None => lacks("mode"),
        },
        "set_model" => ControlRequest::SetModel {
            model: text(&fields, "model"),
        },
        "set_max_thinking_tokens" => tokens(&fields, "max_thinking_tokens", subtype),
        "mcp_status" => ControlRequest::McpStatus,
        "mcp_reconnect" => match server("serverName") {
            Some(server) => ControlRequest::McpReconnect { server },
            None => lacks("serverName"),
        },
        "mcp_toggle" => match (server("serverName"), fields.get("enabled")) {
            (Some(server), Some(Value::Bool(enabled))) => ControlRequest::McpToggle {
                server,
                enabled: *enabled,
            },
            (None, _) => lacks("serverName"),
            (_, _) => lacks("enabled"),
        },
        "mcp_set_servers" => match fields.get("servers") {
            Some(Value::Object(servers)) => ControlRequest::McpSetServers {
                servers: servers.clone(),
            },
            _ => lacks("servers"),
        },
        "mcp_message" => match (server("server_name"), fields.get("message")) {
            (Some(server), Some(message)) => ControlRequest::McpMessage {
                server,
                message: message.clone(),
            },
            (None, _) => lacks("server_name"),
            (_, None) => lacks("message"),
        },
        "get_context_usage" => ControlRequest::ContextUsage,
        "stop_task" => match text(&fields, "task_id") {
            Some(id) => ControlRequest::StopTask { id },
            None => lacks("task_id"),
        },
        "rewind_files" => match text(&fields, "user_message_id") {
            Some(prompt) => ControlRequest::RewindFiles {
                prompt,
                dry_run: fields.get("dry_run") == Some(&Value::Bool(true)),
            },
            None => lacks("user_message_id"),
        },
        _ => ControlRequest::Unknown {
            subtype: subtype.to_owned(),
            fault: None,
        },
    }
}

/// Parses a request that only the SDK for TypeScript has; `Some(Err)` with the field that it lacks.
fn of_typescript(
    subtype: &str,
    fields: &Map<String, Value>,
) -> Option<Result<ControlRequest, &'static str>> {
    Some(Ok(match subtype {
        "apply_flag_settings" => match fields.get("settings") {
            Some(Value::Object(settings)) => ControlRequest::ApplySettings {
                settings: settings.clone(),
            },
            _ => return Some(Err("settings")),
        },
        "get_settings" => ControlRequest::GetSettings,
        "get_session_cost" => ControlRequest::SessionCost,
        "get_usage" => ControlRequest::SessionUsage,
        "get_task_output" => match text(fields, "task_id") {
            Some(id) => ControlRequest::TaskOutput { id },
            None => return Some(Err("task_id")),
        },
        "mcp_call" => match text(fields, "tool") {
            Some(tool) => ControlRequest::McpCall {
                tool,
                arguments: { fields.get("arguments").and_then(Value::as_object) }
                    .cloned()
                    .unwrap_or_default(),
            },
            None => return Some(Err("tool")),
        },
        "mcp_read_resource" => match (text(fields, "serverName"), text(fields, "uri")) {
            (Some(server), Some(uri)) => ControlRequest::McpReadResource { server, uri },
            (None, _) => return Some(Err("serverName")),
            (_, None) => return Some(Err("uri")),
        },
        "rename_session" => match text(fields, "title") {
            Some(title) => ControlRequest::RenameSession { title },
            None => return Some(Err("title")),
        },
        "generate_session_title" => match text(fields, "description") {
            Some(description) => ControlRequest::TitleOf {
                description,
                persists: fields.get("persist") == Some(&Value::Bool(true)),
            },
            None => return Some(Err("description")),
        },
        "list_permission_rules" => ControlRequest::PermissionRules,
        "read_file" => match text(fields, "path") {
            Some(path) => ControlRequest::ReadFile { path },
            None => return Some(Err("path")),
        },
        "list_models" => ControlRequest::Introduction(IntroductionPart::ModelList),
        "reload_plugins" => ControlRequest::Introduction(IntroductionPart::Plugins),
        "reload_skills" => ControlRequest::Introduction(IntroductionPart::Skills),
        "reload_output_styles" => ControlRequest::Introduction(IntroductionPart::Styles),
        "get_binary_version" => ControlRequest::Introduction(IntroductionPart::Version),
        _ => return None,
    }))
}

/// Parses a request in the form of the older specification.
fn flat(command: &str, params: &Map<String, Value>) -> ControlRequest {
    let as_nested = |subtype: &str, names: &[(&str, &str)]| {
        let named = names.iter().filter_map(|(from, to)| {
            let value = params.get(*from).or_else(|| params.get(*to))?;
            Some(((*to).to_owned(), value.clone()))
        });
        nested(subtype, named.collect())
    };
    match command {
        "interrupt" => as_nested("interrupt", &[]),
        "setPermissionMode" => as_nested("set_permission_mode", &[("mode", "mode")]),
        "setModel" => as_nested("set_model", &[("model", "model")]),
        "setMaxThinkingTokens" => as_nested(
            "set_max_thinking_tokens",
            &[("maxThinkingTokens", "max_thinking_tokens")],
        ),
        "mcpServerStatus" => ControlRequest::McpStatus,
        "reconnectMcpServer" => as_nested("mcp_reconnect", &[("serverName", "serverName")]),
        "toggleMcpServer" => as_nested(
            "mcp_toggle",
            &[("serverName", "serverName"), ("enabled", "enabled")],
        ),
        "setMcpServers" => as_nested("mcp_set_servers", &[("servers", "servers")]),
        "rewindFiles" => as_nested(
            "rewind_files",
            &[("userMessageId", "user_message_id"), ("dryRun", "dry_run")],
        ),
        "initializationResult" => ControlRequest::Introduction(IntroductionPart::All),
        "supportedCommands" => ControlRequest::Introduction(IntroductionPart::Commands),
        "supportedModels" => ControlRequest::Introduction(IntroductionPart::Models),
        "accountInfo" => ControlRequest::Introduction(IntroductionPart::Account),
        _ => ControlRequest::Unknown {
            subtype: command.to_owned(),
            fault: None,
        },
    }
}

/// Parses a token count; null restores the default.
fn tokens(fields: &Map<String, Value>, name: &str, subtype: &str) -> ControlRequest {
    let count = match fields.get(name) {
        None | Some(Value::Null) => Some(None),
        Some(value) => {
            let count = value.as_u64();
            count.and_then(|count| u32::try_from(count).ok()).map(Some)
        }
    };
    match count {
        Some(tokens) => ControlRequest::SetMaxThinkingTokens { tokens },
        None => ControlRequest::Unknown {
            subtype: subtype.to_owned(),
            fault: Some(format!("`{name}` is not a number of tokens")),
        },
    }
}

fn text(object: &Map<String, Value>, name: &str) -> Option<String> {
    Some(object.get(name)?.as_str()?.to_owned())
}

/// Parses a permission mode.
pub(crate) fn mode(word: &str) -> Result<PermissionMode, RequestError> {
    word.parse()
        .map_err(|text: String| RequestError::of_code("invalid_mode", text))
}
