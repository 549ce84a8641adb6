//! The models of a configuration, ready for requests.

pub mod absent;
mod key_command;
pub mod small;
pub mod tried_call;

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ah_config::settings::exchange::ExchangeConfig;
use ah_config::settings::requests::RequestConfig;
use ah_config::{Config, Error, ErrorKind, Sourced};
use ah_conversation::{
    Clock as _, Environment, ErrorClass, MessageId, Model, Models, Provider, ProviderError,
    Sampling, Thinking,
};
use ah_ids::SystemClock;
use ah_provider::auth::KeySource;
use ah_provider::catalog::Catalog;
use ah_provider::exchange::Timeouts;
use ah_provider::fact::KeepFact;
use ah_provider::fallback::Fallback;
use ah_provider::listing::Listing;
use ah_provider::named_server::NamedServer;
use ah_provider::note::Notes;
use ah_provider::script::normalizer::Normalizer;
use ah_provider::script::record::Recording;

use crate::model::key_command::KeyCommand;
use crate::warn::Warn;

/// Longest time that a server's list of models is waited for while a person looks on.
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum number of retries of a model that has a fallback.
const RETRIES_BEFORE_FALLBACK: u32 = 3;

/// Returns the configured model, ready for requests.
///
/// # Errors
///
/// If there is no such model, or no key for it.
pub fn model(config: &Config, warnings: &mut Vec<String>) -> Result<Arc<dyn Provider>, Error> {
    let provider = with_fallbacks(config, warnings)?;
    let record = config.run.record.as_deref();
    Ok(recorded(provider, record, &config.environment)?.0)
}

/// Records the requests of a model and its answers to the file `path`, if one is given.
///
/// # Errors
///
/// If it cannot be written.
pub(crate) fn recorded(
    provider: Arc<dyn Provider>,
    path: Option<&Path>,
    environment: &Environment,
) -> Result<(Arc<dyn Provider>, Option<Recording>), Error> {
    let Some(path) = path else {
        return Ok((provider, None));
    };
    let normal = Normalizer::of(environment);
    let recording = Recording::create(path, provider.model(), normal).map_err(|error| {
        Error::failure(format!("cannot record to `{}`: {error}", path.display()))
    })?;
    Ok((Arc::new(recording.of(provider)), Some(recording)))
}

/// Connects the model and those that answer in its place, in order. Each but the last is retried less often. A name of a
/// model that comes before it, or of the model itself, is left out.
pub(crate) fn with_fallbacks(
    config: &Config,
    warnings: &mut Vec<String>,
) -> Result<Arc<dyn Provider>, Error> {
    let main = &config.model.value;
    let Some(others) = &config.fallback_models else {
        return connect(config, main, warnings);
    };
    let mut patient = config.clone();
    patient.retry.has_fallback = true;
    let mut impatient = patient.clone();
    impatient.retry.retries = config.retry.retries.min(RETRIES_BEFORE_FALLBACK);
    let mut chain: Vec<(&str, Arc<dyn Provider>)> = Vec::new();
    for name in std::iter::once(main).chain(&others.value) {
        let name = if name == "default" { main } else { name };
        let provider = connect(&impatient, name, warnings)?;
        let is_same = |known: &Arc<dyn Provider>| {
            let (one, other) = (known.model(), provider.model());
            (&one.provider, &one.name) == (&other.provider, &other.name)
        };
        if !chain.iter().any(|(_, known)| is_same(known)) {
            chain.push((name, provider));
        }
    }
    let (last, _) = chain.pop().expect("the model itself is in it");
    let last = connect(&patient, last, &mut Vec::new())?;
    let all = chain.into_iter().rev();
    Ok(all.fold(last, |second, (_, first)| {
        Arc::new(Fallback::new(first, second))
    }))
}

pub(super) fn connect(
    config: &Config,
    name: &str,
    warnings: &mut Vec<String>,
) -> Result<Arc<dyn Provider>, Error> {
    let (thinking, sampling) = (thinking(&config.requests), sampling(&config.requests));
    // The lists of models are read once for all.
    let asked = asking(config, &config.run.betas, |options| {
        Ok((
            ah_provider::connect(name, options)?,
            ah_provider::left_out(name, thinking, &sampling, options)?,
            ah_provider::unlisted(name, options)
                .map(|server| (server, ah_provider::meant(name, options).map(str::to_owned))),
            ah_provider::end(name, options),
            ah_provider::may_report_cost(name, options),
        ))
    })?;
    let (provider, left_out, unlisted, end, may_report_cost) = asked;
    if let Some((_, Some(meant))) = &unlisted {
        // A server that is paid for would be asked in vain.
        return Err(Error::usage(format!(
            "unknown model `{name}`; did you mean `{meant}`?"
        )));
    }
    if let Some((server, None)) = unlisted {
        warnings.push(format!(
            "no server lists the model `{name}`; sending it to {server} unchanged; `ah models --refresh` \
             updates the lists"
        ));
    }
    if !left_out.is_empty() {
        let names = left_out.join("`, `");
        warnings.push(format!("{name} does not support `{names}`; ignored"));
    }
    if let Some((family, day)) = end {
        warnings.push(format!(
            "`{name}` is no longer served from {day}; `{family}` is the newest of its family"
        ));
    }
    match provider.model() {
        model
            if model.price.is_none()
                && config.run.limits.max_budget_usd.is_some()
                && !may_report_cost =>
        {
            let message = format!(
                "the price of {} is unknown, so `--max-budget-usd` cannot be enforced",
                model.name
            );
            Err(Error::failure(message).hint(format!(
                "give its price per million tokens in `.ah/models.json`: \
                 {{\"models\": {{\"{}\": {{\"price\": {{\"input\": 3, \"output\": 15}}}}}}}}",
                model.name
            )))
        }
        _ => Ok(provider),
    }
}

/// Returns the name of the server of the configured model; `None` for a scripted model.
///
/// # Errors
///
/// If there is no such model.
pub fn server(config: &Config) -> Result<Option<String>, Error> {
    let server = asking(config, &[], |options| {
        ah_provider::server_of(&config.model.value, options)
    })?;
    Ok(server.map(|(name, _)| name))
}

/// Returns the names of the model servers that are set up and have a list of models.
///
/// # Errors
///
/// If the catalogue cannot be read.
pub fn servers(config: &Config) -> Result<Vec<String>, Error> {
    asking(config, &[], |options| Ok(ah_provider::configured(options)))
}

/// Asks the model server called `server` for its models.
///
/// # Errors
///
/// If the server cannot be reached or has no list.
pub async fn list(config: &Config, server: &str) -> Result<Listing, Error> {
    let options = Inputs::of(config)?;
    let options = options.options(config, &[]);
    let mut listing = ah_provider::list(server, &options).await.map_err(failure)?;
    ah_provider::complete(&mut listing, &options).await;
    Ok(listing)
}

/// Asks a model server once for its models, waits a few seconds at most, and keeps the list: its limits and prices are
/// those of the catalogue from then on. `date` is that of today, `YYYY-MM-DD`.
///
/// # Errors
///
/// If the server cannot be reached or has no list.
pub async fn look(config: &Config, server: &str, date: &str) -> Result<Listing, Error> {
    let mut once = config.clone();
    once.retry.retries = 0;
    let listing = tokio::time::timeout(PATIENCE, list(&once, server)).await;
    let listing = listing.unwrap_or_else(|_| {
        let seconds = PATIENCE.as_secs();
        let message = format!("{server} has not answered within {seconds} s");
        let late = ProviderError::new(ErrorClass::Network, message.clone());
        Err(Error::new(ErrorKind::Provider, message).caused_by(late))
    })?;
    // Without the file, only the limits are unknown.
    let _ = config.keep_list(server, &format!("{:#}\n", listing.to_catalogue(date)));
    Ok(listing)
}

/// What the server of the configured model has answered to the request for its models, which costs nothing.
#[derive(Debug)]
pub enum Reached {
    /// It takes the key and has the model; the number of its models.
    Works(usize),
    /// It takes the key and does not list the model; names like it.
    WithoutModel(Vec<String>),
    /// It refuses the key.
    Refused(Error),
    /// It answered, but has no list of models, so neither key nor model were looked at.
    NoList(Error),
    /// It cannot be reached.
    Silent(Error),
}

/// Asks the server of the configured model whether it is there; returns the server's name and the answer, or `None` for a
/// scripted model.
///
/// # Errors
///
/// If there is no such model.
pub async fn reach(config: &Config, date: &str) -> Result<Option<(String, Reached)>, Error> {
    let model = &config.model.value;
    let Some((server, name)) = asking(config, &[], |options| {
        ah_provider::server_of(model, options)
    })?
    else {
        return Ok(None);
    };
    let is_near = asking(config, &[], |options| {
        Ok(ah_provider::is_near(model, options))
    })?;
    let has = |listing: &Listing| {
        listing.models.contains_key(&name) || is_near && listing.models.len() == 1
    };
    let reached = match look(config, &server, date).await {
        Ok(listing) if has(&listing) => Reached::Works(listing.models.len()),
        Ok(listing) => {
            let mut catalog = Catalog::default();
            let _ = catalog.extend(&listing.to_catalogue(date).to_string(), &listing.source);
            let whole = format!("{server}/{name}");
            let near = ah_provider::nearest(&whole, &catalog).into_iter();
            Reached::WithoutModel(near.map(str::to_owned).collect())
        }
        Err(error) => match class(&error) {
            Some(ErrorClass::Authentication | ErrorClass::Billing) => Reached::Refused(error),
            Some(ErrorClass::Network | ErrorClass::Stalled) | None => Reached::Silent(error),
            Some(_) => Reached::NoList(error),
        },
    };
    Ok(Some((server, reached)))
}

/// Returns the class of a server's error.
pub fn class(error: &Error) -> Option<ErrorClass> {
    Some(of_provider(error)?.class)
}

/// Returns the error of a model that cannot be asked for want of a key, if `error` is one.
pub fn keyless(error: &Error) -> Option<&ProviderError> {
    of_provider(error)
        .filter(|error| error.class == ErrorClass::Authentication && error.status.is_none())
}

fn of_provider(error: &Error) -> Option<&ProviderError> {
    std::error::Error::source(error)?.downcast_ref()
}

/// Returns the source of the key for the configured model, if a key is set.
///
/// # Errors
///
/// If there is no such model, or it has no key though it needs one.
pub fn credentials(config: &Config) -> Result<Option<String>, Error> {
    asking(config, &[], |options| {
        ah_provider::credentials(&config.model.value, options)
    })
}

pub(super) fn asking<T>(
    config: &Config,
    betas: &[String],
    ask: impl FnOnce(&ah_provider::Options<'_>) -> Result<T, ProviderError>,
) -> Result<T, Error> {
    let inputs = Inputs::of(config)?;
    ask(&inputs.options(config, betas)).map_err(failure)
}

pub(super) fn failure(error: ProviderError) -> Error {
    Error::new(ErrorKind::Provider, error.to_string())
        .maybe_hint(error.hint.clone())
        .caused_by(error)
}

/// Creates the source of a key from a command and the name of the setting that has the command.
type MakeKeySource = dyn Fn(&str, &str) -> Arc<dyn KeySource> + Send + Sync;

/// What a provider is made with, as far as the configuration does not hold it in that form.
struct Inputs {
    catalog: Catalog,
    servers: BTreeMap<String, NamedServer>,
    http: ah_http::Options,
    key_source: Box<MakeKeySource>,
    keep_fact: KeepFact,
    /// None of a session that is not kept.
    notes: Option<Arc<dyn Notes>>,
}

/// The notes of the user's folder.
struct HeldNotes(Config);

impl Notes for HeldNotes {
    fn keep(&self, first: &MessageId, note: String) {
        // Without it, all is sent once.
        let _ = self.0.keep_held_note(first.as_str(), &note);
    }

    fn find(&self, first: &MessageId) -> Option<String> {
        self.0.held_note(first.as_str())
    }
}

impl Inputs {
    fn of(config: &Config) -> Result<Self, Error> {
        let environment = config.environment.clone();
        let servers = config.servers.iter();
        Ok(Self {
            catalog: config.catalog()?,
            servers: servers
                .map(|(name, server)| (name.clone(), server.value.clone()))
                .collect(),
            http: ah_http::Options::from_variables(|name| environment.get(name)),
            keep_fact: {
                let config = config.clone();
                // Without the file, it is learned again.
                Arc::new(move |server, model, fact| {
                    let _ = config.keep_fact(server, model, fact);
                })
            },
            notes: (!config.run.is_ephemeral)
                .then(|| Arc::new(HeldNotes(config.clone())) as Arc<dyn Notes>),
            key_source: Box::new(move |command, setting| {
                Arc::new(KeyCommand::new(command, setting, &environment))
            }),
        })
    }

    fn options<'a>(&'a self, config: &'a Config, betas: &'a [String]) -> ah_provider::Options<'a> {
        let exchange = &config.exchange;
        ah_provider::Options {
            environment: &config.environment,
            catalog: &self.catalog,
            servers: &self.servers,
            key_source: &*self.key_source,
            http: &self.http,
            betas,
            max_output: config
                .requests
                .max_output_tokens
                .as_ref()
                .map(|count| count.value.get()),
            keep_fact: Some(&self.keep_fact),
            notes: self.notes.as_ref(),
            cache_ttl: exchange
                .cache_ttl
                .as_ref()
                .map_or_else(Default::default, |set| set.value),
            conversation_state: exchange
                .conversation_state
                .as_ref()
                .map_or_else(Default::default, |set| set.value),
            server_compaction: exchange
                .server_compaction
                .as_ref()
                .is_some_and(|set| set.value),
            fast_mode: exchange.fast_mode.as_ref().is_some_and(|set| set.value),
            keep_warm: exchange.keep_warm.as_ref().map_or(0, |set| set.value),
            timeouts: timeouts(exchange),
            retry: config.retry,
            seed: SystemClock::default().now().0.unsigned_abs(),
        }
    }
}

fn timeouts(config: &ExchangeConfig) -> Timeouts {
    let seconds = |set: &Option<Sourced<NonZero<u64>>>, usual| {
        let set = set.as_ref().map(|set| Duration::from_secs(set.value.get()));
        set.unwrap_or(usual)
    };
    let usual = Timeouts::default();
    Timeouts {
        first_event: seconds(&config.first_event_timeout, usual.first_event),
        next_event: seconds(&config.next_event_timeout, usual.next_event),
    }
}

/// Puts something around a model.
pub type Around = Arc<dyn Fn(Arc<dyn Provider>) -> Arc<dyn Provider> + Send + Sync>;

/// The models known from settings and catalogue.
pub struct Catalogued {
    config: Config,
    warn: Warn,
    around: Option<Around>,
}

impl Catalogued {
    /// Returns the models that `config` gives access to. `warn` receives warnings about models connected later.
    pub fn new(config: Config, warn: Warn) -> Self {
        Self {
            config,
            warn,
            around: None,
        }
    }

    /// Returns the same models, with something around each.
    #[must_use]
    pub fn with(self, around: Option<Around>) -> Self {
        Self { around, ..self }
    }
}

impl Models for Catalogued {
    fn connect(&self, name: Option<&str>) -> Result<Arc<dyn Provider>, ProviderError> {
        let name = name.unwrap_or(&self.config.model.value);
        let mut warnings = Vec::new();
        let connected = connect(&self.config, name, &mut warnings);
        warnings.iter().for_each(|warning| (self.warn)(warning));
        let connected = connected.map(|model| match &self.around {
            Some(around) => around(model),
            None => model,
        });
        connected.map_err(|error| ProviderError {
            hint: error.hint,
            ..ProviderError::new(ErrorClass::Unknown, error.message)
        })
    }

    fn describe(&self, provider: &str, name: &str) -> Model {
        let catalog = self.config.catalog().unwrap_or_default();
        catalog.model(provider, name)
    }
}

pub(super) fn thinking(requests: &RequestConfig) -> Thinking {
    Thinking {
        budget: requests
            .max_thinking_tokens
            .as_ref()
            .map(|count| count.value),
        effort: requests.effort.as_ref().map(|effort| effort.value),
    }
}

pub(super) fn sampling(requests: &RequestConfig) -> Sampling {
    Sampling {
        temperature: requests.temperature.as_ref().map(|share| share.value),
        top_p: requests.top_p.as_ref().map(|share| share.value),
        stop: requests
            .stop
            .as_ref()
            .map_or_else(Vec::new, |words| words.value.clone()),
    }
}
