//! Stores lasting permissions in a settings file: rules, a mode, a directory. Everything else in the file keeps its
//! content and order; the file is replaced atomically.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use ah_beneath::Folder;
use ah_conversation::{
    Behavior, Destination, HostPermission, Interface, PermissionUpdate, Rule, RuleValue, Rulebook,
    json,
};
use ah_replace::{Content, FurtherNames, Replacement};
use serde_json::{Map, Value, json};

use crate::config::Config;
use crate::places;

/// The settings files for rules.
#[derive(Debug, Clone)]
pub struct SettingsFiles {
    user: Option<PathBuf>,
    project: PathBuf,
    local: Option<PathBuf>,
    /// The user's own for this project.
    own: Option<PathBuf>,
    /// Top of the project.
    root: PathBuf,
}

impl SettingsFiles {
    /// Returns those of the interface: our own, or those of the agent that the program replaces.
    pub fn of(config: &Config) -> Self {
        let (user, folder) = match config.interface {
            Interface::Native => (&config.home, ".ah"),
            Interface::AgentSdk => (&config.foreign_home, ".claude"),
        };
        let folder = config.environment.cwd().join(folder);
        let home = config.home.as_deref();
        let (environment, root) = (&config.environment, &config.project_root);
        let own = home.map(|home| places::own_settings(home, environment, root));
        Self {
            user: user.as_ref().map(|home| home.join("settings.json")),
            project: folder.join("settings.json"),
            // What an untrusted project allows does not count, so it is kept where only the user writes.
            local: if config.trust.is_given() {
                Some(folder.join("settings.local.json"))
            } else {
                own.clone()
            },
            own,
            root: root.clone(),
        }
    }

    /// Returns the file for `destination`; `None` for the session, or without a home directory.
    pub fn path(&self, destination: Destination) -> Option<&Path> {
        match destination {
            Destination::UserSettings => self.user.as_deref(),
            Destination::ProjectSettings => Some(&self.project),
            Destination::LocalSettings => self.local.as_deref(),
            Destination::Session => None,
        }
    }

    /// Changes the settings in a file. One that a project brings along stays in the project.
    pub(crate) fn rewrite(
        &self,
        path: &Path,
        change: impl FnOnce(&mut Map<String, Value>) -> io::Result<()>,
    ) -> io::Result<()> {
        let is_users = [&self.user, &self.own].contains(&&Some(path.to_owned()));
        let is_of_project = !is_users && path.starts_with(&self.root);
        rewrite_in(path, is_of_project.then_some(&*self.root), change)
    }

    /// Returns the destination that the file `path` is for.
    pub fn destination(&self, path: &Path) -> Option<Destination> {
        let settings = [
            Destination::UserSettings,
            Destination::ProjectSettings,
            Destination::LocalSettings,
        ];
        settings
            .into_iter()
            .find(|destination| self.path(*destination) == Some(path))
    }
}

impl SettingsFiles {
    /// Allows a host for confined commands in the user's settings for the project, or for all; `key` is `allowHosts` or
    /// `allowHttp`. The project's own files cannot allow hosts.
    ///
    /// # Errors
    ///
    /// If the file cannot be written; the text says why.
    pub fn allow_host(
        &self,
        key: &str,
        host: &str,
        permission: HostPermission,
    ) -> Result<(), String> {
        let path = match permission {
            HostPermission::Always => &self.user,
            _ => &self.own,
        };
        let Some(path) = path else {
            return Err("there is no home directory".to_owned());
        };
        let kept = rewrite(path, |settings| {
            let hosts = list(object(settings, "sandbox")?, key)?;
            add(hosts, vec![json!(host)]);
            Ok(())
        });
        kept.map_err(|error| format!("cannot write `{}`: {error}", path.display()))
    }
}

impl Rulebook for SettingsFiles {
    fn save(&self, update: &PermissionUpdate) -> Result<(), String> {
        let Some(path) = self.path(update.destination()) else {
            return Err("there is no home directory".to_owned());
        };
        let kept = self.rewrite(path, |settings| {
            apply(object(settings, "permissions")?, update)
        });
        kept.map_err(|error| format!("cannot write `{}`: {error}", path.display()))
    }
}

/// Changes the settings in a file of the user's.
pub(crate) fn rewrite(
    path: &Path,
    change: impl FnOnce(&mut Map<String, Value>) -> io::Result<()>,
) -> io::Result<()> {
    rewrite_in(path, None, change)
}

fn rewrite_in(
    path: &Path,
    project: Option<&Path>,
    change: impl FnOnce(&mut Map<String, Value>) -> io::Result<()>,
) -> io::Result<()> {
    let text = match crate::found_file::named(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error),
    };
    let mut settings: Map<String, Value> = match text.trim() {
        "" => Map::new(),
        text => json::from_str(text)?,
    };
    change(&mut settings)?;
    let mut text = serde_json::to_vec_pretty(&settings)?;
    text.push(b'\n');
    let target = target(path, project)?;
    // No link is followed from here on.
    let (folder, name) = Folder::around(&target)?;
    let is_new = folder.status(name)?.is_none();
    let draft = format!(".settings-{}.tmp", std::process::id());
    let replacement = Replacement {
        folder: &folder,
        name,
        content: Content::Bytes(&text),
        mode: is_new.then_some(0o600),
        draft: draft.as_ref(),
        names: FurtherNames::Part,
    };
    replacement.perform(|| Ok(()))
}

/// Returns the path to write for a settings file, without links: one is kept, and its target is replaced. The folder around
/// is made. A link may lead out of the project only if the file is none of a project.
fn target(path: &Path, project: Option<&Path>) -> io::Result<PathBuf> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let is_within =
        |real: &Path| project.is_none_or(|project| real.starts_with(crate::layout::real(project)));
    let refused = || {
        io::Error::other(
            "a symbolic link in its path leads out of the project; replace the link by a file",
        )
    };
    let nearest = folder
        .ancestors()
        .find_map(|above| fs::canonicalize(above).ok());
    if !nearest.is_some_and(|nearest| is_within(&nearest)) {
        return Err(refused());
    }
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    let target = match (fs::canonicalize(path), path.file_name()) {
        (Err(error), Some(name)) if error.kind() == io::ErrorKind::NotFound => {
            fs::canonicalize(folder)?.join(name)
        }
        (found, _) => found?,
    };
    match is_within(&target) {
        true => Ok(target),
        false => Err(refused()),
    }
}

pub(crate) fn object<'a>(
    settings: &'a mut Map<String, Value>,
    key: &str,
) -> io::Result<&'a mut Map<String, Value>> {
    let value = settings.entry(key).or_insert_with(|| json!({}));
    let failed = || io::Error::other(format!("`{key}` is not an object"));
    value.as_object_mut().ok_or_else(failed)
}

fn apply(permissions: &mut Map<String, Value>, update: &PermissionUpdate) -> io::Result<()> {
    let key = |behavior: Behavior| match behavior {
        Behavior::Allow => "allow",
        Behavior::Deny => "deny",
        Behavior::Ask => "ask",
    };
    let rules = |rules: &[RuleValue]| {
        rules
            .iter()
            .map(|rule| json!(rule.to_string()))
            .collect::<Vec<_>>()
    };
    let paths = |paths: &[PathBuf]| paths.iter().map(|path| json!(path)).collect::<Vec<_>>();
    match update {
        PermissionUpdate::AddRules {
            rules: added,
            behavior,
            ..
        } => {
            add(list(permissions, key(*behavior))?, rules(added));
        }
        PermissionUpdate::ReplaceRules {
            rules: those,
            behavior,
            ..
        } => {
            *list(permissions, key(*behavior))? = rules(those);
        }
        PermissionUpdate::RemoveRules {
            rules: gone,
            behavior,
            ..
        } => {
            let is_gone = |rule: &Value| {
                let says = |text: &str| gone.iter().any(|gone| is_same(text, &gone.to_string()));
                rule.as_str().is_some_and(says)
            };
            list(permissions, key(*behavior))?.retain(|rule| !is_gone(rule));
        }
        PermissionUpdate::SetMode { mode, .. } => {
            permissions.insert("defaultMode".to_owned(), json!(mode.as_str()));
        }
        PermissionUpdate::AddDirectories { directories, .. } => {
            add(
                list(permissions, "additionalDirectories")?,
                paths(directories),
            );
        }
        PermissionUpdate::RemoveDirectories { directories, .. } => {
            let gone = paths(directories);
            list(permissions, "additionalDirectories")?.retain(|folder| !gone.contains(folder));
        }
    }
    Ok(())
}

/// Whether two texts are one rule, which can be written in several ways: `Bash` is `bash(*)`.
fn is_same(one: &str, other: &str) -> bool {
    match (one.parse::<Rule>(), other.parse::<Rule>()) {
        (Ok(one), Ok(other)) => one.says_the_same(&other),
        _ => one == other,
    }
}

fn add(list: &mut Vec<Value>, new: Vec<Value>) {
    for value in new {
        if !list.contains(&value) {
            list.push(value);
        }
    }
}

fn list<'a>(object: &'a mut Map<String, Value>, key: &str) -> io::Result<&'a mut Vec<Value>> {
    let list = object.entry(key).or_insert_with(|| json!([]));
    let failed = || io::Error::other(format!("`{key}` is not a list"));
    list.as_array_mut().ok_or_else(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(value: Value) -> PermissionUpdate {
        serde_json::from_value(value).unwrap()
    }

    /// A lasting rule is added where it belongs, and the rest of the file stays in order.
    #[test]
    fn a_rule_is_added_and_all_else_stays_in_its_order() {
        let folder = tempfile::tempdir().unwrap();
        let local = folder.path().join("p/settings.local.json");
        let files = SettingsFiles {
            user: Some(folder.path().join("home/settings.json")),
            project: folder.path().join("p/settings.json"),
            local: Some(local.clone()),
            own: None,
            root: folder.path().to_owned(),
        };
        fs::create_dir(folder.path().join("p")).unwrap();
        fs::write(
            &local,
            r#"{"z": 1, "permissions": {"deny": ["X"], "allow": ["B"]}, "a": [2, 1]}"#,
        )
        .unwrap();
        let rule = json!([{"toolName": "Bash", "ruleContent": "make:*"}, {"toolName": "B"}]);
        for (destination, path, expected) in [
            (
                "localSettings",
                &local,
                json!({"z": 1, "permissions": {"deny": ["X"], "allow": ["B", "Bash(make:*)"]}, "a": [2, 1]}),
            ),
            (
                "projectSettings",
                &files.project,
                json!({"permissions": {"allow": ["Bash(make:*)", "B"]}}),
            ),
            (
                "userSettings",
                files.user.as_ref().unwrap(),
                json!({"permissions": {"allow": ["Bash(make:*)", "B"]}}),
            ),
        ] {
            let update = update(json!({
                "type": "addRules", "rules": rule, "behavior": "allow", "destination": destination
            }));
            files.save(&update).unwrap();
            files.save(&update).unwrap();
            let text = fs::read_to_string(path).unwrap();
            let kept: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(kept.to_string(), expected.to_string(), "{destination}");
        }
        for (change, expected) in [
            (
                json!({"type": "removeRules", "rules": [{"toolName": "B"}], "behavior": "allow"}),
                r#"{"allow":["Bash(make:*)"]}"#,
            ),
            (
                json!({"type": "setMode", "mode": "plan"}),
                r#"{"allow":["Bash(make:*)"],"defaultMode":"plan"}"#,
            ),
            (
                json!({"type": "addDirectories", "directories": ["/d"]}),
                r#"{"allow":["Bash(make:*)"],"defaultMode":"plan","additionalDirectories":["/d"]}"#,
            ),
        ] {
            let mut change = change;
            change["destination"] = json!("projectSettings");
            files.save(&update(change)).unwrap();
            let text = fs::read_to_string(&files.project).unwrap();
            let kept: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(kept["permissions"].to_string(), expected);
        }
    }

    /// A link within the project is kept, and so is one of the user's own, wherever it leads.
    #[test]
    fn nothing_is_written_through_a_link_out_of_the_project() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        let rule = update(json!({
            "type": "addRules", "rules": [{"toolName": "B"}], "behavior": "allow",
            "destination": "localSettings"
        }));
        let links = [
            (".ah/settings.local.json", "../inside.json", true),
            (
                ".ah/settings.local.json",
                "../../elsewhere/theirs.json",
                false,
            ),
            (
                ".ah/settings.local.json",
                "../../elsewhere/missing.json",
                true,
            ),
            (".ah", "shared", true),
            (".ah", "../elsewhere", false),
            (".ah", "../elsewhere/missing", false),
        ];
        for (number, (link, target, is_written)) in links.into_iter().enumerate() {
            let around = root.join(number.to_string());
            let project = around.join("p");
            for folder in ["p/shared", "p/.ah", "elsewhere"] {
                fs::create_dir_all(around.join(folder)).unwrap();
            }
            for name in [
                "p/inside.json",
                "elsewhere/theirs.json",
                "elsewhere/settings.local.json",
            ] {
                fs::write(around.join(name), "{}").unwrap();
            }
            if link == ".ah" {
                fs::remove_dir(project.join(link)).unwrap();
            }
            std::os::unix::fs::symlink(target, project.join(link)).unwrap();
            let local = project.join(".ah/settings.local.json");
            let files = SettingsFiles {
                user: None,
                project: project.join(".ah/settings.json"),
                local: Some(local.clone()),
                own: None,
                root: project.clone(),
            };
            let saved = files.save(&rule);
            assert_eq!(saved.is_ok(), is_written, "{link} -> {target}: {saved:?}");
            let names = fs::read_dir(around.join("elsewhere")).unwrap();
            assert_eq!(names.count(), 2, "{link} -> {target}");
            for name in ["theirs.json", "settings.local.json"] {
                let text = fs::read_to_string(around.join("elsewhere").join(name));
                assert_eq!(text.unwrap(), "{}", "{link} -> {target}");
            }
            if is_written {
                assert!(fs::read_to_string(&local).unwrap().contains("\"B\""));
            }
            // What is the user's may be kept anywhere.
            let own = SettingsFiles {
                own: Some(local),
                ..files
            };
            if target.ends_with("theirs.json") {
                own.save(&rule).unwrap();
                let text = fs::read_to_string(around.join("elsewhere/theirs.json")).unwrap();
                assert!(text.contains("\"B\""));
            }
        }
    }

    #[test]
    fn a_rule_is_removed_however_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("settings.json");
        let files = SettingsFiles {
            user: None,
            project: path.clone(),
            local: None,
            own: None,
            root: folder.path().to_owned(),
        };
        for (written, gone, is_left) in [
            ("Bash(*)", json!({"toolName": "Bash"}), false),
            ("Bash()", json!({"toolName": "Bash"}), false),
            (" bash(:*) ", json!({"toolName": "Bash"}), false),
            (
                "Bash",
                json!({"toolName": "Bash", "ruleContent": "*"}),
                false,
            ),
            (
                "bash(make:*)",
                json!({"toolName": "Bash", "ruleContent": "make:*"}),
                false,
            ),
            ("Bash(make)", json!({"toolName": "Bash"}), true),
            (
                "Bash(Make)",
                json!({"toolName": "Bash", "ruleContent": "make"}),
                true,
            ),
            ("Bash(", json!({"toolName": "Bash"}), true),
        ] {
            let text = json!({"permissions": {"allow": [written, "Z", 1]}}).to_string();
            fs::write(&path, text).unwrap();
            let removal = json!({
                "type": "removeRules", "rules": [gone], "behavior": "allow", "destination": "projectSettings"
            });
            files.save(&update(removal)).unwrap();
            let kept: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
            let expected = match is_left {
                true => json!([written, "Z", 1]),
                false => json!(["Z", 1]),
            };
            assert_eq!(kept["permissions"]["allow"], expected, "{written}");
        }
    }

    #[test]
    fn a_file_that_is_not_understood_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("settings.json");
        let files = SettingsFiles {
            user: None,
            project: path.clone(),
            local: None,
            own: None,
            root: folder.path().to_owned(),
        };
        let update = update(json!({
            "type": "addRules", "rules": [{"toolName": "B"}], "behavior": "allow", "destination": "projectSettings"
        }));
        for text in [
            "{",
            "[]",
            r#"{"permissions": 1}"#,
            r#"{"permissions": {"allow": "B"}}"#,
        ] {
            fs::write(&path, text).unwrap();
            assert!(files.save(&update).is_err(), "{text}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }
}
