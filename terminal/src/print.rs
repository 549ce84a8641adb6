//! What people and programs see of a run. Each frontend shows the same events in its own form; nothing else in the
//! program writes to standard output while a run is on.

mod divert;
mod drawn;
pub mod events;
mod number;
pub mod question;
mod screen;
pub mod table;
pub mod text;
mod tool_block;

use std::borrow::Cow;
use std::io::{IsTerminal as _, stdout};

use ah_config::{Config, Keeping};
use ah_conversation::Interface;

pub use ah_conversation::neutralise;
pub use divert::{divert, tell};
pub use drawn::{REST, REST_END, Size};
pub use number::{count, elapsed};
pub use screen::{Look, Outlet, Screen};
pub use tool_block::cut;

/// A text that a command prints: as it is, unless a terminal would obey it.
pub fn shown(text: &str) -> Cow<'_, str> {
    match stdout().is_terminal() {
        true => neutralise(text),
        false => Cow::Borrowed(text),
    }
}

/// Returns where a permission given for good is kept, if a person sits at the terminal who can be asked.
pub fn asks(config: &Config) -> Option<Keeping> {
    let is_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    if config.interface != Interface::Native || !is_terminal {
        return None;
    }
    Keeping::of(config)
}
