//! The `web_search` tool. It is assembled with the model's own server or with a search engine that the user has set.

use std::time::{Duration, Instant};

use ah_conversation::{
    Access, Context, DisplayKey, Findings, Hit, Input, Interface, ModelUsage, Output, Tool,
    ToolExtras, ToolSpec, ToolUse, WebSearch, json,
};
use async_trait::async_trait;
use reqwest::{RequestBuilder, Url};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::get::{LONGEST, explain};
use super::quote::introduced;
use super::{Search, Web};
use crate::arguments;

/// Limit for the pages in a result.
const PAGES: usize = 20;
/// Time limit for a search engine.
const PATIENCE: Duration = Duration::from_secs(30);

/// The `web_search` tool.
pub struct SearchTool {
    spec: ToolSpec,
    web: Web,
    search: Search,
}

#[derive(Deserialize, JsonSchema)]
struct Arguments {
    #[schemars(length(min = 2))]
    query: String,
    #[serde(default)]
    allowed_domains: Vec<String>,
    #[serde(default)]
    blocked_domains: Vec<String>,
}

impl SearchTool {
    /// Returns the tool, which searches with `search`.
    pub fn new(search: Search, web: Web, interface: Interface) -> Self {
        let name = interface.tool_name("web_search");
        let schema = arguments::schema::<Arguments>();
        let spec = ToolSpec {
            key: Some(DisplayKey::Text("query".into())),
            ..arguments::spec(&name, include_str!("search.md"), schema)
        };
        Self { spec, web, search }
    }

    async fn find(&self, wanted: &WebSearch) -> Result<Findings, String> {
        match &self.search {
            Search::Model(provider) => {
                let search = provider.extras().search;
                let search = search
                    .ok_or("this model's server does not search")?
                    .search(wanted);
                search.await.map_err(|error| error.to_string())
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

    /// Returns the address of a query. Since the user has set it, private addresses are permitted; a confined run still has
    /// to be permitted to reach it.
    fn engine(&self, address: &str, asked: &[(&str, &str)]) -> Result<Url, String> {
        let mut url = Url::parse(address)
            .map_err(|error| format!("`{address}` is not an address: {error}"))?;
        self.web.check_reach(&url)?;
        url.query_pairs_mut().extend_pairs(asked);
        Ok(url)
    }

    fn request(&self, url: &Url) -> Result<RequestBuilder, String> {
        let client =
            ah_http::client(&self.web.http, url.as_str()).map_err(|error| error.to_string())?;
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

    fn extras(&self) -> ToolExtras<'_> {
        ToolExtras::default()
    }

    async fn run(&self, call: &ToolUse, _: &Context) -> Output {
        let Arguments {
            query,
            allowed_domains,
            blocked_domains,
        } = match arguments::parse(call) {
            Ok(arguments) => arguments,
            Err(error) => return Output::error(error),
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
            Ok(found) => report(call, &wanted, &found, started.elapsed()),
            Err(error) => Output::error(format!("the search failed: {error}")),
        }
    }
}

fn report(call: &ToolUse, wanted: &WebSearch, found: &Findings, time: Duration) -> Output {
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
    let pages: Vec<_> = found
        .hits
        .iter()
        .take(PAGES)
        .map(|hit| json!({ "title": hit.title, "url": hit.address }))
        .collect();
    let mut results = vec![json!({ "tool_use_id": call.id.as_str(), "content": pages })];
    if !found.words.is_empty() {
        results.push(found.words.as_str().into());
    }
    let mut details = json!({
        "query": wanted.query, "results": results, "durationSeconds": time.as_secs_f64(),
    });
    ModelUsage::write_into(&mut details, found.spent.as_slice());
    Output::text(text).with_details(details)
}

async fn ask(url: &Url, request: RequestBuilder) -> Result<Value, String> {
    let mut response = request.send().await.map_err(|error| explain(url, &error))?;
    let status = response.status();
    if !status.is_success() {
        return Err(format!(
            "{} answers {status}",
            url.host_str().unwrap_or_default()
        ));
    }
    let mut body = Vec::new();
    while let Some(piece) = response
        .chunk()
        .await
        .map_err(|error| explain(url, &error))?
    {
        body.extend_from_slice(&piece);
        if body.len() > LONGEST {
            return Err(format!("the answer has more than {LONGEST} bytes"));
        }
    }
    json::from_slice(&body).map_err(|error| format!("the answer is not JSON: {error}"))
}

/// Returns the query for a search engine, with the permitted domains as a part of it.
fn query(wanted: &WebSearch) -> String {
    let sites: Vec<_> = wanted
        .allowed_domains
        .iter()
        .map(|domain| format!("site:{domain}"))
        .collect();
    if sites.is_empty() {
        wanted.query.clone()
    } else {
        format!("{} ({})", wanted.query, sites.join(" OR "))
    }
}

/// Returns the pages in a search engine's answer, whose snippets are in the field `summary`. Pages of other domains than
/// the wanted ones are dropped, since engines do not guarantee that there are none.
fn found(results: &Value, summary: &str, wanted: &WebSearch) -> Findings {
    let text = |result: &Value, name: &str| {
        let text = result[name].as_str().unwrap_or_default();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let hits = results
        .as_array()
        .into_iter()
        .flatten()
        .map(|result| Hit {
            title: text(result, "title"),
            address: text(result, "url"),
            snippet: text(result, summary),
        })
        .filter(|hit| is_wanted(&hit.address, wanted))
        .collect();
    Findings {
        hits,
        ..Findings::default()
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
    fn pages_of_unwanted_domains_are_dropped() {
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
