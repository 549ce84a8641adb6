//! `ah acp` in a build without the protocol.

use ah_config::{Config, Error};

use crate::args::options::Options;

/// Logs in for an editor; returns the exit code.
///
/// # Errors
///
/// If an editor is to be served, or the login cannot be kept.
pub fn run(config: &Config, options: &Options, login: bool) -> Result<u8, Error> {
    if login {
        return super::login::run(config, None, &options.output);
    }
    Err(Error::failure("this build cannot serve code editors")
        .hint("build it with the feature `acp`"))
}
