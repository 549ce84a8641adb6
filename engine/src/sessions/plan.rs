//! The choice of a session.

use std::path::PathBuf;

use ah_config::Error;
use ah_conversation::SessionId;
use ah_ids::uuid_of;

/// The chosen session, and its use in the run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionPlan {
    /// The choice.
    pub choice: SessionChoice,
    /// Whether the run continues in a copy.
    pub fork: bool,
    /// UUID of a new session or of the copy.
    pub uuid: Option<String>,
    /// The message to continue after, if it is not the last.
    pub at: Option<ResumePoint>,
    /// Whether nothing is stored on disk.
    pub ephemeral: bool,
    /// Whether a session that another process has open is refused at once, and its end is not waited for.
    pub is_impatient: bool,
    /// Whether it is to resume a run that another process has left: calls that have not begun are then carried out.
    pub takes_over: bool,
    /// Whether a person chooses from a list instead, where that is possible.
    pub is_listed: bool,
}

/// A message to continue after, as a host names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResumePoint {
    /// Name of one of its lines.
    pub name: String,
    /// The only prompt whose turn may be dropped.
    pub drops: Option<String>,
}

impl ResumePoint {
    /// The message with this id.
    pub fn of(message: &str) -> Self {
        Self {
            name: uuid_of(&SessionId::from(message)),
            drops: None,
        }
    }
}

/// A session, as it was requested.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum SessionChoice {
    /// The session with the highest id, or a new one.
    #[default]
    Newest,
    /// The session last written to; an error if there is none.
    LastUsed,
    /// A new session.
    New,
    /// An id in either form, a prefix of one, or a name; an error if there is no match.
    Find(String),
    /// The session of this name, or a new one.
    Named(String),
    /// The database in this file, created if missing.
    File(PathBuf),
}

impl SessionPlan {
    /// Returns the plan if its parts agree.
    ///
    /// # Errors
    ///
    /// If they contradict each other, or the UUID is not one.
    pub fn checked(self) -> Result<Self, Error> {
        self.check()?;
        Ok(self)
    }

    fn check(&self) -> Result<(), Error> {
        let is_new = self.choice == SessionChoice::New;
        match &self.uuid {
            Some(id) if !is_uuid(id) => {
                return Err(Error::usage(format!("`{id}` is not a UUID")));
            }
            Some(_) if !is_new && !self.fork => {
                let error = Error::usage(
                    "`--session-id` names a new session, but an existing one was chosen",
                );
                return Err(error.hint("add `--fork-session` to continue in a copy with that id"));
            }
            _ => {}
        }
        let is_chosen = !matches!(self.choice, SessionChoice::New | SessionChoice::Newest);
        if self.ephemeral && is_chosen {
            return Err(Error::usage(
                "`--no-session-persistence` stores nothing, but a stored session was chosen",
            )
            .hint("omit one of them"));
        }
        if self.at.is_some() && is_new {
            return Err(
                Error::usage("`--resume-session-at` needs a session to resume")
                    .hint("add `-c`, or `-r ID`"),
            );
        }
        if self.fork && is_new {
            return Err(Error::usage("`--fork-session` needs a session to copy")
                .hint("add `-c`, or `-r ID`"));
        }
        Ok(())
    }
}

/// Returns whether `text` is a UUID, in any case.
pub fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.char_indices().all(|(at, c)| match at {
            8 | 13 | 18 | 23 => c == '-',
            _ => c.is_ascii_hexdigit(),
        })
}
