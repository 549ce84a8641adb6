//! `ah work`: puts together what the work on an issue needs, and shows how it goes.

mod bench;
pub(super) mod demo;
mod init;
mod status;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::args::options::Options;
use crate::args::work::{WorkAction, WorkOptions};
use crate::commands::doctor::find;
use ah_config::Config;
use ah_config::overlay::Overlay;
use ah_config::{Error, ErrorKind, Overrides};
use ah_conversation::{Content, Environment, ExitReason, Interface};
use ah_process::{Command, Keep};
use ah_terminal::exit;
use ah_terminal::exit::FAILURE;
use ah_terminal::signals::{Signals, leave};
use ah_work::agent::Agents;
use ah_work::artifact;
use ah_work::folder::FolderHub;
use ah_work::git::{Git, GitError, Owner, is_repository, repository_of};
use ah_work::github::{self, GitHub};
use ah_work::hub::Hub;
use ah_work::phase::{Phase, PhaseOutcome, WorkStatus};
use ah_work::run::{Work, WorkError, WorkEvent, WorkOptions as Wanted, WorkResult};
use tokio::runtime::Builder;

/// What the phases are asked with, besides the keys that settings name.
const KEYS: [&str; 6] = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "OPENAI_API_KEY",
    "LITELLM_API_KEY",
    "OLLAMA_API_KEY",
];
/// Tokens of the hub, which no phase gets, whatever settings say.
const TOKENS: [&str; 4] = [
    "GH_TOKEN",
    "GITHUB_TOKEN",
    "GH_ENTERPRISE_TOKEN",
    "GITHUB_ENTERPRISE_TOKEN",
];

/// Does what the subcommand says; gives the exit code.
///
/// # Errors
///
/// Where there is no repository, or the work cannot go on.
pub fn run(
    config: &Config,
    options: &Options,
    wanted: &WorkOptions,
    action: Option<&WorkAction>,
) -> Result<u8, Error> {
    in_runtime(perform(config, options, wanted, action))
}

/// Does the work until it is done or interrupted; what runs then is dropped, and ends.
fn in_runtime(work: impl Future<Output = Result<u8, Error>>) -> Result<u8, Error> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Error::failure(format!("cannot start: {error}")))?;
    let code = runtime.block_on(async {
        let signals = Signals::listen(leave)
            .map_err(|error| Error::failure(format!("cannot listen to signals: {error}")))?;
        tokio::select! {
            code = work => code,
            () = signals.token().cancelled() => Ok(interrupted(&signals)),
        }
    });
    ah_process::finish_all();
    runtime.shutdown_background();
    code
}

/// Says so; gives the exit code.
fn interrupted(signals: &Signals) -> u8 {
    ah_terminal::report(&Error::failure("interrupted").hint("the same command goes on"));
    let interrupt = signals.interrupt();
    exit::code(Interface::Native, &ExitReason::Interrupted, interrupt)
}

async fn perform(
    config: &Config,
    options: &Options,
    wanted: &WorkOptions,
    action: Option<&WorkAction>,
) -> Result<u8, Error> {
    let place = Place::find(config).await?;
    match action {
        Some(WorkAction::Status(form)) => return status::run(&place.top, *form),
        Some(
            action @ (WorkAction::Start { .. }
            | WorkAction::Run
            | WorkAction::Log(_)
            | WorkAction::Reset),
        ) => return bench::run(&place, config, options, wanted, action).await,
        _ => {}
    }
    let work = place.work(config, options, wanted).await?;
    if let Some(WorkAction::Init) = action {
        return init::run(&work, wanted.dry_run).await;
    }
    if wanted.dry_run {
        return dry_run(&work).await;
    }
    let ended = match action.and_then(WorkAction::phase) {
        Some(phase) => work.run_phase(phase).await,
        None => work.run().await,
    };
    let folder = artifact::FOLDER;
    match ended.map_err(|error| failure(&error))? {
        WorkResult::Over(WorkStatus::NoIssues) => {
            ah_terminal::note("No issue waits (label `todo`).");
            Ok(0)
        }
        WorkResult::Over(WorkStatus::PrLimit) => {
            let most = work.settings.max_prs();
            ah_terminal::note(&format!(
                "More than {most} pull requests are open; nothing is begun."
            ));
            Ok(0)
        }
        WorkResult::Over(status) => {
            ah_terminal::note(&format!(
                "{}: see {folder}/ for all that was left",
                status.as_str()
            ));
            Ok(if status == WorkStatus::Success {
                0
            } else {
                FAILURE
            })
        }
        WorkResult::Phase(outcome) => {
            ah_terminal::note(&format!("{outcome}: see {folder}/"));
            Ok(match outcome {
                PhaseOutcome::Done
                | PhaseOutcome::Partial
                | PhaseOutcome::Skipped
                | PhaseOutcome::Judged(_) => 0,
                PhaseOutcome::Bailed | PhaseOutcome::Failed => FAILURE,
            })
        }
    }
}

async fn dry_run(work: &Work) -> Result<u8, Error> {
    let text = match work.look().await.map_err(|error| failure(&error))? {
        Ok(issue) => format!("#{} {}\n", issue.number, super::preview(&issue.title, 80)),
        Err(status) => format!("{}\n", status.as_str()),
    };
    super::print(&text)
}

fn failure(error: &WorkError) -> Error {
    let kind = match error {
        WorkError::NoSandbox => ErrorKind::SandboxUnavailable,
        WorkError::Lock(_) => ErrorKind::SessionBusy,
        _ => ErrorKind::Failure,
    };
    Error::new(kind, error.to_string()).maybe_hint(error.hint())
}

/// Where the work is.
struct Place {
    git: PathBuf,
    /// The top of the user's repository.
    top: PathBuf,
}

impl Place {
    async fn find(config: &Config) -> Result<Self, Error> {
        let environment = &config.environment;
        let git = find(environment, "git").ok_or_else(|| {
            Error::failure("there is no git").hint("install it, or put it on PATH")
        })?;
        let here = Git::new(
            git.clone(),
            environment.cwd(),
            Owner::User,
            &all(environment),
        );
        let top = here
            .run(&["rev-parse", "--show-toplevel"])
            .await
            .map_err(|_| {
                let cwd = environment.cwd().display();
                Error::failure(format!("`{cwd}` is in no repository"))
                    .hint("change into a clone of the repository")
            })?;
        Ok(Self {
            git,
            top: PathBuf::from(top),
        })
    }

    async fn work(
        &self,
        config: &Config,
        options: &Options,
        wanted: &WorkOptions,
    ) -> Result<Work, Error> {
        let environment = &config.environment;
        let main = self.main(environment);
        let repository = self.repository(&main, wanted).await?;
        let hub = hub(wanted, &config.environment, &main, &repository).await?;
        let name = self.top.file_name().unwrap_or_default().to_string_lossy();
        let id = artifact::hash(self.top.as_os_str().as_encoded_bytes());
        let trees = state_folder(environment)?.join(format!("work/{name}-{}", &id[..8]));
        fs::create_dir_all(&trees).map_err(|error| {
            Error::failure(format!("cannot write `{}`: {error}", trees.display()))
        })?;
        let work = config.work.as_ref();
        let mut settings = work.map(|work| work.value.clone()).unwrap_or_default();
        settings.max_prs = wanted.max_prs.or(settings.max_prs);
        settings.converge = wanted.converge.or(settings.converge);
        refuse_trust(config, &trees)?;
        Ok(Work {
            top: self.top.clone(),
            agent_repos: trees,
            repository,
            git: self.git.clone(),
            hub,
            agents: self.agents(config, options, wanted, &main).await?,
            settings,
            options: Wanted {
                issue: wanted.issue,
                open: template(config, wanted)?,
                model: wanted.model.clone().or(options.model.model.clone()),
                base: wanted.base.clone(),
                allow_workflows: wanted.allow_workflows,
                log: log(environment),
            },
            on_event: Box::new(show(environment.get("GITHUB_ACTIONS").is_some())),
            main,
        })
    }

    async fn agents(
        &self,
        config: &Config,
        options: &Options,
        wanted: &WorkOptions,
        main: &Git,
    ) -> Result<Agents, Error> {
        if wanted.no_sandbox {
            ah_terminal::warn(
                "the agents run with your rights: what an issue asks for may be done to you",
            );
        }
        Ok(Agents {
            program: program()?,
            variables: variables(config, main).await,
            arguments: arguments(options, config.environment.cwd()),
            is_confined: !wanted.no_sandbox,
        })
    }

    fn main(&self, environment: &Environment) -> Git {
        Git::new(self.git.clone(), &self.top, Owner::User, &all(environment))
    }

    async fn repository(&self, main: &Git, wanted: &WorkOptions) -> Result<String, Error> {
        if let Some(name) = &wanted.repo {
            return match is_repository(name) {
                true => Ok(name.clone()),
                false => Err(Error::usage(format!("`{name}` is no OWNER/NAME"))),
            };
        }
        let address = main.run(&["remote", "get-url", "origin"]).await;
        let named = address.ok().and_then(|address| repository_of(&address));
        match (named, &wanted.hub) {
            (Some(name), _) => Ok(name),
            (None, Some(_)) => Ok("local".to_owned()),
            (None, None) => Err(Error::failure(
                "the remote `origin` names no repository of GitHub",
            )
            .hint("`-r OWNER/NAME` does")),
        }
    }
}

async fn hub(
    wanted: &WorkOptions,
    environment: &Environment,
    main: &Git,
    repository: &str,
) -> Result<Box<dyn Hub>, Error> {
    match &wanted.hub {
        Some(folder) => {
            let head = main
                .run(&["symbolic-ref", "--short", "refs/remotes/origin/HEAD"])
                .await;
            let head = head
                .ok()
                .and_then(|head| Some(head.strip_prefix("origin/")?.to_owned()));
            let branch = head.unwrap_or_else(|| "main".to_owned());
            Ok(Box::new(FolderHub::new(folder.clone(), branch)))
        }
        None => {
            let options = ah_http::Options::from_variables(|name| environment.get(name));
            let base = environment.get("GITHUB_API_URL").unwrap_or(github::API);
            let token = token(environment).await?;
            let hub = GitHub::new(&options, base, repository, &token);
            let hub = hub.map_err(|error| {
                Error::failure(error.to_string()).maybe_hint(error.hint.clone())
            })?;
            Ok(Box::new(hub))
        }
    }
}

/// The token: of a variable, else the one that the program `gh` holds.
async fn token(environment: &Environment) -> Result<String, Error> {
    let named = TOKENS[..2].iter().find_map(|name| environment.get(name));
    if let Some(token) = named {
        return Ok(token.trim().to_owned());
    }
    let none = || {
        Error::failure("there is no token for GitHub")
            .hint("set GH_TOKEN, or log in with `gh auth login`; `--hub DIR` does without")
    };
    let program = find(environment, "gh").ok_or_else(none)?;
    let command = Command {
        program,
        arguments: ["auth", "token"].map(Into::into).to_vec(),
        cwd: environment.cwd().to_owned(),
        environment: all(environment),
        stdin: Vec::new(),
        deadline: Some(Duration::from_secs(20)),
        keep: Keep::new(PathBuf::new(), 0),
        sandbox: None,
        note: |_| None,
    };
    let outcome = command.run().await.map_err(|_| none())?;
    match (outcome.ending.code(), outcome.output) {
        (0, Content::Bytes(bytes)) => {
            let said = String::from_utf8_lossy(&bytes).trim().to_owned();
            let is_token = !said.is_empty() && !said.contains(char::is_whitespace);
            is_token.then_some(said).ok_or_else(none)
        }
        _ => Err(none()),
    }
}

/// Refuses to work where the user's settings trust every folder, those of the agents' trees among them.
fn refuse_trust(config: &Config, trees: &Path) -> Result<(), Error> {
    let environment = Environment::new(all(&config.environment), trees.to_owned());
    let there = Config::survey(
        Overrides::default(),
        Interface::Native,
        environment,
        &Overlay::default(),
    )?;
    match there.trust.is_given() {
        false => Ok(()),
        true => Err(Error::failure(format!(
            "your settings trust `{}`, where agents work on what strangers wrote",
            trees.display()
        ))
        .hint("take the folder out of `trustedFolders`, or set XDG_STATE_HOME to another place")),
    }
}

/// This program.
fn program() -> Result<PathBuf, Error> {
    std::env::current_exe()
        .map_err(|error| Error::failure(format!("cannot find this program: {error}")))
}

fn all(environment: &Environment) -> Vec<(String, String)> {
    let pairs = environment.all();
    pairs
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// What the agents of the phases see: no secret but the keys of models; and who commits.
async fn variables(config: &Config, main: &Git) -> Vec<(String, String)> {
    let environment = &config.environment;
    let named = config.servers.values();
    let named: Vec<_> = named
        .filter_map(|server| server.value.key_env.as_deref())
        .collect();
    let keys = KEYS.iter().copied().chain(named);
    let keys = keys.filter_map(|name| Some((name, environment.get(name)?)));
    let mut variables: Vec<(String, String)> = environment
        .for_children()
        .chain(keys)
        .filter(|(name, _)| !TOKENS.contains(name))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    variables.sort();
    variables.dedup();
    for (name, value) in identity(environment, main).await {
        if !variables.iter().any(|(known, _)| *known == name) {
            variables.push((name, value));
        }
    }
    variables
}

/// Who commits: whoever git says, in Actions whoever started the run, else the program.
async fn identity(environment: &Environment, main: &Git) -> Vec<(String, String)> {
    let known = |result: Result<String, GitError>| result.ok().filter(|value| !value.is_empty());
    let name = known(main.run(&["config", "user.name"]).await);
    let address = known(main.run(&["config", "user.email"]).await);
    let actor = environment.get("GITHUB_ACTOR");
    let (name, address) = match (name.zip(address), actor) {
        (Some(pair), _) => pair,
        (None, Some(actor)) => (
            actor.to_owned(),
            format!("{actor}@users.noreply.github.com"),
        ),
        (None, None) => ("ah-agent".to_owned(), "ah-agent@localhost".to_owned()),
    };
    let roles = ["AUTHOR", "COMMITTER"].into_iter();
    let pairs = roles.flat_map(|role| {
        [
            (format!("GIT_{role}_NAME"), name.clone()),
            (format!("GIT_{role}_EMAIL"), address.clone()),
        ]
    });
    pairs.collect()
}

/// Options of this run that are meant for its phases too. Trust is not: what a project brings along would run outside of
/// the sandbox, in a tree that agents have worked in.
fn arguments(options: &Options, cwd: &Path) -> Vec<String> {
    let mut arguments = Vec::new();
    if let Some(settings) = &options.settings.settings {
        // They work in another folder.
        let settings = match settings.trim_start().starts_with('{') {
            true => settings.clone(),
            false => cwd.join(settings).to_string_lossy().into_owned(),
        };
        arguments.push(format!("--settings={settings}"));
    }
    if let Some(sources) = &options.settings.setting_sources {
        arguments.push(format!("--setting-sources={sources}"));
    }
    arguments
}

/// The issue to be opened, from its file.
fn template(config: &Config, wanted: &WorkOptions) -> Result<Option<(String, String)>, Error> {
    let Some(name) = &wanted.prompt else {
        return Ok(None);
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if name.is_empty() || !name.chars().all(is_name) {
        return Err(Error::usage(format!("`{name}` is no name of a prompt")));
    }
    let file = format!("work/prompts/{name}.md");
    let project = config.project_root.join(".ah");
    let folders = [Some(project), config.home.clone()];
    let paths: Vec<_> = folders
        .into_iter()
        .flatten()
        .map(|folder| folder.join(&file))
        .collect();
    let text = paths.iter().find_map(|path| fs::read_to_string(path).ok());
    let text = text.ok_or_else(|| {
        let places: Vec<_> = paths
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        Error::failure(format!("there is no prompt `{name}`"))
            .hint(format!("write {}", places.join(" or ")))
    })?;
    Ok(Some((format!("work: {name}"), text)))
}

/// Where people find the log of this run, in Actions.
fn log(environment: &Environment) -> Option<String> {
    let [server, repository, run] = ["GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID"]
        .map(|name| environment.get(name));
    Some(format!("{}/{}/actions/runs/{}", server?, repository?, run?))
}

/// Where what lasts and is nobody's to look at is kept.
fn state_folder(environment: &Environment) -> Result<PathBuf, Error> {
    let given = environment.get("XDG_STATE_HOME").map(PathBuf::from);
    let given = given.filter(|folder| folder.is_absolute());
    let folder = given.or_else(|| Some(environment.home()?.join(".local/state")));
    let folder = folder.ok_or_else(|| {
        Error::failure("no folder for the trees of the work").hint("set HOME or XDG_STATE_HOME")
    })?;
    Ok(folder.join("ah"))
}

/// Tells what happens, with the marks by which Actions folds its log.
fn show(in_actions: bool) -> impl Fn(&WorkEvent) + Send + Sync {
    move |news| match news {
        WorkEvent::Issue {
            number,
            title,
            is_resumed,
        } => {
            let word = if *is_resumed {
                "Going on with"
            } else {
                "Working on"
            };
            ah_terminal::note(&format!("{word} #{number}: {}", super::preview(title, 80)));
        }
        WorkEvent::PhaseStarted(phase) => {
            if in_actions {
                let _ = super::print(&format!("::group::{phase}\n"));
            }
            ah_terminal::note(&format!("{phase} …"));
        }
        WorkEvent::PhaseEnded(phase, outcome, note) => {
            ah_terminal::note(&ended(*phase, *outcome, note));
            if in_actions {
                let _ = super::print("::endgroup::\n");
            }
        }
        WorkEvent::Warning(text) => ah_terminal::warn(text),
    }
}

fn ended(phase: Phase, outcome: PhaseOutcome, note: &str) -> String {
    match note {
        "" => format!("{phase}: {outcome}"),
        note => format!("{phase}: {outcome} ({note})"),
    }
}
