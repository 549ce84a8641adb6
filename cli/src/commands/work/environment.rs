//! Variables and arguments of the phases' agents.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ah_config::{Error, Sourced};
use ah_conversation::{Environment, json};
use ah_git::{Git, GitError};
use ah_provider::named_server::NamedServer;
use serde_json::{Map, Value};

use crate::args::options::Options;

/// Variables that the phases may see besides the configured keys.
const KEYS: [&str; 6] = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "OPENAI_API_KEY",
    "LITELLM_API_KEY",
    "OLLAMA_API_KEY",
];
/// Setting that names the check of a run.
const UNTIL: &str = "until";
/// Tokens of the hub; never passed to a phase, whatever the settings say.
const TOKENS: [&str; 8] = [
    "GH_TOKEN",
    "GITHUB_TOKEN",
    "GH_ENTERPRISE_TOKEN",
    "GITHUB_ENTERPRISE_TOKEN",
    "GITLAB_TOKEN",
    "CI_JOB_TOKEN",
    "FORGEJO_TOKEN",
    "GITEA_TOKEN",
];

pub fn all(environment: &Environment) -> Vec<(String, String)> {
    let pairs = environment.all();
    pairs
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// Returns the variables of the phases' agents: no secrets except model keys; and the committer.
pub async fn variables(
    environment: &Environment,
    servers: &BTreeMap<String, Sourced<NamedServer>>,
    main: &Git,
) -> Vec<(String, String)> {
    let named = servers.values();
    let named: Vec<_> = named
        .filter_map(|server| server.value.key_env.as_deref())
        .collect();
    let keys = KEYS
        .iter()
        .copied()
        .chain(named)
        .filter_map(|name| Some((name, environment.get(name)?)));
    let mut variables: Vec<(String, String)> = environment
        .for_children()
        .chain(keys)
        .filter(|(name, _)| !TOKENS.contains(name))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    variables.sort();
    variables.dedup();
    for (name, value) in identity(environment, main).await {
        if !variables.iter().any(|(known, _)| *known == name) {
            variables.push((name, value));
        }
    }
    variables
}

/// Returns the committer: git's, in Actions the user who started the run, else the program.
async fn identity(environment: &Environment, main: &Git) -> Vec<(String, String)> {
    let known = |result: Result<String, GitError>| result.ok().filter(|value| !value.is_empty());
    let name = known(main.run(&["config", "user.name"]).await);
    let address = known(main.run(&["config", "user.email"]).await);
    let actor = environment.get("GITHUB_ACTOR");
    let (name, address) = match (name.zip(address), actor) {
        (Some(pair), _) => pair,
        (None, Some(actor)) => (
            actor.to_owned(),
            format!("{actor}@users.noreply.github.com"),
        ),
        (None, None) => ("ah-agent".to_owned(), "ah-agent@localhost".to_owned()),
    };
    let roles = ["AUTHOR", "COMMITTER"].into_iter();
    let pairs = roles.flat_map(|role| {
        [
            (format!("GIT_{role}_NAME"), name.clone()),
            (format!("GIT_{role}_EMAIL"), address.clone()),
        ]
    });
    pairs.collect()
}

/// Returns the options that apply to the phases too. Trust does not: a project's code would run outside of the sandbox,
/// in a tree that agents have worked in. Neither does the check of the user's own runs: that of the work is an option of the
/// phases that change files.
pub fn arguments(options: &Options, cwd: &Path) -> Vec<String> {
    let given = options.settings.settings.as_deref().unwrap_or("{}");
    let is_text = given.trim_start().starts_with('{');
    let file = cwd.join(given);
    let text = match is_text {
        true => Some(given.to_owned()),
        false => fs::read_to_string(&file).ok(),
    };
    let known = text.and_then(|text| json::from_str::<Map<String, Value>>(&text).ok());
    let settings = match known {
        // A file without a check stays where only its readers see it.
        Some(mut settings) if is_text || settings.contains_key(UNTIL) => {
            settings.insert(UNTIL.to_owned(), Value::from(""));
            Value::Object(settings).to_string()
        }
        _ if is_text => given.to_owned(),
        // The phases run in another folder.
        _ => file.to_string_lossy().into_owned(),
    };
    let mut arguments = vec![format!("--settings={settings}")];
    if let Some(sources) = &options.settings.setting_sources {
        arguments.push(format!("--setting-sources={sources}"));
    }
    arguments
}

/// Returns the folder for the user's persistent private state.
pub fn state_folder(environment: &Environment) -> Result<PathBuf, Error> {
    let given = environment
        .get("XDG_STATE_HOME")
        .map(PathBuf::from)
        .filter(|folder| folder.is_absolute());
    let folder = given.or_else(|| Some(environment.home()?.join(".local/state")));
    let folder = folder.ok_or_else(|| {
        Error::failure("no folder for the work trees").hint("set HOME or XDG_STATE_HOME")
    })?;
    Ok(folder.join("ah"))
}
