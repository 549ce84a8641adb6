//! `ah import`: takes up sessions of other programs.

use std::path::PathBuf;

use ah_config::{Config, Error};
use ah_porting::import::{Found, Program, found, read, session_files};
use ah_porting::imported::{Outcome, store};
use ah_terminal::exit::FAILURE;
use ah_terminal::line::preview;
use ah_terminal::{note, warn};
use serde_json::{Value, json};

use super::place::block_on;
use crate::args::subcommands::Importing;
use crate::commands::output::{print, print_json};

/// Imports the named sessions, or all of this folder; without either, says what there is.
pub fn run(config: &Config, options: &Importing) -> Result<u8, Error> {
    if options.places.is_empty() && !options.all {
        return list(config, options.json.json);
    }
    let cwd = config.environment.cwd();
    let mut files = Vec::new();
    for place in &options.places {
        let of_place = session_files(&cwd.join(place));
        if of_place.is_empty() {
            let place = place.display();
            return Err(Error::failure(format!("there is no session in `{place}`")));
        }
        files.extend(of_place);
    }
    if options.all {
        files.extend(found(config).into_iter().map(|found| found.path));
    }
    if files.is_empty() {
        note("found no session of another program for this folder");
    }
    let mut code = 0;
    let mut rows = Vec::new();
    for file in &files {
        match one(config, file, options.json.json) {
            Ok(row) => rows.push(row),
            // The others may be whole.
            Err(error) if files.len() > 1 => {
                warn(&error.message);
                code = FAILURE;
            }
            Err(error) => return Err(error),
        }
    }
    if options.json.json {
        print_json(&rows.into())?;
    }
    Ok(code)
}

/// Imports a session, and prints or returns what became of it.
fn one(config: &Config, file: &PathBuf, is_json: bool) -> Result<Value, Error> {
    let imported = read(file)?;
    let outcome = block_on(store(config, &imported))?;
    let (state, id) = match &outcome {
        Outcome::New(id) => ("imported", Some(id)),
        Outcome::Known(id) => ("known", Some(id)),
        Outcome::Empty => ("empty", None),
    };
    if !is_json {
        let losses = imported.losses();
        let losses = losses.iter().filter(|_| matches!(outcome, Outcome::New(_)));
        let losses: String = losses
            .map(|loss| format!("  left out: {}\n", preview(loss, 160)))
            .collect();
        let (program, count) = (imported.program, imported.messages.len());
        let line = match (&outcome, id) {
            (Outcome::New(_), Some(id)) => {
                format!("imported {id}  {program}, {count} messages\n{losses}")
            }
            (_, Some(id)) => format!("{id} was already imported\n"),
            (_, None) => format!("{}: it has no messages\n", file.display()),
        };
        print(&line)?;
    }
    Ok(json!({
        "file": file,
        "program": imported.program.to_string(),
        "state": state,
        "id": id,
        "uuid": imported.uuid,
        "messages": imported.messages.len(),
        "left_out": imported.left,
    }))
}

/// Lists the sessions of this folder that could be imported.
fn list(config: &Config, is_json: bool) -> Result<u8, Error> {
    let found = found(config);
    if is_json {
        let rows = found
            .iter()
            .map(|Found { program, path }| json!({"program": program.to_string(), "file": path}));
        return print_json(&rows.collect());
    }
    if found.is_empty() {
        note(
            "found no session of another program for this folder; `ah import FILE` imports one from elsewhere",
        );
        return Ok(0);
    }
    let mut text = String::new();
    for program in Program::ALL {
        let of_program = found.iter().filter(|found| found.program == program);
        let files: Vec<_> = of_program.map(|found| found.path.display()).collect();
        if !files.is_empty() {
            text.push_str(&format!("{program}: {}\n", files.len()));
            text.extend(files.iter().map(|file| format!("  {file}\n")));
        }
    }
    note("`ah import --all` imports these, `ah import FILE` one of them");
    print(&text)
}
