//! The `Config` tool of the profile `sdk`: reads the settings in force, and changes a few of the user's own.
//!
//! It exists where a host names it. What it writes is a file of the user, so the permission rules decide as about any other
//! file outside the project, and no project can set what it sets. Secrets are replaced by their names.

use std::sync::Arc;

use ah_config::{Changeable, Config};
use ah_conversation::{
    Access, Context, DisplayKey, Input, Output, Tool, ToolExtras, ToolSpec, ToolUse, Truncation,
};
use async_trait::async_trait;
use serde_json::{Value, json};

/// Name of the tool.
pub const NAME: &str = "Config";

/// The tool.
pub struct ConfigTool {
    spec: ToolSpec,
    config: Config,
}

impl ConfigTool {
    /// Returns the tool for the settings of `config`.
    pub fn new(config: &Config) -> Self {
        let names = Changeable::ALL.map(Changeable::name).join(", ");
        let description = format!(
            "Reads a setting of this program. With `value` it changes one of {names}, in the user's settings: later \
             sessions have the new value."
        );
        let input_schema = json!({
            "type": "object",
            "properties": {
                "setting": {"type": "string", "description": "Its name, such as `model`"},
                "value": {
                    "type": ["string", "boolean", "number"],
                    "description": "The new value; without it, the setting is read",
                },
            },
            "required": ["setting"],
            "additionalProperties": false,
        });
        Self {
            spec: ToolSpec {
                name: NAME.to_owned(),
                description,
                input_schema: Arc::new(input_schema),
                guidance: None,
                truncation: Truncation::DEFAULT,
                key: Some(DisplayKey::Text("setting".to_owned())),
            },
            config: config.clone(),
        }
    }

    /// Returns the value in force; `None` if the setting is not set. One with several parts is a list.
    fn value(&self, setting: &str) -> Option<Value> {
        let entries = self.config.entries().into_iter();
        let mut values: Vec<_> = entries
            .filter(|(name, _, _)| *name == setting)
            .map(|(_, value, _)| self.redacted(value))
            .collect();
        match values.len() {
            0 => None,
            1 => values.pop(),
            _ => Some(Value::Array(values)),
        }
    }

    /// Returns the value with the names of secrets instead of them.
    fn redacted(&self, value: Value) -> Value {
        match value {
            Value::String(text) => json!(self.config.environment.redact(&text)),
            Value::Array(parts) => parts.into_iter().map(|it| self.redacted(it)).collect(),
            Value::Object(parts) => {
                let parts = parts.into_iter();
                Value::Object(parts.map(|(name, it)| (name, self.redacted(it))).collect())
            }
            other => other,
        }
    }

    fn read(&self, setting: &str) -> Output {
        let Some(value) = self.value(setting) else {
            let entries = self.config.entries();
            let mut names: Vec<_> = entries.iter().map(|(name, _, _)| *name).collect();
            names.dedup();
            let names = names.join(", ");
            return Output::error(format!("`{setting}` is not set; set are {names}"));
        };
        let told = json!({"success": true, "operation": "get", "setting": setting, "value": value});
        Output::text(format!("{setting} = {value}")).with_details(told)
    }

    fn write(&self, setting: &str, value: &Value) -> Output {
        let Some(changeable) = Changeable::of(setting) else {
            let names = Changeable::ALL.map(Changeable::name).join(", ");
            return Output::error(format!(
                "`{setting}` is the user's to set; you may set {names}"
            ));
        };
        let former = self.value(setting);
        match self.config.keep_setting(changeable, value) {
            Ok(_) => Output::text(format!(
                "{setting} = {value}; it applies from the next session"
            ))
            .with_details(json!({
                "success": true,
                "operation": "set",
                "setting": setting,
                "previousValue": former,
                "newValue": value,
            })),
            Err(error) => Output::error(error.message),
        }
    }
}

#[async_trait]
impl Tool for ConfigTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, input: &Input) -> Vec<Access> {
        let is_change = input.to_value().get("value").is_some();
        let file = self.config.user_settings().filter(|_| is_change);
        file.map(Access::Write).into_iter().collect()
    }

    fn extras(&self) -> ToolExtras<'_> {
        ToolExtras {
            is_for_model_alone: true,
            ..ToolExtras::default()
        }
    }

    async fn run(&self, call: &ToolUse, _: &Context) -> Output {
        let input = call.input.to_value();
        let setting = input["setting"].as_str().unwrap_or_default();
        match input.get("value") {
            None => self.read(setting),
            Some(value) => self.write(setting, value),
        }
    }
}
