//! One page of a server's list. Entries are read one by one where the page as a whole is not as the protocol says, so one
//! that is malformed takes none of the others away.

use rmcp::RoleClient;
use rmcp::model::{
    ClientRequest, ListPromptsRequest, ListResourcesRequest, ListToolsRequest,
    PaginatedRequestParams, Prompt, Resource, ServerResult, Tool,
};
use rmcp::service::{Peer, ServiceError};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::remote::name::clean_line;

/// A page.
#[derive(Debug)]
pub(crate) struct Page<T> {
    pub(crate) entries: Vec<T>,
    /// Malformed entries, one line each: name and reason.
    pub(crate) left_out: Vec<String>,
    /// Where the next page begins.
    pub(crate) next: Option<String>,
}

impl<T> Page<T> {
    /// Returns a page that is as the protocol says.
    fn whole(entries: Vec<T>, next: Option<String>) -> Self {
        Self {
            entries,
            left_out: Vec::new(),
            next,
        }
    }
}

/// Requests a page of tools.
pub(crate) async fn tools(
    peer: &Peer<RoleClient>,
    from: Option<String>,
) -> Result<Page<Tool>, ServiceError> {
    let params = PaginatedRequestParams::default().with_cursor(from);
    match peer.list_tools(Some(params.clone())).await {
        Ok(page) => Ok(Page::whole(page.tools, page.next_cursor)),
        Err(error) => {
            let request = ListToolsRequest::with_param(params);
            again(peer, request.into(), "tools", error).await
        }
    }
}

/// Requests a page of prompts.
pub(crate) async fn prompts(
    peer: &Peer<RoleClient>,
    from: Option<String>,
) -> Result<Page<Prompt>, ServiceError> {
    let params = PaginatedRequestParams::default().with_cursor(from);
    match peer.list_prompts(Some(params.clone())).await {
        Ok(page) => Ok(Page::whole(page.prompts, page.next_cursor)),
        Err(error) => {
            let request = ListPromptsRequest::with_param(params);
            again(peer, request.into(), "prompts", error).await
        }
    }
}

/// Requests a page of resources.
pub(crate) async fn resources(
    peer: &Peer<RoleClient>,
    from: Option<String>,
) -> Result<Page<Resource>, ServiceError> {
    let params = PaginatedRequestParams::default().with_cursor(from);
    match peer.list_resources(Some(params.clone())).await {
        Ok(page) => Ok(Page::whole(page.resources, page.next_cursor)),
        Err(error) => {
            let request = ListResourcesRequest::with_param(params);
            again(peer, request.into(), "resources", error).await
        }
    }
}

/// Requests a page again that was not as the protocol says, and reads it entry by entry. The SDK keeps nothing of the first
/// answer.
async fn again<T: DeserializeOwned>(
    peer: &Peer<RoleClient>,
    request: ClientRequest,
    key: &str,
    error: ServiceError,
) -> Result<Page<T>, ServiceError> {
    if !matches!(error, ServiceError::UnexpectedResponse) {
        return Err(error);
    }
    match peer.send_request(request).await? {
        ServerResult::CustomResult(page) => read(page.0, key).ok_or(error),
        _ => Err(error),
    }
}

/// Reads a page entry by entry; `None` if it is no list.
fn read<T: DeserializeOwned>(mut page: Value, key: &str) -> Option<Page<T>> {
    let Value::Array(listed) = page.get_mut(key)?.take() else {
        return None;
    };
    let next = page["nextCursor"].as_str().map(str::to_owned);
    let mut read = Page::whole(Vec::new(), next);
    for (at, entry) in listed.into_iter().enumerate() {
        let name = match entry["name"].as_str() {
            Some(name) => clean_line(name, 100),
            None => format!("number {}", at + 1),
        };
        match serde_json::from_value(entry) {
            Ok(entry) => read.entries.push(entry),
            Err(error) => {
                let reason = clean_line(&error.to_string(), 200);
                read.left_out.push(format!("{name}: {reason}"));
            }
        }
    }
    Some(read)
}
