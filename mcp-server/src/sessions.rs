//! Sessions as resources.

use ah_conversation::{StoreError, neutralise};
use ah_desk::{Refusal, Scope};
use rmcp::ErrorData;
use rmcp::model::{
    ListResourceTemplatesResult, ListResourcesResult, ReadResourceResult, Resource,
    ResourceContents, ResourceTemplate,
};

use crate::served::Served;

/// Beginning of the URI of a session; its id follows.
const BEGIN: &str = "ah://sessions/";
/// Sessions in one answer.
const PAGE: usize = 100;
/// Most bytes of a conversation that are given; its end is kept.
const MOST_BYTES: usize = 256 * 1024;
const MARKDOWN: &str = "text/markdown";

/// Returns a page of the sessions. The cursor is the id of the last session of the page before.
///
/// # Errors
///
/// If they cannot be listed, or there is no such page.
pub(crate) fn list(
    served: &Served,
    cursor: Option<&str>,
) -> Result<ListResourcesResult, ErrorData> {
    let mut all = served.sessions.list(Scope::Here).map_err(failed)?;
    all.retain(|summary| summary.messages > 0);
    let begin = match cursor {
        None => 0,
        Some(last) => match all.iter().position(|it| it.id.as_str() == last) {
            Some(at) => at + 1,
            None => return Err(ErrorData::invalid_params("there is no such page", None)),
        },
    };
    let end = (begin + PAGE).min(all.len());
    let next = (end < all.len()).then(|| all[end - 1].id.to_string());
    let resources = all[begin..end].iter().map(|summary| {
        Resource::new(format!("{BEGIN}{}", summary.id), summary.id.to_string())
            .with_title(neutralise(&summary.title))
            .with_description(format!("Last message: {}", summary.updated_text()))
            .with_mime_type(MARKDOWN)
    });
    let mut result = ListResourcesResult::with_all_items(resources.collect());
    result.next_cursor = next;
    Ok(result)
}

/// Returns the template of all sessions.
pub(crate) fn templates() -> ListResourceTemplatesResult {
    let template = ResourceTemplate::new(format!("{BEGIN}{{id}}"), "session")
        .with_title("Session")
        .with_description("The conversation of a session")
        .with_mime_type(MARKDOWN);
    ListResourceTemplatesResult::with_all_items(vec![template])
}

/// Returns a session.
///
/// # Errors
///
/// If there is none, or it cannot be read.
pub(crate) fn read(served: &Served, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let none = || {
        let about = serde_json::json!({"uri": uri});
        ErrorData::resource_not_found("there is no such session", Some(about))
    };
    let id = uri
        .strip_prefix(BEGIN)
        .filter(|id| !id.is_empty())
        .ok_or_else(none)?;
    let transcript = served.sessions.transcript(id).map_err(failed)?;
    let transcript = transcript.ok_or_else(none)?;
    let unread = |error: StoreError| failed(error.into());
    let name = transcript.name().map_err(unread)?;
    let name = name.unwrap_or_else(|| format!("Session {id}"));
    let messages = transcript.branch().map_err(unread)?;
    let verdicts = transcript.verdicts().map_err(unread)?;
    let markdown = (served.written)(&name, &messages, &verdicts);
    let markdown = served.environment.redact(&markdown).into_owned();
    let begin = markdown.ceil_char_boundary(markdown.len().saturating_sub(MOST_BYTES));
    let text = match begin {
        0 => markdown,
        begin => format!(
            "[{begin} bytes before are left out]\n\n{}",
            &markdown[begin..]
        ),
    };
    let contents = ResourceContents::text(text, uri).with_mime_type(MARKDOWN);
    Ok(ReadResourceResult::new(vec![contents]))
}

fn failed(refusal: Refusal) -> ErrorData {
    ErrorData::internal_error(refusal.text, None)
}
