//! `ah config`: the settings in force.

use serde_json::json;

use crate::args::json::Json;
use crate::args::subcommands::ConfigAction;
use crate::commands::output::{print, print_json};
use ah_config::Config;
use ah_config::Error;
use ah_terminal::print::table::{Align, table};

/// Runs a subcommand of `ah config`.
pub fn run(config: &Config, action: &ConfigAction) -> Result<u8, Error> {
    match action {
        ConfigAction::Show { origin, json } => show(config, *origin, *json),
    }
}

fn show(config: &Config, with_origin: bool, form: Json) -> Result<u8, Error> {
    let redact = |text: &str| config.environment.redact(text).into_owned();
    let entries = config.entries();
    if form.json {
        let entry = |(key, value, origin): &(&str, serde_json::Value, &_)| json!({"key": key, "value": value, "origin": format!("{origin}")});
        return print_json(&entries.iter().map(entry).collect());
    }
    let rows: Vec<_> = entries
        .iter()
        .map(|(key, value, origin)| {
            let origin = if with_origin {
                format!("{origin}")
            } else {
                String::new()
            };
            let value = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            [(*key).to_owned(), redact(&value), origin]
        })
        .collect();
    print(&table([Align::Left; 3], &rows))
}
