//! Faults that `AH_FAULT` asks for.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::sqlite::Failure;

/// Position relative to a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Before,
    After,
}

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

/// Fails if a fault was requested before this commit.
pub(super) fn before_commit() -> Result<(), Failure> {
    point(Side::Before)
}

/// Fails if a fault was requested after this commit.
pub(super) fn after_commit() -> Result<(), Failure> {
    point(Side::After)
}

fn point(side: Side) -> Result<(), Failure> {
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
