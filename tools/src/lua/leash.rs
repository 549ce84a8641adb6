//! How far a script may go: until its time is over, its instructions are spent, or nobody waits for it any more.
//!
//! A script is asked at every so many instructions and wherever it waits. What it catches with `pcall` it cannot catch
//! here: once the leash is at its end, each further step fails.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mlua::{HookTriggers, Lua, VmState};
use tokio_util::sync::{CancellationToken, DropGuard};

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
}

impl Leash {
    /// A leash whose time begins now.
    pub(super) fn new(limits: Limits) -> Self {
        Self(Arc::new(Held {
            limits,
            deadline: Instant::now() + limits.time,
            spent: AtomicU64::new(0),
            stop: CancellationToken::new(),
        }))
    }

    /// What is dropped when nobody waits any more.
    pub(super) fn holder(&self) -> DropGuard {
        self.0.stop.clone().drop_guard()
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
