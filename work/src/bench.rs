//! Improves a number step by step: an agent changes something, a benchmark measures it, and the change is kept only if
//! the number got smaller.
//!
//! It works in the user's checkout, which must be clean, so that all changes are the agent's.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ah_conversation::json;
use ah_process::{Command, Keep};
use serde::{Deserialize, Serialize};

use crate::agent::{AgentExit, AgentJob, Agents};
use crate::artifact::{Artifacts, FOLDER};
use crate::lock::Lock;
use crate::run::{WorkError, now};
use ah_config::settings::work::Budget;
use ah_git::{Git, NOT_BELOW, STAGED};

const STATE: &str = "bench/state.json";
/// Number of previous tries listed in the prompt.
const TRIES_IN_PROMPT: usize = 15;
/// Time limit of a benchmark.
const BENCHMARK_TIMEOUT: Duration = Duration::from_secs(600);
const BUDGET: Budget = Budget {
    timeout: 300,
    max_context_tokens: 100_000,
};
/// Agents cannot run commands; only the benchmark's measurement counts.
const TOOLS: &str = "read,write,edit,grep,glob";

/// State of the improvement, saved after every try.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bench {
    /// Command that prints the number; smaller is better.
    pub command: String,
    /// Goal, in the user's words.
    pub goal: String,
    /// Tries so far; the first is the baseline.
    pub tries: Vec<Try>,
    /// Whether a try has begun and not ended: changes in the checkout are then the agent's.
    #[serde(default)]
    pub is_trying: bool,
}

/// Result of one try.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Try {
    /// Status.
    #[serde(rename = "fate")]
    pub status: TryStatus,
    /// Measured number, if any.
    pub number: Option<f64>,
    /// Commit subject, or the error.
    pub note: String,
    /// Time, as ISO 8601 in UTC.
    pub at: String,
}

/// Status of a try.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TryStatus {
    /// Measurement before the first change.
    Baseline,
    /// Better, and committed.
    Keep,
    /// Not better, and reverted.
    Discard,
    /// The benchmark failed, and the change was reverted.
    Crash,
    /// The agent changed nothing.
    Skip,
}

impl TryStatus {
    /// Returns the name used in JSON and in the log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::Keep => "keep",
            Self::Discard => "discard",
            Self::Crash => "crash",
            Self::Skip => "skip",
        }
    }
}

impl Bench {
    /// Returns the best number so far.
    pub fn best(&self) -> Option<f64> {
        let kept = self.tries.iter().rev();
        let mut kept =
            kept.filter(|one| matches!(one.status, TryStatus::Baseline | TryStatus::Keep));
        kept.next()?.number
    }

    /// Returns the prompt for the next agent.
    fn prompt(&self) -> String {
        let first = self.tries.len().saturating_sub(TRIES_IN_PROMPT);
        let tries: Vec<_> = self.tries[first..]
            .iter()
            .map(|one| {
                let number = one
                    .number
                    .map_or("-".to_owned(), |number| number.to_string());
                format!("{} {number} {}", one.status.as_str(), one.note)
            })
            .collect();
        format!(
            "The goal: {}\nThe benchmark, which prints a number, the smaller the better: {}\n\nWhat was tried so far, \
             the newest last:\n{}\n",
            self.goal,
            self.command,
            tries.join("\n")
        )
    }
}

/// Parses the number from a benchmark's output: its last non-empty line.
///
/// # Errors
///
/// If that is not a finite number.
pub fn number(output: &str) -> Result<f64, String> {
    let last = output
        .lines()
        .map(str::trim)
        .rfind(|line| !line.is_empty())
        .ok_or("the benchmark printed nothing")?;
    let number = last.parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or_else(|| format!("the benchmark printed no number: {last}"))
}

/// Returns the status of a change, given the best number so far and the measurement.
pub fn judge(best: Option<f64>, measured: &Result<f64, String>) -> TryStatus {
    match (best, measured) {
        (_, Err(_)) => TryStatus::Crash,
        (None, Ok(_)) => TryStatus::Keep,
        (Some(best), Ok(number)) if *number < best => TryStatus::Keep,
        (Some(_), Ok(_)) => TryStatus::Discard,
    }
}

/// Checkout and configuration for improving a number.
pub struct Bencher<'a> {
    /// Top-level directory of the user's repository.
    pub top: &'a Path,
    /// Git in that repository.
    pub git: &'a Git,
    /// Configuration of the agents.
    pub agents: &'a Agents,
    /// Model.
    pub model: Option<&'a str>,
}

impl Bencher<'_> {
    fn artifacts(&self) -> Artifacts {
        Artifacts::of(self.top)
    }

    /// Loads the state, if an improvement was started.
    ///
    /// # Errors
    ///
    /// If the file cannot be parsed.
    pub fn load(&self) -> Result<Option<Bench>, WorkError> {
        let artifacts = self.artifacts();
        let Some(text) = artifacts.read(STATE) else {
            return Ok(None);
        };
        json::from_str(&text).map(Some).map_err(|error| {
            let path = artifacts.path(STATE);
            refused(
                format!("cannot parse `{}`: {error}", path.display()),
                "run `ah work reset` to remove it",
            )
        })
    }

    /// Measures the baseline and saves it. Returns its number.
    ///
    /// # Errors
    ///
    /// If an improvement was already started, or the benchmark gives no number.
    pub async fn start(&self, command: &str, goal: &str) -> Result<f64, WorkError> {
        if self.load()?.is_some() {
            return Err(refused(
                "a benchmark was already started here".to_owned(),
                "run `ah work run` to continue, or `ah work reset` to discard it",
            ));
        }
        self.artifacts().prepare()?;
        self.require_identity().await?;
        let measured = self.measure(command).await?;
        let number = measured
            .map_err(|reason| refused(reason, "it must print a number and exit with code 0"))?;
        let bench = Bench {
            command: command.to_owned(),
            goal: goal.to_owned(),
            tries: vec![Try {
                status: TryStatus::Baseline,
                number: Some(number),
                note: String::new(),
                at: now(),
            }],
            is_trying: false,
        };
        self.save(&bench)?;
        Ok(number)
    }

    /// Lets an agent make one change and measures it.
    ///
    /// # Errors
    ///
    /// If nothing was started, the checkout is not clean, or the change cannot be committed or reverted.
    pub async fn run(&self) -> Result<Try, WorkError> {
        let Some(mut bench) = self.load()? else {
            return Err(refused(
                "no benchmark was started here".to_owned(),
                "run `ah work start BENCH GOAL`",
            ));
        };
        self.require_identity().await?;
        // The agent of a killed try still holds its session.
        let _lock = Lock::take_over(&self.artifacts().path("lock")).await?;
        if !self.changes().await?.is_empty() {
            if !bench.is_trying {
                return Err(refused(
                    "the checkout has uncommitted changes".to_owned(),
                    "commit or stash them, since changes that are not better are discarded",
                ));
            }
            // A killed try has left them. A person may have added to them, so they are kept.
            let words = [
                "stash",
                "push",
                "--quiet",
                "--include-untracked",
                "--message",
                "ah work run: interrupted",
            ];
            self.git.run(&words).await?;
        }
        if bench.is_trying {
            // Its session is about changes that are no longer there.
            for suffix in ["", "-wal", "-shm"] {
                let session = format!("{}{suffix}", session_of(&bench));
                self.artifacts().remove(&session)?;
            }
        }
        bench.is_trying = true;
        self.save(&bench)?;
        self.change(&bench).await?;
        let changed = self.changes().await?;
        let measuring = self.measuring(&bench.command);
        let own = measuring.iter().find(|path| changed.contains(path));
        let done = if let Some(path) = own {
            let reason = Err(format!(
                "the change is to `{path}`, which the benchmark measures with"
            ));
            let note = self
                .decide(TryStatus::Discard, bench.best(), &reason)
                .await?;
            Try {
                status: TryStatus::Discard,
                number: None,
                note,
                at: now(),
            }
        } else if changed.is_empty() {
            Try {
                status: TryStatus::Skip,
                number: None,
                note: "nothing was changed".to_owned(),
                at: now(),
            }
        } else {
            let measured = self.measure(&bench.command).await?;
            let status = judge(bench.best(), &measured);
            let note = self.decide(status, bench.best(), &measured).await?;
            Try {
                status,
                number: measured.ok(),
                note,
                at: now(),
            }
        };
        bench.tries.push(done.clone());
        bench.is_trying = false;
        self.save(&bench)?;
        Ok(done)
    }

    /// Refuses to begin if git could not commit a change.
    async fn require_identity(&self) -> Result<(), WorkError> {
        let identity = self.git.run(&["var", "GIT_COMMITTER_IDENT"]).await;
        identity.map(drop).map_err(|_| {
            refused(
                "git has no name and email address for commits".to_owned(),
                "set user.name and user.email with `git config`",
            )
        })
    }

    /// Returns the paths that differ from the last commit.
    async fn changes(&self) -> Result<Vec<String>, WorkError> {
        let words = ["status", "--porcelain", "-z", "--no-renames", NOT_BELOW];
        let status = self.git.run(&words).await?;
        let paths = status.split('\0').filter_map(|line| line.get(3..));
        Ok(paths.map(str::to_owned).collect())
    }

    /// Returns the files of the repository that the command runs.
    fn measuring(&self, command: &str) -> Vec<String> {
        let mut paths = programs(command);
        paths.retain(|path| !path.starts_with('/') && self.top.join(path).is_file());
        paths
    }

    /// Removes the state; commits stay.
    ///
    /// # Errors
    ///
    /// If the file cannot be removed.
    pub fn reset(&self) -> Result<(), WorkError> {
        Ok(self.artifacts().remove(STATE)?)
    }

    fn save(&self, bench: &Bench) -> Result<(), WorkError> {
        let text = serde_json::to_string_pretty(bench).map_err(std::io::Error::from)?;
        self.artifacts().write(STATE, &(text + "\n"))?;
        Ok(())
    }

    async fn change(&self, bench: &Bench) -> Result<(), WorkError> {
        let artifacts = self.artifacts();
        let session = artifacts.path(&session_of(bench));
        let job = AgentJob {
            skill: "improve",
            must_produce: None,
            tools: Some(TOOLS),
            cwd: self.top,
            session: &session,
            log: artifacts.path("bench/agent.log"),
            model: self.model,
            budget: BUDGET,
            until: None,
            read_only: self
                .measuring(&bench.command)
                .iter()
                .map(|path| self.top.join(path))
                .chain([self.top.join(FOLDER)])
                .collect(),
            prompt: bench.prompt(),
        };
        match self.agents.run(job).await? {
            AgentExit::NoSandbox => Err(WorkError::NoSandbox),
            AgentExit::NoModel(message) => Err(WorkError::Model {
                message,
                hint: None,
            }),
            // Its changes are measured however it ended.
            _ => Ok(()),
        }
    }

    /// Runs the benchmark. It is confined like the agent, since it runs code that the agent wrote.
    async fn measure(&self, command: &str) -> Result<Result<f64, String>, WorkError> {
        let folder = self.top.join(FOLDER).to_string_lossy().into_owned();
        let mut arguments = Vec::new();
        let program = if self.agents.is_confined {
            let top = self.top.to_string_lossy();
            let unveil = format!("{folder}:r");
            arguments.extend(
                ["sandbox", "exec", "--workspace", &top, "--unveil", &unveil].map(OsString::from),
            );
            arguments.extend(self.agents.grants.iter().map(OsString::from));
            arguments.extend(["--", "/bin/sh"].map(OsString::from));
            self.agents.program.clone()
        } else {
            PathBuf::from("/bin/sh")
        };
        arguments.extend(["-c", command].map(OsString::from));
        // What an earlier command printed is no output of this one.
        self.artifacts().remove("bench/output")?;
        let output = self.artifacts().path("bench/output");
        let command = Command {
            program,
            arguments,
            cwd: self.top.to_owned(),
            environment: self.agents.variables.clone(),
            stdin: Vec::new(),
            deadline: Some(BENCHMARK_TIMEOUT),
            keep: Keep::new(output.clone(), 1024 * 1024).at_once(),
            sandbox: None,
            bounds: None,
            note: |_| None,
        };
        let outcome = command.run().await?;
        let output = std::fs::read(&output).unwrap_or_default();
        Ok(match outcome.ending.code() {
            0 => number(&String::from_utf8_lossy(&output)),
            code => Err(format!("the benchmark failed with exit code {code}")),
        })
    }

    /// Commits the change, or reverts it. Returns a line about the result.
    async fn decide(
        &self,
        status: TryStatus,
        best: Option<f64>,
        measured: &Result<f64, String>,
    ) -> Result<String, WorkError> {
        let best = best.unwrap_or(f64::NAN);
        match (status, measured) {
            (TryStatus::Keep, Ok(number)) => {
                let subject = format!("work: {best} → {number} ({})", percent(best, *number));
                let staged = self.git.run(&STAGED).await?;
                let all = Git::add_all(&[], &staged);
                let all: Vec<_> = all.iter().map(String::as_str).collect();
                self.git.run(&all).await?;
                self.git
                    .run(&["commit", "--quiet", "--no-verify", "--message", &subject])
                    .await?;
                Ok(subject)
            }
            (_, measured) => {
                self.git.run(&["reset", "--quiet", "--hard"]).await?;
                self.git.run(&["clean", "--quiet", "--force", "-d"]).await?;
                Ok(match measured {
                    Ok(number) => format!("{number} is not better than {best}"),
                    Err(reason) => reason.clone(),
                })
            }
        }
    }
}

/// Returns the session of the next try, relative to `o/work`.
fn session_of(bench: &Bench) -> String {
    format!("bench/{}.db", bench.tries.len())
}

/// Returns the files that a command may run, as it names them: programs, scripts, and what build tools read.
fn programs(command: &str) -> Vec<String> {
    let mut paths = Vec::new();
    let simple = command.split([';', '&', '|', '\n', '(', ')', '`']);
    for words in simple {
        let mut words = words
            .split_whitespace()
            .map(|word| word.trim_matches(['"', '\'']))
            .skip_while(|word| word.contains('='));
        let Some(program) = words.next() else {
            continue;
        };
        let name = program.rsplit('/').next().unwrap_or(program);
        let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        match name {
            "sh" | "bash" | "dash" | "zsh" | "python" | "node" | "ruby" | "perl" | "php"
            | "lua" | "bun" => paths.extend(words.find(|word| !word.starts_with('-'))),
            "make" => paths.extend(["GNUmakefile", "makefile", "Makefile"]),
            "just" => paths.extend(["justfile", "Justfile"]),
            "npm" | "pnpm" | "yarn" => paths.push("package.json"),
            _ => paths.push(program),
        }
    }
    let plain = paths.into_iter();
    plain
        .map(|path| path.strip_prefix("./").unwrap_or(path).to_owned())
        .collect()
}

fn percent(old: f64, new: f64) -> String {
    match old {
        0.0 => "better".to_owned(),
        old => format!("{:+.1}%", (new - old) / old.abs() * 100.0),
    }
}

fn refused(message: String, hint: &str) -> WorkError {
    WorkError::Refused {
        message,
        hint: hint.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_kept_only_if_the_number_is_smaller() {
        for (best, output, expected) in [
            (Some(10.0), "9.9\n", "keep"),
            (Some(10.0), "warming up\n 9.9 \n\n", "keep"),
            (Some(10.0), "10", "discard"),
            (Some(10.0), "1e2", "discard"),
            (Some(-1.0), "-1.5", "keep"),
            (Some(10.0), "NaN", "crash"),
            (Some(10.0), "inf", "crash"),
            (Some(10.0), "9 ms", "crash"),
            (Some(10.0), "\n", "crash"),
            (None, "3", "keep"),
        ] {
            assert_eq!(
                judge(best, &number(output)).as_str(),
                expected,
                "{best:?} {output}"
            );
        }
    }

    #[test]
    fn what_measures_is_told_from_what_is_measured() {
        for (command, expected) in [
            ("./bench.sh", "bench.sh"),
            ("wc -c < src/main.rs", "wc"),
            ("sh bench/run.sh fast && cat size", "bench/run.sh cat"),
            ("A=1 python3 -B 'bench.py' | tail -1", "bench.py tail"),
            ("npm run bench", "package.json"),
            ("make -s bench", "GNUmakefile makefile Makefile"),
        ] {
            assert_eq!(programs(command).join(" "), expected, "{command}");
        }
    }

    #[test]
    fn a_change_is_reported_in_percent() {
        for (old, new, expected) in [
            (10.0, 9.0, "-10.0%"),
            (-1.0, -1.5, "-50.0%"),
            (0.0, -1.0, "better"),
        ] {
            assert_eq!(percent(old, new), expected);
        }
    }
}
