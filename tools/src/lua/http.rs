//! The module `http`: requests through the clients of `ah-http`. The result is always a table, whose `ok` tells whether
//! the request succeeded.

use std::time::Duration;

use ah_process::{Authority, ConnectionPermit, Egress, Sandbox};
use mlua::{Lua, LuaString, Table};
use reqwest::header::{
    AUTHORIZATION, COOKIE, HeaderMap, HeaderName, HeaderValue, LOCATION, PROXY_AUTHORIZATION,
};
use reqwest::{Client, Method, Response, StatusCode, Url};

use super::leash::Leash;
use super::module::Module;
use super::surroundings::surroundings;
use super::wait::block_on;

/// Maximum number of redirects.
const MAX_REDIRECTS: usize = 5;
/// Default timeout of a request, in milliseconds.
const DEFAULT_TIMEOUT: u64 = 60_000;

/// Builds the module.
pub(super) fn build(lua: &Lua) -> mlua::Result<Table> {
    let module = lua.create_table()?;
    let get = |lua: &Lua, (address, options): (String, Option<Table>)| {
        fetch(lua, "GET", &address, None, options)
    };
    module.function(&["fetch", "request", "get"], lua.create_function(get)?)?;
    let post = |lua: &Lua, (address, body, options): (String, Option<LuaString>, Option<Table>)| {
        fetch(lua, "POST", &address, body, options)
    };
    module.function(&["post"], lua.create_function(post)?)?;
    Ok(module)
}

/// A request to be sent.
struct Request {
    method: Method,
    url: Url,
    headers: HeaderMap,
    body: Vec<u8>,
    timeout: Duration,
}

/// A response, read whole.
struct FetchedResponse {
    status: StatusCode,
    url: Url,
    headers: HeaderMap,
    body: Vec<u8>,
}

fn fetch(
    lua: &Lua,
    method: &str,
    address: &str,
    body: Option<LuaString>,
    options: Option<Table>,
) -> mlua::Result<Table> {
    let options = match options {
        Some(options) => options,
        None => lua.create_table()?,
    };
    let method: Option<String> = options
        .get::<Option<String>>("method")?
        .or_else(|| Some(method.to_owned()));
    let body = body.or(options.get("body")?);
    let request = Request {
        method: method
            .and_then(|method| Method::from_bytes(method.to_uppercase().as_bytes()).ok())
            .ok_or_else(|| mlua::Error::runtime("`method` is not an HTTP method"))?,
        url: match Url::parse(address) {
            Ok(url) => url,
            Err(error) => return failed(lua, &format!("`{address}` is not an address: {error}")),
        },
        headers: headers(options.get("headers")?)?,
        body: body.map_or_else(Vec::new, |body| body.as_bytes().to_vec()),
        timeout: Duration::from_millis(
            options
                .get::<Option<u64>>("timeout_ms")?
                .unwrap_or(DEFAULT_TIMEOUT),
        ),
    };
    let limit = Leash::of(lua)?.memory();
    let around = surroundings(lua)?;
    let sandbox = around.shell.sandbox.as_deref();
    match block_on(lua, request.send(&around.http, sandbox, limit))? {
        Ok(answer) => answered(lua, answer),
        Err(fault) => failed(lua, &fault),
    }
}

fn headers(given: Option<Table>) -> mlua::Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    for pair in given.iter().flat_map(Table::pairs::<String, String>) {
        let (name, value) = pair?;
        let header = HeaderName::from_bytes(name.as_bytes())
            .ok()
            .zip(HeaderValue::from_str(&value).ok());
        let Some((name, value)) = header else {
            return Err(mlua::Error::runtime(format!(
                "`{name}` is not a valid header, or its value is not"
            )));
        };
        headers.insert(name, value);
    }
    Ok(headers)
}

fn answered(lua: &Lua, answer: FetchedResponse) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.set("ok", answer.status.is_success())?;
    table.set("status", answer.status.as_u16())?;
    table.set("url", answer.url.as_str())?;
    let headers = lua.create_table()?;
    for (name, value) in &answer.headers {
        headers.set(name.as_str(), lua.create_string(value.as_bytes())?)?;
    }
    table.set("headers", headers)?;
    table.set("body", lua.create_string(answer.body)?)?;
    if !answer.status.is_success() {
        table.set("error", format!("the server answered {}", answer.status))?;
    }
    Ok(table)
}

fn failed(lua: &Lua, fault: &str) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.set("ok", false)?;
    table.set("error", fault)?;
    Ok(table)
}

/// Returns options that use only the sandbox's proxy, as confined commands do.
fn through(sandbox: &Sandbox, options: &ah_http::Options) -> Result<ah_http::Options, String> {
    let served = sandbox.proxy_address();
    let address =
        served.map_err(|error| format!("the sandbox's proxy is not available: {error}"))?;
    let proxy = Some(format!("http://{address}"));
    Ok(ah_http::Options {
        https_proxy: proxy.clone(),
        http_proxy: proxy,
        no_proxy: None,
        ..options.clone()
    })
}

impl Request {
    async fn send(
        mut self,
        options: &ah_http::Options,
        sandbox: Option<&Sandbox>,
        limit: usize,
    ) -> Result<FetchedResponse, String> {
        let confined = sandbox
            .map(|sandbox| through(sandbox, options))
            .transpose()?;
        let options = confined.as_ref().unwrap_or(options);
        for _ in 0..=MAX_REDIRECTS {
            let _pass = match sandbox {
                // The proxy would refuse it as well, but its reason would be lost.
                Some(sandbox) => Some(self.permitted(sandbox).await?),
                None => None,
            };
            let client =
                ah_http::client(options, self.url.as_str()).map_err(|error| error.to_string())?;
            let response = self.once(&client).await.map_err(|error| reason(&error))?;
            match self.redirected(&response) {
                Some(url) => self.follow(url, response.status()),
                None => return read(response, limit).await,
            }
        }
        Err(format!(
            "the server redirects more than {MAX_REDIRECTS} times"
        ))
    }

    async fn permitted(&self, sandbox: &Sandbox) -> Result<ConnectionPermit, String> {
        let way = match self.url.scheme() {
            "https" => Egress::Tunnel,
            _ => Egress::Http,
        };
        let host = self.url.host_str().unwrap_or_default();
        let port = self.url.port_or_known_default().unwrap_or_default();
        let to = format!("{host}:{port}")
            .parse::<Authority>()
            .map_err(|error| error.to_string())?;
        sandbox.proxy().authorize(&to, way).await
    }

    async fn once(&self, client: &Client) -> reqwest::Result<Response> {
        let request = client
            .request(self.method.clone(), self.url.clone())
            .headers(self.headers.clone())
            .timeout(self.timeout);
        let request = if self.body.is_empty() {
            request
        } else {
            request.body(self.body.clone())
        };
        request.send().await
    }

    fn redirected(&self, response: &Response) -> Option<Url> {
        let location = response
            .headers()
            .get(LOCATION)
            .filter(|_| response.status().is_redirection())?;
        self.url.join(location.to_str().ok()?).ok()
    }

    /// Follows a redirect; another server does not get the credentials.
    fn follow(&mut self, url: Url, status: StatusCode) {
        if self.url.origin() != url.origin() {
            for name in [AUTHORIZATION, PROXY_AUTHORIZATION, COOKIE] {
                self.headers.remove(name);
            }
        }
        let keeps_method = matches!(
            status,
            StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT
        );
        if !keeps_method && self.method != Method::HEAD {
            self.method = Method::GET;
            self.body.clear();
        }
        self.url = url;
    }
}

async fn read(mut response: Response, limit: usize) -> Result<FetchedResponse, String> {
    let (status, url, headers) = (
        response.status(),
        response.url().clone(),
        response.headers().clone(),
    );
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(|error| reason(&error))? {
        body.extend_from_slice(&piece);
        if body.len() > limit {
            return Err(format!("the answer has more than {limit} bytes"));
        }
    }
    Ok(FetchedResponse {
        status,
        url,
        headers,
        body,
    })
}

/// Returns the text of an error and its causes, without the address, which may hold a secret.
fn reason(error: &reqwest::Error) -> String {
    let mut text = if error.is_timeout() {
        "the server did not answer in time".to_owned()
    } else {
        "the request failed".to_owned()
    };
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        text.push_str(&format!(": {error}"));
        source = error.source();
    }
    text
}
