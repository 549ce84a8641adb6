//! The way to a model: asks which server to use and with what key, and keeps the answer.

use std::io::{self, BufRead as _};

use ah_config::{Config, Error};
use ah_conversation::{Environment, neutralise};
use ah_provider::presets::{self, Kind, List, Preset};

use crate::chooser::Chooser;

/// Vendors and gateways that the first list has; the others are one step away.
const FIRST: [&str; 3] = ["openai", "gemini", "openrouter"];
/// Where keys are, for whoever is about to give one away.
const KEPT: &str = "Keys are stored in your ah folder (mode 0600) and never passed to commands.";

/// What the user has chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chosen {
    /// A key or a server was kept.
    Kept,
    /// The demo.
    Demo,
    /// Something that did not work, or was given up: the menu is shown again.
    Back,
    /// Nothing.
    Nothing,
}

/// A server on this machine that answered.
#[derive(Debug, Clone)]
pub struct LocalServer {
    /// Its row.
    pub preset: &'static Preset,
    /// Its address, if that is not the usual one.
    pub address: Option<&'static str>,
    /// Number of its models; `None` if it needs a key.
    pub models: Option<usize>,
}

/// Lists the models of a server with a configuration.
pub type ListModels<'a> = dyn Fn(&Config, &str) -> Result<Vec<String>, Error> + 'a;

/// What servers are asked for.
pub struct Asking<'a> {
    /// Lists the models of a server with a configuration.
    pub list: &'a ListModels<'a>,
    /// Tries the model that was chosen; returns what came of it, in a sentence. `None` if it is not tried.
    pub try_model: &'a dyn Fn(&Config, &str) -> Option<String>,
    /// Whether an error says that a key is missing or wrong.
    pub is_refusal: &'a dyn Fn(&Error) -> bool,
}

/// A way to a model.
#[derive(Debug, Clone)]
enum Way {
    /// A server that needs an address, a key, or both.
    Server(&'static Preset),
    /// A token of Claude Code's.
    Token,
    /// A server that runs on this machine.
    Local(LocalServer),
    /// Any other server of the table.
    Others,
    Demo,
    Exit,
}

/// Asks how models are to be reached, and keeps the answer. `wanted` is the server of the configured model, whose key is missing.
///
/// # Errors
///
/// If the terminal cannot be used.
pub fn offer(
    config: &Config,
    wanted: Option<&'static Preset>,
    local: &[LocalServer],
    asking: &Asking<'_>,
) -> Result<Chosen, Error> {
    let chooser = Chooser::of_process(&config.environment);
    let (ways, rows): (Vec<Way>, Vec<String>) = ways(wanted, local).into_iter().unzip();
    let chosen = chooser.choose("Choose a model provider", KEPT, &rows);
    let Some(at) = chosen.map_err(|error| failed(&error))? else {
        return Ok(Chosen::Nothing);
    };
    let kept = match &ways[at] {
        Way::Demo => return Ok(Chosen::Demo),
        Way::Exit => return Ok(Chosen::Nothing),
        Way::Token => keep_token(config, chooser, asking),
        Way::Server(preset) if Some(preset.name.as_str()) == wanted.map(|it| it.name.as_str()) => {
            keep_key(config, preset, chooser, asking)
        }
        Way::Server(preset) => to(config, preset, asking),
        Way::Local(local) => use_local(config, local, asking),
        Way::Others => to_other(config, chooser, asking),
    };
    // A wrong answer is no wish to leave.
    match kept {
        Ok(Chosen::Nothing) => Ok(Chosen::Back),
        Ok(chosen) => Ok(chosen),
        Err(error) => {
            crate::report(&error);
            Ok(Chosen::Back)
        }
    }
}

/// Returns the ways to a model, each with its row.
fn ways(wanted: Option<&'static Preset>, local: &[LocalServer]) -> Vec<(Way, String)> {
    let row = |name: &str| Preset::named(name).expect("a row of the table");
    let server = |preset: &'static Preset, label: &str| (Way::Server(preset), label.to_owned());
    let mut ways: Vec<_> = wanted
        .map(|wanted| {
            (
                Way::Server(wanted),
                format!("{} API key, for the model that is set", wanted.title),
            )
        })
        .into_iter()
        .collect();
    ways.push(server(row("anthropic"), "Anthropic API key"));
    let token = "Claude OAuth token (from `claude setup-token`)";
    ways.push((Way::Token, token.to_owned()));
    let others = FIRST.into_iter().map(row);
    let others = others.filter(|preset| wanted.is_none_or(|wanted| wanted.name != preset.name));
    ways.extend(others.map(|preset| server(preset, &format!("{} API key", preset.title))));
    let other = "Another vendor or gateway: Bedrock, Vertex AI, Azure, Mistral, xAI and more";
    ways.push((Way::Others, other.to_owned()));
    let compatible = "An OpenAI-compatible server by its URL: LiteLLM, vLLM or another";
    ways.push(server(row("litellm"), compatible));
    for local in local {
        let has = match local.models {
            None => "it needs a key".to_owned(),
            Some(1) => "1 model".to_owned(),
            Some(models) => format!("{models} models"),
        };
        let label = format!("{}, running on this machine ({has})", local.preset.title);
        ways.push((Way::Local(local.clone()), label));
    }
    let demo = "Watch the demo first; it needs no key and sends nothing";
    ways.push((Way::Demo, demo.to_owned()));
    ways.push((Way::Exit, "Exit".to_owned()));
    ways
}

/// Asks which other vendor or gateway, and what it needs.
fn to_other(config: &Config, chooser: Chooser, asking: &Asking<'_>) -> Result<Chosen, Error> {
    let is_other = |preset: &&Preset| {
        let known = ["anthropic", "litellm"].iter().chain(&FIRST);
        preset.kind != Kind::Local && known.clone().all(|name| *name != preset.name)
    };
    let others: Vec<_> = presets::servers().filter(is_other).collect();
    let rows: Vec<_> = others.iter().map(|preset| preset.title.clone()).collect();
    let chosen = chooser.choose("Choose a vendor or gateway", KEPT, &rows);
    match chosen.map_err(|error| failed(&error))? {
        Some(at) => to(config, others[at], asking),
        None => Ok(Chosen::Nothing),
    }
}

/// Returns the server with this name.
///
/// # Errors
///
/// If there is none.
pub fn named(name: &str) -> Result<&'static Preset, Error> {
    let found = presets::servers().find(|preset| preset.name.eq_ignore_ascii_case(name));
    found.ok_or_else(|| {
        let names: Vec<_> = presets::servers()
            .map(|preset| preset.name.as_str())
            .collect();
        let message = format!("there is no server named `{}`", neutralise(name));
        Error::usage(message).hint(format!(
            "choose one of {}; others can be added in the settings (`providers`)",
            names.join(", ")
        ))
    })
}

/// Asks for what a server needs and is not set, lets the user choose one of its models, and keeps all of it.
///
/// # Errors
///
/// If the terminal cannot be used, or the answers cannot be kept.
pub fn to(config: &Config, preset: &'static Preset, asking: &Asking<'_>) -> Result<Chosen, Error> {
    let chooser = Chooser::of_process(&config.environment);
    if preset.name == "anthropic" {
        return keep_key(config, preset, chooser, asking);
    }
    let is_set = |name: &str| config.environment.get(name).is_some();
    let ask = |prompt: &str| chooser.line(prompt).map_err(|error| failed(&error));
    let mut variables: Vec<(&str, String)> = Vec::new();
    if preset.address.is_none() && !is_set(&preset.address_variable) {
        let Some(address) = ask("Address (https://...)")? else {
            return Ok(Chosen::Nothing);
        };
        variables.push((&preset.address_variable, address));
    }
    for names in preset.parts() {
        if is_set(&preset.address_variable) || names.iter().any(|name| is_set(name)) {
            continue;
        }
        let Some(part) = ask(names[0])? else {
            return Ok(Chosen::Nothing);
        };
        variables.push((names[0], part));
    }
    let key = preset.keys.first().filter(|_| preset.kind != Kind::Local);
    if let Some(variable) = key.filter(|_| !preset.keys.iter().any(|name| is_set(name))) {
        let whose = match &preset.address {
            Some(_) => format!("{} API key (hidden)", preset.title),
            None => "API key (optional, hidden)".to_owned(),
        };
        match chooser.secret(&whose).map_err(|error| failed(&error))? {
            Some(key) => variables.push((variable, key)),
            None if preset.address.is_some() => return Ok(Chosen::Nothing),
            None => {}
        }
    }
    let variables: Vec<_> = { variables.iter() }
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    use_server(config, preset, &variables, asking)
}

/// Asks for the key of a server whose model stays as it is set.
fn keep_key(
    config: &Config,
    preset: &Preset,
    chooser: Chooser,
    asking: &Asking<'_>,
) -> Result<Chosen, Error> {
    let variable = preset.keys.first().map_or("", String::as_str);
    let prompt = format!("{} API key (hidden)", preset.title);
    keep_tried(config, preset, variable, &prompt, chooser, asking)
}

fn keep_token(config: &Config, chooser: Chooser, asking: &Asking<'_>) -> Result<Chosen, Error> {
    let preset = Preset::named("anthropic").expect("a row of the table");
    let variable = "CLAUDE_CODE_OAUTH_TOKEN";
    keep_tried(config, preset, variable, "Token (hidden)", chooser, asking)
}

/// Asks for a key, tries it with the list of the server's models, which costs nothing, and keeps it unless it was refused.
fn keep_tried(
    config: &Config,
    preset: &Preset,
    variable: &str,
    prompt: &str,
    chooser: Chooser,
    asking: &Asking<'_>,
) -> Result<Chosen, Error> {
    let Some(key) = chooser.secret(prompt).map_err(|error| failed(&error))? else {
        return Ok(Chosen::Nothing);
    };
    let title = &preset.title;
    let said = if preset.list == Some(List::None) {
        None
    } else {
        let mut reached = config.clone();
        set_alone(&mut reached.environment, preset, variable, &key);
        Some(match (asking.list)(&reached, &preset.name) {
            Ok(models) if models.len() == 1 => format!("{title} accepts the key (1 model)"),
            Ok(models) => format!("{title} accepts the key ({} models)", models.len()),
            Err(error) if (asking.is_refusal)(&error) => return Err(error),
            // A gateway may have no list, and a network may be away.
            Err(error) => format!(
                "{title} did not say whether the key is valid: {}",
                error.message
            ),
        })
    };
    keep(config, &[(variable, &key)])?;
    said.iter().for_each(|said| crate::note(said));
    Ok(Chosen::Kept)
}

/// Sets a key of a server and unsets its other keys, of which one may otherwise go before it.
fn set_alone(environment: &mut Environment, preset: &Preset, variable: &str, key: &str) {
    preset
        .keys
        .iter()
        .for_each(|other| environment.unset(other));
    environment.set(variable, key);
}

/// Keeps a key that came from a pipe: that of `preset`, or else one for the Messages API, whose kind is told by its beginning.
///
/// # Errors
///
/// If there is none, or it cannot be kept.
pub fn keep_piped(config: &Config, preset: Option<&Preset>) -> Result<(), Error> {
    let mut line = String::new();
    io::stdin()
        .lock()
        .read_line(&mut line)
        .map_err(|error| failed(&error))?;
    let key = line.trim();
    if key.is_empty() {
        return Err(Error::usage("no key on standard input").hint("pipe it in: `ah login < FILE`"));
    }
    let variable = match preset {
        Some(preset) if preset.name != "anthropic" => preset.keys[0].as_str(),
        _ if key.starts_with("sk-ant-oat") => "CLAUDE_CODE_OAUTH_TOKEN",
        _ => "ANTHROPIC_API_KEY",
    };
    keep(config, &[(variable, key)])
}

fn keep(config: &Config, variables: &[(&str, &str)]) -> Result<(), Error> {
    let path = config.log_in(variables)?;
    let names: Vec<_> = variables.iter().map(|(name, _)| *name).collect();
    crate::note(&format!(
        "{} saved to `{}`, readable only by you; `ah logout` removes it",
        names.join(" and "),
        path.display()
    ));
    Ok(())
}

fn use_local(config: &Config, local: &LocalServer, asking: &Asking<'_>) -> Result<Chosen, Error> {
    let variable = local.preset.address_variable.as_str();
    let mut variables: Vec<_> = { local.address.into_iter() }
        .map(|address| (variable, address))
        .collect();
    let key;
    if local.models.is_none() {
        let prompt = format!("{} API key (hidden)", local.preset.title);
        let typed = Chooser::of_process(&config.environment).secret(&prompt);
        let Some(typed) = typed.map_err(|error| failed(&error))? else {
            return Ok(Chosen::Nothing);
        };
        key = typed;
        variables.push((&local.preset.keys[0], &key));
    }
    use_server(config, local.preset, &variables, asking)
}

/// Lets the user choose one of a server's models, and keeps both.
fn use_server(
    config: &Config,
    preset: &Preset,
    variables: &[(&str, &str)],
    asking: &Asking<'_>,
) -> Result<Chosen, Error> {
    let chooser = Chooser::of_process(&config.environment);
    let mut reached = config.clone();
    for (name, value) in variables {
        reached.environment.set_default(name, value);
    }
    let server = &preset.name;
    let model = if preset.list == Some(List::None) {
        chooser.line(&format!("Model (such as {})", preset.example))
    } else {
        let models = (asking.list)(&reached, server)?;
        match models.as_slice() {
            [only] => Ok(Some(only.clone())),
            [] => chooser.line(&format!("Model (such as {})", preset.example)),
            _ => chooser
                .choose(
                    &format!("Choose a model from {}", preset.title),
                    "",
                    &models,
                )
                .map(|chosen| chosen.map(|at| models[at].clone())),
        }
    };
    let Some(model) = model.map_err(|error| failed(&error))? else {
        return Ok(Chosen::Nothing);
    };
    if !variables.is_empty() {
        keep(config, variables)?;
    }
    let path = config.keep_model(&format!("{server}/{model}"))?;
    crate::note(&format!(
        "Default model: {server}/{model} (saved to `{}`)",
        path.display()
    ));
    if let Some(told) = (asking.try_model)(&reached, &format!("{server}/{model}")) {
        crate::note(&told);
    }
    Ok(Chosen::Kept)
}

fn failed(error: &io::Error) -> Error {
    Error::failure(format!("cannot ask on the terminal: {error}"))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn a_new_key_is_tried_without_the_others_of_its_vendor() {
        let preset = Preset::named("anthropic").unwrap();
        for variable in &preset.keys {
            let old = preset
                .keys
                .iter()
                .map(|name| (name.clone(), "old".to_owned()));
            let mut environment = Environment::new(old, PathBuf::from("/"));
            set_alone(&mut environment, preset, variable, "new");
            let set: Vec<_> = environment.all().collect();
            assert_eq!(set, [(variable.as_str(), "new")]);
        }
    }
}
