//! `ah mcp serve`: serves another agent as an MCP server. Standard output belongs to the protocol.

use std::io::IsTerminal as _;

use ah_config::{Config, Error};
use ah_conversation::ExitReason;
use ah_mcp_server::serve_client;
use ah_terminal::exit;
use ah_terminal::signals::{Signals, leave};

use crate::args::options::Options;
use crate::commands::runtime::runtime;
use crate::commands::serve::client_request;

/// Serves the client that started this program; returns the exit code.
///
/// # Errors
///
/// If the settings are not valid, or the connection fails.
pub fn run(config: &Config, options: &Options) -> Result<u8, Error> {
    if std::io::stdin().is_terminal() {
        ah_terminal::note(
            "waiting for another agent, which starts this command itself; end with Ctrl-C",
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
        .map_err(|error| Error::failure(format!("cannot listen to signals: {error}")))?;
    let request = client_request(config, options, &signals)?;
    serve_client((tokio::io::stdin(), tokio::io::stdout()), request).await?;
    Ok(match signals.interrupt() {
        None => 0,
        interrupt => exit::code(config.interface, &ExitReason::Interrupted, interrupt),
    })
}
