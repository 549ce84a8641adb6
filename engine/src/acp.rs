//! Sessions for code editors, which drive them by the Agent Client Protocol.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use ah_acp::{
    Command, Engine, Listed, Offered, Opened, Project, Prompt, Refusal, Served, Wanted, serve,
    stdio,
};
use ah_agent::Audience;
use ah_agent::hooks::LineHooks;
use ah_agent::skills::Skills;
use ah_config::overlay::Overlay;
use ah_config::overrides::{McpSource, SystemPromptSource};
use ah_config::{Config, Error, ErrorKind, Origin, Overrides, Sourced, extensions};
use ah_conversation::{ContentBlock, Environment, Image, Interface, MailKind, Servers};
use ah_store::{Paths, Queue, SessionHead, SessionStore};
use async_trait::async_trait;
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use crate::assemble::{self, HostExtensions, SessionInputs};
use crate::confinement::SandboxProbe;
use crate::expand::expand;
use crate::mentions;
use crate::model::{self, Catalogued};
use crate::open::{self, open};
use crate::plan::{SessionChoice, SessionPlan};
use crate::serve::models;
use crate::served;
use crate::session_folders::{directory, everywhere, sessions, title};
use crate::warn::Warn;

/// An editor to serve, and what its sessions start with.
pub struct EditorRequest<'a> {
    /// The choices of the command line.
    pub overrides: Overrides,
    /// The configuration of the folder that the program was started in.
    pub config: &'a Config,
    /// The files in the executable.
    pub overlay: Overlay,
    /// Ends all sessions when cancelled.
    pub stop: &'a CancellationToken,
    /// Callback for warnings.
    pub warn: Warn,
}

/// Serves the editor at standard input and output until it ends.
///
/// # Errors
///
/// If the connection fails.
pub async fn serve_editor(request: EditorRequest<'_>) -> Result<(), Error> {
    let opener = Arc::new(EditorSessions {
        overrides: request.overrides,
        config: request.config.clone(),
        overlay: request.overlay,
        warn: request.warn.clone(),
    });
    match serve(stdio(), opener, request.warn, request.stop).await {
        Served::Ended => Ok(()),
        Served::Failed(text) => Err(Error::failure(format!("the connection failed: {text}"))),
    }
}

/// Opens the sessions of an editor.
struct EditorSessions {
    overrides: Overrides,
    config: Config,
    overlay: Overlay,
    warn: Warn,
}

impl EditorSessions {
    /// Returns the configuration of a folder.
    fn config_of(&self, wanted: &Wanted) -> Result<Config, Error> {
        let variables = self.config.environment.all();
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let environment = Environment::new(variables, wanted.folder.clone());
        let mut overrides = self.overrides.clone();
        let directories = wanted.directories.iter().cloned();
        overrides.directories.extend(directories);
        if let Some(given) = wanted.system_prompt.clone() {
            let prompt = &mut overrides.run.prompt;
            if given.replaces {
                prompt.system_prompt = Some(SystemPromptSource::Text(given.text));
            } else {
                let own = prompt.append_system_prompt.take().into_iter();
                let all: Vec<_> = own.chain([given.text]).collect();
                prompt.append_system_prompt = Some(all.join("\n\n"));
            }
        }
        let servers = McpSource::of_values("the editor", &wanted.servers);
        overrides.mcp_servers.push(servers);
        let mut config = Config::resolve(overrides, Interface::Native, environment, &self.overlay)?;
        // The editor's user has set them up, and most of them lie elsewhere than the project. Their calls are asked about.
        let is_given = |entry: &Sourced<_>| entry.origin == Origin::CommandLine;
        let given = config
            .mcp_servers
            .iter()
            .filter(|(name, entry)| is_given(entry) && wanted.servers.contains_key(name.as_str()));
        let free: Vec<_> = given
            .map(|(name, entry)| Sourced {
                value: name.clone(),
                origin: entry.origin.clone(),
            })
            .collect();
        config.sandbox.unconfined_servers.extend(free);
        Ok(Config {
            unpacked: self.config.unpacked.clone(),
            ..config
        })
    }

    async fn opened(&self, wanted: &Wanted, audience: Audience) -> Result<Opened, Error> {
        let mut config = self.config_of(wanted)?;
        config
            .warnings
            .iter()
            .for_each(|text| audience.notice(text));
        let trust = config.trust.notice();
        trust.iter().for_each(|text| audience.notice(text));
        let mut warnings = Vec::new();
        let probe = SandboxProbe::begin(&config, &mut warnings)?;
        let mut first_words = None;
        if let Some(main) = assemble::as_main(&config)? {
            config = main.config;
            first_words = main.first_words;
        }
        let (skills, notices) = extensions::skills(&config);
        let skills = Arc::new(skills);
        let plan = SessionPlan {
            choice: match &wanted.stored {
                Some(id) => SessionChoice::Find(id.clone()),
                None => SessionChoice::New,
            },
            fork: wanted.forks,
            ephemeral: config.run.is_ephemeral && wanted.stored.is_none(),
            ..SessionPlan::default()
        };
        let told = audience.clone();
        let inputs = SessionInputs {
            skills: &skills,
            active: None,
            sandbox: probe.status(),
            has_person: true,
            host: None,
            hooks: Vec::new(),
            extensions: HostExtensions::default(),
            warn: Arc::new(move |text: &str| told.notice(text)),
        };
        let shown = audience.clone();
        let opened = open(&plan, &config, None, inputs, |_| shown).await?;
        let open::Opened {
            session,
            store,
            warnings: more,
        } = opened;
        let stored = store.take_notices().await;
        let stored = stored.iter().map(ToString::to_string);
        let all = warnings
            .into_iter()
            .chain(notices)
            .chain(more)
            .chain(stored);
        all.for_each(|text| audience.notice(&text));
        let id = store.id().to_string();
        if !wanted.forks && wanted.stored.as_ref().is_some_and(|named| *named != id) {
            return Err(Error::failure(format!(
                "there is no session with exactly the id `{}`",
                wanted.stored.as_deref().unwrap_or_default()
            )));
        }
        let servers = session.tools().servers().cloned();
        let line_hooks = session.line_hooks();
        Ok(Opened {
            session,
            id,
            folder: wanted.folder.clone(),
            models: Arc::new(Catalogued::new(config.clone(), self.warn.clone())),
            offered: offered(&config),
            commands: commands(&config, &skills),
            project: Box::new(EditorProject {
                store: Mutex::new(Some(store)),
                servers,
                skills,
                config,
                probe,
                line_hooks,
                first_words: Mutex::new(first_words),
                warn: self.warn.clone(),
            }),
        })
    }

    fn listed(&self, folder: Option<&Path>) -> Result<Vec<SessionHead>, Error> {
        let Some(folder) = folder else {
            return Ok(everywhere(&self.config)?.heads);
        };
        let wanted = Wanted {
            folder: folder.to_owned(),
            ..Wanted::default()
        };
        let mut heads = sessions(&self.config_of(&wanted)?).list()?;
        heads.sort_by_key(|head| std::cmp::Reverse(head.last_written));
        Ok(heads)
    }
}

#[async_trait]
impl Engine for EditorSessions {
    async fn open(&self, wanted: &Wanted, audience: Audience) -> Result<Opened, Refusal> {
        self.opened(wanted, audience).await.map_err(refusal)
    }

    fn list(&self, folder: Option<&Path>) -> Result<Vec<Listed>, Refusal> {
        let heads = self.listed(folder).map_err(refusal)?.into_iter();
        let heads = heads.filter(|head| head.problem.is_none() && head.messages > 0);
        Ok(heads.filter_map(|head| listed(&head, folder)).collect())
    }

    fn delete(&self, id: &str) -> Result<(), Refusal> {
        let heads = self.listed(None).map_err(refusal)?;
        let head = heads.iter().find(|head| head.id.to_string() == id);
        let folder = head.and_then(directory);
        let wanted = Wanted {
            folder: folder.unwrap_or_else(|| self.config.environment.cwd().to_owned()),
            ..Wanted::default()
        };
        let removed = self.config_of(&wanted).and_then(|config| {
            let sessions = sessions(&config);
            let paths = sessions.find(id)?;
            if paths.id().is_none_or(|found| found.to_string() != id) {
                return Err(Error::failure(format!(
                    "there is no session with the id `{id}`"
                )));
            }
            sessions
                .remove(&paths)
                .map_err(|error| Error::failure(error.to_string()))
        });
        removed.map_err(refusal)
    }

    fn has_key(&self) -> bool {
        // Read again: the key may have been kept a moment ago.
        let wanted = Wanted {
            folder: self.config.environment.cwd().to_owned(),
            ..Wanted::default()
        };
        let config = self.config_of(&wanted);
        config.is_ok_and(|config| model::credentials(&config).is_ok())
    }
}

/// The folder of a session.
struct EditorProject {
    /// `None` once it was given up.
    store: Mutex<Option<Arc<SessionStore>>>,
    /// The MCP servers, until the session is given up.
    servers: Option<Arc<dyn Servers>>,
    skills: Arc<Skills>,
    config: Config,
    probe: SandboxProbe,
    line_hooks: LineHooks,
    /// Text that the first prompt begins with, until it has come.
    first_words: Mutex<Option<String>>,
    warn: Warn,
}

impl EditorProject {
    async fn expanded(&self, prompt: Prompt) -> Result<Vec<ContentBlock>, Error> {
        let (skills, config) = (&self.skills, &self.config);
        let given = config.run.prompt.skill.as_deref();
        let hooks = || self.line_hooks.clone();
        let expanded = expand(&prompt.text, given, skills, config, &self.probe, &hooks).await?;
        expanded.warnings.iter().for_each(|text| (self.warn)(text));
        let first_words = take(&self.first_words);
        let before = first_words.map_or_else(String::new, |words| format!("{words}\n\n"));
        let pictures = prompt.pictures.iter().map(|data| picture(data));
        let pictures = pictures.collect::<Result<_, _>>()?;
        let blocks = mentions::blocks(&expanded, &before, pictures, config)?;
        let mut blocks = served::with(self.servers.as_ref(), &expanded, blocks, config).await?;
        let attached = prompt.attached.into_iter().map(ContentBlock::text);
        // The words stay behind what they are about.
        let at = blocks.len().saturating_sub(1);
        blocks.splice(at..at, attached);
        blocks.retain(|block| block.as_text().is_none_or(|text| !text.trim().is_empty()));
        Ok(blocks)
    }
}

#[async_trait]
impl Project for EditorProject {
    async fn content(&self, prompt: Prompt) -> Result<Vec<ContentBlock>, Refusal> {
        self.expanded(prompt).await.map_err(refusal)
    }

    async fn keep_model(&self, name: &str) -> Result<(), Refusal> {
        let store = self
            .store
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let Some(store) = store else { return Ok(()) };
        let kept = store.set_model(name.to_owned()).await;
        kept.map_err(refusal)
    }

    fn steer(&self, words: &str) -> Result<(), Refusal> {
        let store = { self.store.lock() }
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let Some(store) = store else { return Ok(()) };
        let paths = Paths::of(store.path());
        let queued = Queue::open(&paths).and_then(|queue| queue.send(MailKind::Steer, words));
        queued.map(drop).map_err(refusal)
    }

    async fn more_commands(&self) -> Vec<Command> {
        let Some(servers) = &self.servers else {
            return Vec::new();
        };
        servers.ready(assemble::PATIENCE).await;
        servers.prompts_known(assemble::PATIENCE).await;
        let prompts = servers.prompts().into_iter().map(|prompt| Command {
            name: prompt.command(),
            hint: Some(prompt.hint()).filter(|hint| !hint.is_empty()),
            description: prompt.description,
        });
        prompts.collect()
    }

    async fn leave(&self) {
        let Some(store) = take(&self.store) else {
            return;
        };
        let is_empty = store.read(|tree| Ok(tree.heads()?.is_empty())).await;
        let paths = Paths::of(store.path());
        // Still locked, so no other process has started to use it.
        drop(store);
        if is_empty.is_ok_and(|is_empty| is_empty) {
            // `ah gc` removes what cannot be removed now.
            let _ = sessions(&self.config).remove(&paths);
        }
    }
}

fn refusal(error: impl Into<Error>) -> Refusal {
    let error = error.into();
    Refusal {
        is_without_key: error.kind == ErrorKind::Provider,
        text: error.in_one_line(),
    }
}

/// Returns a picture of an editor in a form that models accept.
fn picture(data: &str) -> Result<Image, Error> {
    ah_tools::picture_in_base64(data)
        .map_err(|error| Error::failure(format!("the attached picture {error}")))
}

/// Returns the models that have a short name.
fn offered(config: &Config) -> Vec<Offered> {
    // The first is the one of the settings, under the name `default`.
    let models = models(config).into_iter().skip(1);
    let offered = models.map(|model| Offered {
        alias: model.value,
        name: model.resolved,
    });
    offered.collect()
}

fn commands(config: &Config, skills: &Skills) -> Vec<Command> {
    let (commands, _) = extensions::commands(config);
    let commands = commands.iter().map(|command| Command {
        name: command.name.clone(),
        description: command.description.clone(),
        hint: command.argument_hint.clone(),
    });
    let skills = skills.iter().filter(|skill| skill.is_command);
    let skills = skills.map(|skill| Command {
        name: skill.name.clone(),
        description: skill.description.clone(),
        hint: None,
    });
    commands.chain(skills).collect()
}

/// Returns a session as an editor lists it; `None` if its folder is not known.
fn listed(head: &SessionHead, folder: Option<&Path>) -> Option<Listed> {
    let folder = folder.map(Path::to_owned).or_else(|| directory(head))?;
    Some(Listed {
        id: head.id.to_string(),
        folder,
        title: title(head),
        updated: Timestamp::from_millisecond(head.last_written.0)
            .unwrap_or_default()
            .to_string(),
    })
}

fn take<T>(value: &Mutex<Option<T>>) -> Option<T> {
    value.lock().unwrap_or_else(PoisonError::into_inner).take()
}
