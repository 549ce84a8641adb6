//! What a host writes: one JSON object per line. Pure.
//!
//! Control requests come nested (`request.subtype`) from the SDKs; the flat form (`command`, `params`) of the older
//! specification is understood too, and answered in its own form.

use std::path::PathBuf;

use ah_conversation::{ContentBlock, Image, PermissionMode};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// One line from the host.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Incoming {
    /// A prompt.
    Prompt(Prompt),
    /// The host wants something of us.
    Request(Return, Wish),
    /// The host answers a request of ours.
    Answer {
        /// Which.
        id: String,
        /// What it says, or why it cannot.
        answer: Result<Value, String>,
    },
    /// The host no longer wants what it asked for.
    Withdrawal(String),
    /// Nothing: a sign of life, or a kind of line that says nothing to us.
    Nothing,
}

/// A prompt as the host sent it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Prompt {
    pub(crate) content: Vec<ContentBlock>,
    /// The host's own name for the message.
    pub(crate) uuid: Option<String>,
    pub(crate) priority: Priority,
    /// Whether it is put together by a program, and calls nothing by name.
    pub(crate) is_verbatim: bool,
}

/// When a prompt that comes during a run is heard.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Priority {
    /// It stops the run and is answered next.
    Now,
    /// When the present prompt is answered.
    #[default]
    Next,
    /// After all others.
    Later,
}

/// How a control request is to be answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Return {
    /// By the id of the request.
    Nested { id: String },
    /// By the name of the command.
    Flat { command: String, id: Option<Value> },
}

impl Return {
    /// The line that says how it went.
    pub(crate) fn line(&self, outcome: Result<Value, Fault>) -> Value {
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

/// Why a control request cannot be answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) text: String,
    pub(crate) code: Option<&'static str>,
}

impl Fault {
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

/// What a host can ask of us.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Wish {
    Initialize(Box<Initialize>),
    Interrupt {
        /// Whether the prompts that wait are taken back.
        cancels_others: bool,
    },
    /// A prompt that waits is taken back.
    Withdraw {
        /// The host's name for it.
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
    ContextUsage,
    StopTask {
        id: String,
    },
    RewindFiles {
        /// The prompt, as the host was told of it.
        prompt: String,
        dry_run: bool,
    },
    /// Lists of the answer to `initialize`, one by one.
    Introduction(Listed),
    /// Something that is not known here, or lacks what it needs.
    Unknown {
        subtype: String,
        fault: Option<String>,
    },
}

impl Wish {
    /// The permission mode that is wished for, if one is.
    pub(crate) fn mode(&self) -> Option<PermissionMode> {
        match self {
            Self::SetPermissionMode { mode: word } => mode(word).ok(),
            _ => None,
        }
    }
}

/// A part of what we tell of ourselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listed {
    All,
    Commands,
    Models,
    Account,
}

/// What the host says of itself and wants before the first prompt.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Initialize {
    /// Callbacks of the host, by event.
    pub hooks: Option<Map<String, Value>>,
    /// Names of the MCP servers that live in the host.
    pub sdk_mcp_servers: Vec<String>,
    /// The system prompt, part by part, in the place of the built-in one.
    pub system_prompt: Option<Texts>,
    /// What comes behind the system prompt.
    pub append_system_prompt: Option<String>,
    /// Tools that are not to be there, and calls that are denied.
    pub disallowed_tools: Option<Vec<String>>,
    /// Subagents, by name.
    pub agents: Option<Map<String, Value>>,
    /// Whether the words of subagents are told, and not only what they do.
    pub forward_subagent_text: bool,
    /// The schema of the answer.
    pub json_schema: Option<Value>,
    /// MCP servers that are not on the command line.
    pub mcp_servers: Option<Map<String, Value>>,
    /// Plugins, likewise.
    pub plugins: Vec<NamedPlugin>,
    /// The only skills that the model is told of.
    pub skills: Option<Vec<String>>,
    /// What a new session is called.
    pub title: Option<String>,
}

/// A plugin as a host names it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NamedPlugin {
    /// Where it is, from the working directory on.
    pub path: PathBuf,
    /// Whether its MCP servers are left out.
    pub skip_mcp_discovery: bool,
}

/// The text that says where the parts of a system prompt end that all users of a host share: it is none of them.
const BOUNDARY: &str = "__SYSTEM_PROMPT_DYNAMIC_BOUNDARY__";

/// One text or several.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Texts {
    /// One.
    One(String),
    /// Several.
    Many(Vec<String>),
}

impl Texts {
    /// As one text, with blank lines between.
    pub fn joined(&self) -> String {
        match self {
            Self::One(text) => text.clone(),
            Self::Many(texts) => {
                let said = texts.iter().filter(|text| *text != BOUNDARY);
                said.map(String::as_str).collect::<Vec<_>>().join("\n\n")
            }
        }
    }
}

/// Reads a line.
///
/// # Errors
/// Where it is no object of the protocol; the text says why.
pub(crate) fn read(line: &[u8]) -> Result<Incoming, String> {
    let text = str::from_utf8(line).map_err(|error| format!("it is not UTF-8: {error}"))?;
    let value: Value =
        serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))?;
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
    let content = object.get("message").and_then(|it| it.get("content"));
    let content = match content {
        Some(Value::String(text)) => vec![ContentBlock::text(text.clone())],
        Some(Value::Array(blocks)) => blocks.iter().map(block).collect(),
        _ => return Err("the user message has no `message.content`".to_owned()),
    };
    Ok(Prompt {
        content,
        uuid: text(object, "uuid"),
        priority: match object.get("priority").and_then(Value::as_str) {
            Some("now") => Priority::Now,
            Some("later") => Priority::Later,
            _ => Priority::Next,
        },
        is_verbatim: object.get("client_composed") == Some(&Value::Bool(true)),
    })
}

/// A block of a prompt; what we have no word for goes to the model as it is.
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
        return Ok(Incoming::Request(Return::Flat { command, id }, wish));
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
        Return::Nested { id },
        nested(&subtype, fields),
    ))
}

fn nested(subtype: &str, fields: Map<String, Value>) -> Wish {
    let lacks = |name: &str| Wish::Unknown {
        subtype: subtype.to_owned(),
        fault: Some(format!("`{subtype}` needs `{name}`")),
    };
    let server = |name: &str| text(&fields, name).or_else(|| text(&fields, "server_name"));
    match subtype {
        "initialize" => match serde_json::from_value(Value::Object(fields)) {
            Ok(wishes) => Wish::Initialize(Box::new(wishes)),
            Err(error) => Wish::Unknown {
                subtype: subtype.to_owned(),
                fault: Some(format!("`initialize` cannot be read: {error}")),
            },
        },
        "interrupt" => Wish::Interrupt {
            cancels_others: fields.get("cancel_queued") == Some(&Value::Bool(true)),
        },
        "cancel_async_message" => match text(&fields, "message_uuid") {
            Some(prompt) => Wish::Withdraw { prompt },
            None => lacks("message_uuid"),
        },
        "set_permission_mode" => match text(&fields, "mode") {
            Some(mode) => Wish::SetPermissionMode { mode },
            None => lacks("mode"),
        },
        "set_model" => Wish::SetModel {
            model: text(&fields, "model"),
        },
        "set_max_thinking_tokens" => tokens(&fields, "max_thinking_tokens", subtype),
        "mcp_status" => Wish::McpStatus,
        "mcp_reconnect" => match server("serverName") {
            Some(server) => Wish::McpReconnect { server },
            None => lacks("serverName"),
        },
        "mcp_toggle" => match (server("serverName"), fields.get("enabled")) {
            (Some(server), Some(Value::Bool(enabled))) => Wish::McpToggle {
                server,
                enabled: *enabled,
            },
            (None, _) => lacks("serverName"),
            (_, _) => lacks("enabled"),
        },
        "mcp_set_servers" => match fields.get("servers") {
            Some(Value::Object(servers)) => Wish::McpSetServers {
                servers: servers.clone(),
            },
            _ => lacks("servers"),
        },
        "mcp_message" => match (server("server_name"), fields.get("message")) {
            (Some(server), Some(message)) => Wish::McpMessage {
                server,
                message: message.clone(),
            },
            (None, _) => lacks("server_name"),
            (_, None) => lacks("message"),
        },
        "get_context_usage" => Wish::ContextUsage,
        "stop_task" => match text(&fields, "task_id") {
            Some(id) => Wish::StopTask { id },
            None => lacks("task_id"),
        },
        "rewind_files" => match text(&fields, "user_message_id") {
            Some(prompt) => Wish::RewindFiles {
                prompt,
                dry_run: fields.get("dry_run") == Some(&Value::Bool(true)),
            },
            None => lacks("user_message_id"),
        },
        _ => Wish::Unknown {
            subtype: subtype.to_owned(),
            fault: None,
        },
    }
}

/// The same wishes by the names of the older specification.
fn flat(command: &str, params: &Map<String, Value>) -> Wish {
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
        "mcpServerStatus" => Wish::McpStatus,
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
        "initializationResult" => Wish::Introduction(Listed::All),
        "supportedCommands" => Wish::Introduction(Listed::Commands),
        "supportedModels" => Wish::Introduction(Listed::Models),
        "accountInfo" => Wish::Introduction(Listed::Account),
        _ => Wish::Unknown {
            subtype: command.to_owned(),
            fault: None,
        },
    }
}

/// A count of tokens; null restores what holds by default.
fn tokens(fields: &Map<String, Value>, name: &str, subtype: &str) -> Wish {
    let count = match fields.get(name) {
        None | Some(Value::Null) => Some(None),
        Some(value) => { value.as_u64() }
            .and_then(|count| u32::try_from(count).ok())
            .map(Some),
    };
    match count {
        Some(tokens) => Wish::SetMaxThinkingTokens { tokens },
        None => Wish::Unknown {
            subtype: subtype.to_owned(),
            fault: Some(format!("`{name}` is no number of tokens")),
        },
    }
}

fn text(object: &Map<String, Value>, name: &str) -> Option<String> {
    Some(object.get(name)?.as_str()?.to_owned())
}

/// The mode that a host names.
pub(crate) fn mode(word: &str) -> Result<PermissionMode, Fault> {
    word.parse()
        .map_err(|text: String| Fault::of_code("invalid_mode", text))
}
