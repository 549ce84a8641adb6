//! Limits of a running script: its time, its instructions, and whether its call is still awaited.
//!
//! They are checked every few thousand instructions and wherever the script waits. `pcall` does not help a script: once
//! a limit is reached, each further step fails.

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use ah_process::Child;
use mlua::{HookTriggers, Lua, VmState};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// Number of instructions between two checks.
const STEP: u32 = 10_000;

/// Limits of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    /// Time from the call to its result.
    pub(super) time: Duration,
    /// Number of Lua instructions.
    pub(super) instructions: u64,
    /// Memory of the state in bytes, and maximum size of one file, response or output.
    pub(super) memory: usize,
}

impl Limits {
    /// Limits of tools that set none.
    pub(super) const DEFAULT: Self = Self {
        time: Duration::from_secs(600),
        instructions: 1_000_000_000,
        memory: 256 << 20,
    };

    /// Limits while a file is loaded: it only has to return its table.
    pub(super) const LOADING: Self = Self {
        time: Duration::from_secs(5),
        instructions: 50_000_000,
        ..Self::DEFAULT
    };
}

/// Reason why a script has to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Stopped,
    TimedOut(Duration),
    Spent(u64),
}

impl fmt::Display for End {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => write!(out, "stopped"),
            Self::TimedOut(time) => write!(out, "timed out after {} s", time.as_secs()),
            Self::Spent(count) => write!(out, "stopped after {count} instructions"),
        }
    }
}

impl std::error::Error for End {}

/// The leash of one call.
#[derive(Clone)]
pub(super) struct Leash(Arc<LeashState>);

struct LeashState {
    limits: Limits,
    deadline: Instant,
    spent: AtomicU64,
    /// Milliseconds that others took meanwhile.
    waited: AtomicU64,
    stop: CancellationToken,
    children: Mutex<Vec<Weak<Child>>>,
}

/// Guard of a call: when it is dropped, the script and the programs that it started have to end.
pub(super) struct Holder(Option<Leash>);

impl Holder {
    /// Drops the guard of a call that has ended.
    pub(super) fn release(mut self) {
        self.0 = None;
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        if let Some(leash) = &self.0 {
            leash.0.stop.cancel();
            leash.end_children();
        }
    }
}

impl Leash {
    /// Returns a leash whose time starts now.
    pub(super) fn new(limits: Limits) -> Self {
        Self(Arc::new(LeashState {
            limits,
            deadline: Instant::now() + limits.time,
            spent: AtomicU64::new(0),
            waited: AtomicU64::new(0),
            stop: CancellationToken::new(),
            children: Mutex::default(),
        }))
    }

    /// Returns the guard of the call.
    pub(super) fn holder(&self) -> Holder {
        Holder(Some(self.clone()))
    }

    /// Registers a program that the script has started.
    pub(super) fn owns(&self, child: &Arc<Child>) {
        self.0.children.lock().push(Arc::downgrade(child));
    }

    /// Whether handles of programs that the script has started exist.
    pub(super) fn has_children(&self) -> bool {
        self.0
            .children
            .lock()
            .iter()
            .any(|child| child.strong_count() > 0)
    }

    /// Ends the programs that the script has started.
    pub(super) fn end_children(&self) {
        let children = self.0.children.lock();
        children
            .iter()
            .filter_map(Weak::upgrade)
            .for_each(|child| child.stop());
    }

    /// Returns the maximum size of one file, response or output, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.0.limits.memory
    }

    /// Returns the reason why the script has to end; `None` if it may go on.
    pub(super) fn end(&self) -> Option<End> {
        let held = &*self.0;
        if held.stop.is_cancelled() {
            Some(End::Stopped)
        } else if held.spent.load(Ordering::Relaxed) >= held.limits.instructions {
            Some(End::Spent(held.limits.instructions))
        } else if self.deadline() <= Instant::now() {
            Some(End::TimedOut(held.limits.time))
        } else {
            None
        }
    }

    fn step(&self) -> Result<(), End> {
        self.0.spent.fetch_add(u64::from(STEP), Ordering::Relaxed);
        match self.end() {
            Some(end) => Err(end),
            None => Ok(()),
        }
    }

    /// Waits for `work`, at most until the script has to end.
    pub(super) async fn wait<T>(&self, work: impl Future<Output = T>) -> Result<T, End> {
        let held = &*self.0;
        tokio::select! {
            biased;
            () = held.stop.cancelled() => Err(End::Stopped),
            () = tokio::time::sleep_until(self.deadline().into()) => Err(End::TimedOut(held.limits.time)),
            done = work => Ok(done),
        }
    }

    /// Waits for `work` of others, whose time does not count.
    pub(super) async fn wait_for_others<T>(&self, work: impl Future<Output = T>) -> Result<T, End> {
        let held = &*self.0;
        let began = Instant::now();
        let done = tokio::select! {
            biased;
            () = held.stop.cancelled() => Err(End::Stopped),
            done = work => Ok(done),
        };
        let waited = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        held.waited.fetch_add(waited, Ordering::Relaxed);
        done
    }

    /// Returns when the time of the script ends.
    pub(super) fn deadline(&self) -> Instant {
        let waited = Duration::from_millis(self.0.waited.load(Ordering::Relaxed));
        self.0.deadline + waited
    }

    /// Applies the limits to everything that runs in `lua` from now on.
    pub(super) fn fasten(&self, lua: &Lua) -> mlua::Result<()> {
        lua.set_memory_limit(self.0.limits.memory)?;
        lua.set_app_data(self.clone());
        let leash = self.clone();
        let triggers = HookTriggers::new().every_nth_instruction(STEP);
        lua.set_global_hook(triggers, move |_, _| match leash.step() {
            Ok(()) => Ok(VmState::Continue),
            Err(end) => Err(mlua::Error::external(end)),
        })
    }

    /// Returns the leash of the call that runs in `lua`.
    pub(super) fn of(lua: &Lua) -> mlua::Result<Self> {
        match lua.app_data_ref::<Self>() {
            Some(leash) => Ok(leash.clone()),
            None => Err(mlua::Error::runtime("no call is running")),
        }
    }
}
