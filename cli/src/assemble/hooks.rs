//! The hooks of the settings, as the engine asks them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ah_agent::hooks::{CommandHook, Hook, Hooks, Matcher, Subject};
use ah_store::Session;
use ah_tools::Shell;

use crate::config::settings::HookSetting;
use crate::config::{Config, Sourced};
use crate::confinement::Standing;

/// How long a hook may take where its settings say nothing.
const HOOK_TIMEOUT: Duration = Duration::from_secs(60);

/// The hooks of the settings, and `more` behind them; `transcript_path` is what they are told of the conversation. One that is to be confined runs so, or not at all where that cannot be.
pub fn of(
    store: &Session,
    transcript_path: PathBuf,
    config: &Config,
    standing: &Standing,
    more: Vec<Arc<dyn Hook>>,
) -> Hooks {
    let environment = &config.environment;
    let variables: Vec<(String, String)> = environment
        .for_children()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let project = config.project_root.to_string_lossy().into_owned();
    let project = ("CLAUDE_PROJECT_DIR".to_owned(), project);
    let shell = Shell::new(environment).program;
    let hook = |setting: &Sourced<HookSetting>| -> Arc<dyn Hook> {
        let setting = &setting.value;
        let confined = standing.confined().filter(|_| setting.is_confined);
        let seen = confined.map_or(&variables, |confined| &confined.variables);
        let given = setting.timeout.map(Duration::try_from_secs_f64);
        Arc::new(CommandHook {
            event: setting.event,
            matcher: Matcher::new(setting.matcher.as_deref()),
            command: setting.command.clone(),
            timeout: given.and_then(Result::ok).unwrap_or(HOOK_TIMEOUT),
            is_async: setting.is_async,
            shell: shell.clone(),
            cwd: environment.cwd().to_owned(),
            environment: seen.iter().chain([&project]).cloned().collect(),
            sandbox: confined.map(|confined| confined.sandbox.clone()),
        })
    };
    let subject = Subject {
        session_id: store.uuid().to_owned(),
        transcript_path,
        cwd: environment.cwd().to_owned(),
    };
    let may_run = |setting: &&Sourced<HookSetting>| match standing {
        Standing::Missing(_) if setting.value.is_confined => {
            let command = &setting.value.command;
            crate::warn(&format!(
                "the hook `{command}` is left out: there is no sandbox for it"
            ));
            false
        }
        Standing::Inside(_) | Standing::Missing(_) | Standing::Outside => true,
    };
    let hooks = config.hooks.iter().filter(may_run).map(hook).chain(more);
    Hooks::new(hooks.collect(), subject)
}
