//! `ah man`: the manual pages, for packagers.

use std::fs;
use std::path::Path;

use clap_mangen::{Man, generate_to};

use crate::args;
use crate::commands::output::print_exact;
use ah_config::Error;
use ah_terminal::exit::output_error;

/// Prints the manual page, or writes it and one for each subcommand into `folder`.
pub fn run(folder: Option<&Path>) -> Result<u8, Error> {
    // Pages do not depend on the width of the current terminal.
    let command = args::command().version(env!("CARGO_PKG_VERSION"));
    let Some(folder) = folder else {
        let mut page = Vec::new();
        Man::new(command)
            .render(&mut page)
            .map_err(|error| output_error(&error))?;
        return print_exact(&String::from_utf8_lossy(&page));
    };
    let written = fs::create_dir_all(folder).and_then(|()| generate_to(command, folder));
    written.map_err(|error| {
        Error::failure(format!("cannot write into `{}`: {error}", folder.display()))
    })?;
    Ok(0)
}
