//! Sessions through the real LiteLLM proxy: installs it, once for each set of pins, and runs the tests that ask it.
//!
//! The tests stand in `cli/tests/it/litellm.rs`. They start and stop the proxy themselves, and learn from a variable
//! where it is; without the variable they do nothing.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow, bail};
use sha2::{Digest, Sha256};

use crate::workspace::{cargo, output, root, run};

/// Tells the tests which Python has the proxy.
const VARIABLE: &str = "AH_TEST_LITELLM";
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

/// Installs the proxy where it is not yet; gives the Python that has it.
pub fn install() -> Result<PathBuf> {
    let pins = root().join("interop/litellm/requirements.txt");
    let version = python_version()?;
    let text = fs::read(&pins).with_context(|| format!("reading {}", pins.display()))?;
    let folder = folder(&text, &version)?;
    let python = folder.join("bin/python");
    let done = folder.join("installed");
    // Of two that come at once the second finds it done.
    let lock = File::create(folder.with_extension("lock"))?;
    lock.lock()?;
    if !done.exists() {
        remove(&folder)?;
        run(Command::new("python3").args(["-m", "venv"]).arg(&folder))
            .map_err(|_| anyhow!("python3 has no venv"))?;
        run(Command::new(&python)
            .args(["-m", "pip", "install", "--quiet", "--require-hashes"])
            // What has to be built would run on this machine unseen.
            .args(["--only-binary", ":all:", "--requirement"])
            .arg(&pins))
        .map_err(|_| anyhow!("pip could not install it"))?;
        File::create(&done)?;
    }
    link(&folder)?;
    Ok(python)
}

/// Runs the tests with the proxy of this Python.
pub fn test(python: &Path) -> Result<()> {
    let mut tests = offline(&cargo());
    tests
        .args(["test", "--offline", "--package", "ah", "--test", "it"])
        .args(["--", "litellm::"])
        .env(VARIABLE, python);
    run(&mut tests)
}

fn python_version() -> Result<String> {
    let program = "import sys; print(*sys.version_info[:3], sep='.')";
    let version = output(Command::new("python3").args(["-c", program]))?;
    let version = version.trim().to_owned();
    let minor = version.split('.').nth(1).and_then(|it| it.parse().ok());
    if !version.starts_with("3.") || minor.is_none_or(|minor: u32| minor < OLDEST_PYTHON) {
        bail!("python3 is {version}, and 3.{OLDEST_PYTHON} is needed");
    }
    Ok(version)
}

/// Where these pins are installed with this Python, which what is installed leans on.
fn folder(pins: &[u8], version: &str) -> Result<PathBuf> {
    let mut hash = Sha256::new();
    hash.update(pins);
    hash.update(version);
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

/// Lets `target/litellm` lead to `folder`, where people look for it.
fn link(folder: &Path) -> Result<()> {
    let link = root().join("target/litellm");
    fs::create_dir_all(root().join("target"))?;
    if fs::read_link(&link).is_ok_and(|there| there == folder) {
        return Ok(());
    }
    if link.symlink_metadata().is_ok() {
        fs::remove_file(&link)?;
    }
    std::os::unix::fs::symlink(folder, &link).with_context(|| format!("linking {}", link.display()))
}

/// `command`, without a way to anything but this machine where that can be had. The proxy is asked for nothing beyond it
/// in any case.
fn offline(command: &Command) -> Command {
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
