//! What all packages of a release agree on: its version, its time, its platforms, and where it is to be had.

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::workspace::{COMMAND_LINE, cargo, output, root};

/// Time of a release that is built outside of a git checkout: the first that a zip archive can express.
const YEAR_1980: u64 = 315_532_800;

/// Platforms that there are packages for.
pub const PLATFORMS: [Platform; 2] = [
    Platform {
        architecture: "x86_64",
        node: "x64",
        manylinux: "manylinux_2_17_x86_64.manylinux2014_x86_64",
    },
    Platform {
        architecture: "aarch64",
        node: "arm64",
        manylinux: "manylinux_2_17_aarch64.manylinux2014_aarch64",
    },
];

/// A platform, and its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Platform {
    /// The processor, as in Rust's name of the target.
    pub architecture: &'static str,
    /// The processor, as Node calls it.
    pub node: &'static str,
    /// Python's names for Linux distributions with glibc, the oldest that pip still knows. The binary needs no libc at
    /// all.
    manylinux: &'static str,
}

impl Platform {
    /// Returns the platform of this machine, or of the one that Rust calls `target`.
    ///
    /// # Errors
    /// If there are no packages for it.
    pub fn named(target: Option<&str>) -> Result<Self> {
        let has_name = |platform: &Self| match target {
            Some(target) => platform.target() == target,
            None => platform.architecture == std::env::consts::ARCH,
        };
        let name = target.unwrap_or(std::env::consts::ARCH);
        let targets = PLATFORMS.map(|platform| platform.target()).join(", ");
        PLATFORMS
            .into_iter()
            .find(has_name)
            .with_context(|| format!("there are no packages for `{name}`; there are for {targets}"))
    }

    /// Whether this machine runs its programs.
    pub fn is_here(self) -> bool {
        cfg!(target_os = "linux") && self.architecture == std::env::consts::ARCH
    }

    /// Returns Rust's name of the target.
    pub fn target(self) -> String {
        format!("{}-unknown-linux-musl", self.architecture)
    }

    /// Returns the tags of a wheel, separated by periods as in its file name.
    pub fn wheel_tags(self) -> String {
        let Self {
            architecture,
            manylinux,
            ..
        } = self;
        format!("{manylinux}.musllinux_1_2_{architecture}")
    }
}

/// A version of the program.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Release {
    /// In the form of Semantic Versioning.
    pub version: String,
    /// One line.
    pub description: String,
    /// SPDX expression.
    pub license: String,
    /// Address of the repository.
    pub repository: String,
    /// Time of all files in seconds since 1970: the commit's, so that the same commit gives the same packages.
    #[serde(skip)]
    pub time: u64,
}

impl Release {
    /// Reads the version from the binary's `Cargo.toml`, and the time from `SOURCE_DATE_EPOCH` or else from git.
    pub fn of_checkout() -> Result<Self> {
        #[derive(Deserialize)]
        struct Metadata {
            packages: Vec<serde_json::Value>,
        }
        let json = output(cargo().args(["metadata", "--format-version", "1", "--no-deps"]))?;
        let metadata: Metadata = serde_json::from_str(&json)?;
        let mut packages = metadata.packages.into_iter();
        let package = packages
            .find(|package| package["name"] == COMMAND_LINE)
            .context("the workspace has no binary")?;
        let release: Self = serde_json::from_value(package)
            .context("the binary's Cargo.toml lacks something that packages need")?;
        Ok(Self {
            time: time()?,
            ..release
        })
    }

    /// Returns the name of the archive for a platform, without its ending; also of the folder in it.
    pub fn name(&self, platform: Platform) -> String {
        format!("ah-{}-{}", self.version, platform.target())
    }

    /// Returns the address of a published file.
    pub fn address(&self, file: &str) -> String {
        let Self {
            repository,
            version,
            ..
        } = self;
        format!("{repository}/releases/download/v{version}/{file}")
    }
}

fn time() -> Result<u64> {
    if let Ok(seconds) = std::env::var("SOURCE_DATE_EPOCH") {
        return seconds
            .parse()
            .context("SOURCE_DATE_EPOCH is no number of seconds");
    }
    let mut log = std::process::Command::new("git");
    log.args(["log", "-1", "--format=%ct"]).current_dir(root());
    match output(&mut log) {
        Ok(seconds) => seconds.trim().parse().context("reading the commit's time"),
        Err(_) => Ok(YEAR_1980),
    }
}
