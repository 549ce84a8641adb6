//! The user's permission rules for command templates: lines that would run, files that would be read.
//!
//! No questions are asked here, and the line is the command's own, not the model's. So calls that no rule covers are
//! allowed, but for hosts, whose mode counts, and calls that would need a question are refused.

use std::sync::Arc;

use ah_conversation::{Decision, Interface, PermissionMode, Permissions, Rule, Tool, ToolUse};
use ah_tools::{Bash, Read, Shell, Workspace};
use serde_json::{Value, json};

use ah_config::Config;

use crate::assemble::safety;
use crate::confinement::SandboxProbe;

/// The rules, and the tools whose calls they are matched against.
pub struct Ruled {
    permissions: Permissions,
    bash: Bash,
    read: Read,
}

impl Ruled {
    /// Returns the rules of the configuration. Modes that run no commands still do not.
    pub fn of(config: &Config) -> Self {
        let environment = &config.environment;
        let workspace = Workspace::new(environment.cwd(), environment.home(), &[]);
        let workspace = Arc::new(workspace.with_embedded(config.embedded.clone()));
        let mut permissions = config.permissions();
        permissions.mode = match permissions.mode {
            mode @ (PermissionMode::Plan | PermissionMode::Delegate) => mode,
            PermissionMode::Default
            | PermissionMode::AcceptEdits
            | PermissionMode::DontAsk
            | PermissionMode::BypassPermissions => PermissionMode::BypassPermissions,
        };
        Self {
            permissions,
            bash: Bash::new(
                workspace.clone(),
                Shell::new(environment),
                Interface::Native,
            ),
            read: Read::new(workspace, Interface::Native),
        }
    }

    /// Returns the rules for the lines of a command that allows itself `rules`. A host has chosen a mode for all that is run,
    /// so only what it allows runs, or what a sandbox confines.
    pub fn for_lines(
        mut self,
        config: &Config,
        rules: impl Iterator<Item = Rule>,
        probe: &SandboxProbe,
    ) -> Self {
        if config.interface == Interface::AgentSdk {
            self.permissions = safety::permissions(probe.status(), false, config);
            self.permissions.allow.extend(rules);
        }
        self
    }

    /// Returns the reason to refuse the command `line`, if there is one.
    pub fn refusal_of_line(&self, line: &str) -> Option<String> {
        refusal(&self.permissions, &self.bash, json!({ "command": line }))
    }

    /// Returns the reason to refuse reading the file `path`, if there is one.
    pub fn refusal_of_file(&self, path: &str) -> Option<String> {
        // The user's own words ask for the file, so the mode that only delegates does not apply.
        let permissions = Permissions {
            mode: PermissionMode::BypassPermissions,
            ..self.permissions.clone()
        };
        refusal(&permissions, &self.read, json!({ "path": path }))
    }
}

fn refusal(permissions: &Permissions, tool: &dyn Tool, input: Value) -> Option<String> {
    let call = ToolUse {
        id: "".into(),
        name: tool.spec().name.clone(),
        input: input.into(),
    };
    match permissions.decide(&call, &tool.access(&call.input)) {
        Decision::Allow => None,
        Decision::Deny(why) => Some(why),
        Decision::Ask(inquiry) => {
            let why = inquiry
                .reason
                .unwrap_or_else(|| "it needs to be allowed".to_owned());
            Some(format!("{why}, and nobody can be asked here"))
        }
    }
}
