//! Asynchronous work on behalf of a script, which waits for it.

use std::sync::Arc;

use mlua::Lua;
use tokio::runtime::{Builder, Runtime};

use super::leash::Leash;

/// Runtime of one Lua state, made when it first waits.
struct Waiting(Option<Runtime>);

impl Waiting {
    fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        let runtime = self.0.as_ref().expect("it is there until it is dropped");
        runtime.block_on(work)
    }
}

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
    let leash = Leash::of(lua)?;
    let done = runtime(lua)?.block_on(leash.wait(work));
    done.map_err(mlua::Error::external)
}

/// Waits for `work` of others, whose time does not count for the script.
pub(super) fn block_on_others<T>(lua: &Lua, work: impl Future<Output = T>) -> mlua::Result<T> {
    let leash = Leash::of(lua)?;
    let done = runtime(lua)?.block_on(leash.wait_for_others(work));
    done.map_err(mlua::Error::external)
}

/// Returns the runtime of a state.
fn runtime(lua: &Lua) -> mlua::Result<Arc<Waiting>> {
    let known = lua
        .app_data_ref::<Arc<Waiting>>()
        .map(|waiting| waiting.clone());
    if let Some(waiting) = known {
        return Ok(waiting);
    }
    let runtime = Builder::new_current_thread().enable_all().build();
    let waiting = Arc::new(Waiting(Some(runtime.map_err(mlua::Error::external)?)));
    lua.set_app_data(waiting.clone());
    Ok(waiting)
}
