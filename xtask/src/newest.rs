//! The newest releases of packages, as npm and PyPI have them. Files are read out of the archive; nothing is installed
//! or run.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use flate2::read::GzDecoder;

use crate::workspace::output;

/// A Python for which all of the packages have a release. Their code is never run.
const PYTHON: &str = "3.13";

/// A release, and those of its files that were asked for.
pub struct Release {
    /// Its version.
    pub version: String,
    /// Paths within the package, and texts.
    files: Vec<(String, String)>,
}

impl Release {
    /// Returns the text of the file at `path`, where a `*` stands for any characters.
    pub fn file(&self, path: &str) -> Result<&str> {
        let mut files = self.files.iter();
        let found = files.find(|(name, _)| is_like(name, path));
        let found = found.with_context(|| format!("the package has no file {path}"))?;
        Ok(&found.1)
    }
}

/// Fetches the newest release of a package, `npm:NAME` or `pypi:NAME`, with its files at `paths`.
pub fn fetch(package: &str, paths: &[&str]) -> Result<Release> {
    let (registry, name) = package.split_once(':').unwrap_or_default();
    let folder = tempfile::tempdir()?;
    let mut client = match registry {
        "npm" => npm(name),
        "pypi" => pip(name),
        _ => bail!("`{package}` is of no known registry"),
    };
    output(client.current_dir(folder.path())).with_context(|| format!("fetching {package}"))?;
    let archive = fs::read_dir(folder.path())?.next();
    let archive = archive.with_context(|| format!("{package} has no release"))??;
    let file_name = archive.file_name().to_string_lossy().into_owned();
    let version = version(&file_name);
    let version = version.with_context(|| format!("{file_name} has no version"))?;
    let files = match registry {
        "npm" => of_tarball(&archive.path(), paths),
        _ => of_wheel(&archive.path(), paths),
    };
    Ok(Release {
        version: version.to_owned(),
        files: files.with_context(|| format!("reading {file_name}"))?,
    })
}

/// The tag is named: without it npm takes an older release that this machine's Node could run.
fn npm(name: &str) -> Command {
    let mut npm = Command::new("npm");
    npm.args(["pack", "--silent"]).arg(format!("{name}@latest"));
    npm
}

fn pip(name: &str) -> Command {
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "download", "--quiet", "--no-deps"])
        .args(["--only-binary", ":all:", "--python-version", PYTHON])
        .arg(name);
    pip
}

/// Returns the version in the name of an archive, `NAME-VERSION.tgz` or `NAME-VERSION-TAGS.whl`.
fn version(file_name: &str) -> Option<&str> {
    if let Some(wheel) = file_name.strip_suffix(".whl") {
        return wheel.split('-').nth(1);
    }
    let name = file_name.strip_suffix(".tgz")?;
    let starts = name.match_indices('-').map(|(at, _)| at + 1);
    let mut versions = starts.map(|at| &name[at..]);
    versions.find(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
}

fn of_tarball(archive: &Path, paths: &[&str]) -> Result<Vec<(String, String)>> {
    let mut archive = tar::Archive::new(GzDecoder::new(File::open(archive)?));
    let mut files = Vec::new();
    for entry in archive.entries()? {
        let mut entry = entry?;
        let name = entry.path()?.to_string_lossy().into_owned();
        let name = name.strip_prefix("package/").unwrap_or(&name).to_owned();
        if paths.iter().any(|path| is_like(&name, path)) {
            let mut text = String::new();
            entry.read_to_string(&mut text)?;
            files.push((name, text));
        }
    }
    Ok(files)
}

fn of_wheel(archive: &Path, paths: &[&str]) -> Result<Vec<(String, String)>> {
    let mut archive = zip::ZipArchive::new(File::open(archive)?)?;
    let mut files = Vec::new();
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index)?;
        let name = entry.name()?.into_owned();
        if paths.iter().any(|path| is_like(&name, path)) {
            let mut text = String::new();
            entry.read_to_string(&mut text)?;
            files.push((name, text));
        }
    }
    Ok(files)
}

/// Whether `text` is `pattern`, in which each `*` stands for any characters.
pub fn is_like(text: &str, pattern: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else {
        return text == pattern;
    };
    let Some(text) = text.strip_prefix(start) else {
        return false;
    };
    let ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    ends.into_iter().any(|at| is_like(&text[at..], rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_characters() {
        for (text, pattern, expected) in [
            ("stop", "stop", true),
            ("stop", "sto", false),
            ("stop", "*", true),
            ("", "*", true),
            ("gpt-5-mini", "gpt-*mini", true),
            ("gpt-5-mini", "gpt-*-*-mini", false),
            ("gpt-5-mini-1", "gpt-*mini", false),
            ("dist/schemas-x.d.mts", "dist/*.d.mts", true),
            ("ä", "*ä", true),
        ] {
            assert_eq!(is_like(text, pattern), expected, "{text} {pattern}");
        }
    }

    #[test]
    fn the_version_stands_in_the_name_of_the_archive() {
        for (name, expected) in [
            ("anthropic-ai-sdk-1.14.0.tgz", Some("1.14.0")),
            (
                "modelcontextprotocol-core-2.4.0-beta.1.tgz",
                Some("2.4.0-beta.1"),
            ),
            (
                "litellm-1.110.2-cp310-abi3-manylinux_2_28_x86_64.whl",
                Some("1.110.2"),
            ),
            ("readme.md", None),
        ] {
            assert_eq!(version(name), expected);
        }
    }
}
