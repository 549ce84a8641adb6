//! The web in a build without it: there are no tools that reach it.

use std::sync::Arc;

use ah_conversation::{Interface, Tool};

use crate::web_options::Web;

/// Returns no tools.
pub(crate) fn tools(web: Web, _: Interface) -> Vec<Arc<dyn Tool>> {
    drop(web);
    Vec::new()
}
