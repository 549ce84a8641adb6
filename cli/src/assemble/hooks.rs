//! The hooks of the settings, as the engine asks them.

use std::sync::Arc;
use std::time::Duration;

use ah_agent::hooks::{CommandHook, Hook, Hooks, Matcher, Subject};
use ah_store::Session;
use ah_tools::Shell;

use crate::config::settings::HookSetting;
use crate::config::{Config, Sourced};

/// How long a hook may take where its settings say nothing.
const HOOK_TIMEOUT: Duration = Duration::from_secs(60);

/// The hooks of the settings, and `more` behind them.
pub fn of(store: &Session, config: &Config, more: Vec<Arc<dyn Hook>>) -> Hooks {
    let environment = &config.environment;
    let mut variables: Vec<(String, String)> = environment
        .for_children()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let project = config.project_root.to_string_lossy().into_owned();
    variables.push(("CLAUDE_PROJECT_DIR".to_owned(), project));
    let shell = Shell::new(environment).program;
    let hook = |setting: &Sourced<HookSetting>| -> Arc<dyn Hook> {
        let setting = &setting.value;
        let given = setting.timeout.map(Duration::try_from_secs_f64);
        Arc::new(CommandHook {
            event: setting.event,
            matcher: Matcher::new(setting.matcher.as_deref()),
            command: setting.command.clone(),
            timeout: given.and_then(Result::ok).unwrap_or(HOOK_TIMEOUT),
            is_async: setting.is_async,
            shell: shell.clone(),
            cwd: environment.cwd().to_owned(),
            environment: variables.clone(),
        })
    };
    let subject = Subject {
        session_id: store.uuid().to_owned(),
        transcript_path: store.path().to_owned(),
        cwd: environment.cwd().to_owned(),
    };
    Hooks::new(config.hooks.iter().map(hook).chain(more).collect(), subject)
}
