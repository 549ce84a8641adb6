//! Environment variables of the program that this one stands in for, in its interface: those that have a setting here are
//! settings, and those that would send the conversation elsewhere are refused. The others are named in
//! `docs/agent-sdk.md`.

use std::collections::BTreeMap;
use std::num::NonZero;

use ah_conversation::{Effort, Environment, Interface, Rule};
use ah_provider::named_server::NamedServer;
use serde_json::Value;

use crate::error::Error;
use crate::first::First;
use crate::layers::Layer;
use crate::origin::{Origin, Sourced};
use crate::settings::Settings;
use crate::settings::exchange::ExchangeSettings;
use crate::settings::requests::RequestSettings;

const HEADERS: &str = "ANTHROPIC_CUSTOM_HEADERS";
const MAX_OUTPUT: &str = "CLAUDE_CODE_MAX_OUTPUT_TOKENS";
const TIMEOUT: &str = "API_TIMEOUT_MS";
const EFFORT: &str = "CLAUDE_CODE_EFFORT_LEVEL";
const NO_THINKING: &str = "CLAUDE_CODE_DISABLE_THINKING";
/// The server of the Messages API.
const SERVER: &str = "anthropic";

/// Variables that choose another vendor's servers, which are not known here.
const OTHER_SERVERS: [&str; 3] = [
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CODE_USE_FOUNDRY",
];
/// Variables with a key, any of which comes before a command for one.
const KEYS: [&str; 3] = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
];

/// Adds what the variables set to the layers, below those of an administrator, and tells commands and hooks what they run in.
///
/// # Errors
///
/// If a variable chooses servers that are not known here, or is not valid.
pub fn apply(
    interface: Interface,
    environment: &mut Environment,
    layers: &mut Vec<Layer>,
    servers: &mut BTreeMap<String, Sourced<NamedServer>>,
) -> Result<(), Error> {
    if !interface.stands_in() {
        return Ok(());
    }
    refuse_other_servers(environment)?;
    let managed = layers.iter().take_while(|layer| layer.is_managed()).count();
    layers.splice(managed..managed, of(environment)?);
    if let Some(text) = environment.get(HEADERS) {
        let headers = &mut anthropic(servers, Origin::Environment(HEADERS)).headers;
        for (name, value) in text.lines().filter_map(|line| line.split_once(':')) {
            let (name, value) = (name.trim().to_owned(), value.trim().to_owned());
            headers.entry(name).or_insert(value);
        }
    }
    environment.set("CLAUDECODE", "1");
    environment.set_default("CLAUDE_CODE_ENTRYPOINT", "sdk-cli");
    Ok(())
}

/// Drops rules that allow every tool, which the other agent does not take either; returns a warning for each.
pub fn drop_wildcards(
    interface: Interface,
    typed: &mut Vec<Rule>,
    layers: &mut [Layer],
) -> Vec<String> {
    let mut warnings = Vec::new();
    if interface.may_allow_all() {
        return warnings;
    }
    let mut drop = |rules: &mut Vec<Rule>, origin: &Origin| {
        let before = rules.len();
        rules.retain(|rule| rule.tool != "*");
        if rules.len() < before {
            warnings.push(format!(
                "{origin}: the rule `*` allows nothing; the mode `bypassPermissions` allows everything"
            ));
        }
    };
    drop(typed, &Origin::CommandLine);
    for layer in layers {
        drop(&mut layer.settings.permissions.allow, &layer.origin);
    }
    warnings
}

/// Has the command of the settings print the key of the Messages API, unless there is one already.
pub fn with_key_command(
    mut servers: BTreeMap<String, Sourced<NamedServer>>,
    first: &First<'_>,
    environment: &Environment,
) -> BTreeMap<String, Sourced<NamedServer>> {
    let has_key = KEYS.iter().any(|name| environment.get(name).is_some());
    let command = first.value(|settings| settings.api_key_helper.clone());
    if let Some(command) = command.filter(|_| !has_key) {
        let server = anthropic(&mut servers, command.origin);
        server.key_command.get_or_insert(command.value);
    }
    servers
}

fn anthropic(
    servers: &mut BTreeMap<String, Sourced<NamedServer>>,
    origin: Origin,
) -> &mut NamedServer {
    let value = NamedServer::default();
    let server = servers.entry(SERVER.to_owned());
    &mut server.or_insert(Sourced { value, origin }).value
}

fn is_on(name: &str, environment: &Environment) -> bool {
    let word = environment.get(name).unwrap_or_default().to_lowercase();
    ["1", "true", "yes", "on"].contains(&&*word)
}

fn refuse_other_servers(environment: &Environment) -> Result<(), Error> {
    let mut others = OTHER_SERVERS.iter();
    match others.find(|name| is_on(name, environment)) {
        None => Ok(()),
        Some(name) => Err(Error::failure(format!(
            "{name} is set, but the servers that it chooses are not supported"
        ))
        .hint("unset it to use the Messages API, or name a server in the setting `providers`")),
    }
}

/// Returns what the variables set, each as a layer of its own.
fn of(environment: &Environment) -> Result<Vec<Layer>, Error> {
    let number = |name: &'static str| {
        let text = environment.get(name).map(str::trim);
        text.map(|text| {
            text.parse::<NonZero<u64>>().map_err(|_| {
                Error::failure(format!(
                    "{name} is `{text}`, which is not a whole number above 0"
                ))
            })
        })
        .transpose()
    };
    let seconds = |milliseconds: NonZero<u64>| {
        NonZero::new(milliseconds.get().div_ceil(1000)).unwrap_or(NonZero::<u64>::MIN)
    };
    let effort = environment.get(EFFORT).and_then(|word| {
        let word = Value::String(word.trim().to_lowercase());
        serde_json::from_value::<Effort>(word).ok()
    });
    let set = [
        (
            MAX_OUTPUT,
            Settings {
                requests: RequestSettings {
                    max_output_tokens: number(MAX_OUTPUT)?,
                    ..RequestSettings::default()
                },
                ..Settings::default()
            },
        ),
        (
            TIMEOUT,
            Settings {
                exchange: ExchangeSettings {
                    first_event_timeout: number(TIMEOUT)?.map(seconds),
                    ..ExchangeSettings::default()
                },
                ..Settings::default()
            },
        ),
        (
            EFFORT,
            Settings {
                requests: RequestSettings {
                    effort,
                    ..RequestSettings::default()
                },
                ..Settings::default()
            },
        ),
        (
            NO_THINKING,
            Settings {
                requests: RequestSettings {
                    max_thinking_tokens: is_on(NO_THINKING, environment).then_some(0),
                    ..RequestSettings::default()
                },
                ..Settings::default()
            },
        ),
    ];
    let layers = set.into_iter().map(|(name, settings)| Layer {
        origin: Origin::Environment(name),
        is_of_project: false,
        settings,
    });
    Ok(layers
        .filter(|layer| layer.settings != Settings::default())
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Environment {
        let variables = variables.iter();
        let variables = variables.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Environment::new(variables, "/p".into())
    }

    #[test]
    fn variables_are_settings_in_the_others_interface() {
        let variables = [
            (MAX_OUTPUT, "5000"),
            (TIMEOUT, "700"),
            (EFFORT, "low"),
            (HEADERS, "X-A: b:c\nX-D:e\nnothing"),
        ];
        for interface in [Interface::AgentSdk, Interface::Native] {
            let mut environment = environment(&variables);
            let (mut layers, mut servers) = (Vec::new(), BTreeMap::new());
            apply(interface, &mut environment, &mut layers, &mut servers).unwrap();
            let is_foreign = interface.stands_in();
            assert_eq!(environment.get("CLAUDECODE").is_some(), is_foreign);
            assert_eq!(servers.contains_key(SERVER), is_foreign);
            assert_eq!(layers.len(), if is_foreign { 3 } else { 0 });
            if is_foreign {
                assert_eq!(
                    layers[0].settings.requests.max_output_tokens,
                    NonZero::new(5000)
                );
                assert_eq!(
                    layers[1].settings.exchange.first_event_timeout,
                    NonZero::new(1)
                );
                assert_eq!(layers[2].settings.requests.effort, Some(Effort::Low));
                let headers = &servers[SERVER].value.headers;
                assert_eq!((&*headers["X-A"], &*headers["X-D"]), ("b:c", "e"));
            }
        }
    }

    #[test]
    fn what_cannot_be_followed_is_an_error() {
        for variable in [
            ("CLAUDE_CODE_USE_BEDROCK", "1"),
            ("CLAUDE_CODE_USE_VERTEX", "true"),
            (MAX_OUTPUT, "many"),
        ] {
            let mut environment = environment(&[variable]);
            let (mut layers, mut servers) = (Vec::new(), BTreeMap::new());
            let done = apply(
                Interface::AgentSdk,
                &mut environment,
                &mut layers,
                &mut servers,
            );
            let error = done.expect_err(variable.0);
            assert!(error.message.contains(variable.0), "{error:?}");
        }
    }
}
