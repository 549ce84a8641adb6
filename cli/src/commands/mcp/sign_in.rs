//! `ah mcp login`, `logout` and `status`: the user's sign-ins to servers with a URL.

use std::io::{BufRead as _, IsTerminal as _};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use ah_config::{Config, Error};
use ah_conversation::{Environment, neutralise};
use ah_mcp::{SignIn, SignInPlace, SignedIn, Transport};
use ah_terminal::exit::FAILURE;
use jiff::Timestamp;
use serde_json::json;
use tokio::sync::oneshot;

use super::list::find;
use crate::args::json::Json;
use crate::commands::output::{print, print_json};
use crate::commands::runtime::runtime;

/// Time for the user to sign in.
const PATIENCE: Duration = Duration::from_secs(600);

/// Signs the user in; a browser is opened unless it `is_closed`.
pub fn login(config: &Config, name: &str, scopes: &[String], is_closed: bool) -> Result<u8, Error> {
    let place = place(config, name)?;
    let failed = |reason: String| {
        let reason = neutralise(&reason).into_owned();
        Error::failure(format!("cannot sign in to `{name}`: {reason}"))
    };
    let runtime = runtime()?;
    let ended = runtime.block_on(async {
        let sign_in = place.begin(scopes).await?;
        let url = neutralise(sign_in.url());
        ah_terminal::note(&format!("to sign in to `{name}`, open {url}"));
        if !is_closed && !open(&config.environment, sign_in.url()) {
            ah_terminal::note("could not start a browser");
        }
        let address = tokio::time::timeout(PATIENCE, address(&sign_in)).await;
        let address = address.map_err(|_| "nobody signed in within 10 minutes".to_owned())??;
        sign_in.finish(&address).await
    });
    // A thread may still wait for a line.
    runtime.shutdown_background();
    let known = ended.map_err(failed)?;
    print(&format!("signed in to `{name}`\n{}", rows(&known)))
}

/// Forgets a sign-in.
pub fn logout(config: &Config, name: &str) -> Result<u8, Error> {
    let place = place(config, name)?;
    let ended = runtime()?.block_on(place.sign_out());
    let ended = ended.map_err(|error| unusable(&error))?;
    if let Some(reason) = &ended.left {
        let reason = neutralise(reason);
        ah_terminal::note(&format!(
            "the tokens were removed here, but the server did not revoke them: {reason}"
        ));
    }
    let word = match ended.was_there {
        true => "signed out of",
        false => "not signed in to",
    };
    print(&format!("{word} `{name}`\n"))
}

/// Prints what is known of a sign-in. The exit code tells whether there is one.
pub fn status(config: &Config, name: &str, form: Json) -> Result<u8, Error> {
    let place = place(config, name)?;
    let known = runtime()?.block_on(place.signed_in());
    let known = known.map_err(|error| unusable(&error))?;
    if form.json {
        let value = known.as_ref().map(|known| {
            json!({
                "issuer": known.issuer, "scopes": known.scopes, "wantedScopes": known.wanted,
                "expiresAt": known.expires_at, "isRenewed": known.is_renewed,
            })
        });
        print_json(&json!({"name": name, "signedIn": value}))?;
    } else {
        let text = match &known {
            Some(known) => format!("signed in to `{name}`\n{}", rows(known)),
            None => format!("not signed in to `{name}`; `ah mcp login {name}` signs in\n"),
        };
        print(&text)?;
    }
    Ok(if known.is_some() { 0 } else { FAILURE })
}

fn rows(known: &SignedIn) -> String {
    let list = |list: &[String]| match list {
        [] => "none named".to_owned(),
        list => list.join(", "),
    };
    let mut rows = vec![("scopes", list(&known.scopes))];
    if let Some(issuer) = &known.issuer {
        rows.insert(0, ("issuer", issuer.clone()));
    }
    let end = known.expires_at.and_then(|at| i64::try_from(at).ok());
    let end = end.and_then(|at| Timestamp::from_second(at).ok());
    rows.push(match (known.is_renewed, end) {
        (true, _) => ("lasts", "renewed automatically".to_owned()),
        (false, Some(end)) => ("lasts", format!("until {end}")),
        (false, None) => ("lasts", "until the server refuses it".to_owned()),
    });
    if !known.wanted.is_empty() {
        let wanted = list(&known.wanted);
        rows.push(("wanted", format!("{wanted}: `ah mcp login` asks for them")));
    }
    let rows = rows
        .iter()
        .map(|(what, text)| format!("  {what}: {}\n", neutralise(text)));
    rows.collect()
}

fn place(config: &Config, name: &str) -> Result<SignInPlace, Error> {
    let variable = |name: &str| config.environment.get(name).map(str::to_owned);
    let server = find(&config.mcp_servers, name)?.value.resolve(&variable);
    let server = server.map_err(|reason| Error::failure(format!("`{name}`: {reason}")))?;
    let (Transport::Http(address) | Transport::Sse(address)) = server.transport else {
        return Err(Error::failure(format!(
            "the server `{name}` is a program: there is nothing to sign in to"
        )));
    };
    let mut headers = address.headers.keys();
    if headers.any(|header| header.eq_ignore_ascii_case("authorization")) {
        let text = format!("the server `{name}` has a header `Authorization` in its configuration");
        return Err(Error::failure(text).hint("remove the header to sign in"));
    }
    let no_home = || Error::failure("there is no home directory for credentials");
    Ok(SignInPlace {
        address,
        kept: config.server_credentials().ok_or_else(no_home)?,
        http: ah_http::Options::from_variables(|name| config.environment.get(name)),
    })
}

fn unusable(error: &std::io::Error) -> Error {
    Error::failure(format!("cannot use the file of credentials: {error}"))
}

/// Waits for the address that the browser ended at: it comes back to this program, or the user pastes it.
async fn address(sign_in: &SignIn) -> Result<String, String> {
    if std::io::stdin().is_terminal() {
        ah_terminal::note("if the browser cannot return here, paste the address it ended up at");
    }
    let (send, pasted) = oneshot::channel();
    thread::spawn(move || {
        let lines = std::io::stdin().lock().lines().map_while(Result::ok);
        if let Some(line) = { lines }.find(|line| !line.trim().is_empty()) {
            // Nobody waits any more if the browser has come back.
            let _ = send.send(line);
        }
    });
    tokio::select! {
        address = sign_in.returned() => address,
        Ok(line) = pasted => Ok(line),
    }
}

/// Starts the browser of the variable `BROWSER`, else the system's if there is a terminal; returns whether one was started.
fn open(environment: &Environment, url: &str) -> bool {
    let set = environment.get("BROWSER");
    let set = set.and_then(|list| list.split(':').next());
    let usual = if cfg!(target_os = "macos") {
        "open"
    } else {
        "xdg-open"
    };
    let program = match set.filter(|it| !it.is_empty()) {
        Some(program) => program,
        None if std::io::stderr().is_terminal() => usual,
        None => return true,
    };
    let mut browser = Command::new(program);
    ah_sandbox::without_terminal(&mut browser);
    let started = browser
        .arg(url)
        .envs(environment.get("PATH").map(|path| ("PATH", path)))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    started.is_ok()
}
