//! What an agent has of the engine: models by name, conversations in SQLite, and the built-in tools.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ah_agent::Pictures;
use ah_config::overlay::Overlay;
use ah_config::{Config, Error};
use ah_conversation::{Interface, Permissions, Provider, Store, Tool, is_same_tool};
use ah_engine::assemble::{safety, web};
use ah_engine::confinement::SandboxStatus;
use ah_engine::{busy, model};
use ah_store::{OpenError, Paths, SessionStore};
use ah_tools::{Profile, Shell, ToolDeps, Workspace};

use crate::options::Options;
use crate::store::StoreChoice;

/// What an agent works with.
pub(crate) struct Equipment {
    pub provider: Arc<dyn Provider>,
    pub store: Arc<dyn Store>,
    /// The built-in tools.
    pub tools: Vec<Arc<dyn Tool>>,
    /// The rules of the options; the mode is left to the agent.
    pub permissions: Permissions,
    pub cwd: PathBuf,
}

/// Returns what an agent with these options works with.
///
/// # Errors
///
/// If an option makes no sense, the model cannot be asked, or the conversation cannot be opened.
pub(crate) fn of(options: &Options, store: Option<StoreChoice>) -> Result<Equipment, Error> {
    if options.model.is_none() && options.provider.is_none() {
        let error = Error::usage("the agent has no model");
        return Err(error.hint("name one with `model`, or give one with `provider`"));
    }
    let config = Config::resolve(
        options.overrides_of_agent()?,
        Interface::AgentSdk,
        options.environment()?,
        &Overlay::default(),
    )?;
    let mut warnings = Vec::new();
    let provider = match &options.provider {
        Some(own) => own.clone(),
        None => model::model(&config, &mut warnings)?,
    };
    let store = match store {
        Some(StoreChoice::Own(store)) => store,
        Some(StoreChoice::File(path)) => in_file(&path)?,
        None => Arc::new(SessionStore::in_memory(&std::env::temp_dir())?),
    };
    let tools = built_in(options, &provider, &store, &config, &mut warnings)?;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    let is_asked = options.can_use_tool.is_some();
    let mut permissions = safety::permissions(&SandboxStatus::Off, is_asked, &config);
    if !tools.is_empty() {
        // As for a query: what is outside of the working directories is asked about.
        permissions.readable = Some(Vec::new());
    }
    Ok(Equipment {
        provider,
        store,
        tools,
        permissions,
        cwd: config.environment.cwd().to_owned(),
    })
}

/// Returns what checks pictures before they are stored.
pub(crate) fn pictures() -> Pictures {
    Arc::new(ah_tools::checked_picture)
}

/// Opens the database in this file.
fn in_file(path: &Path) -> Result<Arc<dyn Store>, Error> {
    match SessionStore::open(&Paths::of(path)) {
        Ok(store) => Ok(Arc::new(store)),
        Err(OpenError::Busy(holder)) => {
            let hint =
                "close the agent that has it open, or keep this conversation in another file";
            Err(busy(&holder).hint(hint))
        }
        Err(OpenError::Store(error)) => Err(error.into()),
    }
}

/// Returns the built-in tools that the options name, by the names that a query has for them.
fn built_in(
    options: &Options,
    provider: &Arc<dyn Provider>,
    store: &Arc<dyn Store>,
    config: &Config,
    warnings: &mut Vec<String>,
) -> Result<Vec<Arc<dyn Tool>>, Error> {
    let wanted = options.tools.as_deref().unwrap_or_default();
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let environment = &config.environment;
    let protected = config.protected_folders();
    let workspace = Workspace::new(environment.cwd(), environment.home(), &protected);
    let deps = ToolDeps {
        workspace: Arc::new(workspace),
        shell: Shell::new(environment),
        store: store.clone(),
        has_person: false,
        web: web::of(provider, None, config, warnings)?,
        tasks: Vec::new(),
    };
    let all = ah_tools::builtin(Profile::Sdk, Interface::AgentSdk, deps);
    let is_named = |name: &str| wanted.iter().any(|wanted| is_same_tool(wanted, name));
    if let Some(unknown) = wanted.iter().find(|wanted| {
        let mut names = all.iter().map(|tool| &tool.spec().name);
        !names.any(|name| is_same_tool(wanted, name))
    }) {
        let names: Vec<_> = all.iter().map(|tool| &*tool.spec().name).collect();
        return Err(
            Error::usage(format!("an agent has no built-in tool `{unknown}`"))
                .hint(format!("there are: {}", names.join(", "))),
        );
    }
    let mut tools = all;
    tools.retain(|tool| is_named(&tool.spec().name));
    Ok(tools)
}
