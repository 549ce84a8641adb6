//! What an agent has in a build without the engine: nothing but what the program gives it.

use std::path::PathBuf;
use std::sync::Arc;

use ah_agent::Pictures;
use ah_config::{Error, parse_rules};
use ah_conversation::{Permissions, Provider, Store, Tool};

use crate::options::Options;
use crate::store::StoreChoice;

/// What an agent works with.
pub(crate) struct Equipment {
    pub provider: Arc<dyn Provider>,
    pub store: Arc<dyn Store>,
    /// The built-in tools: none.
    pub tools: Vec<Arc<dyn Tool>>,
    /// The rules of the options; the mode is left to the agent.
    pub permissions: Permissions,
    pub cwd: PathBuf,
}

/// Returns what an agent with these options works with.
///
/// # Errors
///
/// If an option asks for something of the engine, or makes no sense.
pub(crate) fn of(options: &Options, store: Option<StoreChoice>) -> Result<Equipment, Error> {
    let absent = |what: &str| {
        Error::usage(format!("this build has no {what}"))
            .hint("build `ah` with its feature `engine`, which is on by default")
    };
    let provider = { options.provider.clone() }
        .ok_or_else(|| absent("models but those that `Options::provider` gives"))?;
    let store = match store {
        Some(StoreChoice::Own(store)) => store,
        Some(StoreChoice::File(path)) => {
            return Err(absent(&format!("database for `{}`", path.display())));
        }
        None => return Err(absent("stores but those that `AgentBuilder::store` gives")),
    };
    if options
        .tools
        .as_ref()
        .is_some_and(|tools| !tools.is_empty())
    {
        return Err(absent("built-in tools"));
    }
    Ok(Equipment {
        provider,
        store,
        tools: Vec::new(),
        permissions: Permissions {
            allow: parse_rules(&options.allowed_tools)?,
            ask: parse_rules(&options.asked_tools)?,
            deny: parse_rules(&options.disallowed_tools)?,
            ..Permissions::default()
        },
        cwd: options.cwd.clone().unwrap_or_default(),
    })
}

/// Returns what takes pictures as they are: nothing decodes them here.
pub(crate) fn pictures() -> Pictures {
    ah_agent::unchecked_pictures()
}
