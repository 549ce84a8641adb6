//! How far a script may go: until its time is over, its instructions are spent, or nobody waits for it any more.
//!
//! A script is asked at every so many instructions and wherever it waits. What it catches with `pcall` it cannot catch
//! here: once the leash is at its end, each further step fails.

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use ah_process::Child;
use mlua::{HookTriggers, Lua, VmState};
use tokio_util::sync::CancellationToken;

/// How often a script is asked, in instructions.
const STEP: u32 = 10_000;

/// What a script may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    /// From the call to the answer.
    pub(super) time: Duration,
    /// Instructions of one call.
    pub(super) instructions: u64,
    /// Bytes that the state may hold, and that one file, answer or output may have.
    pub(super) memory: usize,
}

impl Limits {
    /// For files that say nothing else.
    pub(super) const DEFAULT: Self = Self {
        time: Duration::from_secs(600),
        instructions: 1_000_000_000,
        memory: 256 << 20,
    };

    /// While a file is loaded: it only has to say what it is.
    pub(super) const LOADING: Self = Self {
        time: Duration::from_secs(5),
        instructions: 50_000_000,
        ..Self::DEFAULT
    };
}

/// Why a script was ended.
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
pub(super) struct Leash(Arc<Held>);

struct Held {
    limits: Limits,
    deadline: Instant,
    spent: AtomicU64,
    stop: CancellationToken,
    children: Mutex<Vec<Weak<Child>>>,
}

/// Whoever waits for a script; dropped, nobody does, and what it has started ends with it.
pub(super) struct Holder(Option<Leash>);

impl Holder {
    /// The script has answered.
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
    /// A leash whose time begins now.
    pub(super) fn new(limits: Limits) -> Self {
        Self(Arc::new(Held {
            limits,
            deadline: Instant::now() + limits.time,
            spent: AtomicU64::new(0),
            stop: CancellationToken::new(),
            children: Mutex::default(),
        }))
    }

    /// What is dropped when nobody waits any more.
    pub(super) fn holder(&self) -> Holder {
        Holder(Some(self.clone()))
    }

    /// Notes a program that the script has started.
    pub(super) fn owns(&self, child: &Arc<Child>) {
        self.children().push(Arc::downgrade(child));
    }

    /// Whether programs that the script has started are still held.
    pub(super) fn has_children(&self) -> bool {
        self.children().iter().any(|child| child.strong_count() > 0)
    }

    /// Ends the programs that the script has started.
    pub(super) fn end_children(&self) {
        let children = self.children();
        children
            .iter()
            .filter_map(Weak::upgrade)
            .for_each(|child| child.stop());
    }

    fn children(&self) -> std::sync::MutexGuard<'_, Vec<Weak<Child>>> {
        // Every change is a single push.
        self.0
            .children
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// How many bytes may be taken at once.
    pub(super) fn memory(&self) -> usize {
        self.0.limits.memory
    }

    /// Why the script has to end, if it has to.
    pub(super) fn end(&self) -> Option<End> {
        let held = &*self.0;
        if held.stop.is_cancelled() {
            Some(End::Stopped)
        } else if held.spent.load(Ordering::Relaxed) >= held.limits.instructions {
            Some(End::Spent(held.limits.instructions))
        } else if held.deadline <= Instant::now() {
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

    /// Waits for `work`, but no longer than the script may go on.
    pub(super) async fn wait<T>(&self, work: impl Future<Output = T>) -> Result<T, End> {
        let held = &*self.0;
        tokio::select! {
            biased;
            () = held.stop.cancelled() => Err(End::Stopped),
            () = tokio::time::sleep_until(held.deadline.into()) => Err(End::TimedOut(held.limits.time)),
            done = work => Ok(done),
        }
    }

    /// Puts all that runs in `lua` from now on this leash.
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

    /// The leash that `lua` runs on.
    pub(super) fn of(lua: &Lua) -> mlua::Result<Self> {
        match lua.app_data_ref::<Self>() {
            Some(leash) => Ok(leash.clone()),
            None => Err(mlua::Error::runtime("no call is running")),
        }
    }
}
