//! Keys printed by a command: the alternative to a key in the environment. They are kept in memory only.

use std::time::Duration;

use ah_conversation::{Content, Environment, ErrorClass, ProviderError};
use ah_process::{Behind, Command, Ending, Keep, ShellLine};
use ah_provider::auth::KeySource;
use ah_tools::Shell;
use async_trait::async_trait;

/// Timeout of the command, which may ask the user for something.
const PATIENCE: Duration = Duration::from_secs(60);

/// A configured command that prints a key.
pub struct KeyCommand {
    command: String,
    /// Name of the setting with the command.
    setting: String,
    environment: Environment,
}

impl KeyCommand {
    /// Returns the command of `setting`. It runs when the key is requested, and sees all variables: it is the user's
    /// own.
    pub fn new(command: &str, setting: &str, environment: &Environment) -> Self {
        Self {
            command: command.to_owned(),
            setting: setting.to_owned(),
            environment: environment.clone(),
        }
    }

    fn failed(&self, reason: &str) -> ProviderError {
        ProviderError {
            hint: Some("run it by hand to see what it says".to_owned()),
            ..ProviderError::new(
                ErrorClass::Authentication,
                format!("the command of {} {reason}", self.setting),
            )
        }
    }
}

#[async_trait]
impl KeySource for KeyCommand {
    async fn key(&self) -> Result<String, ProviderError> {
        // Output so long that it needs a file is not a key, and is deleted with the folder.
        let folder = tempfile::tempdir().map_err(|error| {
            self.failed(&format!("cannot run without a temporary folder: {error}"))
        })?;
        let variables = self.environment.all();
        let shell = Shell::new(&self.environment).program;
        // Standard error is not part of the key.
        let line = format!("exec 2>/dev/null\n{}", self.command);
        let line = ShellLine::new(&shell, &line, Behind::Nothing);
        let command = Command {
            program: shell,
            arguments: line.arguments,
            cwd: self.environment.cwd().to_owned(),
            environment: variables
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
            stdin: line.stdin,
            deadline: Some(PATIENCE),
            keep: Keep::new(folder.path().join("output"), 0),
            sandbox: None,
            bounds: None,
            note: |_| None,
        };
        let outcome = command
            .run()
            .await
            .map_err(|error| self.failed(&format!("did not start: {error}")))?;
        match (outcome.ending, outcome.output) {
            (Ending::Exited(0), Content::Bytes(output)) => {
                let output = String::from_utf8_lossy(&output);
                match output.trim() {
                    "" => Err(self.failed("printed nothing")),
                    key => Ok(key.to_owned()),
                }
            }
            (Ending::Exited(0), _) => Err(self.failed("printed far more than a key")),
            (Ending::TimedOut(limit), _) => {
                Err(self.failed(&format!("took more than {} s", limit.as_secs())))
            }
            (ending, _) => Err(self.failed(&format!("failed with exit code {}", ending.code()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn key(command: &str) -> Result<String, String> {
        let variables = [("PATH", "/usr/bin:/bin"), ("VAULT_TOKEN", "from the vault")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let environment = Environment::new(variables, "/".into());
        let source = KeyCommand::new(command, "providers.gw.keyCommand", &environment);
        source.key().await.map_err(|error| error.message)
    }

    #[tokio::test]
    async fn a_command_prints_the_key_or_fails_by_name() {
        for (command, expected) in [
            ("echo ' k '; echo careful >&2", Ok("k")),
            ("echo $VAULT_TOKEN", Ok("from the vault")),
            ("# nothing", Err("printed nothing")),
            ("echo secret; exit 3", Err("failed with exit code 3")),
            ("kill -9 $$", Err("failed with exit code 137")),
            (
                "head -c 300000 /dev/zero",
                Err("printed far more than a key"),
            ),
        ] {
            let whole = |reason| format!("the command of providers.gw.keyCommand {reason}");
            let expected = expected.map(str::to_owned).map_err(whole);
            assert_eq!(key(command).await, expected, "{command}");
        }
    }
}
