//! The phase merge: an agent merges the base, which has moved on, into a branch that conflicts with it. The merge is
//! judged and pushed like the other commits; without one, the branch stays as it was pushed.

use crate::artifact::Artifacts;
use crate::journal::Journal;
use crate::phase::{Phase, PhaseOutcome};
use crate::run::perform::PhaseResult;
use crate::run::{Work, WorkError, save};

impl Work {
    pub(super) async fn merge(
        &self,
        artifacts: &Artifacts,
        journal: &mut Journal,
    ) -> Result<PhaseResult, WorkError> {
        let repo = self.agent_repo(journal).await?;
        let base = self.fetch(&journal.base).await?;
        if !journal.merged.contains(&base) {
            journal.merged.push(base.clone());
            save(artifacts, journal)?;
        }
        repo.take_in(&self.main, &base, &journal.base).await?;
        let files = self.conflicting(&base, &journal.remote_commit).await;
        let end = self.agent(artifacts, journal, &repo, Phase::Merge).await?;
        artifacts.collect(repo.path(), Phase::Merge)?;
        let head = repo.head().await?;
        let is_in = ["merge-base", "--is-ancestor", &base, &head];
        let reason = if !repo.git().succeeds(&is_in).await {
            format!("`{}` was not merged: {}", journal.base, end.description())
        } else if repo.has_markers(&files).await? {
            "the markers of conflicts were committed".to_owned()
        } else {
            repo.back_to("HEAD").await?;
            return Ok((PhaseOutcome::Done, String::new()));
        };
        // Nothing is left of half a merge.
        repo.back_to(&journal.remote_commit).await?;
        journal.merged.retain(|commit| *commit != base);
        let before = journal.merged_base();
        repo.take_in(&self.main, before, &journal.base).await?;
        save(artifacts, journal)?;
        Ok((PhaseOutcome::Failed, reason))
    }
}
