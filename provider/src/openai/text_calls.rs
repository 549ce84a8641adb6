//! The forms in which models write calls of tools in their text, where a server leaves them there: those of Hermes and Qwen,
//! Llama, Mistral, DeepSeek and gpt-oss. What only looks like a call stays text.

use ah_conversation::json::{self, repaired};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// Form of the calls in the text of a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CallForm {
    /// None: all is text.
    #[default]
    None,
    /// That which the name of the model says.
    OfModel,
    /// `<tool_call>` with a JSON object, as Hermes and Qwen write them, or with `<function=…>`, as Qwen3-Coder does.
    Tags,
    /// A JSON object that is the whole answer, or stands behind `<|python_tag|>`, or `<function=…>`.
    Llama,
    /// `[TOOL_CALLS]` with a list, or with a name and `[ARGS]`.
    Mistral,
    /// `<｜tool▁calls▁begin｜>`.
    DeepSeek,
    /// The channels of Harmony.
    GptOss,
}

/// Beginnings of a call's text, each with its end; without one it ends with the answer.
type Marks = &'static [(&'static str, &'static str)];

const TAGS: Marks = &[
    ("<tool_call>", "</tool_call>"),
    ("<function=", "</function>"),
];
const LLAMA: Marks = &[
    ("<|python_tag|>", "<|eom_id|>"),
    ("<function=", "</function>"),
];
const MISTRAL: Marks = &[("[TOOL_CALLS]", "")];
const DEEPSEEK: Marks = &[
    ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"),
    ("<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"),
];
const GPT_OSS: Marks = &[("<|channel|>commentary to=", "<|call|>")];

impl CallForm {
    /// Returns the form that the model `name` writes.
    pub fn of_model(name: &str) -> Self {
        let name = name.to_lowercase();
        let is_any = |words: &[&str]| words.iter().any(|word| name.contains(word));
        // DeepSeek's small models are Qwen and Llama with its own form.
        if is_any(&["deepseek"]) {
            Self::DeepSeek
        } else if is_any(&["gpt-oss"]) {
            Self::GptOss
        } else if is_any(&["hermes", "qwen", "qwq"]) {
            Self::Tags
        } else if is_any(&[
            "mistral",
            "mixtral",
            "devstral",
            "magistral",
            "ministral",
            "codestral",
        ]) {
            Self::Mistral
        } else if is_any(&["llama"]) {
            Self::Llama
        } else {
            Self::Tags
        }
    }

    /// Returns what begins a call in the text, each with its end, or with nothing if it ends with the answer.
    pub fn marks(self) -> Marks {
        match self {
            Self::None | Self::OfModel => &[],
            Self::Tags => TAGS,
            Self::Llama => LLAMA,
            Self::Mistral => MISTRAL,
            Self::DeepSeek => DEEPSEEK,
            Self::GptOss => GPT_OSS,
        }
    }

    /// Whether an answer that begins with a brace may be a call.
    pub fn may_be_whole_answer(self) -> bool {
        self == Self::Llama
    }

    /// Returns the calls in `content`, which stands behind `mark`; `None` if it is text.
    pub fn calls(self, mark: &str, content: &str) -> Option<Vec<(String, Value)>> {
        let calls = match self {
            Self::None | Self::OfModel => return None,
            Self::Tags | Self::Llama if mark == "<function=" => {
                function(content).map(|call| vec![call])
            }
            Self::Tags => tagged(content),
            Self::Llama => objects(content),
            Self::Mistral => content
                .split("[TOOL_CALLS]")
                .map(mistral)
                .collect::<Option<Vec<_>>>()
                .map(|lists| lists.concat()),
            Self::DeepSeek => deepseek(content),
            Self::GptOss => harmony(content).map(|call| vec![call]),
        };
        calls.filter(|calls| !calls.is_empty())
    }
}

impl<'de> Deserialize<'de> for CallForm {
    /// From `true` for tags, `false`, or the name of a form.
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        Ok(match Value::deserialize(source)? {
            Value::Bool(false) => Self::None,
            Value::Bool(true) => Self::Tags,
            Value::String(word) => match word.as_str() {
                "none" => Self::None,
                "auto" => Self::OfModel,
                "hermes" | "qwen" => Self::Tags,
                "llama" => Self::Llama,
                "mistral" => Self::Mistral,
                "deepseek" => Self::DeepSeek,
                "gpt-oss" => Self::GptOss,
                _ => {
                    return Err(D::Error::custom(format!(
                        "`{word}` is not a form of calls: auto, hermes, qwen, llama, mistral, deepseek or gpt-oss"
                    )));
                }
            },
            other => {
                return Err(D::Error::custom(format!(
                    "`{other}` is neither true, false nor the name of a form"
                )));
            }
        })
    }
}

/// Reads a call from a JSON object with a name and arguments.
fn of_object(mut call: Map<String, Value>) -> Option<(String, Value)> {
    let name = match (call.get("name"), call.get("function")) {
        (Some(Value::String(name)), _) | (None, Some(Value::String(name))) => name.clone(),
        (None, Some(Value::Object(function))) => return of_object(function.clone()),
        _ => return None,
    };
    let fields = ["arguments", "parameters"];
    let arguments = fields
        .into_iter()
        .find_map(|field| call.shift_remove(field));
    Some((name, arguments.unwrap_or_else(|| Value::Object(Map::new()))))
}

/// Reads one object, or a list of objects.
fn objects(text: &str) -> Option<Vec<(String, Value)>> {
    let text = text.trim();
    if let Ok(Value::Array(list)) = json::from_str(text) {
        let calls = list.into_iter().map(|call| match call {
            Value::Object(call) => of_object(call),
            _ => None,
        });
        return calls.collect();
    }
    if let Some(call) = repaired::object(text) {
        return of_object(call).map(|call| vec![call]);
    }
    // Several of them, as Llama writes them.
    let parts = text
        .split([';', '\n'])
        .map(str::trim)
        .filter(|part| !part.is_empty());
    let calls: Option<Vec<_>> = parts
        .map(|part| of_object(json::from_str(part).ok()?))
        .collect();
    calls.filter(|calls| calls.len() > 1)
}

/// Reads the content of `<tool_call>`.
fn tagged(content: &str) -> Option<Vec<(String, Value)>> {
    let content = content.trim();
    if !content.starts_with("<function=") {
        return objects(content);
    }
    let functions = content.split("<function=").skip(1);
    functions.map(function).collect()
}

/// Reads what stands behind `<function=`: a name, and parameters in tags or as JSON.
fn function(content: &str) -> Option<(String, Value)> {
    let (name, rest) = content.split_once('>')?;
    let name = name.trim().trim_matches('"');
    if name.is_empty() || name.contains(char::is_whitespace) {
        return None;
    }
    let rest = rest.trim();
    let rest = rest.strip_suffix("</function>").unwrap_or(rest).trim_end();
    let mut arguments = Map::new();
    if rest.starts_with('{') {
        return Some((name.to_owned(), repaired::object(rest)?.into()));
    }
    for parameter in rest.split("<parameter=").skip(1) {
        let (key, value) = parameter.split_once('>')?;
        let value = value.trim_end();
        let value = value.strip_suffix("</parameter>").unwrap_or(value);
        let value = value.strip_prefix('\n').unwrap_or(value);
        let value = value.strip_suffix('\n').unwrap_or(value);
        arguments.insert(key.trim().to_owned(), value.into());
    }
    (rest.is_empty() || !arguments.is_empty()).then(|| (name.to_owned(), arguments.into()))
}

/// Reads what stands behind `[TOOL_CALLS]`.
fn mistral(content: &str) -> Option<Vec<(String, Value)>> {
    let content = content.trim();
    let content = content.strip_suffix("</s>").unwrap_or(content);
    if content.starts_with(['[', '{']) {
        return objects(content);
    }
    let at = content.find(['{', '['])?;
    let (head, arguments) = match content.split_once("[ARGS]") {
        Some(parts) => parts,
        None => content.split_at(at),
    };
    // An id may stand between.
    let name = head.split("[CALL_ID]").next().unwrap_or_default().trim();
    let is_name = !name.is_empty() && !name.contains(char::is_whitespace);
    let arguments = repaired::object(arguments)?;
    is_name.then(|| vec![(name.to_owned(), arguments.into())])
}

/// Reads what stands between the marks of DeepSeek's calls.
fn deepseek(content: &str) -> Option<Vec<(String, Value)>> {
    let calls = content.split("<｜tool▁call▁begin｜>").map(|call| {
        let call = call.trim();
        call.strip_suffix("<｜tool▁call▁end｜>").unwrap_or(call)
    });
    let call = |call: &str| {
        let (before, after) = call.split_once("<｜tool▁sep｜>")?;
        let after = after.trim();
        // R1 and V3 have a type in the place of the name.
        let (name, arguments) = match after.starts_with(['{', '`']) {
            true => (before, after),
            false => after.split_once('\n')?,
        };
        Some((name.trim().to_owned(), repaired::object(arguments)?.into()))
    };
    calls.filter(|call| !call.is_empty()).map(call).collect()
}

/// Reads a message of Harmony to a function.
fn harmony(content: &str) -> Option<(String, Value)> {
    let (head, arguments) = content.split_once("<|message|>")?;
    let to = head.split(['<', ' ']).next().unwrap_or_default();
    let name = to.strip_prefix("functions.").unwrap_or(to);
    let arguments = match arguments.trim() {
        "" => Map::new(),
        arguments => repaired::object(arguments)?,
    };
    (!name.is_empty()).then(|| (name.to_owned(), arguments.into()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn forms_follow_from_names() {
        for (name, expected) in [
            ("Qwen/Qwen3.5-27B", CallForm::Tags),
            ("NousResearch/Hermes-4-14B-Llama", CallForm::Tags),
            ("meta-llama/Llama-3.3-8B-Instruct", CallForm::Llama),
            ("mistralai/Devstral-Small-2507", CallForm::Mistral),
            ("DeepSeek-R1-Distill-Qwen-7B", CallForm::DeepSeek),
            ("openai/gpt-oss-20b", CallForm::GptOss),
            ("smollm3", CallForm::Tags),
        ] {
            assert_eq!(CallForm::of_model(name), expected, "{name}");
        }
    }

    #[test]
    fn settings_name_forms() {
        let form = |value: Value| serde_json::from_value::<CallForm>(value).ok();
        assert_eq!(form(json!(true)), Some(CallForm::Tags));
        assert_eq!(form(json!(false)), Some(CallForm::None));
        assert_eq!(form(json!("auto")), Some(CallForm::OfModel));
        assert_eq!(form(json!("gpt-oss")), Some(CallForm::GptOss));
        assert_eq!(form(json!("cobol")), None);
        assert_eq!(form(json!(1)), None);
    }
}
