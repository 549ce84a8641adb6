//! What a session allows, given where its commands run; who is asked, and what the user is told of it.

use std::sync::Arc;

use ah_agent::Frontend;
use ah_config::Config;
use ah_config::rulebook::SettingsFiles;
use ah_conversation::{HostPermission, Interface, PermissionMode, Permissions, Rule};
use ah_sandbox::{Egress, HostDecision};

use crate::confinement::{Obstacle, SandboxStatus};

/// What is allowed. Where nobody has said it, commands that are confined need no question; others are asked about, and
/// where nobody can be asked, only what reads happens.
pub fn permissions(
    sandbox_status: &SandboxStatus,
    has_person: bool,
    config: &Config,
) -> Permissions {
    let mut permissions = config.permissions();
    let is_confined = sandbox_status.confined().is_some();
    if let Some(confined) = sandbox_status.confined() {
        let list = confined.sandbox.proxy().allowlist();
        let hosts = list.tunnels.iter().filter(|to| !list.denies(to));
        permissions.hosts = hosts.map(|to| to.host.to_string()).collect();
    }
    if config.leaves_mode_open() {
        permissions.confined = is_confined;
        permissions.mode = if has_person {
            PermissionMode::Default
        } else {
            PermissionMode::DontAsk
        };
    } else if is_confined
        && config.interface == Interface::AgentSdk
        && config.sandbox.spares_questions
    {
        permissions.allow.extend("Bash".parse::<Rule>());
    }
    permissions
}

/// What the user should know of it, in a line.
pub fn notice(sandbox_status: &SandboxStatus, has_person: bool, config: &Config) -> Option<String> {
    let is_open = config.leaves_mode_open();
    let is_unasked = config.permission_mode.value == PermissionMode::BypassPermissions;
    let what = if is_unasked {
        "tools run unasked and with your rights"
    } else if has_person {
        "commands run with your rights, and you are asked about each"
    } else {
        "commands would run with your rights, so this run only reads"
    };
    match sandbox_status {
        SandboxStatus::Inside(confined) if confined.is_inner => Some(
            "within another sandbox none can be built: commands are confined by Landlock alone"
                .to_owned(),
        ),
        SandboxStatus::Unavailable(Obstacle { reason, remedy }) if is_open || is_unasked => {
            let otherwise = match is_unasked {
                true => "",
                false => "; or say what may happen with --permission-mode",
            };
            Some(format!("{what}: {reason}; {remedy}{otherwise}"))
        }
        SandboxStatus::Off if is_open => {
            Some(format!("{what}; --permission-mode says what may happen"))
        }
        SandboxStatus::Inside(_) | SandboxStatus::Unavailable(_) | SandboxStatus::Off => None,
    }
}

/// Has whoever can be asked say whether commands may reach a host that is not allowed.
pub fn ask_about_hosts(
    sandbox_status: &SandboxStatus,
    frontend: &Arc<dyn Frontend>,
    config: &Config,
) {
    let Some(confined) = sandbox_status.confined() else {
        return;
    };
    // The sandbox outlives no session, and holds none.
    let (frontend, files) = (Arc::downgrade(frontend), SettingsFiles::of(config));
    confined
        .sandbox
        .proxy()
        .set_prompt(Box::new(move |to, way| {
            let (frontend, files) = (frontend.upgrade(), files.clone());
            Box::pin(async move {
                let Some(frontend) = frontend else {
                    return HostDecision::Deny;
                };
                let host = to.to_string();
                match frontend.new_host(&host).await {
                    HostPermission::No => HostDecision::Deny,
                    HostPermission::Once => HostDecision::AllowOnce,
                    HostPermission::Session => HostDecision::Allow,
                    HostPermission::Always => {
                        let key = match way {
                            Egress::Tunnel => "allowHosts",
                            Egress::Http => "allowHttp",
                        };
                        if let Err(fault) = files.allow_host(key, &host) {
                            frontend.notice(&format!("it holds for this session only: {fault}"));
                        }
                        HostDecision::Allow
                    }
                }
            })
        }));
}
