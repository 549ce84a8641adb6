//! Names of folders that keep something of a project from run to run, such as the home directories of its servers.

use std::path::Path;

use sha2::{Digest as _, Sha256};

/// Longest part of a server's name in the name of its folder, in bytes.
const LONGEST: usize = 64;

/// Returns the name of a server's folder. Servers of two projects, or of a project and the user, never share one: a
/// project could give its server the name of another, and read what that one keeps.
pub fn folder_name(server: &str, project: Option<&Path>) -> String {
    let plain = |c: char| match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' => c,
        _ => '_',
    };
    let mut name: String = server.chars().map(plain).take(LONGEST).collect();
    if project.is_some() || name != server {
        let project = project.unwrap_or(Path::new("")).as_os_str();
        let hash = Sha256::new()
            .chain_update(server)
            .chain_update([0])
            .chain_update(project.as_encoded_bytes())
            .finalize();
        // No server of the user's has it in its name here.
        name.push('@');
        let digits = hash.iter().take(4).map(|byte| format!("{byte:02x}"));
        name.extend(digits);
    }
    name
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_server_has_a_folder_of_its_own() {
        let long = "x".repeat(300);
        let names = [
            "files",
            "my files",
            "my/files",
            "..",
            "",
            "plugin:a:b",
            &long,
        ];
        let projects = [None, Some(Path::new("/a")), Some(Path::new("/b"))];
        let all = names
            .iter()
            .flat_map(|name| projects.map(|project| folder_name(name, project)));
        let all: Vec<_> = all.collect();
        let different: BTreeSet<_> = all.iter().collect();
        assert_eq!(different.len(), names.len() * projects.len(), "{all:?}");
        assert_eq!(all[0], "files");
        for name in &all[1..] {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '@');
            assert!(name.len() < 80 && name.chars().all(is_plain), "{name}");
        }
        // A user's server cannot have the folder of a project's one, whatever its name.
        let own = folder_name(&all[1], None);
        assert_ne!(all[1], own);
    }
}
