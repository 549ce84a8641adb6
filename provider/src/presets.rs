//! Servers that need no settings: vendors, gateways, and servers of this machine, a row each in `presets.json`. Each row has
//! the address, the variables, the protocol and the deviations of a server, and where its vendor documents them. The rows
//! are read here, and an address is made of a row and the variables; the way of a request is left to [`route`].
//!
//! [`route`]: crate::route

use std::borrow::Cow;
use std::sync::LazyLock;

use ah_conversation::json;
use serde::Deserialize;

use crate::named_server::Api;
use crate::openai::Quirks;

const ROWS: &str = include_str!("presets.json");

/// A server that is known here.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Preset {
    /// Name before the `/` in names of models.
    pub name: String,
    /// Name for people.
    pub title: String,
    /// Who runs it.
    pub kind: Kind,
    /// Protocol that it is asked by.
    pub api: Api,
    /// Protocol at an address that is in no row: a server there is only compatible. `None` where the address makes no
    /// difference.
    pub compatible: Option<Api>,
    /// Whether no other protocol is tried, because the name says this one. It is a second name of another row's server
    /// then, and left out of lists of servers.
    #[serde(default)]
    pub only_way: bool,
    /// Address, with variables for its parts: `https://{REGION|OTHER_NAME}.example`. `None` if everyone has an own one.
    pub address: Option<String>,
    /// Other addresses of the same vendor, where parts may be empty: `{}`.
    #[serde(default)]
    pub also: Vec<String>,
    /// Variable that holds another address.
    pub address_variable: String,
    /// Variables that hold the key; the first that is set is used.
    pub keys: Vec<String>,
    /// Whether credentials of AWS can sign requests in the place of a key.
    #[serde(default)]
    pub signed: bool,
    /// Header for the key, if it is not the usual one of the protocol.
    pub key_header: Option<String>,
    /// Deviations from the protocol.
    #[serde(default)]
    pub quirks: Quirks,
    /// Form of its list of models; `None` for the usual one of the protocol.
    pub list: Option<List>,
    /// Whether models without a server's name go to it once its address is set.
    #[serde(default)]
    pub for_any_model: bool,
    /// Whether it can search the web.
    #[serde(default)]
    pub searches: bool,
    /// Whether it is asked to hold conversations unless the settings say otherwise: it does so without storing them, or only where
    /// the user has it so.
    #[serde(default)]
    pub holds: bool,
    /// Beginnings of names of the vendor's own models, in lower case.
    #[serde(default)]
    pub families: Vec<String>,
    /// A model as the server names it.
    pub example: String,
    /// Page of the vendor on which the row is based.
    pub page: String,
    /// Date on which that was read, `YYYY-MM-DD`.
    pub read: String,
}

/// Who runs a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A company that serves models.
    Vendor,
    /// A server in front of the servers of others, which may report costs.
    Gateway,
    /// The user, on this machine; it needs no key.
    Local,
}

/// Form of a server's list of models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum List {
    /// That of OpenAI.
    Models,
    /// That of the Messages API, in pages.
    Messages,
    /// That of LiteLLM, or of OpenAI if it has none.
    Litellm,
    /// That of Ollama.
    Ollama,
    /// There is none.
    None,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    presets: Vec<Preset>,
}

/// Returns all rows.
pub fn all() -> &'static [Preset] {
    static PRESETS: LazyLock<Vec<Preset>> = LazyLock::new(|| {
        let file: File = json::own(ROWS).expect("a test reads the file");
        file.presets
    });
    &PRESETS
}

/// Returns the rows for people: one for each server.
pub fn servers() -> impl Iterator<Item = &'static Preset> {
    all().iter().filter(|preset| !preset.only_way)
}

impl Preset {
    /// Returns the row with this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        all().iter().find(|preset| preset.name == name)
    }

    /// Returns the row of the vendor whose model has the name `model`.
    pub fn of_family(model: &str) -> Option<&'static Self> {
        let model = model.to_ascii_lowercase();
        let begins = |family: &String| model.starts_with(family.as_str());
        all()
            .iter()
            .find(|preset| preset.families.iter().any(begins))
    }

    /// Returns the row of the server at `address`; of several on one host, the one whose path it has. Addresses of this machine
    /// say nothing about the server.
    pub fn at(address: &str) -> Option<&'static Self> {
        let vendors = servers().filter(|preset| preset.kind != Kind::Local);
        let found = vendors.filter_map(|preset| Some((preset.shared_path(address)?, preset)));
        // The first of several.
        let best = found.reduce(|best, next| if next.0 > best.0 { next } else { best });
        best.map(|(_, preset)| preset)
    }

    /// Returns whether `address` is one of the server's own.
    pub fn is_at(&self, address: &str) -> bool {
        self.shared_path(address).is_some()
    }

    /// How much of the path of one of its own addresses begins that of `address`; `None` if the host is another.
    fn shared_path(&self, address: &str) -> Option<usize> {
        let (host, path) = host_and_path(address);
        let own = self.address.iter().chain(&self.also);
        let shared = own.filter_map(|own| {
            let (own_host, own_path) = host_and_path(own);
            let shares = || path.starts_with(own_path);
            is_like(own_host, host).then(|| if shares() { own_path.len() } else { 0 })
        });
        shared.max()
    }

    /// Returns the variables for the parts of the address, each with its other names.
    pub fn parts(&self) -> impl Iterator<Item = Vec<&str>> {
        let pieces = self
            .address
            .as_deref()
            .unwrap_or_default()
            .split('{')
            .skip(1);
        let names = pieces.filter_map(|piece| Some(piece.split_once('}')?.0));
        names.map(|names| names.split('|').collect())
    }

    /// Returns the address that the variables give, or what has to be set.
    pub fn address<'a>(
        &'a self,
        variable: impl Fn(&str) -> Option<&'a str>,
    ) -> Result<Cow<'a, str>, String> {
        let of_user = variable(&self.address_variable);
        match (of_user, &self.address) {
            (Some(address), Some(usual)) if self.kind == Kind::Local => {
                Ok(local_address(address, usual))
            }
            (Some(address), _) => Ok(address.into()),
            (None, Some(address)) => filled(address, &variable).map_err(|part| {
                format!(
                    "{part}, or {} to the address of the server",
                    self.address_variable
                )
            }),
            (None, None) => Err(format!(
                "{} to the address of the server",
                self.address_variable
            )),
        }
    }
}

/// Splits an address behind its host and port.
fn host_and_path(address: &str) -> (&str, &str) {
    let address = address.trim().trim_end_matches('/');
    let (_, rest) = address.split_once("://").unwrap_or(("", address));
    rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()))
}

/// Whether `host` is `pattern`, in which `{…}` stands for one part of a name.
fn is_like(pattern: &str, host: &str) -> bool {
    let host = host.to_ascii_lowercase();
    match pattern.split_once('{').zip(pattern.split_once('}')) {
        None => host == pattern,
        Some(((before, _), (_, after))) => {
            let part = host
                .strip_prefix(before)
                .and_then(|rest| rest.strip_suffix(after));
            part.is_some_and(|part| !part.is_empty() && !part.contains('.'))
        }
    }
}

/// Returns `address` with the values of the variables in it, or the names of those of which one has to be set.
fn filled<'a>(
    address: &'a str,
    variable: &impl Fn(&str) -> Option<&'a str>,
) -> Result<Cow<'a, str>, String> {
    let mut filled = String::new();
    let mut rest = address;
    while let Some((before, (names, after))) = rest
        .split_once('{')
        .and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
    {
        let value = names.split('|').find_map(variable);
        let value = value.ok_or_else(|| names.split('|').collect::<Vec<_>>().join(" or "))?;
        filled.push_str(before);
        filled.push_str(value);
        rest = after;
    }
    if filled.is_empty() {
        return Ok(address.into());
    }
    filled.push_str(rest);
    Ok(filled.into())
}

/// Converts what people set for a server of their machine to an address: a host alone, with or without a port, and `0.0.0.0`
/// for all interfaces. `usual` has the usual port.
fn local_address<'a>(host: &'a str, usual: &str) -> Cow<'a, str> {
    if host.contains("://") {
        return host.into();
    }
    let usual = usual.rsplit_once(':').map_or("", |(_, port)| port);
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if port.chars().all(|c| c.is_ascii_digit()) => (name, port),
        _ => (host, usual),
    };
    let name = match name {
        "" | "0.0.0.0" => "127.0.0.1",
        name => name,
    };
    format!("http://{name}:{port}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_whole_and_names_occur_once() {
        let mut names: Vec<_> = all().iter().map(|preset| &preset.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all().len());
        for preset in all() {
            let Preset {
                name, read, page, ..
            } = preset;
            assert!(page.starts_with("https://"), "{name}");
            let date: Vec<_> = read
                .split('-')
                .map(|part| (part.len(), part.parse::<u32>().is_ok()))
                .collect();
            assert_eq!(date, [(4, true), (2, true), (2, true)], "{name}");
            let families = preset.families.iter();
            assert!(
                families.clone().all(|it| *it == it.to_lowercase()),
                "{name}"
            );
            for family in families {
                assert_eq!(Preset::of_family(family).map(|it| &it.name), Some(name));
            }
        }
    }

    #[test]
    fn a_host_of_this_machine_becomes_an_address() {
        for (host, expected) in [
            ("http://h:1/x", "http://h:1/x"),
            ("h", "http://h:11434"),
            ("h:1", "http://h:1"),
            (":1", "http://127.0.0.1:1"),
            ("0.0.0.0", "http://127.0.0.1:11434"),
        ] {
            let ollama = Preset::named("ollama").expect("a row");
            assert_eq!(
                ollama.address(|_| Some(host)).expect("an address"),
                expected
            );
        }
    }

    #[test]
    fn parts_of_an_address_are_variables() {
        for (name, variables, expected) in [
            ("deepseek", &[][..], Ok("https://api.deepseek.com")),
            (
                "deepseek",
                &[("DEEPSEEK_BASE_URL", "http://h")],
                Ok("http://h"),
            ),
            (
                "bedrock",
                &[("AWS_DEFAULT_REGION", "eu-central-1")],
                Ok("https://bedrock-runtime.eu-central-1.amazonaws.com/anthropic"),
            ),
            (
                "cloudflare",
                &[("CLOUDFLARE_ACCOUNT_ID", "a")],
                Ok("https://api.cloudflare.com/client/v4/accounts/a/ai/v1"),
            ),
            (
                "bedrock",
                &[],
                Err(
                    "AWS_REGION or AWS_DEFAULT_REGION, or BEDROCK_BASE_URL to the address of the server",
                ),
            ),
            (
                "litellm",
                &[],
                Err("LITELLM_BASE_URL to the address of the server"),
            ),
        ] {
            let preset = Preset::named(name).expect(name);
            let address = preset.address(|wanted| {
                let found = variables.iter().find(|(name, _)| *name == wanted);
                found.map(|(_, value)| *value)
            });
            assert_eq!(
                address.as_deref().map_err(String::as_str),
                expected,
                "{name}"
            );
        }
    }

    #[test]
    fn a_server_is_known_by_its_address() {
        for (address, expected) in [
            ("https://api.openai.com", Some("openai")),
            ("https://API.openai.com/v1/", Some("openai")),
            ("http://api.openai.com/v1", Some("openai")),
            ("https://api.openai.com.example/v1", None),
            ("https://r.openai.azure.com/openai/v1", Some("azure")),
            ("https://r.services.ai.azure.com/openai/v1", Some("azure")),
            ("https://r.services.ai.azure.com/anthropic", Some("foundry")),
            ("https://a.b.openai.azure.com/openai/v1", None),
            (
                "https://bedrock-mantle.eu-west-1.api.aws/v1",
                Some("mantle"),
            ),
            (
                "https://bedrock-mantle.eu-west-1.api.aws/anthropic/v1",
                Some("bedrock"),
            ),
            (
                "https://generativelanguage.googleapis.com/v1beta/openai/",
                Some("gemini"),
            ),
            ("https://openrouter.ai", Some("openrouter")),
            ("http://127.0.0.1:11434", None),
            ("http://h:4000", None),
            ("", None),
        ] {
            let found = Preset::at(address).map(|preset| preset.name.as_str());
            assert_eq!(found, expected, "{address}");
        }
    }
}
