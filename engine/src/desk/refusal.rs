//! Errors as refusals of the desk, by which clients decide what to do.

use ah_config::{Error, ErrorKind};
use ah_desk::{Refusal, RefusalKind};

use crate::model;

/// Returns why something was not done, for a client.
pub(crate) fn refusal(error: &Error) -> Refusal {
    let kind = kind(error);
    Refusal {
        // Hints of the others are for a command line.
        text: match kind {
            RefusalKind::Model(_) | RefusalKind::Failed => error.in_one_line(),
            RefusalKind::Busy | RefusalKind::Missing => error.message.clone(),
        },
        kind,
    }
}

/// Returns what kind of refusal an error is.
fn kind(error: &Error) -> RefusalKind {
    match error.kind {
        ErrorKind::SessionBusy => RefusalKind::Busy,
        ErrorKind::NotFound => RefusalKind::Missing,
        ErrorKind::Provider => {
            let keyless = model::keyless(error);
            RefusalKind::Model(keyless.map(|error| Box::new(error.clone())))
        }
        _ => RefusalKind::Failed,
    }
}

/// Returns why something was not done, with the hint for it.
pub(crate) fn in_one_line(error: &Error) -> Refusal {
    Refusal {
        text: error.in_one_line(),
        kind: kind(error),
    }
}
