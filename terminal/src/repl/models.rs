//! The list of models to choose from: what the servers say they have, and the catalogue.

use ah_config::{Config, Error};
use ah_provider::presets::Preset;

use super::picker::Entry;
use crate::print::count;

/// Returns the models: those with a short name, then what the servers `listed`, then the rest of the catalogue; of a server
/// that has said what it has, only that.
///
/// # Errors
///
/// If the catalogue cannot be read.
pub fn entries(config: &Config, listed: &[(String, Vec<String>)]) -> Result<Vec<Entry>, Error> {
    let catalog = config.catalog()?;
    let entry = |name: &str, value: String, about: &str| Entry {
        label: format!("{name:<34} {about}").trim_end().to_owned(),
        value,
    };
    let short = { catalog.aliases() }.map(|(alias, model)| entry(alias, alias.to_owned(), model));
    let mut entries: Vec<_> = short.collect();
    for (server, names) in listed {
        entries.extend(names.iter().map(|name| {
            let limits = catalog.entry(server, name);
            let value = format!("{server}/{name}");
            entry(&value.clone(), value, &window(limits.context_window))
        }));
    }
    let others = catalog.models().filter(|(name, _)| {
        let server = name
            .split_once('/')
            .map_or_else(|| vendor(name), |(server, _)| server);
        !is_listed(listed, server)
    });
    entries.extend(
        others.map(|(name, limits)| entry(name, name.to_owned(), &window(limits.context_window))),
    );
    Ok(entries)
}

fn is_listed(listed: &[(String, Vec<String>)], server: &str) -> bool {
    listed.iter().any(|(known, _)| known == server)
}

/// Returns the server of a model that the catalogue has without one.
fn vendor(name: &str) -> &'static str {
    Preset::of_family(name).map_or("", |preset| &preset.name)
}

fn window(tokens: u64) -> String {
    format!("{} tokens", count(tokens))
}
