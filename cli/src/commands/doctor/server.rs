//! Whether the server of the model answers, takes the key and has the model: its list of models is asked for, which costs
//! nothing. Also the variables that change the way to servers.

use ah_config::{Config, Error};
use ah_conversation::Environment;
use ah_engine::model::{Reached, reach};
use jiff::Zoned;

use super::check::Check;
use crate::commands::runtime::runtime;

/// Asks the server; `None` for a scripted model.
pub fn check(config: &Config) -> Option<Check> {
    let date = Zoned::now().strftime("%Y-%m-%d").to_string();
    let reached = runtime().and_then(|runtime| {
        let reached = runtime.block_on(reach(config, &date));
        runtime.shutdown_background();
        reached
    });
    // A command may have printed the key.
    ah_process::finish_all();
    match reached {
        Ok(reached) => reached.map(|(server, reached)| told(&server, reached, has_key(config))),
        Err(error) => Some(Check::problem("server", error.message, error.hint)),
    }
}

fn has_key(config: &Config) -> bool {
    matches!(ah_engine::model::credentials(config), Ok(Some(_)))
}

fn told(server: &str, reached: Reached, has_key: bool) -> Check {
    let failed = |what: &str, error: Error| {
        Check::problem(
            "server",
            format!("{server} {what}: {}", error.message),
            error.hint,
        )
    };
    match reached {
        Reached::Works(models) => Check::fine(
            "server",
            match models {
                1 if !has_key => format!("{server} answered: it has the model"),
                _ if !has_key => format!("{server}: model available ({models} models)"),
                _ => format!("{server}: key valid, model available ({models} models)"),
            },
        ),
        Reached::WithoutModel(near) => Check {
            hint: Some(match near.as_slice() {
                [] => "`ah models --refresh`, then `ah models` lists those it has".to_owned(),
                near => format!("did you mean `{}`?", near.join("` or `")),
            }),
            ..Check::note(
                "server",
                match has_key {
                    true => {
                        format!("{server} answered: the key works, but it does not list the model")
                    }
                    false => format!("{server} answered, but it does not list the model"),
                },
            )
        },
        Reached::Refused(error) => failed("refuses the key", error),
        Reached::Silent(error) => failed("cannot be reached", error),
        Reached::NoList(error) => Check::note(
            "server",
            format!(
                "{server} answered, but without a list of models{}: {}",
                if has_key {
                    ", so the key was not checked"
                } else {
                    ""
                },
                error.message
            ),
        ),
    }
}

/// Reports the variables that change how servers are reached.
pub fn network(environment: &Environment) -> Vec<Check> {
    let variables = [
        "ANTHROPIC_BASE_URL",
        "HTTPS_PROXY",
        "https_proxy",
        "NO_PROXY",
        "SSL_CERT_FILE",
    ];
    let set = variables.iter().filter_map(|name| {
        let value = environment.get(name)?;
        Some(Check::fine(
            "network",
            format!(
                "{name}={}",
                environment.redact(without_user(value).as_str())
            ),
        ))
    });
    set.collect()
}

/// Returns an address without user name and password.
fn without_user(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let authority = rest.find('/').unwrap_or(rest.len());
    match rest[..authority].rfind('@') {
        Some(at) => format!("{scheme}://...@{}", &rest[at + 1..]),
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_in_addresses_are_not_shown() {
        for (url, expected) in [
            ("http://proxy:3128", "http://proxy:3128"),
            ("http://me:secret@proxy:3128/x", "http://...@proxy:3128/x"),
            ("http://host/path@2", "http://host/path@2"),
            ("proxy:3128", "proxy:3128"),
        ] {
            assert_eq!(without_user(url), expected);
        }
    }
}
