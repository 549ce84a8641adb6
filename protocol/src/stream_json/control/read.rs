//! What a host reads of the session: files, rules, and the name that it gives.

use std::fs;

use ah_conversation::Rule;
use serde_json::{Value, json};

use super::Handles;
use crate::stream_json::wire::RequestError;

/// Upper limit of the bytes of a file for a host.
const LONGEST_FILE: u64 = 10 << 20;

/// Most words of a title.
const TITLE_WORDS: usize = 8;

impl Handles {
    /// Names the session.
    pub(crate) async fn rename(&self, title: &str) -> Result<Value, RequestError> {
        let named = self.place.rename(title).await;
        named.map_err(|refusal| RequestError::new(refusal.text))?;
        self.speaker.write_title(title);
        Ok(json!({}))
    }

    /// Returns a title made of the first words of `description`; no model is asked.
    pub(super) async fn title_of(
        &self,
        description: &str,
        persists: bool,
    ) -> Result<Value, RequestError> {
        let words: Vec<&str> = description.split_whitespace().take(TITLE_WORDS).collect();
        if words.is_empty() {
            return Ok(json!({"title": null}));
        }
        let title = words.join(" ");
        if persists {
            self.rename(&title).await?;
        }
        Ok(json!({"title": title}))
    }

    /// Returns the permission rules in force.
    pub(super) fn permission_rules(&self) -> Value {
        let state = self.state.lock();
        let permissions = &state.permissions;
        let told = |behavior: &'static str, rules: &[Rule]| -> Vec<Value> {
            let rules = rules.iter().map(|rule| {
                json!({
                    "behavior": behavior,
                    "source": "session",
                    "rule": rule.to_string(),
                    "editability": "readonly",
                })
            });
            rules.collect()
        };
        let rules = [
            told("allow", &permissions.allow),
            told("ask", &permissions.ask),
            told("deny", &permissions.deny),
        ];
        json!({
            "state": {
                "rules": rules.concat(),
                "workspaceDirectories": permissions.directories,
                "originalCwd": self.cwd,
                "managedOnly": false,
            },
        })
    }

    /// Returns a text file within the working directories.
    pub(super) fn read_file(&self, path: &str) -> Result<Value, RequestError> {
        let denied = || RequestError::new(format!("read denied: {path}"));
        let real = fs::canonicalize(self.cwd.join(path)).map_err(|_| denied())?;
        let directories = self.state.lock().permissions.directories.clone();
        let is_below = directories
            .iter()
            .chain([&self.cwd])
            .filter_map(|folder| fs::canonicalize(folder).ok())
            .any(|folder| real.starts_with(folder));
        let size = fs::metadata(&real).ok().filter(|it| it.is_file());
        if !is_below || size.is_none_or(|file| file.len() > LONGEST_FILE) {
            return Err(denied());
        }
        let bytes = fs::read(&real).map_err(|_| denied())?;
        let text = String::from_utf8_lossy(&bytes);
        Ok(json!({
            "contents": text,
            "absPath": real,
            "lossy": matches!(text, std::borrow::Cow::Owned(_)),
            "requested_path": path,
        }))
    }
}
