//! The settings in force as a list with origins.

use serde::Serialize;
use serde_json::json;

use crate::config::Config;
use crate::entry::SettingEntry;
use crate::origin::Sourced;

fn entry<'a, T: Serialize>(
    key: &'static str,
    set: Option<&'a Sourced<T>>,
) -> Option<SettingEntry<'a>> {
    set.map(|set| (key, json!(set.value), &set.origin))
}

impl Config {
    /// Returns key, value and origin of the settings in force, as `ah config show` lists them.
    pub fn entries(&self) -> Vec<SettingEntry<'_>> {
        let mut entries = vec![("model", json!(self.model.value), &self.model.origin)];
        entries.extend(entry("fallbackModel", self.fallback_models.as_ref()));
        entries.extend(entry("compactionModel", self.compaction_model.as_ref()));
        for (name, server) in &self.servers {
            entries.push(("providers", json!(name), &server.origin));
        }
        for (name, server) in &self.mcp_servers {
            entries.push(("mcpServers", json!(name), &server.origin));
        }
        entries.extend(entry("profile", self.profile.as_ref()));
        entries.extend(entry("outputStyle", self.output_style.as_ref()));
        let window = self.auto_compact_window.as_ref();
        entries.extend(entry("autoCompactWindow", window));
        let megabytes = &self.undo_megabytes;
        entries.push(("undoMegabytes", json!(megabytes.value), &megabytes.origin));
        let count = self.max_conversation_messages.as_ref();
        entries.extend(entry("maxConversationMessages", count));
        entries.extend(entry("codeMode", self.code_mode.as_ref()));
        entries.extend(entry("toolSearch", self.tool_search.as_ref()));
        let concurrency = &self.tool_concurrency;
        entries.push((
            "toolConcurrency",
            json!(concurrency.value),
            &concurrency.origin,
        ));
        let count = self.max_tool_result_chars.as_ref();
        entries.extend(entry("maxToolResultChars", count));
        let cap = &self.max_tool_output_bytes;
        entries.push(("maxToolOutputBytes", json!(cap.value), &cap.origin));
        entries.extend(entry("effort", self.effort.as_ref()));
        entries.extend(entry(
            "maxThinkingTokens",
            self.max_thinking_tokens.as_ref(),
        ));
        entries.extend(entry("maxOutputTokens", self.max_output_tokens.as_ref()));
        entries.extend(self.exchange.entries());
        entries.extend(entry("temperature", self.temperature.as_ref()));
        entries.extend(entry("topP", self.top_p.as_ref()));
        entries.extend(entry("stop", self.stop.as_ref()));
        let web = self.web.entries();
        entries.extend(web.map(|(key, value, origin)| (key, json!(value), origin)));
        entries.extend(self.conversation.entries());
        entries.extend(entry("work", self.work.as_ref()));
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
        entries.extend(entry("disableAllHooks", self.disable_all_hooks.as_ref()));
        for folder in &self.directories {
            let key = "permissions.additionalDirectories";
            entries.push((key, json!(folder.value), &folder.origin));
        }
        entries.extend(self.sandbox.entries());
        entries
    }
}
