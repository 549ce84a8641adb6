//! The web: pages that the model reads, and searches for them.
//!
//! All that comes from there was written by strangers. It is told to the model as data between marks that no page can
//! know, and never reaches a host that is not the one that was allowed.

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

/// How the web is reached.
#[derive(Clone, Default)]
pub struct Web {
    /// Proxies and certificates.
    pub http: ah_http::Options,
    /// Hosts whose private addresses may be reached, and by plain HTTP, as the user has named them: `host`,
    /// `host:port` or `*.domain`.
    pub private_hosts: Vec<String>,
    /// All that may be reached, where the run is confined.
    pub reach: Option<Allowlist>,
    /// The model that reads pages; without, they are given as they are.
    pub reader: Option<Arc<dyn Provider>>,
    /// Who searches; without, no tool offers to.
    pub search: Option<Search>,
}
