//! The `bash` tool: runs a command line in a shell, in the foreground or as a background job.
//!
//! `ah-process` starts, watches and ends the child; `shell` tells which programs a line runs and whether they change
//! anything. Permissions are decided elsewhere.

mod bounded;
mod report;
mod repository;
mod shell;

use std::cell::RefCell;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ah_conversation::{
    Access, CommandLine, Context, DisplayKey, Environment, Input, Interface, Output, Reach, Tool,
    ToolExtras, ToolSpec, ToolUse, Truncation,
};
use ah_process::{Behind, Bounds, Command, Ending, Keep, Sandbox, ShellLine};
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::arguments::{self, Count};
use crate::jobs::Jobs;
use crate::naming::describe;
use crate::withheld;
use crate::workspace::Workspace;

/// Default timeout of a command, in milliseconds.
pub(crate) const DEFAULT_TIMEOUT: u64 = 120_000;
/// Maximum timeout of a command, in milliseconds.
pub(crate) const MAX_TIMEOUT: u64 = 600_000;
/// A timeout below this is taken for a number of seconds.
const SHORTEST_TIMEOUT: u64 = 1_000;
/// Number of bytes of an output that the model is shown.
const SHOWN: usize = 30_000;

/// The shell that runs commands, and their environment.
#[derive(Debug, Clone)]
pub struct Shell {
    /// The program.
    pub program: PathBuf,
    /// Environment variables of commands; no others are inherited.
    pub environment: Vec<(String, String)>,
    /// Variables by which git finds the index of a commit in progress, for commands that work in its repository only.
    pub git_place: Vec<(String, String)>,
    /// Maximum number of bytes kept of one output.
    pub output_cap: u64,
    /// Sandbox that commands run in; `None`: they are not confined.
    pub sandbox: Option<Arc<Sandbox>>,
    /// Limits of commands for a host of the Agent SDKs.
    pub limits: BashLimits,
}

/// Limits of commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BashLimits {
    /// The timeout of a call that names none, in milliseconds.
    pub usual: u64,
    /// The longest timeout that a call may name, in milliseconds.
    pub most: u64,
    /// Number of bytes of an output that the model is shown.
    pub shown: usize,
}

impl Default for BashLimits {
    fn default() -> Self {
        Self {
            usual: DEFAULT_TIMEOUT,
            most: MAX_TIMEOUT,
            shown: SHOWN,
        }
    }
}

impl BashLimits {
    /// Returns the limits that the variables of the other agent set.
    fn of(environment: &Environment) -> Self {
        let number = |name: &str| {
            let value = environment.get(name)?.trim().parse().ok();
            value.filter(|value| *value > 0)
        };
        let usual = number("BASH_DEFAULT_TIMEOUT_MS").unwrap_or(DEFAULT_TIMEOUT);
        let most = number("BASH_MAX_TIMEOUT_MS").unwrap_or(MAX_TIMEOUT);
        let shown = number("BASH_MAX_OUTPUT_LENGTH").and_then(|bytes| bytes.try_into().ok());
        Self {
            usual,
            most: most.max(usual),
            shown: shown.unwrap_or(SHOWN),
        }
    }
}

impl Shell {
    /// Returns the shell that `AH_SHELL` names, or bash, or sh. Its commands see all variables except secrets; 64 MiB of
    /// an output are kept.
    pub fn new(environment: &Environment) -> Self {
        let wanted = [environment.get("AH_SHELL"), Some("bash"), Some("sh")];
        let program = wanted
            .into_iter()
            .flatten()
            .find_map(|name| find_program(name, environment))
            .unwrap_or_else(|| "/bin/sh".into());
        let pairs = environment.for_children();
        Self {
            program,
            environment: pairs
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
            git_place: environment.git_place().to_vec(),
            output_cap: 64 * 1024 * 1024,
            sandbox: None,
            limits: BashLimits::of(environment),
        }
    }

    /// Returns a command that runs `line` in `cwd`, with the variables of its call.
    pub(crate) fn command(
        &self,
        line: ShellLine,
        cwd: &Path,
        keep: Keep,
        variables: &[(String, String)],
    ) -> Command {
        let is_replaced = |name: &str| variables.iter().any(|(other, _)| other == name);
        let environment = self.environment.iter();
        let environment = environment.filter(|(name, _)| !is_replaced(name));
        Command {
            program: self.program.clone(),
            arguments: line.arguments,
            cwd: cwd.to_owned(),
            environment: environment.chain(variables).cloned().collect(),
            stdin: line.stdin,
            deadline: None,
            keep,
            sandbox: self.sandbox.clone(),
            bounds: None,
            note: report::note,
        }
    }
}

/// Runs a command in the foreground; the details name it `line`.
pub(crate) async fn to_end(child: Command, line: &str) -> Output {
    match child.run().await {
        Err(fault) => Output::error(fault.to_string()),
        Ok(outcome) => Output {
            is_error: outcome.ending != Ending::Exited(0),
            details: Some(json!({ "command": line, "exit_code": outcome.ending.code() })),
            content: report::shown(outcome.output),
        },
    }
}

/// Finds the program `name`: a path, or a name in the search path or the usual folders of shells. Relative folders of
/// the search path are ignored, because a project could put anything there.
fn find_program(name: &str, environment: &Environment) -> Option<PathBuf> {
    let search_path = environment.get("PATH").unwrap_or_default();
    let usual = ["/bin", "/usr/bin", "/usr/local/bin"].map(PathBuf::from);
    if name.contains('/') {
        let path = environment.cwd().join(name);
        return path.is_file().then_some(path);
    }
    std::env::split_paths(search_path)
        .chain(usual)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

/// The `bash` tool.
pub struct Bash {
    spec: ToolSpec,
    workspace: Arc<Workspace>,
    shell: Shell,
    jobs: Arc<Jobs>,
    interface: Interface,
    limits: BashLimits,
    /// Temporary files of commands within bounds.
    scratch: bounded::Scratch,
}

#[derive(Deserialize, JsonSchema)]
struct Arguments {
    command: String,
    timeout: Option<Count>,
    /// In a few words
    description: Option<String>,
    #[serde(default)]
    run_in_background: bool,
    job: Option<String>,
}

impl Arguments {
    /// The timeout in milliseconds. A model that means seconds names a small number, and no command is given less than one.
    fn timeout(&self, most: u64) -> Option<u64> {
        let Count(named) = self.timeout?;
        Some(match named {
            1..SHORTEST_TIMEOUT => (named * 1_000).min(most),
            named => named,
        })
    }
}

impl Bash {
    /// Returns the tool for commands in `workspace`. Its background jobs end with it, or with the last
    /// tool that shares them.
    pub fn new(workspace: Arc<Workspace>, shell: Shell, interface: Interface) -> Self {
        let mut schema = arguments::schema::<Arguments>();
        // People see a description only in hosts of the Agent SDKs.
        let unused = interface.pick("description", "job");
        arguments::leave_out(&mut schema, "", unused);
        let name = interface.tool_name("bash");
        let limits = match interface {
            Interface::Native => BashLimits::default(),
            Interface::AgentSdk => shell.limits,
        };
        let description = describe(interface, include_str!("bash.md"))
            .replace(&DEFAULT_TIMEOUT.to_string(), &limits.usual.to_string())
            .replace(&MAX_TIMEOUT.to_string(), &limits.most.to_string());
        let spec = ToolSpec {
            truncation: Truncation {
                bytes: limits.shown,
                lines: Some(256),
            },
            key: Some(DisplayKey::Command("command")),
            ..arguments::spec(&name, &description, schema)
        };
        Self {
            spec,
            workspace,
            shell,
            jobs: Arc::default(),
            interface,
            limits,
            scratch: bounded::Scratch::default(),
        }
    }

    fn line(&self, line: &str) -> ShellLine {
        ShellLine::new(&self.shell.program, line, Behind::Nothing)
    }

    /// Returns the command that runs `line`, within the bounds of its verdict.
    fn command(&self, line: &str, keep: Keep, context: &Context) -> Command {
        let variables = self.variables(line, context);
        let cwd = self.workspace.cwd();
        let command = self.shell.command(self.line(line), cwd, keep, &variables);
        self.scratch.bounded(command, context)
    }

    /// Describes itself to a small model.
    #[must_use]
    pub(crate) fn brief(mut self) -> Self {
        let usual = self.limits.usual / 1_000;
        let text = format!("Runs a shell command. `timeout` is in seconds (default {usual}).");
        let unused = ["run_in_background", "job", "description"];
        arguments::brief(&mut self.spec, text, &unused);
        self
    }

    /// Returns the variables of a call. Git's are for commands that work in the repository; in a sandbox no variable counts
    /// that nobody has named. Where git only looks, it starts nothing.
    fn variables(&self, line: &str, context: &Context) -> Vec<(String, String)> {
        let git_place = &self.shell.git_place;
        let analysis = shell::analyze(line, &self.files());
        let has_place = !git_place.is_empty()
            && self.shell.sandbox.is_none()
            && shell::stays_in_repository(&analysis.line);
        let git_place = git_place.iter().filter(|_| has_place).cloned();
        let looking = match context.reach {
            _ if analysis.looks_at_repository => repository::looking(false),
            Reach::ReadOnly if analysis.line.looks => repository::looking(true),
            Reach::ReadOnly | Reach::Edits(_) | Reach::Anything => Vec::new(),
        };
        let own = context.variables.iter().cloned();
        git_place.chain(looking).chain(own).collect()
    }

    fn files(&self) -> FilesOfLine<'_> {
        FilesOfLine {
            workspace: &self.workspace,
            links: RefCell::default(),
            has_own_place: !self.shell.git_place.is_empty(),
        }
    }

    async fn run_to_end(&self, line: &str, timeout: Duration, context: &Context) -> Output {
        let keep = Keep::new(context.spool.clone(), self.shell.output_cap);
        let keep = keep.followed_by(context.output.clone());
        let child = Command {
            deadline: Some(timeout),
            ..self.command(line, keep, context)
        };
        let withheld = { child.bounds.as_ref() }.map(|bounds| bounds.withheld.clone());
        match child.run().await {
            Err(fault) => Output::error(fault.to_string()),
            Ok(outcome) => {
                let files = self.files();
                let analysis = shell::analyze(line, &files);
                let ending = outcome.ending;
                let output = report::report(outcome, &analysis.line, self.interface);
                let withheld = withheld.unwrap_or_default();
                let output = withheld::told(output, &withheld);
                let sandbox = self.shell.sandbox.as_deref();
                let output = withheld::told_beside(output, sandbox, &withheld);
                bounded::told(output, ending, &context.reach)
            }
        }
    }

    async fn run_beside(&self, call: &ToolUse, arguments: &Arguments, context: &Context) -> Output {
        // The file named after the call keeps its result, so the job's output needs another.
        let mut path = context.spool.clone().into_os_string();
        path.push(".job");
        let keep = Keep::new(path.into(), self.shell.output_cap).at_once();
        let child = Command {
            deadline: arguments
                .timeout(self.limits.most)
                .map(Duration::from_millis),
            // Each request about the job reports how it ended.
            note: |_| None,
            ..self.command(&arguments.command, keep, context)
        };
        let (line, description) = (&arguments.command, arguments.description.clone());
        let jobs = &self.jobs;
        jobs.start(&call.id, line, description, child, &context.tasks)
            .await
    }

    /// Handles a request about a job: `output`, `wait` or `stop`.
    async fn ask(&self, job: &str, request: &str, patience: Duration) -> Output {
        let news = match request.trim() {
            "output" => self.jobs.news(job, Duration::ZERO).await,
            "wait" => self.jobs.news(job, patience).await,
            "stop" => self.jobs.stop(job).await,
            other => Err(format!(
                "with `job`, `command` must be `output`, `wait` or `stop`, not `{other}`"
            )),
        };
        match news {
            Ok(news) => Output {
                is_error: news.has_failed(),
                ..news.into_output(job)
            },
            Err(fault) => Output::error(fault),
        }
    }
}

/// The files that a command line may name.
struct FilesOfLine<'a> {
    workspace: &'a Workspace,
    /// Names of symbolic links that the line names.
    links: RefCell<Vec<PathBuf>>,
    /// Whether git is told of a repository, instead of finding it.
    has_own_place: bool,
}

impl shell::Files for FilesOfLine<'_> {
    fn resolve(&self, name: &str) -> PathBuf {
        self.links.borrow_mut().extend(self.workspace.named(name));
        self.workspace.resolve(name)
    }

    fn behind_links(&self, path: &Path) -> PathBuf {
        self.workspace.place(path)
    }

    fn may_be_folder(&self, path: &Path) -> bool {
        path.is_dir()
    }

    fn names_in(&self, folder: &Path, limit: usize) -> Option<Vec<String>> {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            // The shell cannot read it either.
            Err(_) => return Some(Vec::new()),
        };
        let name = |entry: io::Result<fs::DirEntry>| {
            let entry = entry.ok()?;
            let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
            match entry.file_name().into_string() {
                Ok(name) => Some(name),
                // A file leads nowhere else.
                Err(name) => is_file.then(|| name.to_string_lossy().into_owned()),
            }
        };
        entries.take(limit.saturating_add(1)).map(name).collect()
    }

    fn repository_starts_nothing(&self) -> bool {
        !self.has_own_place && repository::starts_nothing(self.workspace.cwd())
    }
}

#[async_trait]
impl Tool for Bash {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, input: &Input) -> Vec<Access> {
        if input.text("job").is_some() {
            return Vec::new();
        }
        let line = input.text("command").unwrap_or_default();
        let is_beside = input.get("run_in_background") == Some(&true.into());
        let files = self.files();
        let mut analysis = shell::analyze(line, &files);
        if !Bounds::can_be_kept() {
            analysis = analysis.unkept();
        }
        let line = CommandLine {
            harmless: !is_beside && analysis.line.harmless,
            ..analysis.line
        };
        let reads = analysis.reads.into_iter().map(Access::Read);
        let writes = analysis.writes.into_iter().map(Access::Write);
        std::iter::once(Access::Command(line))
            .chain(reads)
            .chain(writes)
            .chain(files.links.into_inner().into_iter().map(Access::Named))
            .collect()
    }

    fn extras(&self) -> ToolExtras<'_> {
        ToolExtras {
            words_of: Some(report::words_of),
            tasks: Some(self.jobs.clone()),
            ..ToolExtras::default()
        }
    }

    async fn run(&self, call: &ToolUse, context: &Context) -> Output {
        let arguments: Arguments = match arguments::parse(call) {
            Ok(arguments) => arguments,
            Err(error) => return Output::error(error),
        };
        let limits = self.limits;
        let most = limits.most;
        let timeout = arguments.timeout(most).unwrap_or(limits.usual);
        if !(1..=most).contains(&timeout) {
            return Output::error(format!(
                "`timeout` is {timeout} ms; it can be 1 to {most}. For what takes longer, set \
                 `run_in_background`."
            ));
        }
        let timeout = Duration::from_millis(timeout);
        match &arguments.job {
            Some(job) => self.ask(job, &arguments.command, timeout).await,
            None if arguments.run_in_background => self.run_beside(call, &arguments, context).await,
            None => self.run_to_end(&arguments.command, timeout, context).await,
        }
    }
}
