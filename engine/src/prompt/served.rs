//! What a typed prompt takes from MCP servers: a prompt of theirs, called as `/SERVER:PROMPT`, and resources, named as
//! `@SERVER:URI`.

use std::collections::BTreeMap;
use std::sync::Arc;

use ah_agent::commands::call;
use ah_agent::skills::escaped;
use ah_config::{Config, Error, Sourced};
use ah_conversation::{ContentBlock, NOTE, Servers, ToolName};
use ah_mcp::ServerEntry;
use serde_json::Value;

use crate::assemble::PATIENCE;
use crate::prompt::expand::{Expanded, Ruled};
use crate::prompt::mentions;
use crate::prompt::pictures::words;

/// Most bytes of one resource; the model has a tool for the rest.
const MOST_BYTES: usize = 100_000;

/// Returns the text of the server's prompt that `typed` calls; `None` if it calls none.
///
/// # Errors
///
/// If an argument is missing, or the server does not answer.
pub async fn expand(
    typed: &str,
    servers: Option<&Arc<dyn Servers>>,
) -> Result<Option<Expanded>, Error> {
    let Some(((name, arguments), servers)) = call(typed).zip(servers) else {
        return Ok(None);
    };
    let mut prompts = servers.prompts().into_iter();
    let Some(prompt) = prompts.find(|prompt| prompt.is_called(name)) else {
        return Ok(None);
    };
    let failed = |reason: String| Error::failure(format!("/{name}: {reason}"));
    let arguments = prompt.read(arguments).map_err(Error::usage)?;
    let text = servers
        .prompt(&prompt.server, &prompt.name, arguments)
        .await;
    let text = text.map_err(failed)?;
    Ok(Some(Expanded {
        text,
        ..Expanded::default()
    }))
}

/// Returns the text of the server's prompt that `typed` calls, as [`expand`] does, and waits for the servers if it may call one.
///
/// # Errors
///
/// As for [`expand`].
pub async fn called(
    typed: &str,
    servers: Option<&Arc<dyn Servers>>,
    config: &Config,
) -> Result<Option<Expanded>, Error> {
    let Some(known) = servers.filter(|_| is_meant(typed, &config.mcp_servers)) else {
        return Ok(None);
    };
    known.ready(PATIENCE).await;
    known.prompts_known(PATIENCE).await;
    expand(typed, servers).await
}

/// Returns the blocks of a prompt with what it takes from servers, for which it waits if it may name one.
///
/// # Errors
///
/// As for [`expand`] and [`mentions::said`].
pub async fn with(
    servers: Option<&Arc<dyn Servers>>,
    prompt: &Expanded,
    blocks: Vec<ContentBlock>,
    config: &Config,
) -> Result<Vec<ContentBlock>, Error> {
    let Some(known) = servers.filter(|_| prompt.is_as_typed) else {
        return Ok(blocks);
    };
    if let Some(called) = called(&prompt.text, servers, config).await? {
        return Ok(mentions::said(&called, "", Vec::new(), config)?.blocks);
    }
    if prompt.text.contains('@') {
        known.ready(PATIENCE).await;
    }
    let mut all = resources(prompt, servers, config).await;
    all.extend(blocks);
    Ok(all)
}

/// Returns whether `typed` is called like a prompt of a configured server, which may still be starting.
pub fn is_meant(typed: &str, known: &BTreeMap<String, Sourced<ServerEntry>>) -> bool {
    let Some((name, _)) = call(typed) else {
        return false;
    };
    let server = match ToolName(name) {
        of_server if of_server.is_of_server() => of_server.parts(),
        _ => name.split_once(':'),
    };
    let plain = |name: &str| name.replace(|c: char| !c.is_ascii_alphanumeric() && c != '-', "_");
    let mut known = known.keys();
    server.is_some_and(|(server, _)| known.any(|known| plain(known) == plain(server)))
}

/// Returns the resources of servers that a prompt names, one block each. Words with the name of no server stay words.
pub async fn resources(
    prompt: &Expanded,
    servers: Option<&Arc<dyn Servers>>,
    config: &Config,
) -> Vec<ContentBlock> {
    let Some(servers) = servers.filter(|_| prompt.is_as_typed) else {
        return Vec::new();
    };
    let known: Vec<_> = servers.status().into_iter().map(|it| it.name).collect();
    let mut blocks = Vec::new();
    for word in words(&prompt.text) {
        let Some((server, uri)) = word.split_once(':') else {
            continue;
        };
        let is_refused = || {
            let path = uri.strip_prefix("file://");
            path.is_some_and(|path| Ruled::of(config).refusal_of_file(path).is_some())
        };
        if uri.is_empty() || !known.iter().any(|it| it == server) || is_refused() {
            continue;
        }
        let content = match servers.read_resource(server, uri).await {
            Ok(contents) => contents.iter().map(text).collect::<Vec<_>>().join("\n"),
            Err(reason) => format!("[it cannot be read: {reason}]"),
        };
        let end = content.floor_char_boundary(MOST_BYTES);
        let (server, uri) = (escaped(server), escaped(uri));
        blocks.push(ContentBlock::text(format!(
            "{NOTE} Named in the prompt:\n<resource server=\"{server}\" uri=\"{uri}\">\n{}\n</resource>",
            content[..end].trim_end()
        )));
    }
    blocks
}

/// Returns a content of a resource as text.
fn text(content: &Value) -> String {
    let kind = content["mimeType"].as_str().unwrap_or("unknown type");
    match content["text"].as_str() {
        Some(text) => text.to_owned(),
        None => format!("[{kind}, which is not text]"),
    }
}
