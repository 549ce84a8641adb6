//! The wheel, a package for Python that puts the program beside Python's own. No Python runs when the program does.

use std::fmt::Write as _;

use anyhow::{Result, bail};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

use super::archive::{Entry, zip};
use super::notices::NOTICES;
use super::release::{Platform, Release};

/// Name on PyPI. A wheel's file names have an underscore in place of the hyphen.
const NAME: &str = "ah-agent";
const LICENSES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

/// Returns the wheel for a platform, and its file name. `notices` are the licences of what is in it.
pub fn wheel(
    release: &Release,
    platform: Platform,
    binary: &[u8],
    notices: Entry,
) -> Result<(String, Vec<u8>)> {
    let version = python_version(&release.version)?;
    let stem = format!("{}-{version}", NAME.replace('-', "_"));
    let information = format!("{stem}.dist-info");
    let mut entries = vec![
        Entry::program(format!("{stem}.data/scripts/ah"), binary),
        Entry::file(
            format!("{information}/METADATA"),
            metadata(release, &version),
        ),
        Entry::file(format!("{information}/WHEEL"), tags(platform)),
    ];
    let mut licenses = vec![notices];
    for license in LICENSES {
        licenses.push(Entry::of_repository(license)?);
    }
    let folder = format!("{information}/licenses");
    entries.extend(licenses.into_iter().map(|it| it.within(&folder)));
    let record = format!("{information}/RECORD");
    let list = list(&entries, &record);
    entries.push(Entry::file(record, list));
    let file = format!("{stem}-py3-none-{}.whl", platform.wheel_tags());
    Ok((file, zip(&entries)?))
}

fn metadata(release: &Release, version: &str) -> String {
    let Release {
        description,
        license,
        repository,
        ..
    } = release;
    let mut text = format!(
        "Metadata-Version: 2.4\nName: {NAME}\nVersion: {version}\nSummary: {description}\nLicense-Expression: {license}\n"
    );
    for license in LICENSES.into_iter().chain([NOTICES]) {
        let _ = writeln!(text, "License-File: {license}");
    }
    let _ = write!(
        text,
        "Project-URL: Source, {repository}\n\
         Project-URL: Changelog, {repository}/blob/main/CHANGELOG.md\n\
         Classifier: Environment :: Console\n\
         Classifier: Operating System :: POSIX :: Linux\n\
         Requires-Python: >=3.8\n\
         Description-Content-Type: text/markdown\n\
         \n\
         # ah\n\n{description}, for Linux. It needs no Python to run.\n\n\
         ```\nuvx --from {NAME} ah demo\n```\n\n{repository} says more.\n"
    );
    text
}

fn tags(platform: Platform) -> String {
    let mut text =
        "Wheel-Version: 1.0\nGenerator: cargo xtask dist\nRoot-Is-Purelib: false\n".to_owned();
    for tag in platform.wheel_tags().split('.') {
        let _ = writeln!(text, "Tag: py3-none-{tag}");
    }
    text
}

/// Returns the list of all files with their checksums, which itself has none.
fn list(entries: &[Entry], itself: &str) -> String {
    let mut text = String::new();
    for Entry { path, bytes, .. } in entries {
        let hash = URL_SAFE_NO_PAD.encode(Sha256::digest(bytes));
        let _ = writeln!(text, "{path},sha256={hash},{}", bytes.len());
    }
    text + itself + ",,\n"
}

/// Returns a version in Python's form: `0.2.0-rc.1` is `0.2.0rc1` there.
fn python_version(version: &str) -> Result<String> {
    let Some((base, phase)) = version.split_once('-') else {
        return Ok(version.to_owned());
    };
    let (word, number) = phase.split_once('.').unwrap_or((phase, "0"));
    let letters = match word {
        "alpha" => "a",
        "beta" => "b",
        "rc" => "rc",
        _ => bail!("Python has no version like `{version}`; use alpha.N, beta.N or rc.N"),
    };
    if number.parse::<u32>().is_err() {
        bail!("Python has no version like `{version}`: `{number}` is no number");
    }
    Ok(format!("{base}{letters}{number}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_in_pythons_form() {
        let cases = [
            ("0.1.0", Some("0.1.0")),
            ("1.2.0-rc.1", Some("1.2.0rc1")),
            ("1.2.0-beta", Some("1.2.0b0")),
            ("1.2.0-nightly.3", None),
            ("1.2.0-rc.x", None),
        ];
        for (version, expected) in cases {
            assert_eq!(
                python_version(version).ok().as_deref(),
                expected,
                "{version}"
            );
        }
    }

    #[test]
    fn the_list_names_each_file_with_its_checksum() {
        let list = list(&[Entry::file("a", "")], "x/RECORD");
        assert_eq!(
            list,
            "a,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\nx/RECORD,,\n"
        );
    }
}
