//! Which session the options mean.

use super::options::Options;
use super::words::is_uuid;
use crate::error::CliError;
use ah_conversation::Interface;
use std::path::PathBuf;

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
    /// What the options mean in this interface.
    pub fn of(options: &Options, interface: Interface) -> Result<Self, CliError> {
        let (session, resume) = (&options.session, &options.resume);
        let choice = if let Some(path) = &session.db {
            SessionChoice::File(path.clone())
        } else if let Some(name) = &session.name {
            SessionChoice::Named(name.clone())
        } else if let Some(prefix) = &session.session {
            SessionChoice::Find(prefix.clone())
        } else if let Some(id) = resume.resume.as_ref().filter(|id| !id.is_empty()) {
            SessionChoice::Find(id.clone())
        } else if resume.continue_last || resume.resume.is_some() {
            SessionChoice::LastUsed
        } else if resume.new || resume.session_id.is_some() || interface == Interface::AgentSdk {
            SessionChoice::New
        } else {
            SessionChoice::Newest
        };
        let plan = Self {
            choice,
            fork: resume.fork_session,
            uuid: resume.session_id.clone(),
            at: resume.resume_session_at.clone().map(|name| At {
                name,
                drops: resume.resume_drops_turn.clone(),
            }),
            ephemeral: resume.no_session_persistence,
        };
        plan.check()?;
        Ok(plan)
    }

    fn check(&self) -> Result<(), CliError> {
        let is_new = self.choice == SessionChoice::New;
        match &self.uuid {
            Some(id) if !is_uuid(id) => {
                return Err(CliError::usage(format!("`{id}` is not a UUID")));
            }
            Some(_) if !is_new && !self.fork => {
                let error = CliError::usage(
                    "`--session-id` names a new session, and another one was chosen",
                );
                return Err(error.hint("add `--fork-session` to go on in a copy of that name"));
            }
            _ => {}
        }
        let is_chosen = !matches!(self.choice, SessionChoice::New | SessionChoice::Newest);
        if self.ephemeral && is_chosen {
            return Err(CliError::usage(
                "`--no-session-persistence` keeps nothing, and a session was chosen to be kept",
            )
            .hint("leave one of them out"));
        }
        if self.at.is_some() && is_new {
            return Err(
                CliError::usage("`--resume-session-at` needs a session to go on with")
                    .hint("add `-c`, or `-r ID`"),
            );
        }
        if self.fork && is_new {
            return Err(CliError::usage("`--fork-session` needs a session to copy")
                .hint("add `-c`, or `-r ID`"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_choose_a_session() {
        let uuid = "123e4567-e89b-12d3-a456-426614174000";
        type Set<'a> = &'a dyn Fn(&mut Options);
        let cases: &[(&str, Interface, Set<'_>, SessionChoice)] = &[
            ("nothing", Interface::Native, &|_| {}, SessionChoice::Newest),
            (
                "nothing with -p",
                Interface::AgentSdk,
                &|_| {},
                SessionChoice::New,
            ),
            (
                "-n",
                Interface::Native,
                &|options| options.resume.new = true,
                SessionChoice::New,
            ),
            (
                "-c",
                Interface::AgentSdk,
                &|options| options.resume.continue_last = true,
                SessionChoice::LastUsed,
            ),
            (
                "-r",
                Interface::Native,
                &|options| options.resume.resume = Some(String::new()),
                SessionChoice::LastUsed,
            ),
            (
                "-r 01A",
                Interface::AgentSdk,
                &|options| options.resume.resume = Some("01A".to_owned()),
                SessionChoice::Find("01A".to_owned()),
            ),
            (
                "--session-id",
                Interface::Native,
                &|options| options.resume.session_id = Some(uuid.to_owned()),
                SessionChoice::New,
            ),
            (
                "--name x",
                Interface::AgentSdk,
                &|options| options.session.name = Some("x".to_owned()),
                SessionChoice::Named("x".to_owned()),
            ),
            (
                "--db x -n",
                Interface::Native,
                &|options| {
                    options.session.db = Some("x".into());
                    options.resume.new = true;
                },
                SessionChoice::File("x".into()),
            ),
        ];
        for (name, interface, set, expected) in cases {
            let mut options = Options::default();
            set(&mut options);
            assert_eq!(
                SessionPlan::of(&options, *interface).unwrap().choice,
                *expected,
                "{name}"
            );
        }
    }

    #[test]
    fn contradictions_are_refused() {
        let uuid = "123e4567-e89b-12d3-a456-426614174000";
        for (continues, fork, id, is_fine) in [
            (true, false, Some(uuid), false),
            (true, true, Some(uuid), true),
            (false, true, None, false),
            (false, false, Some("7"), false),
        ] {
            let mut options = Options::default();
            options.resume.continue_last = continues;
            options.resume.fork_session = fork;
            options.resume.session_id = id.map(str::to_owned);
            let plan = SessionPlan::of(&options, Interface::AgentSdk);
            assert_eq!(plan.is_ok(), is_fine, "{continues} {fork} {id:?}");
        }
    }
}
