//! Driver: asks [`phase::next`] for the next step, performs it, saves the result, and repeats.

mod begin;
mod conclude;
mod give_back;
mod merge;
mod perform;
mod push;
mod record;
mod talk;
mod tree;

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use ah_conversation::json;
use ah_process::StartError;

use crate::agent::{Agents, Models};
use crate::agent_repo::AgentRepoError;
use crate::artifact::Artifacts;
use crate::hub::{Hub, HubError};
use crate::journal::Journal;
use crate::lock::{Lock, LockError};
use crate::phase::{self, Phase, PhaseOutcome, WorkStatus, WorkStep};
use crate::setup::proposal::{OFF, Proposal, SETTING};
use crate::summary;
use ah_config::settings::work::WorkSettings;
use ah_git::{Git, GitError};

/// State file, relative to `o/work`.
pub const STATE: &str = "state.json";

/// Everything needed to work on an issue.
pub struct Work {
    /// Top-level directory of the user's repository.
    pub top: PathBuf,
    /// Directory for the agents' repositories, one per issue.
    pub agent_repos: PathBuf,
    /// Repository, as `OWNER/NAME`.
    pub repository: String,
    /// Path of the git executable.
    pub git: PathBuf,
    /// Git in the user's repository.
    pub main: Git,
    /// Service that hosts issues and pull requests.
    pub hub: Box<dyn Hub>,
    /// Models of the phases.
    pub models: Box<dyn Models>,
    /// Configuration of the phases' agents.
    pub agents: Agents,
    /// Limits.
    pub settings: WorkSettings,
    /// Options of the command line.
    pub options: WorkOptions,
    /// Callback for progress.
    pub on_event: Box<dyn Fn(&WorkEvent) + Send + Sync>,
}

/// Options of one run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkOptions {
    /// Issue to work on, regardless of its labels.
    pub issue: Option<u64>,
    /// Title and text of an issue to open.
    pub open: Option<(String, String)>,
    /// Model for all phases.
    pub model: Option<String>,
    /// Base branch.
    pub base: Option<String>,
    /// Whether changes to files that run with the repository's permissions may be pushed.
    pub allow_workflows: bool,
    /// URL of the log of this run.
    pub log: Option<String>,
}

/// Progress of the work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkEvent {
    /// An issue is being worked on.
    Issue {
        /// Issue number.
        number: u64,
        /// Issue title.
        title: String,
        /// Whether earlier work is resumed.
        is_resumed: bool,
    },
    /// The agents' repository is prepared as the project says of itself.
    Setup(Proposal),
    /// A phase started.
    PhaseStarted(Phase),
    /// A phase ended, with a note on the reason.
    PhaseEnded(Phase, PhaseOutcome, String),
    /// A problem that does not stop the work.
    Warning(String),
}

/// Error that stops the work. Its state is kept, so the work can be resumed.
#[derive(Debug, thiserror::Error)]
pub enum WorkError {
    /// GitHub or another hub failed.
    #[error(transparent)]
    Hub(#[from] HubError),
    /// Git failed.
    #[error(transparent)]
    Git(#[from] GitError),
    /// The agents' repository could not be set up.
    #[error(transparent)]
    AgentRepo(#[from] AgentRepoError),
    /// A file of the work could not be read or written.
    #[error("cannot save the state of the work: {0}")]
    Io(#[from] io::Error),
    /// The executable could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// Another process works on this repository.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A model cannot be asked: its server does not answer, or refuses the key.
    #[error("the model cannot be asked: {message}")]
    Model {
        /// Reason.
        message: String,
        /// Advice for the user.
        hint: Option<String>,
    },
    /// A command of the setup failed.
    #[error("the setup failed: `{command}` ended with exit code {code}")]
    Setup {
        /// Command.
        command: String,
        /// Its exit code.
        code: i32,
        /// File with its output.
        log: PathBuf,
        /// Setting or file that it is from.
        from: String,
    },
    /// Another machine works on the issue.
    #[error("issue #{number} is being worked on elsewhere, until {until} at most")]
    Taken {
        /// Issue number.
        number: u64,
        /// Time, as ISO 8601 in UTC.
        until: String,
    },
    /// The agents require a sandbox.
    #[error("the agents run in a sandbox, which is not available here")]
    NoSandbox,
    /// The request is invalid in the current state.
    #[error("{message}")]
    Refused {
        /// Error message.
        message: String,
        /// Advice for the user.
        hint: String,
    },
}

impl WorkError {
    /// Returns advice for the user.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Hub(error) => error.hint.clone(),
            Self::Git(error) | Self::AgentRepo(AgentRepoError::Git(error)) => {
                error.hint().map(str::to_owned)
            }
            Self::Model { hint, .. } => hint.clone(),
            Self::Setup { log, from, .. } => {
                let log = log.display();
                Some(if from == SETTING {
                    format!("`{log}` has its output; the setting `work.setup` has its hosts")
                } else {
                    format!(
                        "`{log}` has its output; it is from {from} of the base: say in `work.setup` of your settings what to run instead, {OFF} for nothing"
                    )
                })
            }
            Self::Taken { .. } => Some("wait until then, or for its end".to_owned()),
            Self::Refused { hint, .. } => Some(hint.clone()),
            Self::NoSandbox => Some(
                "run `ah sandbox check` for the reason, or use `--no-sandbox` at your own risk"
                    .to_owned(),
            ),
            Self::Lock(LockError::Held(_)) => Some("wait until it has finished".to_owned()),
            _ => None,
        }
    }
}

/// Result of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkResult {
    /// The work is finished.
    Over(WorkStatus),
    /// The requested phase is finished.
    Phase(PhaseOutcome),
}

/// Result of looking for work.
enum Start {
    /// Work to start or to resume.
    Work(Box<Journal>),
    /// No work, with the reason.
    Nothing(WorkStatus),
}

impl Work {
    /// Works on an issue until it is finished.
    ///
    /// # Errors
    ///
    /// If the work cannot continue; the same call resumes it later.
    pub async fn run(&self) -> Result<WorkResult, WorkError> {
        self.drive(None).await
    }

    /// Performs one phase.
    ///
    /// # Errors
    ///
    /// If another phase comes first, or the phase cannot be performed.
    pub async fn run_phase(&self, phase: Phase) -> Result<WorkResult, WorkError> {
        self.drive(Some(phase)).await
    }

    async fn drive(&self, only: Option<Phase>) -> Result<WorkResult, WorkError> {
        let artifacts = Artifacts::of(&self.top);
        artifacts.prepare()?;
        let _lock = Lock::take_over(&artifacts.path("lock")).await?;
        let mut journal = match self.begin(&artifacts, only).await? {
            Start::Work(journal) => *journal,
            Start::Nothing(status) => return Ok(WorkResult::Over(status)),
        };
        // Waiting for the hub does not count.
        let end_at = Instant::now() + Duration::from_secs(self.settings.deadline());
        let done = self.go_on(&artifacts, &mut journal, only, end_at).await;
        if let Err(error) = &done {
            self.give_back(&artifacts, &mut journal, error).await;
        }
        done
    }

    /// Performs phase after phase.
    async fn go_on(
        &self,
        artifacts: &Artifacts,
        journal: &mut Journal,
        only: Option<Phase>,
        end_at: Instant,
    ) -> Result<WorkResult, WorkError> {
        loop {
            self.discard_stale(artifacts, journal).await?;
            match (phase::next(&journal.history(), journal.rework), only) {
                (WorkStep::Finish(status), _) => {
                    self.conclude(artifacts, journal, status, None).await?;
                    let phase = only.and_then(|phase| journal.last(phase));
                    return Ok(phase.map_or(WorkResult::Over(status), |run| {
                        WorkResult::Phase(run.outcome)
                    }));
                }
                (WorkStep::Perform(next), Some(wanted)) if next != wanted => {
                    return match journal.last(wanted) {
                        Some(run) => Ok(WorkResult::Phase(run.outcome)),
                        None => Err(out_of_order(wanted, next)),
                    };
                }
                (WorkStep::Perform(next), _) => {
                    if Instant::now() >= end_at && next != Phase::Act {
                        return self.stop_at_deadline(artifacts, journal, next).await;
                    }
                    (self.on_event)(&WorkEvent::PhaseStarted(next));
                    let run = self.perform(artifacts, journal, next).await?;
                    (self.on_event)(&WorkEvent::PhaseEnded(next, run.outcome, run.note.clone()));
                    journal.runs.push(run);
                    save(artifacts, journal)?;
                    self.record(artifacts, journal).await?;
                }
            }
        }
    }

    async fn stop_at_deadline(
        &self,
        artifacts: &Artifacts,
        journal: &mut Journal,
        next: Phase,
    ) -> Result<WorkResult, WorkError> {
        let number = journal.issue.number;
        let note = format!("time limit reached before {next}; continue with `ah work -i {number}`");
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
        let value = summary::to_json(status, &self.repository, journal, artifacts, &now, &now);
        artifacts.write("summary.json", &format!("{value:#}\n"))?;
        Ok(())
    }
}

fn out_of_order(wanted: Phase, next: Phase) -> WorkError {
    WorkError::Refused {
        message: format!("cannot run the phase {wanted} yet: {next} comes first"),
        hint: format!("run `ah work {next}`, or `ah work` for all remaining phases"),
    }
}

/// Loads the state of the work, if there is one.
///
/// # Errors
///
/// If the file cannot be parsed.
pub fn load(artifacts: &Artifacts) -> Result<Option<Journal>, WorkError> {
    let Some(text) = artifacts.read(STATE) else {
        return Ok(None);
    };
    json::from_str(&text).map(Some).map_err(|error| {
        let path = artifacts.path(STATE);
        WorkError::Refused {
            message: format!("cannot parse `{}`: {error}", path.display()),
            hint: "remove the file to start over".to_owned(),
        }
    })
}

fn save(artifacts: &Artifacts, journal: &Journal) -> Result<(), WorkError> {
    let text = serde_json::to_string_pretty(journal).map_err(io::Error::from)?;
    artifacts.write(STATE, &(text + "\n"))?;
    Ok(())
}

/// Returns the current time in UTC, as ISO 8601.
pub(crate) fn now() -> String {
    jiff::Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%SZ")
        .to_string()
}
