//! `ah work` as it is typed.

use std::path::PathBuf;

use ah_work::phase::Phase;
use clap::{Args, Subcommand};

use super::json::Json;
use super::options::whole;

/// What the work is to be like.
#[derive(Debug, Clone, Default, PartialEq, Args)]
pub struct WorkOptions {
    /// The repository [default: that of the remote `origin`]
    #[arg(short = 'r', long, value_name = "OWNER/NAME", global = true)]
    pub repo: Option<String>,
    /// Work on this issue, whatever its labels
    #[arg(short = 'i', long, value_name = "N", global = true, conflicts_with = "prompt", value_parser = whole::<u64>)]
    pub issue: Option<u64>,
    /// Open an issue from the file `work/prompts/NAME.md` of `.ah` or `~/.ah`, and work on it
    #[arg(short = 'p', long, value_name = "NAME", global = true)]
    pub prompt: Option<String>,
    /// The model of all phases
    #[arg(short = 'm', long, value_name = "NAME", global = true)]
    pub model: Option<String>,
    /// Begin nothing while more pull requests than this are open [default: 4]
    #[arg(long, value_name = "N", global = true, value_parser = whole::<usize>)]
    pub max_prs: Option<usize>,
    /// The branch that the pull request is for [default: that of the repository]
    #[arg(long, value_name = "BRANCH", global = true)]
    pub base: Option<String>,
    /// Answer a review that asks for more by doing it again, so often in all, in place of fixing
    #[arg(long, value_name = "N", global = true, value_parser = whole::<usize>)]
    pub converge: Option<usize>,
    /// Let the work change files in `.github`, which run with rights of the repository
    #[arg(long, global = true)]
    pub allow_workflows: bool,
    /// Run the phases with your rights in place of a sandbox
    #[arg(long, global = true)]
    pub no_sandbox: bool,
    /// Say which issue it would be, and change nothing
    #[arg(long, global = true)]
    pub dry_run: bool,
    /// A folder that takes the place of GitHub: issues/N.json, pulls/N.json
    #[arg(long, value_name = "DIR", global = true)]
    pub hub: Option<PathBuf>,
}

/// A part of the work.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum WorkAction {
    /// Take an issue, and say what is to be done
    Plan,
    /// Do it, in commits
    Do,
    /// Push the commits
    Push,
    /// Review them
    Check,
    /// Mend what the review found
    Fix,
    /// Do at the hub what the review asks for
    Act,
    /// Say how far the work is
    Status(Json),
    /// Write the workflow that works every three hours in GitHub Actions, and make the labels
    Init,
    /// Begin to make a number smaller: a command that prints it, and what is wanted
    Start {
        /// The command; a smaller number is better
        bench: String,
        /// What is wanted, in words
        #[arg(required = true)]
        goal: Vec<String>,
    },
    /// Have one change made, and keep it only if the number got smaller
    Run,
    /// List what was tried
    Log(Json),
    /// Forget the benchmark; commits stay
    Reset,
}

impl WorkAction {
    /// The phase that it is, if it is one.
    pub fn phase(&self) -> Option<Phase> {
        Some(match self {
            Self::Plan => Phase::Plan,
            Self::Do => Phase::Do,
            Self::Push => Phase::Push,
            Self::Check => Phase::Check,
            Self::Fix => Phase::Fix,
            Self::Act => Phase::Act,
            Self::Status(_)
            | Self::Init
            | Self::Start { .. }
            | Self::Run
            | Self::Log(_)
            | Self::Reset => return None,
        })
    }
}
