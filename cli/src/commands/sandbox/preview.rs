//! `ah sandbox exec --preview`: runs a command, shows what it changed, and takes that back unless it is to stay.
//!
//! The command really runs: until the answer, other programs see its changes.

use std::io::{self, IsTerminal as _};
use std::sync::Arc;

use ah_agent::checkpoint::{Files, Rewind};
use ah_config::own_folder::OwnFolder;
use ah_config::{Config, Error};
use ah_conversation::{FileCause, FileChange, MessageId, Record, Store as _, Time};
use ah_engine::confinement::command_files::{AgentFiles, CommandJournal};
use ah_ids::SystemClock;
use ah_sandbox::Sandbox;
use ah_store::{BigFiles, SessionStore};
use ah_terminal::undo::{apply, count, summary};

use crate::commands::output::{confirm, print, print_exact};
use crate::commands::undo::unified;

/// The record of what one command changes.
pub struct Preview {
    store: Arc<SessionStore>,
    journal: Arc<CommandJournal>,
    files: Files,
    /// Holds the journal.
    _folder: OwnFolder,
}

impl Preview {
    /// Prepares the sandbox to record the changes of its next command.
    ///
    /// # Errors
    ///
    /// If file changes cannot be seen here, or there is no room for the record.
    pub fn begin(sandbox: &Sandbox, config: &Config) -> Result<Self, Error> {
        sandbox
            .probe()
            .map_err(|error| Error::failure(error.to_string()).hint(ah_sandbox::remedy()))?;
        if !sandbox.can_record_changes() {
            return Err(Error::failure(
                "`--preview` needs to see file changes, which this system does not allow",
            )
            .hint(
                "it needs Linux 5.5 or later, and no other sandbox around this one that forbids it",
            ));
        }
        let folder = OwnFolder::make("preview")
            .map_err(|error| Error::failure(format!("cannot make a temporary folder: {error}")))?;
        let store = Arc::new(SessionStore::in_memory(folder.path())?);
        let roots = vec![sandbox.confinement().workspace.clone()];
        let place = folder.path().to_owned();
        let journal = Arc::new(CommandJournal::new(
            place,
            BigFiles::new(store.outputs().to_owned()),
            roots.clone(),
            config,
        ));
        journal.begin(&run());
        sandbox.record_changes(Arc::new(AgentFiles::of_main(journal.clone())));
        let clock = Arc::new(SystemClock::default());
        Ok(Self {
            files: Files::new(store.clone(), clock, roots),
            store,
            journal,
            _folder: folder,
        })
    }

    /// Shows what the command has changed, and takes it back unless the user wants to keep it.
    ///
    /// # Errors
    ///
    /// If the record cannot be read, or the output written.
    pub async fn end(self, config: &Config) -> Result<(), Error> {
        let seen = self.journal.take();
        let change = FileChange {
            cause: FileCause::Run(run()),
            at: Time(0),
            before: seen.before,
            unseen: seen.unseen,
        };
        self.store.append(vec![Record::Files(change)]).await?;
        let back = self.files.to(0).await?;
        if back.changes.is_empty() && back.skipped.is_empty() && back.unseen.is_empty() {
            print("The command changed no files.\n")?;
            return Ok(());
        }
        show(&back, config)?;
        if !io::stdin().is_terminal() || !confirm("Keep the changes? (y/n) ")? {
            apply(&self.files, &back, &config.environment).await?;
            print("Reverted.\n")?;
        }
        Ok(())
    }
}

fn run() -> MessageId {
    MessageId::from("preview")
}

fn show(back: &Rewind, config: &Config) -> Result<(), Error> {
    let patches = back
        .changes
        .iter()
        .map(|edit| unified(edit, &config.environment));
    print_exact(&patches.collect::<String>())?;
    let (summary, count) = (summary(back, config), count(back));
    print(&format!("To be reverted:\n{summary}{count} changed\n"))?;
    Ok(())
}
