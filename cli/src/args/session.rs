//! The session that the options choose.

use ah_config::Error;
use ah_conversation::Interface;
use ah_engine::sessions::plan::{ResumePoint, SessionChoice, SessionPlan};

use super::options::Options;

/// Returns the session that the options choose.
///
/// # Errors
///
/// If they contradict each other.
pub fn plan(options: &Options, interface: Interface) -> Result<SessionPlan, Error> {
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
    let plan = SessionPlan {
        choice,
        fork: resume.fork_session,
        uuid: resume.session_id.clone(),
        at: resume.resume_session_at.clone().map(|name| ResumePoint {
            name,
            drops: resume.resume_drops_turn.clone(),
        }),
        ephemeral: resume.no_session_persistence,
        is_listed: resume.resume.as_deref() == Some("") && !resume.fork_session,
        ..SessionPlan::default()
    };
    plan.checked()
}

#[cfg(test)]
mod tests {
    use ah_engine::sessions::plan::SessionChoice;

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
                plan(&options, *interface).unwrap().choice,
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
            let plan = plan(&options, Interface::AgentSdk);
            assert_eq!(plan.is_ok(), is_fine, "{continues} {fork} {id:?}");
        }
    }
}
