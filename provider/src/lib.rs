//! Model providers: wire formats, decoding, retries, keys, and the scripted model. Vendors change their JSON often, so
//! no other crate knows it.

pub mod abilities;
mod again;
pub mod anthropic;
pub mod auth;
mod blocks;
mod body;
mod cached_prefix;
pub mod caching;
mod call_name;
pub mod catalog;
mod decode;
mod encoded;
mod ends;
pub mod exchange;
pub mod fact;
pub mod failure;
pub mod fallback;
pub mod family;
pub mod featured;
mod fields;
pub mod generation;
mod halves;
pub mod held;
pub mod http_model;
pub mod interactions;
pub mod keep_warm;
mod lenient;
pub mod limit;
pub mod listing;
pub mod named_server;
mod near;
pub mod note;
mod opaque;
pub mod openai;
mod options;
mod over_socket;
mod pieces;
pub mod presets;
mod received;
mod refused;
pub mod request_encoder;
pub mod responses;
pub mod retry;
mod rope;
pub mod route;
mod rules;
pub mod script;
pub mod server;
#[cfg_attr(not(feature = "sigv4"), path = "signing/absent.rs")]
mod signing;
mod socket;
mod too_long;
mod unreached;
mod upstream;
pub mod ways;
pub mod window;

use std::path::PathBuf;
use std::sync::Arc;

use ah_conversation::{
    Environment, ErrorClass, Provider, ProviderError, Request, Sampling, Thinking,
};

use self::catalog::Catalog;
use self::failure::with_causes;
use self::listing::Listing;
pub use self::options::Options;
use self::presets::{List, Preset};
use self::retry::Retrying;
use self::route::Route;
use self::script::Script;
use self::script::normalizer::Normalizer;

/// Returns a provider for the model `name`. Nothing is sent yet.
pub fn connect(name: &str, options: &Options<'_>) -> Result<Arc<dyn Provider>, ProviderError> {
    if let Some(script) = scripted(name, options.environment)? {
        let script = script.comparing(Normalizer::of(options.environment));
        return Ok(Arc::new(Retrying::new(script, options.retry, options.seed)));
    }
    let betas = match without_window(name) == name {
        true => Vec::new(),
        false => vec![route::WIDE_WINDOW.to_owned()],
    };
    let betas = [options.betas, &betas].concat();
    let options = Options {
        betas: &betas,
        ..*options
    };
    let (route, name) = route(name, &options)?;
    route.connect(name)
}

/// Returns the scripted model `name`; `None` if it is no scripted one.
pub fn scripted(name: &str, environment: &Environment) -> Result<Option<Script>, ProviderError> {
    let Some(name) = name.strip_prefix("script:") else {
        return Ok(None);
    };
    let path = match name {
        script::demo::NAME => PathBuf::from(name),
        path => environment.cwd().join(path),
    };
    let script = Script::open(&path).map_err(|error| ProviderError {
        hint: error.hint(),
        ..ProviderError::new(ErrorClass::Script, with_causes(&error))
    })?;
    Ok(Some(script))
}

/// Returns the name of a model without the suffix that asks for its window of a million tokens. Most models have it
/// without being asked.
pub fn without_window(name: &str) -> &str {
    name.strip_suffix("[1m]").unwrap_or(name)
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

/// Returns the small model of the server called `server`: the one that a variable names, or else the vendor's own. A
/// server at another address than the vendor's has none unless a variable names it, since its models are unknown.
pub fn small(server: &str, options: &Options<'_>) -> Option<String> {
    Route::to(server, options)?.small()
}

/// Returns the name of the server to which requests for the model `name` go, and the model's name there; `None` for a
/// scripted model.
pub fn server_of(
    name: &str,
    options: &Options<'_>,
) -> Result<Option<(String, String)>, ProviderError> {
    if name.starts_with("script:") {
        return Ok(None);
    }
    let (route, model) = route(name, options)?;
    Ok(Some((route.name().to_owned(), model.to_owned())))
}

/// Returns the server to which the model `name` goes although no list has it, as `SERVER (SETTING)`; `None` for a model
/// that is known or whose name says the server.
pub fn unlisted(name: &str, options: &Options<'_>) -> Option<String> {
    if name.starts_with("script:") {
        return None;
    }
    let found = find_route(name, options)?;
    let setting = found.route.address_setting();
    (!found.is_named).then(|| format!("{} ({setting})", found.route.name()))
}

/// Returns the family of the model `name` and the day of its end, if its vendor itself is asked and has said when it ends.
/// Other servers of the same model have days of their own.
pub fn end(name: &str, options: &Options<'_>) -> Option<(&'static str, &'static str)> {
    if name.starts_with("script:") {
        return None;
    }
    let (route, name) = route(without_window(name), options).ok()?;
    ends::end(name).filter(|_| route.is_of_vendor())
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
        thinking,
        sampling: sampling.clone(),
        ..Request::default()
    };
    Ok(route.left_out(name, &request))
}

/// Context windows below this are those of small models, in tokens.
const SMALL_WINDOW: u64 = 33_000;

/// Returns whether the model `name` is taken for a small one: its window is small, or a server on this machine runs it.
pub fn is_small(name: &str, options: &Options<'_>) -> bool {
    let found = find_route(name, options).filter(|_| !name.starts_with("script:"));
    found.is_some_and(|Found { route, model, .. }| {
        let entry = options.catalog.entry(route.name(), model);
        entry.context_window < SMALL_WINDOW || route.runs_here(model)
    })
}

/// Returns whether a server on this machine runs the model `name`.
pub fn runs_here(name: &str, options: &Options<'_>) -> bool {
    let found = find_route(name, options).filter(|_| !name.starts_with("script:"));
    found.is_some_and(|Found { route, model, .. }| route.runs_here(model))
}

/// Returns whether the chat template of the model `name` is known to show no tools, so that its server leaves them out.
pub fn shows_no_tools(name: &str, options: &Options<'_>) -> bool {
    let found = find_route(name, options).filter(|_| !name.starts_with("script:"));
    found.is_some_and(|Found { route, model, .. }| {
        let abilities = options.catalog.entry(route.name(), model).abilities;
        abilities.template.tools == Some(false)
    })
}

/// Returns whether the server of the model `name` is a program on the user's machine or in the user's network. If it has one
/// model, that answers for any name.
pub fn is_near(name: &str, options: &Options<'_>) -> bool {
    let found = find_route(name, options).filter(|_| !name.starts_with("script:"));
    found.is_some_and(|found| found.route.is_near())
}

/// Returns whether answers of the model `name` may say what they cost, as those of gateways do; no vendor's do.
pub fn may_report_cost(name: &str, options: &Options<'_>) -> bool {
    let found = find_route(name, options).filter(|_| !name.starts_with("script:"));
    found.is_some_and(|found| found.route.may_report_cost())
}

/// Returns the names of the servers that are set up (those of the settings, and the known ones with an address or a key) and
/// have a list of models.
pub fn configured(options: &Options<'_>) -> Vec<String> {
    let known = presets::servers().map(|preset| preset.name.as_str());
    let known = known.filter(|name| !options.servers.contains_key(*name));
    let names = known.chain(options.servers.keys().map(String::as_str));
    let has_list = |route: Route<'_>| route.is_configured() && route.list() != List::None;
    let listed = names.filter(|name| Route::to(name, options).is_some_and(has_list));
    listed.map(str::to_owned).collect()
}

/// Asks the server called `server` for its models.
pub async fn list(server: &str, options: &Options<'_>) -> Result<Listing, ProviderError> {
    let route = Route::to(server, options).ok_or_else(|| {
        let message = format!("no server is named `{server}`");
        ProviderError::new(ErrorClass::InvalidRequest, message)
    })?;
    listing::fetch(route.server()?, route.list(), route.name()).await
}

/// Adds to the list of a server on the user's own machine what it says of the windows of its models elsewhere.
pub async fn complete(listing: &mut Listing, options: &Options<'_>) {
    let server = listing.server.clone();
    let server = Route::to(&server, options).and_then(|route| route.server().ok());
    if let Some((server, _)) = server {
        listing::complete(&server, listing).await;
    }
}

/// The server of a model.
struct Found<'a> {
    route: Route<'a>,
    /// The model's name there.
    model: &'a str,
    /// Whether the name or a list says that the server has it.
    is_named: bool,
}

/// The server of the model `name`, and the model's name there.
fn route<'a>(
    name: &'a str,
    options: &'a Options<'a>,
) -> Result<(Route<'a>, &'a str), ProviderError> {
    let found = find_route(name, options).ok_or_else(|| unknown_model(name, options))?;
    Ok((found.route, found.model))
}

/// The server that the name says, or whose list has the model, or the one that is configured for all models (users of
/// gateways name models of other vendors), or the vendor of the name's family, if its key is set or the
/// catalogue knows the name.
fn find_route<'a>(name: &'a str, options: &'a Options<'a>) -> Option<Found<'a>> {
    let name = options.catalog.resolve(without_window(name));
    let (server, model) = match name.split_once('/') {
        None if name.starts_with("claude-") => ("anthropic", name),
        None => ("", name),
        Some(parts) => parts,
    };
    let of = |server, model, is_named| {
        let route = Route::to(server, options)?;
        Some(Found {
            route,
            model,
            is_named,
        })
    };
    let configured = route::configured(options);
    let listing = || {
        let servers = || options.catalog.servers_with(name);
        let configured = configured.filter(|configured| servers().any(|it| it == *configured));
        let found = configured.and_then(|server| of(server, name, true));
        found.or_else(|| servers().find_map(|server| of(server, name, true)))
    };
    let named = || of(server, model, true);
    { named() }
        .filter(|named| named.route.is_meant())
        .or_else(listing)
        .or_else(|| of(configured?, name, false))
        .or_else(named)
        .or_else(|| {
            let vendor = of(&Preset::of_family(name)?.name, name, true)?;
            let is_known = || options.catalog.models().any(|(known, _)| known == name);
            (vendor.route.is_configured() || is_known()).then_some(vendor)
        })
}

/// Least similarity of a name that is suggested.
const NEAR: f32 = 0.6;

/// Returns the names of models that are most like `name`, at most three.
pub fn nearest<'a>(name: &str, catalog: &'a Catalog) -> Vec<&'a str> {
    let mut known: Vec<&str> = catalog.aliases().map(|(alias, _)| alias).collect();
    known.extend(catalog.models().map(|(model, _)| model));
    ah_diff::nearest(&name.to_lowercase(), &known, 3, NEAR)
}

/// Returns the short name that `name` was probably meant to be. A name with a number or a server may be one that is newer than
/// all lists.
pub fn meant<'a>(name: &str, options: &Options<'a>) -> Option<&'a str> {
    if name.contains(|c: char| c.is_ascii_digit() || c == '/' || c == ':') {
        return None;
    }
    let is_short = |name: &&str| options.catalog.aliases().any(|(alias, _)| alias == *name);
    if is_short(&name) {
        return None;
    }
    nearest(name, options.catalog).into_iter().find(is_short)
}

fn unknown_model(name: &str, options: &Options<'_>) -> ProviderError {
    let named: String = options
        .servers
        .keys()
        .map(|name| format!("`{name}/NAME`, "))
        .collect();
    let near: Vec<_> = { nearest(name, options.catalog).into_iter() }
        .map(|name| format!("`{name}`"))
        .collect();
    let near = match near.as_slice() {
        [] => String::new(),
        near => format!("did you mean {}? ", near.join(" or ")),
    };
    ProviderError {
        hint: Some(format!(
            "{near}known are `fable`, `opus`, `sonnet`, `haiku`, a name that begins with `claude-`, {named}`anthropic/NAME`, \
             `litellm/NAME`, `openai/NAME`, `openai-responses/NAME`, `ollama/NAME`, `script:PATH` and `script:demo`"
        )),
        ..ProviderError::new(
            ErrorClass::ModelNotFound,
            format!("no model is named `{name}`"),
        )
    }
}
