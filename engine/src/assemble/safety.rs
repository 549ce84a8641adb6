//! The permissions of a session, given its sandbox status; questions about hosts; notices about both.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ah_agent::skills::Skills;
use ah_agent::{Audience, CommandFiles, Refusals, no_refusals};
use ah_config::Config;
use ah_config::rulebook::SettingsFiles;
use ah_conversation::{
    Denied, Embedded, HostPermission, Interface, PermissionMode, Permissions, Rule,
};
use ah_sandbox::{Bounds, Egress, HostDecision, Withheld};
use ah_store::{BigFiles, SessionStore};

use crate::confinement::command_files::{self, AgentFiles, CommandJournal};
use crate::confinement::{Confined, Fallback, Obstacle, SandboxStatus};

/// Returns the permissions. Unless a mode is set, confined commands need no question. Others, and those whose sandbox is
/// a weak fallback, are asked about; without a person to ask, only reading is allowed.
pub fn permissions(
    sandbox_status: &SandboxStatus,
    has_person: bool,
    config: &Config,
) -> Permissions {
    let mut permissions = config.permissions();
    let confined = sandbox_status.confined();
    let is_confined = confined.is_some_and(|confined| !confined.is_weak());
    // Namespaces hide the file; elsewhere a rule does.
    let is_hidden =
        confined.is_some_and(|confined| confined.sandbox.confinement().tier.has_namespaces());
    let key_file = config.key_file().filter(|_| !is_hidden);
    let target = key_file
        .as_ref()
        .and_then(|path| fs::canonicalize(path).ok());
    let hidden = key_file
        .into_iter()
        .chain(target)
        .chain(config.secret_files());
    permissions.deny.extend(hidden.map(|path| Rule {
        tool: "Read".to_owned(),
        content: Some(format!("/{}", path.display())),
        kept: None,
    }));
    // A host decides in every mode, as the SDKs promise.
    let host = &config.run.host;
    permissions.plan_asks = config.interface == Interface::AgentSdk
        && (host.decides_permissions || host.permission_tool.is_some());
    if let Some(confined) = confined {
        let list = confined.sandbox.proxy().allowlist();
        let hosts = list.tunnels.iter().filter(|to| !list.denies(to));
        permissions.hosts = hosts.map(|to| to.host.to_string()).collect();
    }
    permissions.confined = is_confined;
    if config.leaves_mode_open() || permissions.mode == PermissionMode::Sandboxed {
        permissions.mode = match permissions.in_force(PermissionMode::Sandboxed) {
            PermissionMode::Default if !has_person => PermissionMode::DontAsk,
            mode => mode,
        };
    } else if is_confined
        && config.interface == Interface::AgentSdk
        && config.sandbox.spares_questions
    {
        permissions.allow.extend("Bash".parse::<Rule>());
    }
    permissions.before_plan = permissions.in_force(match (config.before_plan, config.interface) {
        (Some(before), _) => before,
        // As a session that is begun without a mode.
        (None, Interface::Native) => PermissionMode::Sandboxed,
        (None, Interface::AgentSdk) => PermissionMode::Default,
    });
    permissions
}

/// Returns what may be read unasked besides the working directories, where that is limited: the files that the model is told
/// of. `None` if everything may be.
pub fn readable(store: &SessionStore, skills: &Skills, config: &Config) -> Option<Vec<PathBuf>> {
    if config.interface == Interface::Native {
        return None;
    }
    let outputs = store.outputs();
    let own = [outputs, Path::new(Embedded::ROOT), Path::new("/dev/null")];
    let plugins = { config.plugins.iter() }.map(|plugin| plugin.root.as_path());
    let folders = skills.iter().map(|skill| skill.base());
    let all = own.into_iter().chain(config.unpacked.as_deref());
    let real = |path: &Path| {
        // The outputs come later.
        let around = || {
            let folder = fs::canonicalize(path.parent()?).ok()?;
            Some(folder.join(path.file_name()?))
        };
        let real = fs::canonicalize(path).ok().or_else(around);
        real.unwrap_or_else(|| path.to_owned())
    };
    Some(all.chain(plugins).chain(folders).map(real).collect())
}

/// Returns a one-line notice about restrictions that the user should know, and about those that this machine lacks.
pub fn notice(sandbox_status: &SandboxStatus, has_person: bool, config: &Config) -> Option<String> {
    let is_open = config.leaves_mode_open();
    let is_unasked = config.permission_mode.value == PermissionMode::BypassPermissions;
    let of_sandbox = of_sandbox(sandbox_status, has_person, is_open, is_unasked);
    let denied = || config.permissions().denied_to("");
    let missing = match sandbox_status.confined() {
        Some(_) => None,
        None => missing(&denied()),
    };
    let all: Vec<_> = of_sandbox.into_iter().chain(missing).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// Returns what nothing on this machine keeps commands from that run without a sandbox, though rules or verdicts count on it.
fn missing(denied: &Denied) -> Option<String> {
    if !denied.is_empty() && !Withheld::can_be_kept() {
        let text = "deny rules match what command lines name, not what their programs do, since user namespaces are not available here";
        return Some(text.to_owned());
    }
    let text = "this kernel cannot keep a command to what was approved (no Landlock), so all but simple commands need approval";
    (!Bounds::can_be_kept()).then(|| text.to_owned())
}

fn of_sandbox(
    sandbox_status: &SandboxStatus,
    has_person: bool,
    is_open: bool,
    is_unasked: bool,
) -> Option<String> {
    let what = if is_unasked {
        "tools run without questions and with your full permissions"
    } else if has_person {
        "commands run with your full permissions, so ah asks before each one"
    } else {
        "commands would run with your full permissions, so this run is read-only"
    };
    match sandbox_status {
        SandboxStatus::Inside(confined) => {
            let fallback = confined.fallback.as_ref();
            let fallback = fallback
                .map(|fallback| of_fallback(confined, fallback, is_open.then_some(has_person)));
            let remarks = confined.sandbox.confinement().remarks.iter().cloned();
            let all: Vec<_> = fallback.into_iter().chain(remarks).collect();
            (!all.is_empty()).then(|| all.join("; "))
        }
        SandboxStatus::Unavailable(Obstacle { reason, remedy }) if is_open || is_unasked => {
            let otherwise = if is_unasked {
                ""
            } else {
                "; or set --permission-mode"
            };
            Some(format!("{what}: {reason}; {remedy}{otherwise}"))
        }
        SandboxStatus::Off if is_open => Some(format!("{what}; change with --permission-mode")),
        SandboxStatus::Unavailable(_) | SandboxStatus::Off => None,
    }
}

/// Returns the notice about a sandbox of a weaker tier; `asks` says whether there is a person to ask, if it depends on the
/// sandbox whether to ask.
fn of_fallback(confined: &Confined, fallback: &Fallback, asks: Option<bool>) -> String {
    let obstacle = match fallback {
        Fallback::Nested => {
            return "ah runs inside another sandbox and cannot build its own: commands are sandboxed only by Landlock"
                .to_owned();
        }
        Fallback::Unavailable(Obstacle { reason, remedy }) => format!("{reason}; {remedy}"),
    };
    let what = match asks {
        _ if !confined.is_weak() => "commands are sandboxed by namespaces, without Landlock",
        None => "commands are sandboxed only by Landlock, without network",
        Some(true) => {
            "commands are sandboxed only by Landlock, without network, so ah asks before each one"
        }
        Some(false) => "commands would be sandboxed only by Landlock, so this run is read-only",
    };
    format!("{what}: {obstacle}")
}

/// Returns the source of connections that the sandbox refuses.
pub fn refusals(sandbox_status: &SandboxStatus) -> Refusals {
    match sandbox_status.confined() {
        None => no_refusals(),
        Some(confined) => {
            let sandbox = confined.sandbox.clone();
            Arc::new(move || {
                let refused = sandbox.proxy().take_refusals();
                (!refused.is_empty()).then(|| {
                    format!(
                        "the sandbox refused connections: {}. In the user's settings: `sandbox.allowHosts`",
                        refused.join("; ")
                    )
                })
            })
        }
    }
}

/// Returns the journal of files that commands change; `None` if the sandbox cannot see them, or there is none.
pub fn command_files(
    sandbox_status: &SandboxStatus,
    store: &SessionStore,
    config: &Config,
) -> Option<Arc<dyn CommandFiles>> {
    let sandbox = &sandbox_status.confined()?.sandbox;
    if !sandbox.can_record_changes() {
        return None;
    }
    let folder = command_files::folder(store, config);
    let journal = Arc::new(CommandJournal::new(
        folder,
        BigFiles::new(store.outputs().to_owned()),
        config.permissions().roots(),
        config,
    ));
    let files = Arc::new(AgentFiles::of_main(journal));
    sandbox.record_changes(files.clone());
    Some(files)
}

/// Lets the host decide whether commands may reach a host that is not allowed.
pub fn ask_about_hosts(sandbox_status: &SandboxStatus, audience: &Audience, config: &Config) {
    let Some(confined) = sandbox_status.confined() else {
        return;
    };
    // Weak, because the sandbox must not keep the session alive.
    let (asked, files) = (Arc::downgrade(&audience.host), SettingsFiles::of(config));
    let notice = audience.notices();
    confined
        .sandbox
        .proxy()
        .set_prompt(Box::new(move |to, way| {
            let (asked, files) = (asked.upgrade(), files.clone());
            let notice = notice.clone();
            Box::pin(async move {
                let Some(asked) = asked else {
                    return HostDecision::Deny;
                };
                let host = to.to_string();
                let permission = asked.new_host(&host).await;
                match permission {
                    HostPermission::No => HostDecision::Deny,
                    HostPermission::Once => HostDecision::AllowOnce,
                    HostPermission::Session => HostDecision::Allow,
                    HostPermission::Project | HostPermission::Always => {
                        let key = match way {
                            Egress::Tunnel => "allowHosts",
                            Egress::Http => "allowHttp",
                        };
                        if let Err(error) = files.allow_host(key, &host, permission) {
                            notice(&format!("allowed for this session only: {error}"));
                        }
                        HostDecision::Allow
                    }
                }
            })
        }));
}
