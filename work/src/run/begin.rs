//! Finds the work to do: unfinished work, the requested issue, or the most urgent one.

use std::collections::BTreeSet;

use crate::agent_repo::AgentRepo;
use crate::artifact::Artifacts;
use crate::claim::ClaimState;
use crate::hub::HubError;
use crate::issue::{DOING, DONE, FAILED, Issue, LABELS, TODO, choose};
use crate::journal::Journal;
use crate::phase::{self, Phase, WorkStatus, WorkStep};
use crate::run::record::taken;
use crate::run::{STATE, Start, Work, WorkError, WorkEvent, load, now};

/// Number of finished issues whose pull requests are looked at.
const MOST_FINISHED: usize = 20;

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
        if let Some(issue) = self.sent_back().await?.into_iter().next() {
            return Ok(Ok(issue));
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
            Some(journal) if is_current(&journal) => {
                match self.resume(artifacts, journal, only).await? {
                    Some(journal) => Ok(Start::Work(Box::new(journal))),
                    None => self.take(artifacts).await,
                }
            }
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
            // Successful work is not repeated, work that ran out of time is resumed, and a push or actions that failed
            // are repeated; after another failure the issue starts over.
            Some(status) => {
                let is_named = self.options.issue == Some(journal.issue.number);
                let history = journal.history();
                let is_over = matches!(phase::next(&history, journal.rework), WorkStep::Finish(_));
                let is_repeated = phase::kept(&history, None) < history.len();
                is_named && (status == WorkStatus::Success || !is_over || is_repeated)
            }
        }
    }

    /// Goes on with work that was begun here. `None` if it is dropped, because its issue was closed or is worked on
    /// elsewhere.
    async fn resume(
        &self,
        artifacts: &Artifacts,
        mut journal: Journal,
        only: Option<Phase>,
    ) -> Result<Option<Journal>, WorkError> {
        let number = journal.issue.number;
        let is_named = only.is_some() || self.options.issue.is_some();
        let issue = self.hub.issue(number).await?;
        let history = journal.history();
        let count = journal.runs.len();
        journal.runs.truncate(phase::kept(&history, only));
        let is_repeated = journal.runs.len() < count;
        let next = phase::next(&journal.history(), journal.rework);
        let is_before_act = !matches!(next, WorkStep::Finish(_) | WorkStep::Perform(Phase::Act));
        if issue.is_closed && is_before_act && !is_named {
            let warning = format!("#{number} was closed in the meantime: its work is dropped");
            (self.on_event)(&WorkEvent::Warning(warning));
            let _ = self.let_go(artifacts, &mut journal, true).await;
            artifacts.remove(STATE)?;
            return Ok(None);
        }
        journal.issue = issue;
        if journal.concluded == Some(WorkStatus::Success) && !is_repeated {
            self.tell_issue(&journal.issue, true);
            artifacts.write("plan/issue.json", &issue_file(&journal.issue))?;
            return Ok(Some(journal));
        }
        let (seen, state) = self.look_up(artifacts, number, &journal.holder).await?;
        match state {
            ClaimState::Held(until) if is_named => return Err(taken(number, until)),
            ClaimState::Held(_) => {
                let warning = format!("#{number} is worked on elsewhere: its work here is dropped");
                (self.on_event)(&WorkEvent::Warning(warning));
                artifacts.remove(STATE)?;
                return Ok(None);
            }
            // Another machine has taken it over, and has given it back.
            ClaimState::Left(claim) => {
                let issue = journal.issue.clone();
                match self.restore(artifacts, &claim, &issue)? {
                    Some(left) => journal = Journal { issue, ..left },
                    None => journal.holder.clear(),
                }
            }
            ClaimState::Open => {}
        }
        self.tell_issue(&journal.issue, true);
        artifacts.write("plan/issue.json", &issue_file(&journal.issue))?;
        journal.concluded = None;
        self.prepare(artifacts, &mut journal, &seen).await?;
        Ok(Some(journal))
    }

    /// Starts work on an issue, or goes on with work that another machine has left.
    async fn take(&self, artifacts: &Artifacts) -> Result<Start, WorkError> {
        let mut busy = Vec::new();
        // A person waits for these, and they open no further pull request.
        for issue in self.sent_back().await? {
            match self.take_issue(artifacts, issue).await {
                Ok(journal) => return Ok(Start::Work(Box::new(journal))),
                Err(WorkError::Taken { number, .. }) => busy.push(number),
                Err(error) => return Err(error),
            }
        }
        if self.is_crowded().await? {
            self.summarise(artifacts, WorkStatus::PrLimit, None)?;
            return Ok(Start::Nothing(WorkStatus::PrLimit));
        }
        loop {
            let Some(issue) = self.find(&busy).await? else {
                self.summarise(artifacts, WorkStatus::NoIssues, None)?;
                return Ok(Start::Nothing(WorkStatus::NoIssues));
            };
            let number = issue.number;
            match self.take_issue(artifacts, issue).await {
                Ok(journal) => return Ok(Start::Work(Box::new(journal))),
                Err(WorkError::Taken { until, .. }) if self.options.issue.is_none() => {
                    let warning =
                        format!("#{number} is being worked on elsewhere, until {until} at most");
                    (self.on_event)(&WorkEvent::Warning(warning));
                    busy.push(number);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the finished issues whose pull request a review has sent back, if none is named.
    async fn sent_back(&self) -> Result<Vec<Issue>, HubError> {
        if self.options.issue.is_some() || self.options.open.is_some() {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        for issue in self.hub.issues(DONE).await?.into_iter().take(MOST_FINISHED) {
            let is_over = ![TODO, DOING, FAILED].iter().any(|label| issue.has(label));
            if is_over && self.hub.is_sent_back(&issue.branch()).await? {
                found.push(issue);
            }
        }
        Ok(found)
    }

    async fn take_issue(&self, artifacts: &Artifacts, issue: Issue) -> Result<Journal, WorkError> {
        let number = issue.number;
        let (seen, state) = self.look_up(artifacts, number, "").await?;
        let left = match state {
            ClaimState::Held(until) => return Err(taken(number, until)),
            ClaimState::Left(claim) => self.restore(artifacts, &claim, &issue)?,
            ClaimState::Open => None,
        };
        self.tell_issue(&issue, left.is_some());
        let mut journal = match left {
            Some(left) => Journal { issue, ..left },
            None => {
                let journal = self.fresh(issue).await?;
                // Only one issue is worked on at a time, so repositories of earlier issues are no longer needed.
                AgentRepo::discard(&self.agent_repos)?;
                artifacts.clear()?;
                journal
            }
        };
        journal.was_waiting |= journal.issue.has(TODO);
        artifacts.write("plan/issue.json", &issue_file(&journal.issue))?;
        self.prepare(artifacts, &mut journal, &seen).await?;
        Ok(journal)
    }

    async fn fresh(&self, issue: Issue) -> Result<Journal, WorkError> {
        let base = match &self.options.base {
            Some(base) => base.clone(),
            None => self.hub.default_branch().await?,
        };
        let base_commit = self.fetch(&base).await?;
        Ok(Journal {
            repository: self.repository.clone(),
            branch: issue.branch(),
            base,
            base_commit,
            start_commit: String::new(),
            merged: Vec::new(),
            remote_commit: String::new(),
            holder: String::new(),
            claim: String::new(),
            was_waiting: false,
            rework: self.settings.rework(),
            started_at: now(),
            runs: Vec::new(),
            concluded: None,
            issue,
        })
    }

    /// Tries the models, claims the issue, whose claim was the commit `seen`, and labels it. Until then, nothing has
    /// changed at the hub.
    async fn prepare(
        &self,
        artifacts: &Artifacts,
        journal: &mut Journal,
        seen: &str,
    ) -> Result<(), WorkError> {
        if !matches!(
            phase::next(&journal.history(), journal.rework),
            WorkStep::Finish(_) | WorkStep::Perform(Phase::Act)
        ) {
            self.try_models().await?;
            self.try_rules(&journal.branch).await?;
        }
        self.listen(artifacts, journal).await?;
        self.claim(artifacts, journal, seen).await?;
        for (name, colour, meaning) in LABELS {
            if let Err(error) = self.hub.ensure_label(name, colour, meaning).await {
                (self.on_event)(&WorkEvent::Warning(format!(
                    "cannot create the label `{name}`: {error}"
                )));
                break;
            }
        }
        Ok(self.mark(&journal.issue).await?)
    }

    /// Asks for the rules for the branch: what they refuse is not worked on.
    async fn try_rules(&self, branch: &str) -> Result<(), WorkError> {
        match self.hub.push_rule(branch).await? {
            None => Ok(()),
            Some(reason) => Err(WorkError::Refused {
                message: format!("the rules of the repository refuse a push to `{branch}`: {reason}"),
                hint: "except branches `work/**` from the rule, or let the owner of the token bypass it".to_owned(),
            }),
        }
    }

    /// Tries the models of the phases: a bad key would fail one issue after the other.
    async fn try_models(&self) -> Result<(), WorkError> {
        let agents = Phase::ALL.into_iter().filter(|phase| phase.has_agent());
        let models: BTreeSet<_> = agents
            .map(|phase| {
                let own = self.options.model.as_deref();
                own.or(self.settings.model(phase))
            })
            .collect();
        for model in models {
            let tried = self.models.try_out(model).await;
            tried.map_err(|fault| WorkError::Model {
                message: fault.message,
                hint: fault.hint,
            })?;
        }
        Ok(())
    }

    fn tell_issue(&self, issue: &Issue, is_resumed: bool) {
        (self.on_event)(&WorkEvent::Issue {
            number: issue.number,
            title: issue.title.clone(),
            is_resumed,
        });
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

    async fn find(&self, busy: &[u64]) -> Result<Option<Issue>, HubError> {
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
                let mut issues = self.hub.issues(TODO).await?;
                issues.retain(|issue| !busy.contains(&issue.number));
                Ok(choose(&issues).cloned())
            }
        }
    }

    /// Fetches the branch `base` of the remote and returns its commit.
    pub(super) async fn fetch(&self, base: &str) -> Result<String, WorkError> {
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
}

/// Returns the content of `issue.json` for the agents.
fn issue_file(issue: &Issue) -> String {
    format!("{:#}\n", issue.to_json(&issue.branch()))
}
