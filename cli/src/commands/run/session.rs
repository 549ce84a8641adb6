//! Where a run's session is, and what is done with it before the run.

use ah_conversation::MessageId;
use ah_store::{OpenError, Paths, Session, Sessions};

use crate::args::session::{SessionChoice, SessionPlan};
use crate::config::Config;
use crate::error::CliError;

/// Where a session is.
#[derive(Debug)]
pub struct Place {
    paths: Paths,
    is_ephemeral: bool,
}

impl Place {
    /// The session that `plan` chooses; where it is to be copied, the copy.
    ///
    /// # Errors
    ///
    /// Where there is no such session, several are meant, or the copy cannot be made.
    pub fn find(plan: &SessionPlan, config: &Config) -> Result<Self, CliError> {
        let sessions = config.sessions();
        let fresh = || sessions.fresh();
        let paths = match &plan.choice {
            SessionChoice::New => fresh()?,
            SessionChoice::Newest => match sessions.newest()? {
                Some(paths) => paths,
                None => fresh()?,
            },
            SessionChoice::LastUsed => sessions.last_written()?.ok_or_else(|| {
                CliError::failure("there is no session to go on with")
                    .hint("leave `-c` or `-r` out to begin one")
            })?,
            SessionChoice::Find(wanted) => sessions.find(wanted)?,
            SessionChoice::Named(name) => match sessions.named(name)? {
                Some(paths) => paths,
                None => fresh()?,
            },
            SessionChoice::File(path) => Paths::of(config.environment.cwd().join(path)),
        };
        let paths = match plan.fork {
            true => copy(&sessions, &paths)?,
            false => paths,
        };
        Ok(Self {
            paths,
            is_ephemeral: plan.ephemeral,
        })
    }

    /// Its files.
    pub fn paths(&self) -> &Paths {
        &self.paths
    }

    /// Takes the session for writing.
    pub fn open(&self) -> Result<Session, OpenError> {
        match self.is_ephemeral {
            true => Ok(Session::in_memory(&std::env::temp_dir())?),
            false => crate::commands::place::take(&self.paths),
        }
    }

    /// Names the session, and goes to the message that the run forks at.
    ///
    /// # Errors
    ///
    /// Where there is no such message, or the session cannot be written.
    pub async fn prepare(
        &self,
        session: &Session,
        plan: &SessionPlan,
        fork_at: Option<u32>,
    ) -> Result<(), CliError> {
        if let SessionChoice::Named(name) = &plan.choice {
            session.set_name(name.clone()).await?;
        }
        if let Some(uuid) = &plan.uuid {
            session.set_uuid(uuid.clone()).await?;
        }
        if let Some(seq) = fork_at {
            let message: Option<MessageId> = session.read(move |tree| tree.numbered(seq)).await?;
            let message = message.ok_or_else(|| {
                CliError::failure(format!("message not found: @{seq}"))
                    .hint("`ah scan` lists the messages")
            })?;
            session.checkout(message).await?;
        }
        Ok(())
    }
}

fn copy(sessions: &Sessions, original: &Paths) -> Result<Paths, CliError> {
    Ok(sessions.copy(original)?)
}
