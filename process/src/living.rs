//! Which children there are: so that they can be ended before the program leaves, and so that a child of ours is
//! never taken for an orphan that was handed to us.

use std::collections::HashMap;
use std::io::{self, PipeReader, PipeWriter};
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::Pid;

/// How long a child may take to die: a second until KILL, and a second for the kernel, which may be busy.
const LONGEST_DEATH: Duration = Duration::from_millis(2_500);

// Children belong to the process and not to any value in it, and so does the list of them.
static LIVING: LazyLock<Mutex<Living>> = LazyLock::new(Mutex::default);
static LEFT: Condvar = Condvar::new();

#[derive(Default)]
struct Living {
    next: u64,
    children: HashMap<u64, Slot>,
}

struct Slot {
    /// The process group, once there is one.
    group: Option<Pid>,
    /// Closing it is the request to stop.
    stop: Option<PipeWriter>,
}

fn living() -> MutexGuard<'static, Living> {
    // Every change is a single insertion, removal or assignment, so a panic leaves nothing half done.
    LIVING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A child's place in the list, as its owner holds it; dropped, it asks for the child's end.
#[derive(Debug)]
pub(crate) struct Entry(u64);

/// A child's place in the list, as its thread holds it; dropped, the place is free.
pub(crate) struct Registration(u64);

/// Registers a child that is about to be started. The pipe ends when it is to be stopped.
pub(crate) fn register() -> io::Result<(Entry, Registration, PipeReader)> {
    let (request, stop) = io::pipe()?;
    let mut living = living();
    living.next += 1;
    let id = living.next;
    let slot = Slot {
        group: None,
        stop: Some(stop),
    };
    living.children.insert(id, slot);
    Ok((Entry(id), Registration(id), request))
}

/// The groups of all children.
pub(crate) fn groups() -> Vec<Pid> {
    let living = living();
    living
        .children
        .values()
        .filter_map(|slot| slot.group)
        .collect()
}

/// Ends all children and what they started, and returns when they are gone: for the last moment of the program,
/// when no runtime need be there any more. Blocks, for two and a half seconds at most.
pub fn finish_all() {
    let mut living = living();
    for slot in living.children.values_mut() {
        slot.stop = None;
    }
    let gone = LEFT.wait_timeout_while(living, LONGEST_DEATH, |living| !living.children.is_empty());
    drop(gone);
}

impl Entry {
    pub(crate) fn stop(&self) {
        if let Some(slot) = living().children.get_mut(&self.0) {
            slot.stop = None;
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Registration {
    /// A word that no other child of any process has, for its mark. It begins with the number of this process, by
    /// which another one finds what we left if we are killed.
    pub(crate) fn name(&self) -> String {
        let since_epoch = std::time::SystemTime::UNIX_EPOCH
            .elapsed()
            .unwrap_or_default();
        let pid = std::process::id();
        format!("{pid:x}-{:x}-{:x}", since_epoch.as_micros(), self.0)
    }

    pub(crate) fn started(&self, group: Pid) {
        if let Some(slot) = living().children.get_mut(&self.0) {
            slot.group = Some(group);
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        living().children.remove(&self.0);
        LEFT.notify_all();
    }
}
