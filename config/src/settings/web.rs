//! Web settings.

use serde::Deserialize;

/// Web settings of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct WebSettings {
    /// The model that reads pages.
    pub reader: Option<String>,
    /// Hosts whose private addresses are reachable, also by plain HTTP.
    pub private_hosts: Vec<String>,
    /// The search: `model`, `brave`, `none`, or the address of a server like SearXNG.
    pub search: Option<String>,
}
