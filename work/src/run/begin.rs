//! Finds the work to do: unfinished work, the requested issue, or the most urgent one.

use std::fs;
use std::path::PathBuf;

use crate::agent_repo::AgentRepo;
use crate::artifact::Artifacts;
use crate::hub::HubError;
use crate::issue::{DOING, DONE, FAILED, Issue, LABELS, TODO, choose};
use crate::journal::Journal;
use crate::phase::{Phase, WorkStatus};
use crate::run::{Start, Work, WorkError, WorkEvent, load, now, save};

impl Work {
    /// Returns the issue that would be worked on, or why there is none, without changing anything.
    ///
    /// # Errors
    ///
    /// If the hub cannot be reached.
    pub async fn look(&self) -> Result<Result<Issue, WorkStatus>, WorkError> {
        let artifacts = Artifacts::of(&self.top);
        if let Some(journal) = load(&artifacts)?.filter(|journal| self.is_resumable(journal)) {
            return Ok(Ok(journal.issue));
        }
        if let Some(number) = self.options.issue {
            return Ok(Ok(self.hub.issue(number).await?));
        }
        if self.is_crowded().await? {
            return Ok(Err(WorkStatus::PrLimit));
        }
        let issues = self.hub.issues(TODO).await?;
        Ok(choose(&issues).cloned().ok_or(WorkStatus::NoIssues))
    }

    pub(super) async fn begin(
        &self,
        artifacts: &Artifacts,
        only: Option<Phase>,
    ) -> Result<Start, WorkError> {
        if self.agents.is_confined && !self.agents.can_be_confined(artifacts.folder()).await? {
            return Err(WorkError::NoSandbox);
        }
        let kept = load(artifacts)?;
        // A single phase applies to the current work, even if that is finished.
        let is_current = |journal: &Journal| match only {
            Some(phase) if phase != Phase::Plan => self
                .options
                .issue
                .is_none_or(|number| number == journal.issue.number),
            _ => self.is_resumable(journal),
        };
        match kept {
            Some(journal) if is_current(&journal) => self.resume(artifacts, journal).await,
            Some(journal) if journal.concluded.is_none() && self.names_other(&journal) => {
                let number = journal.issue.number;
                Err(WorkError::Refused {
                    message: format!("issue #{number} is not finished"),
                    hint: format!(
                        "run `ah work -i {number}` to finish it, or remove `{}` to discard it",
                        artifacts.folder().display()
                    ),
                })
            }
            _ => match only {
                Some(phase) if phase != Phase::Plan => Err(WorkError::Refused {
                    message: format!("cannot run the phase {phase}: no work was started"),
                    hint: "run `ah work plan`, or `ah work` for all phases".to_owned(),
                }),
                _ => self.take(artifacts).await,
            },
        }
    }

    fn names_other(&self, journal: &Journal) -> bool {
        let number = journal.issue.number;
        self.options.open.is_some() || self.options.issue.is_some_and(|wanted| wanted != number)
    }

    fn is_resumable(&self, journal: &Journal) -> bool {
        match journal.concluded {
            None => !self.names_other(journal),
            // Successful work is not repeated, and work that ran out of time is resumed; after another failure the
            // issue starts over.
            Some(status) => {
                let is_named = self.options.issue == Some(journal.issue.number);
                let is_over = matches!(
                    crate::phase::next(&journal.history(), journal.rework),
                    crate::phase::WorkStep::Finish(_)
                );
                is_named && (status == WorkStatus::Success || !is_over)
            }
        }
    }

    async fn resume(
        &self,
        artifacts: &Artifacts,
        mut journal: Journal,
    ) -> Result<Start, WorkError> {
        let number = journal.issue.number;
        (self.on_event)(&WorkEvent::Issue {
            number,
            title: journal.issue.title.clone(),
            is_resumed: true,
        });
        let issue = self.hub.issue(number).await?;
        artifacts.write("plan/issue.json", &issue_file(&issue))?;
        journal.issue = issue;
        if journal
            .concluded
            .is_none_or(|status| status != WorkStatus::Success)
        {
            journal.concluded = None;
            save(artifacts, &journal)?;
            self.mark(&journal.issue).await?;
        }
        Ok(Start::Work(Box::new(journal)))
    }

    /// Starts work on an issue.
    async fn take(&self, artifacts: &Artifacts) -> Result<Start, WorkError> {
        for (name, colour, meaning) in LABELS {
            if let Err(error) = self.hub.ensure_label(name, colour, meaning).await {
                (self.on_event)(&WorkEvent::Warning(format!(
                    "cannot create the label `{name}`: {error}"
                )));
            }
        }
        if self.is_crowded().await? {
            self.summarise(artifacts, WorkStatus::PrLimit, None)?;
            return Ok(Start::Nothing(WorkStatus::PrLimit));
        }
        let Some(issue) = self.find().await? else {
            self.summarise(artifacts, WorkStatus::NoIssues, None)?;
            return Ok(Start::Nothing(WorkStatus::NoIssues));
        };
        (self.on_event)(&WorkEvent::Issue {
            number: issue.number,
            title: issue.title.clone(),
            is_resumed: false,
        });
        let base = match &self.options.base {
            Some(base) => base.clone(),
            None => self.hub.default_branch().await?,
        };
        let base_commit = self.fetch(&base).await?;
        // Only one issue is worked on at a time, so repositories of earlier issues are no longer needed.
        AgentRepo::discard(&self.agent_repos)?;
        artifacts.clear()?;
        artifacts.write("plan/issue.json", &issue_file(&issue))?;
        let journal = Journal {
            repository: self.repository.clone(),
            branch: issue.branch(),
            base,
            base_commit,
            start_commit: String::new(),
            remote_commit: String::new(),
            rework: self.settings.rework(),
            started_at: now(),
            runs: Vec::new(),
            concluded: None,
            issue,
        };
        // Saved before the labels change, so that a later run knows to correct them.
        save(artifacts, &journal)?;
        self.mark(&journal.issue).await?;
        Ok(Start::Work(Box::new(journal)))
    }

    async fn is_crowded(&self) -> Result<bool, WorkError> {
        let most = self.settings.max_prs();
        match self.hub.open_pulls(most + 1).await {
            Ok(count) => Ok(count > most),
            Err(error) => {
                let warning = format!("cannot count the open pull requests: {error}");
                (self.on_event)(&WorkEvent::Warning(warning));
                Ok(false)
            }
        }
    }

    async fn find(&self) -> Result<Option<Issue>, HubError> {
        match (&self.options.issue, &self.options.open) {
            (Some(number), _) => {
                let issue = self.hub.issue(*number).await?;
                if issue.is_closed {
                    let error = HubError::new(format!("issue #{number} is closed"));
                    return Err(error.hint("reopen it first"));
                }
                Ok(Some(issue))
            }
            (None, Some((title, body))) => self.hub.open_issue(title, body, TODO).await.map(Some),
            (None, None) => {
                let issues = self.hub.issues(TODO).await?;
                Ok(choose(&issues).cloned())
            }
        }
    }

    /// Fetches the branch `base` of the remote and returns its commit.
    async fn fetch(&self, base: &str) -> Result<String, WorkError> {
        let target = format!("refs/remotes/origin/{base}");
        let refs = format!("+refs/heads/{base}:{target}");
        self.main
            .run(&[
                "fetch",
                "--quiet",
                "--no-tags",
                "--no-recurse-submodules",
                "origin",
                &refs,
            ])
            .await?;
        Ok(self.main.commit(&target).await?)
    }

    /// Labels the issue as being worked on.
    async fn mark(&self, issue: &Issue) -> Result<(), HubError> {
        self.hub
            .add_labels(issue.number, &[DOING.to_owned()])
            .await?;
        for label in [TODO, FAILED, DONE] {
            if issue.has(label) {
                self.hub.remove_label(issue.number, label).await?;
            }
        }
        Ok(())
    }

    pub(super) fn tree_folder(&self, number: u64) -> PathBuf {
        self.agent_repos.join(number.to_string())
    }
}

/// Returns the content of `issue.json` for the agents.
fn issue_file(issue: &Issue) -> String {
    format!("{:#}\n", issue.to_json(&issue.branch()))
}

impl Artifacts {
    /// Creates the folder, ignored by git.
    ///
    /// # Errors
    ///
    /// If it cannot be created.
    pub fn prepare(&self) -> std::io::Result<()> {
        fs::create_dir_all(self.folder())?;
        fs::write(self.folder().join(".gitignore"), "*\n")
    }

    /// Removes the files of earlier work.
    fn clear(&self) -> std::io::Result<()> {
        for phase in Phase::ALL {
            match fs::remove_dir_all(self.path(phase.as_str())) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        self.remove("summary.json")
    }
}
