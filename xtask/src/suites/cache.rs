//! Programs of others that suites need: fetched once for each set of pins, and kept outside of the repository.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow, bail};
use sha2::{Digest, Sha256};

use crate::workspace::{output, root, run};

/// The oldest Python that the pins are for, after the 3.
const OLDEST_PYTHON: u32 = 10;
/// Runs the rest of its arguments in a network of their own, which has the loopback interface alone.
const LOOPBACK_ALONE: [&str; 6] = [
    "unshare",
    "--map-root-user",
    "--net",
    "sh",
    "-c",
    "PATH=$PATH:/usr/sbin:/sbin; ip link set lo up && exec \"$0\" \"$@\"",
];

/// The folder of what `pins` name, filled by `fetch` where it is not yet. `target/NAME` leads to it.
pub fn installed(
    name: &str,
    pins: &[&[u8]],
    fetch: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let folder = folder(pins)?;
    let done = folder.join("installed");
    // Of two that come at once the second finds it done.
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

/// Makes a Python in `folder` with what the file `requirements` pins; gives the Python.
pub fn install_python(folder: &Path, requirements: &Path) -> Result<()> {
    run(Command::new("python3").args(["-m", "venv"]).arg(folder))
        .map_err(|_| anyhow!("python3 has no venv"))?;
    run(Command::new(folder.join("bin/python"))
        .args(["-m", "pip", "install", "--quiet", "--require-hashes"])
        // What has to be built would run on this machine unseen.
        .args(["--only-binary", ":all:", "--requirement"])
        .arg(requirements))
    .map_err(|_| anyhow!("pip could not install it"))
}

/// What npm reads of a folder of pins.
const NODE_PINS: [&str; 2] = ["package.json", "package-lock.json"];

/// Installs into `folder` what the lock file in `pins` names; `more` are further options of npm.
pub fn install_node(folder: &Path, pins: &Path, more: &[&str]) -> Result<()> {
    fs::create_dir_all(folder)?;
    for name in NODE_PINS {
        fs::copy(pins.join(name), folder.join(name))?;
    }
    // What packages want to run when they are installed is not needed.
    run(Command::new("npm")
        .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"])
        .args(more)
        .current_dir(folder))
    .map_err(|_| anyhow!("npm could not install it"))
}

/// What stands in files of pins.
pub fn read(pins: &Path, names: &[&str]) -> Result<Vec<Vec<u8>>> {
    let read = |name: &&str| {
        let path = pins.join(name);
        fs::read(&path).with_context(|| format!("reading {}", path.display()))
    };
    names.iter().map(read).collect()
}

/// The version of the Node that there is.
pub fn node_version() -> Result<String> {
    output(Command::new("node").arg("--version")).map_err(|_| anyhow!("no node"))
}

/// The version of the Python that there is, new enough for the pins.
pub fn python_version() -> Result<String> {
    let program = "import sys; print(*sys.version_info[:3], sep='.')";
    let version = output(Command::new("python3").args(["-c", program]))?;
    let version = version.trim().to_owned();
    let minor = version.split('.').nth(1).and_then(|it| it.parse().ok());
    if !version.starts_with("3.") || minor.is_none_or(|minor: u32| minor < OLDEST_PYTHON) {
        bail!("python3 is {version}, and 3.{OLDEST_PYTHON} is needed");
    }
    Ok(version)
}

/// `command`, without a way to anything but this machine where that can be had. The programs are asked for nothing
/// beyond it in any case.
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
    wrapped.current_dir(root());
    wrapped
}

/// Where these pins are installed; what is installed leans on the versions that are among them.
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
    fs::create_dir_all(&cache).with_context(|| format!("making {}", cache.display()))?;
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

/// Lets `target/NAME` lead to `folder`, where people look for it.
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
