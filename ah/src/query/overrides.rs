//! Options as choices for the engine's configuration.

use ah_config::layers::{SettingsSource, Sources};
use ah_config::overrides::{McpSource, SystemPromptSource};
use ah_config::trust::Reason;
use ah_config::{Error, Overrides, parse_rules};
use ah_conversation::Environment;
use ah_engine::sessions::plan::{SessionChoice, SessionPlan};

use crate::options::{Options, SystemPrompt};

impl Options {
    /// Returns the configuration overrides for these options.
    pub(crate) fn overrides(&self) -> Result<Overrides, Error> {
        let mut overrides = Overrides {
            model: self.model.clone(),
            fallback_models: self.fallback_models.clone(),
            max_thinking_tokens: self.max_thinking_tokens,
            effort: self.effort,
            allow: parse_rules(&self.allowed_tools)?,
            ask: parse_rules(&self.asked_tools)?,
            deny: parse_rules(&self.disallowed_tools)?,
            permission_mode: self.permission_mode,
            directories: self.additional_directories.clone(),
            // The program that embeds the engine has chosen the folder.
            trust: Some(Reason::Host),
            ..Overrides::default()
        };
        if !self.mcp_servers.is_empty() {
            let servers = McpSource::of_values("mcp_servers", &self.mcp_servers);
            overrides.mcp_servers = vec![servers];
        }
        if let Some(value) = &self.settings {
            overrides.settings = Some(SettingsSource::of_value("settings", value)?);
        }
        if let Some(names) = &self.setting_sources {
            overrides.setting_sources = Some(Sources::parse(Some(&names.join(",")))?);
        }
        overrides.check.until.clone_from(&self.until);
        let run = &mut overrides.run;
        run.limits.max_turns = self.max_turns;
        run.limits.max_tokens = self.max_tokens;
        run.limits.max_budget_usd = self.max_budget_usd;
        run.limits.timeout = self.timeout;
        match &self.system_prompt {
            SystemPrompt::BuiltIn => {}
            SystemPrompt::Appended(text) => run.prompt.append_system_prompt = Some(text.clone()),
            SystemPrompt::Own(text) => {
                run.prompt.system_prompt = Some(SystemPromptSource::Text(text.clone()));
            }
        }
        run.prompt.agent.clone_from(&self.agent);
        run.prompt.agents.clone_from(&self.agents);
        run.tools.only.clone_from(&self.tools);
        run.host.decides_permissions = self.can_use_tool.is_some();
        run.host.answers_questions = self.can_use_tool.is_some();
        run.host.partial_messages = self.include_partial_messages;
        run.betas.clone_from(&self.betas);
        run.is_ephemeral = self.ephemeral;
        Ok(overrides)
    }

    /// Returns the session for these options.
    pub(crate) fn plan(&self) -> Result<SessionPlan, Error> {
        let resumed = self.resume.clone().filter(|id| !id.is_empty());
        let choice = match resumed {
            Some(id) => SessionChoice::Find(id),
            None if self.continue_last || self.resume.is_some() => SessionChoice::LastUsed,
            None => SessionChoice::New,
        };
        let plan = SessionPlan {
            choice,
            fork: self.fork_session,
            uuid: self.session_id.clone(),
            ephemeral: self.ephemeral,
            ..SessionPlan::default()
        };
        plan.checked()
    }

    /// Returns the overrides of an agent, which reads no settings files. What it may do is decided by its own permissions.
    pub(crate) fn overrides_of_agent(&self) -> Result<Overrides, Error> {
        Ok(Overrides {
            setting_sources: Some(Sources::NONE),
            permission_mode: None,
            ..self.overrides()?
        })
    }

    /// Returns the variables of the process and those of the options, in the working directory of the options.
    pub(crate) fn environment(&self) -> Result<Environment, Error> {
        let process = ah_config::environment::read(None)?;
        let cwd = match &self.cwd {
            Some(cwd) => process.cwd().join(cwd),
            None => process.cwd().to_owned(),
        };
        if !cwd.is_dir() {
            let message = format!(
                "cannot work in `{}`: there is no such folder",
                cwd.display()
            );
            return Err(Error::failure(message));
        }
        let all = process
            .all()
            .chain({ self.env.iter() }.map(|(name, value)| (&**name, &**value)));
        Ok(Environment::new(
            all.map(|(name, value)| (name.to_owned(), value.to_owned())),
            cwd,
        ))
    }
}
