//! Programs that start without the terminal of this process.

use std::ffi::c_int;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

// The standard library links the one of C, and builds without enforcement have no crate for it.
unsafe extern "C" {
    fn setsid() -> c_int;
}

/// Has `command` start in a session of its own: it has no controlling terminal, so that it can neither write to that of the user by
/// the name `/dev/tty` nor wait for keys there. It leads a group of processes.
pub fn without_terminal(command: &mut Command) {
    let leave = || {
        // SAFETY: the call takes nothing. It fails only if the process leads a session already.
        let _ = unsafe { setsid() };
        Ok(())
    };
    // SAFETY: it makes one system call.
    unsafe { command.pre_exec(leave) };
}
