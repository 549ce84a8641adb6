//! Asynchronous work on behalf of a script, which waits for it.

use std::sync::Arc;

use mlua::Lua;
use tokio::runtime::{Builder, Runtime};

use super::leash::Leash;

/// Runtime of one Lua state, made when it first waits.
struct Waiting(Option<Runtime>);

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            // A state may end on a thread that must not block.
            runtime.shutdown_background();
        }
    }
}

/// Waits for `work`, at most until the script has to end.
pub(super) fn block_on<T>(lua: &Lua, work: impl Future<Output = T>) -> mlua::Result<T> {
    let known = lua
        .app_data_ref::<Arc<Waiting>>()
        .map(|waiting| waiting.clone());
    let waiting = match known {
        Some(waiting) => waiting,
        None => {
            let runtime = Builder::new_current_thread().enable_all().build();
            let waiting = Arc::new(Waiting(Some(runtime.map_err(mlua::Error::external)?)));
            lua.set_app_data(waiting.clone());
            waiting
        }
    };
    let leash = Leash::of(lua)?;
    let runtime = waiting.0.as_ref().expect("it is there until it is dropped");
    runtime
        .block_on(leash.wait(work))
        .map_err(mlua::Error::external)
}
