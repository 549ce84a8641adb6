//! Model providers: wire formats, decoding, retries, keys, and the scripted model. Vendors change their JSON often, so
//! no other crate knows it.

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
pub mod generation;
pub mod http_model;
pub mod named_server;
pub mod openai;
mod options;
pub mod responses;
pub mod retry;
mod rope;
pub mod route;
pub mod script;
pub mod server;

use std::path::PathBuf;
use std::sync::Arc;

use ah_conversation::{ErrorClass, Provider, ProviderError, Request, Sampling, Thinking};

use self::failure::with_causes;
pub use self::options::Options;
use self::retry::Retrying;
use self::route::Route;
use self::script::Script;
use self::script::normalizer::Normalizer;

/// Returns a provider for the model `name`. Nothing is sent yet.
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

/// Returns the name of the variable or setting that holds the key for the model `name`, or `None` if no key is set and
/// the server may need none.
pub fn credentials(name: &str, options: &Options<'_>) -> Result<Option<String>, ProviderError> {
    if name.starts_with("script:") {
        return Ok(None);
    }
    route(name, options)?.0.credentials()
}

/// Returns whether the server called `server` can search the web; `false` for any but the vendor's own.
pub fn searches(server: &str, options: &Options<'_>) -> bool {
    Route::to(server, options).is_some_and(|route| route.searches())
}

/// Returns the small model of the vendor whose server is called `server`, or `None` if none is known. A server at another
/// address than the vendor's has none, since its models are unknown.
pub fn small(server: &str, options: &Options<'_>) -> Option<String> {
    let route = Route::to(server, options).filter(Route::is_of_vendor)?;
    route.small().map(str::to_owned)
}

/// Returns the names of the settings that are not sent to the model `name`, because it or its server does not support
/// them.
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
        added: Arc::default(),
        messages: Arc::default(),
        max_output: 0,
        thinking,
        sampling: sampling.clone(),
    };
    Ok(route.left_out(name, &request))
}

/// The server of the model `name`, and the model's name there.
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
    let named: String = options
        .servers
        .keys()
        .map(|name| format!("`{name}/NAME`, "))
        .collect();
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
