//! The bill of materials: every crate in the binary, with version, licence and checksum, in the format CycloneDX 1.6.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use spdx::Expression;

use super::crates::Crate;
use super::release::Release;
use crate::workspace::COMMAND_LINE;

/// Returns the bill of materials of a binary that consists of `crates`.
pub fn bill(release: &Release, crates: &[Crate]) -> Result<String> {
    let binary = crates.iter().find(|it| it.name == COMMAND_LINE);
    let binary = binary.context("the crates lack the binary itself")?;
    let parts = crates.iter().filter(|it| it.name != COMMAND_LINE);
    let uses = |it: &Crate| json!({"ref": it.reference(), "dependsOn": it.uses});
    let time = jiff::Timestamp::from_second(release.time.try_into()?)?;
    let document = json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": time.to_string(),
            "component": {
                "type": "application",
                "bom-ref": binary.reference(),
                "name": "ah",
                "version": release.version,
                "description": release.description,
                "licenses": [{"expression": release.license}],
                "externalReferences": [{"type": "vcs", "url": release.repository}],
            },
        },
        "components": parts.map(component).collect::<Vec<_>>(),
        "dependencies": crates.iter().map(uses).collect::<Vec<_>>(),
    });
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

fn component(it: &Crate) -> Value {
    let mut component = json!({
        "type": "library",
        "bom-ref": it.reference(),
        "name": it.name,
        "version": it.version,
    });
    if let Some(license) = &it.license {
        let canonical = Expression::canonicalize(license).ok().flatten();
        let license = canonical.as_ref().unwrap_or(license);
        component["licenses"] = json!([{"expression": license}]);
    }
    if it.source.is_some() {
        component["purl"] = json!(it.reference());
    }
    if let Some(checksum) = &it.checksum {
        component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
    }
    component
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::dist::crates::in_binary;
    use crate::dist::release::Platform;

    #[test]
    fn the_bill_names_crates_with_licence_and_checksum_and_what_they_use() {
        let release = Release::of_checkout().unwrap();
        let crates = in_binary(Platform::named(None).unwrap()).unwrap();
        let bill: Value = serde_json::from_str(&bill(&release, &crates).unwrap()).unwrap();
        let components = bill["components"].as_array().unwrap();
        let serde = components.iter().find(|it| it["name"] == "serde").unwrap();
        assert_eq!(serde["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(serde["hashes"][0]["content"].as_str().unwrap().len(), 64);

        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let references: BTreeSet<String> = components
            .iter()
            .chain([&bill["metadata"]["component"]])
            .map(|it| text(&it["bom-ref"]))
            .collect();
        assert_eq!(references.len(), components.len() + 1);
        for it in bill["dependencies"].as_array().unwrap() {
            assert!(references.contains(&text(&it["ref"])), "{it}");
            for used in it["dependsOn"].as_array().unwrap() {
                assert!(references.contains(&text(used)), "{it}");
            }
        }
    }
}
