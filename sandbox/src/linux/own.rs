//! Keeps the secrets of this process from other processes of its user, which `/proc` would show them to.

use std::ffi::{CStr, c_char};
use std::fs;
use std::ops::Range;
use std::ptr;

use rustix::process::{
    DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit,
};

unsafe extern "C" {
    /// The environment as the C library keeps it: pointers to `NAME=value`, and a null pointer at the end.
    static mut environ: *mut *mut c_char;
}

/// Denies other processes of the user the memory, the environment and the open files of this one, core dumps included,
/// and overwrites the values of the variables that are secret with zeros, where they lie since the process began. Does
/// not overwrite them if the process has more than one thread, since another may be reading them.
pub fn conceal(is_secret: &dyn Fn(&str) -> bool) {
    // It fails on no kernel that the sandbox supports; what it protects is protected a second time below.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    // The same for systems that write core dumps of such processes, for root. Commands may raise it again.
    let limit = getrlimit(Resource::Core);
    let none = Rlimit {
        current: Some(0),
        ..limit
    };
    let _ = setrlimit(Resource::Core, none);
    let is_alone = fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() == 1);
    if is_alone {
        overwrite(is_secret);
    }
}

fn overwrite(is_secret: &dyn Fn(&str) -> bool) {
    // SAFETY: no other thread exists, so nothing changes or reads the list meanwhile. `environ` is null or a list of
    // pointers that ends with a null pointer; each points to a text that ends with a zero byte and is writable: it lies
    // in the stack that the kernel made for this process, or was allocated by the C library. Only bytes before its
    // end are written.
    unsafe {
        let mut next = environ;
        while !next.is_null() && !(*next).is_null() {
            let entry = *next;
            let bytes = CStr::from_ptr(entry).to_bytes();
            let at = bytes.iter().position(|byte| *byte == b'=');
            let name = at.and_then(|at| std::str::from_utf8(&bytes[..at]).ok());
            if let (Some(at), true) = (at, name.is_some_and(is_secret)) {
                let length = bytes.len() - at - 1;
                ptr::write_bytes(entry.add(at + 1), 0, length);
            }
            next = next.add(1);
        }
    }
}

/// Overwrites the arguments and the name of this process, so that a command does not meet it when it looks for processes by
/// their words. To be called where nothing reads them: in a process that was forked and has one thread.
pub(super) fn become_nameless() {
    if let Some(arguments) = arguments() {
        let first = ptr::with_exposed_provenance_mut::<u8>(arguments.start);
        // SAFETY: the kernel has put the arguments there, in the stack of this process, and nothing else; no other thread
        // exists, and this process reads them no more.
        unsafe { ptr::write_bytes(first, 0, arguments.len()) };
    }
    let _ = rustix::thread::set_name(c"");
}

/// Returns where the arguments of this process are in its memory.
fn arguments() -> Option<Range<usize>> {
    /// Of `/proc/PID/stat`: fields after the name, which may hold anything, are counted from 3.
    const START: usize = 48 - 3;
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split_whitespace().skip(START);
    let (start, end) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    (0 < start && start < end).then_some(start..end)
}
