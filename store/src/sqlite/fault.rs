//! Fault injection around each commit, for tests that kill the program at every one of them.
//!
//! Without the feature `fault-injection` it does nothing. With it, an environment variable is read, the only one in
//! this crate, since a test has no other way to control the program it runs: `AH_FAULT=before:3` fails just before the
//! third commit of the process, `after:3` just after it. An optional third part chooses the fault: `kill` (SIGKILL, the
//! default), `abort` or `error`.

use super::Failure;

/// Position relative to a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Before,
    After,
}

/// Does nothing without the feature.
#[cfg(not(feature = "fault-injection"))]
#[expect(clippy::unnecessary_wraps, reason = "with the feature it can fail")]
pub(super) fn point(_side: Side) -> Result<(), Failure> {
    Ok(())
}

#[cfg(feature = "fault-injection")]
pub(super) use injected::point;

#[cfg(feature = "fault-injection")]
mod injected {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::{Failure, Side};

    struct Plan {
        side: Side,
        commit: u64,
        action: Action,
    }

    enum Action {
        Kill,
        Abort,
        Error,
    }

    /// Fails if a fault was requested for this point.
    pub(in crate::sqlite) fn point(side: Side) -> Result<(), Failure> {
        static PLAN: OnceLock<Option<Plan>> = OnceLock::new();
        static COMMITS: AtomicU64 = AtomicU64::new(0);
        let commit = match side {
            Side::Before => COMMITS.fetch_add(1, Ordering::SeqCst) + 1,
            Side::After => COMMITS.load(Ordering::SeqCst),
        };
        let plan = PLAN.get_or_init(|| parse(&std::env::var("AH_FAULT").ok()?));
        match plan {
            Some(plan) if plan.side == side && plan.commit == commit => fail(&plan.action),
            _ => Ok(()),
        }
    }

    fn parse(text: &str) -> Option<Plan> {
        let mut words = text.split(':');
        let side = match words.next()? {
            "before" => Side::Before,
            "after" => Side::After,
            _ => return None,
        };
        let commit = words.next()?.parse().ok()?;
        let action = match words.next() {
            None | Some("kill") => Action::Kill,
            Some("abort") => Action::Abort,
            Some("error") => Action::Error,
            Some(_) => return None,
        };
        Some(Plan {
            side,
            commit,
            action,
        })
    }

    fn fail(action: &Action) -> Result<(), Failure> {
        match action {
            Action::Kill => {
                let own = rustix::process::getpid();
                let _ = rustix::process::kill_process(own, rustix::process::Signal::KILL);
                Ok(())
            }
            Action::Abort => std::process::abort(),
            Action::Error => Err(Failure::Refused {
                reason: "injected fault".to_owned(),
                hint: None,
            }),
        }
    }
}

/// Commits, with the injected faults before and after.
pub(super) fn commit(transaction: rusqlite::Transaction<'_>) -> Result<(), Failure> {
    point(Side::Before)?;
    transaction.commit()?;
    point(Side::After)
}
