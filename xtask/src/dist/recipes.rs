//! The Homebrew formula and the Containerfile: they fetch the archives, and so contain their addresses and checksums.

use anyhow::{Context, Result, bail};

use super::release::{PLATFORMS, Platform, Release};
use crate::workspace::root;

/// The texts, with gaps.
const FOLDER: &str = "contrib/packages";
/// Files in it that describe how to install the archives.
const RECIPES: [&str; 2] = ["Containerfile", "ah.rb"];
const OPENING: &str = "{{";
const CLOSING: &str = "}}";

/// Returns the names and contents of all recipes. `checksum` returns that of a platform's archive.
///
/// # Errors
/// If a recipe cannot be read, or has a gap that nothing fills, such as the checksum of a platform that was not built.
pub fn recipes(
    release: &Release,
    checksum: impl Fn(Platform) -> Option<String>,
) -> Result<Vec<(&'static str, String)>> {
    let recipe = |name: &'static str| {
        let path = root().join(FOLDER).join(name);
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("reading {}", path.display()))?;
        let text = filled(&text, |gap| value(gap, release, &checksum))
            .with_context(|| format!("writing {name}"))?;
        Ok((name, text))
    };
    RECIPES.into_iter().map(recipe).collect()
}

fn value(
    gap: &str,
    release: &Release,
    checksum: impl Fn(Platform) -> Option<String>,
) -> Option<String> {
    let platform = |architecture: &str| {
        let mut platforms = PLATFORMS.into_iter();
        platforms.find(|platform| platform.architecture == architecture)
    };
    match gap.split_once(' ') {
        None => match gap {
            "version" => Some(release.version.clone()),
            "description" => Some(release.description.clone()),
            "license" => Some(release.license.clone()),
            "repository" => Some(release.repository.clone()),
            _ => None,
        },
        Some(("sha256", architecture)) => checksum(platform(architecture)?),
        Some(("address", architecture)) => {
            let file = format!("{}.tar.gz", release.name(platform(architecture)?));
            Some(release.address(&file))
        }
        Some(_) => None,
    }
}

/// Fills the gaps, such as `{{version}}`.
fn filled(text: &str, value: impl Fn(&str) -> Option<String>) -> Result<String> {
    let mut pieces = text.split(OPENING);
    let mut filled = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let Some((gap, rest)) = piece.split_once(CLOSING) else {
            bail!("`{OPENING}` without `{CLOSING}`");
        };
        filled += &value(gap).with_context(|| format!("there is no `{gap}`"))?;
        filled += rest;
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_filled_or_named() {
        let value = |gap: &str| (gap == "version").then(|| "1.2.3".to_owned());
        assert_eq!(
            filled("v{{version}} and {{version}}.", value).unwrap(),
            "v1.2.3 and 1.2.3."
        );
        let error = filled("{{other}}", value).unwrap_err();
        assert_eq!(error.to_string(), "there is no `other`");
        assert!(filled("{{version", value).is_err());
    }

    #[test]
    fn every_recipe_can_be_written() {
        let release = Release {
            version: "1.2.3".to_owned(),
            description: "A program".to_owned(),
            license: "MIT".to_owned(),
            repository: "https://example.com/ah".to_owned(),
            time: 0,
        };
        let sum = |platform: Platform| Some(format!("sum of {}", platform.architecture));
        for (name, text) in recipes(&release, sum).unwrap() {
            assert!(text.contains("sum of aarch64"), "{name}: {text}");
            let address = "https://example.com/ah/releases/download/v1.2.3/\
                           ah-1.2.3-x86_64-unknown-linux-musl.tar.gz";
            assert!(text.contains(address), "{name}: {text}");
        }
        let error = recipes(&release, |_| None).unwrap_err();
        assert_eq!(
            format!("{error:#}"),
            "writing Containerfile: there is no `sha256 x86_64`"
        );
    }
}
