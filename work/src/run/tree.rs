//! The agents' repository of an issue, and which phases are still valid: those whose input files are as they were, and
//! whose commits are there.

use std::io;
use std::path::{Path, PathBuf};

use crate::agent_repo::{AgentRepo, AgentRepoSource};
use crate::artifact::Artifacts;
use crate::journal::{Journal, still_valid};
use crate::phase::{self, Phase, WorkStep};
use crate::run::{Work, WorkError, WorkEvent, save};
use crate::setup::Setup;
use ah_git::{Git, Owner};

impl Work {
    /// Returns the folder of the agents' repository. Its path is the same for all issues: what a setup makes may name it.
    fn tree_folder(&self) -> PathBuf {
        self.agent_repos.join("issue")
    }

    /// Removes the agents' repository.
    pub(super) fn discard_tree(&self) -> io::Result<()> {
        AgentRepo::discard(&self.tree_folder())
    }

    /// Removes the sessions of the phases from number `first` on.
    pub(super) fn forget_sessions(&self, first: usize) -> io::Result<()> {
        AgentRepo::forget_sessions(&self.tree_folder(), first)
    }

    pub(super) async fn agent_repo(&self, journal: &Journal) -> Result<AgentRepo, WorkError> {
        let origin = AgentRepoSource {
            main: &self.main,
            program: &self.git,
            variables: &self.agents.variables,
            base: &journal.base,
            base_commit: journal.merged_base(),
            start_commit: journal.pushed().unwrap_or(journal.start()),
            branch: &journal.branch,
        };
        let repo = AgentRepo::of(&self.tree_folder(), &origin).await?;
        self.set_up(journal, &repo, false).await?;
        Ok(repo)
    }

    /// Puts what the setup has made back as it was: the agents before this one could write it.
    pub(super) async fn renew(&self, journal: &Journal, repo: &AgentRepo) -> Result<(), WorkError> {
        self.set_up(journal, repo, true).await
    }

    async fn set_up(
        &self,
        journal: &Journal,
        repo: &AgentRepo,
        is_renewed: bool,
    ) -> Result<(), WorkError> {
        let variables = self.main.variables();
        let mut layers = self.agent_repos.clone().into_os_string();
        layers.push(".setup");
        let setup = Setup {
            settings: self.settings.setup.as_ref(),
            folder: &self.tree_folder(),
            layers: Path::new(&layers),
            git: &Git::new(self.git.clone(), repo.path(), Owner::User, variables),
            main: &self.main,
            origin: &self.main.run(&["remote", "get-url", "origin"]).await?,
            base: &journal.base,
            base_commit: &journal.base_commit,
            branch: &journal.branch,
            agents: &self.agents,
            artifacts: &Artifacts::of(&self.top),
        };
        if is_renewed {
            setup.renew()
        } else {
            setup
                .run(|plan| (self.on_event)(&WorkEvent::Setup(plan.clone())))
                .await
        }
    }

    /// Discards phases whose input files have changed since, together with their sessions, and the agents' repository
    /// if the first commit is among them.
    pub(super) async fn discard_stale(
        &self,
        artifacts: &Artifacts,
        journal: &mut Journal,
    ) -> Result<(), WorkError> {
        let mut valid = still_valid(&journal.runs, &artifacts.hashes());
        if !AgentRepo::is_at(&self.tree_folder()) {
            valid = self.valid_without_tree(journal, valid).await?;
        }
        if valid == journal.runs.len() {
            return Ok(());
        }
        journal.runs.truncate(valid);
        match journal.last(Phase::Do) {
            None => self.discard_tree()?,
            Some(_) => self.forget_sessions(valid)?,
        }
        journal.concluded = None;
        save(artifacts, journal)
    }

    /// Returns how many of the first `valid` phases are valid without the agents' repository: it is made anew, from
    /// commits at the remote. Those that were not pushed are lost with it, and made again.
    async fn valid_without_tree(
        &self,
        journal: &mut Journal,
        valid: usize,
    ) -> Result<usize, WorkError> {
        let past = &journal.history()[..valid];
        let next = match phase::next(past, journal.rework) {
            WorkStep::Perform(Phase::Act) | WorkStep::Finish(_) => return Ok(valid),
            WorkStep::Perform(next) => next,
        };
        let base = self.fetch(&journal.base).await?;
        if self.main.commit(&journal.base_commit).await.is_err() {
            // The base was rewritten.
            journal.base_commit = base;
            journal.start_commit.clear();
            journal.merged.clear();
            return Ok(0);
        }
        if past.is_empty() {
            return Ok(0);
        }
        let first_change = past.iter().position(|(phase, _)| *phase == Phase::Do);
        let pushed = journal.pushed().map(str::to_owned);
        let wanted = pushed.clone().unwrap_or(journal.start_commit.clone());
        if !wanted.is_empty() {
            // If the branch is gone, the commit is looked for nevertheless.
            let _ = self.fetch_branch(&journal.branch).await;
            if self.main.commit(&wanted).await.is_err() {
                journal.start_commit.clear();
                return Ok(first_change.unwrap_or(valid));
            }
        }
        let has_commits = next == Phase::Do || pushed.is_some();
        Ok(match first_change {
            Some(first) if !has_commits => first,
            _ => valid,
        })
    }
}
