//! The hooks of the settings, ready to run.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ah_agent::hooks::{
    CommandHook, Hook, HookAction, HookCommand, HookSession, HookSetting, Hooks, LineHooks,
};
use ah_agent::{Audience, Ready, SessionUpdate, Watcher};
use ah_conversation::{Environment, Store as _};
use ah_process::Sandbox;
use ah_store::SessionStore;
use ah_tools::Shell;
use ah_transcript::{RowHead, Transcribed};

use ah_config::{Config, Error, Origin, Plugin, Sourced};

use super::post_hook::PostHook;
use crate::confinement::SandboxStatus;
use crate::identity::{STANDS_IN_FOR, SystemIds};
use crate::sessions::place;
use crate::warn::Warn;

/// Default timeout of a hook.
const HOOK_TIMEOUT: Duration = Duration::from_secs(60);

/// Returns the hooks of the settings, followed by `more`; `transcript_path` is passed to them. A hook that must be
/// confined is left out if there is no sandbox.
pub fn of(
    store: &SessionStore,
    transcript_path: PathBuf,
    config: &Config,
    sandbox_status: &SandboxStatus,
    audience: &Audience,
    more: Vec<Arc<dyn Hook>>,
) -> Hooks {
    let subject = HookSession {
        session_id: store.uuid().to_owned(),
        transcript_path,
        cwd: config.environment.cwd().to_owned(),
    };
    made(subject, config, sandbox_status, audience, more)
}

/// Returns the hooks of the settings for the lines of a command whose session is not open yet: they are told no id and
/// no transcript.
pub fn before_session(config: &Config, sandbox_status: &SandboxStatus, warn: &Warn) -> LineHooks {
    let subject = HookSession {
        cwd: config.environment.cwd().to_owned(),
        ..HookSession::default()
    };
    let audience = Audience::watching(Arc::new(Warned(warn.clone())));
    let hooks = made(subject, config, sandbox_status, &audience, Vec::new());
    LineHooks::new(hooks, audience)
}

/// Watcher before there is a session: shows notices as warnings.
struct Warned(Warn);

impl Watcher for Warned {
    fn update(&self, update: SessionUpdate<'_>) {
        if let SessionUpdate::Notice(text) = update {
            (self.0)(text);
        }
    }

    fn ready(&self) -> Option<Ready<'_>> {
        None
    }
}

fn made(
    subject: HookSession,
    config: &Config,
    sandbox_status: &SandboxStatus,
    audience: &Audience,
    more: Vec<Arc<dyn Hook>>,
) -> Hooks {
    let maker = Maker::new(
        &config.environment,
        &config.project_root,
        sandbox_status,
        audience.clone(),
    );
    let own = config.hooks.iter();
    let own = own.filter(|setting| counts(&setting.origin, config.disable_all_hooks.as_ref()));
    let own =
        own.filter_map(|setting| maker.make(&setting.value, config.plugin_of(&setting.origin)));
    let hooks = own.chain(more).collect();
    let of_agents = counts(&Origin::CommandLine, config.disable_all_hooks.as_ref());
    Hooks::new(hooks, subject)
        .with_factory(move |setting| maker.make(setting, None).filter(|_| of_agents))
}

/// Whether hooks of this origin are called. Only an administrator can turn off those of an administrator.
fn counts(origin: &Origin, disabled: Option<&Sourced<bool>>) -> bool {
    let is_managed = |origin: &Origin| matches!(origin, Origin::Managed(_));
    let disabled = disabled.filter(|it| it.value);
    disabled.is_none_or(|it| is_managed(origin) && !is_managed(&it.origin))
}

/// Returns the file with the transcript for the hooks, and the audience of the session, which keeps it. A host's session
/// has its transcript anyway; where there are no hooks it is the database.
///
/// # Errors
///
/// If the session cannot be read.
pub async fn transcript(
    store: &SessionStore,
    config: &Config,
    is_hosted: bool,
    audience: Audience,
    warnings: &mut Vec<String>,
) -> Result<(PathBuf, Audience), Error> {
    let path = place::transcript(store, config);
    let path = match path.filter(|_| is_hosted || !config.hooks.is_empty()) {
        Some(path) if is_hosted => return Ok((path, audience)),
        Some(path) => path,
        None => return Ok((store.path().to_owned(), audience)),
    };
    let head = RowHead {
        session_id: store.uuid().to_owned(),
        cwd: config.environment.cwd().to_owned(),
        version: STANDS_IN_FOR.to_owned(),
        entrypoint: "cli".to_owned(),
        agent_id: None,
    };
    let (told, ids) = (audience.notices(), Arc::new(SystemIds::default()));
    let stored = store.load().await?;
    match Transcribed::new(told, path.clone(), head, stored.messages(), ids) {
        // A message is in the file once the others were told of it.
        Ok(transcribed) => Ok((path, audience.with_first(Arc::new(transcribed)))),
        Err(error) => {
            warnings.push(format!("hooks have no transcript: {error}"));
            Ok((path, audience))
        }
    }
}

/// Shared state to create hooks from.
struct Maker {
    shell: PathBuf,
    cwd: PathBuf,
    project: String,
    /// Variables of a project's hooks: no secrets.
    variables: Vec<(String, String)>,
    /// Variables of the user's own hooks.
    own_variables: Vec<(String, String)>,
    environment: Environment,
    sandbox: Room,
    /// Receives a notice for each hook that is left out.
    audience: Audience,
}

/// The place where a hook that must be confined runs.
enum Room {
    /// In a sandbox, with these variables.
    Sandbox(Arc<Sandbox>, Vec<(String, String)>),
    /// Nowhere: the sandbox is unavailable.
    Missing,
    /// Outside of the sandbox, like all hooks.
    Outside,
}

impl Maker {
    fn new(
        environment: &Environment,
        project_root: &Path,
        sandbox_status: &SandboxStatus,
        audience: Audience,
    ) -> Self {
        let project = project_root.to_string_lossy().into_owned();
        let project_root = project.clone();
        let project = ("CLAUDE_PROJECT_DIR".to_owned(), project);
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let all = environment.all().map(owned);
        let children = environment.for_children().map(owned);
        Self {
            own_variables: all.chain([project.clone()]).collect(),
            project: project_root,
            environment: environment.clone(),
            shell: Shell::new(environment).program,
            cwd: environment.cwd().to_owned(),
            sandbox: match sandbox_status {
                SandboxStatus::Inside(confined) => {
                    let seen = confined.variables.iter().chain([&project]);
                    Room::Sandbox(confined.sandbox.clone(), seen.cloned().collect())
                }
                SandboxStatus::Unavailable(_) => Room::Missing,
                SandboxStatus::Off => Room::Outside,
            },
            variables: children.chain([project]).collect(),
            audience,
        }
    }

    /// Returns the hook of a setting; `plugin` is the plugin that it is from.
    fn make(&self, setting: &HookSetting, plugin: Option<&Plugin>) -> Option<Arc<dyn Hook>> {
        let given = setting.timeout.map(Duration::try_from_secs_f64);
        let timeout = given.and_then(Result::ok).unwrap_or(HOOK_TIMEOUT);
        match &setting.action {
            HookAction::Command(command) => self.command(setting, command, timeout, plugin),
            HookAction::Post(post) => Some(Arc::new(PostHook::new(
                setting,
                post,
                timeout,
                &self.environment,
            ))),
        }
    }

    fn command(
        &self,
        setting: &HookSetting,
        command: &HookCommand,
        timeout: Duration,
        plugin: Option<&Plugin>,
    ) -> Option<Arc<dyn Hook>> {
        let outside = match setting.is_own {
            true => &self.own_variables,
            false => &self.variables,
        };
        let (sandbox, variables) = match &self.sandbox {
            _ if !command.is_confined => (None, outside),
            Room::Outside => (None, outside),
            Room::Sandbox(sandbox, variables) => (Some(sandbox.clone()), variables),
            Room::Missing => {
                let command = setting.shown();
                self.audience.notice(&format!(
                    "the hook `{command}` is left out: it must run in the sandbox, which is unavailable"
                ));
                return None;
            }
        };
        // No shell replaces them where there are arguments.
        let placed = |word: &String| {
            let word = word.replace("${CLAUDE_PROJECT_DIR}", &self.project);
            Plugin::placed(word, plugin)
        };
        let arguments = command.arguments.as_ref();
        Some(Arc::new(CommandHook {
            setting: setting.clone(),
            command: match arguments {
                Some(_) => placed(&command.command),
                None => command.command.clone(),
            },
            arguments: arguments.map(|words| words.iter().map(placed).collect()),
            timeout,
            is_async: command.is_async,
            shell: self.shell.clone(),
            cwd: self.cwd.clone(),
            environment: variables
                .iter()
                .cloned()
                .chain(plugin.into_iter().flat_map(Plugin::variables))
                .collect(),
            sandbox,
        }))
    }
}
