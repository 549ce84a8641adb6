//! Access to the web: options that the caller sets, whether or not the tools are part of the build.

use std::sync::Arc;

use ah_conversation::Provider;
use ah_process::Allowlist;

/// Address of Brave's API.
pub const BRAVE: &str = "https://api.search.brave.com/res/v1/web/search";

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

/// The search engine.
#[derive(Clone)]
pub enum Search {
    /// The server of a model that can search.
    Model(Arc<dyn Provider>),
    /// A server with the API of SearXNG, at this address.
    Searxng(String),
    /// Brave's API.
    Brave {
        /// The address.
        address: String,
        /// The key.
        key: String,
    },
}
