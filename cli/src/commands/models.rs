//! `ah models`: the catalogue of models and its sources.

use ah_conversation::Price;
use ah_provider::catalog::ModelEntry;
use serde_json::{Value, json};

use crate::args::json::Json;
use crate::commands::output::{print, print_json};
use ah_config::Config;
use ah_config::Error;
use ah_terminal::print::count;
use ah_terminal::print::table::{Align, table};

/// Lists the known models.
pub fn run(config: &Config, form: Json) -> Result<u8, Error> {
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
            count(self.entry.abilities.output_limit()),
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
            "max_output": self.entry.abilities.output_limit(),
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
