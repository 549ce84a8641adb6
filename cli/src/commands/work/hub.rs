//! The source of issues and pull requests: GitHub, GitLab, Forgejo, or a folder.

mod place;

use std::path::PathBuf;
use std::time::Duration;

use ah_config::Error;
use ah_config::settings::work::{HubKind, WorkSettings};
use ah_conversation::{Content, Environment};
use ah_git::{Git, host_of};
use ah_process::{Command, Keep};
use ah_work::folder::FolderHub;
use ah_work::forgejo::Forgejo;
use ah_work::github::GitHub;
use ah_work::gitlab::GitLab;
use ah_work::hub::Hub;
use ah_work::rest::{Access, Patience};

use super::environment::all;
use crate::args::work::WorkOptions;
use crate::commands::doctor::find;
use place::Place;

/// Variable with the token that is lent to git.
const LENT: &str = "AH_WORK_TOKEN";
/// Git's command for a login that it does not have. The hubs look at the password alone.
const HELPER: &str = "!f() { test \"$1\" = get && printf 'username=x-access-token\\npassword=%s\\n' \"$AH_WORK_TOKEN\"; }; f";

/// Returns the hub, and the variables that lend its token to git, for the hub's own server.
pub async fn hub(
    wanted: &WorkOptions,
    environment: &Environment,
    main: &Git,
    repository: &str,
    settings: &WorkSettings,
) -> Result<(Box<dyn Hub>, Vec<(String, String)>), Error> {
    if let Some(folder) = &wanted.hub {
        let head = main
            .run(&["symbolic-ref", "--short", "refs/remotes/origin/HEAD"])
            .await;
        let head = head
            .ok()
            .and_then(|head| Some(head.strip_prefix("origin/")?.to_owned()));
        let branch = head.unwrap_or_else(|| "main".to_owned());
        return Ok((Box::new(FolderHub::new(folder.clone(), branch)), Vec::new()));
    }
    let address = main.run(&["remote", "get-url", "origin"]).await;
    let host = address.ok().and_then(|address| host_of(&address));
    let variable = |name: &str| environment.get(name).map(str::to_owned);
    let place = Place::of(settings.hub.as_ref(), variable, host.as_deref())?;
    let token = token(environment, &place).await?;
    let lent = lent(environment, &place.server, &token);
    let access = Access {
        api: place.api,
        repository: repository.to_owned(),
        token,
    };
    let options = ah_http::Options::from_variables(|name| environment.get(name));
    let longest = Duration::from_secs(settings.hub_wait());
    let patience = Patience::new(longest, |time| {
        ah_terminal::warn(&format!(
            "the hub's rate limit is reached: waiting {} s",
            time.as_secs()
        ));
    });
    let hub: Result<Box<dyn Hub>, _> = match place.kind {
        HubKind::GitHub => GitHub::new(&options, access, patience).map(|hub| Box::new(hub) as _),
        HubKind::GitLab => GitLab::new(&options, access, patience).map(|hub| Box::new(hub) as _),
        HubKind::Forgejo => Forgejo::new(&options, access, patience).map(|hub| Box::new(hub) as _),
    };
    let hub = hub.map_err(|error| Error::failure(error.to_string()).maybe_hint(error.hint))?;
    Ok((hub, lent))
}

/// Returns the variables that lend the token to git. Git asks for it only if the server wants a login and no helper of
/// the user has one.
fn lent(environment: &Environment, server: &str, token: &str) -> Vec<(String, String)> {
    let count = environment.get("GIT_CONFIG_COUNT");
    let count: usize = count.and_then(|count| count.parse().ok()).unwrap_or(0);
    let pairs = [
        ("GIT_CONFIG_COUNT".to_owned(), (count + 1).to_string()),
        (
            format!("GIT_CONFIG_KEY_{count}"),
            format!("credential.{server}.helper"),
        ),
        (format!("GIT_CONFIG_VALUE_{count}"), HELPER.to_owned()),
        (LENT.to_owned(), token.to_owned()),
    ];
    pairs.to_vec()
}

/// Returns the token: of a variable, else for GitHub that of the program `gh`.
async fn token(environment: &Environment, place: &Place) -> Result<String, Error> {
    let named = place.tokens().iter();
    if let Some(token) = named.copied().find_map(|name| environment.get(name)) {
        return Ok(token.trim().to_owned());
    }
    let none = || {
        let name = place.name();
        Error::failure(format!("no token for {name}")).hint(match place.kind {
            HubKind::GitHub => {
                "set GH_TOKEN, or log in with `gh auth login`; `--hub DIR` needs none".to_owned()
            }
            _ => format!("set {}; `--hub DIR` needs none", place.tokens()[0]),
        })
    };
    if place.kind != HubKind::GitHub {
        return Err(none());
    }
    let program = find(environment, "gh").ok_or_else(none)?;
    let host = place.server.split("://").last().unwrap_or_default();
    let command = Command {
        program,
        arguments: ["auth", "token", "--hostname", host]
            .map(Into::into)
            .to_vec(),
        cwd: environment.cwd().to_owned(),
        environment: all(environment),
        stdin: Vec::new(),
        deadline: Some(Duration::from_secs(20)),
        keep: Keep::new(PathBuf::new(), 0),
        sandbox: None,
        bounds: None,
        note: |_| None,
    };
    let outcome = command.run().await.map_err(|_| none())?;
    match (outcome.ending.code(), outcome.output) {
        (0, Content::Bytes(bytes)) => {
            let said = String::from_utf8_lossy(&bytes).trim().to_owned();
            let is_token = !said.is_empty() && !said.contains(char::is_whitespace);
            is_token.then_some(said).ok_or_else(none)
        }
        _ => Err(none()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use super::*;

    /// Asks git for the login at this address.
    fn login(variables: &[(String, String)], address: &str) -> Option<String> {
        let mut git = Command::new("git")
            .args(["credential", "fill"])
            .env_clear()
            .env("PATH", std::env::var_os("PATH")?)
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .envs(variables.iter().cloned())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let mut pipe = git.stdin.take()?;
        pipe.write_all(format!("url={address}\n\n").as_bytes())
            .ok()?;
        drop(pipe);
        let said = String::from_utf8(git.wait_with_output().ok()?.stdout).ok()?;
        let password = said.lines().find_map(|line| line.strip_prefix("password="));
        password.map(str::to_owned)
    }

    #[test]
    fn the_token_is_lent_to_the_hub_and_to_nobody_else() {
        let environment = Environment::new(Vec::new(), "/".into());
        let lent = lent(&environment, "https://git.example", "token-of-a-test");
        for (address, expected) in [
            ("https://git.example/o/n.git", true),
            ("https://git.example/x/other.git", true),
            ("http://git.example/o/n.git", false),
            ("https://git.example:8443/o/n.git", false),
            ("https://git.example.evil.example/o/n.git", false),
            ("https://evil.example/git.example/n.git", false),
            ("https://sub.git.example/o/n.git", false),
        ] {
            let password = login(&lent, address);
            let expected = expected.then_some("token-of-a-test");
            assert_eq!(password.as_deref(), expected, "{address}");
        }
    }
}
