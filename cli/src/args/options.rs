//! The options as typed, in the groups of the help text.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use ah_conversation::{Effort, PermissionMode};
use ah_sandbox::{Allowlist, Authority, Grant};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};

/// All options of a run.
#[derive(Debug, Clone, Default, PartialEq, Args)]
pub struct Options {
    /// Choice of the session.
    #[command(flatten)]
    pub session: SessionOptions,
    /// Use of the session by a run.
    #[command(flatten)]
    pub resume: ResumeOptions,
    /// Choice of the model.
    #[command(flatten)]
    pub model: ModelOptions,
    /// Limits.
    #[command(flatten)]
    pub limits: LimitOptions,
    /// The check.
    #[command(flatten)]
    pub check: CheckOptions,
    /// Parts of the prompt.
    #[command(flatten)]
    pub prompt: PromptOptions,
    /// Tools.
    #[command(flatten)]
    pub tools: ToolOptions,
    /// Permissions.
    #[command(flatten)]
    pub safety: SafetyOptions,
    /// The sandbox.
    #[command(flatten)]
    pub sandbox: SandboxOptions,
    /// Output.
    #[command(flatten)]
    pub output: OutputOptions,
    /// Settings and logging.
    #[command(flatten)]
    pub settings: SettingsOptions,
    /// Messages for a session of another process.
    #[command(flatten)]
    pub mail: MailOptions,
    /// Version.
    #[command(flatten)]
    pub version: VersionOptions,
    /// As they were given, without subcommand and prompt.
    #[arg(skip)]
    pub given: Vec<OsString>,
}

/// Choice of the session, for runs and for commands that show one.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "Session")]
pub struct SessionOptions {
    /// Use the session with this id prefix or name
    #[arg(short = 'S', long, value_name = "PREFIX", global = true)]
    pub session: Option<String>,
    /// Use the session with this name; a run creates it if missing
    #[arg(long, value_name = "NAME", global = true)]
    pub name: Option<String>,
    /// Use this database file
    #[arg(long, value_name = "PATH", global = true)]
    pub db: Option<PathBuf>,
}

/// Use of the session by a run.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "Session")]
pub struct ResumeOptions {
    /// Start a new session
    #[arg(short = 'n', long, conflicts_with_all = ["session", "name", "continue_last", "resume"])]
    pub new: bool,
    /// Continue the most recently used session
    #[arg(short = 'c', long = "continue", conflicts_with_all = ["session", "name", "resume"])]
    pub continue_last: bool,
    /// Resume this session (id, id prefix or name) [default: most recently used]
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
    /// Work in a git worktree of this name, on a branch of its own [default: a new one]
    #[arg(
        short = 'w',
        long,
        value_name = "NAME",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = ""
    )]
    pub worktree: Option<String>,
    /// Give the new session this UUID
    #[arg(long, value_name = "UUID")]
    pub session_id: Option<String>,
    /// Continue in a copy of the session
    #[arg(long)]
    pub fork_session: bool,
    /// Resume after the message with this UUID
    #[arg(long, value_name = "UUID")]
    pub resume_session_at: Option<String>,
    /// Fail if resuming would drop more than the turn of this prompt
    #[arg(long, value_name = "UUID", requires = "resume_session_at")]
    pub resume_drops_turn: Option<String>,
    /// Do not store the session on disk
    #[arg(long)]
    pub no_session_persistence: bool,
}

/// Choice of the model.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "Model")]
pub struct ModelOptions {
    /// Model: opus, sonnet, haiku, a full name, PROVIDER/NAME, or script:FILE
    #[arg(short = 'm', long, value_name = "NAME")]
    pub model: Option<String>,
    /// Fallback models when the main one stays overloaded or fails, in order, separated by commas
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub fallback_model: Vec<String>,
    /// Thinking budget in tokens; 0 turns thinking off
    #[arg(long, value_name = "N", value_parser = whole::<u32>)]
    pub max_thinking_tokens: Option<u32>,
    /// Thinking: adaptive, or disabled
    #[arg(long, value_enum, value_name = "MODE")]
    pub thinking: Option<ThinkingMode>,
    /// Reasoning effort, translated for each vendor
    #[arg(long, value_name = "LEVEL", value_parser = effort())]
    pub effort: Option<Effort>,
    /// Beta features of the API, separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub betas: Vec<String>,
    /// Record the run as a scenario for script:FILE
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
}

impl Options {
    /// Whether a session is continued to check what it has done, if there is no prompt.
    pub fn checks_alone(&self) -> bool {
        let resume = &self.resume;
        self.check.until.is_some() && (resume.continue_last || resume.resume.is_some())
    }
}

impl ModelOptions {
    /// Returns the thinking budget in tokens, by whichever option it was given.
    pub fn thinking_budget(&self) -> Option<u32> {
        let is_off = self.thinking == Some(ThinkingMode::Disabled);
        self.max_thinking_tokens.or(is_off.then_some(0))
    }
}

/// Limits of a run.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "Limits")]
pub struct LimitOptions {
    /// Stop after this many model calls
    #[arg(long, value_name = "N", value_parser = at_least_one::<u32>)]
    pub max_turns: Option<u32>,
    /// Stop after this many input and output tokens in total
    #[arg(long, value_name = "N", value_parser = at_least_one::<u64>)]
    pub max_tokens: Option<u64>,
    /// Stop when the last call used this many input and output tokens
    #[arg(long, value_name = "N", value_parser = at_least_one::<u64>)]
    pub max_context_tokens: Option<u64>,
    /// Compact the conversation at this many tokens
    #[arg(long, value_name = "N", value_parser = at_least_one::<u64>)]
    pub compact_at: Option<u64>,
    /// Stop after spending this much
    #[arg(long, value_name = "USD", value_parser = positive)]
    pub max_budget_usd: Option<f64>,
    /// Stop after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = positive)]
    pub timeout: Option<f64>,
}

/// The check of the run.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "Check")]
pub struct CheckOptions {
    /// Continue until this command passes; ah runs it on a copy of the project
    #[arg(long, value_name = "COMMAND")]
    pub until: Option<String>,
    /// Also seal these files, like tests; '!PATTERN' leaves files out
    #[arg(long, value_name = "PATTERN")]
    pub seal: Vec<String>,
    /// Seal the files as they are now, not as they were when the session began
    #[arg(long)]
    pub reseal: bool,
    /// Maximum number of checks in one run
    #[arg(long, value_name = "N", value_parser = at_least_one::<u32>)]
    pub max_checks: Option<u32>,
    /// Stop a check after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = positive)]
    pub check_timeout: Option<f64>,
}

/// Parts of the prompt.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "Prompt")]
pub struct PromptOptions {
    /// Replace the built-in system prompt
    #[arg(long, value_name = "TEXT", conflicts_with = "system_prompt_file")]
    pub system_prompt: Option<String>,
    /// Replace the built-in system prompt with this file
    #[arg(long, value_name = "FILE")]
    pub system_prompt_file: Option<PathBuf>,
    /// Append to the system prompt
    #[arg(long, value_name = "TEXT")]
    pub append_system_prompt: Option<String>,
    /// Append this file to the system prompt
    #[arg(long, value_name = "FILE")]
    pub append_system_prompt_file: Option<PathBuf>,
    /// Call the Setup hooks with the trigger `init`, then continue
    #[arg(long, hide = true)]
    pub init: bool,
    /// Call the hooks of Setup and SessionStart, then exit
    #[arg(long, hide = true)]
    pub init_only: bool,
    /// Call the Setup hooks with the trigger `maintenance`, then continue
    #[arg(long, hide = true)]
    pub maintenance: bool,
    /// Use this skill, as /skill:NAME does
    #[arg(long, value_name = "NAME")]
    pub skill: Option<String>,
    /// Additional subagents: a JSON object of definitions by name, or a file with one
    #[arg(long, value_name = "FILE|JSON")]
    pub agents: Option<String>,
    /// Run as this subagent: with its prompt, tools, model and limits
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// Fail unless this file exists at the end; reminds the model once
    #[arg(long, value_name = "FILE")]
    pub must_produce: Option<PathBuf>,
    /// Require an answer as JSON that matches this object schema
    #[arg(long, value_name = "SCHEMA")]
    pub json_schema: Option<String>,
}

/// Available tools.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "Tools")]
pub struct ToolOptions {
    /// Set of tools
    #[arg(long, value_enum)]
    pub profile: Option<Profile>,
    /// Add or replace a tool; without a command, remove it
    #[arg(short = 't', long, value_name = "NAME=COMMAND")]
    pub tool: Vec<String>,
    /// Only these tools, separated by commas, and those of --tool; "" for none
    #[arg(long, value_name = "LIST", num_args = 1)]
    pub tools: Option<Vec<String>>,
    /// Allow these calls without asking: Bash, "Bash(git log:*)" (also --allowedTools)
    #[arg(long, value_name = "RULES", num_args = 1)]
    pub allowed_tools: Vec<String>,
    /// Deny these calls, even if allowed elsewhere (also --disallowedTools)
    #[arg(long, value_name = "RULES", num_args = 1)]
    pub disallowed_tools: Vec<String>,
    /// Additional MCP servers (file or JSON object); overrides all other sources
    #[arg(long, value_name = "FILE|JSON", num_args = 1, global = true)]
    pub mcp_config: Vec<String>,
    /// Use only the MCP servers of --mcp-config
    #[arg(long, global = true)]
    pub strict_mcp_config: bool,
    /// Concurrency of the tool calls of one answer; auto: only calls that read
    #[arg(long, value_enum, value_name = "WHEN")]
    pub tool_concurrency: Option<Concurrency>,
}

/// Permissions.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "Safety")]
pub struct SafetyOptions {
    /// Permission mode for calls that no rule covers
    #[arg(long, value_name = "MODE", value_parser = permission_mode())]
    pub permission_mode: Option<PermissionMode>,
    /// Mode that is in force again once a plan is approved, of a conversation that goes to the background.
    #[arg(skip)]
    pub before_plan: Option<PermissionMode>,
    /// Allow every call, like --permission-mode bypassPermissions
    #[arg(long)]
    pub dangerously_skip_permissions: bool,
    /// Allow a host to choose bypassPermissions later
    #[arg(long)]
    pub allow_dangerously_skip_permissions: bool,
    /// Tool of an MCP server that answers permission questions; stdio: the program that drives the session
    #[arg(long, value_name = "TOOL")]
    pub permission_prompt_tool: Option<String>,
    /// Whether to ask for permissions at all
    #[arg(long, value_enum, value_name = "WHOM")]
    pub permission_prompts: Option<PermissionPrompts>,
    /// Additional working directory
    #[arg(long, value_name = "DIR")]
    pub add_dir: Vec<PathBuf>,
    /// Trust this folder for this run
    #[arg(long, global = true)]
    pub trust: bool,
}

/// Whether to ask for permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PermissionPrompts {
    /// Ask the user or host, if there is one
    Host,
    /// Ask nobody; deny instead
    None,
}

/// Sandbox and grants.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "Sandbox")]
pub struct SandboxOptions {
    /// Require the sandbox: commands cannot read your home, write outside the project, or use the network
    #[arg(
        long,
        value_enum,
        value_name = "TIER",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "full"
    )]
    pub sandbox: Option<SandboxTier>,
    /// Run commands with your full permissions
    #[arg(long, conflicts_with_all = ["sandbox", "unveil"])]
    pub no_sandbox: bool,
    #[command(flatten)]
    #[expect(missing_docs, reason = "its fields say it")]
    pub hosts: Hosts,
    /// Let sandboxed commands reach only the hosts of --allow-host and --allow-http, not those in the settings
    #[arg(long)]
    pub only_allowed_hosts: bool,
    /// Let sandboxed commands access this path: read (r), write (w), execute (x), create (c)
    #[arg(long, value_name = "PATH[:rwxc]")]
    pub unveil: Vec<Grant>,
    /// Let commands see this variable, even if it looks like a secret
    #[arg(long, value_name = "NAME")]
    pub env: Vec<String>,
}

/// Reachable hosts.
#[derive(Debug, Clone, Default, PartialEq, Args)]
pub struct Hosts {
    /// Let sandboxed commands reach this host and port by HTTPS or another tunnel
    #[arg(long, value_name = "HOST:PORT")]
    pub allow_host: Vec<Authority>,
    /// Let sandboxed commands reach this host and port by plain HTTP
    #[arg(long, value_name = "HOST:PORT")]
    pub allow_http: Vec<Authority>,
}

impl Hosts {
    /// Returns whether there are any.
    pub fn is_some(&self) -> bool {
        !self.allow_host.is_empty() || !self.allow_http.is_empty()
    }

    /// Returns the hosts as the proxy's allowlist.
    pub fn allowlist(&self) -> Allowlist {
        Allowlist {
            tunnels: self.allow_host.clone(),
            http: self.allow_http.clone(),
            ..Allowlist::default()
        }
    }
}

/// Required tier of the sandbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum SandboxTier {
    /// All protections
    #[default]
    Full,
    /// All but Landlock, for kernels that lack it
    Namespaces,
    /// Files and system calls only, for machines without user namespaces; no network at all
    Landlock,
}

/// Output of a run.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "Output")]
pub struct OutputOptions {
    /// Print the final answer and exit
    #[arg(short = 'p', long)]
    pub print: bool,
    /// Run in the background and print the session's id; `ah attach` shows the run, steers and answers it
    #[arg(short = 'd', long)]
    pub detach: bool,
    /// Be the process of a run in the background
    #[arg(long, hide = true)]
    pub detached_process: bool,
    /// Continue what a conversation has left, in the folder of this process
    #[arg(long, hide = true, requires = "detached_process")]
    pub handed_over: bool,
    /// Format of standard output
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub output_format: Option<OutputFormat>,
    /// Format of standard input: the prompt, or messages of the Agent SDK
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub input_format: Option<InputFormat>,
    /// No colours and no spinner
    #[arg(long)]
    pub plain: bool,
    /// With the JSON formats: print all messages, not only the result
    #[arg(long)]
    pub verbose: bool,
    /// With stream-json: print partial messages
    #[arg(long)]
    pub include_partial_messages: bool,
    /// With stream-json: print the prompts too
    #[arg(long)]
    pub replay_user_messages: bool,
    /// With stream-json: print each row of the transcript, for hosts that store it
    #[arg(long)]
    pub session_mirror: bool,
    /// With stream-json: print what subagents say
    #[arg(long)]
    pub forward_subagent_text: bool,
    /// With stream-json: print hook calls and their results
    #[arg(long)]
    pub include_hook_events: bool,
}

/// Settings and logging.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "Settings")]
pub struct SettingsOptions {
    /// Additional settings: a file, or a JSON object
    #[arg(long, value_name = "FILE|JSON", global = true)]
    pub settings: Option<String>,
    /// Settings that nothing overrides, unless this machine has managed settings: a file, or a JSON object
    #[arg(long, value_name = "FILE|JSON", global = true)]
    pub managed_settings: Option<String>,
    /// Plugin folder with commands, skills, agents, hooks and MCP servers
    #[arg(long, value_name = "DIR", global = true)]
    pub plugin_dir: Vec<PathBuf>,
    /// Plugin folder whose MCP servers are not started
    #[arg(long, value_name = "DIR", global = true)]
    pub plugin_dir_no_mcp: Vec<PathBuf>,
    /// Settings files to read: user, project, local; "" for none
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

/// Messages for a session of another process.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "From another process")]
pub struct MailOptions {
    /// Steer a running session with this message before its next step
    #[arg(long, value_name = "MESSAGE")]
    pub steer: Vec<String>,
    /// Queue a prompt for a session, to be answered after its current run
    #[arg(long, value_name = "MESSAGE")]
    pub followup: Vec<String>,
}

/// The two version options: the official SDKs read the digits of the second.
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

/// Format of standard output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// The model's answer as text
    #[default]
    Text,
    /// One event per line, as JSON
    Events,
    /// The result as one JSON object
    Json,
    /// The messages of the Agent SDK, one per line
    StreamJson,
}

/// Format of standard input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum InputFormat {
    /// The prompt
    #[default]
    Text,
    /// The messages of the Agent SDK
    StreamJson,
}

/// Thinking of the model, in the terms of the official SDKs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ThinkingMode {
    /// As much as the model sees fit (default)
    #[value(alias = "enabled")]
    Adaptive,
    /// No thinking
    Disabled,
}

/// A set of tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Profile {
    /// The tools of ah's own interface
    Default,
    /// read, write, edit and bash
    Minimal,
    /// The tools and names that users of the official Agent SDKs expect; default with -p
    Sdk,
    /// read, write, edit and bash in few words, short results, early summaries; default for small and local models
    Small,
    /// read, write and bash, for a plain loop: results up to 40000 characters, 50 messages, retries from 10 s
    PlainRepl,
}

/// Concurrency of the tool calls of one answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Concurrency {
    /// Calls that only read run in parallel, others one by one
    #[default]
    Auto,
    /// One by one
    Serial,
    /// All in parallel
    Parallel,
}

fn permission_mode() -> impl TypedValueParser<Value = PermissionMode> {
    let known = PermissionMode::ALL.map(|mode| clap::builder::PossibleValue::new(mode.as_str()));
    // Other agents' names for `default`.
    let others = ["manual", "auto"].map(|word| clap::builder::PossibleValue::new(word).hide(true));
    PossibleValuesParser::new(known.into_iter().chain(others))
        .try_map(|word| word.parse::<PermissionMode>())
}

fn effort() -> impl TypedValueParser<Value = Effort> {
    PossibleValuesParser::new(Effort::ALL.map(Effort::as_str)).try_map(|word| {
        let known = Effort::ALL
            .into_iter()
            .find(|effort| effort.as_str() == word);
        known.ok_or("not an effort level")
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
