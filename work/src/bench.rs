//! Makes a number smaller, one change at a time: an agent changes something, a benchmark says what came of it, and the
//! change is kept only if the number got better.
//!
//! It works in the user's checkout, which has to be clean, so that whatever is there afterwards is the agent's.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ah_process::{Command, Keep};
use serde::{Deserialize, Serialize};

use crate::agent::{AgentJob, Agents};
use crate::artifact::{Artifacts, FOLDER};
use crate::git::Git;
use crate::run::{WorkError, now};
use crate::settings::Budget;

const STATE: &str = "bench/state.json";
/// How many of the tries so far an agent is told.
const TOLD: usize = 15;
/// How long a benchmark may take.
const PATIENCE: Duration = Duration::from_secs(600);
const BUDGET: Budget = Budget {
    timeout: 300,
    max_context_tokens: 100_000,
};
/// An agent measures nothing itself: the benchmark is what counts.
const TOOLS: &str = "read,write,edit,grep,glob";

/// What is made better, and what was tried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bench {
    /// The command that prints the number; a smaller one is better.
    pub command: String,
    /// What is wanted, in words.
    pub goal: String,
    /// What was tried, the first being what was there.
    pub tries: Vec<Try>,
}

/// What came of a change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Try {
    /// How it ended.
    #[serde(rename = "fate")]
    pub status: TryStatus,
    /// The number, where there was one.
    pub number: Option<f64>,
    /// What the agent said of it, or what went wrong.
    pub note: String,
    /// When.
    pub at: String,
}

/// How a change ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TryStatus {
    /// It is what was there before the first change.
    Baseline,
    /// It was better, and is a commit now.
    Keep,
    /// It was not better, and is gone.
    Discard,
    /// The benchmark failed with it, and it is gone.
    Crash,
    /// The agent changed nothing.
    Skip,
}

impl TryStatus {
    /// The word for it.
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
    /// The best number so far.
    pub fn best(&self) -> Option<f64> {
        let kept = self.tries.iter().rev();
        let mut kept =
            kept.filter(|one| matches!(one.status, TryStatus::Baseline | TryStatus::Keep));
        kept.next()?.number
    }

    /// What an agent is told.
    fn prompt(&self) -> String {
        let first = self.tries.len().saturating_sub(TOLD);
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

/// What a benchmark printed, as a number: its last line that is not empty.
///
/// # Errors
///
/// Where that is no number.
pub fn number(output: &str) -> Result<f64, String> {
    let last = output.lines().map(str::trim).rfind(|line| !line.is_empty());
    let last = last.ok_or("the benchmark printed nothing")?;
    let number = last.parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or_else(|| format!("the benchmark printed no number: {last}"))
}

/// What becomes of a change, given the best number so far and what was measured.
pub fn judge(best: Option<f64>, measured: &Result<f64, String>) -> TryStatus {
    match (best, measured) {
        (_, Err(_)) => TryStatus::Crash,
        (None, Ok(_)) => TryStatus::Keep,
        (Some(best), Ok(number)) if *number < best => TryStatus::Keep,
        (Some(_), Ok(_)) => TryStatus::Discard,
    }
}

/// Where it happens, and with what.
pub struct Bencher<'a> {
    /// The top of the user's repository.
    pub top: &'a Path,
    /// Git there.
    pub git: &'a Git,
    /// Who changes something.
    pub agents: &'a Agents,
    /// The model.
    pub model: Option<&'a str>,
}

impl Bencher<'_> {
    fn artifacts(&self) -> Artifacts {
        Artifacts::of(self.top)
    }

    /// What was begun here, if something was.
    ///
    /// # Errors
    ///
    /// Where its file cannot be understood.
    pub fn load(&self) -> Result<Option<Bench>, WorkError> {
        let artifacts = self.artifacts();
        let Some(text) = artifacts.read(STATE) else {
            return Ok(None);
        };
        serde_json::from_str(&text).map(Some).map_err(|error| {
            let path = artifacts.path(STATE);
            refused(
                format!("cannot understand `{}`: {error}", path.display()),
                "`ah work reset` removes it",
            )
        })
    }

    /// Begins with what is there; gives its number.
    ///
    /// # Errors
    ///
    /// Where something was begun already, or the benchmark gives no number.
    pub async fn start(&self, command: &str, goal: &str) -> Result<f64, WorkError> {
        if self.load()?.is_some() {
            return Err(refused(
                "a benchmark was begun here".to_owned(),
                "`ah work run` goes on with it, `ah work reset` forgets it",
            ));
        }
        self.artifacts().prepare()?;
        let measured = self.measure(command).await?;
        let number =
            measured.map_err(|fault| refused(fault, "it has to print a number and exit with 0"))?;
        let bench = Bench {
            command: command.to_owned(),
            goal: goal.to_owned(),
            tries: vec![Try {
                status: TryStatus::Baseline,
                number: Some(number),
                note: String::new(),
                at: now(),
            }],
        };
        self.save(&bench)?;
        Ok(number)
    }

    /// Has one change made and judged; gives what came of it.
    ///
    /// # Errors
    ///
    /// Where nothing was begun, the checkout is not clean, or a change cannot be kept or taken back.
    pub async fn run(&self) -> Result<Try, WorkError> {
        let Some(mut bench) = self.load()? else {
            return Err(refused(
                "no benchmark was begun here".to_owned(),
                "`ah work start BENCH GOAL`",
            ));
        };
        if !self.git.run(&["status", "--porcelain"]).await?.is_empty() {
            return Err(refused(
                "the checkout has changes that are not committed".to_owned(),
                "commit them, or put them aside: what is not better is thrown away",
            ));
        }
        self.change(&bench).await?;
        let changed = self.git.run(&["status", "--porcelain"]).await?;
        let done = if changed.is_empty() {
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
        self.save(&bench)?;
        Ok(done)
    }

    /// Forgets what was begun; commits stay.
    ///
    /// # Errors
    ///
    /// Where its file stays.
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
        let session = artifacts.path(&format!("bench/{}.db", bench.tries.len()));
        let job = AgentJob {
            skill: "improve",
            must_produce: None,
            tools: Some(TOOLS),
            tree: self.top,
            session: &session,
            log: artifacts.path("bench/agent.log"),
            model: self.model,
            budget: BUDGET,
            read_only: vec![self.top.join(FOLDER)],
            prompt: bench.prompt(),
        };
        match self.agents.run(job).await? {
            crate::agent::AgentExit::NoSandbox => Err(WorkError::NoSandbox),
            // Whatever it has changed is measured.
            _ => Ok(()),
        }
    }

    /// Runs the benchmark: like the agent it sees the checkout and nothing else, for it runs what the agent wrote.
    async fn measure(&self, command: &str) -> Result<Result<f64, String>, WorkError> {
        let folder = self.top.join(FOLDER).to_string_lossy().into_owned();
        let words = match self.agents.is_confined {
            true => {
                let top = self.top.to_string_lossy().into_owned();
                let unveil = format!("{folder}:r");
                let start = [
                    "sandbox",
                    "exec",
                    "--workspace",
                    &top,
                    "--unveil",
                    &unveil,
                    "--",
                ];
                start.map(str::to_owned).to_vec()
            }
            false => Vec::new(),
        };
        let shell = PathBuf::from("/bin/sh");
        let (program, shell_word) = match self.agents.is_confined {
            true => (self.agents.program.clone(), Some("/bin/sh")),
            false => (shell, None),
        };
        let words = words
            .into_iter()
            .chain(shell_word.map(str::to_owned))
            .chain(["-c".to_owned(), command.to_owned()]);
        let output = self.artifacts().path("bench/output");
        let command = Command {
            program,
            arguments: words.map(Into::into).collect(),
            cwd: self.top.to_owned(),
            environment: self.agents.variables.clone(),
            stdin: Vec::new(),
            deadline: Some(PATIENCE),
            keep: Keep::new(output.clone(), 1024 * 1024).at_once(),
            sandbox: None,
            note: |_| None,
        };
        let outcome = command.run().await?;
        let output = std::fs::read(&output).unwrap_or_default();
        Ok(match outcome.ending.code() {
            0 => number(&String::from_utf8_lossy(&output)),
            code => Err(format!("the benchmark ended with exit code {code}")),
        })
    }

    /// Keeps the change, or takes it back; says it in a line.
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
                self.git.run(&["add", "--all"]).await?;
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
                    Err(fault) => fault.clone(),
                })
            }
        }
    }
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
    fn a_change_is_told_in_percent() {
        for (old, new, expected) in [
            (10.0, 9.0, "-10.0%"),
            (-1.0, -1.5, "-50.0%"),
            (0.0, -1.0, "better"),
        ] {
            assert_eq!(percent(old, new), expected);
        }
    }
}
