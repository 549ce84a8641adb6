//! The user's permission rules for command templates: lines that would run, files that would be read.
//!
//! No questions are asked here, and the line is the command's own, not the model's. So calls that no rule covers are
//! allowed, but for hosts, whose mode counts, and calls that would need a question are refused.

use std::sync::Arc;

use ah_conversation::{
    Access, Decision, Denied, Interface, PatternRoots, PermissionMode, Permissions, Rule, Tool,
    ToolUse,
};
use ah_tools::{Bash, Read, Shell, Workspace};
use serde_json::{Value, json};

use ah_config::Config;
use ah_transcript::Ids as _;

use crate::assemble::safety;
use crate::confinement::SandboxStatus;
use crate::identity::SystemIds;

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
            | PermissionMode::Sandboxed
            | PermissionMode::AcceptEdits
            | PermissionMode::DontAsk
            | PermissionMode::BypassPermissions => PermissionMode::BypassPermissions,
        };
        Self {
            permissions,
            bash: Bash::new(workspace.clone(), Shell::new(environment), config.interface),
            read: Read::new(workspace, Interface::Native),
        }
    }

    /// Returns the rules for the lines of a command that allows itself `rules`. A host has chosen a mode for all that is run,
    /// so only what it allows runs, or what a sandbox confines.
    pub fn for_lines(
        mut self,
        config: &Config,
        rules: impl Iterator<Item = Rule>,
        status: &SandboxStatus,
    ) -> Self {
        if config.interface == Interface::AgentSdk {
            self.permissions = safety::permissions(status, false, config);
            self.permissions.allow.extend(rules);
        }
        self
    }

    /// Returns the command `line` as a call, and what it would touch.
    pub fn line(&self, line: &str) -> (ToolUse, Vec<Access>) {
        called(&self.bash, json!({ "command": line }))
    }

    /// Returns what rules keep from the commands of lines.
    pub fn denied(&self) -> Denied {
        self.permissions.denied_to(&self.bash.spec().name)
    }

    /// Returns the base directories of path patterns.
    pub fn places(&self) -> &PatternRoots {
        &self.permissions.places
    }

    /// Returns the reason to refuse the command line of this call, if there is one.
    pub fn refusal_of_line(&self, call: &ToolUse, accesses: &[Access]) -> Option<String> {
        refusal(&self.permissions, call, accesses)
    }

    /// Returns the reason to refuse reading the file `path`, if there is one.
    pub fn refusal_of_file(&self, path: &str) -> Option<String> {
        // The user's own words ask for the file, so the mode that only delegates does not apply.
        let permissions = Permissions {
            mode: PermissionMode::BypassPermissions,
            ..self.permissions.clone()
        };
        let (call, accesses) = called(&self.read, json!({ "path": path }));
        refusal(&permissions, &call, &accesses)
    }
}

fn called(tool: &dyn Tool, input: Value) -> (ToolUse, Vec<Access>) {
    let call = ToolUse {
        id: SystemIds::default().fresh().into(),
        name: tool.spec().name.clone(),
        input: input.into(),
    };
    let accesses = tool.access(&call.input);
    (call, accesses)
}

fn refusal(permissions: &Permissions, call: &ToolUse, accesses: &[Access]) -> Option<String> {
    match permissions.decide(call, accesses) {
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
