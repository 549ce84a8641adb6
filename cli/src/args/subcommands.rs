//! The subcommands as they are typed.

use std::ffi::OsString;
use std::path::PathBuf;

use super::json::Json;
use ah_sandbox::Grant;
use clap::Subcommand;
use clap_complete::Shell;

use super::options::{Hosts, SandboxTier, whole};
use super::work::{WorkAction, WorkOptions};

/// A subcommand. Each has a file of its name in `commands/`.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum Subcommands {
    /// List the sessions of this folder, newest first
    Sessions {
        /// What to do with one
        #[command(subcommand)]
        action: Option<SessionsAction>,
        #[command(flatten)]
        #[expect(missing_docs, reason = "its one field says it")]
        json: Json,
    },
    /// Print a message of the session
    Show {
        /// The message's number; without one, the last message
        #[arg(value_name = "N", value_parser = message_number)]
        message: Option<u32>,
        /// Print just what its tool calls put out, whole and as it came
        #[arg(long, conflicts_with = "json")]
        output: bool,
        #[command(flatten)]
        #[expect(missing_docs, reason = "its one field says it")]
        json: Json,
    },
    /// List the messages of the branch
    Scan(Json),
    /// Draw all branches of the session
    Tree(Json),
    /// List the ends of all branches, newest first
    Branches(Json),
    /// Go on from an earlier message or another branch
    Checkout {
        /// The message
        #[arg(value_name = "@N", value_parser = message_number)]
        message: u32,
    },
    /// Work on one branch
    #[command(subcommand_required = true)]
    Branch {
        /// What to do
        #[command(subcommand)]
        action: BranchAction,
    },
    /// Give the files back as they were before the last run that changed some
    Undo(Rewinding),
    /// Take back the last undo
    Redo(Rewinding),
    /// Show what the session has changed in files, or where two branches part
    Diff {
        /// A message of one branch
        #[arg(value_name = "@A", value_parser = message_number, requires = "right")]
        left: Option<u32>,
        /// A message of the other
        #[arg(value_name = "@B", value_parser = message_number)]
        right: Option<u32>,
        #[command(flatten)]
        #[expect(missing_docs, reason = "its one field says it")]
        json: Json,
    },
    /// Delete single messages
    Rmm {
        /// Their numbers
        #[arg(value_name = "N", required = true, value_parser = message_number)]
        messages: Vec<u32>,
    },
    /// Sum up tokens and money of the session
    Usage(Json),
    /// Print the session as a document
    Export {
        /// As what
        #[arg(long, value_enum, default_value_t)]
        format: ExportFormat,
        /// As a page for a browser: `--format html`
        #[arg(long, conflicts_with = "format")]
        html: bool,
    },
    /// Print the log that `AH_LOG_FILE` or `--debug-file` names
    Logs {
        /// Wait for what is added to it
        #[arg(short = 'f', long)]
        follow: bool,
        /// Only its last lines
        #[arg(short = 'l', long, value_name = "N", value_parser = whole::<usize>)]
        lines: Option<usize>,
    },
    /// Delete empty sessions and what a crash left behind; on request, old sessions as well
    Gc {
        /// Also sessions in which nothing was said for this many days
        #[arg(long, value_name = "DAYS", value_parser = whole::<u32>)]
        older_than: Option<u32>,
        #[command(flatten)]
        #[expect(missing_docs, reason = "its one field says it")]
        json: Json,
    },
    /// Check the installation: version, keys, settings, sessions, terminal
    Doctor(Json),
    /// List the models that are known
    Models(Json),
    /// List the tools that the model has, and where they come from
    Tools(Json),
    /// List the subagents that the model may start, and where their definitions come from
    Agents(Json),
    /// Print the system prompt, and where its parts come from
    Prompt(Json),
    /// Run a command where it can neither harm nor tell, or see whether that is possible here
    #[command(subcommand_required = true)]
    Sandbox {
        /// What to do
        #[command(subcommand)]
        action: SandboxAction,
    },
    /// Serve the proxy of the sandbox on a socket, for other programs
    Proxy {
        /// The socket, which is made
        socket: PathBuf,
        #[command(flatten)]
        #[expect(missing_docs, reason = "its fields say it")]
        hosts: Hosts,
    },
    /// Look at the MCP servers
    #[command(subcommand_required = true)]
    Mcp {
        /// What to do
        #[command(subcommand)]
        action: McpAction,
    },
    /// Print settings
    #[command(subcommand_required = true)]
    Config {
        /// What to do
        #[command(subcommand)]
        action: ConfigAction,
    },
    /// Write a copy of this program with a folder in it: settings, skills, commands, tools, variables
    Embed {
        /// The folder
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// The file to write [default: ./ah]
        #[arg(short = 'o', long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Write the files that are embedded in this program into a folder
    Extract {
        /// The folder
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// The files that are built in instead
        #[arg(long)]
        builtin: bool,
    },
    /// Work on an issue until there is a reviewed pull request, with nobody watching
    Work {
        #[command(flatten)]
        #[expect(missing_docs, reason = "its fields say it")]
        options: WorkOptions,
        /// A part of it; without one, all
        #[command(subcommand)]
        action: Option<WorkAction>,
    },
    /// Watch a small repair in a temporary folder; needs no key
    Demo {
        /// Another demo
        #[command(subcommand)]
        action: Option<DemoAction>,
    },
    /// Print the manual page, or write one for each subcommand into a folder
    Man {
        /// The folder, which is made
        #[arg(value_name = "DIR")]
        folder: Option<PathBuf>,
    },
    /// Print the completion script of a shell
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: Shell,
    },
}

impl Subcommands {
    /// Whether it shows what the settings and the project's files come to.
    pub fn shows_settings(&self) -> bool {
        matches!(
            self,
            Self::Models(_)
                | Self::Tools(_)
                | Self::Agents(_)
                | Self::Prompt(_)
                | Self::Mcp { .. }
                | Self::Config { .. }
        )
    }
}

/// How files are given back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::Args)]
pub struct Rewinding {
    /// Only say what would change
    #[arg(long)]
    pub dry_run: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// What to do with sessions.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum SessionsAction {
    /// Delete sessions
    Rm {
        /// Ids, their beginnings, or names
        #[arg(value_name = "SESSION", required = true)]
        sessions: Vec<String>,
    },
    /// Name a session
    Rename {
        /// Its id, the beginning of it, or its name
        session: String,
        /// The new name
        name: String,
    },
}

/// What to do with a branch.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum BranchAction {
    /// Delete a message and all that follows it
    Rm {
        /// The message
        #[arg(value_name = "@N", value_parser = message_number)]
        message: u32,
    },
}

/// What to do with the sandbox.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum SandboxAction {
    /// Run a command in the sandbox; its exit code is the command's
    Exec(SandboxExec),
    /// Build a sandbox and try what it must refuse
    Check(Json),
}

/// A command, and what it may do.
#[derive(Debug, Clone, Default, PartialEq, clap::Args)]
pub struct SandboxExec {
    /// The folder to work in; the project of the working directory
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
    /// What must hold
    #[arg(long, value_enum, value_name = "TIER", default_value_t)]
    pub tier: SandboxTier,
    /// Let it see this path: read (r), write (w), execute (x), create (c)
    #[arg(long, value_name = "PATH[:rwxc]")]
    pub unveil: Vec<Grant>,
    /// Let it see this variable
    #[arg(long, value_name = "NAME")]
    pub env: Vec<String>,
    #[command(flatten)]
    #[expect(missing_docs, reason = "its fields say it")]
    pub hosts: Hosts,
    /// The command
    #[arg(value_name = "CMD", required = true, last = true)]
    pub command: Vec<OsString>,
}

/// What to do with MCP servers.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum McpAction {
    /// List the servers, and where each is set
    List(Json),
    /// Print how a server is reached
    Get {
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

/// Which demo.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum DemoAction {
    /// The way from an issue to a pull request
    Work,
}

/// What to do with settings.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum ConfigAction {
    /// Print the settings in force
    Show {
        /// Say where each comes from
        #[arg(long)]
        origin: bool,
        #[command(flatten)]
        #[expect(missing_docs, reason = "its one field says it")]
        json: Json,
    },
}

/// As what a session is printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ExportFormat {
    /// Markdown, for people
    #[default]
    Md,
    /// One message per line, as JSON
    Jsonl,
    /// One page for a browser, which needs nothing else
    Html,
}

/// The number of a message, with or without the `@`.
fn message_number(text: &str) -> Result<u32, String> {
    let number = text.strip_prefix('@').unwrap_or(text);
    number
        .parse()
        .map_err(|_| "expected the number of a message, as `ah scan` lists them".to_owned())
}
