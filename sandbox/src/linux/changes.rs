//! Learns of file changes by a command before they happen.
//!
//! The filter of system calls stops every call that may create, change or remove a file until this process has answered
//! (seccomp's user notification). Here the paths of such a call are resolved as the command sees them, and the recorder
//! is told. Then the call continues as if nothing had been between: this is no barrier, and the answer never refuses. A
//! program that changes a path in its memory during the call can evade the record, and nothing else.

mod call;
mod links;
mod moved;
mod view;

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

pub(super) use self::call::watched;
use self::view::View;
use crate::recorder::{Recorder, Recorders};

/// The recorders of a sandbox, which may come after it.
pub(super) type RecorderCell = Arc<Mutex<Option<Arc<dyn Recorders>>>>;

/// Requests to the listener: `_IOWR('!', 0, struct seccomp_notif)` and its like.
const RECEIVE: libc::c_ulong = request(3, 0, size_of::<libc::seccomp_notif>());
const SEND: libc::c_ulong = request(3, 1, size_of::<libc::seccomp_notif_resp>());
const SET_FLAGS: libc::c_ulong = request(1, 4, size_of::<u64>());
/// This thread and the command wake each other on the same processor. Kernels before 6.6 do not know it.
const WAKE_HERE: u64 = 1;
/// Calls that follow each other sooner come from a program that does little else. It gains by waking on the same
/// processor, where other programs lose what they have in parallel.
const BURST: Duration = Duration::from_micros(500);

const fn request(direction: usize, number: usize, size: usize) -> libc::c_ulong {
    (direction << 30 | size << 16 | (b'!' as usize) << 8 | number) as libc::c_ulong
}

/// Serves the listener of a command's filter on a thread of its own, until every process with the filter has ended.
pub(super) fn serve(listener: OwnedFd, recorder: Arc<dyn Recorder>) -> io::Result<()> {
    let thread = thread::Builder::new().name("file changes".to_owned());
    thread.spawn(move || {
        let mut view = None;
        let mut is_burst = false;
        let mut answered = Instant::now();
        while let Some(notification) = next(&listener) {
            if is_burst != (answered.elapsed() < BURST) {
                is_burst = !is_burst;
                wake_here(&listener, is_burst);
            }
            if view.is_none() {
                view = View::of(notification.pid);
            }
            if let Some(view) = &view {
                view.tell(&notification, &*recorder);
            }
            go_on(&listener, notification.id);
            answered = Instant::now();
        }
    })?;
    Ok(())
}

fn wake_here(listener: &OwnedFd, is_wanted: bool) {
    let flags = if is_wanted { WAKE_HERE } else { 0 };
    // SAFETY: the request has a number as its argument.
    unsafe { libc::ioctl(listener.as_raw_fd(), SET_FLAGS as _, flags) };
}

/// Waits for the next call; `None` if there will be none.
fn next(listener: &OwnedFd) -> Option<libc::seccomp_notif> {
    loop {
        let mut polled = [PollFd::new(listener, PollFlags::IN)];
        match poll(&mut polled, None) {
            Err(Errno::INTR) => continue,
            Err(_) => return None,
            Ok(_) if !polled[0].revents().contains(PollFlags::IN) => return None,
            Ok(_) => {}
        }
        // SAFETY: a structure of numbers; the kernel demands zeroes.
        let mut notification: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        // SAFETY: the argument is the structure that the request fills.
        let result =
            unsafe { libc::ioctl(listener.as_raw_fd(), RECEIVE as _, &raw mut notification) };
        match (result, Errno::from_io_error(&io::Error::last_os_error())) {
            (0, _) => return Some(notification),
            // The call was interrupted before it was received.
            (_, Some(Errno::INTR | Errno::NOENT)) => {}
            _ => return None,
        }
    }
}

fn go_on(listener: &OwnedFd, id: u64) {
    let response = libc::seccomp_notif_resp {
        id,
        val: 0,
        error: 0,
        flags: libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32,
    };
    // SAFETY: the argument is the structure that the request reads. It fails only if the caller has ended.
    unsafe { libc::ioctl(listener.as_raw_fd(), SEND as _, &raw const response) };
}
