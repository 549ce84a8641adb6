//! The releases of the project's repository: whether there is a newer version, asked only with `--updates`, and the digests
//! of what was published.

use std::time::Duration;

use ah_config::Error;
use ah_conversation::{Environment, json};
use ah_work::github::API;
use semver::Version;
use serde::Deserialize;

use super::check::Check;
use crate::commands::runtime::runtime;

const OWN: &str = env!("CARGO_PKG_VERSION");
const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");
/// Algorithm of digests.
const SHA256: &str = "sha256:";
/// Time limit of the request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Largest answer that is read, in bytes.
const MAX_BYTES: usize = 1 << 20;

/// A release, as far as it is read.
#[derive(Deserialize)]
struct Release {
    tag_name: String,
    #[serde(default)]
    assets: Vec<Asset>,
}

/// A file of a release.
#[derive(Deserialize)]
struct Asset {
    name: String,
    digest: Option<String>,
}

/// Asks for the newest release.
pub fn check(environment: &Environment) -> Check {
    let failed = |error: Error| {
        let text = format!("could not check for updates: {}", error.message);
        Check::problem("update", text, error.hint)
    };
    let newest = runtime().and_then(|runtime| runtime.block_on(newest(environment)));
    match newest {
        Ok(newest) => told(newest.as_ref()),
        Err(error) => failed(error),
    }
}

fn told(newest: Option<&Version>) -> Check {
    let own = Version::parse(OWN).ok();
    match newest {
        None => Check::fine("update", "there is no release yet"),
        Some(newest) if own.is_some_and(|own| own < *newest) => Check {
            hint: Some(format!("get it from {REPOSITORY}/releases/latest")),
            ..Check::note(
                "update",
                format!("version {newest} is available; this is {OWN}"),
            )
        },
        Some(newest) => Check::fine("update", format!("up to date; the newest is {newest}")),
    }
}

/// Returns the SHA-256 of a file in the release of this version, in hexadecimal; `None` if there is no such release, or it
/// does not say.
///
/// # Errors
///
/// If GitHub cannot be asked.
pub async fn digest(environment: &Environment, file: &str) -> Result<Option<String>, Error> {
    let release = release(environment, &format!("tags/v{OWN}")).await?;
    let mut assets = release.into_iter().flat_map(|release| release.assets);
    let digest = assets
        .find(|asset| asset.name == file)
        .and_then(|asset| asset.digest);
    let is_hex =
        |digest: &&str| digest.len() == 64 && digest.bytes().all(|b| b.is_ascii_hexdigit());
    let digest = digest
        .as_deref()
        .and_then(|digest| digest.strip_prefix(SHA256));
    Ok(digest.filter(is_hex).map(str::to_ascii_lowercase))
}

/// Returns the version of the newest release; `None` if there is no release.
async fn newest(environment: &Environment) -> Result<Option<Version>, Error> {
    let Some(release) = release(environment, "latest").await? else {
        return Ok(None);
    };
    let version = release.tag_name.trim_start_matches('v');
    let unread = |_| Error::failure(format!("{REPOSITORY}/releases/latest names no version"));
    Version::parse(version).map(Some).map_err(unread)
}

/// Returns a release, by its place among them; `None` if there is none.
async fn release(environment: &Environment, place: &str) -> Result<Option<Release>, Error> {
    let base = environment.get("GITHUB_API_URL").unwrap_or(API);
    let repository = REPOSITORY.trim_start_matches("https://github.com/");
    let url = format!(
        "{}/repos/{repository}/releases/{place}",
        base.trim_end_matches('/')
    );
    let options = ah_http::Options::from_variables(|name| environment.get(name));
    let client = ah_http::client(&options, base).map_err(|error| {
        Error::failure(error.to_string()).maybe_hint(error.hint().map(str::to_owned))
    })?;
    let request = client
        .get(&url)
        .header("accept", "application/vnd.github+json")
        .timeout(TIMEOUT);
    let mut response = request.send().await.map_err(failure)?;
    match response.status().as_u16() {
        200 => {}
        404 => return Ok(None),
        status => return Err(Error::failure(format!("{url} answers {status}"))),
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(failure)? {
        body.extend_from_slice(&chunk);
        if body.len() > MAX_BYTES {
            return Err(Error::failure(format!("the answer of {url} is too long")));
        }
    }
    let unread = |_| Error::failure(format!("{url} names no version"));
    json::from_slice(&body).map(Some).map_err(unread)
}

/// Returns the reason at the bottom of a failed request.
fn failure<E: std::error::Error>(error: E) -> Error {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = error.to_string();
        cause = error.source();
    }
    Error::failure(text)
}
