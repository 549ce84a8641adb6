//! The command line of `ah work`.

use std::path::PathBuf;

use ah_work::phase::Phase;
use clap::{Args, Subcommand};

use super::json::Json;
use super::options::whole;

/// Options of `ah work`.
#[derive(Debug, Clone, Default, PartialEq, Args)]
pub struct WorkOptions {
    /// The repository [default: that of the remote `origin`]
    #[arg(short = 'r', long, value_name = "OWNER/NAME", global = true)]
    pub repo: Option<String>,
    /// Work on this issue, whatever its labels
    #[arg(short = 'i', long, value_name = "N", global = true, conflicts_with = "prompt", value_parser = whole::<u64>)]
    pub issue: Option<u64>,
    /// Open an issue from `work/prompts/NAME.md` in `.ah` or `~/.ah`, and work on it
    #[arg(short = 'p', long, value_name = "NAME", global = true)]
    pub prompt: Option<String>,
    /// Model for all phases
    #[arg(short = 'm', long, value_name = "NAME", global = true)]
    pub model: Option<String>,
    /// Start nothing while more pull requests than this are open [default: 4]
    #[arg(long, value_name = "N", global = true, value_parser = whole::<usize>)]
    pub max_prs: Option<usize>,
    /// Target branch of the pull request [default: the repository's default branch]
    #[arg(long, value_name = "BRANCH", global = true)]
    pub base: Option<String>,
    /// Redo the work up to N times when a review rejects it, instead of fixing
    #[arg(long, value_name = "N", global = true, value_parser = whole::<usize>)]
    pub converge: Option<usize>,
    /// Allow changes to files in `.github`, which run with the repository's permissions
    #[arg(long, global = true)]
    pub allow_workflows: bool,
    /// Run the phases with your full permissions, without a sandbox
    #[arg(long, global = true)]
    pub no_sandbox: bool,
    /// Only print the issue that would be worked on
    #[arg(long, global = true)]
    pub dry_run: bool,
    /// Use a folder instead of a hub: issues/N.json, pulls/N.json
    #[arg(long, value_name = "DIR", global = true)]
    pub hub: Option<PathBuf>,
}

/// Phases and other actions of `ah work`.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum WorkAction {
    /// Select an issue and write a plan
    Plan,
    /// Implement the plan in commits
    Do,
    /// Push the commits
    Push,
    /// Merge the base, if the commits conflict with it
    Merge,
    /// Review the commits
    Check,
    /// Fix the problems found by the review
    Fix,
    /// Carry out the review's verdict on the hub
    Act,
    /// Show the progress
    Status(Json),
    /// Write a GitHub Actions workflow that runs every three hours, and create the labels
    Init,
    /// Optimise a metric: a command that prints a number (lower is better), and a goal
    Start {
        /// The command; a smaller number is better
        bench: String,
        /// The goal, in words
        #[arg(required = true)]
        goal: Vec<String>,
    },
    /// Make one change, and keep it only if the number decreases
    Run,
    /// List the attempts
    Log(Json),
    /// Forget the benchmark; commits are kept
    Reset,
}

impl WorkAction {
    /// Returns the phase, if the action is one.
    pub fn phase(&self) -> Option<Phase> {
        Some(match self {
            Self::Plan => Phase::Plan,
            Self::Do => Phase::Do,
            Self::Push => Phase::Push,
            Self::Merge => Phase::Merge,
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
