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
mod reader;
mod search;

use std::sync::Arc;

use ah_conversation::Provider;
use ah_process::Allowlist;

pub use fetch::WebFetch;
pub use search::{BRAVE, Search, SearchTool};

/// Access to the web.
#[derive(Clone, Default)]
pub struct Web {
    /// Proxies and certificates.
    pub http: ah_http::Options,
    /// Hosts that may be reached at private addresses and by plain HTTP, as the user has named them: `host`, `host:port`
    /// or `*.domain`.
    pub private_hosts: Vec<String>,
    /// Hosts that may be reached; `None` if the run is not confined.
    pub reach: Option<Allowlist>,
    /// Model that reads pages; without one, the main model gets the pages themselves.
    pub reader: Option<Arc<dyn Provider>>,
    /// Search engine; without one, there is no `web_search`.
    pub search: Option<Search>,
}
