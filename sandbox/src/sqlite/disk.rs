//! A disk for tests: it is told what SQLite does with the files in a folder, before it is done, and may refuse it. So a test knows
//! what was written and not synced when the power fails.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::ffi::{
    SQLITE_FULL, SQLITE_IOERR, SQLITE_IOERR_FSYNC, SQLITE_IOERR_WRITE, sqlite3_file, sqlite3_int64,
    sqlite3_io_methods,
};

/// Is told what SQLite does. Offsets and sizes are in bytes.
pub trait Disk: Send + Sync {
    /// A file was opened.
    fn opened(&self, path: &Path);

    /// A file is to be written.
    ///
    /// # Errors
    ///
    /// If it is not to be.
    fn write(&self, path: &Path, offset: u64, bytes: &[u8]) -> Result<(), DiskFault>;

    /// A file is to have this size.
    ///
    /// # Errors
    ///
    /// If it is not to be changed.
    fn truncate(&self, path: &Path, size: u64) -> Result<(), DiskFault>;

    /// What was written to a file is to last.
    ///
    /// # Errors
    ///
    /// If it may not.
    fn sync(&self, path: &Path) -> Result<(), DiskFault>;
}

/// Why a disk refuses something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskFault {
    /// It is full.
    Full,
    /// It is broken.
    Broken,
}

/// Puts a disk below a folder. The files that are opened there are on it until this is dropped.
#[derive(Debug)]
pub struct Mounted(PathBuf);

/// Puts `disk` below the folder at an absolute path without links, for databases that are opened from now on, behind
/// [`guard`](super::guard).
pub fn mount(folder: &Path, disk: Arc<dyn Disk>) -> Mounted {
    MOUNTS.lock().disks.insert(folder.to_owned(), disk);
    Mounted(folder.to_owned())
}

impl Drop for Mounted {
    fn drop(&mut self) {
        MOUNTS.lock().disks.remove(&self.0);
    }
}

#[derive(Default)]
struct Mounts {
    disks: BTreeMap<PathBuf, Arc<dyn Disk>>,
    /// The open files on disks, by their addresses.
    files: BTreeMap<usize, (Arc<dyn Disk>, PathBuf)>,
}

static MOUNTS: Mutex<Mounts> = Mutex::new(Mounts {
    disks: BTreeMap::new(),
    files: BTreeMap::new(),
});

/// The functions for files on disks, and behind them those that they call. SQLite knows the first field only.
#[repr(C)]
struct Methods {
    ours: sqlite3_io_methods,
    before: sqlite3_io_methods,
}

/// Has a file that SQLite has just opened looked after, if it is on a disk.
///
/// # Safety
///
/// `name` is none or ends with a zero, and `file` is an open file.
pub(super) unsafe fn opened(name: *const c_char, file: *mut sqlite3_file) {
    if name.is_null() {
        return;
    }
    // SAFETY: the caller's.
    let name = unsafe { CStr::from_ptr(name) };
    let path = Path::new(OsStr::from_bytes(name.to_bytes()));
    let mut mounts = MOUNTS.lock();
    let mut folders = path.ancestors().skip(1);
    let Some(disk) = folders.find_map(|folder| mounts.disks.get(folder).cloned()) else {
        return;
    };
    // SAFETY: an open file has methods, which are there as long as the process.
    let before = unsafe { &*(*file).pMethods };
    // SAFETY: only this thread knows the file.
    unsafe { (*file).pMethods = &raw const methods(before).ours };
    let entry = (disk.clone(), path.to_owned());
    mounts.files.insert(file.addr(), entry);
    drop(mounts);
    disk.opened(path);
}

/// Returns the functions that look after a file with these.
fn methods(before: &'static sqlite3_io_methods) -> &'static Methods {
    static MADE: Mutex<Option<HashMap<usize, &'static Methods>>> = Mutex::new(None);
    let mut made = MADE.lock();
    let made = made.get_or_insert_default();
    made.entry(std::ptr::from_ref(before).addr())
        .or_insert_with(|| {
            let ours = sqlite3_io_methods {
                xClose: Some(close),
                xWrite: Some(write),
                xTruncate: Some(truncate),
                xSync: Some(sync),
                ..*before
            };
            Box::leak(Box::new(Methods {
                ours,
                before: *before,
            }))
        })
}

/// Returns the functions of the file before.
///
/// # Safety
///
/// It is an open file that [`opened`] has changed.
unsafe fn before(file: *mut sqlite3_file) -> &'static sqlite3_io_methods {
    // SAFETY: the methods of the file are the first field of such a value, which is never freed.
    unsafe { &(*(*file).pMethods.cast::<Methods>()).before }
}

/// Asks the disk of a file; returns the code of SQLite for its answer, 0 for yes.
fn asked(
    file: *mut sqlite3_file,
    broken: c_int,
    ask: impl FnOnce(&dyn Disk, &Path) -> Result<(), DiskFault>,
) -> c_int {
    let entry = MOUNTS.lock().files.get(&file.addr()).cloned();
    match entry.map(|(disk, path)| ask(&*disk, &path)) {
        None | Some(Ok(())) => 0,
        Some(Err(DiskFault::Full)) => SQLITE_FULL,
        Some(Err(DiskFault::Broken)) => broken,
    }
}

/// Closes a file.
///
/// # Safety
///
/// It is called by SQLite alone, with an open file.
unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    MOUNTS.lock().files.remove(&file.addr());
    // SAFETY: the caller's.
    match unsafe { before(file) }.xClose {
        // SAFETY: the argument is that of SQLite.
        Some(close) => unsafe { close(file) },
        None => SQLITE_IOERR,
    }
}

/// Writes to a file.
///
/// # Safety
///
/// It is called by SQLite alone, with an open file and so many bytes.
unsafe extern "C" fn write(
    file: *mut sqlite3_file,
    bytes: *const c_void,
    length: c_int,
    offset: sqlite3_int64,
) -> c_int {
    let length_of = usize::try_from(length).unwrap_or(0);
    // SAFETY: the caller's.
    let content = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), length_of) };
    let at = u64::try_from(offset).unwrap_or(0);
    match asked(file, SQLITE_IOERR_WRITE, |disk, path| {
        disk.write(path, at, content)
    }) {
        // SAFETY: the caller's.
        0 => match unsafe { before(file) }.xWrite {
            // SAFETY: the arguments are those of SQLite.
            Some(write) => unsafe { write(file, bytes, length, offset) },
            None => SQLITE_IOERR,
        },
        code => code,
    }
}

/// Changes the size of a file.
///
/// # Safety
///
/// It is called by SQLite alone, with an open file.
unsafe extern "C" fn truncate(file: *mut sqlite3_file, size: sqlite3_int64) -> c_int {
    let bytes = u64::try_from(size).unwrap_or(0);
    match asked(file, SQLITE_IOERR, |disk, path| disk.truncate(path, bytes)) {
        // SAFETY: the caller's.
        0 => match unsafe { before(file) }.xTruncate {
            // SAFETY: the arguments are those of SQLite.
            Some(truncate) => unsafe { truncate(file, size) },
            None => SQLITE_IOERR,
        },
        code => code,
    }
}

/// Syncs a file.
///
/// # Safety
///
/// It is called by SQLite alone, with an open file.
unsafe extern "C" fn sync(file: *mut sqlite3_file, flags: c_int) -> c_int {
    match asked(file, SQLITE_IOERR_FSYNC, |disk, path| disk.sync(path)) {
        // SAFETY: the caller's.
        0 => match unsafe { before(file) }.xSync {
            // SAFETY: the arguments are those of SQLite.
            Some(sync) => unsafe { sync(file, flags) },
            None => SQLITE_IOERR,
        },
        code => code,
    }
}
