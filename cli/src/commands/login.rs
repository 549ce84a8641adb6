//! `ah login` and `ah logout`: keys and servers that are kept for later runs; also what `ah` without a key offers.

use std::io::IsTerminal as _;
use std::time::Duration;

use ah_config::{Config, Error};
use ah_conversation::ErrorClass;
use ah_engine::model::tried_call::{TriedCall, try_call};
use ah_provider::presets::{self, Kind, List, Preset};
use ah_terminal::login::{self, Asking, Chosen, LocalServer};
use futures_util::future::join_all;
use jiff::Zoned;
use tokio::time::timeout;

use crate::args::options::OutputOptions;
use crate::commands::runtime::runtime;

/// Longest time that servers on this machine are looked for.
const PATIENCE: Duration = Duration::from_millis(1_500);
/// Longest time that a model on this machine is tried; it may have to be loaded.
const PATIENCE_OF_A_TRY: Duration = Duration::from_secs(120);

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
        Some(preset) => drop(login::to(config, preset, &TRYING)?),
        None => loop {
            match ask(config, None, &TRYING)? {
                Chosen::Demo => drop(super::demo::run(output)?),
                Chosen::Back => {}
                Chosen::Kept | Chosen::Nothing => break,
            }
        },
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
    let missing = ah_engine::model::credentials(config).err();
    missing.is_some_and(|error| error.message.contains("no API key"))
}

/// Asks for a key or a server before a conversation begins; returns whether one was kept.
///
/// # Errors
///
/// If the answer cannot be kept.
pub fn offer(config: &Config, output: &OutputOptions) -> Result<bool, Error> {
    let server = ah_engine::model::server(config).ok().flatten();
    let wanted = server.and_then(|name| login::named(&name).ok());
    let wanted = wanted.filter(|preset| preset.name != "anthropic");
    loop {
        match ask(config, wanted, &AT_ONCE)? {
            Chosen::Kept => return Ok(true),
            Chosen::Nothing => return Ok(false),
            Chosen::Demo => drop(super::demo::run(output)?),
            Chosen::Back => {}
        }
    }
}

/// A login, at the end of which the model is tried.
const TRYING: Asking<'static> = Asking {
    list: &list,
    try_model: &try_model,
    is_refusal: &is_key_wanted,
};
/// The way to a conversation, which begins at once: only what no list of models has told is tried.
const AT_ONCE: Asking<'static> = Asking {
    list: &list,
    try_model: &|config, name| match is_unlisted(name) {
        true => try_model(config, name),
        false => None,
    },
    is_refusal: &is_key_wanted,
};

fn ask(
    config: &Config,
    wanted: Option<&'static Preset>,
    asking: &Asking<'_>,
) -> Result<Chosen, Error> {
    login::offer(config, wanted, &running(config)?, asking)
}

/// Returns the servers on this machine that answer. All are asked at once, since a port may accept connections and stay silent.
/// One whose address is set is looked for there alone.
fn running(config: &Config) -> Result<Vec<LocalServer>, Error> {
    let local = presets::servers().filter(|preset| preset.kind == Kind::Local);
    let places = local.flat_map(|preset| {
        let is_set = config.environment.get(&preset.address_variable).is_some();
        let others = preset.also.iter().map(|address| Some(address.as_str()));
        std::iter::once(None)
            .chain(others.filter(move |_| !is_set))
            .map(move |address| (preset, address))
    });
    let looks = places.map(|(preset, address)| async move {
        let mut reached = config.clone();
        reached.retry.retries = 0;
        if let Some(address) = address {
            { &mut reached.environment }.set_default(&preset.address_variable, address);
        }
        let listing = ah_engine::model::list(&reached, &preset.name);
        let models = match timeout(PATIENCE, listing).await.ok()? {
            Ok(listing) => Some(listing.models.len()),
            Err(error) if is_key_wanted(&error) => None,
            Err(_) => return None,
        };
        Some(LocalServer {
            preset,
            address,
            models,
        })
    });
    let runtime = runtime()?;
    let found = runtime.block_on(join_all(looks));
    runtime.shutdown_background();
    Ok(found.into_iter().flatten().collect())
}

/// Whether a server wants a key, or another one.
fn is_key_wanted(error: &Error) -> bool {
    ah_engine::model::class(error) == Some(ErrorClass::Authentication)
}

/// Whether the server of a model has no list, so that a key is tried by nothing but a request to the model.
fn is_unlisted(name: &str) -> bool {
    let server = name
        .split_once('/')
        .and_then(|(server, _)| Preset::named(server));
    server.is_some_and(|server| server.list == Some(List::None))
}

/// Tries whether a model calls tools: one of a server on this machine, whose template may have none, or of a server that has
/// told nothing yet.
fn try_model(config: &Config, name: &str) -> Option<String> {
    let (server, _) = name.split_once('/')?;
    if Preset::named(server)?.kind != Kind::Local && !is_unlisted(name) {
        return None;
    }
    ah_terminal::note(&format!("asking {name} to call a tool ..."));
    let runtime = runtime().ok()?;
    let mut config = config.clone();
    config.retry.retries = 0;
    // The clock of the timeout is that of the runtime.
    let tried =
        runtime.block_on(async { timeout(PATIENCE_OF_A_TRY, try_call(&config, name)).await });
    runtime.shutdown_background();
    let help = "see `A model on your own machine` in docs/providers.md";
    Some(match tried {
        Err(_) => {
            let seconds = PATIENCE_OF_A_TRY.as_secs();
            format!("no answer within {seconds} s; the first one may take that long")
        }
        Ok(Err(error)) => format!("it failed: {}; {help}", error.message),
        Ok(Ok(TriedCall::Called)) => "it called the tool; everything is ready".to_owned(),
        Ok(Ok(TriedCall::Said(words))) if words.is_empty() => {
            format!("it sent an empty answer instead of a call; {help}")
        }
        Ok(Ok(TriedCall::Said(words))) => {
            let words = words.replace('\n', " ");
            format!("it did not call a tool, but said: {words}\n{help}")
        }
    })
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
    let listing = runtime.block_on(ah_engine::model::list(&config, server));
    runtime.shutdown_background();
    listing
}
