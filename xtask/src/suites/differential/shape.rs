//! The shape of a line of a program: the facts that another program can rely on, without ids, times and sentences. Pure.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Div as _;

use serde_json::{Number, Value};

/// Numbers that are compared; of all others only that they are numbers.
const NUMBERS: [&str; 24] = [
    "api_error_status",
    "attempt",
    "cacheCreationInputTokens",
    "cacheReadInputTokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "contextWindow",
    "costUSD",
    "ephemeral_1h_input_tokens",
    "ephemeral_5m_input_tokens",
    "error_status",
    "exit",
    "exit_code",
    "index",
    "inputTokens",
    "input_tokens",
    "maxOutputTokens",
    "max_retries",
    "num_turns",
    "outputTokens",
    "output_tokens",
    "result_index",
    "tool_uses",
    "total_cost_usd",
];

/// Words that are compared; of all other texts only that they are texts, unless they are the case's own.
const WORDS: [&str; 32] = [
    "agent_type",
    "api_error_type",
    "behavior",
    "compact_result",
    "error",
    "error_code",
    "fast_mode_state",
    "hook_event",
    "hook_event_name",
    "level",
    "local_command",
    "method",
    "mode",
    "name",
    "outcome",
    "permissionMode",
    "permission_mode",
    "reason",
    "role",
    "service_tier",
    "source",
    "speed",
    "state",
    "status",
    "stop_reason",
    "subagent_type",
    "subtype",
    "task_type",
    "terminal_reason",
    "tool_name",
    "trigger",
    "type",
];

/// Lists whose entries are compared one by one. The entries of all others are taken together.
const SEQUENCES: [&str; 5] = [
    "content",
    "errors",
    "filesChanged",
    "permission_denials",
    "permission_suggestions",
];

/// Fields by the name of a model.
const MODELS: [&str; 2] = ["modelUsage", "model_usage_since_last_result"];

/// Shape of a line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Shape {
    /// Type, and what else tells its place in a conversation.
    pub(super) kind: String,
    /// `PATH=VALUE` or `PATH:TYPE` of each field.
    pub(super) facts: BTreeSet<String>,
}

/// Reads the lines of one case.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// Texts of the case, which are compared wherever they appear.
    own: HashSet<String>,
    /// Names of the tools by the id of the call.
    tools: HashMap<String, String>,
}

impl Reader {
    /// A reader of what a program says in a case.
    pub(super) fn new(case: &Value) -> Self {
        let mut own = HashSet::new();
        collect_texts(case, &mut own);
        Self {
            own,
            tools: HashMap::new(),
        }
    }

    /// Returns the shape of the next line.
    pub(super) fn read(&mut self, line: &Value) -> Shape {
        for block in list(&line["message"]["content"]) {
            if let (Some(id), Some(name)) = (block["id"].as_str(), block["name"].as_str()) {
                self.tools.insert(id.to_owned(), name.to_owned());
            }
        }
        let mut shape = Shape {
            kind: self.kind(line),
            facts: BTreeSet::new(),
        };
        self.facts("", "", line, true, &mut shape.facts);
        shape
    }

    fn kind(&self, line: &Value) -> String {
        let word = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        let kind = word(&line["type"]);
        let block = &line["message"]["content"][0];
        let more = match kind.as_str() {
            "assistant" => vec![word(&block["type"])],
            "user" if block["type"] == "tool_result" => {
                let id = block["tool_use_id"].as_str().unwrap_or_default();
                let tool = self.tools.get(id).map_or("-", String::as_str);
                vec!["tool_result".to_owned(), tool.to_owned()]
            }
            "user" => vec!["text".to_owned()],
            "stream_event" => vec![word(&line["event"]["type"])],
            // The host's ids begin with the request.
            "control_response" => {
                let id = word(&line["response"]["request_id"]);
                let request = id.split('-').next().unwrap_or_default();
                vec![word(&line["response"]["subtype"]), request.to_owned()]
            }
            "control_request" => {
                let request = &line["request"];
                let of = [
                    &request["input"]["hook_event_name"],
                    &request["message"]["method"],
                ];
                let of = of.into_iter().filter_map(Value::as_str).map(str::to_owned);
                std::iter::once(word(&request["subtype"]))
                    .chain(of)
                    .collect()
            }
            _ => {
                let of = ["subtype", "state", "hook_event"];
                of.iter()
                    .filter_map(|name| line[name].as_str().map(str::to_owned))
                    .collect()
            }
        };
        std::iter::once(kind)
            .chain(more)
            .collect::<Vec<_>>()
            .join("/")
    }

    /// Adds the facts of `value` at `path`. Values of the entries of a list are not compared (`is_exact`).
    fn facts(
        &self,
        path: &str,
        key: &str,
        value: &Value,
        is_exact: bool,
        facts: &mut BTreeSet<String>,
    ) {
        let fact = match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    // Names of models.
                    let name = if MODELS.contains(&key) { "*" } else { name };
                    let path = if path.is_empty() {
                        name.to_owned()
                    } else {
                        format!("{path}.{name}")
                    };
                    self.facts(&path, name, value, is_exact, facts);
                }
                if !fields.is_empty() {
                    return;
                }
                ":{}".to_owned()
            }
            Value::Array(entries) => {
                let is_sequence = SEQUENCES.contains(&key);
                for (number, entry) in entries.iter().enumerate() {
                    let (place, is_exact) = match is_sequence {
                        true => (format!("{path}.{number}"), is_exact),
                        false => (format!("{path}[]"), false),
                    };
                    self.facts(&place, key, entry, is_exact, facts);
                }
                if !entries.is_empty() {
                    return;
                }
                ":[]".to_owned()
            }
            Value::String(text) => {
                match is_exact && (self.own.contains(text) || is_word(key, text)) {
                    true => format!("={value}"),
                    false => ":string".to_owned(),
                }
            }
            Value::Number(number) if is_exact && NUMBERS.contains(&key) => {
                format!("={}", rounded(number))
            }
            Value::Number(_) => ":number".to_owned(),
            Value::Bool(_) if !is_exact => ":boolean".to_owned(),
            Value::Null | Value::Bool(_) => format!("={value}"),
        };
        facts.insert(format!("{path}{fact}"));
    }
}

/// Whether `text` is a word of the protocol, not of a sentence.
fn is_word(key: &str, text: &str) -> bool {
    let is_part = |it: char| it.is_ascii_alphanumeric() || "_-./<>".contains(it);
    WORDS.contains(&key) && text.len() < 40 && text.chars().all(is_part)
}

/// Returns a number without the errors of sums of fractions.
fn rounded(number: &Number) -> String {
    match number.as_f64().filter(|_| number.is_f64()) {
        Some(number) => (number * 1e9).round().div(1e9).to_string(),
        None => number.to_string(),
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn collect_texts(value: &Value, texts: &mut HashSet<String>) {
    match value {
        Value::String(text) => {
            texts.insert(text.clone());
        }
        Value::Array(entries) => entries.iter().for_each(|entry| collect_texts(entry, texts)),
        Value::Object(fields) => fields
            .values()
            .for_each(|field| collect_texts(field, texts)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(line: &Value) -> String {
        let mut reader = Reader::new(&json!({"prompt": "say hello"}));
        reader.read(
            &json!({"type": "assistant", "message": {"content": [{"id": "t1", "name": "Bash"}]}}),
        );
        let Shape { kind, facts } = reader.read(line);
        std::iter::once(kind)
            .chain(facts)
            .collect::<Vec<_>>()
            .join("\n")
    }

    #[test]
    fn ids_times_and_sentences_are_left_out() {
        let line = json!({
            "type": "user",
            "uuid": "1", "duration_ms": 3, "num_turns": 2, "is_error": false, "error": "It is broken",
            "message": {"content": [{"type": "tool_result", "tool_use_id": "t1", "content": "say hello"}]},
        });
        insta::assert_snapshot!(shown(&line), @r#"
        user/tool_result/Bash
        duration_ms:number
        error:string
        is_error=false
        message.content.0.content="say hello"
        message.content.0.tool_use_id:string
        message.content.0.type="tool_result"
        num_turns=2
        type="user"
        uuid:string
        "#);
    }

    #[test]
    fn entries_of_a_list_are_taken_together() {
        let line = json!({
            "type": "system", "subtype": "init", "none": [], "modelUsage": {"a": {"costUSD": 1.5}},
            "plugins": [{"name": "a"}, {"name": "b", "path": null}], "tools": ["Bash", "Read"],
        });
        insta::assert_snapshot!(shown(&line), @r#"
        system/init
        modelUsage.*.costUSD=1.5
        none:[]
        plugins[].name:string
        plugins[].path=null
        subtype="init"
        tools[]:string
        type="system"
        "#);
    }
}
