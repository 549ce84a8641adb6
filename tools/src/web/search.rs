//! The `web_search` tool. Who searches is a matter of assembly: the model's own server, or an engine that the user has set.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ah_conversation::{
    Access, Context, DisplayKey, Findings, Hit, Input, Interface, Output, Provider, Tool, ToolSpec,
    ToolUse, Truncation, WebSearch,
};
use async_trait::async_trait;
use reqwest::{RequestBuilder, Url};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Web;
use super::get::{LONGEST, told};
use super::quote::introduced;

/// How many pages are told of.
const PAGES: usize = 20;
const PATIENCE: Duration = Duration::from_secs(30);
/// Where Brave's API is.
pub const BRAVE: &str = "https://api.search.brave.com/res/v1/web/search";

/// Who searches.
#[derive(Clone)]
pub enum Search {
    /// The server of a model, which can.
    Model(Arc<dyn Provider>),
    /// A server that answers as SearXNG does, at this address.
    Searxng(String),
    /// Brave's API at this address, with this key.
    Brave {
        /// Where it is.
        address: String,
        /// The key.
        key: String,
    },
}

/// The tool.
pub struct SearchTool {
    spec: ToolSpec,
    web: Web,
    search: Search,
}

#[derive(Deserialize)]
struct Arguments {
    query: String,
    #[serde(default)]
    allowed_domains: Vec<String>,
    #[serde(default)]
    blocked_domains: Vec<String>,
}

impl SearchTool {
    /// The tool, for searches by `search`.
    pub fn new(search: Search, web: Web, interface: Interface) -> Self {
        let domains = |which: &str| json!({ "type": "array", "items": { "type": "string" }, "description": which });
        let schema = json!({
            "type": "object",
            "properties": {
                "query": { "type": "string", "minLength": 2, "description": "What to search for" },
                "allowed_domains": domains("Only pages of these domains"),
                "blocked_domains": domains("No pages of these domains"),
            },
            "required": ["query"],
        });
        let spec = ToolSpec {
            name: interface.pick("web_search", "WebSearch").into(),
            description: include_str!("search.md").trim_end().into(),
            input_schema: Arc::new(schema),
            guidance: None,
            truncation: Truncation::DEFAULT,
            key: Some(DisplayKey::Text("query".into())),
        };
        Self { spec, web, search }
    }

    async fn find(&self, wanted: &WebSearch) -> Result<Findings, String> {
        match &self.search {
            Search::Model(provider) => {
                let search = provider.search(wanted);
                let search = search.ok_or("this model's server does not search")?;
                search.await.map_err(|fault| fault.to_string())
            }
            Search::Searxng(address) => {
                let url = self.engine(address, &[("q", &query(wanted)), ("format", "json")])?;
                let answer = ask(&url, self.request(&url)?).await?;
                Ok(found(&answer["results"], "content", wanted))
            }
            Search::Brave { address, key } => {
                let count = PAGES.to_string();
                let url = self.engine(address, &[("q", &query(wanted)), ("count", &count)])?;
                let request = self.request(&url)?.header("x-subscription-token", key);
                let answer = ask(&url, request).await?;
                Ok(found(&answer["web"]["results"], "description", wanted))
            }
        }
    }

    /// The user has set the address, so it may be anywhere; a confined run must reach it all the same.
    fn engine(&self, address: &str, asked: &[(&str, &str)]) -> Result<Url, String> {
        let mut url =
            Url::parse(address).map_err(|fault| format!("`{address}` is no address: {fault}"))?;
        self.web.reaches(&url)?;
        url.query_pairs_mut().extend_pairs(asked);
        Ok(url)
    }

    fn request(&self, url: &Url) -> Result<RequestBuilder, String> {
        let client = ah_http::client(&self.web.http, url.as_str());
        let client = client.map_err(|fault| fault.to_string())?;
        Ok(client.get(url.clone()).timeout(PATIENCE))
    }
}

#[async_trait]
impl Tool for SearchTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, _: &Input) -> Vec<Access> {
        vec![Access::Unknown]
    }

    async fn run(&self, call: &ToolUse, _: &Context) -> Output {
        let Arguments {
            query,
            allowed_domains,
            blocked_domains,
        } = match serde_json::from_value(call.input.to_value()) {
            Ok(arguments) => arguments,
            Err(fault) => return Output::error(format!("invalid input: {fault}")),
        };
        if !allowed_domains.is_empty() && !blocked_domains.is_empty() {
            return Output::error("give `allowed_domains` or `blocked_domains`, not both");
        }
        let wanted = WebSearch {
            query,
            allowed_domains,
            blocked_domains,
        };
        let started = Instant::now();
        match self.find(&wanted).await {
            Ok(found) => answer(call, &wanted, &found, started.elapsed()),
            Err(fault) => Output::error(format!("the search failed: {fault}")),
        }
    }
}

fn answer(call: &ToolUse, wanted: &WebSearch, found: &Findings, time: Duration) -> Output {
    let mut text = String::new();
    for (at, hit) in found.hits.iter().take(PAGES).enumerate() {
        text.push_str(&format!("{}. {}\n   {}\n", at + 1, hit.title, hit.address));
        if !hit.snippet.is_empty() {
            text.push_str(&format!("   {}\n", hit.snippet));
        }
    }
    if !found.words.trim().is_empty() {
        text.push_str(&format!("\n{}\n", found.words.trim()));
    }
    let text = match text.trim() {
        "" => "Nothing was found.".to_owned(),
        text => introduced("the search", text),
    };
    let pages = found.hits.iter().take(PAGES);
    let pages = pages.map(|hit| json!({ "title": hit.title, "url": hit.address }));
    let mut results =
        vec![json!({ "tool_use_id": call.id.as_str(), "content": pages.collect::<Vec<_>>() })];
    results.extend((!found.words.is_empty()).then(|| Value::from(found.words.clone())));
    Output::text(text).with_details(json!({
        "query": wanted.query, "results": results, "durationSeconds": time.as_secs_f64(),
    }))
}

async fn ask(url: &Url, request: RequestBuilder) -> Result<Value, String> {
    let mut response = request.send().await.map_err(|fault| told(url, &fault))?;
    let status = response.status();
    if !status.is_success() {
        return Err(format!(
            "{} answers {status}",
            url.host_str().unwrap_or_default()
        ));
    }
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(|fault| told(url, &fault))? {
        body.extend_from_slice(&piece);
        if body.len() > LONGEST {
            return Err(format!("the answer has more than {LONGEST} bytes"));
        }
    }
    serde_json::from_slice(&body).map_err(|fault| format!("the answer is no JSON: {fault}"))
}

/// The words for an engine, which knows domains as part of them.
fn query(wanted: &WebSearch) -> String {
    let sites: Vec<_> = wanted
        .allowed_domains
        .iter()
        .map(|domain| format!("site:{domain}"))
        .collect();
    match sites.is_empty() {
        true => wanted.query.clone(),
        false => format!("{} ({})", wanted.query, sites.join(" OR ")),
    }
}

/// The pages in an engine's answer, whose `summary` says what they hold; of the wanted domains alone, for engines treat
/// these as a wish.
fn found(results: &Value, summary: &str, wanted: &WebSearch) -> Findings {
    let text = |result: &Value, name: &str| {
        let text = result[name].as_str().unwrap_or_default();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let results = results.as_array().into_iter().flatten();
    let hits = results.map(|result| Hit {
        title: text(result, "title"),
        address: text(result, "url"),
        snippet: text(result, summary),
    });
    Findings {
        hits: hits.filter(|hit| is_wanted(&hit.address, wanted)).collect(),
        words: String::new(),
    }
}

fn is_wanted(address: &str, wanted: &WebSearch) -> bool {
    let Some(host) = Url::parse(address)
        .ok()
        .and_then(|url| url.host_str().map(str::to_owned))
    else {
        return false;
    };
    let is_of = |domain: &String| {
        let domain = domain
            .trim_start_matches("*.")
            .trim_matches('.')
            .to_ascii_lowercase();
        host == domain
            || host
                .strip_suffix(&domain)
                .is_some_and(|before| before.ends_with('.'))
    };
    let is_allowed = wanted.allowed_domains.is_empty() || wanted.allowed_domains.iter().any(is_of);
    is_allowed && !wanted.blocked_domains.iter().any(is_of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_unwanted_domains_do_not_count() {
        let list = |domains: &[&str]| domains.iter().map(|domain| (*domain).to_owned()).collect();
        for (allowed, blocked, address, is) in [
            (&[][..], &[][..], "https://a.com/x", true),
            (&["a.com"], &[], "https://a.com/x", true),
            (&["A.com"], &[], "https://www.a.com/x", true),
            (&["a.com"], &[], "https://ba.com/x", false),
            (&["a.com"], &[], "https://a.com.evil.org/", false),
            (&["b.org", "*.a.com"], &[], "https://x.a.com/", true),
            (&[], &["a.com"], "https://a.com/x", false),
            (&[], &["a.com"], "https://sub.a.com:8080/x", false),
            (&[], &["a.com"], "https://b.org/?a.com", true),
            (&[], &[], "no address", false),
        ] {
            let wanted = WebSearch {
                query: "q".to_owned(),
                allowed_domains: list(allowed),
                blocked_domains: list(blocked),
            };
            assert_eq!(
                is_wanted(address, &wanted),
                is,
                "{allowed:?} {blocked:?} {address}"
            );
        }
    }
}
