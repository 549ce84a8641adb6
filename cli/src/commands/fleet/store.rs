//! The store that a command means, and the session in it.

use std::sync::Arc;
use std::time::Duration;

use ah_config::{Config, Error};
use ah_conversation::{Environment, SessionId};
use ah_fleet::worker;
use ah_store::fleet::{Fleet, Timing};

use crate::args::fleet::{Queued, Store};

/// Returns the address of the store; `None` for the sessions of this folder.
pub fn url<'a>(store: &'a Store, environment: &'a Environment) -> Option<&'a str> {
    let given = store.store.as_deref();
    let kept = environment.get("AH_STORE");
    given.or(kept).filter(|url| !url.is_empty())
}

/// Opens the store.
pub async fn open(config: &Config, store: &Store) -> Result<Arc<dyn Fleet>, Error> {
    let timing = match config.environment.get("AH_FLEET_DEAD") {
        None | Some("") => Timing::default(),
        Some(seconds) => match seconds.parse() {
            Ok(seconds) if (0.1..=3600.0).contains(&seconds) => {
                Timing::of(Duration::from_secs_f64(seconds))
            }
            _ => {
                return Err(Error::usage("AH_FLEET_DEAD is not a number of seconds")
                    .hint("it may be 0.1 to 3600"));
            }
        },
    };
    worker::fleet(url(store, &config.environment), config, timing).await
}

/// Opens the store and finds a session in it.
pub async fn found(config: &Config, queued: &Queued) -> Result<(Arc<dyn Fleet>, SessionId), Error> {
    let fleet = open(config, &queued.store).await?;
    let wanted = queued.session.to_ascii_uppercase();
    let mut ids = fleet.find(&wanted).await?;
    match (ids.pop(), ids.is_empty()) {
        (Some(id), true) => Ok((fleet, id)),
        (Some(_), false) => Err(Error::failure(format!(
            "several sessions begin with `{}`",
            queued.session
        ))),
        (None, _) => Err(Error::failure(format!(
            "no queued session begins with `{}`",
            queued.session
        ))
        .hint("`ah fleet` lists them")),
    }
}
