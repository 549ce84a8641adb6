//! The way to a model: asks which server to use and with what key, and keeps the answer.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use ah_config::{Config, Error};
use ah_conversation::neutralise;
use ah_provider::presets::{self, Kind, List, Preset};
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

use crate::print::Size;
use crate::print::question::{Answer, Lines, Part, Said, Sheet, answer};

/// Number of models listed at once.
const SHOWN: usize = 20;

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
    /// Number of its models; `None` if it wants a key.
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
}

/// Asks how models are to be reached, and keeps the answer. `wanted` is the server of the configured model, whose key is missing.
///
/// # Errors
///
/// If the terminal cannot be used, or the answer cannot be kept.
pub fn offer(
    config: &Config,
    wanted: Option<&'static Preset>,
    local: &[LocalServer],
    asking: &Asking<'_>,
) -> Result<Chosen, Error> {
    let sheet = sheet(wanted, local);
    let chosen = {
        let mut form = Lines::of_process(Size {
            width: 80,
            height: usize::MAX,
        });
        answer(&sheet, &mut form).map_err(|error| failed(&error))?
    };
    let Some(Said::Chosen(chosen, _)) = chosen else {
        return Ok(Chosen::Nothing);
    };
    let at = chosen.first().copied().unwrap_or_default();
    let word = sheet.answers[at].word.as_str();
    let kept = match (word, wanted) {
        ("demo", _) => return Ok(Chosen::Demo),
        ("leave", _) => return Ok(Chosen::Nothing),
        ("key", _) => keep_key(config, "ANTHROPIC_API_KEY", "API key"),
        ("token", _) => keep_key(config, "CLAUDE_CODE_OAUTH_TOKEN", "Token"),
        ("server", _) => to(config, Preset::named("litellm").expect("a row"), asking),
        ("vendor", _) => to_vendor(config, asking),
        (name, Some(wanted)) if name == wanted.name => {
            let variable = wanted.keys.first().map_or("", String::as_str);
            keep_key(config, variable, &format!("{} API key", wanted.title))
        }
        (name, _) => match local.iter().find(|local| word_of(local) == name) {
            Some(local) => use_local(config, local, asking),
            None => Ok(Chosen::Nothing),
        },
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

fn word_of(local: &LocalServer) -> String {
    local.preset.title.to_lowercase()
}

fn sheet(wanted: Option<&Preset>, local: &[LocalServer]) -> Sheet {
    let mut answers: Vec<Answer> = Vec::new();
    let mut add = |word: &str, label: String| {
        let key = (answers.len() + 1).to_string();
        answers.push(Answer::of(&key, word, &label));
    };
    if let Some(wanted) = wanted {
        add(
            &wanted.name,
            format!("paste an API key for {}, whose model is set", wanted.title),
        );
    }
    add("key", "Anthropic API key".to_owned());
    add(
        "token",
        "Claude OAuth token (from `claude setup-token`)".to_owned(),
    );
    add(
        "server",
        "an OpenAI-compatible server by its URL: LiteLLM, vLLM or another".to_owned(),
    );
    add(
        "vendor",
        "another vendor or gateway: OpenAI, Gemini, OpenRouter, Bedrock and more".to_owned(),
    );
    for local in local {
        let has = match local.models {
            None => "it wants a key".to_owned(),
            Some(1) => "1 model".to_owned(),
            Some(models) => format!("{models} models"),
        };
        let label = format!("{}, running on this machine ({has})", local.preset.title);
        add(&word_of(local), label);
    }
    add(
        "demo",
        "watch the demo first; it needs no key and sends nothing".to_owned(),
    );
    add("leave", "leave".to_owned());
    Sheet {
        head: "Choose a model provider".to_owned(),
        body: Part::lines(
            "Keys are stored in your ah folder (mode 0600) and never passed to commands.",
        ),
        answers,
        prompt: "Number> ".to_owned(),
        ..Sheet::default()
    }
}

/// Asks which vendor or gateway, and what it needs.
fn to_vendor(config: &Config, asking: &Asking<'_>) -> Result<Chosen, Error> {
    let remote = presets::servers().filter(|preset| preset.kind != Kind::Local);
    let names: Vec<_> = remote.map(|preset| preset.name.as_str()).collect();
    crate::note(&names.join(", "));
    let Some(name) = line("Which one: ")? else {
        return Ok(Chosen::Nothing);
    };
    match named(&name) {
        Ok(preset) => to(config, preset, asking),
        Err(error) => {
            crate::report(&error);
            Ok(Chosen::Nothing)
        }
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
        let message = format!("no server is called `{}`", neutralise(name));
        Error::usage(message).hint(format!(
            "one of {}; any other is named in the settings (`providers`)",
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
    let is_set = |name: &str| config.environment.get(name).is_some();
    let mut variables: Vec<(&str, String)> = Vec::new();
    if preset.address.is_none() && !is_set(&preset.address_variable) {
        let Some(address) = line("Address (https://...): ")? else {
            return Ok(Chosen::Nothing);
        };
        variables.push((&preset.address_variable, address));
    }
    for names in preset.parts() {
        if is_set(&preset.address_variable) || names.iter().any(|name| is_set(name)) {
            continue;
        }
        let Some(part) = line(&format!("{}: ", names[0]))? else {
            return Ok(Chosen::Nothing);
        };
        variables.push((names[0], part));
    }
    let key = preset.keys.first().filter(|_| preset.kind != Kind::Local);
    if let Some(variable) = key.filter(|_| !preset.keys.iter().any(|name| is_set(name))) {
        let whose = match &preset.address {
            Some(_) => format!("{} API key (hidden): ", preset.title),
            None => "API key (optional, hidden): ".to_owned(),
        };
        match secret(&whose)? {
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

fn keep_key(config: &Config, variable: &str, what: &str) -> Result<Chosen, Error> {
    let Some(key) = secret(&format!("{what} (hidden): "))? else {
        return Ok(Chosen::Nothing);
    };
    keep(config, &[(variable, &key)])?;
    Ok(Chosen::Kept)
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
        let Some(typed) = secret(&format!("{} API key (hidden): ", local.preset.title))? else {
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
    let mut reached = config.clone();
    for (name, value) in variables {
        reached.environment.set_default(name, value);
    }
    let server = &preset.name;
    let model = if preset.list == Some(List::None) {
        line(&format!("Model (such as {}): ", preset.example))?
    } else {
        match (asking.list)(&reached, server) {
            Ok(models) => choose(&models)?,
            Err(error) => {
                crate::report(&error);
                None
            }
        }
    };
    let Some(model) = model else {
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

/// Lets the user choose a model: by its number, its name, or words that fewer of them contain. The only one is chosen.
fn choose(models: &[String]) -> Result<Option<String>, Error> {
    if let [only] = models {
        return Ok(Some(only.clone()));
    }
    let mut left: Vec<&String> = models.iter().collect();
    loop {
        for (at, model) in left.iter().take(SHOWN).enumerate() {
            crate::note(&format!("  {:>2}  {}", at + 1, neutralise(model)));
        }
        if left.len() > SHOWN {
            crate::note(&format!(
                "  ... and {} more; type a part of the name",
                left.len() - SHOWN
            ));
        }
        let Some(said) = line("Model (number, name, or a part of it): ")? else {
            return Ok(None);
        };
        if let Some(model) = models.iter().find(|model| **model == said) {
            return Ok(Some(model.clone()));
        }
        if let Some(model) = said
            .parse()
            .ok()
            .and_then(|at: usize| left.get(at.checked_sub(1)?))
        {
            return Ok(Some((*model).clone()));
        }
        let found: Vec<_> = models
            .iter()
            .filter(|model| model.contains(&said))
            .collect();
        match found.as_slice() {
            [] => crate::note(&format!("no model's name contains `{}`", neutralise(&said))),
            [one] => return Ok(Some((*one).clone())),
            _ => left = found,
        }
    }
}

/// Returns a typed line; `None` for an empty one, or at the end of the input.
fn line(prompt: &str) -> Result<Option<String>, Error> {
    let mut output = crate::glyphs::err();
    write!(output, "{prompt}")
        .and_then(|()| output.flush())
        .map_err(|error| failed(&error))?;
    let mut line = String::new();
    io::stdin()
        .lock()
        .read_line(&mut line)
        .map_err(|error| failed(&error))?;
    Ok(Some(line.trim().to_owned()).filter(|line| !line.is_empty()))
}

/// Returns a typed line that the terminal does not show.
fn secret(prompt: &str) -> Result<Option<String>, Error> {
    let input = io::stdin();
    let before = match input.is_terminal() {
        true => tcgetattr(&input).ok(),
        false => None,
    };
    if let Some(before) = &before {
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        let _ = tcsetattr(&input, OptionalActions::Now, &silent);
    }
    let typed = line(prompt);
    if let Some(before) = &before {
        let _ = tcsetattr(&input, OptionalActions::Now, before);
        crate::note("");
    }
    typed
}

fn failed(error: &io::Error) -> Error {
    Error::failure(format!("cannot ask on the terminal: {error}"))
}
