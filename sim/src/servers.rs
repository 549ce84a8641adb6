//! The table of servers, by number.

use ah_provider::presets::{self, Preset};

/// Returns the number of servers that there are.
pub fn count() -> usize {
    presets::servers().count()
}

/// Returns the name of the server with this number.
pub(crate) fn name(number: usize) -> &'static str {
    &preset(number).name
}

/// Returns the server with this number.
pub(crate) fn preset(number: usize) -> &'static Preset {
    { presets::servers() }
        .nth(number)
        .expect("the number is one of a server")
}
