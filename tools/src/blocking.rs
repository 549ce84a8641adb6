//! Runs a tool's work on files where it may block: on a thread of its own, told to stop when the call is dropped.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ah_conversation::{Output, ToolUse};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Tells the work of a call that nobody waits for it any more.
#[derive(Clone, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Whether the call was dropped.
    pub(crate) fn is_requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Fails if the call was dropped; nobody reads the text.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self.is_requested() {
            true => Err("stopped".into()),
            false => Ok(()),
        }
    }
}

/// A source that gives an error once nobody waits for what is read from it.
pub(crate) struct Stoppable<'a, R> {
    pub(crate) source: R,
    pub(crate) stop: &'a Stop,
}

impl<R: Read> Read for Stoppable<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stop.check().map_err(io::Error::other)?;
        self.source.read(buffer)
    }
}

/// Stops the work when the future that waits for it goes away.
struct StopOnDrop(Stop);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

/// Parses the input of `call` and does its `work`; an `Err` is a failure that the model is told of. A panic of the
/// work is a panic of the call.
pub(crate) async fn answer<I, F>(call: &ToolUse, work: F) -> Output
where
    I: DeserializeOwned + Send + 'static,
    F: FnOnce(I, &Stop) -> Result<Output, String> + Send + 'static,
{
    let input: I = match serde_json::from_value(call.input.to_value()) {
        Ok(input) => input,
        Err(fault) => return Output::error(format!("invalid input of {}: {fault}", call.name)),
    };
    let guard = StopOnDrop(Stop::default());
    let stop = guard.0.clone();
    match tokio::task::spawn_blocking(move || work(input, &stop)).await {
        Ok(answer) => answer.unwrap_or_else(Output::error),
        Err(fault) => match fault.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Output::error("stopped: the program is about to end"),
        },
    }
}

/// A count that may have come as a whole float or as digits in a string.
pub(crate) fn count<'de, D: Deserializer<'de>>(source: D) -> Result<Option<u64>, D::Error> {
    let value = Option::<Value>::deserialize(source)?;
    let digits = match &value {
        None => return Ok(None),
        Some(Value::String(text)) => text.trim().to_owned(),
        Some(other) => other.to_string(),
    };
    let whole = digits.strip_suffix(".0").unwrap_or(&digits);
    let count = whole
        .parse()
        .map_err(|_| D::Error::custom(format!("`{digits}` is not a whole number, at least 0")))?;
    Ok(Some(count))
}
