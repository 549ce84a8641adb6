//! `ah login` and `ah logout`: keys and servers that are kept for later runs; also what `ah` without a key offers.

use std::io::IsTerminal as _;

use ah_config::{Config, Error};
use ah_terminal::login::{self, Chosen, LocalServer};
use jiff::Zoned;

use crate::args::options::OutputOptions;
use crate::commands::runtime::runtime;

/// A server that people run on their own machine: name, server, and variable and value of the address.
type Local = (
    &'static str,
    &'static str,
    Option<(&'static str, &'static str)>,
);

const LOCAL: [Local; 3] = [
    ("Ollama", "ollama", None),
    (
        "LM Studio",
        "openai",
        Some(("OPENAI_BASE_URL", "http://127.0.0.1:1234")),
    ),
    (
        "llama.cpp",
        "openai",
        Some(("OPENAI_BASE_URL", "http://127.0.0.1:8080")),
    ),
];

/// Asks for a key or a server and keeps it; a pipe has the key itself.
///
/// # Errors
///
/// If the answer cannot be kept.
pub fn run(config: &Config, output: &OutputOptions) -> Result<u8, Error> {
    if !std::io::stdin().is_terminal() {
        login::keep_piped(config)?;
        return Ok(0);
    }
    while ask(config)? == Chosen::Demo {
        super::demo::run(output)?;
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
    loop {
        match ask(config)? {
            Chosen::Kept => return Ok(true),
            Chosen::Nothing => return Ok(false),
            Chosen::Demo => drop(super::demo::run(output)?),
        }
    }
}

fn ask(config: &Config) -> Result<Chosen, Error> {
    let list = |config: &Config, server: &str| list(config, server);
    login::offer(config, &running(config), &list)
}

/// Returns the servers on this machine that answer.
fn running(config: &Config) -> Vec<LocalServer> {
    let found = LOCAL.iter().filter_map(|(name, server, address)| {
        let mut reached = config.clone();
        if let Some((variable, address)) = address {
            if reached.environment.get(variable).is_some() {
                return None;
            }
            reached.environment.set_default(variable, address);
            reached.environment.set_default("OPENAI_API_KEY", "none");
        }
        let models = ask_server(&reached, server).ok()?.models.len();
        Some(LocalServer {
            name,
            server,
            address: *address,
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
