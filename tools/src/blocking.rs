//! Runs a tool's blocking work on files on a thread of its own, which is asked to stop when the call is dropped.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ah_conversation::{Output, ToolUse};
use serde::de::DeserializeOwned;

use crate::arguments;

/// Flag that is set when the call was dropped.
#[derive(Clone, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Returns whether the call was dropped.
    pub(crate) fn is_requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns an error, which is never read, if the call was dropped.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.is_requested() {
            Err("stopped".into())
        } else {
            Ok(())
        }
    }
}

/// Source that returns an error once the call was dropped.
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

/// Stops the work when the future that waits for it is dropped.
struct StopOnDrop(Stop);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

/// Parses the input of `call` and runs `work`; an `Err` is an error result for the model. A panic of the work is a
/// panic of the call.
pub(crate) async fn answer<I, F>(call: &ToolUse, work: F) -> Output
where
    I: DeserializeOwned + Send + 'static,
    F: FnOnce(I, &Stop) -> Result<Output, String> + Send + 'static,
{
    let input: I = match arguments::parse(call) {
        Ok(input) => input,
        Err(error) => return Output::error(error),
    };
    let guard = StopOnDrop(Stop::default());
    let stop = guard.0.clone();
    match tokio::task::spawn_blocking(move || work(input, &stop)).await {
        Ok(answer) => answer.unwrap_or_else(Output::error),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Output::error("stopped: the program is about to end"),
        },
    }
}
