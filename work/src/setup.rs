//! Prepares the agents' repository, so that the work can be done in it: submodules and large files are filled in, and the
//! commands of the setting `work.setup` run, once, before any agent, at the base. Only they have the hosts of the setup:
//! later the tree has changes by agents, and nothing of it runs with a network. What they make is kept for other issues.
//!
//! Without the setting, the commands are those that the project itself names in the base. They have less: the registries
//! that are known here, none of the user's variables, no access to other repositories; and they never run unconfined.

mod layer;
pub mod proposal;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ah_beneath::Folder;
use ah_process::{Command, Keep};
use rustix::fs::OFlags;

use crate::agent::Agents;
use crate::artifact::{Artifacts, FOLDER};
use crate::run::WorkError;
use crate::summary::cut;
use ah_config::settings::work::SetupSettings;
use ah_git::{Git, GitError};
pub use layer::copy;
use layer::{Layer, untracked};
use proposal::{PLAN, Proposal, SETTING};

/// File beside the repository that says that the setup is done, and names its layer.
const DONE: &str = "set-up";
/// Log of the setup, relative to `o/work`.
const LOG: &str = "setup/setup.log";
/// Longest command in an error, in characters.
const LONGEST_COMMAND: usize = 200;
/// Longest log, in bytes.
const LONGEST_LOG: u64 = 1024 * 1024;

/// Setup of an agents' repository.
pub struct Setup<'a> {
    /// What to do, if somebody has said so.
    pub settings: Option<&'a SetupSettings>,
    /// Folder with the repository.
    pub folder: &'a Path,
    /// Folder with what setups have made.
    pub layers: &'a Path,
    /// Git in the repository, with the user's access to remotes.
    pub git: &'a Git,
    /// Git in the user's repository, where no agent has written.
    pub main: &'a Git,
    /// Address of the user's `origin`, which addresses of submodules may be relative to.
    pub origin: &'a str,
    /// Base branch.
    pub base: &'a str,
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
    /// Prepares the repository, if that is to be done and was not. `tell` learns what the project says of itself, before
    /// that runs.
    ///
    /// # Errors
    ///
    /// If a command fails.
    pub async fn run(&self, tell: impl Fn(&Proposal)) -> Result<(), WorkError> {
        let done = self.folder.join(DONE);
        // A setting may be written during the work; what the project says counts before the first agent only.
        let was_tried = done.exists();
        let has_layer = fs::read_to_string(&done).is_ok_and(|name| !name.is_empty());
        let is_set = self.settings.is_some_and(|setup| !setup.is_empty());
        if was_tried && (has_layer || !is_set) {
            return Ok(());
        }
        let plan = self.plan().await?;
        let to_branch = ["checkout", "--quiet", "--force", self.branch];
        if !was_tried {
            // What a try that failed, or was killed, has left.
            self.git.run(&to_branch).await?;
            let own = format!("--exclude=/{FOLDER}/");
            self.git.run(&["clean", "--quiet", "-ffdx", &own]).await?;
        }
        let is_told = plan.source != SETTING && plan != Proposal::default();
        if plan.setup.is_empty() {
            if is_told {
                tell(&plan);
            }
            return Ok(fs::write(done, "")?);
        }
        let text = serde_json::to_string_pretty(&plan).map_err(io::Error::from)?;
        self.artifacts.write(PLAN, &(text + "\n"))?;
        // Nothing that agents or others have added to the branch runs here.
        let checkout = [
            "checkout",
            "--quiet",
            "--force",
            "--detach",
            self.base_commit,
        ];
        self.git.run(&checkout).await?;
        self.fill_in(&plan.setup).await?;
        let layer = Layer::of(self.layers, &plan.setup, self.git, self.base_commit).await?;
        if layer.exists() {
            layer.lay(self.git.folder())?;
        } else {
            if is_told {
                tell(&plan);
            }
            for command in &plan.setup.commands {
                self.command(&plan, command).await?;
            }
            // What was made within submodules is not among the untracked files.
            if !plan.setup.submodules && !plan.setup.commands.is_empty() {
                let made = untracked(self.git).await?;
                layer.store(self.git.folder(), &made)?;
            }
        }
        self.git.run(&to_branch).await?;
        self.exclude().await?;
        Ok(fs::write(done, layer.name())?)
    }

    /// Returns what the settings say, else what the project says in the base, if that can be confined.
    async fn plan(&self) -> Result<Proposal, GitError> {
        if let Some(setup) = self.settings {
            return Ok(Proposal {
                setup: setup.clone(),
                source: SETTING.to_owned(),
                left_out: Vec::new(),
            });
        }
        if !self.agents.is_confined {
            return Ok(Proposal::default());
        }
        // The commit may be from a claim, which everybody who may push can write.
        let base = format!("refs/remotes/origin/{}", self.base);
        let words = ["merge-base", "--is-ancestor", self.base_commit, &base];
        if self.main.exit(&words).await?.0 != 0 {
            let reason = format!(
                "what {} says, since it is not in {}",
                self.base_commit, self.base
            );
            return Ok(Proposal {
                left_out: vec![reason],
                ..Proposal::default()
            });
        }
        let mut words = vec!["--literal-pathspecs", "ls-tree", "-z", "--name-only"];
        words.extend(["--full-tree", self.base_commit]);
        for name in proposal::names() {
            words.push(name);
        }
        let mut files = BTreeMap::new();
        let there = self.main.run(&words).await?;
        for name in there.split('\0').filter(|name| !name.is_empty()) {
            let file = format!("{}:{name}", self.base_commit);
            // A folder or a submodule is no such file.
            if let (0, text) = self.main.exit(&["cat-file", "blob", &file]).await? {
                files.insert(name.to_owned(), text);
            }
        }
        let path = self
            .agents
            .variables
            .iter()
            .find(|(name, _)| name == "PATH");
        let path = path.map(|(_, value)| value.as_str()).unwrap_or_default();
        let has = |program: &str| {
            std::env::split_paths(path).any(|folder| folder.join(program).is_file())
        };
        Ok(proposal::proposed(|name| files.get(name).cloned(), has).by_default())
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
    async fn fill_in(&self, setup: &SetupSettings) -> Result<(), GitError> {
        let top = self.git.folder();
        if setup.submodules && top.join(".gitmodules").exists() {
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
        if setup.lfs {
            let origin = format!("remote.origin.url={}", self.origin);
            self.git.run(&["lfs", "install", "--local"]).await?;
            self.git.run(&["-c", &origin, "lfs", "pull"]).await?;
        }
        Ok(())
    }

    async fn command(&self, plan: &Proposal, line: &str) -> Result<(), WorkError> {
        let top = self.git.folder();
        let setup = &plan.setup;
        let is_asked_for = plan.source == SETTING;
        let mut arguments: Vec<OsString> = Vec::new();
        let program = if self.agents.is_confined {
            arguments.extend(["sandbox", "exec", "--workspace"].map(OsString::from));
            arguments.push(top.into());
            let grants = self.agents.grants.iter();
            // Variables may be secrets, and settings have hosts.
            let grants = grants.filter(|grant| is_asked_for || !grant.starts_with("--env="));
            arguments.extend(grants.map(OsString::from));
            arguments.extend((!is_asked_for).then(|| "--setting-sources=".into()));
            for (option, hosts) in [
                ("--allow-host", &setup.allow_hosts),
                ("--allow-http", &setup.allow_http),
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
            deadline: Some(Duration::from_secs(setup.timeout())),
            keep: Keep::new(log.clone(), LONGEST_LOG).at_once(),
            sandbox: None,
            bounds: None,
            note: |_| None,
        };
        match command.run().await?.ending.code() {
            0 => Ok(()),
            code => Err(WorkError::Setup {
                command: cut(&line.replace('\n', "; "), LONGEST_COMMAND),
                code,
                log,
                from: plan.source.clone(),
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
        Ok(keep_out(self.git.folder(), &made)?)
    }
}

/// Has git leave out the files with these names, each followed by a zero. What the setup has run may have put links there.
fn keep_out(repository: &Path, made: &str) -> io::Result<()> {
    let repository = Folder::at(repository)?;
    let (info, name) = repository.entry(Path::new(".git/info/exclude"))?;
    let mut text = Vec::new();
    if info.status(name)?.is_some() {
        let mut file = info.open_file(name, OFlags::RDONLY)?;
        file.read_to_end(&mut text)?;
        info.remove_file(name)?;
    }
    for made in made.split('\0') {
        if !made.is_empty() && !made.contains('\n') {
            text.extend(format!("/{made}\n").into_bytes());
        }
    }
    info.create_file(name, 0o644)?.write_all(&text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_git_leaves_out_is_written_through_no_link() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        let (info, victim) = (top.join(".git/info"), top.join("victim"));
        fs::create_dir_all(&info).unwrap();
        fs::write(info.join("exclude"), "/o/\n").unwrap();
        keep_out(&top, "one\0two\nlines\0three/\0").unwrap();
        let text = fs::read_to_string(info.join("exclude")).unwrap();
        assert_eq!(text, "/o/\n/one\n/three/\n");
        fs::remove_file(info.join("exclude")).unwrap();
        fs::write(&victim, "the user's").unwrap();
        symlink(&victim, info.join("exclude")).unwrap();
        assert!(keep_out(&top, "one\0").is_err());
        fs::rename(&info, top.join("moved")).unwrap();
        fs::write(top.join("exclude"), "the user's").unwrap();
        symlink(&top, &info).unwrap();
        assert!(keep_out(&top, "one\0").is_err());
        for file in ["victim", "exclude"] {
            assert_eq!(fs::read_to_string(top.join(file)).unwrap(), "the user's");
        }
    }
}
