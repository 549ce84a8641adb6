//! Lines for the user besides the answer. They go to standard error, or to the conversation while that owns the
//! terminal.

use std::io::Write as _;

use parking_lot::Mutex;

/// Receiver of lines, without their ends.
pub type Taker = Box<dyn Fn(&str) + Send>;

static TAKER: Mutex<Option<Taker>> = Mutex::new(None);

/// Sends lines to `taker` from now on, or to standard error if there is none.
pub fn divert(taker: Option<Taker>) {
    *TAKER.lock() = taker;
}

/// Prints a line for the user. A closed standard error is ignored.
pub fn tell(line: &str) {
    match &*TAKER.lock() {
        Some(taker) => taker(line),
        None => {
            let _ = writeln!(crate::glyphs::err(), "{line}");
        }
    }
}
