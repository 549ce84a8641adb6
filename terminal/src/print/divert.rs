//! What the program tells its user beside an answer goes to standard error, but where a conversation has the terminal:
//! there it is handed over, since two who write are one too many.

use std::io::Write as _;
use std::sync::{Mutex, PoisonError};

/// Takes lines, without their ends.
pub type Taker = Box<dyn Fn(&str) + Send>;

static TAKER: Mutex<Option<Taker>> = Mutex::new(None);

/// Hands lines to `taker` from now on; to standard error, where there is none.
pub fn divert(taker: Option<Taker>) {
    *TAKER.lock().unwrap_or_else(PoisonError::into_inner) = taker;
}

/// Tells the user a line. Where nobody takes it there is nobody to tell.
pub fn tell(line: &str) {
    match &*TAKER.lock().unwrap_or_else(PoisonError::into_inner) {
        Some(taker) => taker(line),
        None => {
            let _ = writeln!(anstream::stderr().lock(), "{line}");
        }
    }
}
