//! Sources of marketplaces and plugins, as typed or as a marketplace names them. Both are checked before git sees them:
//! a URL may otherwise name a program to run. Pure, but for the question whether a folder exists.

use std::path::{Component, Path, PathBuf};

use ah_git::is_repository;
use serde_json::Value;

/// A place that files come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A folder of this machine.
    Folder(PathBuf),
    /// A git repository.
    Git(GitSource),
}

/// A git repository, or a folder in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GitSource {
    /// Address: HTTPS or SSH; of repositories that the user has typed also HTTP and `file://`.
    pub url: String,
    /// Branch or tag; `None` for the default branch.
    pub reference: Option<String>,
    /// The commit to take in any case.
    pub commit: Option<String>,
    /// The folder in it; `None` for all of it.
    pub folder: Option<PathBuf>,
}

/// Parses a source that the user has typed: a folder, a URL of a git repository, `git@HOST:PATH`, or `OWNER/NAME` of
/// GitHub. `#REF` behind the last three names a branch or tag.
///
/// # Errors
///
/// If it is none of these. The text says why.
pub fn parse(typed: &str, cwd: &Path, home: Option<&Path>) -> Result<Source, String> {
    let folder = match (typed.strip_prefix("~/"), home) {
        (Some(below), Some(home)) => home.join(below),
        _ => cwd.join(typed),
    };
    let is_path = typed == "."
        || typed == ".."
        || ["./", "../", "/", "~/"]
            .iter()
            .any(|start| typed.starts_with(start));
    if is_path {
        return if folder.is_dir() {
            Ok(Source::Folder(folder))
        } else {
            Err(format!("`{typed}` is not a folder"))
        };
    }
    let (address, reference) = match typed.split_once('#') {
        Some((address, reference)) => (address, Some(reference)),
        None => match typed.split_once('@') {
            Some((name, reference)) if is_repository(name) => (name, Some(reference)),
            _ => (typed, None),
        },
    };
    if let Some(reference) = reference {
        check_reference(reference)?;
    }
    let git = |url: String| {
        Source::Git(GitSource {
            url,
            reference: reference.map(str::to_owned),
            ..GitSource::default()
        })
    };
    if is_repository(address) {
        return Ok(git(github(address)));
    }
    if address.ends_with(".json") {
        return Err(
            "ah reads marketplaces from folders and git repositories, not single files".to_owned(),
        );
    }
    check_url(address, true)?;
    Ok(git(address.to_owned()))
}

/// Returns the source of a plugin in a marketplace. `folder` is the marketplace's, `base` the folder in it for names
/// without a path; `is_local` tells whether the marketplace is a folder that the user has typed.
///
/// # Errors
///
/// If it cannot be used. The text says why.
pub fn of_entry(
    source: &Value,
    folder: &Path,
    base: Option<&str>,
    is_local: bool,
) -> Result<Source, String> {
    if let Value::String(path) = source {
        let below = match base {
            Some(base) if !path.starts_with("./") => Path::new(base).join(path),
            _ => PathBuf::from(path),
        };
        return Ok(Source::Folder(folder.join(inner(&below)?)));
    }
    let text = |key: &str| source[key].as_str().map(str::to_owned);
    let needed = |key: &str| text(key).ok_or_else(|| format!("its source has no `{key}`"));
    let reference = text("ref");
    if let Some(reference) = &reference {
        check_reference(reference)?;
    }
    let commit = text("sha");
    if let Some(commit) = commit.as_ref().filter(|commit| !is_commit(commit)) {
        return Err(format!("`{commit}` is not a commit"));
    }
    let kind = needed("source")?;
    let address = match &*kind {
        "github" => needed("repo")?,
        "url" | "git" | "git-subdir" => needed("url")?,
        other => {
            return Err(format!(
                "ah does not install plugins from `{other}`; it takes folders and git repositories"
            ));
        }
    };
    let url = if is_repository(&address) {
        github(&address)
    } else {
        check_url(&address, is_local)?;
        address
    };
    let folder = match text("path").filter(|_| kind == "git-subdir") {
        Some(path) => Some(inner(Path::new(&path))?),
        None => None,
    };
    Ok(Source::Git(GitSource {
        url,
        reference,
        commit,
        folder,
    }))
}

/// Returns a path below a folder, without `.`.
///
/// # Errors
///
/// If it may lead elsewhere.
pub fn inner(path: &Path) -> Result<PathBuf, String> {
    let mut inner = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::Normal(name) if name != ".git" => inner.push(name),
            Component::Normal(_)
            | Component::ParentDir
            | Component::RootDir
            | Component::Prefix(_) => {
                return Err(format!(
                    "the path `{}` is outside the marketplace",
                    path.display()
                ));
            }
        }
    }
    Ok(inner)
}

fn github(name: &str) -> String {
    let name = name.strip_suffix(".git").unwrap_or(name);
    format!("https://github.com/{name}.git")
}

/// Refuses what git would read as an option or run as a program, and what is sent unencrypted.
fn check_url(url: &str, is_typed: bool) -> Result<(), String> {
    let refused = |why: &str| {
        Err(format!(
            "`{}` is not used: {why}",
            ah_git::without_passwords(url)
        ))
    };
    if url.starts_with('-') || url.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return refused("it is not an address");
    }
    let rest = match url.split_once("://") {
        Some(("https" | "ssh", rest)) => rest,
        Some(("http" | "file", rest)) if is_typed => rest,
        Some(_) => return refused("only https:// and ssh:// are"),
        // `git@host:path`
        None => match url.split_once(':') {
            Some((host, path))
                if host.contains('@') && !path.starts_with(':') && !host.contains('/') =>
            {
                host
            }
            _ => {
                return refused(
                    "it is neither a folder (`./NAME`), a URL of a git repository, nor `OWNER/NAME` of GitHub",
                );
            }
        },
    };
    let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    if host.is_empty() || host.starts_with('-') || rest.starts_with('-') {
        return refused("it is not an address");
    }
    Ok(())
}

fn check_reference(reference: &str) -> Result<(), String> {
    let is_known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | '+');
    let is_plain = !reference.is_empty()
        && !reference.starts_with(['-', '/', '+', '.'])
        && !reference.contains("..")
        && reference.chars().all(is_known);
    if is_plain {
        Ok(())
    } else {
        Err(format!("`{reference}` is not a branch or tag"))
    }
}

fn is_commit(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_typed_source_is_a_folder_or_an_address_of_git() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("shop/a")).unwrap();
        let shown = |typed: &str| match parse(typed, folder.path(), None) {
            Ok(Source::Folder(path)) => {
                format!(
                    "folder {}",
                    path.strip_prefix(folder.path()).unwrap().display()
                )
            }
            Ok(Source::Git(git)) => {
                format!("{} {}", git.url, git.reference.unwrap_or_default())
            }
            Err(_) => "refused".to_owned(),
        };
        for (typed, expected) in [
            ("./shop", "folder shop"),
            ("./none", "refused"),
            // As for the original, a name with a slash is of GitHub.
            ("shop/a", "https://github.com/shop/a.git "),
            ("o/n@v1", "https://github.com/o/n.git v1"),
            ("o/n#main", "https://github.com/o/n.git main"),
            ("https://host/x.git#v2", "https://host/x.git v2"),
            ("git@host:o/n.git", "git@host:o/n.git "),
            ("file:///srv/x", "file:///srv/x "),
            ("ext::sh -c id", "refused"),
            ("ext::id", "refused"),
            ("--upload-pack=id", "refused"),
            ("ssh://-oProxyCommand=id/x", "refused"),
            ("ssh://a@-oProxyCommand=id/x", "refused"),
            ("-oProxyCommand=id@x:y", "refused"),
            ("git@-oProxyCommand=id:y", "refused"),
            ("https://host/a b", "refused"),
            ("o/n#--upload-pack=id", "refused"),
            ("o/n#a..b", "refused"),
            ("o/n#+refs/heads/a:b", "refused"),
            ("https://host/marketplace.json", "refused"),
            ("git://host/x", "refused"),
            ("o/..", "refused"),
            ("name", "refused"),
            ("", "refused"),
        ] {
            assert_eq!(shown(typed).trim_end(), expected.trim_end(), "{typed}");
        }
    }

    #[test]
    fn a_source_in_a_marketplace_leads_to_no_other_place() {
        let shown =
            |source: &Value| match of_entry(source, Path::new("/m"), Some("./plugins"), false) {
                Ok(Source::Folder(path)) => path.display().to_string(),
                Ok(Source::Git(git)) => {
                    let folder = git.folder.unwrap_or_default();
                    format!(
                        "{} {} {}",
                        git.url,
                        git.reference.unwrap_or_default(),
                        folder.display()
                    )
                }
                Err(_) => "refused".to_owned(),
            };
        for (source, expected) in [
            (json!("./a/b"), "/m/a/b"),
            (json!("a"), "/m/plugins/a"),
            (json!("./"), "/m"),
            (json!("../a"), "refused"),
            (json!("./a/../../b"), "refused"),
            (json!("/etc"), "refused"),
            (json!("./.git/hooks"), "refused"),
            (
                json!({"source": "github", "repo": "o/n", "ref": "v1"}),
                "https://github.com/o/n.git v1",
            ),
            (json!({"source": "github", "repo": "../n"}), "refused"),
            (json!({"source": "url", "url": "ext::id"}), "refused"),
            (json!({"source": "url", "url": "file:///etc"}), "refused"),
            (json!({"source": "url", "url": "http://host/x"}), "refused"),
            (
                json!({"source": "url", "url": "https://host/x", "sha": "--help"}),
                "refused",
            ),
            (
                json!({"source": "git-subdir", "url": "https://host/x", "path": "../y"}),
                "refused",
            ),
            (
                json!({"source": "git-subdir", "url": "o/n", "path": "tools/y"}),
                "https://github.com/o/n.git  tools/y",
            ),
            (json!({"source": "npm", "package": "x"}), "refused"),
            (json!({"source": "url"}), "refused"),
            (json!(7), "refused"),
        ] {
            let shown = shown(&source);
            assert_eq!(shown.trim_end().trim_end_matches('/'), expected, "{source}");
        }
    }
}
