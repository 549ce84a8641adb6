//! The repository's root, its packages as cargo knows them, and running commands in it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::layout;

/// Whether Rust's own linker links for this platform, so that functions can be put in order.
const IS_LAID_OUT: bool = cfg!(all(
    target_arch = "x86_64",
    target_os = "linux",
    target_env = "gnu"
));

/// Package of the binary `ah`, whose integration tests run it.
pub const COMMAND_LINE: &str = "ah-cli";

/// What the published binary has beside what is built by default: it is half a megabyte there, and takes long to build.
pub const PUBLISHED_FEATURES: [&str; 2] = ["--features", "postgres"];

/// Seconds from which on a command's time is printed, so that a slow run of CI shows where.
const LONG: u64 = 10;

/// Returns the root of the repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("this crate lies one folder below the root")
}

/// Whether this is CI, where no suite may be left out (`CI=true`).
pub fn in_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| value == "true" || value == "1")
}

/// Returns a command for cargo at the root, of the toolchain that built this program.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    // Cargo tells this program about its own package. Build scripts that depend on the names of these variables (ring's)
    // would run anew each time `cargo xtask` follows another cargo, and all that uses them would be built anew.
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&*name);
        }
    }
    // Nothing is built there a second time, and nobody debugs.
    if in_ci() {
        command
            .env("CARGO_INCREMENTAL", "0")
            .env("CARGO_PROFILE_DEV_DEBUG", "false");
    }
    command
}

/// Builds the binary `name` of `package` with a cargo profile; returns its path.
pub fn built(package: &str, name: &str, profile: &str) -> Result<PathBuf> {
    let mut build = cargo();
    build.args(["build", "--bin", name, "--profile", profile]);
    // A program that is measured or published has only the features it asks for itself; for the tests, it has those of
    // the whole workspace, which are compiled already.
    if profile != "dev" {
        build.args(["--package", package]);
    }
    if profile == "dist" && package == COMMAND_LINE {
        build.args(PUBLISHED_FEATURES);
    }
    let mut target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    if profile == "dist" && IS_LAID_OUT {
        let linking = "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU";
        let triple = "x86_64-unknown-linux-gnu";
        build
            .env(format!("{linking}_LINKER"), layout::linker("cc", &target)?)
            .env(format!("{linking}_RUSTFLAGS"), layout::FLAGS)
            // Else the flags are those of macros, too.
            .args(["--target", triple]);
        target.push(triple);
    }
    run(&mut build)?;
    // The only profile whose folder has another name.
    let folder = if profile == "dev" { "debug" } else { profile };
    let program = target.join(folder).join(name);
    let is_there = program.is_file().then_some(program);
    is_there.with_context(|| format!("cargo built no binary `{name}`"))
}

/// Prints a command and runs it with inherited output; prints how long it took if it was long.
///
/// # Errors
/// If it cannot be started or fails.
pub fn run(command: &mut Command) -> Result<()> {
    let shown = shown(command);
    eprintln!("==> {shown}");
    let start = Instant::now();
    let status = command
        .status()
        .with_context(|| format!("starting `{shown}`"))?;
    let seconds = start.elapsed().as_secs();
    if seconds >= LONG {
        eprintln!("==> took {seconds} s");
    }
    if !status.success() {
        bail!("`{shown}` failed");
    }
    Ok(())
}

/// Runs a command and returns its stdout.
///
/// # Errors
/// If it cannot be started, fails, or prints no UTF-8.
pub fn output(command: &mut Command) -> Result<String> {
    let shown = shown(command);
    let output = command
        .output()
        .with_context(|| format!("starting `{shown}`"))?;
    if !output.status.success() {
        bail!(
            "`{shown}` failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{shown}` printed no valid UTF-8"))
}

fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program())
        .file_name()
        .unwrap_or_else(|| command.get_program());
    std::iter::once(program)
        .chain(command.get_args())
        .map(OsStr::to_string_lossy)
        .collect::<Vec<_>>()
        .join(" ")
}

/// A package of the workspace.
#[derive(Deserialize)]
pub struct Package {
    pub name: String,
    /// Path of its `Cargo.toml`.
    pub manifest_path: PathBuf,
    pub dependencies: Vec<Dependency>,
}

impl Package {
    /// Folder of the crate, below the root.
    pub fn folder(&self) -> String {
        let folder = self.manifest_path.parent().unwrap_or(Path::new(""));
        let below = folder.strip_prefix(root()).unwrap_or(folder);
        below.to_string_lossy().into_owned()
    }
}

/// A dependency of a package.
#[derive(Deserialize)]
pub struct Dependency {
    pub name: String,
    /// `None` for a normal dependency, else `dev` or `build`.
    pub kind: Option<String>,
}

/// Returns the packages of the workspace.
pub fn packages() -> Result<Vec<Package>> {
    #[derive(Deserialize)]
    struct Metadata {
        packages: Vec<Package>,
    }
    let json = output(cargo().args(["metadata", "--format-version", "1", "--no-deps"]))?;
    let metadata: Metadata =
        serde_json::from_str(&json).context("parsing the output of `cargo metadata`")?;
    Ok(metadata.packages)
}
