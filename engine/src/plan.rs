//! Which session the options mean.

use std::path::PathBuf;

use ah_config::Error;

/// Which session, and what becomes of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionPlan {
    /// Which.
    pub choice: SessionChoice,
    /// Whether the run goes on in a copy of it.
    pub fork: bool,
    /// The UUID that a new session (or the copy) gets.
    pub uuid: Option<String>,
    /// Behind which message the run goes on, where it is not the last.
    pub at: Option<At>,
    /// Whether nothing of it stays on disk.
    pub ephemeral: bool,
}

/// A message behind which a run goes on, as a host knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct At {
    /// The name of one of its lines.
    pub name: String,
    /// The prompt whose turn is all that may be left out.
    pub drops: Option<String>,
}

/// A session, as it was asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum SessionChoice {
    /// The one with the highest id; a new one where there is none.
    #[default]
    Newest,
    /// The one that was written last; an error where there is none.
    LastUsed,
    /// A new one.
    New,
    /// An id in either form, the beginning of one, or a name; an error where there is none.
    Find(String),
    /// The one of this name; a new one where there is none.
    Named(String),
    /// The database in this file, made where it is missing.
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
                let error =
                    Error::usage("`--session-id` names a new session, and another one was chosen");
                return Err(error.hint("add `--fork-session` to go on in a copy of that name"));
            }
            _ => {}
        }
        let is_chosen = !matches!(self.choice, SessionChoice::New | SessionChoice::Newest);
        if self.ephemeral && is_chosen {
            return Err(Error::usage(
                "`--no-session-persistence` keeps nothing, and a session was chosen to be kept",
            )
            .hint("leave one of them out"));
        }
        if self.at.is_some() && is_new {
            return Err(
                Error::usage("`--resume-session-at` needs a session to go on with")
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

/// Whether `text` is a UUID, in any case.
pub fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.char_indices().all(|(at, c)| match at {
            8 | 13 | 18 | 23 => c == '-',
            _ => c.is_ascii_hexdigit(),
        })
}
