//! `ah demo work`: from an issue to a pull request, in a temporary folder and without a network. The model is a script,
//! the issues and the pull request are files; git, the agents and their sandbox are real.

use std::fs;
use std::path::Path;

use ah_config::Error;
use ah_config::settings::work::{PhaseSettings, WorkSettings};
use ah_conversation::Environment;
use ah_git::{Git, Owner};
use ah_provider::script::demo::files;
use ah_terminal::exit::FAILURE;
use ah_work::agent::Agents;
use ah_work::folder::{FolderHub, StoredIssue};
use ah_work::issue::Issue;
use ah_work::phase::{Phase, WorkStatus};
use ah_work::run::{Work, WorkOptions as RunOptions, WorkResult};

use super::environment::all;
use super::events::show;
use super::failure::failure;
use super::models::Scripts;
use super::repository::program;
use crate::commands::demo::{invocation, shell_word};
use crate::commands::doctor::find;

/// The model's script for each phase.
const SCRIPTS: [(Phase, &str); 3] = [
    (Phase::Plan, include_str!("../../sys/demo/plan.yaml")),
    (Phase::Do, include_str!("../../sys/demo/do.yaml")),
    (Phase::Check, include_str!("../../sys/demo/check.yaml")),
];

/// Runs the demo; returns the exit code.
///
/// # Errors
///
/// If git is missing, or the folder cannot be created.
pub(in crate::commands) fn run(environment: &Environment) -> Result<u8, Error> {
    super::in_runtime(play(environment))
}

async fn play(environment: &Environment) -> Result<u8, Error> {
    let made = tempfile::Builder::new().prefix("ah-demo-").tempdir();
    let folder = made
        .map_err(|error| Error::failure(format!("cannot make a temporary folder: {error}")))?
        .keep();
    let git = find(environment, "git")
        .ok_or_else(|| Error::failure("git not found").hint("install it, or put it on PATH"))?;
    let mut variables = all(environment);
    let children = environment.for_children();
    let mut seen: Vec<_> = children
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    for role in ["AUTHOR", "COMMITTER"] {
        for (what, value) in [("NAME", "ah demo"), ("EMAIL", "demo@localhost")] {
            let pair = (format!("GIT_{role}_{what}"), value.to_owned());
            variables.push(pair.clone());
            seen.push(pair);
        }
    }
    let project = folder.join("project");
    let main = Git::new(git.clone(), &project, Owner::Agent, &variables);
    let hub = FolderHub::new(folder.join("hub"), "main".to_owned());
    lay_out(&folder, &main).await?;
    issues(&hub).map_err(|error| Error::failure(error.to_string()))?;
    let shown = folder.display();
    ah_terminal::note(&format!(
        "Three issues are open in {shown}. The model is scripted and GitHub is a folder; everything else is real.\n"
    ));
    let agents = Agents {
        program: program()?,
        variables: seen,
        arguments: vec!["--setting-sources=".to_owned()],
        grants: Vec::new(),
        is_confined: true,
    };
    let can_be_confined = agents
        .can_be_confined(&folder)
        .await
        .map_err(|error| Error::failure(error.to_string()))?;
    if !can_be_confined {
        ah_terminal::warn(
            "the sandbox is unavailable, so the script runs without it; `ah sandbox check` says why",
        );
    }
    let work = Work {
        top: project,
        agent_repos: folder.join("trees"),
        repository: "demo/greet".to_owned(),
        git,
        main,
        hub: Box::new(hub),
        models: Box::new(Scripts),
        agents: Agents {
            is_confined: can_be_confined,
            ..agents
        },
        settings: settings(&folder),
        options: RunOptions::default(),
        on_event: Box::new(show(false)),
    };
    let ended = work.run().await.map_err(|error| failure(&error))?;
    let ah = invocation(environment);
    let place = shell_word(&work.top);
    ah_terminal::note(&format!(
        "\nEverything is kept. To explore it:\n  cd {place}\n  {ah} work status                      the result of each phase\n  \
         cat o/work/plan/plan.md               what was planned; do/do.md, check/check.md likewise\n  \
         git show origin/work/7                what was done\n  \
         cat ../hub/pulls/1.json               the pull request\n  \
         cat ../hub/issues/7.json              the issue, with its labels and comments\n  \
         {ah} --db o/work/do/session.db scan   what the agent said and did"
    ));
    Ok(match ended {
        WorkResult::Over(WorkStatus::Success) => 0,
        _ => FAILURE,
    })
}

/// Creates a repository with a bug, and the remote that it was cloned from.
async fn lay_out(folder: &Path, main: &Git) -> Result<(), Error> {
    let failed =
        |what: &dyn std::fmt::Display| Error::failure(format!("cannot set up the demo: {what}"));
    let project = folder.join("project");
    fs::create_dir(&project).map_err(|error| failed(&error))?;
    for (name, content) in files() {
        fs::write(project.join(name), content).map_err(|error| failed(&error))?;
    }
    for (phase, script) in SCRIPTS {
        let path = folder.join(format!("{phase}.yaml"));
        fs::write(path, script).map_err(|error| failed(&error))?;
    }
    for words in [
        &["init", "--quiet", "--initial-branch=main"] as &[&str],
        &["add", "--all"],
        &[
            "commit",
            "--quiet",
            "--message",
            "greet: greets whoever is named",
        ],
        &["clone", "--quiet", "--bare", ".", "../remote.git"],
        &["remote", "add", "origin", "../remote.git"],
        &["fetch", "--quiet", "origin"],
    ] {
        main.run(words).await.map_err(|error| failed(&error))?;
    }
    Ok(())
}

fn issues(hub: &FolderHub) -> Result<(), ah_work::hub::HubError> {
    for (number, title, body, labels) in [
        (
            5,
            "Greet in other languages too",
            "Some day.",
            &["todo", "p2"] as &[_],
        ),
        (
            7,
            "Names of two words are greeted as two people",
            "`sh greet.sh \"Grace Hopper\"` says hello twice.",
            &["todo", "p1"],
        ),
        (8, "A question", "What is this for?", &[]),
    ] {
        hub.store(&StoredIssue {
            issue: Issue {
                number,
                title: title.to_owned(),
                body: body.to_owned(),
                labels: labels.iter().map(|label| (*label).to_owned()).collect(),
                ..Issue::default()
            },
            ..StoredIssue::default()
        })?;
    }
    Ok(())
}

fn settings(folder: &Path) -> WorkSettings {
    let model = |phase: Phase| format!("script:{}", folder.join(format!("{phase}.yaml")).display());
    let phases = SCRIPTS.iter().map(|(phase, _)| {
        let settings = PhaseSettings {
            model: Some(model(*phase)),
            ..PhaseSettings::default()
        };
        (*phase, settings)
    });
    WorkSettings {
        phases: phases.collect(),
        ..WorkSettings::default()
    }
}
