//! Paths in scripts. Scripts may touch the same files as the file tools and confined commands.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use mlua::{Function, Lua, MultiValue, Table, Value};
use rustix::fs::{Mode, OFlags};

use super::surroundings::{LuaSurroundings, surroundings};
use crate::held::{self, Held};

/// Every script may read and write this file.
const NULL_DEVICE: &str = "/dev/null";
/// Mode of new files, before the umask.
const NEW_FILE_MODE: u32 = 0o666;

impl LuaSurroundings {
    /// Resolves a path that is to be read; fails if that is not permitted.
    pub(super) fn readable(&self, path: &Path) -> io::Result<PathBuf> {
        let place = self.workspace.place(&self.cwd.join(path));
        if place != Path::new(NULL_DEVICE) {
            let checked = self.workspace.check_readable(&place);
            checked.map_err(io::Error::other)?;
        }
        self.check_shown(&place)?;
        Ok(place)
    }

    /// Fails if permission rules hide the file from the call.
    fn check_shown(&self, place: &Path) -> io::Result<()> {
        if self.hidden.hides(place) {
            let reason = "permission rules hide it";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
        }
        Ok(())
    }

    /// Resolves a path that is to be written; fails if that is not permitted.
    pub(super) fn writable(&self, path: &Path) -> io::Result<PathBuf> {
        let place = self.workspace.place(&self.cwd.join(path));
        if place != Path::new(NULL_DEVICE) {
            let checked = self.workspace.check_writable(&place);
            checked.map_err(io::Error::other)?;
        }
        Ok(place)
    }

    /// Returns the directory entry at a path, to be created, removed or renamed; a link is not followed. Fails if that
    /// is not permitted.
    pub(super) fn entry(&self, path: &Path) -> io::Result<Held> {
        let path = self.cwd.join(path);
        let place = match (path.parent(), path.file_name()) {
            (Some(folder), Some(name)) => self.workspace.place(folder).join(name),
            _ => self.workspace.place(&path),
        };
        let checked = self.workspace.check_writable(&place);
        checked.map_err(io::Error::other)?;
        // Under another name it could be read.
        self.check_shown(&place)?;
        Held::entry(&place)
    }

    /// Opens a file for reading.
    pub(super) fn open(&self, path: &Path) -> io::Result<fs::File> {
        let place = self.readable(path)?;
        Ok(held::open(&place, OFlags::RDONLY, Mode::empty())?.into())
    }

    /// Opens a file for writing; a new one gets this mode.
    pub(super) fn open_to_write(
        &self,
        path: &Path,
        flags: OFlags,
        mode: u32,
    ) -> io::Result<fs::File> {
        let place = self.writable(path)?;
        let flags = flags | OFlags::WRONLY | OFlags::CREATE;
        Ok(held::open(&place, flags, Mode::from_raw_mode(mode))?.into())
    }
}

/// Adds replacements for functions of the standard library that would open any file.
pub(super) fn natives(lua: &Lua, native: &Table) -> mlua::Result<()> {
    native.set("open", lua.create_function(open)?)?;
    native.set("remove", lua.create_function(remove)?)?;
    native.set("rename", lua.create_function(rename)?)?;
    native.set("tmpname", lua.create_function(|lua, ()| temporary(lua))?)
}

/// Result in the form of the standard library: `nil`, the reason and its number on failure.
type IoResult = (Value, Option<String>, Option<i32>);

fn failed(path: &Path, error: &io::Error) -> IoResult {
    let text = format!("{}: {error}", path.display());
    (
        Value::Nil,
        Some(text),
        Some(error.raw_os_error().unwrap_or(1)),
    )
}

fn done(path: &Path, result: io::Result<()>) -> IoResult {
    match result {
        Ok(()) => (Value::Boolean(true), None, None),
        Err(error) => failed(path, &error),
    }
}

/// Calls the library's `io.open` on a file that is already open, so that it opens the file that was checked.
fn open(
    lua: &Lua,
    (library, path, mode): (Function, PathBuf, Option<String>),
) -> mlua::Result<MultiValue> {
    let mode = mode.unwrap_or_else(|| "r".to_owned());
    let around = surroundings(lua)?;
    match opened(&around, &path, &mode) {
        Ok((open, place)) => {
            let held = Held::of(open, &place);
            library.call((held.path(), mode))
        }
        Err(error) => {
            let (value, text, number) = failed(&path, &error);
            mlua::IntoLuaMulti::into_lua_multi((value, text, number), lua)
        }
    }
}

fn opened(around: &LuaSurroundings, path: &Path, mode: &str) -> io::Result<(OwnedFd, PathBuf)> {
    let is_both = mode.contains('+');
    let (place, flags) = match mode.as_bytes().first() {
        Some(b'w') => (around.writable(path)?, OFlags::CREATE | OFlags::TRUNC),
        Some(b'a') => (around.writable(path)?, OFlags::CREATE | OFlags::APPEND),
        _ if is_both => (around.writable(path)?, OFlags::empty()),
        _ => (around.readable(path)?, OFlags::empty()),
    };
    let access = match (mode.starts_with('r'), is_both) {
        (_, true) => OFlags::RDWR,
        (true, false) => OFlags::RDONLY,
        (false, false) => OFlags::WRONLY,
    };
    if is_both {
        around.readable(path)?;
    }
    let open = held::open(&place, flags | access, Mode::from_raw_mode(NEW_FILE_MODE))?;
    Ok((open, place))
}

fn remove(lua: &Lua, path: PathBuf) -> mlua::Result<IoResult> {
    let removed = surroundings(lua)?.entry(&path).and_then(|entry| {
        if fs::symlink_metadata(entry.path())?.is_dir() {
            fs::remove_dir(entry.path())
        } else {
            fs::remove_file(entry.path())
        }
    });
    Ok(done(&path, removed))
}

fn rename(lua: &Lua, (from, to): (PathBuf, PathBuf)) -> mlua::Result<IoResult> {
    let around = surroundings(lua)?;
    let renamed = around
        .entry(&from)
        .and_then(|from| fs::rename(from.path(), around.entry(&to)?.path()));
    Ok(done(&from, renamed))
}

/// Creates an empty temporary file.
fn temporary(lua: &Lua) -> mlua::Result<PathBuf> {
    let around = surroundings(lua)?;
    let made = tempfile::Builder::new()
        .prefix("lua_")
        .make_in("/tmp", |path| {
            let entry = around.entry(path)?;
            let mut options = OpenOptions::new();
            options.write(true).create_new(true).mode(0o600);
            options.open(entry.path())
        });
    let (_, path) = made.map_err(mlua::Error::external)?.into_parts();
    // The script removes it, or the system cleans up its temporary folder.
    path.keep().map_err(mlua::Error::external)
}
