//! Implementation of the phases.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::action::{self, ActionContext};
use crate::agent::{AgentExit, AgentJob, prompt, resume_prompt, verification};
use crate::agent_repo::AgentRepo;
use crate::artifact::{Artifacts, FOLDER};
use crate::journal::{Hashes, Journal, PhaseRun};
use crate::phase::{Phase, PhaseOutcome, Rework};
use crate::run::talk;
use crate::run::{Work, WorkError, WorkEvent, now, save};
use crate::summary;
use crate::verdict::{self, Action, Review, Verdict};

/// Longest part of a pull request about what the review ran, in characters.
const LONGEST_VALIDATION: usize = 2_000;
/// Retries of a phase whose process crashed.
const RETRIES: usize = 2;

/// Result of a phase, with the reason.
pub(super) type PhaseResult = (PhaseOutcome, String);

impl Work {
    /// Performs a phase.
    pub(super) async fn perform(
        &self,
        artifacts: &Artifacts,
        journal: &mut Journal,
        phase: Phase,
    ) -> Result<PhaseRun, WorkError> {
        let started_at = now();
        let reads = self.reads(artifacts, journal, phase);
        let (outcome, note) = match phase {
            Phase::Plan => self.plan(artifacts, journal).await?,
            Phase::Do | Phase::Fix => self.change(artifacts, journal, phase).await?,
            Phase::Push => self.push(artifacts, journal).await?,
            Phase::Merge => self.merge(artifacts, journal).await?,
            Phase::Check => self.check(artifacts, journal).await?,
            Phase::Act => self.act(artifacts, journal).await?,
        };
        let now_there = artifacts.hashes();
        let own = format!("{phase}/");
        let is_written = |name: &str| match phase {
            // Files of its own directory that a phase reads were put there as its input.
            Phase::Check => name.starts_with(&own) || name == "do/feedback.md",
            _ => name.starts_with(&own) && !reads.contains_key(name),
        };
        let settings = &self.settings;
        let usage = if phase.has_agent() {
            let repo = self.agent_repo(journal).await?;
            let session = repo.session(journal.runs.len());
            self.agents.usage(artifacts.folder(), &session).await
        } else {
            None
        };
        let log = artifacts.path(&format!("{phase}/agent.log"));
        let mut known = settings.until(phase).and_then(|_| verification(&log));
        if let Some(known) = &mut known {
            // It is on this machine alone.
            known.output = None;
        }
        Ok(PhaseRun {
            phase,
            outcome,
            note,
            verification: known,
            usage,
            wrote: now_there
                .into_iter()
                .filter(|(name, _)| is_written(name))
                .collect(),
            reads,
            started_at,
            ended_at: now(),
        })
    }

    /// Returns the files that a phase reads, with their current hashes.
    fn reads(&self, artifacts: &Artifacts, journal: &Journal, phase: Phase) -> Hashes {
        let names: &[&str] = match phase {
            Phase::Plan => &["plan/issue.json"],
            Phase::Do => &["plan/plan.md", "do/feedback.md"],
            Phase::Push => &[],
            Phase::Merge => &["plan/plan.md", "do/do.md"],
            Phase::Check => &["plan/plan.md", "do/do.md", "fix/do.md", "merge/merge.md"],
            Phase::Fix => &["plan/plan.md", "check/check.md"],
            Phase::Act => &["check/actions.json"],
        };
        let is_fresh = |name: &str| {
            // Feedback exists only after a review; an older file is ignored.
            name != "do/feedback.md" || journal.last(Phase::Check).is_some()
        };
        let mut hashes = artifacts.hashes();
        hashes.retain(|name, _| names.contains(&name.as_str()) && is_fresh(name));
        hashes
    }

    async fn plan(
        &self,
        artifacts: &Artifacts,
        journal: &Journal,
    ) -> Result<PhaseResult, WorkError> {
        let repo = self.agent_repo(journal).await?;
        let end = self.agent(artifacts, journal, &repo, Phase::Plan).await?;
        let left = artifacts.collect(repo.path(), Phase::Plan)?;
        let has = |name: &str| left.iter().any(|left| left == name);
        Ok(if has("plan/plan.md") {
            (PhaseOutcome::Done, note_of(end))
        } else if has("plan/update.md") {
            (
                PhaseOutcome::Bailed,
                "the agent gives the reason in plan/update.md".to_owned(),
            )
        } else {
            (
                PhaseOutcome::Failed,
                format!("no plan was written: {}", end.description()),
            )
        })
    }

    /// Performs do or fix: an agent makes commits.
    async fn change(
        &self,
        artifacts: &Artifacts,
        journal: &mut Journal,
        phase: Phase,
    ) -> Result<PhaseResult, WorkError> {
        let plan = artifacts.read("plan/plan.md").unwrap_or_default();
        let repo = self.agent_repo(journal).await?;
        if phase == Phase::Do && journal.last(Phase::Do).is_none() {
            let branch = journal.issue.branch_in(&plan);
            if branch != journal.branch {
                repo.git()
                    .run(&["branch", "--force", "-M", &branch])
                    .await?;
                journal.branch = branch;
            }
            let pushed = std::mem::take(&mut journal.remote_commit);
            journal.remote_commit = self.remote_commit(&journal.branch).await?;
            // What this work has pushed is done again.
            if journal.remote_commit != pushed {
                self.take_up(journal).await?;
            }
            save(artifacts, journal)?;
        }
        let repo = self.agent_repo(journal).await?;
        artifacts.write(
            &format!("{phase}/branch.txt"),
            &format!("{}\n", journal.branch),
        )?;
        let end = self.agent(artifacts, journal, &repo, phase).await?;
        artifacts.collect(repo.path(), phase)?;
        let before = match journal.remote_commit.as_str() {
            commit if journal.last(Phase::Push).is_some() && !commit.is_empty() => commit,
            _ => journal.start(),
        };
        let head = repo.head().await?;
        Ok(match (end, head != before) {
            (AgentExit::Well, true) => (PhaseOutcome::Done, String::new()),
            (end, true) => (
                PhaseOutcome::Partial,
                format!("{}, after a commit", end.description()),
            ),
            (end, false) => (
                PhaseOutcome::Failed,
                format!("no commit was made: {}", end.description()),
            ),
        })
    }

    async fn check(
        &self,
        artifacts: &Artifacts,
        journal: &Journal,
    ) -> Result<PhaseResult, WorkError> {
        let repo = self.agent_repo(journal).await?;
        self.renew(journal, &repo).await?;
        let end = self.agent(artifacts, journal, &repo, Phase::Check).await?;
        artifacts.collect(repo.path(), Phase::Check)?;
        let (verdict, note) = match artifacts.read("check/actions.json") {
            None => {
                let note = format!("no verdict was given: {}", end.description());
                return Ok((PhaseOutcome::Failed, note));
            }
            Some(text) => match verdict::read(&text) {
                Ok(review) => (review.verdict, note_of(end)),
                Err(error) => return Ok((PhaseOutcome::Failed, format!("actions.json: {error}"))),
            },
        };
        if verdict == Verdict::NeedsFixes && matches!(journal.rework, Rework::Converge(_)) {
            let review = artifacts.read("check/check.md").unwrap_or_default();
            artifacts.write("do/feedback.md", &review)?;
        }
        Ok((PhaseOutcome::Judged(verdict), note))
    }

    async fn act(
        &self,
        artifacts: &Artifacts,
        journal: &Journal,
    ) -> Result<PhaseResult, WorkError> {
        let review = review_of(artifacts, journal);
        let is_pushed = journal.last(Phase::Push).is_some_and(PhaseRun::is_pushed);
        let context = ActionContext {
            number: journal.issue.number,
            branch: &journal.branch,
            base: &journal.base,
            is_pushed,
            mark: &journal.started_at,
        };
        let done = match &review {
            Some(review) => {
                let review = with_validation(review, artifacts, journal.check().as_deref());
                action::perform(self.hub.as_ref(), &review, &context).await
            }
            None => Vec::new(),
        };
        let verdict = review
            .as_ref()
            .map_or(Verdict::Unknown, |review| review.verdict);
        let is_success = verdict == Verdict::Pass && done.iter().all(|done| done.is_done);
        let mut log = format!("# Act\n\nVerdict: {}\n\n", verdict.as_str());
        for done in &done {
            let word = if done.is_done { "ok" } else { "failed" };
            log.push_str(&format!("- {} {word}: {}\n", done.action, done.note));
        }
        artifacts.write("act/act.md", &log)?;
        let results: Vec<_> = done.iter().map(action::ActionResult::to_json).collect();
        let results =
            json!({ "verdict": verdict.as_str(), "success": is_success, "actions": results });
        artifacts.write("act/results.json", &format!("{results:#}\n"))?;
        // What the hub could not do is done later; what it has done is not done again.
        if let Some(fault) = done.iter().find_map(|done| done.fault.clone()) {
            return Err(fault.into());
        }
        let failed = done.iter().find(|done| !done.is_done);
        let remarks = done.iter().filter_map(|done| done.remark.clone());
        let remarks: Vec<_> = remarks.collect();
        Ok(match (is_success, failed) {
            (true, _) => (PhaseOutcome::Done, remarks.join("; ")),
            (false, Some(failed)) => (
                PhaseOutcome::Failed,
                format!("{}: {}", failed.action, failed.note),
            ),
            (false, None) => (
                PhaseOutcome::Failed,
                format!("the verdict is {}", verdict.as_str()),
            ),
        })
    }

    /// Runs the agent of a phase. After a crash, the phase is retried from the start; a session that was killed
    /// together with this process is resumed.
    pub(super) async fn agent(
        &self,
        artifacts: &Artifacts,
        journal: &Journal,
        repo: &AgentRepo,
        phase: Phase,
    ) -> Result<AgentExit, WorkError> {
        let session = repo.session(journal.runs.len());
        let mut is_resumed = session.exists();
        let mut retries = RETRIES;
        loop {
            artifacts.lay_out(repo.path(), phase, is_resumed)?;
            repo.release();
            // One of an earlier round says nothing of this one.
            artifacts.remove(&format!("{phase}/agent.log"))?;
            let job = self.job(artifacts, journal, repo, phase, &session, is_resumed);
            let end = self.agents.run(job).await?;
            keep_session(artifacts, phase, &session)?;
            match end {
                AgentExit::NoSandbox => return Err(WorkError::NoSandbox),
                AgentExit::NoModel(message) => {
                    return Err(WorkError::Model {
                        message,
                        hint: None,
                    });
                }
                AgentExit::Crashed if retries > 0 => {
                    retries -= 1;
                    is_resumed = false;
                    self.forget_sessions(journal.runs.len())?;
                    if matches!(phase, Phase::Do | Phase::Fix | Phase::Merge) {
                        self.clean(repo, journal).await?;
                    }
                    (self.on_event)(&WorkEvent::Warning(format!("{phase} crashed; retrying")));
                }
                end => return Ok(end),
            }
        }
    }

    /// Resets uncommitted changes, and also the commits if they must not be pushed.
    async fn clean(&self, repo: &AgentRepo, journal: &Journal) -> Result<(), WorkError> {
        let head = repo.head().await?;
        let is_pushable = repo.hand_over(&self.main, &head).await.is_ok()
            && self.push_refusal(journal, &head).await?.is_none();
        let target = if is_pushable { &head } else { journal.start() };
        repo.git()
            .run(&["reset", "--quiet", "--hard", target])
            .await?;
        Ok(())
    }

    fn job<'a>(
        &'a self,
        artifacts: &Artifacts,
        journal: &Journal,
        repo: &'a AgentRepo,
        phase: Phase,
        session: &'a Path,
        is_resumed: bool,
    ) -> AgentJob<'a> {
        let names: &[&str] = match phase {
            Phase::Do => &["plan/plan.md", "do/feedback.md"],
            Phase::Merge => &["plan/plan.md", "do/do.md"],
            Phase::Check => &["plan/plan.md", "do/do.md", "fix/do.md", "merge/merge.md"],
            Phase::Fix => &["plan/plan.md", "check/check.md"],
            Phase::Plan | Phase::Push | Phase::Act => &[],
        };
        let reads = self.reads(artifacts, journal, phase);
        let files: Vec<_> = names
            .iter()
            .filter(|name| reads.contains_key(**name))
            .filter_map(|name| Some((*name, artifacts.read(name)?)))
            .collect();
        let issue = journal.issue.to_json(&journal.branch);
        let mut text = prompt(phase, &files, &journal.base, &issue);
        if !journal.start_commit.is_empty() {
            text = format!(
                "The branch has commits of earlier work or of people, and they stay: `git log origin/{}..HEAD`.\n{text}",
                journal.base
            );
        }
        text = format!("{}{text}", talk::prompt(artifacts));
        if let (Phase::Merge, Some(commit)) = (phase, journal.merged.last()) {
            text = format!(
                "Merge this commit, the newest of `origin/{}`: {commit}\n{text}",
                journal.base
            );
        }
        if is_resumed {
            text = format!("{}\n{text}", resume_prompt(phase));
        }
        let below = repo.path().join(FOLDER);
        let mut read_only: Vec<_> = phase
            .earlier()
            .iter()
            .map(|earlier| below.join(earlier.as_str()))
            .collect();
        // A merge brings what people have changed there; what the agent changes is not pushed.
        if !self.options.allow_workflows && phase != Phase::Merge {
            read_only.extend(repo.workflows());
        }
        let settings = &self.settings;
        let must_produce = phase.leaves().first();
        AgentJob {
            skill: phase.as_str(),
            must_produce: must_produce.map(|file| format!("{FOLDER}/{phase}/{file}")),
            tools: None,
            cwd: repo.path(),
            session,
            log: artifacts.path(&format!("{phase}/agent.log")),
            model: self.options.model.as_deref().or(settings.model(phase)),
            budget: settings.budget(phase),
            until: settings.until(phase),
            read_only,
            prompt: text,
        }
    }
}

/// Returns the review of the last check, if it gave a verdict.
fn review_of(artifacts: &Artifacts, journal: &Journal) -> Option<Review> {
    let last = journal.last(Phase::Check)?;
    matches!(last.outcome, PhaseOutcome::Judged(_)).then_some(())?;
    verdict::read(&artifacts.read("check/actions.json")?).ok()
}

/// Adds what the review ran, and how it ended, to the description of the pull request; and what `ah` has checked itself.
fn with_validation(review: &Review, artifacts: &Artifacts, checked: Option<&str>) -> Review {
    let check = artifacts.read("check/check.md").unwrap_or_default();
    let ran = summary::section(&check, "Validation");
    let mut review = review.clone();
    for action in &mut review.actions {
        let Action::CreatePr { body, .. } = action else {
            continue;
        };
        if !ran.is_empty() {
            let ran = summary::cut(&ran, LONGEST_VALIDATION);
            *body = format!("{}\n\n### Validation\n\n{ran}\n", body.trim_end());
        }
        if let Some(checked) = checked {
            let checked = summary::cut(checked, LONGEST_VALIDATION);
            *body = format!("{}\n\n### Check\n\n{checked}\n", body.trim_end());
        }
    }
    review
}

/// Returns the note on an agent that left its files but did not end normally.
fn note_of(end: AgentExit) -> String {
    match end {
        AgentExit::Well => String::new(),
        end => end.description(),
    }
}

/// Copies a session database to the files of its phase.
fn keep_session(artifacts: &Artifacts, phase: Phase, session: &Path) -> std::io::Result<()> {
    let folder = artifacts.path(phase.as_str());
    fs::create_dir_all(&folder)?;
    for (suffix, name) in [("", "session.db"), ("-wal", "session.db-wal")] {
        let mut from = session.as_os_str().to_owned();
        from.push(suffix);
        let target = folder.join(name);
        match fs::copy(&from, &target) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let _ = fs::remove_file(&target);
            }
            Err(error) => return Err(error),
            Ok(_) => {}
        }
    }
    Ok(())
}
