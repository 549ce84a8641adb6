//! The order of functions in the published binary: those that a run calls stand together at the front.
//!
//! The system maps a file in pieces of 64 kB, so a run whose functions are spread over all of the code has all of it in
//! its memory. The compiler names functions anew with each change, and knows their names only when it is done. So this
//! program stands between it and the linker, finds the functions of the list among those to be linked, and passes their
//! order on. `cargo xtask bench --profile` makes the list anew; functions that it lacks or that are gone do no harm.
//!
//! Why it is kept: without it and the fixed address (`cli/build.rs`), measured in one run both ways, `--version` took 2.7 to 4.5 ms
//! in place of 1.2 to 1.5, one prompt 12.9 to 13.6 ms to its first request in place of 10.8 to 12.8, with 2.3 MB of its own in
//! place of 1.2, and the file was 3.1 MB longer.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use object::read::archive::ArchiveFile;
use object::{Object as _, ObjectSymbol as _};
use sha2::{Digest as _, Sha256};

/// The list: a line for each function, its [`key`].
const LIST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/layout.txt");
/// What the linker says about the output: the place of each function.
pub const MAP: &str = "ah.map";
/// The only program that is laid out.
const PROGRAM: &str = "ah";
/// Makes names of functions differ in their types, and code for a fixed address (`cli/build.rs` says why). With frame
/// pointers, the tables for unwinding need not follow each push and pop, and shrink by a third.
pub const FLAGS: &str =
    "-C symbol-mangling-version=v0 -C relocation-model=static -C force-frame-pointers=yes";

/// Writes a program that links as `real` does, in the order of the list; returns its path.
pub fn linker(real: &str, folder: &Path) -> Result<PathBuf> {
    let xtask = std::env::current_exe()?;
    let path = folder.join(format!("{real}-in-order"));
    let script = format!("#!/bin/sh\nexec '{}' link {real} \"$@\"\n", xtask.display());
    fs::create_dir_all(folder)?;
    fs::write(&path, script).with_context(|| format!("writing {}", path.display()))?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    Ok(path)
}

/// Links: `real` is the linker, or the compiler that calls it.
pub fn link(real: &str, arguments: &[&str]) -> Result<()> {
    let mut linker = Command::new(real);
    linker.args(arguments);
    // It must be there until the linker has read it.
    let order = tempfile::NamedTempFile::new()?;
    if std::env::var_os("CARGO_BIN_NAME").as_deref() == Some(OsStr::new(PROGRAM)) {
        fs::write(order.path(), order_of(&inputs(arguments)?)?)?;
        linker.args(options(real, order.path(), &map(arguments)));
    }
    let status = linker.status().context("starting the linker")?;
    ensure!(status.success(), "the linker ended with {status}");
    Ok(())
}

/// Returns where to write the map of the output: `ah.map` beside it.
fn map(arguments: &[&str]) -> PathBuf {
    let output = arguments.iter().skip_while(|word| **word != "-o").nth(1);
    Path::new(output.unwrap_or(&PROGRAM)).with_file_name(MAP)
}

/// Returns the options for the order, for functions of equal code to be one, and for the map.
fn options(real: &str, order: &Path, map: &Path) -> Vec<OsString> {
    let with = |option: &str, path: &Path| {
        let mut option = OsString::from(option);
        option.push(path);
        option
    };
    let options = [
        with("--symbol-ordering-file=", order),
        with("-Map=", map),
        // The map has the names as they are.
        "--no-demangle".into(),
        "--no-warn-symbol-ordering".into(),
        "--icf=all".into(),
    ];
    let passed = |option: OsString| match real {
        "rust-lld" => option,
        _ => {
            let mut passed = OsString::from("-Wl,");
            passed.push(option);
            passed
        }
    };
    options.into_iter().map(passed).collect()
}

/// Returns the files to be linked. Long lists of arguments are in a file of their own.
fn inputs(arguments: &[&str]) -> Result<Vec<PathBuf>> {
    let mut inputs = Vec::new();
    for argument in arguments {
        match argument.strip_prefix('@') {
            Some(list) => {
                let list = fs::read_to_string(list)?;
                inputs.extend(
                    list.lines()
                        .map(|line| PathBuf::from(line.trim_matches('"'))),
                );
            }
            None => inputs.push(PathBuf::from(argument)),
        }
    }
    let is_input = |path: &PathBuf| {
        let kind = path.extension().and_then(OsStr::to_str);
        matches!(kind, Some("o" | "rlib" | "a"))
    };
    inputs.retain(is_input);
    Ok(inputs)
}

/// Returns the names of the listed functions in the files, a line each, in the order of the list.
fn order_of(files: &[PathBuf]) -> Result<String> {
    let list = fs::read_to_string(LIST).with_context(|| format!("reading {LIST}"))?;
    let places: HashMap<&str, usize> = list.lines().zip(0..).collect();
    let mut found = Vec::new();
    let mut look = |data: &[u8]| {
        // An archive also holds what is not code.
        let Ok(file) = object::File::parse(data) else {
            return;
        };
        for name in file.symbols().filter_map(|symbol| symbol.name().ok()) {
            if let Some(place) = places.get(key(name).as_str()) {
                found.push((*place, name.to_owned()));
            }
        }
    };
    for path in files {
        let data = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        match ArchiveFile::parse(&*data) {
            Ok(archive) => {
                for member in archive.members().flatten() {
                    look(member.data(&*data)?);
                }
            }
            Err(_) => look(&data),
        }
    }
    found.sort();
    found.dedup();
    let names: Vec<_> = found.into_iter().map(|(_, name)| name).collect();
    Ok(names.join("\n") + "\n")
}

/// Writes the list anew, for functions by their names in the binary.
pub fn write(names: &[String]) -> Result<()> {
    let mut list = String::new();
    let mut known = HashSet::new();
    for key in names.iter().map(|name| key(name)) {
        if known.insert(key.clone()) {
            list += &key;
            list.push('\n');
        }
    }
    fs::write(LIST, list).with_context(|| format!("writing {LIST}"))
}

/// Returns what stands for a function in the list: of its name, without what each build has anew, the first bytes of the
/// hash.
fn key(name: &str) -> String {
    let mut name = name.split(".llvm.").next().unwrap_or(name);
    // The numbers of copies, of which each build has others.
    while name.starts_with("_R")
        && let Some((first, number)) = name.rsplit_once('.')
        && number.bytes().all(|byte| byte.is_ascii_digit())
    {
        name = first;
    }
    let readable = format!("{:#}", rustc_demangle::demangle(name));
    let mut key = String::new();
    for byte in &Sha256::digest(readable)[..6] {
        let _ = write!(key, "{byte:02x}");
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_has_the_same_key_in_each_build() {
        let first = key("_RNvCs1234_7mycrate3foo");
        assert_eq!(first.len(), 12);
        assert_eq!(first, key("_RNvCs98aZ_7mycrate3foo.llvm.17"));
        assert_eq!(first, key("_RNvCs98aZ_7mycrate3foo.1621"));
        assert_eq!(first, key("_RNvCs98aZ_7mycrate3foo.1621.llvm.17"));
        assert_ne!(first, key("_RNvCs1234_7mycrate3bar"));
        assert_eq!(
            key("_ZN3std2io5write17h0123456789abcdefE"),
            key("_ZN3std2io5write17hfedcba9876543210E")
        );
        assert_ne!(key("sqlite3_step"), key("sqlite3_open"));
        assert_ne!(key("balance.part.0"), key("balance.part.1"));
    }

    #[test]
    fn files_are_found_among_arguments() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("list");
        fs::write(&list, "\"/a/b.o\"\n-lc\n/c.rlib\n").unwrap();
        let list = format!("@{}", list.display());
        let found = inputs(&["-o", "ah", "x.o", &list, "libc.a"]).unwrap();
        assert_eq!(
            found,
            ["x.o", "/a/b.o", "/c.rlib", "libc.a"].map(PathBuf::from)
        );
    }

    #[test]
    fn the_options_are_those_of_the_linker() {
        let (file, map) = (Path::new("/order"), map(&["-o", "/out/ah-1", "a.o"]));
        let first = |real| options(real, file, &map)[..2].to_vec();
        assert_eq!(
            first("rust-lld"),
            ["--symbol-ordering-file=/order", "-Map=/out/ah.map"]
        );
        assert_eq!(
            first("cc"),
            ["-Wl,--symbol-ordering-file=/order", "-Wl,-Map=/out/ah.map"]
        );
    }
}
