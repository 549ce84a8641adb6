//! `ah auth status`: whether the configured model has a key, and where it comes from.
//!
//! Editors run this of the program that `ah` stands in for, before they start a session. The fields of the object are that
//! program's; those about its own accounts are left out.

use ah_config::{Config, Error};
use serde_json::json;

use crate::args::subcommands::AuthAction;
use crate::commands::output::{print, print_json};
use ah_terminal::exit::FAILURE;

/// Variables that hold a token of an account rather than a key.
const TOKENS: [&str; 2] = ["ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"];

/// Prints the state; the exit code is 1 without a key.
pub fn run(config: &Config, action: &AuthAction) -> Result<u8, Error> {
    let AuthAction::Status { text, .. } = action;
    let source = ah_engine::model::credentials(config).ok().flatten();
    let method = match source.as_deref() {
        None => "none",
        Some(source) if TOKENS.contains(&source) => "oauth_token",
        Some(_) => "api_key",
    };
    if *text {
        print(&match &source {
            Some(source) => format!("key of {}: {source}\n", config.model.value),
            None => format!("no key for {}\n", config.model.value),
        })?;
    } else {
        let mut state = json!({
            "loggedIn": source.is_some(),
            "authMethod": method,
            "apiProvider": "firstParty",
            "analyticsDisabled": true,
        });
        if let Some(source) = &source {
            state["apiKeySource"] = json!(source);
        }
        print_json(&state)?;
    }
    Ok(if source.is_some() { 0 } else { FAILURE })
}
