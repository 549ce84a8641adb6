//! What a settings file says of the web.

use serde::Deserialize;

/// What one settings file says of the web.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct WebSettings {
    /// The model that reads pages.
    pub reader: Option<String>,
    /// Hosts whose private addresses may be reached, and by plain HTTP.
    pub private_hosts: Vec<String>,
    /// Who searches.
    pub search: Option<String>,
}
