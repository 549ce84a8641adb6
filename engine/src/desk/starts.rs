//! What the sessions of a desk start with: the configuration of each, and the plan for it.

use std::path::Path;

use ah_config::overrides::{McpSource, PromptOptions, SystemPromptSource};
use ah_config::{Config, Error, Origin, Overrides, Resolver, Sourced};
use ah_conversation::{PermissionMode, PermissionRequest};
use ah_desk::{At, Choices, Start, SystemPrompt, Which};
use ah_protocol::stream_json::{Served, Streams};
use ah_store::OpenError;
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;

use crate::assemble::HostExtensions;
use crate::confinement;
use crate::serve::{ServeRequest, models, serve_host};
use crate::sessions::folders::{directory, everywhere, sessions};
use crate::sessions::open::busy;
use crate::sessions::plan::{ResumePoint, SessionChoice, SessionPlan};
use crate::warn::Warn;

/// What every run starts with.
pub(super) struct Starts {
    pub resolver: Resolver,
    pub config: Config,
    pub described: fn(&PermissionRequest) -> String,
    pub warn: Warn,
}

impl Starts {
    /// Returns the configuration of a session. It is read anew, since settings may have changed.
    pub(super) fn config(
        &self,
        start: &Start,
        choose: impl FnOnce(&mut Overrides),
    ) -> Result<Config, Error> {
        let folder = start.folder.as_deref();
        let folder = folder.unwrap_or_else(|| self.config.environment.cwd());
        if let Some(mode) = start.mode
            && !self.modes().any(|offered| offered == mode)
        {
            let mode = mode.as_str();
            return Err(Error::failure(format!(
                "the permission mode `{mode}` cannot be chosen here"
            )));
        }
        let mut config = self.resolver.resolve(folder, |overrides| {
            overrides.model = start.model.clone().or(overrides.model.take());
            let directories = start.directories.iter().cloned();
            overrides.directories.extend(directories);
            overrides.permission_mode = start.mode.or(overrides.permission_mode.take());
            if let Some(given) = &start.system_prompt {
                add(given, &mut overrides.run.prompt);
            }
            let servers = McpSource::of_values("the editor", &start.servers);
            overrides.mcp_servers.push(servers);
            choose(overrides);
        })?;
        // The client's user has set them up, and most of them lie elsewhere than the project. Their calls are asked about.
        let is_given = |entry: &Sourced<_>| entry.origin == Origin::CommandLine;
        let given = config.mcp_servers.iter();
        let given = given
            .filter(|(name, entry)| is_given(entry) && start.servers.contains_key(name.as_str()));
        let free: Vec<_> = given
            .map(|(name, entry)| Sourced {
                value: name.clone(),
                origin: entry.origin.clone(),
            })
            .collect();
        config.sandbox.unconfined_servers.extend(free);
        if let Some(model) = start.lent_model.clone() {
            // It is not named for the session, so it is not recorded in it.
            config.model = Sourced {
                value: model,
                origin: Origin::File("the command of the prompt".into()),
            };
        }
        Ok(config)
    }

    /// Returns the configuration of a folder, or of the desk's.
    pub(super) fn config_of(&self, folder: Option<&Path>) -> Result<Config, Error> {
        let start = Start {
            folder: folder.map(Path::to_owned),
            ..Start::default()
        };
        self.config(&start, |_| {})
    }

    /// Returns what can be chosen for a run.
    pub(super) fn choices(&self) -> Result<Choices, Error> {
        let config = self.config_of(None)?;
        let mut offered = models(&config).into_iter();
        // The first is the one of the settings, under the name `default`.
        let model = offered.next().map(|model| model.name);
        Ok(Choices {
            model: model.unwrap_or_default(),
            models: offered.collect(),
            mode: (!config.leaves_mode_open()).then_some(config.permission_mode.value),
            modes: self.modes().collect(),
        })
    }

    /// Returns the permission modes that a client may choose. Where no sandbox confines the session, `sandboxed` is `default`.
    fn modes(&self) -> impl Iterator<Item = PermissionMode> {
        let config = &self.config;
        let own = config.permission_mode.value;
        PermissionMode::offered(own, confinement::is_wanted(config), config.may_bypass)
    }

    /// Removes a stored session of any folder.
    pub(super) fn remove(&self, id: &str) -> Result<(), Error> {
        let heads = everywhere(&self.config)?.heads;
        let head = heads.iter().find(|head| head.id.as_str() == id);
        let folder = head.and_then(directory);
        let sessions = sessions(&self.config_of(folder.as_deref())?);
        let paths = sessions.find(id)?;
        if paths.id().is_none_or(|found| found.as_str() != id) {
            let missing = format!("there is no session with the id `{id}`");
            return Err(Error::failure(missing));
        }
        sessions.remove(&paths).map_err(unopened)
    }

    /// Serves a host until it is gone.
    pub(super) fn driven(
        &self,
        start: Start,
        is_partial: bool,
        streams: Streams,
        stop: &CancellationToken,
    ) -> Result<(), Error> {
        let config = self.config(&start, |overrides| {
            overrides.run.host.answers_questions = true;
            overrides.run.host.decides_permissions = true;
            overrides.run.host.partial_messages = is_partial;
        })?;
        let (plan, fork_at) = plan(start.which);
        let request = ServeRequest {
            plan: plan.checked()?,
            fork_at,
            config: &config,
            stop,
            extensions: HostExtensions::default(),
            warn: self.warn.clone(),
        };
        let (served, refusal) = runtime()?.block_on(serve_host(streams, request))?;
        match served {
            Served::Refused => Err(refusal),
            Served::Lost(error) => Err(error.into()),
            Served::Closed(_) | Served::Ended { .. } => Ok(()),
        }
    }
}

/// Returns the error of a session that cannot be opened.
pub(super) fn unopened(error: OpenError) -> Error {
    match error {
        OpenError::Busy(holder) => busy(&holder),
        OpenError::Store(error) => error.into(),
    }
}

/// Returns the runtime of a session, which is on one thread.
pub(super) fn runtime() -> Result<Runtime, Error> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Error::failure(format!("cannot start: {error}")))
}

/// Returns the plan for a session, and the number of the message at which it goes on.
pub(super) fn plan(which: Which) -> (SessionPlan, Option<u32>) {
    let (choice, fork, at) = match which {
        Which::New => (SessionChoice::New, false, None),
        Which::Resume(id, at) => (SessionChoice::Find(id), false, at),
        Which::Fork(id, at) => (SessionChoice::Find(id), true, at),
    };
    let (at, number) = match at {
        None => (None, None),
        Some(At::Number(number)) => (None, Some(number)),
        Some(At::Message(id)) => (Some(ResumePoint::of(&id)), None),
    };
    let plan = SessionPlan {
        choice,
        fork,
        at,
        ..SessionPlan::default()
    };
    (plan, number)
}

/// Adds the system prompt of a client.
fn add(given: &SystemPrompt, prompt: &mut PromptOptions) {
    let text = given.text.clone();
    if given.replaces {
        prompt.system_prompt = Some(SystemPromptSource::Text(text));
    } else {
        let own = prompt.append_system_prompt.take().into_iter();
        let all: Vec<_> = own.chain([text]).collect();
        prompt.append_system_prompt = Some(all.join("\n\n"));
    }
}
