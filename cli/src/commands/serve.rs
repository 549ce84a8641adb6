//! `ah serve`: sessions of this folder over HTTP, for programs on this machine.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use ah::http_server::{Token, new_token, serve_http};
use ah::mcp_server::ClientRequest;
use ah_config::overlay::Overlay;
use ah_config::{Config, Error, SERVED};
use ah_terminal::document;
use ah_terminal::signals::{Signals, leave};
use serde_json::json;
use tokio::net::TcpListener;

use super::output::print;
use super::runtime::runtime;
use crate::args::options::Options;

/// Serves until it is interrupted; returns the exit code.
///
/// # Errors
///
/// If the port is taken, or the settings are not valid for runs.
pub fn run(config: &Config, options: &Options, port: u16) -> Result<u8, Error> {
    let runtime = runtime()?;
    let code = runtime.block_on(serve(config, options, port));
    // Processes started by tools may still be ending.
    ah_process::finish_all();
    runtime.shutdown_background();
    code
}

async fn serve(config: &Config, options: &Options, port: u16) -> Result<u8, Error> {
    let signals = Signals::listen(leave)
        .map_err(|error| Error::failure(format!("cannot listen to signals: {error}")))?;
    let listener = TcpListener::bind(("127.0.0.1", port)).await;
    let listener = listener.map_err(|error| {
        Error::failure(format!("cannot use port {port}: {error}"))
            .hint("`--port` names another; 0 takes a free one")
    })?;
    let address = listener
        .local_addr()
        .map_err(|error| Error::failure(error.to_string()))?;
    let (url, text) = (format!("http://{address}"), new_token()?);
    let token = Token::new(&text);
    let known = Known::write(config, &url, &text)?;
    let page = format!("{url}/{}/#{text}", token.key());
    print(&format!("{url}\ntoken: {text}\npage: {page}\n"))?;
    ah_terminal::note(&format!(
        "serving the sessions of this folder; `{}` has both, for you only; end with Ctrl-C",
        known.0.display()
    ));
    let request = ClientRequest {
        overrides: options.overrides()?,
        config,
        overlay: Overlay::of_process().unwrap_or_default(),
        stop: signals.token(),
        warn: Arc::new(ah_terminal::warn),
        written: document::markdown,
    };
    serve_http(listener, token, request).await?;
    Ok(0)
}

/// The file, which is there as long as the server is.
struct Known(PathBuf);

impl Known {
    fn write(config: &Config, url: &str, token: &str) -> Result<Self, Error> {
        let home = config.home.as_ref().ok_or_else(|| {
            Error::failure("there is no place for the token").hint("set HOME or AH_HOME")
        })?;
        let path = home.join(SERVED);
        let failed = |error: std::io::Error| {
            Error::failure(format!("cannot write `{}`: {error}", path.display()))
        };
        fs::create_dir_all(home).map_err(failed)?;
        let draft = path.with_extension(format!("{}", std::process::id()));
        // Never a file that somebody else may read, or that is there already.
        let _ = fs::remove_file(&draft);
        let mut options = OpenOptions::new();
        let file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&draft);
        let mut file = file.map_err(failed)?;
        let text = json!({"url": url, "token": token, "pid": std::process::id()});
        file.write_all(format!("{text}\n").as_bytes())
            .and_then(|()| fs::rename(&draft, &path))
            .map_err(failed)?;
        Ok(Self(path))
    }
}

impl Drop for Known {
    fn drop(&mut self) {
        // Another server may have written it since.
        let own = format!("\"pid\":{}", std::process::id());
        if fs::read_to_string(&self.0).is_ok_and(|text| text.contains(&own)) {
            // What is left is of no use to anybody.
            let _ = fs::remove_file(&self.0);
        }
    }
}
