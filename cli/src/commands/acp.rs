//! `ah acp`: serves a code editor by the Agent Client Protocol. Standard output belongs to the protocol.

use std::io::IsTerminal as _;
use std::sync::Arc;

use ah_acp::{Served, serve, stdio};
use ah_config::{Config, Error};
use ah_conversation::{ExitReason, Interface};
use ah_terminal::exit;
use ah_terminal::signals::{Signals, leave};

use super::runtime::runtime;
use super::serve::desk;
use crate::args::options::Options;

/// Serves the editor that started this program, or logs in for it; returns the exit code.
///
/// # Errors
///
/// If the connection fails, or the login cannot be kept.
pub fn run(config: &Config, options: &Options, login: bool) -> Result<u8, Error> {
    if login {
        return super::login::run(config, None, &options.output);
    }
    if std::io::stdin().is_terminal() {
        ah_terminal::note(
            "waiting for a code editor, which starts this command itself; stop with Ctrl-C",
        );
    }
    let runtime = runtime()?;
    let code = runtime.block_on(served(config, options));
    // Processes started by tools may still be ending.
    ah_process::finish_all();
    runtime.shutdown_background();
    code
}

async fn served(config: &Config, options: &Options) -> Result<u8, Error> {
    let signals = Signals::listen(leave)
        .map_err(|error| Error::failure(format!("cannot listen for signals: {error}")))?;
    let desk = desk(config, options, Interface::Native, signals.token())?;
    let warn = Arc::new(ah_terminal::warn);
    if let Served::Failed(text) = serve(stdio(), desk, warn, signals.token()).await {
        return Err(Error::failure(format!("the connection failed: {text}")));
    }
    Ok(match signals.interrupt() {
        None => 0,
        interrupt => exit::code(config.interface, &ExitReason::Interrupted, interrupt),
    })
}
