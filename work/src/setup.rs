//! Prepares the agents' repository, so that the work can be done in it: submodules and large files are filled in, and the
//! commands of the setting `work.setup` run, once, before any agent, at the base. Only they have the hosts of the setup:
//! later the tree has changes by agents, and nothing of it runs with a network. What they make is kept for other issues.

mod layer;
pub mod proposal;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ah_process::{Command, Keep};

use crate::agent::Agents;
use crate::artifact::Artifacts;
use crate::git::{Git, GitError};
use crate::run::WorkError;
use crate::settings::SetupSettings;
use layer::{Layer, untracked};

/// File beside the repository that says that the setup is done, and names its layer.
const DONE: &str = "set-up";
/// Log of the setup, relative to `o/work`.
const LOG: &str = "setup/setup.log";
/// Longest log, in bytes.
const LONGEST_LOG: u64 = 1024 * 1024;

/// Setup of an agents' repository.
pub struct Setup<'a> {
    /// What to do.
    pub settings: &'a SetupSettings,
    /// Folder with the repository.
    pub folder: &'a Path,
    /// Folder with what setups have made.
    pub layers: &'a Path,
    /// Git in the repository, with the user's access to remotes.
    pub git: &'a Git,
    /// Address of the user's `origin`, which addresses of submodules may be relative to.
    pub origin: &'a str,
    /// Commit of the base.
    pub base_commit: &'a str,
    /// Branch that the agents work on.
    pub branch: &'a str,
    /// Program and sandbox of the commands.
    pub agents: &'a Agents,
    /// Files of the work.
    pub artifacts: &'a Artifacts,
}

impl Setup<'_> {
    /// Prepares the repository, if that is to be done and was not.
    ///
    /// # Errors
    ///
    /// If a command fails.
    pub async fn run(&self) -> Result<(), WorkError> {
        let done = self.folder.join(DONE);
        if *self.settings == SetupSettings::default() || done.exists() {
            return Ok(());
        }
        // Nothing that agents or others have added to the branch runs here.
        let checkout = [
            "checkout",
            "--quiet",
            "--force",
            "--detach",
            self.base_commit,
        ];
        self.git.run(&checkout).await?;
        self.fill_in().await?;
        let layer = Layer::of(self.layers, self.settings, self.git, self.base_commit).await?;
        if layer.exists() {
            layer.lay(self.git.folder())?;
        } else {
            for command in &self.settings.commands {
                self.command(command).await?;
            }
            // What was made within submodules is not among the untracked files.
            if !self.settings.submodules && !self.settings.commands.is_empty() {
                let made = untracked(self.git).await?;
                layer.store(self.git.folder(), &made)?;
            }
        }
        let checkout = ["checkout", "--quiet", "--force", self.branch];
        self.git.run(&checkout).await?;
        self.exclude().await?;
        Ok(fs::write(done, layer.name())?)
    }

    /// Puts what the setup has made back as it was.
    ///
    /// # Errors
    ///
    /// If a file cannot be written.
    pub fn renew(&self) -> Result<(), WorkError> {
        let name = fs::read_to_string(self.folder.join(DONE)).unwrap_or_default();
        let layer = Layer::named(self.layers, &name);
        if !name.is_empty() && layer.exists() {
            layer.lay(self.git.folder())?;
        }
        Ok(())
    }

    /// Fetches submodules and large files.
    async fn fill_in(&self) -> Result<(), GitError> {
        let top = self.git.folder();
        if self.settings.submodules && top.join(".gitmodules").exists() {
            let origin = format!("remote.origin.url={}", self.origin);
            let words = [
                "-c",
                &origin,
                "submodule",
                "--quiet",
                "update",
                "--init",
                "--recursive",
            ];
            self.git.run(&words).await?;
        }
        if self.settings.lfs {
            let origin = format!("remote.origin.url={}", self.origin);
            self.git.run(&["lfs", "install", "--local"]).await?;
            self.git.run(&["-c", &origin, "lfs", "pull"]).await?;
        }
        Ok(())
    }

    async fn command(&self, line: &str) -> Result<(), WorkError> {
        let top = self.git.folder();
        let mut arguments: Vec<OsString> = Vec::new();
        let program = if self.agents.is_confined {
            arguments.extend(["sandbox", "exec", "--workspace"].map(OsString::from));
            arguments.push(top.into());
            arguments.extend(self.agents.grants.iter().map(OsString::from));
            for (option, hosts) in [
                ("--allow-host", &self.settings.allow_hosts),
                ("--allow-http", &self.settings.allow_http),
            ] {
                arguments.extend(hosts.iter().map(|host| format!("{option}={host}").into()));
            }
            arguments.extend(["--", "/bin/sh"].map(OsString::from));
            self.agents.program.clone()
        } else {
            PathBuf::from("/bin/sh")
        };
        arguments.extend(["-c", line].map(OsString::from));
        let log = self.artifacts.path(LOG);
        let command = Command {
            program,
            arguments,
            cwd: top.to_owned(),
            environment: self.agents.variables.clone(),
            stdin: Vec::new(),
            deadline: Some(Duration::from_secs(self.settings.timeout())),
            keep: Keep::new(log.clone(), LONGEST_LOG).at_once(),
            sandbox: None,
            note: |_| None,
        };
        match command.run().await?.ending.code() {
            0 => Ok(()),
            code => Err(WorkError::Setup {
                command: line.to_owned(),
                code,
                log,
            }),
        }
    }

    /// Keeps what the setup has made out of the commits.
    async fn exclude(&self) -> Result<(), WorkError> {
        let words = [
            "ls-files",
            "--others",
            "--exclude-standard",
            "--directory",
            "-z",
        ];
        let made = self.git.run(&words).await?;
        let path = self.git.folder().join(".git/info/exclude");
        let mut text = fs::read_to_string(&path).unwrap_or_default();
        for name in made
            .split('\0')
            .filter(|name| !name.is_empty() && !name.contains('\n'))
        {
            text.push_str(&format!("/{name}\n"));
        }
        Ok(fs::write(path, text)?)
    }
}
