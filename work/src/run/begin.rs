//! Finds what is to be worked on: work that was begun, the issue that was asked for, or the most urgent one.

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
    /// What would be worked on, without changing anything.
    ///
    /// # Errors
    ///
    /// Where the hub does not say.
    pub async fn look(&self) -> Result<Result<Issue, WorkStatus>, WorkError> {
        let artifacts = Artifacts::of(&self.top);
        if let Some(journal) = load(&artifacts)?.filter(|journal| self.is_to_go_on(journal)) {
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
        // A single phase is of the work that was begun, be it over or not.
        let goes_on = |journal: &Journal| match only {
            Some(phase) if phase != Phase::Plan => self
                .options
                .issue
                .is_none_or(|number| number == journal.issue.number),
            _ => self.is_to_go_on(journal),
        };
        match kept {
            Some(journal) if goes_on(&journal) => self.go_on(artifacts, journal).await,
            Some(journal) if journal.concluded.is_none() && self.names_other(&journal) => {
                let number = journal.issue.number;
                Err(WorkError::Refused {
                    message: format!("issue #{number} is not finished"),
                    hint: format!(
                        "`ah work -i {number}` finishes it; remove `{}` to give it up",
                        artifacts.folder().display()
                    ),
                })
            }
            _ => match only {
                Some(phase) if phase != Phase::Plan => Err(WorkError::Refused {
                    message: format!("it is not the turn of {phase}: nothing was begun"),
                    hint: "`ah work plan`, or `ah work` for all of it".to_owned(),
                }),
                _ => self.take(artifacts).await,
            },
        }
    }

    fn names_other(&self, journal: &Journal) -> bool {
        let number = journal.issue.number;
        self.options.open.is_some() || self.options.issue.is_some_and(|wanted| wanted != number)
    }

    fn is_to_go_on(&self, journal: &Journal) -> bool {
        match journal.concluded {
            None => !self.names_other(journal),
            // What has gone well is not done again, and what ran out of time goes on; another failure begins anew.
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

    async fn go_on(&self, artifacts: &Artifacts, mut journal: Journal) -> Result<Start, WorkError> {
        let number = journal.issue.number;
        (self.on_event)(&WorkEvent::Issue {
            number,
            title: journal.issue.title.clone(),
            is_resumed: true,
        });
        let issue = self.hub.issue(number).await?;
        artifacts.write("plan/issue.json", &told(&issue))?;
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

    /// Takes an issue up.
    async fn take(&self, artifacts: &Artifacts) -> Result<Start, WorkError> {
        for (name, colour, meaning) in LABELS {
            if let Err(error) = self.hub.ensure_label(name, colour, meaning).await {
                (self.on_event)(&WorkEvent::Warning(format!("the label `{name}`: {error}")));
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
        // One issue at a time: what others have left behind is pushed, or given up.
        AgentRepo::discard(&self.agent_repos)?;
        artifacts.clear()?;
        artifacts.write("plan/issue.json", &told(&issue))?;
        let journal = Journal {
            repository: self.repository.clone(),
            branch: issue.branch(),
            base,
            base_commit,
            remote_commit: String::new(),
            rework: self.settings.rework(),
            started_at: now(),
            runs: Vec::new(),
            concluded: None,
            issue,
        };
        // Written before the labels: what they say of this issue is then ours to correct.
        save(artifacts, &journal)?;
        self.mark(&journal.issue).await?;
        Ok(Start::Work(Box::new(journal)))
    }

    async fn is_crowded(&self) -> Result<bool, WorkError> {
        let most = self.settings.max_prs();
        match self.hub.open_pulls(most + 1).await {
            Ok(count) => Ok(count > most),
            Err(error) => {
                let warning = format!("the open pull requests cannot be counted: {error}");
                (self.on_event)(&WorkEvent::Warning(warning));
                Ok(false)
            }
        }
    }

    async fn find(&self) -> Result<Option<Issue>, HubError> {
        match (&self.options.issue, &self.options.open) {
            (Some(number), _) => self.hub.issue(*number).await.map(Some),
            (None, Some((title, body))) => self.hub.open_issue(title, body, TODO).await.map(Some),
            (None, None) => {
                let issues = self.hub.issues(TODO).await?;
                Ok(choose(&issues).cloned())
            }
        }
    }

    /// The newest commit of the branch `base` of the remote.
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

    /// Says at the hub that the issue is worked on.
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

/// What the agents are told of the issue, as a file.
fn told(issue: &Issue) -> String {
    format!("{:#}\n", issue.told(&issue.branch()))
}

impl Artifacts {
    /// Makes the folder, which no commit takes up.
    ///
    /// # Errors
    ///
    /// Where it cannot be made.
    pub fn prepare(&self) -> std::io::Result<()> {
        fs::create_dir_all(self.folder())?;
        fs::write(self.folder().join(".gitignore"), "*\n")
    }

    /// Removes what earlier work has left.
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
