//! Completions that MCP servers know: values of arguments of their prompts, and their resources.

use std::future::pending;
use std::sync::Arc;

use ah_conversation::{Servers, neutralise};
use serde_json::Value;

use super::effect::Wish;
use super::input::Input;

/// Most resources that are proposed.
const RESOURCES: usize = 50;

/// Returns what the terminal has to know of the servers.
pub fn news(servers: &dyn Servers) -> Input {
    let names = servers.status().into_iter().map(|it| it.name);
    Input::Prompts(servers.prompts(), names.collect())
}

/// Waits until there may be news for whoever knows this version of the servers.
pub async fn changed(servers: Option<Arc<dyn Servers>>, version: u64) {
    match servers {
        Some(servers) => servers.changed(version).await,
        None => pending().await,
    }
}

/// Returns what a server proposes for the word at the end of `before`, each with a description.
pub async fn proposed(servers: &dyn Servers, before: &str, wish: Wish) -> Vec<(String, String)> {
    let from = before.rfind(char::is_whitespace).map_or(0, |at| at + 1);
    let word = &before[from..];
    match wish {
        Wish::Argument(completion) => {
            let name = format!("{}=", completion.argument);
            let name = if word.starts_with(&name) { &*name } else { "" };
            let values = servers.complete(&completion).await.into_iter();
            let values = values.map(|value| match value.contains(char::is_whitespace) {
                true => (format!("{name}\"{value}\""), String::new()),
                false => (format!("{name}{value}"), String::new()),
            });
            values.collect()
        }
        Wish::Resource(server) => {
            let listed = servers.resources(&server).await.unwrap_or_default();
            let typed = word.to_lowercase();
            let text = |value: &Value| neutralise(value.as_str().unwrap_or_default()).into_owned();
            let items = listed.iter().filter_map(|resource| {
                // A template is no resource yet; what is fixed of it can be typed on.
                let uri = match resource.get("uri") {
                    Some(uri) => text(uri),
                    None => text(&resource["uriTemplate"]).split('{').next()?.to_owned(),
                };
                let item = format!("@{server}:{uri}");
                let is_meant =
                    !uri.contains(char::is_whitespace) && item.to_lowercase().starts_with(&typed);
                is_meant.then(|| (item, text(&resource["name"])))
            });
            items.take(RESOURCES).collect()
        }
    }
}
