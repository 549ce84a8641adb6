//! SQLite as a door to files that others may have put there.
//!
//! A rollback journal may end with the name of a super-journal, that of a transaction in several databases. When SQLite has
//! rolled back such a journal, it opens the file of that name and deletes it, whatever file it is and wherever it lies. A
//! command that can write beside a database could have this process delete any file of the user, and a look at the journal
//! beforehand says nothing about the one that is there a moment later. So SQLite opens super-journals through a table of ours,
//! which knows them by the names that SQLite itself gives them.

#[cfg_attr(not(feature = "disk"), path = "sqlite/no_disk.rs")]
pub mod disk;

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int};
use std::ptr;
use std::sync::{Once, OnceLock};

use rusqlite::ffi::{
    SQLITE_CANTOPEN, SQLITE_OPEN_CREATE, SQLITE_OPEN_SUPER_JOURNAL, sqlite3_file, sqlite3_vfs,
    sqlite3_vfs_find, sqlite3_vfs_register,
};

/// How SQLite opens a file.
type Open = unsafe extern "C" fn(
    *mut sqlite3_vfs,
    *const c_char,
    *mut sqlite3_file,
    c_int,
    *mut c_int,
) -> c_int;

/// How it did before; empty until [`guard`] was called.
static BEFORE: OnceLock<Option<Open>> = OnceLock::new();

thread_local! {
    /// Whether the file that SQLite has opened last here is a super-journal: the journals that it names come next.
    static IN_SUPER_JOURNAL: Cell<bool> = const { Cell::new(false) };
}

/// Has every connection of this process that is opened from now on delete no file for the name in a journal. To be called before
/// the first one is opened; more calls do nothing.
pub fn guard() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: SQLite returns a table that is there as long as the process, or none.
        let Some(table) = (unsafe { sqlite3_vfs_find(ptr::null()).as_ref() }) else {
            return;
        };
        // Before others can open files through it.
        BEFORE.get_or_init(|| table.xOpen);
        let own = Box::leak(Box::new(*table));
        own.zName = c"ah".as_ptr();
        own.pNext = ptr::null_mut();
        own.xOpen = Some(open);
        // SAFETY: the copy is never freed, and differs in the function that opens, whose signature is the same.
        unsafe { sqlite3_vfs_register(own, 1) };
    });
}

/// Opens a file for SQLite, but none as a super-journal that does not have the name of one.
///
/// # Safety
///
/// It is called by SQLite alone, with what the function before it expects.
unsafe extern "C" fn open(
    table: *mut sqlite3_vfs,
    name: *const c_char,
    file: *mut sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    let is_read = flags & SQLITE_OPEN_SUPER_JOURNAL != 0 && flags & SQLITE_OPEN_CREATE == 0;
    let may_open = !is_read || {
        // SAFETY: a super-journal has a name, which ends with a zero.
        let name = unsafe { CStr::from_ptr(name) }.to_bytes();
        let is_named_so = is_super_journal(name);
        // Those that it names are opened to be read, and never deleted by this name.
        let is_below = IN_SUPER_JOURNAL.get() && name.ends_with(b"-journal");
        is_named_so || is_below
    };
    IN_SUPER_JOURNAL.set(is_read && may_open);
    match BEFORE.get() {
        Some(Some(before)) if may_open => {
            // SAFETY: the arguments are those that SQLite has made for it.
            let code = unsafe { before(table, name, file, flags, out) };
            if code == 0 {
                // SAFETY: the file is open.
                unsafe { disk::opened(name, file) };
            }
            code
        }
        _ => {
            if !file.is_null() {
                // SAFETY: SQLite gives room for a file, and closes one that could not be opened only if it has methods.
                unsafe { (*file).pMethods = ptr::null() };
            }
            SQLITE_CANTOPEN
        }
    }
}

/// Returns whether SQLite may have made a super-journal of this name: that of a database, `-mj`, and nine digits of base 16 of
/// which the seventh is a 9.
fn is_super_journal(name: &[u8]) -> bool {
    const DIGITS: usize = 9;
    const NINE: usize = 6;
    let Some(at) = name.len().checked_sub(DIGITS) else {
        return false;
    };
    let (before, digits) = name.split_at(at);
    before.ends_with(b"-mj")
        && digits[NINE] == b'9'
        && digits.iter().all(|digit| digit.is_ascii_hexdigit())
}
