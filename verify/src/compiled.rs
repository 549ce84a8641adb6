//! Compiled files of Python.

use std::ffi::OsStr;
use std::io::Read as _;
use std::path::Path;

use ah_beneath::Folder;
use rustix::fs::OFlags;

/// Folder with compiled files of Python, and what each of these has behind its version.
pub(crate) const COMPILED: &str = "__pycache__";
const COMPILED_MARK: &[u8] = b"\r\n";

/// Whether a file is what Python has compiled: by its name, by its source beside the folder, and by how it begins.
pub(crate) fn is_compiled(top: &Folder, path: &Path) -> bool {
    let around = path.parent().and_then(Path::file_name);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // While it is written, it has a number behind its name.
    let is_number = |after: &str| after.bytes().all(|byte| byte.is_ascii_digit());
    let written = name.rsplit_once('.').filter(|(_, after)| is_number(after));
    let whole = written.map_or(&*name, |(whole, _)| whole);
    let (true, Some(folder), Some((module, _))) = (
        around == Some(OsStr::new(COMPILED)) && whole.ends_with(".pyc"),
        path.parent().and_then(Path::parent),
        name.split_once('.'),
    ) else {
        return false;
    };
    let source = top.look(&folder.join(format!("{module}.py")));
    if !source.is_ok_and(|source| source.is_some_and(|source| source.is_file())) {
        return false;
    }
    let mut begin = [0; 4];
    let opened = top.entry(path);
    let opened = opened.and_then(|(around, name)| around.open_file(name, OFlags::RDONLY));
    let read = opened.and_then(|mut file| file.read_exact(&mut begin));
    read.is_ok() && begin[2..] == *COMPILED_MARK
}
