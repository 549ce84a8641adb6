//! The models that a server says it has, with their limits and prices, as a catalogue. Each kind of server has a list of
//! its own; what a list says of a model is read in `facts`.

mod facts;
mod local;

use ah_conversation::{ErrorClass, ProviderError};
use bytes::Bytes;
use reqwest::header::HeaderMap;
use serde::Deserialize as _;
use serde_json::{Map, Value, json};

use crate::abilities::Template;
use crate::anthropic;
use crate::auth::AUTHORIZATION;
use crate::near::is_near;
use crate::presets::List;
use crate::server::{Server, address};

/// Most pages of a list that are read.
const MAX_PAGES: usize = 50;

/// A server's list of models.
#[derive(Debug, Clone, PartialEq)]
pub struct Listing {
    /// Name of the server.
    pub server: String,
    /// Address of the list.
    pub source: String,
    /// What it says of each model, by the model's name there, in the form of a catalogue.
    pub models: Map<String, Value>,
}

impl Listing {
    /// Returns the list as a file of the catalogue; `date` is that of today, `YYYY-MM-DD`.
    pub fn to_catalogue(&self, date: &str) -> Value {
        let named =
            |(name, facts): (&String, &Value)| (format!("{}/{name}", self.server), facts.clone());
        let models: Map<_, _> = self.models.iter().map(named).collect();
        json!({"source": self.source, "date": date, "models": models})
    }
}

/// Asks the server called `name` for its models, whose list has the form `list`. The beta is that of its key.
pub(crate) async fn fetch(
    (server, beta): (Server, Option<&'static str>),
    list: List,
    name: &str,
) -> Result<Listing, ProviderError> {
    let (source, models) = of_server(server, beta, list, name).await?;
    if models.is_empty() {
        let message = format!("the list of models at {source} is empty");
        return Err(ProviderError::new(ErrorClass::Protocol, message));
    }
    Ok(Listing {
        server: name.to_owned(),
        source,
        models,
    })
}

/// Adds to the list of `server` the windows that the program says elsewhere, if it runs on the user's own machine.
pub(crate) async fn complete(server: &Server, listing: &mut Listing) {
    if is_near(&server.base_url) {
        local::complete(server, &mut listing.models).await;
    }
}

/// A server that is asked for the window of one model.
#[derive(Clone)]
pub(crate) struct WindowSource {
    server: Server,
    beta: Option<&'static str>,
    list: List,
    model: String,
}

/// What a server says of a model.
pub(crate) struct Said {
    /// Its context window.
    pub(crate) window: Option<u64>,
    /// What its chat template can do, as far as that is said.
    pub(crate) template: Option<Template>,
    /// Whether the server can tell how far it has read a request.
    pub(crate) tells_progress: bool,
}

impl WindowSource {
    /// A source of the window of the model that the server calls `model`.
    pub(crate) fn new(
        (server, beta): (Server, Option<&'static str>),
        list: List,
        model: &str,
    ) -> Self {
        Self {
            server,
            beta,
            list,
            model: model.to_owned(),
        }
    }

    /// Asks for the window, and for what the chat template can do. A list with one model is about that, whatever name it is called
    /// by.
    pub(crate) async fn ask(self) -> Said {
        let Self { server, beta, .. } = self;
        let listed = of_server(server.clone(), beta, self.list, "").await;
        let mut models = listed.map_or_else(|_| Map::new(), |(_, models)| models);
        if models.is_empty() {
            models.insert(self.model.clone(), json!({}));
        }
        let is_llama_cpp = is_near(&server.base_url) && local::complete(&server, &mut models).await;
        let only = || models.values().next().filter(|_| models.len() == 1);
        let facts = models.get(&self.model).or_else(only);
        let of_template = |facts: &Value| Template::deserialize(&facts["template"]).ok();
        Said {
            window: facts.and_then(|facts| facts["context_window"].as_u64()),
            template: facts.and_then(of_template),
            tells_progress: is_llama_cpp,
        }
    }
}

/// The list of `server`, and its address. `name` is for errors.
async fn of_server(
    server: Server,
    beta: Option<&'static str>,
    list: List,
    name: &str,
) -> Result<(String, Map<String, Value>), ProviderError> {
    match list {
        List::Messages => of_messages_api(server, beta).await,
        List::Ollama => of_ollama(server).await,
        List::Models => of_chat(server, false).await,
        List::Litellm => of_chat(server, true).await,
        List::None => {
            let message = format!("`{name}` has no list of models");
            Err(ProviderError::new(ErrorClass::InvalidRequest, message))
        }
    }
}

/// The list of the Messages API, which comes in pages.
async fn of_messages_api(
    server: Server,
    beta: Option<&'static str>,
) -> Result<(String, Map<String, Value>), ProviderError> {
    let base = anthropic::address(&server.base_url).replace("/messages", "/models");
    let mut models = Map::new();
    let mut url = format!("{base}?limit=1000");
    for _ in 0..MAX_PAGES {
        let headers = anthropic::version(beta);
        let endpoint = { server.clone() }.endpoint(&url, anthropic::KEY_HEADER, headers)?;
        let page = endpoint.fetch(None).await?;
        models.extend(facts::of_list(&page));
        match (page["has_more"].as_bool(), page["last_id"].as_str()) {
            (Some(true), Some(last)) => url = format!("{base}?limit=1000&after_id={last}"),
            _ => break,
        }
    }
    Ok((base, models))
}

/// The list of a server of chat completions. A gateway may be LiteLLM, whose own list has limits and prices.
async fn of_chat(
    server: Server,
    may_be_litellm: bool,
) -> Result<(String, Map<String, Value>), ProviderError> {
    let base = server.base_url.trim().trim_end_matches('/');
    let base = ["/chat/completions", "/responses"]
        .iter()
        .find_map(|path| base.strip_suffix(path))
        .unwrap_or(base)
        .to_owned();
    if may_be_litellm {
        let url = address(&base, "model/info");
        let endpoint = server
            .clone()
            .endpoint(&url, AUTHORIZATION, HeaderMap::new())?;
        if let Ok(list) = endpoint.fetch(None).await {
            let models = facts::of_litellm(&list);
            if !models.is_empty() {
                return Ok((url, models));
            }
        }
    }
    let url = address(&base, "models");
    let endpoint = { server.clone() }.endpoint(&url, AUTHORIZATION, HeaderMap::new())?;
    let list = endpoint.fetch(None).await?;
    let models = facts::of_list(&list);
    Ok((url, models))
}

/// Ollama's list, and what it says of each model.
async fn of_ollama(server: Server) -> Result<(String, Map<String, Value>), ProviderError> {
    let base = server.base_url.trim().trim_end_matches('/');
    let base = base.strip_suffix("/v1").unwrap_or(base).to_owned();
    let source = format!("{base}/api/tags");
    let endpoint = |url: &str| {
        server
            .clone()
            .endpoint(url, AUTHORIZATION, HeaderMap::new())
    };
    let list = endpoint(&source)?.fetch(None).await?;
    let show = endpoint(&format!("{base}/api/show"))?;
    let mut models = Map::new();
    for name in list["models"].as_array().into_iter().flatten() {
        let Some(name) = name["name"].as_str() else {
            continue;
        };
        let question = json!({"model": name}).to_string();
        let about = show.fetch(Some(vec![Bytes::from(question)])).await?;
        models.extend(facts::of_ollama(&about).map(|facts| (name.to_owned(), facts)));
    }
    Ok((source, models))
}
