//! Which session a conversation begins with. Who chooses none goes on with the newest one of the folder, but not with one
//! that another terminal has open, nor with one from another day.

use std::time::{Duration, SystemTime};

use ah_config::{Config, Error, ErrorKind};
use ah_engine::Opened;
use ah_engine::sessions::place::sessions;
use ah_engine::sessions::plan::{SessionChoice, SessionPlan};

use super::session_factory::SessionFactory;

/// Age from which on a session is continued only on request.
const OLD: Duration = Duration::from_secs(24 * 60 * 60);

/// Opens the session that `plan` selects, or a new one in the place of the newest, if that is taken or old.
///
/// # Errors
///
/// If the session cannot be opened or the model cannot be used.
pub async fn open(
    factory: &SessionFactory,
    plan: &SessionPlan,
    fork_at: Option<u32>,
) -> Result<Opened, Error> {
    if plan.choice != SessionChoice::Newest || plan.fork || fork_at.is_some() {
        return factory.open(plan, fork_at).await;
    }
    let fresh = SessionPlan {
        choice: SessionChoice::New,
        ..plan.clone()
    };
    if age(&factory.opening.config).is_some_and(|age| age > OLD) {
        crate::note(
            "the last session here is more than a day old; this is a new one (`/sessions` has the earlier ones)",
        );
        return factory.open(&fresh, None).await;
    }
    match factory.open(plan, None).await {
        Err(error) if error.kind == ErrorKind::SessionBusy => {
            crate::note("the last session here is open in another terminal; this is a new one");
            factory.open(&fresh, None).await
        }
        opened => opened,
    }
}

/// Returns the time since the newest session was written.
fn age(config: &Config) -> Option<Duration> {
    let newest = sessions(config).newest().ok()??;
    let written = std::fs::metadata(newest.database()).ok()?.modified().ok()?;
    SystemTime::now().duration_since(written).ok()
}
