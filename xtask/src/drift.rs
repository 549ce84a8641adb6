//! `cargo xtask drift`: what the newest packages of vendors and protocols have that nobody has judged yet. Each name in
//! them is handled, refused by name or not wanted, as `interop/drift` says; names without a verdict, and verdicts without
//! their name or proof, are printed and make the command fail. It needs the network, so it is no part of the tests.

mod extract;
mod verdicts;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::thread;

use anyhow::{Context, Result, bail};

use crate::newest::{self, Release};
use crate::workspace::root;
use verdicts::{Judgement, Package};

/// Judges the newest releases of all packages, or of those whose file in `interop/drift` is named.
pub fn drift(names: &[&str]) -> Result<()> {
    let packages = packages(names)?;
    let releases: Vec<Result<Release>> = thread::scope(|scope| {
        let fetch = |package: &Package| {
            let paths: Vec<&str> = package.surface.iter().map(|it| &*it.file).collect();
            newest::fetch(&package.package, &paths)
        };
        let fetches: Vec<_> = packages
            .iter()
            .map(|it| scope.spawn(move || fetch(it)))
            .collect();
        let fetched = fetches
            .into_iter()
            .map(|it| it.join().expect("no fetch panics"));
        fetched.collect()
    });
    let mut total = Judgement::default();
    for (package, release) in packages.iter().zip(releases) {
        judge(package, &release?, &mut total)?;
    }
    let Judgement {
        handled,
        refused,
        unwanted,
        new,
        gone,
        unproven,
    } = &total;
    println!(
        "{} packages: {handled} handled, {refused} refused by name, {unwanted} not wanted, {} unjudged",
        packages.len(),
        new.len(),
    );
    let broken = gone.len() + unproven.len();
    if broken > 0 {
        println!("{broken} verdicts no longer hold");
    }
    if !new.is_empty() || broken > 0 {
        bail!("the list in interop/drift is not complete");
    }
    Ok(())
}

/// Reads the lists of verdicts.
fn packages(names: &[&str]) -> Result<Vec<Package>> {
    let folder = root().join("interop/drift");
    let mut paths: Vec<PathBuf> = if names.is_empty() {
        let entries = fs::read_dir(&folder)?;
        let paths = entries.map(|entry| Ok(entry?.path()));
        paths.collect::<Result<_>>()?
    } else {
        names
            .iter()
            .map(|name| folder.join(format!("{name}.toml")))
            .collect()
    };
    paths.sort();
    let read = |path: &PathBuf| {
        let text = fs::read_to_string(path);
        let text = text.with_context(|| format!("reading {}", path.display()))?;
        toml::from_str(&text).with_context(|| format!("reading {}", path.display()))
    };
    paths.iter().map(read).collect()
}

/// Prints what is new in a package, and adds it to `total`.
fn judge(package: &Package, release: &Release, total: &mut Judgement) -> Result<()> {
    let read = |path: &str| fs::read_to_string(root().join(path)).ok();
    let mut lines = BTreeMap::new();
    for surface in &package.surface {
        let of = || format!("{} {}: {}", package.package, release.version, surface.name);
        let text = release.file(&surface.file).with_context(of)?;
        let names = surface.names(text).with_context(of)?;
        let found = surface.judge(&names, &read);
        total.handled += found.handled;
        total.refused += found.refused;
        total.unwanted += found.unwanted;
        for (what, names, total) in [
            ("new", found.new, &mut total.new),
            ("no longer there", found.gone, &mut total.gone),
            ("unproven", found.unproven, &mut total.unproven),
        ] {
            if !names.is_empty() {
                lines.insert((&*surface.name, what), names.join(", "));
            }
            total.extend(names);
        }
    }
    let is_newer = package.judged != release.version;
    if is_newer || !lines.is_empty() {
        let judged = if is_newer {
            format!(", judged at {}", package.judged)
        } else {
            String::new()
        };
        println!("{} {}{judged}", package.package, release.version);
    }
    for ((surface, what), names) in lines {
        println!("  {surface}, {what}: {names}");
    }
    Ok(())
}
