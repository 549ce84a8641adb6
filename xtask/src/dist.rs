//! The published files: the binary for each platform in an archive, packages for npm and PyPI around the same binary,
//! recipes for Homebrew and containers, bills of materials, and the checksums of them all.
//!
//! One build for each platform; everything else is packing, which `cargo xtask test packages` tries with any binary.
//! Nothing is published here: that is for `.github/workflows/release.yml`.

pub mod archive;
mod crates;
mod musl;
mod notices;
mod npm;
mod recipes;
pub mod release;
mod sbom;
mod wheel;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest as _, Sha256};

use self::archive::{Entry, read, tar_gz};
use self::musl::Build;
use self::notices::NOTICES;
use self::release::{PLATFORMS, Platform, Release};
use crate::workspace::{output, root};

/// Folder of the published files, in the repository.
const FOLDER: &str = "target/packages";
/// File of the checksums, in the form of `sha256sum`.
pub const CHECKSUMS: &str = "SHA256SUMS";
/// Texts of the repository that are in each archive.
const TEXTS: [&str; 4] = ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"];
/// Completion scripts: shell, and the name of the file.
const COMPLETIONS: [(&str, &str); 3] = [("bash", "ah.bash"), ("zsh", "_ah"), ("fish", "ah.fish")];

/// Parsed arguments.
struct Plan<'a> {
    profile: &'a str,
    platforms: Vec<Platform>,
    /// Whether to build a second time and compare.
    twice: bool,
}

/// A published file by its name.
pub type Files = BTreeMap<String, Vec<u8>>;

/// Builds the binaries and writes all published files into a folder.
pub fn dist(arguments: &[&str]) -> Result<()> {
    let plan = parse(arguments)?;
    let release = Release::of_checkout()?;
    let changed = output(
        Command::new("git")
            .args(["status", "--porcelain"])
            .current_dir(root()),
    );
    if changed.is_ok_and(|changed| !changed.is_empty()) {
        eprintln!("warning: the checkout has changes that are in no commit");
    }
    let zig = musl::tools(&plan.platforms)?;
    let mut binaries = Vec::new();
    for platform in &plan.platforms {
        let build = |target: &str| {
            let target = root().join(target);
            let profile = plan.profile;
            let path = Build { profile, target }.binary(&release, *platform, &zig)?;
            Ok::<_, anyhow::Error>((read(&path)?, path))
        };
        let (binary, path) = build("target")?;
        if plan.twice {
            let (again, second) = build("target/again")?;
            ensure!(
                binary == again,
                "{} and {} differ",
                path.display(),
                second.display()
            );
        }
        binaries.push((*platform, binary));
    }
    let here = binaries.iter().find(|(platform, _)| platform.is_here());
    let (_, here) = here.context("the manual needs a binary that runs on this machine")?;
    let files = packed(&release, &binaries, &documents(here)?)?;
    let folder = root().join(FOLDER);
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))?;
    }
    write(&folder, &files)?;
    print!("{}", String::from_utf8_lossy(&files[CHECKSUMS]));
    println!("written to {FOLDER}");
    Ok(())
}

fn parse<'a>(arguments: &[&'a str]) -> Result<Plan<'a>> {
    let mut plan = Plan {
        profile: "dist",
        platforms: Vec::new(),
        twice: false,
    };
    let mut words = arguments.iter();
    while let Some(&word) = words.next() {
        let mut value = || {
            let value = words.next().copied();
            value.with_context(|| format!("{word} needs a value"))
        };
        match word {
            "--profile" => plan.profile = value()?,
            "--target" => plan.platforms.push(Platform::named(Some(value()?))?),
            "--twice" => plan.twice = true,
            _ => bail!("unknown argument `{word}` of dist"),
        }
    }
    if plan.platforms.is_empty() {
        plan.platforms = PLATFORMS.to_vec();
    }
    Ok(plan)
}

/// Returns all published files. Those that need every platform are left out if one is missing.
pub fn packed(
    release: &Release,
    binaries: &[(Platform, Vec<u8>)],
    documents: &[Entry],
) -> Result<Files> {
    let mut files = Files::new();
    let mut checksums = BTreeMap::new();
    for (platform, binary) in binaries {
        let name = release.name(*platform);
        let mut entries = vec![Entry::program("ah", binary.as_slice())];
        for text in TEXTS {
            entries.push(Entry::of_repository(text)?);
        }
        let crates = crates::in_binary(*platform)?;
        let notices = Entry::file(NOTICES, notices::notices(&crates)?);
        entries.push(notices.clone());
        entries.extend(documents.iter().cloned());
        let entries: Vec<Entry> = entries.into_iter().map(|it| it.within(&name)).collect();
        let archive = tar_gz(&entries, release.time)?;
        checksums.insert(platform.architecture, sha256(&archive));
        files.insert(format!("{name}.tar.gz"), archive);
        let bill = sbom::bill(release, &crates)?;
        files.insert(format!("{name}.cdx.json"), bill.into_bytes());
        files.extend([npm::program(release, *platform, binary, notices.clone())?]);
        files.extend([wheel::wheel(release, *platform, binary, notices)?]);
    }
    files.extend([npm::launcher(release)?]);
    if checksums.len() == PLATFORMS.len() {
        let checksum = |platform: Platform| checksums.get(platform.architecture).cloned();
        for (name, text) in recipes::recipes(release, checksum)? {
            files.insert(name.to_owned(), text.into_bytes());
        }
    }
    let mut list = String::new();
    for (name, bytes) in &files {
        let _ = writeln!(list, "{}  {name}", sha256(bytes));
    }
    files.insert(CHECKSUMS.to_owned(), list.into_bytes());
    Ok(files)
}

/// Writes files into a folder.
pub fn write(folder: &Path, files: &Files) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    for (name, bytes) in files {
        let path = folder.join(name);
        fs::write(&path, bytes).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

/// Returns the manual pages and completion scripts, as the binary writes them.
pub fn documents(binary: &[u8]) -> Result<Vec<Entry>> {
    let folder = tempfile::tempdir()?;
    let (program, pages) = (folder.path().join("ah"), folder.path().join("pages"));
    fs::write(&program, binary)?;
    fs::set_permissions(
        &program,
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )?;
    let ah = || {
        let mut command = Command::new(&program);
        // Nothing of this machine's settings and home.
        command.env_clear().env("HOME", folder.path());
        command.current_dir(folder.path());
        command
    };
    let mut documents = Vec::new();
    for (shell, name) in COMPLETIONS {
        let script = output(ah().args(["completions", shell]))?;
        documents.push(Entry::file(format!("completions/{name}"), script));
    }
    output(ah().arg("man").arg(&pages))?;
    let mut names: Vec<_> = fs::read_dir(&pages)?
        .map(|page| Ok(page?.file_name()))
        .collect::<Result<_>>()?;
    names.sort();
    for name in names {
        let page = read(&pages.join(&name))?;
        let name = name.display();
        documents.push(Entry::file(format!("man/man1/{name}"), page));
    }
    Ok(documents)
}

fn sha256(bytes: &[u8]) -> String {
    let hash = Sha256::digest(bytes);
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binstall_finds_the_archive_and_the_program_in_it() {
        let manifest = fs::read_to_string(root().join("cli/Cargo.toml")).unwrap();
        let manifest: toml::Table = toml::from_str(&manifest).unwrap();
        let rules = &manifest["package"]["metadata"]["binstall"];
        let release = Release::of_checkout().unwrap();
        for platform in PLATFORMS {
            let filled = |rule: &str| {
                let text = rules[rule].as_str().unwrap();
                text.replace("{ repo }", &release.repository)
                    .replace("{ version }", &release.version)
                    .replace("{ target }", &platform.target())
                    .replace("{ bin }", "ah")
            };
            let name = release.name(platform);
            let archive = release.address(&format!("{name}.tar.gz"));
            assert_eq!(filled("pkg-url"), archive);
            assert_eq!(filled("bin-dir"), format!("{name}/ah"));
        }
    }
}
