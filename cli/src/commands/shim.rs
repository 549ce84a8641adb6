//! `ah shim`: puts this program in the place of the one that an installed Agent SDK brings, and takes it back. The
//! original stays beside it under another name, so that nothing is lost; a file that is not known is left alone.

mod found;
mod original;

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use ah_config::Error;
use ah_conversation::Environment;
use ah_terminal::note;
use found::{Place, of_node, of_python};

use crate::args::shim::Shimming;
use crate::commands::output::print;

/// Ending of the original's name while this program stands in its place.
const ASIDE: &str = "original";

/// State of a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The original is there.
    Original,
    /// A link is there and the original beside it.
    Replaced,
    /// A link is there in a package that we have made.
    Stub,
    /// The package has no program.
    Empty,
}

/// Puts `ah` in place, or takes it back.
pub fn run(environment: &Environment, options: &Shimming) -> Result<u8, Error> {
    let cwd = environment.cwd();
    let places = match (&options.python, &options.node) {
        (Some(folder), _) => of_python(&cwd.join(folder))?,
        (None, Some(folder)) => of_node(&cwd.join(folder))?,
        (None, None) => nearby(environment)?,
    };
    for place in places {
        let state = state(&place)?;
        if options.remove {
            remove(&place, state)?;
        } else {
            put(&place, state)?;
        }
    }
    Ok(0)
}

/// Returns the SDKs of the active environment and of the working directory.
fn nearby(environment: &Environment) -> Result<Vec<Place>, Error> {
    let cwd = environment.cwd();
    let active = environment.get("VIRTUAL_ENV").map(PathBuf::from);
    let pythons = active
        .into_iter()
        .chain([cwd.join(".venv"), cwd.join("venv")]);
    let mut places = Vec::new();
    for folder in pythons.filter(|folder| folder.is_dir()) {
        places.extend(of_python(&folder).unwrap_or_default());
    }
    if cwd.join("node_modules").is_dir() {
        places.extend(of_node(cwd).unwrap_or_default());
    }
    places.dedup_by(|a, b| a.program == b.program);
    if places.is_empty() {
        return Err(Error::failure(
            "there is no Agent SDK in this folder or an active environment",
        )
        .hint("name it: `--python VENV` or `--node DIR`"));
    }
    Ok(places)
}

fn state(place: &Place) -> Result<State, Error> {
    let aside = aside(&place.program);
    let metadata = match fs::symlink_metadata(&place.program) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // Also without the link: it may have been deleted by hand.
            let state = if aside.is_file() {
                State::Replaced
            } else {
                State::Empty
            };
            return Ok(state);
        }
        Err(error) => return Err(failed(&place.program, &error)),
    };
    if metadata.is_symlink() {
        return match (aside.is_file(), place.is_stub) {
            (true, _) => Ok(State::Replaced),
            (false, true) => Ok(State::Stub),
            (false, false) => Err(unknown(&place.program, "it is a link that ah did not make")),
        };
    }
    match original::is_original(place) {
        Ok(()) => Ok(State::Original),
        Err(why) => Err(unknown(&place.program, &why)),
    }
}

fn put(place: &Place, state: State) -> Result<(), Error> {
    let own = std::env::current_exe().and_then(fs::canonicalize);
    let own = own.map_err(|error| Error::failure(format!("cannot find this program: {error}")))?;
    let program = &place.program;
    let done = match state {
        // A package that was updated has an original of its own; the former one is of no use.
        State::Original => {
            fs::rename(program, aside(program)).and_then(|()| symlink(&own, program))
        }
        State::Replaced | State::Stub => {
            // `ah` may have moved.
            let removed = fs::remove_file(program);
            let is_gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
            match removed {
                Err(error) if !is_gone(&error) => Err(error),
                Ok(()) | Err(_) => symlink(&own, program),
            }
        }
        State::Empty => place.make_stub().and_then(|()| symlink(&own, program)),
    };
    if let Err(error) = done {
        // Half of it must not stay.
        if state == State::Original && !program.exists() {
            let _ = fs::rename(aside(program), program);
        }
        return Err(failed(program, &error));
    }
    print(&format!(
        "{} now starts {}\n",
        program.display(),
        own.display()
    ))?;
    note(
        "`ah shim --remove` with the same options puts the original back; do so before you update or uninstall the SDK",
    );
    Ok(())
}

fn remove(place: &Place, state: State) -> Result<(), Error> {
    let program = &place.program;
    let done = match state {
        State::Replaced => fs::rename(aside(program), program),
        State::Stub => place.remove_stub(),
        State::Original | State::Empty => {
            print(&format!("{} is as it was installed\n", program.display()))?;
            return Ok(());
        }
    };
    done.map_err(|error| failed(program, &error))?;
    print(&format!("{} is as it was installed\n", program.display()))?;
    Ok(())
}

fn aside(program: &Path) -> PathBuf {
    program.with_extension(ASIDE)
}

fn failed(program: &Path, error: &io::Error) -> Error {
    Error::failure(format!("cannot change `{}`: {error}", program.display()))
}

fn unknown(program: &Path, why: &str) -> Error {
    Error::failure(format!("`{}` is not changed: {why}", program.display()))
        .hint("name `ah` to the SDK instead: `cli_path` in Python, `pathToClaudeCodeExecutable` in TypeScript")
}
