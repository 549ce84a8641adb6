//! The catalogue of models: aliases, limits, prices, and the origin of each entry.
//!
//! The built-in entries are written by `cargo xtask models`; the settings that a model takes follow from its name
//! (`rules.rs`). Both may be out of date, so files in the same format add to them and override them, field by field: the
//! lists of servers, as [`listing`](crate::listing) makes them, and the user's own. Reading those files is left to the
//! caller. The names of families (`opus`) are aliases of their newest models.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, OnceLock};

use ah_conversation::{Effort, Model, Price, json};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::abilities::{Abilities, Template, ThinkingForm, USUAL_OUTPUT, Unsupported};
use crate::family::{self, FAMILIES};
use crate::named_server::Api;
use crate::rules;

const BUILT_IN: &str = include_str!("models.json");
const READ_BY_TEST: &str = "a test reads the file that is built in";

/// Context window of an unknown model, in tokens.
const DEFAULT_CONTEXT_WINDOW: u64 = 200_000;

/// Origin of an entry that nobody gave.
const ASSUMED: &str = "assumed";

/// Other words of SDK hosts for a model, with the family that they mean.
const WORDS: [(&str, &str); 3] = [
    ("best", "opus"),
    ("default", "opus"),
    ("opusplan", "sonnet"),
];

/// Models and aliases by name. Copies share what none of them has changed.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    aliases: Arc<BTreeMap<String, String>>,
    models: Arc<BTreeMap<String, KeptEntry>>,
}

/// An entry that is parsed when it is first asked for, if it is built in: a run needs few of them.
#[derive(Debug, Clone)]
struct KeptEntry {
    /// Its text and its origin, if it is built in.
    unparsed: Option<(&'static str, Arc<str>)>,
    parsed: OnceLock<ModelEntry>,
}

/// Limits and prices of one model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelEntry {
    /// Limit of input and output together, in tokens.
    pub context_window: u64,
    /// Protocol that its server takes for it, if that has shown.
    pub api: Option<Api>,
    /// Output limit and supported settings.
    pub abilities: Abilities,
    /// Price of its tokens, if known.
    pub price: Option<Price>,
    /// Number of input tokens above which another price holds, and that price.
    pub long_price: Option<(u64, Price)>,
    /// Source of the entry, or of its newest part.
    pub origin: String,
}

/// Error of a file that is not a valid catalogue.
#[derive(Debug, thiserror::Error)]
#[error("the model catalogue {origin} is not valid")]
pub struct CatalogError {
    /// Path of the file.
    pub origin: String,
    /// The syntax error with its position.
    pub source: serde_json::Error,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[serde(bound(deserialize = "E: Deserialize<'de>"))]
struct File<E> {
    #[serde(default, rename = "source")]
    _source: Option<String>,
    date: Option<String>,
    #[serde(default)]
    aliases: BTreeMap<String, String>,
    #[serde(default)]
    models: BTreeMap<String, E>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileEntry {
    context_window: Option<u64>,
    api: Option<Api>,
    max_output: Option<u64>,
    thinking: Option<ThinkingForm>,
    efforts: Option<Vec<Effort>>,
    refuses: Option<Vec<Unsupported>>,
    refused_fields: Option<Vec<String>>,
    audio: Option<bool>,
    template: Option<Template>,
    price: Option<Dollars>,
    long_price: Option<LongDollars>,
}

/// US dollars per million tokens.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Dollars {
    input: f64,
    output: f64,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
    cache_write_1h: Option<f64>,
}

#[derive(Deserialize)]
struct LongDollars {
    above: u64,
    #[serde(flatten)]
    price: Dollars,
}

impl From<Dollars> for Price {
    /// Without a price for a use of the cache, the price of input holds.
    fn from(dollars: Dollars) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a float's `as` saturates"
        )]
        let pico_dollars = |dollars: f64| (dollars * 1e6).round() as u64;
        let cache_write = dollars.cache_write.unwrap_or(dollars.input);
        Self {
            input: pico_dollars(dollars.input),
            output: pico_dollars(dollars.output),
            cache_read: pico_dollars(dollars.cache_read.unwrap_or(dollars.input)),
            cache_write: pico_dollars(cache_write),
            cache_write_1h: pico_dollars(dollars.cache_write_1h.unwrap_or(cache_write)),
        }
    }
}

impl Default for ModelEntry {
    fn default() -> Self {
        Self {
            context_window: DEFAULT_CONTEXT_WINDOW,
            api: None,
            abilities: Abilities::default(),
            price: None,
            long_price: None,
            origin: ASSUMED.to_owned(),
        }
    }
}

impl Catalog {
    /// Returns the built-in catalogue, which is read once.
    pub fn built_in() -> Self {
        static CATALOG: LazyLock<Catalog> = LazyLock::new(|| {
            let file: File<&RawValue> = json::own(BUILT_IN).expect(READ_BY_TEST);
            let origin: Arc<str> = file.origin("built in").into();
            let models = file.models.into_iter().map(|(name, entry)| {
                let unparsed = Some((entry.get(), origin.clone()));
                let parsed = OnceLock::new();
                (name, KeptEntry { unparsed, parsed })
            });
            Catalog {
                models: Arc::new(models.collect()),
                ..Catalog::default()
            }
        });
        CATALOG.clone()
    }

    /// Adds the entries of a file, which override earlier ones field by field. `origin` names the file.
    pub fn extend(&mut self, json: &str, origin: &str) -> Result<(), CatalogError> {
        let file: File<FileEntry> = json::from_str(json).map_err(|source| CatalogError {
            origin: origin.to_owned(),
            source,
        })?;
        let origin = file.origin(origin);
        if !file.aliases.is_empty() {
            Arc::make_mut(&mut self.aliases).extend(file.aliases);
        }
        for (name, facts) in file.models {
            let mut entry = match (self.models.get(&name), name.split_once('/')) {
                (Some(known), _) => known.entry(&name).clone(),
                // What a server says of a model adds to what is known of the model.
                (None, Some((server, model))) => self.entry(server, model),
                (None, None) => ModelEntry::of(&name),
            };
            entry.update(facts, &origin);
            Arc::make_mut(&mut self.models).insert(name, entry.into());
        }
        Ok(())
    }

    /// Makes `alias` stand for the model `name`, whatever it stood for before.
    pub fn set_alias(&mut self, alias: &str, name: &str) {
        Arc::make_mut(&mut self.aliases).insert(alias.to_owned(), name.to_owned());
    }

    /// Returns the model that the alias `name` stands for, or `name` itself. The built-in aliases are known in any case.
    pub fn resolve<'a>(&'a self, name: &'a str) -> &'a str {
        if let Some(model) = self.aliases.get(name) {
            return model;
        }
        if self.models.contains_key(name) {
            return name;
        }
        let is = |known: &str| known.eq_ignore_ascii_case(name);
        let word = WORDS.into_iter().find(|(word, _)| is(word));
        let family = word.map(|(_, family)| family);
        let family = family.or_else(|| FAMILIES.into_iter().find(|family| is(family)));
        let Some(family) = family else {
            return name;
        };
        let given = self.aliases.get(family).map(String::as_str);
        given.or_else(|| self.newest(family)).unwrap_or(name)
    }

    /// Returns the entry of the model that `server` calls `name`, which is not an alias. An unknown model of a known
    /// family has the limits of the newest of the family and no price; any other unknown model has default limits.
    pub fn entry(&self, server: &str, name: &str) -> ModelEntry {
        let known = self.known_as(server, name);
        if let Some((known, entry)) = known.as_ref().and_then(|it| self.models.get_key_value(it)) {
            return entry.entry(known).clone();
        }
        let mut entry = ModelEntry::of(name);
        let family = family::of(name.rsplit('/').next().unwrap_or(name));
        if let Some(newest) = family.and_then(|family| self.newest(family)) {
            let like = self.models[newest].entry(newest);
            entry.context_window = like.context_window;
            entry.abilities.max_output = like.abilities.max_output;
            entry.origin = format!("{ASSUMED}, as {newest}");
        }
        entry
    }

    /// Returns the newest of OpenAI's small models.
    pub(crate) fn newest_mini(&self) -> Option<&str> {
        family::newest_mini(self.models.keys().map(String::as_str))
    }

    fn newest(&self, family: &str) -> Option<&str> {
        family::newest(family, self.models.keys().map(String::as_str))
    }

    /// Returns the servers whose entries (`SERVER/NAME`) have a model of this name.
    pub fn servers_with<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.models
            .keys()
            .filter_map(move |known| known.strip_suffix(name)?.strip_suffix('/'))
    }

    /// Returns the model that `server` calls `name`, with its limits and prices.
    pub fn model(&self, server: &str, name: &str) -> Model {
        let entry = self.entry(server, name);
        Model {
            provider: server.to_owned(),
            name: name.to_owned(),
            context_window: entry.context_window,
            max_output: entry.usual_output(),
            price: entry.price,
            long_price: entry.long_price,
        }
    }

    /// Returns the key of the entry for the model that `server` calls `name`. Tried in order: the name with the server
    /// before it, the name itself, and the name without the prefixes of gateways, which may also write a version with a
    /// dot; each of them without a date, too.
    fn known_as(&self, server: &str, name: &str) -> Option<String> {
        let mut candidates = vec![format!("{server}/{name}"), name.to_owned()];
        let rests = name
            .match_indices('/')
            .map(|(at, _)| name[at + 1..].to_owned());
        candidates.extend(rests);
        let last = name.rsplit('/').next().unwrap_or(name);
        candidates.push(last.replace('.', "-"));
        let undated: Vec<_> = { candidates.iter() }
            .filter_map(|name| Some(family::without_date(name)?.to_owned()))
            .collect();
        candidates
            .into_iter()
            .chain(undated)
            .find(|name| self.models.contains_key(name))
    }

    /// Returns whether there is an entry for the model that `server` calls `name`.
    pub fn knows(&self, server: &str, name: &str) -> bool {
        self.known_as(server, name).is_some()
    }

    /// Returns all entries with their names.
    pub fn models(&self) -> impl Iterator<Item = (&str, &ModelEntry)> {
        self.models
            .iter()
            .map(|(name, entry)| (name.as_str(), entry.entry(name)))
    }

    /// Returns all aliases with the models that they stand for.
    pub fn aliases(&self) -> impl Iterator<Item = (&str, &str)> {
        let given = self.aliases.iter();
        let given = given.map(|(alias, name)| (alias.as_str(), name.as_str()));
        let families = FAMILIES.into_iter().filter_map(|family| {
            let newest = self.newest(family)?;
            (!self.aliases.contains_key(family)).then_some((family, newest))
        });
        given.chain(families)
    }
}

impl KeptEntry {
    fn entry(&self, name: &str) -> &ModelEntry {
        self.parsed.get_or_init(|| {
            let mut entry = ModelEntry::of(name);
            if let Some((json, origin)) = &self.unparsed {
                let facts = json::own(json).expect(READ_BY_TEST);
                entry.update(facts, origin);
            }
            entry
        })
    }
}

impl From<ModelEntry> for KeptEntry {
    fn from(entry: ModelEntry) -> Self {
        Self {
            unparsed: None,
            parsed: entry.into(),
        }
    }
}

impl<E> File<E> {
    /// Returns the origin of its entries; `path` names the file.
    fn origin(&self, path: &str) -> String {
        match &self.date {
            Some(date) => format!("{path}, {date}"),
            None => path.to_owned(),
        }
    }
}

impl ModelEntry {
    /// Returns what the name of a model says of it.
    fn of(name: &str) -> Self {
        let mut entry = Self::default();
        if let Some((thinking, efforts, refuses)) = rules::taken(name) {
            entry.abilities.thinking = thinking;
            entry.abilities.efforts = efforts.map(<[Effort]>::to_vec);
            entry.abilities.unsupported = refuses.to_vec();
        }
        entry
    }

    /// Whether nobody has given it.
    pub(crate) fn is_assumed(&self) -> bool {
        self.origin.starts_with(ASSUMED)
    }

    /// Returns the most tokens of one response: as stated, or else the usual number, at most a quarter of the window. A
    /// stated limit that leaves no room for a conversation is the window itself, and none of the output.
    pub fn output_limit(&self) -> u64 {
        let stated = self.abilities.max_output;
        let stated = stated.filter(|stated| *stated <= self.context_window / 2);
        let quarter = (self.context_window / 4).max(1);
        stated.unwrap_or_else(|| self.abilities.output_limit().min(quarter))
    }

    /// Returns the output tokens that a request asks for where the user has set none.
    pub(crate) fn usual_output(&self) -> u64 {
        self.output_limit().min(USUAL_OUTPUT)
    }

    /// Returns the output tokens that a request asks for where the user has set `wanted`.
    pub(crate) fn at_most(&self, wanted: u64) -> u64 {
        wanted.min(self.abilities.max_output.unwrap_or(wanted))
    }

    fn update(&mut self, facts: FileEntry, origin: &str) {
        self.context_window = facts.context_window.unwrap_or(self.context_window);
        self.api = facts.api.or(self.api);
        let known = &mut self.abilities;
        known.max_output = facts.max_output.or(known.max_output);
        known.thinking = facts.thinking.unwrap_or(known.thinking);
        known.efforts = facts.efforts.or(known.efforts.take());
        known.unsupported = facts
            .refuses
            .unwrap_or_else(|| std::mem::take(&mut known.unsupported));
        if let Some(fields) = facts.refused_fields {
            known.refused_fields = fields;
        }
        known.hears = facts.audio.unwrap_or(known.hears);
        known.template = facts.template.unwrap_or(known.template);
        if let Some(price) = facts.price {
            self.price = Some(price.into());
            self.long_price = None;
        }
        if let Some(LongDollars { above, price }) = facts.long_price {
            self.long_price = Some((above, price.into()));
        }
        origin.clone_into(&mut self.origin);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The names are those of the vendor's current models: when it releases one, its entry is all that has to be added.
    #[test]
    fn the_name_of_a_family_stands_for_its_newest_model() {
        let mut catalog = Catalog::built_in();
        for (name, expected) in [
            ("fable", "claude-fable-5-2"),
            ("opus", "claude-opus-5-5"),
            ("sonnet", "claude-sonnet-5-5"),
            ("haiku", "claude-haiku-5-5"),
            ("Sonnet", "claude-sonnet-5-5"),
            ("default", "claude-opus-5-5"),
            ("best", "claude-opus-5-5"),
            ("OpusPlan", "claude-sonnet-5-5"),
            ("mythos", "mythos"),
            ("claude-x", "claude-x"),
        ] {
            assert_eq!(catalog.resolve(name), expected);
        }
        assert_eq!(catalog.aliases().count(), FAMILIES.len());
        for (alias, name) in catalog.aliases() {
            let entry = catalog.entry("anthropic", name);
            assert!(entry.price.is_some(), "{alias}");
            assert!(entry.origin.starts_with("built in, 2026-"));
        }
        let list = r#"{"models": {"anthropic/claude-opus-6": {"max_output": 9}}}"#;
        catalog.extend(list, "list").unwrap();
        assert_eq!(catalog.resolve("opus"), "anthropic/claude-opus-6");
        catalog.set_alias("opus", "glm-5");
        assert_eq!(catalog.resolve("opus"), "glm-5");
        assert_eq!(catalog.resolve("Best"), "glm-5");
    }

    #[test]
    fn what_is_built_in_is_the_same_when_it_is_parsed_later() {
        let mut at_once = Catalog::default();
        at_once.extend(BUILT_IN, "built in").unwrap();
        let later = Catalog::built_in();
        assert_eq!(
            Vec::from_iter(later.models()),
            Vec::from_iter(at_once.models())
        );
        assert!(at_once.aliases.is_empty());
    }

    #[test]
    fn prices_and_limits_are_built_in() {
        for (server, name, window, pico_dollars) in [
            (
                "anthropic",
                "claude-sonnet-5-5",
                1_000_000,
                [2_000_000, 10_000_000, 100_000, 2_500_000],
            ),
            (
                "anthropic",
                "claude-haiku-4-5-20251001",
                200_000,
                [1_000_000, 5_000_000, 100_000, 1_250_000],
            ),
            (
                "openai",
                "gpt-6.2-sol",
                922_000,
                [2_000_000, 10_000_000, 100_000, 2_500_000],
            ),
            (
                "openai",
                "gpt-6.2-astra",
                922_000,
                [8_000_000, 40_000_000, 400_000, 10_000_000],
            ),
            (
                "gemini",
                "gemini-4-carbon",
                1_048_576,
                [4_000_000, 20_000_000, 200_000, 4_000_000],
            ),
            (
                "moonshot",
                "kimi-k3",
                1_048_576,
                [3_000_000, 15_000_000, 300_000, 3_000_000],
            ),
            (
                "zai",
                "glm-5.3",
                1_000_000,
                [1_400_000, 4_400_000, 260_000, 1_400_000],
            ),
        ] {
            let model = Catalog::built_in().model(server, name);
            let price = model.price.expect(name);
            assert_eq!(model.context_window, window, "{name}");
            let [input, output, cache_read, cache_write] = pico_dollars;
            let expected = Price {
                input,
                output,
                cache_read,
                cache_write,
                ..price
            };
            assert_eq!(price, expected, "{name}");
        }
    }

    /// What a list says of a model adds to what is known; a model that is not known is like the last of its family.
    #[test]
    fn entries_of_servers_add_to_those_of_the_models() {
        let mut catalog = Catalog::built_in();
        let known = catalog.entry("anthropic", "claude-opus-5-5");
        let list = r#"{"models": {
            "litellm/claude-opus-5-5": {"context_window": 90000},
            "litellm/team": {"max_output": 50},
            "anthropic/claude-opus-6": {"context_window": 2000000}
        }}"#;
        catalog.extend(list, "list").unwrap();
        let listed = catalog.entry("litellm", "claude-opus-5-5");
        assert_eq!((listed.context_window, listed.price), (90_000, known.price));
        assert_eq!(listed.abilities, known.abilities);
        assert_eq!(catalog.entry("anthropic", "claude-opus-5-5"), known);
        let new = catalog.entry("anthropic", "claude-opus-6");
        assert_eq!((new.context_window, new.price), (2_000_000, None));
        assert_eq!(new.abilities, known.abilities);
        let unknown = catalog.entry("gateway", "anthropic/claude-haiku-7");
        assert_eq!(unknown.price, None);
        assert_eq!(unknown.origin, "assumed, as claude-haiku-5-5");
        let servers: Vec<_> = catalog.servers_with("team").collect();
        assert_eq!(servers, ["litellm"]);
    }

    #[test]
    fn an_unknown_model_has_defaults_and_no_price() {
        let model = Catalog::built_in().model("anthropic", "claude-next");
        assert_eq!((model.context_window, model.max_output), (200_000, 16_384));
        assert_eq!(model.price, None);
    }

    /// An answer has a quarter of the window where nobody has said more, and what was said counts as far as it leaves room.
    #[test]
    fn an_output_limit_leaves_room_for_a_conversation() {
        for (window, stated, expected) in [
            (4_096, None, 1_024),
            (8_192, None, 2_048),
            (16_384, None, 4_096),
            (32_768, None, 8_192),
            (65_536, None, 16_384),
            (200_000, None, 16_384),
            (8_192, Some(4_096), 4_096),
            (8_192, Some(100), 100),
            (8_192, Some(8_192), 2_048),
            (131_072, Some(131_072), 16_384),
            (1, None, 1),
        ] {
            let mut facts = json!({"context_window": window});
            if let Some(stated) = stated {
                facts["max_output"] = json!(stated);
            }
            let mut catalog = Catalog::default();
            let list = json!({"models": {"local/m": facts}});
            catalog.extend(&list.to_string(), "list").unwrap();
            let model = catalog.model("local", "m");
            assert_eq!(model.max_output, expected, "{window} {stated:?}");
        }
    }

    #[test]
    fn names_with_gateway_prefixes_lead_to_the_entry() {
        let mut catalog = Catalog::built_in();
        let file = r#"{"models": {"here/claude-opus-4-6": {"context_window": 1}, "a/b": {"context_window": 2}}}"#;
        catalog.extend(file, "models.json").unwrap();
        for (server, name, expected) in [
            ("anthropic", "claude-opus-4-6", Some("claude-opus-4-6")),
            (
                "litellm",
                "anthropic/claude-opus-4-6",
                Some("claude-opus-4-6"),
            ),
            (
                "openrouter",
                "anthropic/claude-sonnet-4.5",
                Some("claude-sonnet-4-5"),
            ),
            ("litellm", "openrouter/openai/gpt-5.1", Some("gpt-5.1")),
            ("gemini", "gemini-3.8-flash", Some("gemini-3.8-flash")),
            (
                "litellm",
                "gemini/gemini-3.8-flash",
                Some("gemini-3.8-flash"),
            ),
            (
                "gateway",
                "openai/gpt-5.4-mini-2026-03-17",
                Some("gpt-5.4-mini"),
            ),
            ("here", "claude-opus-4-6", Some("here/claude-opus-4-6")),
            ("litellm", "x/a/b", Some("a/b")),
            ("openrouter", "anthropic/claude-sonnet-4.5:free", None),
            ("litellm", "opus-4-6", None),
        ] {
            let known = catalog.known_as(server, name);
            assert_eq!(known.as_deref(), expected, "{server}/{name}");
        }
    }

    #[test]
    fn a_file_overrides_field_by_field() {
        let mut catalog = Catalog::built_in();
        let before = catalog.entry("anthropic", "claude-opus-4-6");
        let file = r#"{
            "aliases": {"opus": "claude-next", "mine": "local"},
            "models": {
                "claude-opus-4-6": {"max_output": 100},
                "claude-haiku-5-5": {"price": {"input": 1, "output": 2}},
                "local": {"context_window": 8192}
            }
        }"#;
        catalog.extend(file, "~/.ah/models.json").unwrap();
        assert_eq!(catalog.resolve("opus"), "claude-next");
        let after = catalog.entry("anthropic", "claude-opus-4-6");
        assert_eq!(
            (after.abilities.max_output, after.price),
            (Some(100), before.price)
        );
        assert_eq!(after.origin, "~/.ah/models.json");
        assert_eq!(
            catalog.model("anthropic", "claude-opus-4-6").max_output,
            100
        );
        assert_eq!(
            catalog.entry("anthropic", "claude-haiku-5-5").long_price,
            None
        );
        assert_eq!(catalog.entry("anthropic", "local").context_window, 8_192);
        assert_eq!(catalog.entry("anthropic", "local").price, None);
    }

    #[test]
    fn an_invalid_file_is_an_error() {
        for file in ["", "[]", r#"{"models": {"x": {"contextwindow": 1}}}"#] {
            let error = Catalog::default().extend(file, "models.json").unwrap_err();
            assert_eq!(
                error.to_string(),
                "the model catalogue models.json is not valid"
            );
        }
    }
}
