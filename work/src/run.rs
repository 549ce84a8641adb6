//! Drives the work on an issue: asks [`phase::next`] what is to be done, has it done, writes it down, and asks again.

mod begin;
mod conclude;
mod perform;

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use ah_process::StartError;

use crate::agent::Agents;
use crate::agent_repo::{AgentRepo, AgentRepoError};
use crate::artifact::Artifacts;
use crate::git::{Git, GitError};
use crate::hub::{Hub, HubError};
use crate::journal::{Journal, still_valid};
use crate::lock::{Lock, LockError};
use crate::phase::{self, Phase, PhaseOutcome, WorkStatus, WorkStep};
use crate::settings::WorkSettings;
use crate::summary;

/// The file that holds the state of the work, below `o/work`.
pub const STATE: &str = "state.json";

/// All that the work needs.
pub struct Work {
    /// The top of the user's repository.
    pub top: PathBuf,
    /// Where the trees of this repository's issues are.
    pub agent_repos: PathBuf,
    /// The repository, as `OWNER/NAME`.
    pub repository: String,
    /// The git program.
    pub git: PathBuf,
    /// Git in the user's repository.
    pub main: Git,
    /// Where the issues are.
    pub hub: Box<dyn Hub>,
    /// Who works in the phases.
    pub agents: Agents,
    /// Limits.
    pub settings: WorkSettings,
    /// What was asked for on the command line.
    pub options: WorkOptions,
    /// Is told what happens.
    pub on_event: Box<dyn Fn(&WorkEvent) + Send + Sync>,
}

/// What is asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkOptions {
    /// This issue, whatever its labels.
    pub issue: Option<u64>,
    /// A new issue: its title and text.
    pub open: Option<(String, String)>,
    /// The model of all phases.
    pub model: Option<String>,
    /// The branch that the work is for.
    pub base: Option<String>,
    /// Whether files that run with rights of the repository may be changed.
    pub allow_workflows: bool,
    /// Where people find the log of this run.
    pub log: Option<String>,
}

/// What happens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkEvent {
    /// This issue is worked on, its number and title; `true`: work that was begun goes on.
    Issue {
        /// Its number.
        number: u64,
        /// Its title.
        title: String,
        /// Whether earlier work is resumed.
        is_resumed: bool,
    },
    /// A phase begins.
    PhaseStarted(Phase),
    /// A phase has ended: how, and why.
    PhaseEnded(Phase, PhaseOutcome, String),
    /// Something that the work goes on in spite of.
    Warning(String),
}

/// Why the work could not go on. What it has come to is kept.
#[derive(Debug, thiserror::Error)]
pub enum WorkError {
    /// The hub.
    #[error(transparent)]
    Hub(#[from] HubError),
    /// Git.
    #[error(transparent)]
    Git(#[from] GitError),
    /// The tree.
    #[error(transparent)]
    AgentRepo(#[from] AgentRepoError),
    /// A file.
    #[error("cannot keep the state of the work: {0}")]
    Io(#[from] io::Error),
    /// The program itself cannot be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// Another worker is there.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The phases insist on a sandbox.
    #[error("the phases run in a sandbox, and none can be built here")]
    NoSandbox,
    /// It makes no sense as things are.
    #[error("{message}")]
    Refused {
        /// Why.
        message: String,
        /// What the user can do about it.
        hint: String,
    },
}

impl WorkError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Hub(error) => error.hint.clone(),
            Self::Refused { hint, .. } => Some(hint.clone()),
            Self::NoSandbox => Some(
                "`ah sandbox check` says what is missing; `--no-sandbox` goes on without"
                    .to_owned(),
            ),
            Self::Lock(LockError::Held(_)) => Some("wait for it to end".to_owned()),
            _ => None,
        }
    }
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkResult {
    /// The work is over.
    Over(WorkStatus),
    /// The phase that was asked for is done: how it came out.
    Phase(PhaseOutcome),
}

/// What there is to do.
enum Start {
    /// This.
    Work(Box<Journal>),
    /// Nothing.
    Nothing(WorkStatus),
}

impl Work {
    /// Works on an issue until it is over.
    ///
    /// # Errors
    ///
    /// Where the work cannot go on; the same call goes on with it later.
    pub async fn run(&self) -> Result<WorkResult, WorkError> {
        self.drive(None).await
    }

    /// Performs one phase.
    ///
    /// # Errors
    ///
    /// Where it is not that phase's turn, or it cannot go on.
    pub async fn run_phase(&self, phase: Phase) -> Result<WorkResult, WorkError> {
        self.drive(Some(phase)).await
    }

    async fn drive(&self, only: Option<Phase>) -> Result<WorkResult, WorkError> {
        let artifacts = Artifacts::of(&self.top);
        artifacts.prepare()?;
        let lock = Lock::take(&artifacts.path("lock"))?;
        if let Some(killed) = lock.killed {
            tokio::task::spawn_blocking(move || ah_process::finish_orphans(killed))
                .await
                .map_err(io::Error::other)?;
        }
        let end_at = Instant::now() + Duration::from_secs(self.settings.deadline());
        let mut journal = match self.begin(&artifacts, only).await? {
            Start::Work(journal) => *journal,
            Start::Nothing(status) => return Ok(WorkResult::Over(status)),
        };
        loop {
            self.forget(&artifacts, &mut journal)?;
            match (phase::next(&journal.history(), journal.rework), only) {
                (WorkStep::Finish(status), _) => {
                    self.conclude(&artifacts, &mut journal, status, None)
                        .await?;
                    let phase = only.and_then(|phase| journal.last(phase));
                    return Ok(phase.map_or(WorkResult::Over(status), |run| {
                        WorkResult::Phase(run.outcome)
                    }));
                }
                (WorkStep::Perform(next), Some(wanted)) if next != wanted => {
                    return match journal.last(wanted) {
                        Some(run) => Ok(WorkResult::Phase(run.outcome)),
                        None => Err(not_its_turn(wanted, next)),
                    };
                }
                (WorkStep::Perform(next), _) => {
                    if Instant::now() >= end_at && next != Phase::Act {
                        return self.time_is_over(&artifacts, &mut journal, next).await;
                    }
                    (self.on_event)(&WorkEvent::PhaseStarted(next));
                    let run = self.perform(&artifacts, &mut journal, next).await?;
                    (self.on_event)(&WorkEvent::PhaseEnded(next, run.outcome, run.note.clone()));
                    journal.runs.push(run);
                    save(&artifacts, &journal)?;
                }
            }
        }
    }

    /// Forgets the phases that read what has changed since, with their sessions; before the first commit, the tree.
    fn forget(&self, artifacts: &Artifacts, journal: &mut Journal) -> Result<(), WorkError> {
        let folder = self.tree_folder(journal.issue.number);
        let mut valid = still_valid(&journal.runs, &artifacts.hashes());
        let past = &journal.history()[..valid];
        let needs_tree = match phase::next(past, journal.rework) {
            WorkStep::Perform(next) => matches!(next, Phase::Push | Phase::Check | Phase::Fix),
            WorkStep::Finish(_) => false,
        };
        if needs_tree && !AgentRepo::is_at(&folder) {
            // The commits went with it, so they are made again.
            let first = past.iter().position(|(phase, _)| *phase == Phase::Do);
            valid = first.unwrap_or(valid);
        }
        if valid == journal.runs.len() {
            return Ok(());
        }
        journal.runs.truncate(valid);
        match journal.last(Phase::Do) {
            None => AgentRepo::discard(&folder)?,
            Some(_) => AgentRepo::forget_sessions(&folder, valid)?,
        }
        journal.concluded = None;
        save(artifacts, journal)
    }

    async fn time_is_over(
        &self,
        artifacts: &Artifacts,
        journal: &mut Journal,
        next: Phase,
    ) -> Result<WorkResult, WorkError> {
        let number = journal.issue.number;
        let note = format!(
            "the time of the run was over before {next}; `ah work -i {number}` goes on there"
        );
        (self.on_event)(&WorkEvent::Warning(note.clone()));
        self.conclude(artifacts, journal, WorkStatus::Failed, Some(&note))
            .await?;
        Ok(WorkResult::Over(WorkStatus::Failed))
    }

    fn summarise(
        &self,
        artifacts: &Artifacts,
        status: WorkStatus,
        journal: Option<&Journal>,
    ) -> Result<(), WorkError> {
        let now = now();
        let value = summary::to_json(status, &self.repository, journal, &now, &now);
        artifacts.write("summary.json", &format!("{value:#}\n"))?;
        Ok(())
    }
}

fn not_its_turn(wanted: Phase, next: Phase) -> WorkError {
    WorkError::Refused {
        message: format!("it is not the turn of {wanted}: {next} comes first"),
        hint: format!("`ah work {next}`, or `ah work` for all that is left"),
    }
}

/// The state of the work, if some was begun.
///
/// # Errors
///
/// Where the file is there and cannot be read.
pub fn load(artifacts: &Artifacts) -> Result<Option<Journal>, WorkError> {
    let Some(text) = artifacts.read(STATE) else {
        return Ok(None);
    };
    serde_json::from_str(&text).map(Some).map_err(|error| {
        let path = artifacts.path(STATE);
        WorkError::Refused {
            message: format!("cannot understand `{}`: {error}", path.display()),
            hint: "remove the file to begin anew".to_owned(),
        }
    })
}

fn save(artifacts: &Artifacts, journal: &Journal) -> Result<(), WorkError> {
    let text = serde_json::to_string_pretty(journal).map_err(io::Error::from)?;
    artifacts.write(STATE, &(text + "\n"))?;
    Ok(())
}

/// This moment in UTC.
pub(crate) fn now() -> String {
    jiff::Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%SZ")
        .to_string()
}
