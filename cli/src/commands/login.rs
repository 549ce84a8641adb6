//! `ah login` and `ah logout`: keys and servers that are kept for later runs; also what `ah` without a key offers.

use std::io::IsTerminal as _;

use ah_config::{Config, Error};
use ah_provider::presets::{self, Kind, Preset};
use ah_terminal::login::{self, Chosen, LocalServer};
use jiff::Zoned;

use crate::args::options::OutputOptions;
use crate::commands::runtime::runtime;

/// Asks for a key or a server and keeps it; a pipe has the key itself. `server` is the name of the one that is meant.
///
/// # Errors
///
/// If there is no such server, or the answer cannot be kept.
pub fn run(config: &Config, server: Option<&str>, output: &OutputOptions) -> Result<u8, Error> {
    let preset = server.map(login::named).transpose()?;
    if !std::io::stdin().is_terminal() {
        login::keep_piped(config, preset)?;
        return Ok(0);
    }
    match preset {
        Some(preset) if preset.name != "anthropic" => {
            login::to(config, preset, &list)?;
        }
        _ => {
            while ask(config, None)? == Chosen::Demo {
                super::demo::run(output)?;
            }
        }
    }
    Ok(0)
}

/// Forgets what a login has kept.
///
/// # Errors
///
/// If the file cannot be removed.
pub fn forget(config: &Config) -> Result<u8, Error> {
    match config.log_out()? {
        Some(path) => ah_terminal::note(&format!("removed `{}`", path.display())),
        None => ah_terminal::note("there are no saved keys"),
    }
    Ok(0)
}

/// Returns whether the configured model has no key.
pub fn is_needed(config: &Config) -> bool {
    let missing = ah::model::credentials(config).err();
    missing.is_some_and(|error| error.message.contains("no API key"))
}

/// Asks for a key or a server before a conversation begins; returns whether one was kept.
///
/// # Errors
///
/// If the answer cannot be kept.
pub fn offer(config: &Config, output: &OutputOptions) -> Result<bool, Error> {
    let server = ah::model::server(config).ok().flatten();
    let wanted = server.and_then(|name| login::named(&name).ok());
    let wanted = wanted.filter(|preset| preset.name != "anthropic");
    loop {
        match ask(config, wanted)? {
            Chosen::Kept => return Ok(true),
            Chosen::Nothing => return Ok(false),
            Chosen::Demo => drop(super::demo::run(output)?),
        }
    }
}

fn ask(config: &Config, wanted: Option<&'static Preset>) -> Result<Chosen, Error> {
    login::offer(config, wanted, &running(config), &list)
}

/// Returns the servers on this machine that answer. One whose address is set is looked for there alone.
fn running(config: &Config) -> Vec<LocalServer> {
    let local = presets::servers().filter(|preset| preset.kind == Kind::Local);
    let places = local.flat_map(|preset| {
        let is_set = config.environment.get(&preset.address_variable).is_some();
        let others = preset.also.iter().map(|address| Some(address.as_str()));
        std::iter::once(None)
            .chain(others.filter(move |_| !is_set))
            .map(move |address| (preset, address))
    });
    let found = places.filter_map(|(preset, address)| {
        let mut reached = config.clone();
        if let Some(address) = address {
            reached
                .environment
                .set_default(&preset.address_variable, address);
        }
        let models = ask_server(&reached, &preset.name).ok()?.models.len();
        Some(LocalServer {
            preset,
            address,
            models,
        })
    });
    found.collect()
}

/// Lists the names of a server's models, and keeps the list.
fn list(config: &Config, server: &str) -> Result<Vec<String>, Error> {
    let listing = ask_server(config, server)?;
    let date = Zoned::now().strftime("%Y-%m-%d").to_string();
    let text = format!("{:#}\n", listing.to_catalogue(&date));
    config.keep_list(server, &text)?;
    Ok(listing.models.keys().cloned().collect())
}

fn ask_server(config: &Config, server: &str) -> Result<ah_provider::listing::Listing, Error> {
    let runtime = runtime()?;
    let mut config = config.clone();
    config.retry.retries = 0;
    let listing = runtime.block_on(ah::model::list(&config, server));
    runtime.shutdown_background();
    listing
}
