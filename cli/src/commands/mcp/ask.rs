//! Asks on the terminal about the hosts that servers of the project need.

use ah_config::extensions::{agents, open_agent_servers};
use ah_config::server_answers::ServerAnswers;
use ah_config::{Config, Error};
use ah_engine::confinement::{SandboxProbe, is_wanted};
use ah_terminal::servers::ask;

/// Asks about each server of the project, those of its subagents included, that has no answer yet and whose name
/// `concerns` accepts. Without a sandbox with a network there is nothing to ask.
pub fn ask_about_hosts(config: &Config, concerns: impl Fn(&str) -> bool) -> Result<(), Error> {
    let mut open = config.open_servers();
    // A definition that cannot be read brings no servers; the run says what is wrong with it.
    if let Ok((agents, _)) = agents(config) {
        open.extend(open_agent_servers(config, &agents));
    }
    open.retain(|asked| concerns(&asked.name));
    if open.is_empty() || !is_wanted(config) {
        return Ok(());
    }
    // The caller warns when it begins its own.
    let probe = SandboxProbe::begin(config, &mut Vec::new())?;
    if !probe.has_network() {
        return Ok(());
    }
    let (mut answers, _) = ServerAnswers::read(config.home.as_deref());
    ask(&open, &mut answers)
        .map_err(|error| Error::failure(format!("cannot ask on the terminal: {error}")))
}
