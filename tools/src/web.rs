//! The web: pages that the model reads, and searches for them.
//!
//! All content was written by strangers. The model gets it as data between marks that no page can know, and no request
//! goes to another host than the permitted one.

mod address;
mod cache;
mod fetch;
mod get;
mod html;
mod page;
mod quote;
pub(crate) mod reader;
mod search;

use std::sync::Arc;

use ah_conversation::{Interface, Tool};

use crate::web_options::{Search, Web};
pub use fetch::WebFetch;
pub use search::SearchTool;

/// Returns `web_fetch`, and `web_search` if there is a search engine.
pub(crate) fn tools(web: Web, interface: Interface) -> Vec<Arc<dyn Tool>> {
    let search = web.search.clone();
    let search = search.map(|search| SearchTool::new(search, web.clone(), interface));
    let mut tools: Vec<Arc<dyn Tool>> = vec![Arc::new(WebFetch::new(web, interface))];
    tools.extend(search.map(|tool| Arc::new(tool) as Arc<dyn Tool>));
    tools
}
