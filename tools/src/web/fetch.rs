//! The `web_fetch` tool: answers a question from a web page.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ah_conversation::{
    Access, Context, DisplayKey, Input, Interface, ModelUsage, Output, Tool, ToolExtras, ToolSpec,
    ToolUse, Truncation,
};
use async_trait::async_trait;
use parking_lot::Mutex;
use reqwest::{StatusCode, Url};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::cache::Cache;
use super::get::{Fetched, WebResponse};
use super::page::{self, Page};
use super::quote::introduced;
use super::{Web, address, reader};
use crate::arguments::{self, Count};

/// Number of characters of a page that are read at once: by a reader, and by the model itself.
const FOR_READER: usize = 100_000;
const FOR_MODEL: usize = 30_000;
/// Truncation that never applies: pages are cut to the lengths above.
const TRUNCATION: Truncation = Truncation {
    bytes: 200_000,
    lines: None,
};

/// The `web_fetch` tool.
pub struct WebFetch {
    spec: ToolSpec,
    web: Web,
    cache: Mutex<Cache>,
}

#[derive(Deserialize, JsonSchema)]
struct Arguments {
    url: String,
    prompt: String,
    offset: Option<Count>,
}

impl WebFetch {
    /// Returns the tool, which reaches the web by `web`.
    pub fn new(web: Web, interface: Interface) -> Self {
        let name = interface.tool_name("web_fetch");
        let schema = arguments::schema::<Arguments>();
        let spec = ToolSpec {
            truncation: TRUNCATION,
            key: Some(DisplayKey::Text("url".into())),
            ..arguments::spec(&name, include_str!("fetch.md"), schema)
        };
        Self {
            spec,
            web,
            cache: Mutex::default(),
        }
    }

    async fn fetch(&self, arguments: &Arguments) -> Result<Output, String> {
        let started = Instant::now();
        let url = self.web.address(&arguments.url)?;
        let page = match self.cached(&url) {
            Some(page) => page,
            None => match self.web.get(&url).await? {
                Fetched::Response(response) => self.keep(&url, read(&url, response).await?),
                Fetched::Moved { status, to } => return Ok(moved(&url, status, &to)),
            },
        };
        let report = self.report(&url, &page, arguments).await;
        let (code, code_text) = &page.status;
        let mut details = json!({
            "bytes": page.bytes, "code": code, "codeText": code_text, "result": report.body,
            "durationMs": millis(started.elapsed()), "url": url.as_str(),
        });
        ModelUsage::write_into(&mut details, report.share.as_slice());
        Ok(Output::text(report.text).with_details(details))
    }

    async fn report(&self, url: &Url, page: &Page, arguments: &Arguments) -> PageReport {
        let reader = self.web.reader.as_deref();
        let size = if reader.is_some() {
            FOR_READER
        } else {
            FOR_MODEL
        };
        let offset = arguments.offset.map_or(0, |Count(at)| at);
        let window = PageWindow::new(&page.text, offset, size);
        let mut notes = window.notes(page.is_cut);
        let Some(reader) = reader.filter(|_| !window.text.is_empty()) else {
            return PageReport::new(url.as_str(), window.text, &notes, None);
        };
        match reader::answer(reader, url.as_str(), window.text, &arguments.prompt).await {
            Ok((answer, share)) => {
                let whose = format!("{} of {url}", reader.model().name);
                let share = Some(share).filter(|share| share.usage.total() > 0);
                PageReport::new(&whose, &answer, &notes, share)
            }
            Err(error) => {
                let window = PageWindow::new(&page.text, offset, FOR_MODEL);
                let model = &reader.model().name;
                notes = vec![format!("{model} could not be asked to read it: {error}")];
                notes.extend(window.notes(page.is_cut));
                PageReport::new(url.as_str(), window.text, &notes, None)
            }
        }
    }

    fn cached(&self, url: &Url) -> Option<Arc<Page>> {
        let mut cache = self.cache.lock();
        cache.get(url.as_str(), Instant::now())
    }

    fn keep(&self, url: &Url, page: Page) -> Arc<Page> {
        let page = Arc::new(page);
        let mut cache = self.cache.lock();
        cache.put(url.to_string(), page.clone(), Instant::now());
        page
    }
}

#[async_trait]
impl Tool for WebFetch {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, input: &Input) -> Vec<Access> {
        // An invalid address is not fetched.
        let url = self.web.address(input.text("url").unwrap_or_default());
        url.iter()
            .map(|url| Access::Host(address::host(url)))
            .collect()
    }

    fn extras(&self) -> ToolExtras<'_> {
        ToolExtras::default()
    }

    async fn run(&self, call: &ToolUse, _: &Context) -> Output {
        match arguments::parse(call) {
            Ok(arguments) => self.fetch(&arguments).await.unwrap_or_else(Output::error),
            Err(error) => Output::error(error),
        }
    }
}

/// Result of a fetch.
struct PageReport {
    /// The text for the model: notes, and the quoted body.
    text: String,
    /// Text of the page, or the reader's answer.
    body: String,
    /// Tokens and cost of the reader.
    share: Option<ModelUsage>,
}

impl PageReport {
    fn new(source: &str, body: &str, notes: &[String], share: Option<ModelUsage>) -> Self {
        Self {
            text: format!("{}{}", lines(notes), introduced(source, body)),
            body: body.to_owned(),
            share,
        }
    }
}

/// Reads the page in a response; any status but success is an error.
async fn read(url: &Url, response: WebResponse) -> Result<Page, String> {
    let WebResponse {
        status,
        content_type,
        body,
        is_cut,
    } = response;
    if !status.is_success() {
        return Err(format!("cannot fetch {url}: the server answers {status}"));
    }
    let bytes = body.len();
    // It may take seconds.
    let reading = tokio::task::spawn_blocking(move || page::read(&body, content_type.as_deref()));
    let page = match reading.await {
        Ok(page) => page.map_err(|kind| {
            format!("{url} is not text: {kind}, {bytes} bytes. To work with it, download it with a command.")
        })?,
        Err(_) => return Err(format!("{url} could not be read")),
    };
    let reason = status.canonical_reason().unwrap_or_default();
    Ok(Page {
        is_cut: page.is_cut || is_cut,
        status: (status.as_u16(), reason.to_owned()),
        ..page
    })
}

fn moved(url: &Url, status: StatusCode, to: &Url) -> Output {
    let text = format!(
        "{url} has moved to another host ({status}):\n{to}\nNothing was fetched from there. To read it, fetch that address."
    );
    let details = json!({
        "bytes": 0, "code": status.as_u16(), "codeText": status.canonical_reason().unwrap_or_default(),
        "result": text, "durationMs": 0, "url": url.as_str(),
    });
    Output::text(text).with_details(details)
}

/// The part of a text that is read, in characters.
struct PageWindow<'a> {
    text: &'a str,
    start: usize,
    end: usize,
    /// Length of the whole text.
    all: usize,
}

impl<'a> PageWindow<'a> {
    fn new(text: &'a str, offset: u64, size: usize) -> Self {
        let all = text.chars().count();
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(all);
        let end = start.saturating_add(size).min(all);
        let byte = |at: usize| {
            text.char_indices()
                .nth(at)
                .map_or(text.len(), |(byte, _)| byte)
        };
        Self {
            text: &text[byte(start)..byte(end)],
            start,
            end,
            all,
        }
    }

    fn notes(&self, is_cut: bool) -> Vec<String> {
        let Self {
            start, end, all, ..
        } = self;
        let mut notes = Vec::new();
        if self.text.is_empty() {
            notes.push("There is no text here.".to_owned());
        } else if (*start, end) != (0, all) {
            notes.push(format!(
                "These are the characters from {start} to {end} of {all}."
            ));
        }
        if end < all {
            notes.push(format!("To read on, ask again with `offset` {end}."));
        } else if is_cut {
            notes.push("The page is longer than what was read.".to_owned());
        }
        notes
    }
}

fn lines(notes: &[String]) -> String {
    notes.iter().map(|note| format!("{note}\n")).collect()
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_read_in_parts() {
        let text = "äbcdef";
        for (offset, size, is_cut, part, notes) in [
            (0, 10, false, "äbcdef", ""),
            (
                0,
                10,
                true,
                "äbcdef",
                "The page is longer than what was read.",
            ),
            (
                0,
                2,
                false,
                "äb",
                "These are the characters from 0 to 2 of 6. To read on, ask again with `offset` 2.",
            ),
            (
                2,
                2,
                true,
                "cd",
                "These are the characters from 2 to 4 of 6. To read on, ask again with `offset` 4.",
            ),
            (
                4,
                2,
                false,
                "ef",
                "These are the characters from 4 to 6 of 6.",
            ),
            (u64::MAX, 2, false, "", "There is no text here."),
        ] {
            let window = PageWindow::new(text, offset, size);
            assert_eq!(
                (window.text, window.notes(is_cut).join(" ").as_str()),
                (part, notes)
            );
        }
    }
}
