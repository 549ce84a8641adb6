//! Keeps the claim on the issue, with the journal in it, at the remote: taken before the work, renewed after each phase,
//! and given up at its end.

use ah_conversation::json;
use jiff::Timestamp;

use crate::agent_repo::AgentRepo;
use crate::artifact::{Artifacts, hash};
use crate::claim::{self, Claim, ClaimState, Claimed, Claims};
use crate::issue::Issue;
use crate::journal::Journal;
use crate::phase::{self, WorkStep};
use crate::run::{STATE, Work, WorkError, WorkEvent, load, save};

impl Work {
    fn claims<'a>(&'a self, artifacts: &'a Artifacts) -> Claims<'a> {
        Claims {
            git: &self.main,
            artifacts,
        }
    }

    /// Returns what the claim on an issue means for the work `holder`, and its commit.
    pub(super) async fn look_up(
        &self,
        artifacts: &Artifacts,
        number: u64,
        holder: &str,
    ) -> Result<(String, ClaimState), WorkError> {
        let (commit, claim) = self.claims(artifacts).read(number).await?;
        Ok((commit, claim::judge(claim, holder, seconds())))
    }

    /// Takes the issue, whose claim was the commit `seen`. The journal is saved before: if this process is killed
    /// between, the next one knows the claim as its own.
    pub(super) async fn claim(
        &self,
        artifacts: &Artifacts,
        journal: &mut Journal,
        seen: &str,
    ) -> Result<(), WorkError> {
        if journal.holder.is_empty() {
            let words = format!(
                "{} {} {}",
                self.top.display(),
                std::process::id(),
                Timestamp::now()
            );
            journal.holder = hash(words.as_bytes())[..16].to_owned();
        }
        seen.clone_into(&mut journal.claim);
        save(artifacts, journal)?;
        let until = seconds() + self.settings.deadline() + claim::GRACE;
        self.write(artifacts, journal, until).await
    }

    /// Renews the claim after a phase.
    pub(super) async fn record(
        &self,
        artifacts: &Artifacts,
        journal: &mut Journal,
    ) -> Result<(), WorkError> {
        if journal.claim.is_empty() {
            return Ok(());
        }
        let until = seconds() + self.settings.deadline() + claim::GRACE;
        match self.write(artifacts, journal, until).await {
            // The claim is still there, and so are the files here.
            Err(WorkError::Git(error)) => {
                let warning = format!("cannot save the progress at the remote: {error}");
                (self.on_event)(&WorkEvent::Warning(warning));
                Ok(())
            }
            written => written,
        }
    }

    /// Lets others go on with the issue, from what is stored; or forgets what is stored, if nothing is left to do.
    pub(super) async fn let_go(
        &self,
        artifacts: &Artifacts,
        journal: &mut Journal,
        is_over: bool,
    ) -> Result<(), WorkError> {
        if journal.claim.is_empty() {
            return Ok(());
        }
        let number = journal.issue.number;
        if is_over {
            let claims = self.claims(artifacts);
            claims.remove(number, &journal.claim).await?;
            journal.claim.clear();
            save(artifacts, journal)
        } else {
            self.write(artifacts, journal, 0).await
        }
    }

    async fn write(
        &self,
        artifacts: &Artifacts,
        journal: &mut Journal,
        until: u64,
    ) -> Result<(), WorkError> {
        let number = journal.issue.number;
        let claim = Claim {
            holder: journal.holder.clone(),
            until,
            files: artifacts.texts(),
        };
        let claims = self.claims(artifacts);
        let mut seen = journal.claim.clone();
        // The remote may have a claim that this work wrote before it was killed.
        for _ in 0..2 {
            match claims.write(number, &claim, &seen).await? {
                Claimed::Commit(commit) => {
                    journal.claim = commit;
                    return save(artifacts, journal);
                }
                Claimed::Refused => {
                    (self.on_event)(&WorkEvent::Warning(
                        "the remote accepts no claims (`refs/ah/work/…`): another machine could take the same issue"
                            .to_owned(),
                    ));
                    journal.claim.clear();
                    return save(artifacts, journal);
                }
                Claimed::Lost => match self.look_up(artifacts, number, &journal.holder).await? {
                    (commit, ClaimState::Open) => seen = commit,
                    (_, ClaimState::Left(_)) => return Err(taken(number, seconds())),
                    (_, ClaimState::Held(until)) => return Err(taken(number, until)),
                },
            }
        }
        Err(taken(number, seconds()))
    }

    /// Returns the journal of a work that was given back or lost, with its files, if it is not over.
    pub(super) fn restore(
        &self,
        artifacts: &Artifacts,
        claim: &Claim,
        issue: &Issue,
    ) -> Result<Option<Journal>, WorkError> {
        let text = claim.files.get(STATE);
        let journal = text.and_then(|text| json::from_str::<Journal>(text).ok());
        let is_of = |journal: &Journal| {
            journal.has_plain_names()
                && journal.repository == self.repository
                && journal.issue.number == issue.number
                && issue.branch_in(&format!("Branch: {}", journal.branch)) == journal.branch
        };
        let Some(mut journal) = journal.filter(is_of) else {
            return Ok(None);
        };
        let history = journal.history();
        journal.runs.truncate(phase::kept(&history, None));
        if let WorkStep::Finish(_) = phase::next(&journal.history(), journal.rework) {
            return Ok(None);
        }
        // The commits here are those of the same work, or none of it.
        let here = load(artifacts).ok().flatten();
        if here.is_none_or(|here| here.holder != journal.holder) {
            AgentRepo::discard(&self.agent_repos)?;
        }
        artifacts.restore(&claim.files)?;
        journal.holder.clear();
        journal.concluded = None;
        Ok(Some(journal))
    }
}

/// Returns the error of an issue that another machine works on until this time, in seconds since 1970.
pub(super) fn taken(number: u64, until: u64) -> WorkError {
    let until = i64::try_from(until).unwrap_or(i64::MAX);
    let time = Timestamp::from_second(until).unwrap_or(Timestamp::MAX);
    WorkError::Taken {
        number,
        until: time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    }
}

fn seconds() -> u64 {
    u64::try_from(Timestamp::now().as_second()).unwrap_or_default()
}
