//! Claim on an issue, and what was done about it so far, at the remote: the commit `refs/ah/work/N`, which is no branch.
//! Git changes a reference only from the value that was seen, so of two machines one gets the issue. Pushing it also
//! shows that pushing works, before anything is paid for. What a lost machine had done is in it, so another one goes on.
//! It holds the files of the phases and their journal, and no transcripts.

use std::collections::BTreeMap;

use ah_conversation::json;
use serde::{Deserialize, Serialize};

use crate::artifact::Artifacts;
use ah_git::{Git, GitError};

/// Time after the deadline of the work until others may take the issue, in seconds.
pub const GRACE: u64 = 3_600;
/// File with the message of the commit, relative to `o/work`.
const DRAFT: &str = "claim.json";

/// Content of the reference.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Claim {
    /// Identifier of the work that holds it.
    pub holder: String,
    /// Time until which nobody else takes the issue, in seconds since 1970; 0 once it is given back.
    pub until: u64,
    /// Files of the work, by path below `o/work`.
    pub files: BTreeMap<String, String>,
}

/// What a claim means for a work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimState {
    /// Nobody's, or our own.
    Open,
    /// Given back, or of a machine that is lost: the work may go on from it.
    Left(Claim),
    /// Somebody else works on the issue until this time, in seconds since 1970.
    Held(u64),
}

/// Returns what `claim` means for the work `holder`, which may be empty, at the time `now`.
pub fn judge(claim: Option<Claim>, holder: &str, now: u64) -> ClaimState {
    match claim {
        None => ClaimState::Open,
        Some(claim) if !holder.is_empty() && claim.holder == holder => ClaimState::Open,
        Some(claim) if claim.until > now => ClaimState::Held(claim.until),
        Some(claim) => ClaimState::Left(claim),
    }
}

/// Result of pushing a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claimed {
    /// It is at the remote, as this commit.
    Commit(String),
    /// The reference had another value than expected.
    Lost,
    /// The remote takes no such reference.
    Refused,
}

/// The claims at the remote `origin` of a repository.
#[derive(Debug, Clone, Copy)]
pub struct Claims<'a> {
    /// Git in the user's repository.
    pub git: &'a Git,
    /// Files of the work.
    pub artifacts: &'a Artifacts,
}

impl Claims<'_> {
    /// Returns the commit of the claim on an issue, or an empty string, and its content.
    ///
    /// # Errors
    ///
    /// If the remote cannot be reached.
    pub async fn read(&self, number: u64) -> Result<(String, Option<Claim>), GitError> {
        let name = reference(number);
        let list = self.git.run(&["ls-remote", "origin", &name]).await?;
        let Some((commit, _)) = list.lines().find_map(|line| line.split_once('\t')) else {
            return Ok((String::new(), None));
        };
        let fetch = [
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-recurse-submodules",
            "--no-write-fetch-head",
            "origin",
            &name,
        ];
        self.git.run(&fetch).await?;
        // One that cannot be read is nobody's.
        let text = self.git.run(&["cat-file", "commit", commit]).await;
        let message = text
            .as_deref()
            .ok()
            .and_then(|text| text.split_once("\n\n"));
        let claim = message.and_then(|(_, message)| json::from_str(message).ok());
        Ok((commit.to_owned(), Some(claim.unwrap_or_default())))
    }

    /// Replaces the claim that is the commit `seen`, or an empty string if there is none.
    ///
    /// # Errors
    ///
    /// If nothing can be pushed, or the commit cannot be written.
    pub async fn write(&self, number: u64, claim: &Claim, seen: &str) -> Result<Claimed, GitError> {
        let failed = |error: &dyn std::error::Error| GitError {
            command: "commit-tree".to_owned(),
            reason: error.to_string(),
            code: None,
        };
        let text = serde_json::to_string(claim).map_err(|error| failed(&error))?;
        let draft = self.artifacts.path(DRAFT);
        let written = self.artifacts.write(DRAFT, &text);
        written.map_err(|error| failed(&error))?;
        let tree = ["hash-object", "-t", "tree", "-w", "/dev/null"];
        let tree = self.git.run(&tree).await?;
        let draft = draft.to_string_lossy();
        let commit = [
            "-c",
            "user.name=ah",
            "-c",
            "user.email=ah@localhost",
            "commit-tree",
            "-F",
            &draft,
            &tree,
        ];
        let commit = self.git.run(&commit).await?;
        self.push(number, &commit, seen).await
    }

    /// Removes the claim that is the commit `seen`.
    ///
    /// # Errors
    ///
    /// If nothing can be pushed.
    pub async fn remove(&self, number: u64, seen: &str) -> Result<(), GitError> {
        self.push(number, "", seen).await.map(drop)
    }

    async fn push(&self, number: u64, commit: &str, seen: &str) -> Result<Claimed, GitError> {
        let name = reference(number);
        let lease = format!("--force-with-lease={name}:{seen}");
        let refs = format!("{commit}:{name}");
        let push = [
            "push",
            "--quiet",
            "--no-verify",
            "--no-recurse-submodules",
            &lease,
            "origin",
            &refs,
        ];
        let Err(error) = self.git.run(&push).await else {
            return Ok(Claimed::Commit(commit.to_owned()));
        };
        let list = self.git.run(&["ls-remote", "origin", &name]).await;
        let Ok(list) = list else { return Err(error) };
        let now = list.split_once('\t').map_or("", |(now, _)| now);
        if now == commit {
            // It has succeeded although the response was lost.
            Ok(Claimed::Commit(commit.to_owned()))
        } else if now != seen {
            Ok(Claimed::Lost)
        } else if error.is_refusal() {
            Ok(Claimed::Refused)
        } else {
            Err(error)
        }
    }
}

fn reference(number: u64) -> String {
    format!("refs/ah/work/{number}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_holds_until_its_time_and_for_one_work() {
        let claim = |holder: &str, until| {
            Some(Claim {
                holder: holder.to_owned(),
                until,
                ..Claim::default()
            })
        };
        for (claim, holder, expected) in [
            (None, "a", "open"),
            (claim("a", 200), "a", "open"),
            (claim("a", 0), "a", "open"),
            (claim("b", 200), "a", "held"),
            (claim("b", 200), "", "held"),
            (claim("", 200), "", "held"),
            (claim("b", 100), "a", "left"),
            (claim("b", 0), "", "left"),
        ] {
            let state = match judge(claim.clone(), holder, 100) {
                ClaimState::Open => "open",
                ClaimState::Left(_) => "left",
                ClaimState::Held(_) => "held",
            };
            assert_eq!(state, expected, "{claim:?} {holder}");
        }
    }
}
