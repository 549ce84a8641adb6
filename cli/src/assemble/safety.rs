//! What a session allows, given where its commands run; who is asked, and what the user is told of it.

use std::io::IsTerminal as _;
use std::sync::Arc;

use crate::args::options::{Options, OutputFormat};
use crate::config::Config;
use crate::config::rulebook::SettingsFiles;
use crate::confinement::{Obstacle, Standing};
use crate::print::question::Keeping;
use ah_agent::Frontend;
use ah_conversation::{Destination, HostPermission, Interface, PermissionMode, Permissions, Rule};
use ah_sandbox::{Egress, HostDecision};

/// What is allowed. Where nobody has said it, commands that are confined need no question; others are asked about, and
/// where nobody can be asked, only what reads happens.
pub fn permissions(standing: &Standing, options: &Options, config: &Config) -> Permissions {
    let mut permissions = config.permissions();
    let is_confined = standing.confined().is_some();
    if let Some(confined) = standing.confined() {
        let list = confined.sandbox.proxy().allowlist();
        let hosts = list.tunnels.iter().filter(|to| !list.denies(to));
        permissions.hosts = hosts.map(|to| to.host.to_string()).collect();
    }
    if config.leaves_mode_open() {
        permissions.confined = is_confined;
        permissions.mode = match asks(options, config) {
            Some(_) => PermissionMode::Default,
            None => PermissionMode::DontAsk,
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
pub fn notice(standing: &Standing, options: &Options, config: &Config) -> Option<String> {
    let is_open = config.leaves_mode_open();
    let is_unasked = config.permission_mode.value == PermissionMode::BypassPermissions;
    let what = match asks(options, config) {
        _ if is_unasked => "tools run unasked and with your rights",
        Some(_) => "commands run with your rights, and you are asked about each",
        None => "commands would run with your rights, so this run only reads",
    };
    match standing {
        Standing::Inside(confined) if confined.is_inner => Some(
            "within another sandbox none can be built: commands are confined by Landlock alone"
                .to_owned(),
        ),
        Standing::Missing(Obstacle { reason, remedy }) if is_open || is_unasked => {
            let otherwise = match is_unasked {
                true => "",
                false => "; or say what may happen with --permission-mode",
            };
            Some(format!("{what}: {reason}; {remedy}{otherwise}"))
        }
        Standing::Outside if is_open => {
            Some(format!("{what}; --permission-mode says what may happen"))
        }
        Standing::Inside(_) | Standing::Missing(_) | Standing::Outside => None,
    }
}

/// Has whoever can be asked say whether commands may reach a host that is not allowed.
pub fn ask_about_hosts(standing: &Standing, frontend: &Arc<dyn Frontend>, config: &Config) {
    let Some(confined) = standing.confined() else {
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

/// Where an answer that is meant for good is kept, if there is a person to be asked. What stands in a project that is
/// not trusted does not count, so there it is kept with the user's own settings.
pub fn asks(options: &Options, config: &Config) -> Option<Keeping> {
    let is_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    let is_shown = options.output.output_format.unwrap_or_default() == OutputFormat::Text;
    if config.interface != Interface::Native || !is_terminal || !is_shown {
        return None;
    }
    let destination = match config.trust.is_given() {
        true => Destination::LocalSettings,
        false => Destination::UserSettings,
    };
    let files = SettingsFiles::of(config);
    let path = files.path(destination)?;
    let shown = path.strip_prefix(config.environment.cwd()).unwrap_or(path);
    Some(Keeping {
        destination,
        shown: format!("`{}`", shown.display()),
    })
}
