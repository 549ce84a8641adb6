//! Who commits, for commands that see no settings of git.

use std::fs;
use std::path::Path;

/// Returns git's user name and e-mail address. Git's own settings are in the home directory, which commands do not see.
pub(super) fn git_identity(home: &Path) -> Option<(String, String)> {
    let places = [".gitconfig", ".config/git/config"];
    let text = places
        .iter()
        .find_map(|place| fs::read_to_string(home.join(place)).ok())?;
    let lines = text.lines().map(str::trim);
    let section = lines
        .skip_while(|line| !line.eq_ignore_ascii_case("[user]"))
        .skip(1);
    let pairs: Vec<_> = section
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split_once('='))
        .map(|(key, value)| {
            (
                key.trim().to_ascii_lowercase(),
                value.trim().trim_matches('"').to_owned(),
            )
        })
        .collect();
    let value = |key| {
        pairs
            .iter()
            .find(|(known, _)| known == key)
            .map(|(_, value)| value.clone())
    };
    Some((value("name")?, value("email")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_commits_is_read_as_git_writes_it() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(git_identity(home.path()), None);
        let text = "[core]\n\teditor = vi\n[user]\n\tname = A B\n\temail = \"a@b.example\"\n[alias]\n\tname = x\n";
        fs::write(home.path().join(".gitconfig"), text).unwrap();
        assert_eq!(
            git_identity(home.path()),
            Some(("A B".to_owned(), "a@b.example".to_owned()))
        );
    }
}
