//! The subcommands as typed.

use std::ffi::OsString;
use std::path::PathBuf;

use super::bench::BenchOptions;
use super::fleet::FleetCommands;
use super::json::Json;
use ah_sandbox::{Authority, Grant};
use clap::{Subcommand, ValueEnum};
use clap_complete::Shell;

use super::options::{Hosts, SandboxTier, whole};
use super::plugin::PluginAction;
use super::serve::Place;
use super::shim::Shimming;
use super::work::{WorkAction, WorkOptions};

/// Subcommands; each has a file of its name in `commands/`.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum Subcommands {
    /// List the sessions of this folder, newest first
    Sessions {
        /// Action
        #[command(subcommand)]
        action: Option<SessionsAction>,
        /// List sessions of all folders
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        #[expect(missing_docs, reason = "its one field says it")]
        json: Json,
    },
    /// Print a message of the session
    Show {
        /// The message's number [default: the last message]
        #[arg(value_name = "N", value_parser = message_number)]
        message: Option<u32>,
        /// Print only the complete, unmodified output of its tool calls
        #[arg(long, conflicts_with = "json")]
        output: bool,
        #[command(flatten)]
        #[expect(missing_docs, reason = "its one field says it")]
        json: Json,
    },
    /// List the messages of the current branch
    Scan(Json),
    /// Draw all branches of the session
    Tree(Json),
    /// List the last messages of all branches, newest first
    Branches(Json),
    /// Continue from an earlier message or another branch
    Checkout {
        /// The message
        #[arg(value_name = "@N", value_parser = message_number)]
        message: u32,
    },
    /// Change a branch
    #[command(subcommand_required = true)]
    Branch {
        /// Action
        #[command(subcommand)]
        action: BranchAction,
    },
    /// Undo the last run's file changes
    Undo(Rewinding),
    /// Redo the changes of the last undo
    Redo(Rewinding),
    /// Restore the session's files to their state before a message
    Restore {
        /// The message, usually a prompt
        #[arg(value_name = "@N", value_parser = message_number)]
        message: u32,
        #[command(flatten)]
        #[expect(missing_docs, reason = "its fields say it")]
        wanted: Rewinding,
    },
    /// Show the session's file changes, or the difference between two branches
    Diff {
        /// A message of one branch
        #[arg(value_name = "@A", value_parser = message_number, requires = "right")]
        left: Option<u32>,
        /// A message of the other branch
        #[arg(value_name = "@B", value_parser = message_number)]
        right: Option<u32>,
        #[command(flatten)]
        #[expect(missing_docs, reason = "its one field says it")]
        json: Json,
    },
    /// Run the tasks of a folder and judge each by its check
    Bench(BenchOptions),
    /// Delete single messages
    Rmm {
        /// Their numbers
        #[arg(value_name = "N", required = true, value_parser = message_number)]
        messages: Vec<u32>,
    },
    /// List the worktrees of this repository, work in one, or remove one
    #[command(args_conflicts_with_subcommands = true)]
    Worktree {
        /// Action
        #[command(subcommand)]
        action: Option<WorktreeAction>,
        /// Work in the worktree of this name, as with `ah -w NAME`
        #[arg(value_name = "NAME", conflicts_with = "json")]
        tree: Option<String>,
        #[command(flatten)]
        #[expect(missing_docs, reason = "its one field says it")]
        json: Json,
    },
    /// Show tokens and cost of the session
    Usage(Json),
    /// Print the session as a document
    Export {
        /// Format
        #[arg(long, value_enum, default_value_t)]
        format: ExportFormat,
        /// Short for `--format html`
        #[arg(long, conflicts_with = "format")]
        html: bool,
    },
    /// Import sessions of Claude Code, Codex and other programs
    Import(Importing),
    /// Print the log file set by `AH_LOG_FILE` or `--debug-file`
    Logs {
        /// Follow the log
        #[arg(short = 'f', long)]
        follow: bool,
        /// Print only the last N lines
        #[arg(short = 'l', long, value_name = "N", value_parser = whole::<usize>)]
        lines: Option<usize>,
    },
    /// Delete empty sessions and leftovers of crashes; optionally old sessions
    Gc {
        /// Delete sessions unused for this many days
        #[arg(long, value_name = "DAYS", value_parser = whole::<u32>)]
        older_than: Option<u32>,
        #[command(flatten)]
        #[expect(missing_docs, reason = "its one field says it")]
        json: Json,
    },
    /// Check the installation: version, keys, the model's server, settings, sessions, terminal
    Doctor(DoctorOptions),
    /// List the known models, or ask the servers for theirs
    Models(ModelsOptions),
    /// List the model's tools and their sources
    Tools(Json),
    /// List the available subagents and their sources
    Agents(Json),
    /// Print the system prompt and the sources of its parts
    Prompt {
        /// List the size of each part of a request, in bytes
        #[arg(long)]
        bytes: bool,
        /// Output form
        #[command(flatten)]
        form: Json,
    },
    /// Run a command in the sandbox, or check that it works
    #[command(subcommand_required = true)]
    Sandbox {
        /// Action
        #[command(subcommand)]
        action: SandboxAction,
    },
    /// Serve the sandbox's proxy on a socket, for other programs
    Proxy {
        /// The socket to create
        socket: PathBuf,
        #[command(flatten)]
        #[expect(missing_docs, reason = "its fields say it")]
        hosts: Hosts,
    },
    /// List and test the MCP servers
    #[command(subcommand_required = true)]
    Mcp {
        /// Action
        #[command(subcommand)]
        action: McpAction,
    },
    /// Show which key is used
    #[command(subcommand_required = true)]
    Auth {
        /// Action
        #[command(subcommand)]
        action: AuthAction,
    },
    /// Install plugins from marketplaces
    #[command(subcommand_required = true, alias = "plugins")]
    Plugin {
        /// Action
        #[command(subcommand)]
        action: PluginAction,
    },
    /// Make an installed Agent SDK start ah instead of its own program
    Shim(Shimming),
    /// Print settings
    #[command(subcommand_required = true)]
    Config {
        /// Action
        #[command(subcommand)]
        action: ConfigAction,
    },
    /// Write a copy of this program with an embedded folder: settings, skills, commands, tools, variables
    Embed {
        /// The folder
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// The file to write [default: ./ah]
        #[arg(short = 'o', long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Extract the files embedded in this program into a folder
    Extract {
        /// The folder
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// Extract the built-in files instead
        #[arg(long)]
        builtin: bool,
    },
    /// Work on an issue, unattended, until there is a reviewed pull request
    Work {
        #[command(flatten)]
        #[expect(missing_docs, reason = "its fields say it")]
        options: WorkOptions,
        /// A single phase [default: all]
        #[command(subcommand)]
        action: Option<WorkAction>,
    },
    /// Serve a code editor by the Agent Client Protocol, over standard input and output
    Acp {
        /// Do what `ah login` does instead; editors start it in a terminal
        #[arg(long)]
        login: bool,
    },
    /// Serve the sessions of this folder over HTTP, on this machine and with a token
    Serve(Place),
    /// Show a run in the background: follow, steer and answer it, and leave it again
    Attach {
        /// The session; without it, the one that runs
        session: Option<String>,
        /// No colours and no spinner
        #[arg(long)]
        plain: bool,
    },
    #[command(flatten)]
    #[expect(missing_docs, reason = "they say what they are")]
    Fleet(FleetCommands),
    /// Save an API key, or choose a model server; in a pipe, reads the key
    Login {
        /// The vendor, gateway or local server [default: asks]
        server: Option<String>,
    },
    /// Remove the keys that `ah login` has saved
    Logout,
    /// Watch a small repair in a temporary folder; needs no API key
    Demo {
        /// Another demo
        #[command(subcommand)]
        action: Option<DemoAction>,
    },
    /// Print the manual page, or write the pages of all subcommands into a folder
    Man {
        /// The folder to create
        #[arg(value_name = "DIR")]
        folder: Option<PathBuf>,
    },
    /// Print the completion script for a shell
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: Shell,
    },
}

impl Subcommands {
    /// Returns whether it prints settings, or values from the project's files.
    pub fn shows_settings(&self) -> bool {
        matches!(
            self,
            Self::Acp { login: false }
                | Self::Serve(_)
                | Self::Models(_)
                | Self::Tools(_)
                | Self::Agents(_)
                | Self::Prompt { .. }
                | Self::Mcp { .. }
                | Self::Config { .. }
        )
    }
}

/// Options of undo, redo and restore.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::Args)]
pub struct Rewinding {
    /// Only show what would change
    #[arg(long)]
    pub dry_run: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `ah import`.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
pub struct Importing {
    /// Files of sessions, or folders with them
    #[arg(value_name = "FILE|FOLDER")]
    pub places: Vec<PathBuf>,
    /// All sessions of this folder that these programs have kept
    #[arg(long)]
    pub all: bool,
    #[command(flatten)]
    #[expect(missing_docs, reason = "its one field says it")]
    pub json: Json,
}

/// Actions on sessions.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum SessionsAction {
    /// Delete sessions
    Rm {
        /// Ids, id prefixes, or names
        #[arg(value_name = "SESSION", required = true)]
        sessions: Vec<String>,
    },
    /// Name a session
    Rename {
        /// Id, id prefix, or name
        session: String,
        /// The new name
        name: String,
    },
}

/// Actions on worktrees.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum WorktreeAction {
    /// Remove a worktree; its branch stays if it has commits of its own
    #[command(alias = "rm")]
    Remove {
        /// Its name
        #[arg(value_name = "NAME")]
        tree: String,
        /// Remove it even if files would be lost
        #[arg(long)]
        force: bool,
    },
    /// List the worktrees
    #[command(alias = "ls")]
    List(Json),
}

/// Actions on a branch.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum BranchAction {
    /// Delete a message and its descendants
    Rm {
        /// The message
        #[arg(value_name = "@N", value_parser = message_number)]
        message: u32,
    },
}

/// Actions of the sandbox.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum SandboxAction {
    /// Run a command in the sandbox and exit with its exit code
    Exec(SandboxExec),
    /// Create a sandbox and check that it blocks what it must
    Check(Json),
}

/// A command and its grants.
#[derive(Debug, Clone, Default, PartialEq, clap::Args)]
pub struct SandboxExec {
    /// The writable folder [default: the project of the working directory]
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
    /// Required protection
    #[arg(long, value_enum, value_name = "TIER", default_value_t)]
    pub tier: SandboxTier,
    /// Let the command access this path: read (r), write (w), execute (x), create (c)
    #[arg(long, value_name = "PATH[:rwxc]")]
    pub unveil: Vec<Grant>,
    /// Let the command see this variable
    #[arg(long, value_name = "NAME")]
    pub env: Vec<String>,
    #[command(flatten)]
    #[expect(missing_docs, reason = "its fields say it")]
    pub hosts: Hosts,
    /// Show what the command changed, and revert it unless you keep it
    #[arg(long)]
    pub preview: bool,
    /// The command
    #[arg(value_name = "CMD", required = true, last = true)]
    pub command: Vec<OsString>,
}

/// Actions on MCP servers.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum McpAction {
    /// List the servers and their sources
    List(Json),
    /// Print the configuration of a server
    Get {
        /// Its name
        name: String,
        #[command(flatten)]
        #[expect(missing_docs, reason = "its one field says it")]
        json: Json,
    },
    /// Add a server, and try it
    Add {
        /// Its name
        name: String,
        /// Its URL, or `--` and the program with its arguments
        #[arg(value_name = "URL|COMMAND", required = true, num_args = 1..)]
        target: Vec<String>,
        #[command(flatten)]
        #[expect(missing_docs, reason = "its fields say it")]
        options: AddedServer,
    },
    /// Add the servers in a file of another agent or editor, or in server.json of the MCP registry
    Import {
        /// The file; `-` is standard input
        file: PathBuf,
        /// The file to add them to
        #[arg(long, value_enum, value_name = "SCOPE", default_value = "user")]
        scope: Scope,
    },
    /// Remove a server
    Remove {
        /// Its name
        name: String,
        /// The file to remove it from [default: the one in effect]
        #[arg(long, value_enum, value_name = "SCOPE")]
        scope: Option<Scope>,
    },
    /// Serve other agents over standard input and output, as an MCP server that runs this agent
    Serve,
    /// Sign in to a server with a URL
    Login {
        /// Its name
        name: String,
        /// Scope to ask for, in place of those that the server names
        #[arg(long = "scope", value_name = "SCOPE")]
        scopes: Vec<String>,
        /// Print the address, and start no browser
        #[arg(long)]
        no_browser: bool,
    },
    /// Forget a sign-in
    Logout {
        /// Name of the server
        name: String,
    },
    /// Show whether you are signed in to a server
    Status {
        /// Its name
        name: String,
        #[command(flatten)]
        #[expect(missing_docs, reason = "its one field says it")]
        json: Json,
    },
    /// Start a server and list its tools
    Test {
        /// Its name
        name: String,
        #[command(flatten)]
        #[expect(missing_docs, reason = "its one field says it")]
        json: Json,
    },
}

/// Options of a server that is added.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct AddedServer {
    /// The file to add it to: the user's, the project's (.mcp.json), or the user's for this folder
    #[arg(long, value_enum, value_name = "SCOPE", default_value = "user")]
    pub scope: Scope,
    /// Transport of a URL
    #[arg(long = "type", value_name = "TYPE", value_parser = ["http", "sse"])]
    pub kind: Option<String>,
    /// Variable of its program; ${NAME} in the value is replaced when it starts
    #[arg(long = "env", value_name = "NAME=VALUE")]
    pub variables: Vec<String>,
    /// Header of every request
    #[arg(long = "header", value_name = "NAME: VALUE")]
    pub headers: Vec<String>,
    /// Host that its program may reach from the sandbox
    #[arg(long = "allow-host", value_name = "HOST:PORT")]
    pub hosts: Vec<Authority>,
    /// Host that its program may reach by plain HTTP
    #[arg(long = "allow-http", value_name = "HOST:PORT")]
    pub plain_hosts: Vec<Authority>,
}

/// Files for servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Scope {
    /// ~/.ah/settings.json
    User,
    /// .mcp.json of the project
    Project,
    /// .ah/settings.local.json
    Local,
}

/// Demos.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum DemoAction {
    /// From an issue to a pull request
    Work,
}

/// Actions on settings.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum ConfigAction {
    /// Print the settings in force
    Show {
        /// Show the source of each
        #[arg(long)]
        origin: bool,
        #[command(flatten)]
        #[expect(missing_docs, reason = "its one field says it")]
        json: Json,
    },
}

/// Formats of an exported session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ExportFormat {
    /// Markdown, for people
    #[default]
    Md,
    /// One message per line, as JSON
    Jsonl,
    /// A self-contained HTML page
    Html,
    /// A transcript as Claude Code writes it
    Claude,
    /// A trajectory: Agent Trajectory Interchange Format 1.8
    Atif,
}

/// Parses the number of a message, with or without the `@`.
fn message_number(text: &str) -> Result<u32, String> {
    let number = text.strip_prefix('@').unwrap_or(text);
    number
        .parse()
        .map_err(|_| "expected the number of a message, as `ah scan` lists them".to_owned())
}

/// Options of `ah doctor`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::Args)]
pub struct DoctorOptions {
    /// Do not contact the model's server
    #[arg(long)]
    pub offline: bool,
    /// Also ask GitHub whether there is a newer version
    #[arg(long, conflicts_with = "offline")]
    pub updates: bool,
    /// Leave out the terminal: a conversation shows the report, and reads it through a pipe
    #[arg(long, hide = true)]
    pub inside: bool,
    /// Form of the output.
    #[command(flatten)]
    pub form: Json,
}

/// Options of `ah models`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::Args)]
pub struct ModelsOptions {
    /// Ask the servers that are set up for their models, and keep the lists in the user's folder
    #[arg(long)]
    pub refresh: bool,
    /// Form of the output.
    #[command(flatten)]
    pub form: Json,
}

/// What `ah auth` does.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum AuthAction {
    /// Print as JSON whether there is a key, and where it comes from; exit code 1 without a key
    Status {
        /// Print a line of text instead
        #[arg(long)]
        text: bool,
        /// Print JSON (the default)
        #[arg(long, conflicts_with = "text", hide = true)]
        json: bool,
    },
}
