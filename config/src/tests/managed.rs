//! Settings of an administrator: nothing overrides them.

use std::fs;

use ah_conversation::{Effort, Interface, PermissionMode};

use super::{World, inline_settings, overrides};
use crate::layers::{Folders, Given, SettingsSource, Sources, read};
use crate::overrides::SandboxChoice;
use crate::{Config, Origin, Overrides, parse_rules};

const MANAGED: &str = r#"{
    "model": "haiku", "effort": "low", "maxThinkingTokens": 7, "env": {"COLOUR": "grey"},
    "permissions": {"deny": ["Bash(curl:*)"], "defaultMode": "plan", "disableBypassPermissionsMode": "disable"},
    "sandbox": {"enabled": true}
}"#;

fn resolved(managed: &str, set: impl FnOnce(&mut Overrides)) -> Result<Config, String> {
    let users = r#"{"model": "opus", "effort": "high", "permissions": {"allow": ["Bash"]}}"#;
    let world = World::new(&[(".ah/settings.json", users)])
        .with("AH_MODEL", "sonnet")
        .with("MAX_THINKING_TOKENS", "9")
        .with("COLOUR", "red");
    let options = overrides(|overrides| {
        overrides.managed_settings = Some(inline_settings(managed));
        set(overrides);
    });
    let config = world.resolve("project", &options, Interface::Native);
    config.map_err(|error| error.to_string())
}

#[test]
fn nothing_overrides_what_an_administrator_has_set() {
    let config = resolved(MANAGED, |overrides| {
        overrides.model = Some("opus".to_owned());
        overrides.effort = Some(Effort::High);
        overrides.max_thinking_tokens = Some(8);
        overrides.permission_mode = Some(PermissionMode::BypassPermissions);
        overrides.may_bypass = true;
        overrides.settings = Some(inline_settings(r#"{"model": "opus", "effort": "high"}"#));
        overrides.allow = parse_rules(&["Bash(curl:*)".to_owned()]).unwrap();
        overrides.run.sandbox.wanted = Some(SandboxChoice::Off);
    });
    let config = config.unwrap();
    assert_eq!(config.model.value, "haiku");
    assert_eq!(config.model.origin, Origin::Managed(None));
    assert_eq!(config.requests.effort.as_ref().unwrap().value, Effort::Low);
    assert_eq!(
        config.requests.max_thinking_tokens.as_ref().unwrap().value,
        7
    );
    assert_eq!(config.permission_mode.value, PermissionMode::Plan);
    assert!(!config.may_bypass);
    assert_eq!(config.environment.get("COLOUR"), Some("grey"));
    assert_eq!(config.run.sandbox.wanted, None);
    let warning = "`--no-sandbox` is ignored: --managed-settings turns the sandbox on";
    assert!(config.warnings.iter().any(|text| text == warning));
    assert_eq!(config.deny[0].value.to_string(), "Bash(curl:*)");
    // What it does not set is as ever.
    assert_eq!(config.allow.len(), 2);
}

#[test]
fn an_administrator_forbids_to_bypass_permissions() {
    let managed = r#"{"permissions": {"disableBypassPermissionsMode": "disable"}}"#;
    let error = resolved(managed, |overrides| {
        overrides.permission_mode = Some(PermissionMode::BypassPermissions);
    });
    let text = "permissions cannot be bypassed: --managed-settings forbids it";
    assert_eq!(error.unwrap_err(), text);
}

#[test]
fn the_first_file_of_an_administrator_replaces_what_a_host_hands_over() {
    let folder = tempfile::tempdir().unwrap();
    let [absent, ours, other] = ["absent", "ours", "other"].map(|name| folder.path().join(name));
    fs::write(&ours, r#"{"model": "ours", "includeCoAuthoredBy": false}"#).unwrap();
    fs::write(&other, r#"{"model": "other"}"#).unwrap();
    let handed: SettingsSource = inline_settings(r#"{"model": "handed"}"#);
    let managed = |files: &[&std::path::PathBuf]| {
        let folders = Folders {
            own: None,
            project: Vec::new(),
            home: None,
            foreign_home: None,
            managed: files.iter().map(|path| (*path).clone()).collect(),
        };
        let given = Given {
            managed: Some(&handed),
            ..Given::default()
        };
        let found = read(&folders, Sources::NONE, given);
        assert_eq!(found.warnings, Vec::<String>::new());
        let models = found.layers.into_iter().map(|layer| layer.settings.model);
        (models.flatten().collect::<Vec<_>>(), found.errors.len())
    };
    assert_eq!(
        managed(&[&absent, &ours, &other]),
        (vec!["ours".to_owned()], 0)
    );
    assert_eq!(managed(&[&absent]), (vec!["handed".to_owned()], 0));
    // One that cannot be read is not the same as none.
    fs::write(&ours, "{").unwrap();
    assert_eq!(managed(&[&ours, &other]), (Vec::new(), 1));
}
