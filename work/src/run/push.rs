//! The phase push: the agents' commits go to the branch of the issue. What others have pushed there stays: it is the base
//! of the work, or is merged with it.

use crate::agent_repo::{AgentRepo, push_refusal};
use crate::artifact::Artifacts;
use crate::journal::Journal;
use crate::phase::{self, PhaseOutcome};
use crate::run::perform::PhaseResult;
use crate::run::{Work, WorkError, WorkEvent, save};
use ah_git::{Git, GitError, Owner};

/// Attempts at a push while others push to the same branch.
const ATTEMPTS: usize = 3;

/// Result of a push.
enum Pushed {
    /// The commit is there.
    Done,
    /// The remote does not take it, for this reason.
    Refused(String),
    /// The branch has this other commit.
    Behind(String),
}

impl Work {
    pub(super) async fn push(
        &self,
        artifacts: &Artifacts,
        journal: &mut Journal,
    ) -> Result<PhaseResult, WorkError> {
        let repo = self.agent_repo(journal).await?;
        for _ in 0..ATTEMPTS {
            let head = repo.head().await?;
            if let Some(result) = self.unpushable(journal, &repo, &head).await? {
                return Ok(result);
            }
            let there = match self.push_commit(journal, &head).await? {
                Pushed::Done => {
                    journal.remote_commit = head;
                    save(artifacts, journal)?;
                    let conflicts = self.conflicts(journal).await;
                    let is_resolved = !conflicts.is_empty() && phase::may_merge(&journal.history());
                    let outcome = if is_resolved {
                        PhaseOutcome::Conflicts
                    } else {
                        PhaseOutcome::Done
                    };
                    return Ok((outcome, conflicts));
                }
                Pushed::Refused(reason) => return Ok((PhaseOutcome::Failed, reason)),
                // It was deleted, and begins again.
                Pushed::Behind(there) if there.is_empty() => {
                    journal.remote_commit.clear();
                    continue;
                }
                Pushed::Behind(there) => there,
            };
            if !self.join(artifacts, journal, &repo, &head, &there).await? {
                break;
            }
        }
        let reason = format!(
            "`{}` has new commits by others, which are kept and conflict with these; `ah work -i {}` begins again on \
             top of them",
            journal.branch, journal.issue.number
        );
        // Repeated, it would end the same way.
        Ok((PhaseOutcome::Bailed, reason))
    }

    /// Returns the result of the phase if there is nothing to push, or it must not be pushed.
    async fn unpushable(
        &self,
        journal: &Journal,
        repo: &AgentRepo,
        head: &str,
    ) -> Result<Option<PhaseResult>, WorkError> {
        let base = journal.start();
        let same = ["diff", "--quiet", "--no-ext-diff", base, head];
        if head == base || repo.git().succeeds(&same).await {
            return Ok(Some((PhaseOutcome::Skipped, "nothing to push".to_owned())));
        }
        // Pushed from the user's repository, which has the remote's address and credentials. Its own branches do not
        // change.
        let refusal = match repo.hand_over(&self.main, head).await {
            Err(error) => Some(error.to_string()),
            Ok(()) => self.push_refusal(journal, head).await?,
        };
        Ok(refusal.map(|reason| (PhaseOutcome::Failed, format!("not pushed: {reason}"))))
    }

    /// Returns why the commits up to `head` must not be pushed, if so.
    pub(super) async fn push_refusal(
        &self,
        journal: &Journal,
        head: &str,
    ) -> Result<Option<String>, GitError> {
        let allow_workflows = self.options.allow_workflows;
        let (start, merged) = (journal.start(), &journal.merged);
        push_refusal(&self.main, start, merged, head, allow_workflows).await
    }

    async fn push_commit(&self, journal: &Journal, head: &str) -> Result<Pushed, GitError> {
        if head == journal.remote_commit {
            return Ok(Pushed::Done);
        }
        let branch = &journal.branch;
        let lease = format!(
            "--force-with-lease=refs/heads/{branch}:{}",
            journal.remote_commit
        );
        let refs = format!("{head}:refs/heads/{branch}");
        let words = [
            "push",
            "--quiet",
            "--no-verify",
            "--no-recurse-submodules",
            &lease,
            "origin",
            &refs,
        ];
        let Err(error) = self.main.run(&words).await else {
            return Ok(Pushed::Done);
        };
        let there = self.remote_commit(branch).await?;
        if there == head {
            // It has succeeded although its response was lost.
            Ok(Pushed::Done)
        } else if there != journal.remote_commit {
            Ok(Pushed::Behind(there))
        } else if error.is_refusal() {
            Ok(Pushed::Refused(error.to_string()))
        } else {
            Err(error)
        }
    }

    /// Merges the agents' commits with those that others have pushed meanwhile; returns whether that is possible without
    /// a conflict. Their commits become the base, so only the agents' are judged and pushed.
    async fn join(
        &self,
        artifacts: &Artifacts,
        journal: &mut Journal,
        repo: &AgentRepo,
        head: &str,
        there: &str,
    ) -> Result<bool, WorkError> {
        self.fetch_branch(&journal.branch).await?;
        let merge = ["merge-tree", "--write-tree", "--no-messages", there, head];
        let Ok(tree) = self.main.run(&merge).await else {
            return Ok(false);
        };
        let text = format!("Merge the commits pushed to {} meanwhile", journal.branch);
        let commit = [
            "commit-tree",
            "-p",
            there,
            "-p",
            head,
            "-m",
            &text,
            tree.lines().next().unwrap_or_default(),
        ];
        let merged = self.as_agent().run(&commit).await?;
        repo.move_to(&self.main, &merged).await?;
        (self.on_event)(&WorkEvent::Warning(format!(
            "`{}` has new commits by others: merged with them",
            journal.branch
        )));
        there.clone_into(&mut journal.start_commit);
        there.clone_into(&mut journal.remote_commit);
        save(artifacts, journal)?;
        Ok(true)
    }

    /// Returns a note if the branch conflicts with the base as it is now.
    async fn conflicts(&self, journal: &Journal) -> String {
        let Ok(base) = self.fetch(&journal.base).await else {
            return String::new();
        };
        let files = self.conflicting(&base, &journal.remote_commit).await;
        match files.get(..files.len().min(5)) {
            Some(some) if !some.is_empty() => {
                format!("conflicts with `{}`: {}", journal.base, some.join(", "))
            }
            _ => String::new(),
        }
    }

    /// Returns the files in which two commits conflict.
    pub(super) async fn conflicting(&self, one: &str, other: &str) -> Vec<String> {
        let merge = [
            "merge-tree",
            "--write-tree",
            "--name-only",
            "--no-messages",
            "-z",
            one,
            other,
        ];
        match self.main.exit(&merge).await {
            Ok((1, out)) => {
                let names = out.split('\0').skip(1).filter(|name| !name.is_empty());
                names.map(str::to_owned).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Goes on from the commits of a branch that exists: they may be a person's, and stay. Those that the base has
    /// already are not followed.
    pub(super) async fn take_up(&self, journal: &mut Journal) -> Result<(), WorkError> {
        let commit = journal.remote_commit.clone();
        if commit.is_empty() {
            return Ok(());
        }
        self.fetch_branch(&journal.branch).await?;
        let is_merged = ["merge-base", "--is-ancestor", &commit, &journal.base_commit];
        if self.main.succeeds(&is_merged).await {
            return Ok(());
        }
        let short = &commit[..commit.len().min(10)];
        (self.on_event)(&WorkEvent::Warning(format!(
            "`{}` exists: continuing from its commit {short}",
            journal.branch
        )));
        journal.start_commit = commit;
        self.discard_tree()?;
        Ok(())
    }

    /// Returns the commit of the branch on the remote, or an empty string.
    pub(super) async fn remote_commit(&self, branch: &str) -> Result<String, GitError> {
        let refs = format!("refs/heads/{branch}");
        let list = self.main.run(&["ls-remote", "origin", &refs]).await?;
        let commit = list.lines().find_map(|line| {
            let (commit, name) = line.split_once('\t')?;
            (name == refs).then(|| commit.to_owned())
        });
        Ok(commit.unwrap_or_default())
    }

    pub(super) async fn fetch_branch(&self, branch: &str) -> Result<(), GitError> {
        let refs = format!("+refs/heads/{branch}:refs/remotes/origin/{branch}");
        let fetch = [
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-recurse-submodules",
            "origin",
            &refs,
        ];
        self.main.run(&fetch).await.map(drop)
    }

    /// Returns git in the user's repository, with the author of the agents' commits.
    fn as_agent(&self) -> Git {
        let top = &self.top;
        Git::new(self.git.clone(), top, Owner::User, &self.agents.variables)
    }
}
