//! The module `fs`: files, folders and paths. Files embedded in the program can be read like others.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use ah_conversation::{Embedded, EmbeddedEntry};
use globset::Glob;
use mlua::{Function, Lua, LuaString, Table, Value};
use rustix::fs::OFlags;

use super::leash::Leash;
use super::module::{Module, ModuleResult, module_result};
use super::surroundings::{LuaSurroundings, surroundings};
use crate::held::{self, Held};

/// Builds the module.
pub(super) fn build(lua: &Lua) -> mlua::Result<Table> {
    let module = lua.create_table()?;
    module.function(&["read", "slurp"], lua.create_function(read)?)?;
    module.function(&["write", "barf", "spit"], lua.create_function(write)?)?;
    module.function(&["append"], lua.create_function(append)?)?;
    module.function(&["list", "readdir"], lua.create_function(list)?)?;
    module.function(&["opendir"], lua.create_function(opendir)?)?;
    module.function(&["walk", "files"], lua.create_function(walk)?)?;
    module.function(&["stat"], lua.create_function(stat)?)?;
    module.function(
        &["exists"],
        lua.create_function(|lua, path| is(lua, path, |_| true))?,
    )?;
    module.function(
        &["isdir", "is_dir"],
        lua.create_function(|lua, path| is(lua, path, |kind| kind == Kind::Folder))?,
    )?;
    module.function(
        &["isfile", "is_file"],
        lua.create_function(|lua, path| is(lua, path, |kind| kind == Kind::File))?,
    )?;
    let made = lua.create_function(|lua, path: PathBuf| {
        let place = surroundings(lua)?.writable(&path);
        Ok(module_result(
            place
                .and_then(|path| held::make_folders(&path))
                .map(|()| true),
        ))
    })?;
    module.function(&["makedirs", "mkdir"], made)?;
    let changes: [(&[&str], Change); 3] = [
        (&["unlink", "remove"], |path| fs::remove_file(path)),
        (&["rmdir"], |path| fs::remove_dir(path)),
        (&["rmrf"], remove_all),
    ];
    for (names, change) in changes {
        let function = lua.create_function(move |lua, path: PathBuf| {
            let around = surroundings(lua)?;
            let changed = around.entry(&path).and_then(|entry| change(entry.path()));
            Ok(module_result(changed.map(|()| true)))
        })?;
        module.function(names, function)?;
    }
    module.function(&["rename"], lua.create_function(rename)?)?;
    module.function(
        &["getcwd", "cwd"],
        lua.create_function(|lua, ()| Ok(surroundings(lua)?.cwd.clone()))?,
    )?;
    module.function(
        &["join"],
        lua.create_function(|_, parts: mlua::Variadic<PathBuf>| {
            Ok(parts.iter().collect::<PathBuf>())
        })?,
    )?;
    module.function(
        &["basename"],
        lua.create_function(|_, path: PathBuf| {
            Ok(path.file_name().map_or_else(|| path.clone(), PathBuf::from))
        })?,
    )?;
    module.function(
        &["dirname"],
        lua.create_function(|_, path: PathBuf| Ok(dirname(&path)))?,
    )?;
    Ok(module)
}

/// Changes the file system at a path.
type Change = fn(&Path) -> io::Result<()>;

/// Type of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    File,
    Folder,
    Other,
}

impl LuaSurroundings {
    /// Reads a file, on disk or embedded; fails if it has more than `limit` bytes.
    pub(super) fn read(&self, path: &Path, limit: usize) -> io::Result<Vec<u8>> {
        let path = self.cwd.join(path);
        if Embedded::covers(&path) {
            let file = self.embedded.file(&path);
            return file
                .map(|file| file.content.to_vec())
                .ok_or_else(|| io::ErrorKind::NotFound.into());
        }
        all_of(fs::File::open(path)?, limit)
    }

    /// Reads a file that a script names, if it may.
    pub(super) fn read_for_script(&self, path: &Path, limit: usize) -> io::Result<Vec<u8>> {
        let place = self.readable(path)?;
        if Embedded::covers(&place) {
            self.read(&place, limit)
        } else {
            all_of(self.open(path)?, limit)
        }
    }

    /// Lists the names in a folder, sorted.
    pub(super) fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let path = self.cwd.join(path);
        if Embedded::covers(&path) {
            return match self.embedded.at(&path) {
                Some(EmbeddedEntry::Folder(names)) => {
                    let names = names.into_iter();
                    Ok(names
                        .map(|name| name.trim_end_matches('/').to_owned())
                        .collect())
                }
                Some(EmbeddedEntry::File(_)) => Err(io::ErrorKind::NotADirectory.into()),
                None => Err(io::ErrorKind::NotFound.into()),
            };
        }
        let entries = fs::read_dir(path)?;
        let mut names = entries
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect::<io::Result<Vec<_>>>()?;
        names.sort();
        Ok(names)
    }

    /// Lists a folder that a script names, if it may.
    fn list_for_script(&self, path: &Path) -> io::Result<Vec<String>> {
        let place = self.readable(path)?;
        if Embedded::covers(&place) {
            self.list(&place)
        } else {
            self.list(Held::folder(&place)?.path())
        }
    }

    fn kind(&self, path: &Path) -> Option<Kind> {
        let path = self.cwd.join(path);
        if Embedded::covers(&path) {
            return Some(match self.embedded.at(&path)? {
                EmbeddedEntry::File(_) => Kind::File,
                EmbeddedEntry::Folder(_) => Kind::Folder,
            });
        }
        let metadata = fs::metadata(path).ok()?;
        Some(match metadata.file_type() {
            kind if kind.is_file() => Kind::File,
            kind if kind.is_dir() => Kind::Folder,
            _ => Kind::Other,
        })
    }
}

fn all_of(file: fs::File, limit: usize) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    file.take(limit as u64 + 1).read_to_end(&mut content)?;
    if content.len() > limit {
        return Err(io::Error::other(format!("more than {limit} bytes")));
    }
    Ok(content)
}

fn read(lua: &Lua, path: PathBuf) -> mlua::Result<ModuleResult<LuaString>> {
    let limit = Leash::of(lua)?.memory();
    match surroundings(lua)?.read_for_script(&path, limit) {
        Ok(content) => Ok((Some(lua.create_string(content)?), None)),
        Err(error) => Ok((None, Some(format!("{}: {error}", path.display())))),
    }
}

fn write(
    lua: &Lua,
    (path, content, mode): (PathBuf, LuaString, Option<u32>),
) -> mlua::Result<ModuleResult<bool>> {
    put(lua, &path, &content, OFlags::TRUNC, mode.unwrap_or(0o644))
}

fn append(lua: &Lua, (path, content): (PathBuf, LuaString)) -> mlua::Result<ModuleResult<bool>> {
    put(lua, &path, &content, OFlags::APPEND, 0o666)
}

fn put(
    lua: &Lua,
    path: &Path,
    content: &LuaString,
    flags: OFlags,
    mode: u32,
) -> mlua::Result<ModuleResult<bool>> {
    let written = surroundings(lua)?
        .open_to_write(path, flags, mode)
        .and_then(|mut file| file.write_all(&content.as_bytes()))
        .map(|()| true)
        .map_err(|error| format!("{}: {error}", path.display()));
    Ok(module_result(written))
}

fn list(lua: &Lua, path: Option<PathBuf>) -> mlua::Result<ModuleResult<Vec<String>>> {
    let path = path.unwrap_or_default();
    let names = surroundings(lua)?.list_for_script(&path);
    Ok(module_result(
        names.map_err(|error| format!("{}: {error}", path.display())),
    ))
}

/// Opens a folder as the first `ah` did: its `read` returns one name after the other.
fn opendir(lua: &Lua, path: PathBuf) -> mlua::Result<ModuleResult<Table>> {
    let mut names = match surroundings(lua)?.list_for_script(&path) {
        Ok(names) => names.into_iter(),
        Err(error) => return Ok((None, Some(format!("{}: {error}", path.display())))),
    };
    let folder = lua.create_table()?;
    folder.set(
        "read",
        lua.create_function_mut(move |_, _: Value| Ok(names.next()))?,
    )?;
    folder.set("close", lua.create_function(|_, _: Value| Ok(true))?)?;
    Ok((Some(folder), None))
}

/// Returns an iterator over the files at and below a folder, sorted. If there is a pattern, names must match it.
fn walk(lua: &Lua, (top, pattern): (PathBuf, Option<String>)) -> mlua::Result<Function> {
    let around = surroundings(lua)?;
    let leash = Leash::of(lua)?;
    let pattern = match pattern.as_deref().map(Glob::new) {
        Some(Ok(glob)) => Some(glob.compile_matcher()),
        Some(Err(error)) => return Err(mlua::Error::external(error)),
        None => None,
    };
    let mut waiting = vec![top];
    lua.create_function_mut(move |_, ()| {
        while let Some(path) = waiting.pop() {
            if let Some(end) = leash.end() {
                return Err(mlua::Error::external(end));
            }
            let place = around.readable(&path);
            match place.as_ref().ok().and_then(|place| around.kind(place)) {
                // Links may form a cycle.
                Some(Kind::Folder) if !is_link(&around.cwd.join(&path)) => {
                    let names = around.list_for_script(&path).unwrap_or_default();
                    waiting.extend(names.into_iter().rev().map(|name| path.join(name)));
                }
                Some(Kind::File) => {
                    let name = path.file_name().unwrap_or_default();
                    if pattern.as_ref().is_none_or(|glob| glob.is_match(name)) {
                        return Ok(Some(path));
                    }
                }
                Some(Kind::Folder | Kind::Other) | None => {}
            }
        }
        Ok(None)
    })
}

fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink())
}

fn stat(lua: &Lua, path: PathBuf) -> mlua::Result<ModuleResult<Table>> {
    let around = surroundings(lua)?;
    let absolute = match around.readable(&path) {
        Ok(place) => place,
        Err(error) => return Ok((None, Some(format!("{}: {error}", path.display())))),
    };
    let entry = lua.create_table()?;
    if let Some(file) = around.embedded.file(&absolute) {
        entry.set("size", file.content.len())?;
        entry.set("mode", if file.is_executable { 0o555 } else { 0o444 })?;
    } else if !Embedded::covers(&absolute) {
        match fs::metadata(&absolute) {
            Ok(metadata) => {
                entry.set("size", metadata.len())?;
                entry.set("mode", metadata.mode() & 0o7777)?;
                entry.set("mtime", metadata.mtime())?;
            }
            Err(error) => return Ok((None, Some(format!("{}: {error}", path.display())))),
        }
    }
    let Some(kind) = around.kind(&absolute) else {
        return Ok((None, Some(format!("{}: no such file", path.display()))));
    };
    entry.set("is_file", kind == Kind::File)?;
    entry.set("is_dir", kind == Kind::Folder)?;
    Ok((Some(entry), None))
}

fn is(lua: &Lua, path: PathBuf, test: fn(Kind) -> bool) -> mlua::Result<bool> {
    let around = surroundings(lua)?;
    let place = around.readable(&path).ok();
    Ok(place
        .and_then(|place| around.kind(&place))
        .is_some_and(test))
}

fn remove_all(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn rename(lua: &Lua, (from, to): (PathBuf, PathBuf)) -> mlua::Result<ModuleResult<bool>> {
    let around = surroundings(lua)?;
    let renamed = around
        .entry(&from)
        .and_then(|from| fs::rename(from.path(), around.entry(&to)?.path()));
    Ok(module_result(renamed.map(|()| true)))
}

/// Returns the parent folder of a path; `.` if it has none.
fn dirname(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => ".".into(),
        Some(parent) => parent.to_owned(),
        None => path.to_owned(),
    }
}
