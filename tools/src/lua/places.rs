//! What the paths of scripts mean, and which of them scripts may touch: the same that the file tools may, and that
//! confined commands may.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use mlua::{Function, Lua, MultiValue, Table, Value};
use rustix::fs::{Mode, OFlags};

use super::LuaSurroundings;
use super::state::surroundings;
use crate::held::{self, Held};

/// What every program may read and write, and where nothing is kept.
const NOTHING: &str = "/dev/null";
/// The mode of new files, of which the user's mask takes away.
const NEW: u32 = 0o666;

impl LuaSurroundings {
    /// The resolved path, if what is there may be read.
    pub(super) fn readable(&self, path: &Path) -> io::Result<PathBuf> {
        let place = self.workspace.place(&self.cwd.join(path));
        if place != Path::new(NOTHING) {
            { self.workspace.check_readable(&place) }.map_err(io::Error::other)?;
        }
        Ok(place)
    }

    /// The resolved path, if what is there may be written.
    pub(super) fn writable(&self, path: &Path) -> io::Result<PathBuf> {
        let place = self.workspace.place(&self.cwd.join(path));
        if place != Path::new(NOTHING) {
            { self.workspace.check_writable(&place) }.map_err(io::Error::other)?;
        }
        Ok(place)
    }

    /// The entry of a folder that a path names, if it may be made, removed and renamed; a link is not followed.
    pub(super) fn entry(&self, path: &Path) -> io::Result<Held> {
        let path = self.cwd.join(path);
        let place = match (path.parent(), path.file_name()) {
            (Some(folder), Some(name)) => self.workspace.place(folder).join(name),
            _ => self.workspace.place(&path),
        };
        { self.workspace.check_writable(&place) }.map_err(io::Error::other)?;
        Held::entry(&place)
    }

    /// Opens what is at a path for reading.
    pub(super) fn open(&self, path: &Path) -> io::Result<fs::File> {
        let place = self.readable(path)?;
        Ok(held::open(&place, OFlags::RDONLY, Mode::empty())?.into())
    }

    /// Opens what is at a path for writing, with the mode that a new file shall have.
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

/// Functions for the standard library, which would open what it likes.
pub(super) fn natives(lua: &Lua, native: &Table) -> mlua::Result<()> {
    native.set("open", lua.create_function(open)?)?;
    native.set("remove", lua.create_function(remove)?)?;
    native.set("rename", lua.create_function(rename)?)?;
    native.set("tmpname", lua.create_function(|lua, ()| temporary(lua))?)
}

/// What the standard library answers: nothing, the reason and its number.
type Failed = (Value, Option<String>, Option<i32>);

fn failed(path: &Path, error: &io::Error) -> Failed {
    let text = format!("{}: {error}", path.display());
    (
        Value::Nil,
        Some(text),
        Some(error.raw_os_error().unwrap_or(1)),
    )
}

fn done(path: &Path, result: io::Result<()>) -> Failed {
    match result {
        Ok(()) => (Value::Boolean(true), None, None),
        Err(error) => failed(path, &error),
    }
}

/// Has the library's own `io.open` open what a path means: through what is open already, so that it is the same.
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
    let open = held::open(&place, flags | access, Mode::from_raw_mode(NEW))?;
    Ok((open, place))
}

fn remove(lua: &Lua, path: PathBuf) -> mlua::Result<Failed> {
    let removed = surroundings(lua)?.entry(&path).and_then(|entry| {
        match fs::symlink_metadata(entry.path())?.is_dir() {
            true => fs::remove_dir(entry.path()),
            false => fs::remove_file(entry.path()),
        }
    });
    Ok(done(&path, removed))
}

fn rename(lua: &Lua, (from, to): (PathBuf, PathBuf)) -> mlua::Result<Failed> {
    let around = surroundings(lua)?;
    let renamed = around
        .entry(&from)
        .and_then(|from| fs::rename(from.path(), around.entry(&to)?.path()));
    Ok(done(&from, renamed))
}

/// A new empty file of which nobody else knows.
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
    // The script removes it, or it goes with the temporary folder.
    path.keep().map_err(mlua::Error::external)
}
