//! The system's key store by its program: a secret for each address of a server.

use std::ffi::OsString;
use std::time::Duration;

use ah_conversation::Content;
use ah_process::{Command, Ending, Keep};

use crate::key_store::KeyStore;

/// Time for an answer. The store may ask the user to unlock it.
const PATIENCE: Duration = Duration::from_secs(60);
/// Name under which the store lists the secrets.
const SERVICE: &str = "ah-mcp";

/// Returns the secret of an address; `None` if the store has none, or does not answer.
pub(crate) async fn look_up(store: &KeyStore, address: &str) -> Option<String> {
    let arguments = match store.is_keychain() {
        true => vec!["find-generic-password", "-s", SERVICE, "-a", address, "-w"],
        false => vec!["lookup", "service", SERVICE, "server", address],
    };
    let secret = run(store, &arguments, String::new()).await?;
    Some(secret.trim().to_owned()).filter(|secret| !secret.is_empty())
}

/// Stores the secret of an address; returns whether the store has it.
pub(crate) async fn keep(store: &KeyStore, address: &str, secret: &str) -> bool {
    let label = format!("ah: {address}");
    let kept = if store.is_keychain() {
        // A secret among the arguments could be read by every process.
        let is_plain = |c: char| !c.is_control() && c != '"' && c != '\\';
        if !address.chars().all(is_plain) {
            return false;
        }
        let line = format!(
            "add-generic-password -U -s \"{SERVICE}\" -a \"{address}\" -l \"{label}\" -w \"{secret}\"\n"
        );
        run(store, &["-i"], line).await
    } else {
        let arguments = [
            "store", "--label", &label, "service", SERVICE, "server", address,
        ];
        run(store, &arguments, secret.to_owned()).await
    };
    // Long ones do not fit everywhere.
    kept.is_some() && look_up(store, address).await.as_deref() == Some(secret)
}

/// Removes the secret of an address.
pub(crate) async fn forget(store: &KeyStore, address: &str) {
    let arguments = match store.is_keychain() {
        true => vec!["delete-generic-password", "-s", SERVICE, "-a", address],
        false => vec!["clear", "service", SERVICE, "server", address],
    };
    run(store, &arguments, String::new()).await;
}

/// Runs the store's program; returns its output if it succeeds.
async fn run(store: &KeyStore, arguments: &[&str], stdin: String) -> Option<String> {
    let folder = tempfile::tempdir().ok()?;
    let variables = store.environment.all();
    let command = Command {
        program: store.program.clone(),
        arguments: arguments.iter().map(OsString::from).collect(),
        cwd: folder.path().to_owned(),
        environment: variables
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
        stdin: stdin.into_bytes(),
        deadline: Some(PATIENCE),
        // Output so long that it needs a file is no secret of ours.
        keep: Keep::new(folder.path().join("output"), 0),
        sandbox: None,
        bounds: None,
        note: |_| None,
    };
    let outcome = command.run().await.ok()?;
    match (outcome.ending, outcome.output) {
        (Ending::Exited(0), Content::Bytes(output)) => String::from_utf8(output).ok(),
        (ending, _) => {
            tracing::debug!("the key store ended with {}", ending.code());
            None
        }
    }
}
