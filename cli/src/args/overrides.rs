//! Conversion of the options to the typed values of the configuration.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::time::Duration;

use ah_config::layers::{SettingsSource, Sources};
use ah_config::overrides::{
    HostOptions, McpSource, Overrides, PluginFolder, PromptOptions, RunLimits, RunOptions,
    SandboxChoice, SandboxOptions, SystemPromptSource, ToolOptions,
};
use ah_config::profile::Profile;
use ah_config::settings::check::{CheckSettings, Seconds};
use ah_config::trust::Reason;
use ah_config::{Concurrency, Error, ErrorKind, SandboxTier, parse_rules, parse_servers};
use ah_conversation::{PermissionMode, json};
use ah_engine::assemble::bad_schema;
use serde_json::{Map, Value};

use super::options::{self, InputFormat, Options, PermissionPrompts};

impl Options {
    /// Returns the overrides for a run.
    ///
    /// # Errors
    ///
    /// If a value that is JSON, a list of rules or of sources is invalid.
    pub fn overrides(&self) -> Result<Overrides, Error> {
        let (model, tools, safety) = (&self.model, &self.tools, &self.safety);
        let is_hosted = self.output.input_format == Some(InputFormat::StreamJson);
        let trust = if safety.trust {
            Some(Reason::Option)
        } else {
            is_hosted.then_some(Reason::Host)
        };
        let skip = safety
            .dangerously_skip_permissions
            .then_some(PermissionMode::BypassPermissions);
        Ok(Overrides {
            model: model.model.clone(),
            fallback_models: model.fallback_model.clone(),
            effort: model.effort,
            max_thinking_tokens: model.thinking_budget(),
            tool_concurrency: tools.tool_concurrency.map(Concurrency::from),
            allow: parse_rules(&tools.allowed_tools)?,
            ask: Vec::new(),
            deny: parse_rules(&tools.disallowed_tools)?,
            permission_mode: skip.or(safety.permission_mode),
            before_plan: safety.before_plan,
            may_bypass: safety.allow_dangerously_skip_permissions,
            directories: safety.add_dir.clone(),
            trust,
            mcp_servers: self.mcp_servers()?,
            settings: { self.settings.settings.as_deref() }
                .map(|given| settings("--settings", given))
                .transpose()?,
            managed_settings: { self.settings.managed_settings.as_deref() }
                .map(|given| settings("--managed-settings", given))
                .transpose()?,
            setting_sources: { self.settings.setting_sources.as_deref() }
                .map(|list| Sources::parse(Some(list)))
                .transpose()?,
            check: self.check.check_settings()?,
            plugins: self.settings.plugins(),
            run: self.run_options()?,
        })
    }

    fn run_options(&self) -> Result<RunOptions, Error> {
        Ok(RunOptions {
            limits: self.limits.run_limits(),
            prompt: self.prompt.prompt_options()?,
            tools: ToolOptions {
                profile: self.tools.profile.map(Profile::from),
                only: self.tools.tools.clone(),
                commands: self.tools.tool.clone(),
                aliases: BTreeMap::new(),
            },
            sandbox: self.sandbox.sandbox_options(),
            host: self.host_options(),
            only_named_mcp_servers: self.tools.strict_mcp_config,
            betas: self.model.betas.clone(),
            record: self.model.record.clone(),
            is_resealed: self.check.reseal,
            is_ephemeral: self.resume.no_session_persistence,
        })
    }

    fn mcp_servers(&self) -> Result<Vec<McpSource>, Error> {
        let source = |given: &String| {
            if is_object(given) {
                parse_servers(given)
            } else {
                Ok(McpSource::File(given.into()))
            }
        };
        self.tools.mcp_config.iter().map(source).collect()
    }

    fn host_options(&self) -> HostOptions {
        let (output, safety) = (&self.output, &self.safety);
        let tool = safety.permission_prompt_tool.as_deref();
        let is_host_asked = tool == Some("stdio");
        let is_asked = safety.permission_prompts != Some(PermissionPrompts::None);
        HostOptions {
            answers_questions: is_host_asked,
            decides_permissions: is_host_asked && is_asked,
            permission_tool: { tool.filter(|_| is_asked && !is_host_asked) }.map(str::to_owned),
            partial_messages: output.include_partial_messages,
            replays: output.replay_user_messages,
            hook_events: output.include_hook_events,
            mirror: output.session_mirror,
            subagent_text: output.forward_subagent_text,
        }
    }
}

impl options::LimitOptions {
    fn run_limits(&self) -> RunLimits {
        RunLimits {
            max_turns: self.max_turns,
            max_tokens: self.max_tokens,
            max_context_tokens: self.max_context_tokens,
            compact_at: self.compact_at,
            max_budget_usd: self.max_budget_usd,
            timeout: { self.timeout }
                .map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)),
        }
    }
}

impl options::CheckOptions {
    fn check_settings(&self) -> Result<CheckSettings, Error> {
        let timeout = self.check_timeout.map(Seconds::try_from).transpose();
        Ok(CheckSettings {
            until: self.until.clone(),
            seal: (!self.seal.is_empty()).then(|| self.seal.clone()),
            max_checks: { self.max_checks }.and_then(|most| NonZero::new(most as usize)),
            check_timeout: timeout.map_err(Error::usage)?,
        })
    }
}

impl options::PromptOptions {
    fn prompt_options(&self) -> Result<PromptOptions, Error> {
        let file = self
            .system_prompt_file
            .clone()
            .map(SystemPromptSource::File);
        let text = self.system_prompt.clone().map(SystemPromptSource::Text);
        Ok(PromptOptions {
            system_prompt: file.or(text),
            append_system_prompt: self.append_system_prompt.clone(),
            append_system_prompt_file: self.append_system_prompt_file.clone(),
            setup: match (self.init || self.init_only, self.maintenance) {
                (true, _) => Some("init"),
                (false, true) => Some("maintenance"),
                (false, false) => None,
            },
            plan_instructions: None,
            skill: self.skill.clone(),
            agents: self
                .agents
                .as_deref()
                .map_or_else(|| Ok(Map::new()), agents)?,
            agent: self.agent.clone(),
            must_produce: self.must_produce.clone(),
            files: None,
            answer_schema: self.json_schema.as_deref().map(schema).transpose()?,
        })
    }
}

impl options::SandboxOptions {
    fn sandbox_options(&self) -> SandboxOptions {
        let wanted = if self.no_sandbox {
            Some(SandboxChoice::Off)
        } else {
            let tier = self.sandbox.map(SandboxTier::from);
            tier.map(SandboxChoice::Required)
        };
        SandboxOptions {
            wanted,
            allow_hosts: self.hosts.allow_host.clone(),
            allow_http: self.hosts.allow_http.clone(),
            are_hosts_complete: self.only_allowed_hosts,
            unveil: self.unveil.clone(),
            env: self.env.clone(),
        }
    }
}

impl options::SettingsOptions {
    fn plugins(&self) -> Vec<PluginFolder> {
        let with = self.plugin_dir.iter().map(|path| (path, true));
        let without = self.plugin_dir_no_mcp.iter().map(|path| (path, false));
        with.chain(without)
            .map(|(path, has_servers)| PluginFolder {
                path: path.clone(),
                has_servers,
                runs_programs: true,
            })
            .collect()
    }
}

/// Returns whether the value of an option is JSON rather than a path.
fn is_object(given: &str) -> bool {
    given.trim_start().starts_with('{')
}

fn settings(option: &str, given: &str) -> Result<SettingsSource, Error> {
    if !is_object(given) {
        return Ok(SettingsSource::File(given.into()));
    }
    SettingsSource::parse(option, given).map_err(|error| error.with_kind(ErrorKind::Usage))
}

fn agents(text: &str) -> Result<Map<String, Value>, Error> {
    json::from_str(text).map_err(|error| {
        Error::usage(format!("--agents is not a JSON object: {error}")).hint(
            r#"--agents '{"reviewer": {"description": "Reviews changes", "prompt": "You review."}}'"#,
        )
    })
}

fn schema(text: &str) -> Result<Value, Error> {
    json::from_str(text).map_err(|error| bad_schema(&error.to_string()))
}

impl From<options::Profile> for Profile {
    fn from(profile: options::Profile) -> Self {
        match profile {
            options::Profile::Default => Self::Default,
            options::Profile::Minimal => Self::Minimal,
            options::Profile::Sdk => Self::Sdk,
            options::Profile::Small => Self::Small,
            options::Profile::PlainRepl => Self::PlainRepl,
        }
    }
}

impl From<options::Concurrency> for Concurrency {
    fn from(concurrency: options::Concurrency) -> Self {
        match concurrency {
            options::Concurrency::Auto => Self::Auto,
            options::Concurrency::Serial => Self::Serial,
            options::Concurrency::Parallel => Self::Parallel,
        }
    }
}

impl From<options::SandboxTier> for SandboxTier {
    fn from(tier: options::SandboxTier) -> Self {
        match tier {
            options::SandboxTier::Full => Self::Full,
            options::SandboxTier::Namespaces => Self::Namespaces,
            options::SandboxTier::Landlock => Self::Landlock,
        }
    }
}
