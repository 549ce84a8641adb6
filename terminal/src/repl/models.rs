//! The list of models to choose from: what the servers say they have, and the catalogue; what can be used comes first.

use ah_config::{Config, Error};
use ah_conversation::Price;
use ah_provider::catalog::ModelEntry;
use ah_provider::presets::Preset;

use super::picker::Entry;
use crate::print::count;

/// Returns the models: those with a short name, then what the servers `listed`, then the rest of the catalogue; of a server
/// that has said what it has, only that. Models whose server has no key come last. `present` is the name of the session's model.
///
/// # Errors
///
/// If the catalogue cannot be read.
pub fn entries(
    config: &Config,
    listed: &[(String, Vec<String>)],
    present: &str,
) -> Result<Vec<Entry>, Error> {
    let catalog = config.catalog()?;
    let usable = ah_engine::model::servers(config)?;
    let present = catalog.resolve(present);
    let mut rows: Vec<(bool, Entry)> = Vec::new();
    let mut add =
        |name: &str, value: &str, server: &str, entry: Option<&ModelEntry>, about: &str| {
            let is_usable = usable.iter().any(|known| known == server);
            let is_present = catalog.resolve(value) == present;
            // What decides comes first: the end of a row is cut off on a narrow terminal.
            let mut facts: Vec<String> = Vec::new();
            facts.extend(is_present.then(|| "in use".to_owned()));
            facts.extend((!is_usable).then(|| "no key: /login".to_owned()));
            facts.extend(entry.and_then(|entry| entry.price.as_ref()).map(price));
            facts.extend(entry.map(|entry| format!("{} tokens", count(entry.context_window))));
            facts.extend((!about.is_empty()).then(|| about.to_owned()));
            let label = format!("{name:<34} {}", facts.join(" · "));
            let label = label.trim_end().to_owned();
            let value = value.to_owned();
            rows.push((is_usable || is_present, Entry { label, value }));
        };
    for (alias, model) in catalog.aliases() {
        let server = server_of(model);
        let name = model.rsplit('/').next().unwrap_or(model);
        add(
            alias,
            alias,
            server,
            Some(&catalog.entry(server, name)),
            model,
        );
    }
    for (server, names) in listed {
        for name in names {
            let value = format!("{server}/{name}");
            add(
                &value,
                &value,
                server,
                Some(&catalog.entry(server, name)),
                "",
            );
        }
    }
    for (name, entry) in catalog.models() {
        let server = server_of(name);
        if !listed.iter().any(|(known, _)| known == server) {
            add(name, name, server, Some(entry), "");
        }
    }
    // In order otherwise.
    rows.sort_by_key(|(is_usable, _)| !is_usable);
    Ok(rows.into_iter().map(|(_, entry)| entry).collect())
}

/// Returns the server of a model: that before the slash, else its vendor's.
fn server_of(name: &str) -> &str {
    match name.split_once('/') {
        Some((server, _)) => server,
        None => Preset::of_family(name).map_or("", |preset| &preset.name),
    }
}

/// `$3 in / $15 out`, per million tokens.
fn price(price: &Price) -> String {
    let dollars = |micro: u64| {
        let cents = micro / 10_000;
        let text = format!("{}.{:02}", cents / 100, cents % 100);
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    format!(
        "${} in / ${} out",
        dollars(price.input),
        dollars(price.output)
    )
}
