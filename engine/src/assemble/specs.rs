//! Descriptions of the built-in tools, without a session.

use std::sync::Arc;

use ah_config::Error;
use ah_conversation::{Environment, Interface, ToolSpec};
use ah_store::SessionStore;
use ah_tools::{Profile, Shell, ToolDeps, Web, Workspace};

/// Returns the descriptions of the built-in tools of `profile`, under the names of `interface`.
///
/// # Errors
///
/// If no in-memory store can be created for them.
pub fn specs(
    environment: &Environment,
    profile: Profile,
    interface: Interface,
) -> Result<Vec<ToolSpec>, Error> {
    let deps = ToolDeps {
        workspace: Arc::new(Workspace::new(environment.cwd(), environment.home(), &[])),
        shell: Shell::new(environment),
        store: Arc::new(SessionStore::in_memory(&std::env::temp_dir())?),
        has_person: true,
        web: Web::default(),
        tasks: Vec::new(),
    };
    let tools = ah_tools::builtin(profile, interface, deps);
    Ok(tools.iter().map(|tool| tool.spec().clone()).collect())
}
