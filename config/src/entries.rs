//! The settings in force as a list with origins.

use serde_json::json;

use crate::config::Config;
use crate::entry::{SettingEntry, entry};

impl Config {
    /// Returns key, value and origin of the settings in force, as `ah config show` lists them.
    pub fn entries(&self) -> Vec<SettingEntry<'_>> {
        let mut entries = vec![("model", json!(self.model.value), &self.model.origin)];
        entries.extend(entry("fallbackModel", &self.fallback_models));
        entries.extend(entry("compactionModel", &self.compaction_model));
        for (name, server) in &self.servers {
            entries.push(("providers", json!(name), &server.origin));
        }
        for (name, server) in &self.mcp_servers {
            entries.push(("mcpServers", json!(name), &server.origin));
        }
        entries.extend(self.tools.entries());
        entries.extend(self.requests.entries());
        entries.extend(self.exchange.entries());
        let web = self.web.entries();
        entries.extend(web.map(|(key, value, origin)| (key, json!(value), origin)));
        entries.extend(self.check.entries());
        entries.extend(self.conversation.entries());
        entries.extend(entry("work", &self.work));
        let mode = &self.permission_mode;
        entries.push(("permissions.defaultMode", json!(mode.value), &mode.origin));
        for (key, rules) in [
            ("permissions.allow", &self.allow),
            ("permissions.ask", &self.ask),
            ("permissions.deny", &self.deny),
        ] {
            entries.extend(
                rules
                    .iter()
                    .map(|rule| (key, json!(rule.value.to_string()), &rule.origin)),
            );
        }
        for hook in &self.hooks {
            let event = hook.value.event.as_str();
            let summary = json!(format!("{event}: {}", hook.value.shown()));
            entries.push(("hooks", summary, &hook.origin));
        }
        entries.extend(entry("disableAllHooks", &self.disable_all_hooks));
        for folder in &self.directories {
            let key = "permissions.additionalDirectories";
            entries.push((key, json!(folder.value), &folder.origin));
        }
        entries.extend(self.sandbox.entries());
        entries
    }
}
