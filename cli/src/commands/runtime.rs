//! The runtime on which a command waits for what it has begun.

use ah_config::Error;
use tokio::runtime::{Builder, Runtime};

/// Creates a runtime that runs on the current thread.
pub fn runtime() -> Result<Runtime, Error> {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::failure(format!("cannot start: {error}")))
}
