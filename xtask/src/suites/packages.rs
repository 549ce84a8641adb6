//! The published packages, packed around any binary: what is in them, and that they install and run without a network.
//!
//! Nothing is built for it: packing is the same for the binary of the tests as for the published one.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use super::cache;
use crate::dist::release::{Platform, Release};
use crate::dist::{CHECKSUMS, Files, documents, packed, write};
use crate::workspace::{COMMAND_LINE, built, output, run};

/// Files in an archive, less the pages of the subcommands.
const CONTENTS: [&str; 10] = [
    "CHANGELOG.md",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "LICENSES-OF-CRATES",
    "README.md",
    "ah",
    "completions/_ah",
    "completions/ah.bash",
    "completions/ah.fish",
    "man/man1/ah.1",
];
/// A page of a subcommand.
const PAGE: &str = "man/man1/ah-";

/// Packages on disk, and where they are tried.
struct Packages {
    /// Temporary: the packages, the folders they are installed in, and the home of whatever runs.
    folder: tempfile::TempDir,
    files: Files,
    release: Release,
    platform: Platform,
}

/// As [`test()`]; whatever is missing is an error.
pub fn test_alone(binary: Option<&str>) -> Result<()> {
    let left_out = test(binary)?;
    ensure!(left_out.is_empty(), "left out: {}", left_out.join(", "));
    Ok(())
}

/// Packs a binary, by default the one of the tests, and tries the packages. Returns those that could not be tried.
pub fn test(binary: Option<&str>) -> Result<Vec<String>> {
    let platform = match Platform::named(None) {
        Ok(platform) if platform.is_here() => platform,
        _ => {
            return Ok(vec![
                "packages (there are none for this machine)".to_owned(),
            ]);
        }
    };
    let binary = match binary {
        Some(binary) => PathBuf::from(binary),
        None => built(COMMAND_LINE, "ah", "dev")?,
    };
    let packages = Packages::pack(&binary, platform)?;
    packages.test_archive()?;
    let mut left_out = Vec::new();
    match cache::node_version() {
        Ok(_) => packages.test_npm()?,
        Err(missing) => left_out.push(format!("packages of npm ({missing:#})")),
    }
    match cache::python_version() {
        Ok(_) => packages.test_wheel()?,
        Err(missing) => left_out.push(format!("packages of PyPI ({missing:#})")),
    }
    Ok(left_out)
}

impl Packages {
    /// Packs a binary; and a small one twice, to compare.
    fn pack(binary: &Path, platform: Platform) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        // Without what debuggers need it is packed in half the time.
        let small = folder.path().join("ah");
        run(Command::new("strip").arg("-o").arg(&small).arg(binary))?;
        let binary = fs::read(&small)?;
        let release = Release::of_checkout()?;
        let documents = documents(&binary)?;
        let stand_in = [(platform, b"program".to_vec())];
        let first = packed(&release, &stand_in, &documents)?;
        let second = packed(&release, &stand_in, &documents)?;
        ensure!(first == second, "packed twice, the files differ");
        let files = packed(&release, &[(platform, binary)], &documents)?;
        write(folder.path(), &files)?;
        Ok(Self {
            folder,
            files,
            release,
            platform,
        })
    }

    fn test_archive(&self) -> Result<()> {
        let folder = self.folder.path();
        let mut sums = Command::new("sha256sum");
        run(sums
            .args(["--check", "--strict", "--quiet", CHECKSUMS])
            .current_dir(folder))?;

        let name = self.release.name(self.platform);
        let mut tar = Command::new("tar");
        let tar = tar.args(["-xvzf", &format!("{name}.tar.gz")]);
        let list = output(tar.current_dir(folder))?;
        let prefix = format!("{name}/");
        let mut contents = list
            .lines()
            .map(|path| path.strip_prefix(&prefix).unwrap_or(path))
            .filter(|path| !path.starts_with(PAGE))
            .collect::<Vec<_>>();
        contents.sort_unstable();
        ensure!(contents == CONTENTS, "the archive contains {contents:?}");
        ensure!(list.contains(PAGE), "no pages of the subcommands");
        self.test_program(&folder.join(name).join("ah"))
    }

    /// Installs from the packages alone, then starts the program as users do.
    fn test_npm(&self) -> Result<()> {
        let folder = self.empty_folder("npm")?;
        fs::write(folder.join("package.json"), "{\"private\": true}\n")?;
        let mut npm = self.offline("npm", &folder);
        npm.args(["install", "--offline", "--ignore-scripts"])
            .args(["--no-audit", "--no-fund"])
            .args(self.named(".tgz"));
        run(&mut npm)?;
        let launcher = folder.join("node_modules/.bin/ah");
        self.test_program(&launcher)?;
        // It finds the program from the folder that it is started in.
        let mut npx = self.offline("npx", &folder);
        let shown = output(npx.args(["--offline", "ah", "-V"]))?;
        self.check_version(&shown)?;

        let node = format!("ah-linux-{}", self.platform.node);
        fs::remove_dir_all(folder.join("node_modules/@ah-agent").join(&node))?;
        let alone = Command::new(&launcher).output()?;
        let explains = String::from_utf8_lossy(&alone.stderr).contains(&node);
        ensure!(
            !alone.status.success() && explains,
            "the launcher alone does not say what it lacks"
        );
        Ok(())
    }

    fn test_wheel(&self) -> Result<()> {
        let folder = self.empty_folder("python")?;
        run(Command::new("python3").args(["-m", "venv"]).arg(&folder))
            .context("install the venv module of Python")?;
        let python = folder.join("bin/python");
        let pip = |words: &[&str]| {
            let mut pip = self.offline(&python, &folder);
            pip.args(["-m", "pip", "--quiet", "--disable-pip-version-check"]);
            pip.args(words);
            pip
        };
        run(pip(&["install", "--no-index"]).args(self.named(".whl")))?;
        let program = folder.join("bin/ah");
        self.test_program(&program)?;
        run(&mut pip(&["uninstall", "--yes", "ah-agent"]))?;
        ensure!(!program.exists(), "pip does not remove the program");
        Ok(())
    }

    /// Starts an installed program: its version, the demonstration in an empty folder, and a failure.
    fn test_program(&self, program: &Path) -> Result<()> {
        let folder = self.empty_folder("project")?;
        let ah = || {
            let mut command = Command::new(program);
            command.current_dir(&folder);
            command.env("HOME", self.folder.path());
            command
        };
        self.check_version(&output(ah().arg("-V"))?)?;
        output(ah().arg("demo"))?;
        let code = ah().arg("--no-such-option").output()?.status.code();
        ensure!(code == Some(2), "an unknown option ends with {code:?}");
        Ok(())
    }

    fn check_version(&self, shown: &str) -> Result<()> {
        let expected = format!("ah {}", self.release.version);
        // A commit may follow.
        if !shown.trim_end().starts_with(&expected) {
            bail!("the version is `{}`, not `{expected}`", shown.trim_end());
        }
        Ok(())
    }

    /// Returns the paths of the packages with this ending.
    fn named(&self, ending: &str) -> Vec<PathBuf> {
        let names = self.files.keys().filter(|name| name.ends_with(ending));
        names.map(|name| self.folder.path().join(name)).collect()
    }

    fn empty_folder(&self, name: &str) -> Result<PathBuf> {
        let folder = self.folder.path().join(name);
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir(&folder)?;
        Ok(folder)
    }

    fn offline(&self, program: impl AsRef<OsStr>, folder: &Path) -> Command {
        let mut command = cache::offline(&Command::new(program));
        command
            .current_dir(folder)
            .env("HOME", self.folder.path())
            .env("npm_config_cache", self.folder.path().join("cache"));
        command
    }
}
