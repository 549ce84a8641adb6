//! `ah models`: the catalogue of models and its sources; asks the servers for their lists.

use ah_conversation::Price;
use ah_provider::catalog::ModelEntry;
use jiff::Zoned;
use serde_json::{Value, json};
use tokio::runtime::Builder;

use crate::args::json::Json;
use crate::args::subcommands::ModelsOptions;
use crate::commands::output::{print, print_json};
use ah_config::Config;
use ah_config::Error;
use ah_terminal::exit::FAILURE;
use ah_terminal::print::count;
use ah_terminal::print::table::{Align, table};

/// Lists the known models, or refreshes the lists of the servers.
pub fn run(config: &Config, options: ModelsOptions) -> Result<u8, Error> {
    if options.refresh {
        refresh(config, options.form)
    } else {
        list(config, options.form)
    }
}

/// Asks all servers that are set up for their models; the exit code shows whether one failed.
fn refresh(config: &Config, form: Json) -> Result<u8, Error> {
    let servers = ah_engine::model::servers(config)?;
    if servers.is_empty() {
        return Err(Error::failure("no model server is set up")
            .hint("`ah login NAME` sets one up; docs/providers.md lists them"));
    }
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Error::failure(format!("cannot start: {error}")))?;
    let date = Zoned::now().strftime("%Y-%m-%d").to_string();
    let mut refreshed = Vec::new();
    for server in &servers {
        let kept: Result<_, Error> = runtime.block_on(async {
            let list = ah_engine::model::list(config, server).await?;
            let text = format!("{:#}\n", list.to_catalogue(&date));
            let path = config.keep_list(server, &text)?;
            Ok((list.models.len(), path))
        });
        refreshed.push((server, kept));
    }
    // A command may have printed the key.
    ah_process::finish_all();
    let failed = refreshed.iter().any(|(_, kept)| kept.is_err());
    if form.json {
        let each = refreshed.iter().map(|(server, kept)| match kept {
            Ok((models, path)) => json!({"server": server, "models": models, "file": path}),
            Err(error) => json!({"server": server, "error": error.message, "hint": error.hint}),
        });
        print_json(&each.collect())?;
    } else {
        for (server, kept) in &refreshed {
            match kept {
                Ok((models, path)) => {
                    print(&format!("{server}: {models} models, {}\n", path.display()))?;
                }
                Err(error) => report_failure(server, error),
            }
        }
    }
    Ok(if failed { FAILURE } else { 0 })
}

fn report_failure(server: &str, error: &Error) {
    let hint = error.hint.iter().map(|hint| format!("; {hint}"));
    ah_terminal::warn(&format!(
        "{server}: {}{}",
        error.message,
        hint.collect::<String>()
    ));
}

fn list(config: &Config, form: Json) -> Result<u8, Error> {
    let catalog = config.catalog()?;
    let models: Vec<Row<'_>> = catalog
        .models()
        .map(|(name, entry)| {
            let aliases = catalog.aliases().filter(|(_, model)| *model == name);
            Row {
                name,
                entry,
                aliases: aliases.map(|(alias, _)| alias).collect(),
            }
        })
        .collect();
    if form.json {
        return print_json(&models.iter().map(Row::to_json).collect());
    }
    let head = [
        "MODEL", "ALIAS", "CONTEXT", "OUTPUT", "IN", "OUT", "CACHED", "FROM",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(models.iter().map(Row::cells));
    use Align::{Left, Right};
    let lines = table([Left, Left, Right, Right, Right, Right, Right, Left], &rows);
    print(&format!("{lines}\nprices in USD per million tokens\n"))
}

struct Row<'a> {
    name: &'a str,
    aliases: Vec<&'a str>,
    entry: &'a ModelEntry,
}

impl Row<'_> {
    fn cells(&self) -> [String; 8] {
        let price = |of: fn(&Price) -> u64| {
            let price = self.entry.price.as_ref();
            price.map_or_else(
                || "?".to_owned(),
                |price| format!("{:.2}", dollars(of(price))),
            )
        };
        [
            self.name.to_owned(),
            self.aliases.join(", "),
            count(self.entry.context_window),
            count(self.entry.output_limit()),
            price(|price| price.input),
            price(|price| price.output),
            price(|price| price.cache_read),
            self.entry.origin.clone(),
        ]
    }

    fn to_json(&self) -> Value {
        let dollars = |price: Price| {
            json!({
                "input": dollars(price.input),
                "output": dollars(price.output),
                "cache_read": dollars(price.cache_read),
                "cache_write": dollars(price.cache_write),
                "cache_write_1h": dollars(price.cache_write_1h),
            })
        };
        let long_price = self.entry.long_price.map(|(above, price)| {
            let mut price = dollars(price);
            price["above"] = above.into();
            price
        });
        json!({
            "name": self.name,
            "aliases": self.aliases,
            "context_window": self.entry.context_window,
            "max_output": self.entry.output_limit(),
            "efforts": self.entry.abilities.efforts,
            "price": self.entry.price.map(dollars),
            "long_price": long_price,
            "origin": self.entry.origin,
        })
    }
}

/// Converts pico-dollars per token to dollars per million tokens.
fn dollars(price: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "no price comes near 2⁵³")]
    let price = price as f64;
    price / 1e6
}
