//! Asks a model: wire formats, decoding, retry, and the scripted model. Vendors change weekly; nobody outside this
//! crate knows their JSON.

pub mod abilities;
pub mod anthropic;
pub mod auth;
mod blocks;
mod body;
mod call_name;
pub mod catalog;
mod decode;
mod encoded;
pub mod exchange;
pub mod failure;
pub mod fallback;
pub mod http_model;
pub mod openai;
pub mod responses;
pub mod retry;
mod rope;
pub mod route;
pub mod script;
pub mod server;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use ah_conversation::{
    Environment, ErrorClass, Provider, ProviderError, Request, Sampling, Thinking,
};

use self::auth::KeySource;
use self::catalog::Catalog;
use self::exchange::Timeouts;
use self::retry::{Policy, Retrying};
use self::route::{NamedServer, Route};
use self::script::Script;
use self::script::normalizer::Normalizer;

/// What connecting needs to know besides the model's name.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// Where keys and addresses are looked for.
    pub environment: &'a Environment,
    /// What is known of models.
    pub catalog: &'a Catalog,
    /// Servers that the settings name.
    pub servers: &'a BTreeMap<String, NamedServer>,
    /// Makes a source of the command that gives a key, given the setting that it stands in: nothing here starts
    /// programs.
    pub key_source: &'a dyn Fn(&str, &str) -> Arc<dyn KeySource>,
    /// How servers are reached.
    pub http: &'a ah_http::Options,
    /// Features of the API to ask for that are not for everybody yet.
    pub betas: &'a [String],
    /// How much a model may write at once, where that was set; never more than it is known to be able to.
    pub max_output: Option<u64>,
    /// How long a server may be silent.
    pub timeouts: Timeouts,
    /// How often a failed request is sent again.
    pub retry: Policy,
    /// Makes the waits between attempts differ from those of other processes.
    pub seed: u64,
}

/// The model that `name` stands for, ready to be asked. Nothing is sent yet.
pub fn connect(name: &str, options: &Options<'_>) -> Result<Arc<dyn Provider>, ProviderError> {
    if let Some(name) = name.strip_prefix("script:") {
        let path = match name {
            script::demo::NAME => PathBuf::from(name),
            path => options.environment.cwd().join(path),
        };
        let script = Script::open(&path).map_err(|error| ProviderError {
            hint: error.hint(),
            ..ProviderError::new(ErrorClass::Script, with_causes(&error))
        })?;
        let script = script.comparing(Normalizer::of(options.environment));
        return Ok(Arc::new(Retrying::new(script, options.retry, options.seed)));
    }
    let (route, name) = route(name, options)?;
    route.connect(name)
}

/// Where the key for the model `name` is set; `None` if there is none and none may be needed.
pub fn credentials(name: &str, options: &Options<'_>) -> Result<Option<String>, ProviderError> {
    if name.starts_with("script:") {
        return Ok(None);
    }
    route(name, options)?.0.credentials()
}

/// Whether the server called `server` searches the web for its models; not known of servers that are not the vendor's own.
pub fn searches(server: &str, options: &Options<'_>) -> bool {
    Route::to(server, options).is_some_and(|route| route.searches())
}

/// The small model of the vendor whose server is called `server`, for work that needs no more; `None` where the server is
/// somebody else's, who may have other models, or none is known.
pub fn small(server: &str, options: &Options<'_>) -> Option<String> {
    let route = Route::to(server, options).filter(Route::is_of_vendor)?;
    route.small().map(str::to_owned)
}

/// The settings that the model `name` is asked without, because it or its server does not take them.
pub fn left_out(
    name: &str,
    thinking: Thinking,
    sampling: &Sampling,
    options: &Options<'_>,
) -> Result<Vec<&'static str>, ProviderError> {
    if name.starts_with("script:") {
        return Ok(Vec::new());
    }
    let (route, name) = route(name, options)?;
    let request = Request {
        system: Arc::default(),
        tools: Arc::default(),
        messages: Arc::default(),
        max_output: 0,
        thinking,
        sampling: sampling.clone(),
    };
    Ok(route.left_out(name, &request))
}

/// The server that has the model `name`, and its name there.
fn route<'a>(
    name: &'a str,
    options: &'a Options<'a>,
) -> Result<(Route<'a>, &'a str), ProviderError> {
    let name = options.catalog.resolve(name);
    let (server, model) = match name.split_once('/') {
        None if name.starts_with("claude-") => ("anthropic", name),
        None => return Err(unknown_model(name, options)),
        Some(parts) => parts,
    };
    let route = Route::to(server, options).ok_or_else(|| unknown_model(name, options))?;
    Ok((route, model))
}

fn unknown_model(name: &str, options: &Options<'_>) -> ProviderError {
    let named = options.servers.keys();
    let named: String = named.map(|name| format!("`{name}/NAME`, ")).collect();
    ProviderError {
        hint: Some(format!(
            "known are `opus`, `sonnet`, `haiku`, a name that begins with `claude-`, {named}`anthropic/NAME`, \
             `litellm/NAME`, `openai/NAME`, `openai-responses/NAME`, `ollama/NAME`, `script:PATH` and `script:demo`"
        )),
        ..ProviderError::new(
            ErrorClass::ModelNotFound,
            format!("no model is called `{name}`"),
        )
    }
}

/// What went wrong, and why; some libraries say the same at each level.
fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |cause| cause.source());
    let mut causes: Vec<_> = causes.map(ToString::to_string).collect();
    causes.dedup();
    causes.join(": ")
}
