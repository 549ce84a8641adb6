//! Registry of all running children, so that they can be ended before the program exits, and so that a child is never
//! taken for an adopted orphan.

use std::collections::HashMap;
use std::io::{self, PipeReader, PipeWriter};
use std::sync::LazyLock;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rustix::process::Pid;

/// Time a child has to end: a second until SIGKILL, and a second for the kernel, which may be busy.
const LONGEST_END: Duration = Duration::from_millis(2_500);

// Children belong to the process and not to a value in it, and so does their registry.
static LIVING: LazyLock<Mutex<Living>> = LazyLock::new(Mutex::default);
static LEFT: Condvar = Condvar::new();

#[derive(Default)]
struct Living {
    next: u64,
    children: HashMap<u64, RegisteredChild>,
}

struct RegisteredChild {
    /// Process group, once the child has started.
    group: Option<Pid>,
    /// Closing it requests the child to stop.
    stop: Option<PipeWriter>,
}

/// The caller's means to stop a registered child; dropping it stops the child.
#[derive(Debug)]
pub(crate) struct StopHandle(u64);

/// The registration of a child, held by its thread; dropping it removes the child.
pub(crate) struct Registration(u64);

/// Registers a child that is about to be started. The pipe closes when the child must stop.
pub(crate) fn register() -> io::Result<(StopHandle, Registration, PipeReader)> {
    let (request, stop) = io::pipe()?;
    let mut living = LIVING.lock();
    living.next += 1;
    let id = living.next;
    let child = RegisteredChild {
        group: None,
        stop: Some(stop),
    };
    living.children.insert(id, child);
    Ok((StopHandle(id), Registration(id), request))
}

/// Returns whether a child is about to be started, so that its process group is not known yet.
pub(crate) fn is_starting() -> bool {
    let living = LIVING.lock();
    living.children.values().any(|child| child.group.is_none())
}

/// Returns the process groups of all children.
pub(crate) fn groups() -> Vec<Pid> {
    LIVING
        .lock()
        .children
        .values()
        .filter_map(|child| child.group)
        .collect()
}

/// Ends all children with their descendants and waits until they are gone, at most two and a half seconds. Blocks;
/// called before the program exits, when there may be no runtime.
pub fn finish_all() {
    let mut living = LIVING.lock();
    for child in living.children.values_mut() {
        child.stop = None;
    }
    LEFT.wait_while_for(
        &mut living,
        |living| !living.children.is_empty(),
        LONGEST_END,
    );
}

/// Waits until the children that were asked to stop are gone with all that they started, at most two and a half seconds.
/// Blocks.
pub fn finish_stopped() {
    let is_stopping = |living: &mut Living| {
        let mut children = living.children.values();
        children.any(|child| child.stop.is_none())
    };
    LEFT.wait_while_for(&mut LIVING.lock(), is_stopping, LONGEST_END);
}

impl StopHandle {
    pub(crate) fn stop(&self) {
        if let Some(child) = LIVING.lock().children.get_mut(&self.0) {
            child.stop = None;
        }
    }
}

impl Drop for StopHandle {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Registration {
    /// Returns a name for the child's mark that no other child of any process has. It begins with the pid of this
    /// process, by which a later process finds the orphans if this one is killed.
    pub(crate) fn name(&self) -> String {
        let since_epoch = std::time::SystemTime::UNIX_EPOCH
            .elapsed()
            .unwrap_or_default();
        let pid = std::process::id();
        format!("{pid:x}-{:x}-{:x}", since_epoch.as_micros(), self.0)
    }

    pub(crate) fn started(&self, group: Pid) {
        if let Some(child) = LIVING.lock().children.get_mut(&self.0) {
            child.group = Some(group);
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        LIVING.lock().children.remove(&self.0);
        LEFT.notify_all();
    }
}
