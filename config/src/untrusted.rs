//! The settings of an untrusted project that count: those that make a run safer, and harmless ones.

use ah_conversation::PermissionMode;

use crate::settings::web::WebSettings;
use crate::settings::{PermissionSettings, Settings};

/// Prefix of a model's name that stands for a scenario file.
const SCRIPT: &str = "script:";

/// Returns whether a model of this name is a file.
pub fn is_file(model: &str) -> bool {
    model.starts_with(SCRIPT)
}

/// Removes from `settings` the values that need trust; returns their keys.
pub fn restrict(settings: &mut Settings) -> Vec<&'static str> {
    // Each setting is named here, so that a new one cannot be forgotten.
    let Settings {
        model,
        fallback_models,
        compaction_model,
        tools,
        requests,
        exchange,
        check,
        conversation,
        providers,
        api_key_helper,
        mcp_servers,
        permissions:
            PermissionSettings {
                allow,
                ask: _,
                deny: _,
                additional_directories,
                // It counts if it is stricter.
                default_mode: _,
                forbids_bypass: _,
            },
        // A project, trusted or not, keeps only stricter values here.
        sandbox: _,
        hooks,
        disable_all_hooks,
        env,
        trusted_folders,
        web,
        work,
    } = settings;
    let mut taken = take_files([model, compaction_model], fallback_models);
    taken.extend(tools.restrict());
    taken.extend(requests.restrict());
    taken.extend(exchange.restrict());
    taken.extend(check.restrict());
    taken.extend(conversation.restrict());
    let mut take = |key, is_there: bool| taken.extend(is_there.then_some(key));
    take("providers", !std::mem::take(providers).is_empty());
    take("apiKeyHelper", api_key_helper.take().is_some());
    take("mcpServers", !std::mem::take(mcp_servers).is_empty());
    take("permissions.allow", !std::mem::take(allow).is_empty());
    let directories = std::mem::take(additional_directories);
    take("permissions.additionalDirectories", !directories.is_empty());
    take("hooks", !std::mem::take(hooks).is_empty());
    // They may be the user's guards.
    take("disableAllHooks", disable_all_hooks.take().is_some());
    take("web", std::mem::take(web) != WebSettings::default());
    take("work", work.take().is_some());
    take("env", !std::mem::take(env).is_empty());
    let folders = std::mem::take(trusted_folders);
    take("trustedFolders", !folders.is_empty());
    taken
}

/// Removes the models that are files; returns their keys.
fn take_files(
    [model, compaction_model]: [&mut Option<String>; 2],
    fallback_models: &mut Option<Vec<String>>,
) -> Vec<&'static str> {
    let mut taken = Vec::new();
    for (key, model) in [("model", model), ("compactionModel", compaction_model)] {
        let file = model.take_if(|name| is_file(name));
        taken.extend(file.map(|_| key));
    }
    let files = fallback_models.take_if(|names| names.iter().any(|name| is_file(name)));
    taken.extend(files.map(|_| "fallbackModel"));
    taken
}

/// Returns the mode if an untrusted project asks for `wanted`; `None` if it would allow more.
pub fn stricter(held: PermissionMode, wanted: PermissionMode) -> Option<PermissionMode> {
    (strictness(wanted) > strictness(held)).then_some(wanted)
}

fn strictness(mode: PermissionMode) -> u8 {
    match mode {
        PermissionMode::BypassPermissions => 0,
        PermissionMode::Sandboxed => 1,
        PermissionMode::AcceptEdits => 2,
        PermissionMode::Default => 3,
        PermissionMode::DontAsk => 4,
        PermissionMode::Plan => 5,
        PermissionMode::Delegate => 6,
    }
}
