//! Settings that a host reads and applies while the session is open.

use ah_agent::SessionChange;
use ah_conversation::{
    Behavior, Destination, Effort, PermissionMode, PermissionUpdate, Rule, RuleValue,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Handles;
use crate::stream_json::wire::{RequestError, mode};

/// Lists of rules in the settings.
const LISTS: [(&str, Behavior); 3] = [
    ("allow", Behavior::Allow),
    ("ask", Behavior::Ask),
    ("deny", Behavior::Deny),
];

impl Handles {
    /// Applies settings: effort, model and permissions from the next step on. Others are only kept. Nothing is applied if
    /// a value is invalid.
    pub(crate) fn apply_settings(
        &self,
        settings: Map<String, Value>,
    ) -> Result<Value, RequestError> {
        let permissions = settings.get("permissions").unwrap_or(&Value::Null);
        let mode = match &permissions["defaultMode"] {
            Value::String(word) => Some(self.allowed_mode(mode(word)?)?),
            _ => None,
        };
        let rules = rules(permissions)?;
        let effort = match settings.get("effortLevel") {
            None => None,
            Some(Value::Null) => Some(None),
            Some(level) => Some(Some(effort(level)?)),
        };
        // The model is connected first, since it may be refused.
        match settings.get("model") {
            Some(Value::String(name)) => drop(self.set_model(Some(name))?),
            Some(Value::Null) => drop(self.set_model(None)?),
            _ => {}
        }
        if let Some(wanted) = effort {
            self.think(|thinking, initial| thinking.effort = wanted.or(initial.effort));
        }
        for update in rules {
            self.controls.request(SessionChange::Permissions(update));
        }
        if let Some(mode) = mode {
            self.controls.request(SessionChange::Mode(mode));
            self.speaker.mode(mode);
        }
        merge(&mut self.state.lock().flags, settings);
        Ok(json!({}))
    }

    fn allowed_mode(&self, mode: PermissionMode) -> Result<PermissionMode, RequestError> {
        if mode == PermissionMode::BypassPermissions && !self.may_bypass {
            return Err(RequestError::new(
                "Cannot set permission mode to bypassPermissions: the session was not started with it",
            ));
        }
        Ok(mode)
    }

    /// Returns the settings in force, by source.
    pub(crate) fn settings(&self) -> Value {
        let state = self.state.lock();
        let flags = Value::Object(state.flags.clone());
        let of_host = ("flagSettings".to_owned(), flags);
        let has_flags = !state.flags.is_empty();
        let sources = self.sources.iter().chain(has_flags.then_some(&of_host));
        let mut effective = Map::new();
        let mut told = Vec::new();
        for (source, settings) in sources {
            told.push(json!({"source": source, "settings": settings}));
            if let Value::Object(settings) = settings {
                merge(&mut effective, settings.clone());
            }
        }
        json!({
            "effective": effective,
            "sources": told,
            "applied": {
                "model": state.model.name,
                "effort": state.thinking.effort.map(Effort::as_str),
            },
        })
    }
}

fn effort(level: &Value) -> Result<Effort, RequestError> {
    Effort::deserialize(level).map_err(|_| {
        let known = Effort::ALL.map(Effort::as_str).join(", ");
        RequestError::new(format!("unknown effort {level}: it is one of {known}"))
    })
}

/// Returns the updates that add the rules and directories of a `permissions` object.
fn rules(permissions: &Value) -> Result<Vec<PermissionUpdate>, RequestError> {
    let mut updates = Vec::new();
    for (list, behavior) in LISTS {
        let texts = permissions[list].as_array().into_iter().flatten();
        let parsed = texts.filter_map(Value::as_str).map(|text| {
            let rule: Result<Rule, _> = text.parse();
            rule.map(|rule| RuleValue::from(&rule))
                .map_err(|error| RequestError::new(format!("{text}: {error}")))
        });
        let rules: Vec<_> = parsed.collect::<Result<_, _>>()?;
        if !rules.is_empty() {
            updates.push(PermissionUpdate::AddRules {
                rules,
                behavior,
                destination: Destination::Session,
            });
        }
    }
    let directories = permissions["additionalDirectories"].as_array();
    let directories = directories.into_iter().flatten().filter_map(Value::as_str);
    let directories: Vec<_> = directories.map(Into::into).collect();
    if !directories.is_empty() {
        updates.push(PermissionUpdate::AddDirectories {
            directories,
            destination: Destination::Session,
        });
    }
    Ok(updates)
}

/// Merges `more` into `into`: objects key by key, lists of rules appended, null removes.
fn merge(into: &mut Map<String, Value>, more: Map<String, Value>) {
    for (name, value) in more {
        match (into.get_mut(&name), value) {
            (_, Value::Null) => drop(into.remove(&name)),
            (Some(Value::Object(known)), Value::Object(value)) => merge(known, value),
            (Some(Value::Array(known)), Value::Array(value)) => {
                let new = value.into_iter().filter(|it| !known.contains(it));
                let new: Vec<_> = new.collect();
                known.extend(new);
            }
            (_, value) => drop(into.insert(name, value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_merged_by_key() {
        let object = |value: Value| value.as_object().cloned().unwrap();
        let mut into = object(json!({"a": 1, "p": {"allow": ["x"], "m": "d"}, "b": 2}));
        merge(
            &mut into,
            object(json!({"b": null, "p": {"allow": ["x", "y"]}, "c": [1]})),
        );
        let expected = json!({"a": 1, "p": {"allow": ["x", "y"], "m": "d"}, "c": [1]});
        assert_eq!(Value::Object(into), expected);
    }
}
