//! The repository that is worked on, and the assembly of its work.

use std::fs;
use std::path::{Path, PathBuf};

use ah_config::overlay::Overlay;
use ah_config::sandboxing::Sandboxing;
use ah_config::settings::work::WorkSettings;
use ah_config::{Config, Error, Overrides};
use ah_conversation::{Environment, Interface};
use ah_git::{Git, Owner, is_repository, repository_of};
use ah_sandbox::Authority;
use ah_work::agent::Agents;
use ah_work::artifact;
use ah_work::run::{Work, WorkOptions as RunOptions};

use super::environment::{all, arguments, state_folder, variables};
use super::events;
use super::hub::hub;
use super::models::Servers;
use crate::args::options::Options;
use crate::args::work::WorkOptions;
use crate::commands::doctor::find;

/// The repository that is worked on.
pub struct Repository {
    pub git: PathBuf,
    /// Root of the user's work tree.
    pub top: PathBuf,
}

impl Repository {
    pub async fn find(environment: &Environment) -> Result<Self, Error> {
        let git = find(environment, "git")
            .ok_or_else(|| Error::failure("git not found").hint("install it, or put it on PATH"))?;
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
                Error::failure(format!("`{cwd}` is not in a git repository"))
                    .hint("change into a clone of the repository")
            })?;
        Ok(Self {
            git,
            top: PathBuf::from(top),
        })
    }

    pub async fn work(
        &self,
        config: &Config,
        options: &Options,
        wanted: &WorkOptions,
    ) -> Result<Work, Error> {
        let environment = &config.environment;
        let main = self.main(environment);
        let repository = self.repository(&main, wanted).await?;
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
        refuse_trust(&config.environment, &trees)?;
        let (hub, lent) = hub(wanted, &config.environment, &main, &repository, &settings).await?;
        Ok(Work {
            top: self.top.clone(),
            agent_repos: trees,
            repository,
            git: self.git.clone(),
            hub,
            models: Box::new(Servers::of(config)),
            agents: self.agents(config, options, wanted, &main).await?,
            settings,
            options: RunOptions {
                issue: wanted.issue,
                open: template(config, wanted)?,
                model: wanted.model.clone().or(options.model.model.clone()),
                base: wanted.base.clone(),
                allow_workflows: wanted.allow_workflows,
                log: log(environment),
            },
            on_event: Box::new(events::show(environment.get("GITHUB_ACTIONS").is_some())),
            main: self.git_with(all(environment), lent),
        })
    }

    pub async fn agents(
        &self,
        config: &Config,
        options: &Options,
        wanted: &WorkOptions,
        main: &Git,
    ) -> Result<Agents, Error> {
        if wanted.no_sandbox {
            ah_terminal::warn(
                "the agents run with your full permissions: a malicious issue could harm your machine",
            );
        }
        let mut words = arguments(options, config.environment.cwd());
        if !wanted.no_sandbox {
            words.extend(hosts(config.work.as_ref().map(|work| &work.value))?);
        }
        Ok(Agents {
            program: program()?,
            variables: variables(&config.environment, &config.servers, main).await,
            arguments: words,
            grants: grants(&config.sandbox),
            is_confined: !wanted.no_sandbox,
        })
    }

    pub fn main(&self, environment: &Environment) -> Git {
        self.git_with(all(environment), Vec::new())
    }

    /// Returns git in the repository with these variables; those in `lent` replace others of the same name.
    fn git_with(&self, mut variables: Vec<(String, String)>, lent: Vec<(String, String)>) -> Git {
        variables.retain(|(name, _)| !lent.iter().any(|(other, _)| other == name));
        variables.extend(lent);
        Git::new(self.git.clone(), &self.top, Owner::User, &variables)
    }

    pub async fn repository(&self, main: &Git, wanted: &WorkOptions) -> Result<String, Error> {
        if let Some(name) = &wanted.repo {
            return if is_repository(name) {
                Ok(name.clone())
            } else {
                Err(Error::usage(format!("`{name}` is not OWNER/NAME")))
            };
        }
        let address = main.run(&["remote", "get-url", "origin"]).await;
        let named = address.ok().and_then(|address| repository_of(&address));
        match (named, &wanted.hub) {
            (Some(name), _) => Ok(name),
            (None, Some(_)) => Ok("local".to_owned()),
            (None, None) => Err(
                Error::failure("the remote `origin` is not a repository of a hub")
                    .hint("name it with `-r OWNER/NAME`"),
            ),
        }
    }
}

/// Returns the options with what the settings let commands use in the sandbox.
fn grants(sandbox: &Sandboxing) -> Vec<String> {
    let paths = sandbox.unveil.iter();
    let paths = paths.filter(|grant| grant.value.path.exists());
    let paths = paths.map(|grant| format!("--unveil={}", grant.value));
    let variables = sandbox.env.iter();
    let variables = variables.map(|name| format!("--env={}", name.value));
    paths.chain(variables).collect()
}

/// Returns the options with the hosts that the agents may reach: those of `work`, and no others.
fn hosts(work: Option<&WorkSettings>) -> Result<Vec<String>, Error> {
    // Pages are read outside of the sandbox.
    let mut words = vec![
        "--only-allowed-hosts".to_owned(),
        "--disallowed-tools=WebFetch,WebSearch".to_owned(),
    ];
    for (option, hosts) in [
        ("--allow-host", work.map(|work| &work.allow_hosts)),
        ("--allow-http", work.map(|work| &work.allow_http)),
    ] {
        for host in hosts.into_iter().flatten() {
            let host: Authority = host.parse().map_err(|error| {
                Error::failure(format!("setting `work`: `{host}` is not a host: {error}"))
                    .hint("write HOST:PORT")
            })?;
            words.push(format!("{option}={host}"));
        }
    }
    Ok(words)
}

/// Refuses to work if the user's settings trust the folder of the agents' work trees.
fn refuse_trust(environment: &Environment, trees: &Path) -> Result<(), Error> {
    let environment = Environment::new(all(environment), trees.to_owned());
    let there = Config::survey(
        Overrides::default(),
        Interface::Native,
        environment,
        &Overlay::default(),
    )?;
    if there.trust.is_given() {
        Err(Error::failure(format!(
            "your settings trust `{}`, where agents process untrusted input",
            trees.display()
        ))
        .hint("remove the folder from `trustedFolders`, or set XDG_STATE_HOME to another folder"))
    } else {
        Ok(())
    }
}

/// Returns the path of this program.
pub fn program() -> Result<PathBuf, Error> {
    std::env::current_exe()
        .map_err(|error| Error::failure(format!("cannot find this program: {error}")))
}

/// Returns title and text of the issue to open, from its file.
fn template(config: &Config, wanted: &WorkOptions) -> Result<Option<(String, String)>, Error> {
    let Some(name) = &wanted.prompt else {
        return Ok(None);
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if name.is_empty() || !name.chars().all(is_name) {
        return Err(Error::usage(format!("`{name}` is not a valid prompt name")));
    }
    let file = format!("work/prompts/{name}.md");
    let project = config.project_root.join(".ah");
    let folders = [Some(project), config.home.clone()];
    let paths: Vec<_> = folders
        .into_iter()
        .flatten()
        .map(|folder| folder.join(&file))
        .collect();
    let text = paths
        .iter()
        .find_map(|path| fs::read_to_string(path).ok())
        .ok_or_else(|| {
            let places: Vec<_> = paths
                .iter()
                .map(|path| path.display().to_string())
                .collect();
            Error::failure(format!("prompt not found: `{name}`"))
                .hint(format!("write {}", places.join(" or ")))
        })?;
    Ok(Some((format!("work: {name}"), text)))
}

/// Returns the address of this run's log, in Actions.
fn log(environment: &Environment) -> Option<String> {
    let [server, repository, run] = ["GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID"]
        .map(|name| environment.get(name));
    Some(format!("{}/{}/actions/runs/{}", server?, repository?, run?))
}
