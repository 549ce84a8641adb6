//! Whether a command line works in the repository of the working directory and in no other. Pure.
//!
//! Git's variables for the index of a commit in progress lead every git to that index, wherever it runs. A script may make
//! repositories of its own, so only what is known to stay gets them.

use ah_conversation::{CommandLine, Effect, SimpleCommand};

/// Subcommands of git that make or enter another repository.
const ELSEWHERE: [&str; 5] = ["clone", "init", "maintenance", "submodule", "worktree"];
/// Options of git that name another one.
const PLACES: [&str; 3] = ["-C", "--git-dir", "--work-tree"];

/// Whether each command of the line is one of git's here, or only reads.
pub(crate) fn stays_in_repository(line: &CommandLine) -> bool {
    let commands = line.commands.as_deref();
    commands.is_some_and(|commands| commands.iter().all(stays))
}

fn stays(command: &SimpleCommand) -> bool {
    let words: Option<Vec<&str>> = command.words.iter().map(Option::as_deref).collect();
    let Some(words) = words else {
        return false;
    };
    let names_place = |word: &&str| {
        let name = word.split('=').next().unwrap_or_default();
        PLACES.contains(&name)
    };
    match words.as_slice() {
        [] => false,
        ["git", rest @ ..] => {
            command.inner.is_empty()
                && command.text.starts_with("git")
                && !rest.iter().any(names_place)
                && !rest.iter().any(|word| ELSEWHERE.contains(word))
        }
        _ => command.effect == Effect::None && command.inner.iter().all(stays),
    }
}
