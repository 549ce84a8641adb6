//! The licences of the crates in the binary, which nearly all ask to be passed on with it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::crates::Crate;

/// Name of the file.
pub const NOTICES: &str = "LICENSES-OF-CRATES";
const OPENING: &str = "\
The program contains the standard library of Rust (MIT OR Apache-2.0), musl (MIT), SQLite (public domain), Lua (MIT),
and the following crates from crates.io, each under its own licence.

";
/// How the names of files with licences begin, in capitals.
const BEGINNINGS: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"];

/// Returns a list of the crates with their licences, and then each text once, with the crates that bring it.
pub fn notices(crates: &[Crate]) -> Result<String> {
    // Ours are those of the program.
    let foreign = crates.iter().filter(|it| it.source.is_some());
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut notices = OPENING.to_owned();
    for it in foreign {
        let name = format!("{} {}", it.name, it.version);
        let license = it.license.as_deref().unwrap_or("see below");
        let _ = writeln!(notices, "{name}: {license}");
        let folder = it.manifest_path.parent().context("a crate has a folder")?;
        for text in texts_in(folder)? {
            texts.entry(text).or_default().push(name.clone());
        }
    }
    let mut texts: Vec<_> = texts.into_iter().collect();
    texts.sort_by(|(_, a), (_, b)| a.cmp(b));
    for (text, names) in texts {
        let line = "-".repeat(80);
        let _ = write!(notices, "\n{line}\n{}:\n\n{text}\n", names.join(", "));
    }
    Ok(notices)
}

/// Returns the licences in the folder of a crate, with equal ends of lines so that more of them are equal.
fn texts_in(folder: &Path) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    let entries = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_uppercase();
        let is_license = BEGINNINGS.iter().any(|it| name.starts_with(it));
        if is_license && entry.file_type()?.is_file() {
            let bytes = fs::read(entry.path())?;
            let text = String::from_utf8_lossy(&bytes);
            let lines: Vec<&str> = text.trim().lines().map(str::trim_end).collect();
            texts.push(lines.join("\n"));
        }
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dist::crates::in_binary;
    use crate::dist::release::Platform;

    #[test]
    fn licences_are_passed_on() {
        let crates = in_binary(Platform::named(None).unwrap()).unwrap();
        let notices = notices(&crates).unwrap();
        assert!(notices.contains("\nserde 1."));
        assert!(notices.contains("Permission is hereby granted, free of charge"));
        assert!(!notices.contains("\nah-store"));
    }
}
