//! `ah mcp serve`: serves another agent as an MCP server. Standard output belongs to the protocol.

use std::io::IsTerminal as _;

use ah_config::{Config, Error};
use ah_conversation::{ExitReason, Interface};
use ah_mcp_server::{Served, serve};
use ah_terminal::signals::{Signals, leave};
use ah_terminal::{document, exit};

use crate::args::options::Options;
use crate::commands::runtime::runtime;
use crate::commands::serve::desk;

/// Serves the client that started this program; returns the exit code.
///
/// # Errors
///
/// If the settings are not valid, or the connection fails.
pub fn run(config: &Config, options: &Options) -> Result<u8, Error> {
    if std::io::stdin().is_terminal() {
        ah_terminal::note(
            "waiting for another agent, which starts this command itself; stop with Ctrl-C",
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
    let desk = desk(config, options, Interface::AgentSdk, signals.token())?;
    let client = Served {
        sessions: desk.clone(),
        environment: desk.config().environment.clone(),
        written: document::markdown,
    };
    let streams = (tokio::io::stdin(), tokio::io::stdout());
    let served = serve(client, streams, signals.token()).await;
    // Runs whose client is gone end, with all messages stored.
    desk.end().await;
    served.map_err(|text| Error::failure(format!("the connection failed: {text}")))?;
    Ok(match signals.interrupt() {
        None => 0,
        interrupt => exit::code(config.interface, &ExitReason::Interrupted, interrupt),
    })
}
