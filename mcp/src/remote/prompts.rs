//! Prompts of servers: texts with arguments that a user calls by name.

use std::collections::BTreeMap;
use std::time::Duration;

use ah_conversation::{Completion, PromptArgument, ServerPrompt};
use rmcp::RoleClient;
use rmcp::model::{
    ArgumentInfo, CompleteRequestParams, CompletionContext, ContentBlock, GetPromptRequestParams,
    Reference, ResourceContents, Role,
};
use rmcp::service::Peer;
use serde_json::{Map, Value};
use tokio::time::timeout;

use crate::remote::explain::explain;
use crate::remote::name::{clean, clean_line};
use crate::remote::page;

const MOST_PAGES: usize = 16;
const MOST_PROMPTS: usize = 200;
const MOST_ARGUMENTS: usize = 32;
/// Most values that are proposed for an argument, and the longest, in characters.
const MOST_VALUES: usize = 20;
const LONGEST_VALUE: usize = 200;

/// Lists the prompts of a server. One that does not answer in time has none: they are no reason to wait.
pub(crate) async fn list(
    peer: &Peer<RoleClient>,
    server: &str,
    time_limit: Duration,
) -> Vec<ServerPrompt> {
    let has_prompts = peer
        .peer_info()
        .is_some_and(|info| info.capabilities.prompts.is_some());
    if !has_prompts {
        return Vec::new();
    }
    let listed = timeout(time_limit, pages(peer, server)).await;
    listed.unwrap_or_default()
}

async fn pages(peer: &Peer<RoleClient>, server: &str) -> Vec<ServerPrompt> {
    let (mut prompts, mut cursor) = (Vec::new(), None);
    for _ in 0..MOST_PAGES {
        let page = match page::prompts(peer, cursor).await {
            Ok(page) => page,
            Err(error) => {
                tracing::warn!(server, "cannot list prompts: {error}");
                break;
            }
        };
        for line in page.left_out {
            tracing::warn!(server, "prompt left out: {line}");
        }
        for prompt in page.entries {
            let arguments = prompt.arguments.unwrap_or_default().into_iter();
            let arguments = arguments.take(MOST_ARGUMENTS).map(|it| PromptArgument {
                name: it.name,
                description: clean_line(&it.description.unwrap_or_default(), 200),
                is_required: it.required == Some(true),
            });
            let about = prompt.description.or(prompt.title).unwrap_or_default();
            prompts.push(ServerPrompt {
                server: server.to_owned(),
                description: clean_line(&about, 300),
                arguments: arguments.collect(),
                name: prompt.name,
            });
        }
        cursor = page.next;
        if cursor.is_none() || prompts.len() >= MOST_PROMPTS {
            break;
        }
    }
    prompts.truncate(MOST_PROMPTS);
    prompts
}

/// Returns values for an argument.
pub(crate) async fn complete(
    peer: &Peer<RoleClient>,
    wish: &Completion,
    time_limit: Duration,
) -> Vec<String> {
    let info = peer.peer_info();
    if info.is_none_or(|info| info.capabilities.completions.is_none()) {
        return Vec::new();
    }
    let params = CompleteRequestParams::new(
        Reference::for_prompt(&*wish.prompt),
        ArgumentInfo::new(&*wish.argument, &*wish.value),
    );
    let before = wish.before.clone().into_iter().collect();
    let params = params.with_context(CompletionContext::with_arguments(before));
    let answer = timeout(time_limit, peer.complete(params)).await;
    let Ok(Ok(answer)) = answer else {
        return Vec::new();
    };
    let values = answer.completion.values.into_iter().take(MOST_VALUES);
    let values = values.map(|value| clean_line(&value, LONGEST_VALUE));
    values.filter(|value| !value.is_empty()).collect()
}

/// Returns the text of a prompt.
pub(crate) async fn get(
    peer: &Peer<RoleClient>,
    name: &str,
    arguments: BTreeMap<String, String>,
    time_limit: Duration,
) -> Result<String, String> {
    let mut params = GetPromptRequestParams::new(name);
    if !arguments.is_empty() {
        let arguments = arguments.into_iter();
        let arguments = arguments.map(|(name, value)| (name, Value::String(value)));
        params = params.with_arguments(arguments.collect::<Map<_, _>>());
    }
    let answer = timeout(time_limit, peer.get_prompt(params)).await;
    let answer = answer.map_err(|_| "the server did not respond in time")?;
    let answer = answer.map_err(|error| explain(&error, None))?;
    let parts = answer.messages.into_iter().map(|message| {
        let text = text(message.content);
        match message.role {
            Role::Assistant => format!("[an answer to continue from]\n{text}"),
            _ => text,
        }
    });
    let text = parts.collect::<Vec<_>>().join("\n\n");
    match text.trim() {
        "" => Err("the prompt is empty".to_owned()),
        text => Ok(clean(text, usize::MAX)),
    }
}

/// Returns the text of a content; what is no text is named.
fn text(content: ContentBlock) -> String {
    match content {
        ContentBlock::Text(content) => content.text,
        ContentBlock::Image(content) => format!("[a picture, {}]", content.mime_type),
        ContentBlock::Audio(content) => format!("[audio, {}]", content.mime_type),
        ContentBlock::Resource(content) => match content.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => {
                format!("[resource {uri}]\n{text}")
            }
            _ => "[a resource that is not text]".to_owned(),
        },
        ContentBlock::ResourceLink(link) => format!("[resource {}: {}]", link.name, link.uri),
        _ => "[content of an unknown kind]".to_owned(),
    }
}
