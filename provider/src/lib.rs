//! Asks a model: wire formats, decoding, retry, and the scripted model. Vendors change weekly; nobody outside this
//! crate knows their JSON.

pub mod anthropic;
pub mod auth;
mod blocks;
mod body;
pub mod catalog;
mod decode;
mod encoded;
pub mod exchange;
pub mod failure;
pub mod openai;
pub mod responses;
pub mod retry;
mod rope;
pub mod script;
mod vendors;

use std::path::PathBuf;
use std::sync::Arc;

use ah_conversation::{Environment, ErrorClass, Provider, ProviderError};

use self::anthropic::{Anthropic, Encoder, Patience};
use self::auth::Credentials;
use self::catalog::Catalog;
use self::retry::{Policy, Retrying};
use self::script::Script;
use self::script::normal::Normal;
use self::vendors::Vendor;

/// What connecting needs to know besides the model's name.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// Where keys and addresses are looked for.
    pub environment: &'a Environment,
    /// What is known of models.
    pub catalog: &'a Catalog,
    /// How servers are reached.
    pub http: &'a ah_http::Options,
    /// Features of the API to ask for that are not for everybody yet.
    pub betas: &'a [String],
    /// How long a server may be silent.
    pub patience: Patience,
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
        let script = script.comparing(Normal::of(options.environment));
        return Ok(Arc::new(Retrying::new(script, options.retry, options.seed)));
    }
    let name = options.catalog.resolve(name);
    match name.split_once('/') {
        Some(("anthropic", name)) => anthropic(name, options),
        None if name.starts_with("claude-") => anthropic(name, options),
        vendor => match vendor.and_then(|(vendor, name)| Some((Vendor::named(vendor)?, name))) {
            Some((vendor, name)) => vendors::connect(vendor, name, options),
            None => Err(unknown_model(format!("no model is called `{name}`"))),
        },
    }
}

fn anthropic(name: &str, options: &Options<'_>) -> Result<Arc<dyn Provider>, ProviderError> {
    let base_url = options.environment.get("ANTHROPIC_BASE_URL");
    let base_url = base_url.map_or(anthropic::DEFAULT_BASE_URL, str::trim);
    let credentials = Credentials::find(options.environment)?;
    let client = ah_http::client(options.http, base_url)
        .map_err(|error| ProviderError::new(ErrorClass::InvalidRequest, with_causes(&error)))?;
    let entry = options.catalog.entry(name);
    let model = options.catalog.model("anthropic", name);
    let encoder = Encoder::new(model, entry.max_output, entry.thinking);
    let provider = Anthropic::new(
        client,
        base_url,
        &credentials,
        options.betas,
        encoder,
        options.patience,
    )?;
    Ok(Arc::new(Retrying::new(
        provider,
        options.retry,
        options.seed,
    )))
}

fn unknown_model(message: String) -> ProviderError {
    ProviderError {
        hint: Some(
            "known are `opus`, `sonnet`, `haiku`, a name that begins with `claude-`, `anthropic/NAME`, \
             `litellm/NAME`, `openai/NAME`, `openai-responses/NAME`, `ollama/NAME`, `script:PATH` or `script:demo`"
                .to_owned(),
        ),
        ..ProviderError::new(ErrorClass::ModelNotFound, message)
    }
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |message, cause| {
        format!("{message}: {cause}")
    })
}
