//! The options as they are typed, group by group as the help text shows them.

use std::path::PathBuf;
use std::str::FromStr;

use ah_conversation::{Effort, PermissionMode};
use ah_sandbox::{Allowlist, Authority, Grant};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};

/// All options of a run.
#[derive(Debug, Clone, Default, PartialEq, Args)]
pub struct Options {
    /// Which session.
    #[command(flatten)]
    pub session: SessionOptions,
    /// What a run does with it.
    #[command(flatten)]
    pub resume: ResumeOptions,
    /// Which model.
    #[command(flatten)]
    pub model: ModelOptions,
    /// How far.
    #[command(flatten)]
    pub limits: LimitOptions,
    /// What it is told.
    #[command(flatten)]
    pub prompt: PromptOptions,
    /// With which tools.
    #[command(flatten)]
    pub tools: ToolOptions,
    /// What may happen.
    #[command(flatten)]
    pub safety: SafetyOptions,
    /// Where commands run.
    #[command(flatten)]
    pub sandbox: SandboxOptions,
    /// How it is shown.
    #[command(flatten)]
    pub output: OutputOptions,
    /// From which settings.
    #[command(flatten)]
    pub settings: SettingsOptions,
    /// Words for a session from another process.
    #[command(flatten)]
    pub mail: MailOptions,
    /// The version, and no more.
    #[command(flatten)]
    pub version: VersionOptions,
}

/// Which session is meant, for runs and for the commands that look at one.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "Session")]
pub struct SessionOptions {
    /// Use the session whose id begins so, or that has this name
    #[arg(short = 'S', long, value_name = "PREFIX", global = true)]
    pub session: Option<String>,
    /// Use the session of this name; a run creates it where there is none
    #[arg(long, value_name = "NAME", global = true)]
    pub name: Option<String>,
    /// Use this database file
    #[arg(long, value_name = "PATH", global = true)]
    pub db: Option<PathBuf>,
}

/// What a run does with its session.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "Session")]
pub struct ResumeOptions {
    /// Start a new session
    #[arg(short = 'n', long, conflicts_with_all = ["session", "name", "continue_last", "resume"])]
    pub new: bool,
    /// Go on with the session that was used last
    #[arg(short = 'c', long = "continue", conflicts_with_all = ["session", "name", "resume"])]
    pub continue_last: bool,
    /// Go on with this session: an id, its beginning, or a name; without one, the session used last
    #[arg(
        short = 'r',
        long,
        value_name = "ID",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        conflicts_with_all = ["session", "name"]
    )]
    pub resume: Option<String>,
    /// Give the new session this UUID
    #[arg(long, value_name = "UUID")]
    pub session_id: Option<String>,
    /// Go on in a copy of the session
    #[arg(long)]
    pub fork_session: bool,
    /// Go on behind the message that a host knows by this UUID
    #[arg(long, value_name = "UUID")]
    pub resume_session_at: Option<String>,
    /// Only if nothing is left out that way but the turn of this prompt
    #[arg(long, value_name = "UUID", requires = "resume_session_at")]
    pub resume_drops_turn: Option<String>,
    /// Keep nothing of the session on disk
    #[arg(long)]
    pub no_session_persistence: bool,
}

/// Which model is asked.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "Model")]
pub struct ModelOptions {
    /// Model: opus, sonnet, haiku, a full name, PROVIDER/NAME, or script:FILE
    #[arg(short = 'm', long, value_name = "NAME")]
    pub model: Option<String>,
    /// Model that answers where the other has too much to do or fails, after all retries
    #[arg(long, value_name = "NAME")]
    pub fallback_model: Option<String>,
    /// Thinking budget in tokens; 0 turns thinking off
    #[arg(long, value_name = "N", value_parser = whole::<u32>)]
    pub max_thinking_tokens: Option<u32>,
    /// Whether the model thinks: as much as it finds right, or not at all
    #[arg(long, value_enum, value_name = "MODE")]
    pub thinking: Option<ThinkingMode>,
    /// How hard the model tries; told to each vendor in its own way
    #[arg(long, value_name = "LEVEL", value_parser = effort())]
    pub effort: Option<Effort>,
    /// Features of the API to ask for, separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub betas: Vec<String>,
    /// Write the run down as a scenario that script:FILE plays
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
}

impl ModelOptions {
    /// How much the model may think, however it was said.
    pub fn thinking_budget(&self) -> Option<u32> {
        let is_off = self.thinking == Some(ThinkingMode::Disabled);
        self.max_thinking_tokens.or(is_off.then_some(0))
    }
}

/// What ends a run early.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "Limits")]
pub struct LimitOptions {
    /// Stop after this many model calls
    #[arg(long, value_name = "N", value_parser = at_least_one::<u32>)]
    pub max_turns: Option<u32>,
    /// Stop after this many input and output tokens, summed over the run
    #[arg(long, value_name = "N", value_parser = at_least_one::<u64>)]
    pub max_tokens: Option<u64>,
    /// Stop when the last call took this many input and output tokens
    #[arg(long, value_name = "N", value_parser = at_least_one::<u64>)]
    pub max_context_tokens: Option<u64>,
    /// Stop after this much money
    #[arg(long, value_name = "USD", value_parser = positive)]
    pub max_budget_usd: Option<f64>,
    /// Stop after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = positive)]
    pub timeout: Option<f64>,
}

/// What the model is told besides the prompt.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "Prompt")]
pub struct PromptOptions {
    /// Replace the built-in system prompt
    #[arg(long, value_name = "TEXT", conflicts_with = "system_prompt_file")]
    pub system_prompt: Option<String>,
    /// Replace the built-in system prompt by this file
    #[arg(long, value_name = "FILE")]
    pub system_prompt_file: Option<PathBuf>,
    /// Add to the system prompt
    #[arg(long, value_name = "TEXT")]
    pub append_system_prompt: Option<String>,
    /// Use this skill, as /skill:NAME does
    #[arg(long, value_name = "NAME")]
    pub skill: Option<String>,
    /// More subagents: a JSON object with a definition for each name
    #[arg(long, value_name = "JSON")]
    pub agents: Option<String>,
    /// Run as this subagent: with its prompt, tools, model and limits
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// Fail unless this file exists at the end; the model is reminded once
    #[arg(long, value_name = "FILE")]
    pub must_produce: Option<PathBuf>,
    /// Have the answer as JSON that fits this schema, of an object
    #[arg(long, value_name = "SCHEMA")]
    pub json_schema: Option<String>,
}

/// Which tools there are.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "Tools")]
pub struct ToolOptions {
    /// Set of tools
    #[arg(long, value_enum)]
    pub profile: Option<Profile>,
    /// Add a tool, or replace one; without a command, leave it out
    #[arg(short = 't', long, value_name = "NAME=COMMAND")]
    pub tool: Vec<String>,
    /// Only these tools, separated by commas, and those of --tool; "" for none
    #[arg(long, value_name = "LIST", num_args = 1)]
    pub tools: Option<Vec<String>>,
    /// Allow these calls without asking: Bash, "Bash(git log:*)" (also --allowedTools)
    #[arg(long, value_name = "RULES", num_args = 1)]
    pub allowed_tools: Vec<String>,
    /// Deny these calls, whatever else allows them (also --disallowedTools)
    #[arg(long, value_name = "RULES", num_args = 1)]
    pub disallowed_tools: Vec<String>,
    /// More MCP servers: a file, or a JSON object; counts more than any other place
    #[arg(long, value_name = "FILE|JSON", num_args = 1, global = true)]
    pub mcp_config: Vec<String>,
    /// Only the MCP servers of --mcp-config
    #[arg(long, global = true)]
    pub strict_mcp_config: bool,
    /// Whether calls of one answer run together; auto: those that only read
    #[arg(long, value_enum, value_name = "WHEN")]
    pub tool_concurrency: Option<Concurrency>,
}

/// What may happen.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "Safety")]
pub struct SafetyOptions {
    /// What is allowed where no rule says otherwise
    #[arg(long, value_name = "MODE", value_parser = permission_mode())]
    pub permission_mode: Option<PermissionMode>,
    /// Allow every call, as --permission-mode bypassPermissions
    #[arg(long)]
    pub dangerously_skip_permissions: bool,
    /// Let a host choose bypassPermissions later
    #[arg(long)]
    pub allow_dangerously_skip_permissions: bool,
    /// Who is asked for permissions: stdio is the program that drives the session
    #[arg(long, value_name = "TOOL")]
    pub permission_prompt_tool: Option<String>,
    /// Whether anybody is asked for permissions at all
    #[arg(long, value_enum, value_name = "WHOM")]
    pub permission_prompts: Option<PermissionPrompts>,
    /// Another working directory, besides the one where the run is
    #[arg(long, value_name = "DIR")]
    pub add_dir: Vec<PathBuf>,
    /// Let what this folder holds of code, servers and permissions count
    #[arg(long, global = true)]
    pub trust: bool,
}

/// Whether anybody is asked for permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PermissionPrompts {
    /// Whoever is there
    Host,
    /// Nobody: what would be asked is denied
    None,
}

/// Where commands run, and what they may do there.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "Sandbox")]
pub struct SandboxOptions {
    /// Insist on the sandbox: commands see no file of the home, write only in the project, and have no network
    #[arg(
        long,
        value_enum,
        value_name = "TIER",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "full"
    )]
    pub sandbox: Option<SandboxTier>,
    /// Run commands with your rights
    #[arg(long, conflicts_with_all = ["sandbox", "unveil", "env"])]
    pub no_sandbox: bool,
    #[command(flatten)]
    #[expect(missing_docs, reason = "its fields say it")]
    pub hosts: Hosts,
    /// Let commands in the sandbox see this path: read (r), write (w), execute (x), create (c)
    #[arg(long, value_name = "PATH[:rwxc]")]
    pub unveil: Vec<Grant>,
    /// Let commands in the sandbox see this variable
    #[arg(long, value_name = "NAME")]
    pub env: Vec<String>,
}

/// Hosts that may be reached.
#[derive(Debug, Clone, Default, PartialEq, Args)]
pub struct Hosts {
    /// Let what is confined reach this host and port, by HTTPS or any other tunnel
    #[arg(long, value_name = "HOST:PORT")]
    pub allow_host: Vec<Authority>,
    /// Let what is confined reach this host and port by plain HTTP
    #[arg(long, value_name = "HOST:PORT")]
    pub allow_http: Vec<Authority>,
}

impl Hosts {
    /// Whether there are any.
    pub fn is_some(&self) -> bool {
        !self.allow_host.is_empty() || !self.allow_http.is_empty()
    }

    /// The same as the proxy wants it.
    pub fn allowlist(&self) -> Allowlist {
        Allowlist {
            tunnels: self.allow_host.clone(),
            http: self.allow_http.clone(),
            ..Allowlist::default()
        }
    }
}

/// How much of the sandbox must hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum SandboxTier {
    /// Everything
    #[default]
    Full,
    /// Files and system calls only, where no namespaces can be had; no network at all
    Landlock,
}

/// How a run is shown.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "Output")]
pub struct OutputOptions {
    /// Print the last answer only, as a drop-in for other agents' -p
    #[arg(short = 'p', long)]
    pub print: bool,
    /// What standard output carries
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub output_format: Option<OutputFormat>,
    /// What standard input carries: the prompt, or the messages of the Agent SDK
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub input_format: Option<InputFormat>,
    /// No colours and no spinner
    #[arg(long)]
    pub plain: bool,
    /// With the JSON formats: all messages, not the result alone
    #[arg(long)]
    pub verbose: bool,
    /// With stream-json: the answer as it arrives
    #[arg(long)]
    pub include_partial_messages: bool,
    /// With stream-json: the prompts too
    #[arg(long)]
    pub replay_user_messages: bool,
    /// With stream-json: each row of the transcript, for a host that keeps it elsewhere
    #[arg(long)]
    pub session_mirror: bool,
    /// With stream-json: the hooks that are asked, and what they say
    #[arg(long)]
    pub include_hook_events: bool,
}

/// Where settings come from, and how the program tells what it does.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "Settings")]
pub struct SettingsOptions {
    /// More settings: a file, or a JSON object
    #[arg(long, value_name = "FILE|JSON", global = true)]
    pub settings: Option<String>,
    /// A plugin: a folder with commands, skills, agents, hooks and MCP servers of its own
    #[arg(long, value_name = "DIR", global = true)]
    pub plugin_dir: Vec<PathBuf>,
    /// A plugin whose MCP servers are left out
    #[arg(long, value_name = "DIR", global = true)]
    pub plugin_dir_no_mcp: Vec<PathBuf>,
    /// Which settings files count: user, project, local; "" for none
    #[arg(long, value_name = "LIST", global = true)]
    pub setting_sources: Option<String>,
    /// Work in this folder
    #[arg(long, value_name = "DIR", global = true)]
    pub cd: Option<PathBuf>,
    /// Log to standard error
    #[arg(
        long,
        value_name = "FILTER",
        global = true,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "debug"
    )]
    pub debug: Option<String>,
    /// Log to this file
    #[arg(long, value_name = "FILE", global = true)]
    pub debug_file: Option<PathBuf>,
}

/// Words for a session from another process.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "From another process")]
pub struct MailOptions {
    /// Tell a running session something before its next step
    #[arg(long, value_name = "MESSAGE")]
    pub steer: Vec<String>,
    /// Give a session a prompt for when it has answered
    #[arg(long, value_name = "MESSAGE")]
    pub followup: Vec<String>,
}

/// The two ways to ask for the version: the official SDKs read the digits of the second.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "Help")]
pub struct VersionOptions {
    /// Print the program's name and version
    #[arg(short = 'V')]
    pub name_and_version: bool,
    /// Print the version
    #[arg(short = 'v', long)]
    pub version: bool,
}

/// What standard output carries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// The model's words
    #[default]
    Text,
    /// One event per line, as JSON
    Events,
    /// The result as one JSON object
    Json,
    /// The messages of the Agent SDK, one per line
    StreamJson,
}

/// What standard input carries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum InputFormat {
    /// The prompt
    #[default]
    Text,
    /// The messages of the Agent SDK
    StreamJson,
}

/// Whether a model thinks, as the official SDKs say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ThinkingMode {
    /// As much as it finds right, which is what happens anyway
    #[value(alias = "enabled")]
    Adaptive,
    /// Not at all
    Disabled,
}

/// A set of tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Profile {
    /// The tools of ah's own interface
    Default,
    /// read, write, edit and bash
    Minimal,
    /// All that users of the official Agent SDKs expect, under the names that they know; so it is with -p
    Sdk,
    /// read, write and bash, for a plain loop: 40000 characters of a result, 50 messages, retries from 10 s on
    PlainRepl,
}

/// Whether the tool calls of one answer run together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Concurrency {
    /// Calls that only read run together, the others alone
    #[default]
    Auto,
    /// One after the other
    Serial,
    /// All together
    Parallel,
}

fn permission_mode() -> impl TypedValueParser<Value = PermissionMode> {
    let known = PermissionMode::ALL.map(|mode| clap::builder::PossibleValue::new(mode.as_str()));
    // What other agents call them; both mean `default`.
    let others = ["manual", "auto"].map(|word| clap::builder::PossibleValue::new(word).hide(true));
    PossibleValuesParser::new(known.into_iter().chain(others))
        .try_map(|word| word.parse::<PermissionMode>())
}

fn effort() -> impl TypedValueParser<Value = Effort> {
    PossibleValuesParser::new(Effort::ALL.map(Effort::as_str)).try_map(|word| {
        let known = Effort::ALL
            .into_iter()
            .find(|effort| effort.as_str() == word);
        known.ok_or("no level of effort")
    })
}

/// Reads a whole number.
pub(super) fn whole<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse()
        .map_err(|_| "expected a whole number".to_owned())
}

fn at_least_one<T: FromStr + PartialOrd + From<u8>>(text: &str) -> Result<T, String> {
    match whole::<T>(text) {
        Ok(number) if number >= T::from(1) => Ok(number),
        _ => Err("expected a whole number above 0".to_owned()),
    }
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok(number),
        _ => Err("expected a number above 0".to_owned()),
    }
}
