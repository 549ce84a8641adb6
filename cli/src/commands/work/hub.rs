//! The source of issues and pull requests: GitHub, or a folder.

use std::path::PathBuf;
use std::time::Duration;

use ah_config::Error;
use ah_conversation::{Content, Environment};
use ah_process::{Command, Keep};
use ah_work::folder::FolderHub;
use ah_work::git::Git;
use ah_work::github::{self, GitHub};
use ah_work::hub::Hub;

use super::environment::{TOKENS, all};
use crate::args::work::WorkOptions;
use crate::commands::doctor::find;

/// Variable with the token that is lent to git.
const LENT: &str = "AH_WORK_TOKEN";
/// Git's command for a login that it does not have.
const HELPER: &str = "!f() { test \"$1\" = get && printf 'username=x-access-token\\npassword=%s\\n' \"$AH_WORK_TOKEN\"; }; f";

/// Returns the hub, and the variables that lend its token to git, for the hub's own server.
pub async fn hub(
    wanted: &WorkOptions,
    environment: &Environment,
    main: &Git,
    repository: &str,
) -> Result<(Box<dyn Hub>, Vec<(String, String)>), Error> {
    match &wanted.hub {
        Some(folder) => {
            let head = main
                .run(&["symbolic-ref", "--short", "refs/remotes/origin/HEAD"])
                .await;
            let head = head
                .ok()
                .and_then(|head| Some(head.strip_prefix("origin/")?.to_owned()));
            let branch = head.unwrap_or_else(|| "main".to_owned());
            Ok((Box::new(FolderHub::new(folder.clone(), branch)), Vec::new()))
        }
        None => {
            let options = ah_http::Options::from_variables(|name| environment.get(name));
            let base = environment.get("GITHUB_API_URL").unwrap_or(github::API);
            let token = token(environment).await?;
            let hub = GitHub::new(&options, base, repository, &token);
            let hub =
                hub.map_err(|error| Error::failure(error.to_string()).maybe_hint(error.hint))?;
            Ok((Box::new(hub), lent(environment, base, &token)))
        }
    }
}

/// Returns the variables that lend the token to git. Git asks for it only if the server wants a login and no helper of
/// the user has one.
fn lent(environment: &Environment, api: &str, token: &str) -> Vec<(String, String)> {
    let server = environment.get("GITHUB_SERVER_URL").map(str::to_owned);
    let server = server.unwrap_or_else(|| match api.trim_end_matches('/') {
        github::API => "https://github.com".to_owned(),
        other => other.trim_end_matches("/api/v3").to_owned(),
    });
    let count = environment.get("GIT_CONFIG_COUNT");
    let count: usize = count.and_then(|count| count.parse().ok()).unwrap_or(0);
    let pairs = [
        ("GIT_CONFIG_COUNT".to_owned(), (count + 1).to_string()),
        (
            format!("GIT_CONFIG_KEY_{count}"),
            format!("credential.{}.helper", server.trim_end_matches('/')),
        ),
        (format!("GIT_CONFIG_VALUE_{count}"), HELPER.to_owned()),
        (LENT.to_owned(), token.to_owned()),
    ];
    pairs.to_vec()
}

/// Returns the token: of a variable, else that of the program `gh`.
async fn token(environment: &Environment) -> Result<String, Error> {
    let named = TOKENS[..2].iter().find_map(|name| environment.get(name));
    if let Some(token) = named {
        return Ok(token.trim().to_owned());
    }
    let none = || {
        Error::failure("no token for GitHub")
            .hint("set GH_TOKEN, or log in with `gh auth login`; `--hub DIR` needs none")
    };
    let program = find(environment, "gh").ok_or_else(none)?;
    let command = Command {
        program,
        arguments: ["auth", "token"].map(Into::into).to_vec(),
        cwd: environment.cwd().to_owned(),
        environment: all(environment),
        stdin: Vec::new(),
        deadline: Some(Duration::from_secs(20)),
        keep: Keep::new(PathBuf::new(), 0),
        sandbox: None,
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
