//! What programs on the user's own machine say of their models beside the list of models: windows and chat templates. A window there is
//! an option of the program, so no catalogue knows it.

use bytes::Bytes;
use futures_util::future::join4;
use reqwest::header::HeaderMap;
use serde_json::{Map, Value, json};

use crate::auth::AUTHORIZATION;
use crate::server::Server;

/// Adds to `models` the windows that the program says elsewhere: llama.cpp at `/props`, LM Studio in its own list, KoboldCpp
/// at a path of its own, and Ollama in the list of models that are loaded. Nothing is added where none of them answers.
/// Returns whether the program is llama.cpp.
pub(super) async fn complete(server: &Server, models: &mut Map<String, Value>) -> bool {
    let (props, own_list, kobold, loaded) = join4(
        ask(server, "props"),
        ask(server, "api/v0/models"),
        ask(server, "api/extra/true_max_context_length"),
        ask(server, "api/ps"),
    )
    .await;
    for (name, window) in loaded_windows(&loaded) {
        // The list says what the model could have.
        set(models, &name, window, true);
    }
    for (name, window) in loaded_windows(&own_list) {
        set(models, &name, window, false);
    }
    let template = template(&props);
    if !template.is_empty() {
        for facts in models.values_mut() {
            facts["template"] = json!(template);
        }
    }
    // These serve one model.
    if let Some(window) = window_of_server(&props).or_else(|| window_of_server(&kobold)) {
        for name in models.keys().cloned().collect::<Vec<_>>() {
            set(models, &name, window, false);
        }
    }
    props["default_generation_settings"].is_object()
}

/// Asks for a document; null if there is none.
async fn ask(server: &Server, path: &str) -> Value {
    let base = server.base_url.trim().trim_end_matches('/');
    let base = { ["/chat/completions", "/responses", "/messages"].iter() }
        .find_map(|path| base.strip_suffix(path))
        .unwrap_or(base);
    let url = format!("{}/{path}", base.strip_suffix("/v1").unwrap_or(base));
    let endpoint = server
        .clone()
        .endpoint(&url, AUTHORIZATION, HeaderMap::new());
    match endpoint {
        Ok(endpoint) => endpoint.fetch(None::<Vec<Bytes>>).await.unwrap_or_default(),
        Err(_) => Value::Null,
    }
}

/// Sets the window of a model, unless it has one that counts.
fn set(models: &mut Map<String, Value>, name: &str, window: u64, overrides: bool) {
    if let Some(Value::Object(facts)) = models.get_mut(name)
        && (overrides || !facts.contains_key("context_window"))
    {
        facts.insert("context_window".into(), json!(window));
    }
}

/// Returns the windows of the models in a list of Ollama or LM Studio: `{"models": [{"name", "context_length"}]}`,
/// `{"data": [{"id", "loaded_context_length"}]}`.
fn loaded_windows(list: &Value) -> Vec<(String, u64)> {
    let entries = ["models", "data"].map(|field| list[field].as_array());
    let entries = entries.into_iter().flatten().flatten();
    let window = |entry: &Value| {
        let name = ["name", "id"].iter().find_map(|it| entry[*it].as_str())?;
        let fields = [
            "context_length",
            "loaded_context_length",
            "max_context_length",
        ];
        let window = fields.iter().find_map(|field| entry[*field].as_u64())?;
        (window > 0).then(|| (name.to_owned(), window))
    };
    entries.filter_map(window).collect()
}

/// Returns what the chat template of llama.cpp's only model can do.
fn template(props: &Value) -> Map<String, Value> {
    let able = |field: &str| props["chat_template_caps"][field].as_bool();
    let facts = [
        ("tools", able("supports_tools")),
        ("calls", able("supports_tool_calls")),
        ("parallel_calls", able("supports_parallel_tool_calls")),
    ];
    let known = facts.into_iter();
    known
        .filter_map(|(name, value)| Some((name.to_owned(), value?.into())))
        .collect()
}

/// Returns the window that a server of one model says: `{"default_generation_settings": {"n_ctx": 8192}}` of llama.cpp,
/// `{"value": 8192}` of KoboldCpp.
fn window_of_server(about: &Value) -> Option<u64> {
    let fields = ["/default_generation_settings/n_ctx", "/n_ctx", "/value"];
    let mut windows = fields.iter().filter_map(|it| about.pointer(it)?.as_u64());
    windows.find(|window| *window > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_template_can_do_is_read_as_far_as_it_is_said() {
        for (props, expected) in [
            (json!({}), json!({})),
            (
                json!({"chat_template_caps": {"supports_system_role": true}}),
                json!({}),
            ),
            (
                json!({"chat_template_caps": {"supports_tools": false, "supports_parallel_tool_calls": true}}),
                json!({"tools": false, "parallel_calls": true}),
            ),
            (
                json!({"chat_template_caps": {"supports_tools": 1, "supports_tool_calls": false}}),
                json!({"calls": false}),
            ),
            (json!([1]), json!({})),
        ] {
            assert_eq!(Value::Object(template(&props)), expected, "{props}");
        }
    }

    #[test]
    fn windows_are_read_from_the_answers_of_programs() {
        for (about, expected) in [
            (
                json!({"default_generation_settings": {"n_ctx": 8192}}),
                Some(8_192),
            ),
            (json!({"value": 4096}), Some(4_096)),
            (json!({"default_generation_settings": {"n_ctx": 0}}), None),
            (json!({"value": "4096"}), None),
            (json!([1]), None),
            (Value::Null, None),
        ] {
            assert_eq!(window_of_server(&about), expected, "{about}");
        }
        for (list, expected) in [
            (
                json!({"models": [{"name": "a:1b", "context_length": 4096}, {"name": "b"}]}),
                vec![("a:1b", 4_096)],
            ),
            (
                json!({"data": [
                    {"id": "a", "max_context_length": 131_072, "loaded_context_length": 8192},
                    {"id": "b", "max_context_length": 131_072},
                ]}),
                vec![("a", 8_192), ("b", 131_072)],
            ),
            (
                json!({"data": 1, "models": [2, {"name": 3, "context_length": 4}]}),
                vec![],
            ),
            (Value::Null, vec![]),
        ] {
            let expected: Vec<_> = expected
                .into_iter()
                .map(|(name, window)| (name.to_owned(), window))
                .collect();
            assert_eq!(loaded_windows(&list), expected, "{list}");
        }
    }
}
