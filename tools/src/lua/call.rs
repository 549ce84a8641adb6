//! Runs the calls of one tool, one after the other, in its single Lua state. Each call has its own thread.
//!
//! Some functions of the interpreter cannot be interrupted, so no call waits for its thread for ever: it is answered
//! in time, and a state that does not come back is replaced.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ah_conversation::{Context, Denied, HiddenFiles, Output, ToolUse};
use mlua::{Lua, MultiValue, Table};
use parking_lot::Mutex;
use tokio::sync::{OwnedMutexGuard, oneshot};
use tokio::time::timeout;

use super::leash::{Leash, Limits};
use super::load::{self, STACK, Script, trace};
use super::state::Source;
use super::surroundings::LuaSurroundings;
use super::{answer, json};

/// Time that a script is given to end after its time limit.
const GRACE: Duration = Duration::from_secs(1);
/// The script, locked while a call runs it; empty before the first call of a new state.
type Slot = Arc<tokio::sync::Mutex<Option<Script>>>;

/// The calls of one tool.
pub(super) struct Calls {
    around: Arc<LuaSurroundings>,
    source: Source,
    slot: Mutex<Slot>,
}

/// One call, on its thread.
struct LuaCall {
    around: Arc<LuaSurroundings>,
    source: Source,
    leash: Leash,
    request: ToolUse,
    hidden: HiddenFiles,
    denied: Denied,
}

/// Replaces the state if the call that runs in it is dropped before its answer.
struct GiveUp<'a>(Option<&'a Calls>);

impl Drop for GiveUp<'_> {
    fn drop(&mut self) {
        if let Some(calls) = self.0 {
            *calls.slot.lock() = Slot::default();
        }
    }
}

impl Calls {
    /// Returns the calls of a loaded file.
    pub(super) fn new(around: Arc<LuaSurroundings>, source: Source, script: Script) -> Self {
        Self {
            around,
            source,
            slot: Mutex::new(Arc::new(tokio::sync::Mutex::new(Some(script)))),
        }
    }

    /// Runs one call to its end.
    pub(super) async fn run(&self, request: &ToolUse, context: &Context, limits: Limits) -> Output {
        let patience = limits.time.saturating_add(GRACE);
        let slot = self.slot.lock().clone();
        let Ok(script) = timeout(patience, slot.lock_owned()).await else {
            return Output::error(format!("{} is busy with an earlier call", request.name));
        };
        let leash = Leash::new(limits);
        let holder = leash.holder();
        let call = LuaCall {
            around: self.around.clone(),
            source: self.source.clone(),
            leash,
            request: request.clone(),
            hidden: context.hidden.clone(),
            denied: context.denied.clone(),
        };
        let (sender, receiver) = oneshot::channel();
        let started = thread::Builder::new()
            .name("lua".into())
            .stack_size(STACK)
            .spawn(move || call.answer(script, sender));
        if let Err(error) = started {
            return Output::error(format!("cannot run {}: {error}", request.name));
        }
        let mut give_up = GiveUp(Some(self));
        let fault = match timeout(patience, receiver).await {
            Ok(Ok(output)) => {
                give_up.0 = None;
                holder.release();
                return output;
            }
            Ok(Err(_)) => "its thread crashed".to_owned(),
            Err(_) => format!("timed out after {} s", limits.time.as_secs()),
        };
        Output::error(format!("{}: {fault}", request.name))
    }
}

impl LuaCall {
    fn answer(self, mut script: OwnedMutexGuard<Option<Script>>, sender: oneshot::Sender<Output>) {
        let output = self.work(&mut script).unwrap_or_else(Output::error);
        drop(script);
        // The call may have been dropped.
        let _ = sender.send(output);
    }

    fn work(&self, script: &mut Option<Script>) -> Result<Output, String> {
        let Script { lua, execute } = match script {
            Some(script) => script,
            empty => empty.insert(load::script(&self.around, &self.source, &self.leash)?),
        };
        // The same state serves every call, and what is hidden may differ.
        lua.set_app_data(Arc::new(LuaSurroundings {
            hidden: self.hidden.clone(),
            denied: self.denied.clone(),
            ..(*self.around).clone()
        }));
        let returned = self.leash.fasten(lua).and_then(|()| {
            let input = json::to_lua(lua, &self.request.input.to_value())?;
            execute.call::<MultiValue>((input, self.context(lua)?))
        });
        let end = self.leash.end();
        if end.is_some() {
            self.leash.end_children();
        }
        let output = match (returned, end) {
            (Ok(returned), _) => Ok(answer::output(lua, &returned)),
            // An ended script may fail with any error; the reason is that it was ended.
            (Err(error), Some(end)) => Err(match trace(&error) {
                text if text.starts_with(&end.to_string()) => text,
                text => format!("{end}\n{text}"),
            }),
            (Err(error), None) => Err(trace(&error)),
        };
        if self.leash.has_children() {
            // Collects handles that are no longer used, so that their programs end now.
            let _ = lua.gc_collect();
        }
        output
    }

    /// Returns the second argument of `execute`.
    fn context(&self, lua: &Lua) -> mlua::Result<Table> {
        let context = lua.create_table()?;
        context.set("cwd", self.around.cwd.as_path())?;
        context.set("tool_name", self.request.name.as_str())?;
        context.set("tool_use_id", self.request.id.as_str())?;
        Ok(context)
    }
}
