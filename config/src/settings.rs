//! One settings file: JSON with known keys; errors name line and column.

pub mod check;
pub mod conversation;
pub mod exchange;
mod file;
mod group;
pub mod requests;
mod sandbox;
pub mod tools;
pub mod web;
pub mod work;

use std::collections::BTreeMap;
use std::path::PathBuf;

use ah_agent::hooks::{HookEvent, HookFault, HookGroup, HookSetting};
use ah_conversation::{PermissionMode, Rule, json};
use ah_mcp::ServerEntry;
use ah_provider::named_server::NamedServer;
use serde_json::value::RawValue;

use crate::error::Error;
use check::CheckSettings;
use conversation::ConversationSettings;
use exchange::ExchangeSettings;
use file::File;
use requests::RequestSettings;
pub use sandbox::SandboxSettings;
use tools::ToolSettings;
use web::WebSettings;
use work::WorkSettings;

/// Content of one settings file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Settings {
    /// The model.
    pub model: Option<String>,
    /// The fallback models, in order.
    pub fallback_models: Option<Vec<String>>,
    /// The model for summaries.
    pub compaction_model: Option<String>,
    /// Tools and their calls.
    pub tools: ToolSettings,
    /// What a request to the model asks for.
    pub requests: RequestSettings,
    /// The exchange with model servers.
    pub exchange: ExchangeSettings,
    /// Servers by name.
    pub providers: BTreeMap<String, NamedServer>,
    /// Command that prints the key of the Messages API, the other agent's setting.
    pub api_key_helper: Option<String>,
    /// MCP servers by name.
    pub mcp_servers: BTreeMap<String, ServerEntry>,
    /// Permission rules and mode.
    pub permissions: PermissionSettings,
    /// The sandbox.
    pub sandbox: SandboxSettings,
    /// Hooks.
    pub hooks: Vec<HookSetting>,
    /// Whether no hooks of settings are called.
    pub disable_all_hooks: Option<bool>,
    /// Default values of environment variables.
    pub env: BTreeMap<String, String>,
    /// Trusted folders.
    pub trusted_folders: Vec<PathBuf>,
    /// Access to the web.
    pub web: WebSettings,
    /// Settings of `ah work`.
    pub work: Option<WorkSettings>,
    /// The check of a run.
    pub check: CheckSettings,
    /// The terminal conversation.
    pub conversation: ConversationSettings,
}

impl Settings {
    /// Reads the value of `key` if it is a setting of one of the groups; returns whether it is.
    fn read(&mut self, file: &File<'_>, key: &str, value: &RawValue) -> Result<bool, Error> {
        Ok(self.tools.read(file, key, value)?
            || self.requests.read(file, key, value)?
            || self.exchange.read(file, key, value)?
            || self.check.read(file, key, value)?
            || self.conversation.read(file, key, value)?)
    }
}

/// Permission settings.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PermissionSettings {
    /// Rules for allowed calls.
    pub allow: Vec<Rule>,
    /// Rules for calls that need a question, even if another rule allows them.
    pub ask: Vec<Rule>,
    /// Rules for denied calls.
    pub deny: Vec<Rule>,
    /// Working directories besides the first.
    pub additional_directories: Vec<PathBuf>,
    /// Permission mode for calls that no rule covers.
    pub default_mode: Option<PermissionMode>,
    /// Whether the mode `bypassPermissions` may not be chosen.
    pub forbids_bypass: bool,
}

/// Keys of other agents' settings that have no effect here and that no user would miss.
const FOREIGN: [&str; 6] = [
    "cleanupPeriodDays",
    "enabledPlugins",
    "extraKnownMarketplaces",
    "includeCoAuthoredBy",
    "spinnerTipsEnabled",
    "theme",
];

/// Reads the settings in `text`; the second value warns of unknown keys. `source` names the text in messages. If
/// `is_foreign`, the file may have keys for another agent only.
pub fn read(source: &str, text: &str, is_foreign: bool) -> Result<(Settings, Vec<String>), Error> {
    let mut settings = Settings::default();
    let text = text.trim_start_matches('\u{FEFF}');
    if text.trim().is_empty() {
        return Ok((settings, Vec::new()));
    }
    let text = json::whole(text);
    let mut file = File {
        source,
        text: text.as_str(),
        warnings: Vec::new(),
    };
    let top = text
        .read::<&RawValue>()
        .map_err(|error| file.error(&error, 0))?;
    for (key, value) in file.object(top)? {
        match key.as_str() {
            "$schema" => {}
            "model" => settings.model = Some(file.value(value)?),
            "fallbackModel" => settings.fallback_models = Some(file.names(value)?),
            "compactionModel" => settings.compaction_model = Some(file.value(value)?),
            "providers" => {
                for (name, value) in file.object(value)? {
                    settings.providers.insert(name, file.value(value)?);
                }
            }
            "apiKeyHelper" => settings.api_key_helper = Some(file.value(value)?),
            "mcpServers" => settings.mcp_servers = file.mcp_servers(value)?,
            "permissions" => file.permissions(value, &mut settings.permissions)?,
            "web" => settings.web = file.value(value)?,
            "sandbox" => settings.sandbox = file.sandbox(value)?,
            "work" => settings.work = Some(file.value(value)?),
            "trustedFolders" => settings.trusted_folders = file.value(value)?,
            "hooks" => settings.hooks.extend(file.hooks(value)?),
            "disableAllHooks" => settings.disable_all_hooks = Some(file.value(value)?),
            "env" => {
                for (name, value) in file.object(value)? {
                    settings.env.insert(name, file.value(value)?);
                }
            }
            _ if settings.read(&file, &key, value)? => {}
            _ if is_foreign && FOREIGN.contains(&key.as_str()) => {}
            _ => file.warn_unknown(&key, value),
        }
    }
    Ok((settings, file.warnings))
}

/// Reads a file of MCP servers such as `.mcp.json`; the second value warns of unreadable ones.
pub fn read_mcp(
    source: &str,
    text: &str,
) -> Result<(BTreeMap<String, ServerEntry>, Vec<String>), Error> {
    let text = json::whole(text.trim_start_matches('\u{FEFF}'));
    let mut file = File {
        source,
        text: text.as_str(),
        warnings: Vec::new(),
    };
    let top = text
        .read::<&RawValue>()
        .map_err(|error| file.error(&error, 0))?;
    let mut servers = BTreeMap::new();
    for (key, value) in file.object(top)? {
        if key == "mcpServers" {
            servers = file.mcp_servers(value)?;
        }
    }
    Ok((servers, file.warnings))
}

impl<'a> File<'a> {
    /// Returns the readable servers, and warns about the others.
    fn mcp_servers(&mut self, value: &'a RawValue) -> Result<BTreeMap<String, ServerEntry>, Error> {
        let mut servers = BTreeMap::new();
        for (name, value) in self.object(value)? {
            match self.value(value) {
                Ok(server) => {
                    servers.insert(name, server);
                }
                Err(error) => self
                    .warnings
                    .push(format!("{}; the MCP server is left out", error.message)),
            }
        }
        Ok(servers)
    }

    fn permissions(
        &mut self,
        value: &'a RawValue,
        permissions: &mut PermissionSettings,
    ) -> Result<(), Error> {
        for (key, value) in self.object(value)? {
            match key.as_str() {
                "allow" => permissions.allow.extend(self.rules(value)?),
                "ask" => permissions.ask.extend(self.rules(value)?),
                "deny" => permissions.deny.extend(self.rules(value)?),
                "additionalDirectories" => {
                    permissions.additional_directories = self.value(value)?;
                }
                "defaultMode" => {
                    let word: String = self.value(value)?;
                    let mode = word
                        .parse()
                        .map_err(|error: String| self.error_at(&error, value))?;
                    permissions.default_mode = Some(mode);
                }
                "disableBypassPermissionsMode" => {
                    permissions.forbids_bypass |= self.value::<String>(value)? == "disable";
                }
                _ => self.warn_unknown(&format!("permissions.{key}"), value),
            }
        }
        Ok(())
    }

    fn hooks(&mut self, value: &'a RawValue) -> Result<Vec<HookSetting>, Error> {
        let mut hooks = Vec::new();
        for (name, value) in self.object(value)? {
            let Ok(event) = name.parse::<HookEvent>() else {
                self.warn_unknown(&format!("hooks.{name}"), value);
                continue;
            };
            for group in self.value::<Vec<HookGroup>>(value)? {
                for hook in group.at(event) {
                    match hook {
                        Ok(hook) => hooks.push(hook),
                        Err(HookFault::LeftOut(kind)) => {
                            self.warn_unknown(&format!("hooks.{name}: type {kind}"), value);
                        }
                        Err(HookFault::Wrong(text)) => return Err(self.error_at(&text, value)),
                    }
                }
            }
        }
        Ok(hooks)
    }

    fn rules(&self, value: &'a RawValue) -> Result<Vec<Rule>, Error> {
        let items: Vec<&RawValue> = self.value_of(value)?;
        let rule = |item: &'a RawValue| {
            let text: String = self.value(item)?;
            text.parse::<Rule>()
                .map_err(|error| self.error_at(&error.to_string(), item))
        };
        items.into_iter().map(rule).collect()
    }
}

#[cfg(test)]
mod tests;
