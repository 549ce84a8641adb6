//! `ah worktree`: the worktrees of this repository; `-w`: a run in one.

use ah_config::{Config, Error};
use ah_conversation::neutralise;
use ah_engine::sessions::worktrees::{Left, Used, Worktree, Worktrees};
use serde_json::{Value, json};

use super::output::{print, print_json};
use super::runtime::runtime;
use crate::args::json::Json;
use crate::args::subcommands::WorktreeAction;

/// Lists the worktrees, or removes one.
///
/// # Errors
///
/// If there is no repository, the worktree has changes, or git fails.
pub fn run(config: &Config, action: Option<&WorktreeAction>, form: Json) -> Result<u8, Error> {
    let trees = runtime()?.block_on(Worktrees::find(config))?;
    match action {
        Some(WorktreeAction::Remove { tree, force }) => remove(&trees, tree, *force),
        Some(WorktreeAction::List(form)) => list(&trees, *form),
        None => list(&trees, form),
    }
}

fn list(trees: &Worktrees, form: Json) -> Result<u8, Error> {
    let listed = runtime()?.block_on(trees.list())?;
    if form.json {
        let values = listed.iter().map(|(name, tree)| match tree {
            Ok(tree) => to_json(tree),
            Err(error) => json!({"name": name, "error": error.message}),
        });
        return print_json(&values.collect());
    }
    if listed.is_empty() {
        ah_terminal::note("no worktrees yet; `ah -w NAME` creates one");
    }
    let lines = listed.iter().map(|(name, tree)| {
        let state = match tree {
            Ok(tree) => {
                let branch = tree.branch.as_deref().unwrap_or("no branch");
                format!("{branch:<24} {}", tree.state())
            }
            Err(error) => error.in_one_line(),
        };
        let line = format!("{name:<16} {state}");
        format!("{}\n", neutralise(&line))
    });
    print(&lines.collect::<String>())
}

fn to_json(tree: &Worktree) -> Value {
    json!({
        "name": tree.name,
        "path": tree.path,
        "branch": tree.branch,
        "changed_files": tree.files,
        "commits": tree.commits,
    })
}

fn remove(trees: &Worktrees, name: &str, is_forced: bool) -> Result<u8, Error> {
    let tree = runtime()?.block_on(trees.remove(name, is_forced))?;
    match tree.branch.filter(|_| tree.commits > 0) {
        Some(branch) => print(&format!(
            "removed {name}; its commits are on the branch {}\n",
            neutralise(&branch)
        )),
        None => print(&format!("removed {name}\n")),
    }
}

/// Returns the worktree that a run shall be in, made if it is missing; without a name, it is a new one.
///
/// # Errors
///
/// If there is no repository, or git fails.
pub fn enter(name: &str, config: &Config) -> Result<Used, Error> {
    let name = Some(name).filter(|name| !name.is_empty());
    runtime()?.block_on(async { Worktrees::find(config).await?.enter(name).await })
}

/// Tells what becomes of a worktree at the end of a run: without changes it is removed.
pub fn leave(used: Used) {
    let path = used.path();
    // Git cannot remove the folder that it runs in, nor can anything run in one that is gone.
    let _ = path.ancestors().nth(3).map(std::env::set_current_dir);
    let left = runtime().and_then(|runtime| runtime.block_on(used.leave()));
    match left {
        Ok(Left::Removed) => ah_terminal::note("The worktree was not changed and is removed."),
        Ok(Left::Kept(tree)) => ah_terminal::note(&format!(
            "The worktree {name} is kept ({}): {}\n`ah -w {name}` continues in it; `ah worktree remove {name}` removes it.",
            tree.state(),
            tree.path.display(),
            name = tree.name,
        )),
        Ok(Left::InUse) => {}
        Err(error) => ah_terminal::report(&error),
    }
}
