//! Plugins and marketplaces as text and JSON.

use ah_config::{Error, PluginParts};
use ah_plugins::{AddedMarketplace, Plugins, StagedPlugin};
use ah_terminal::line::{preview, whole};
use ah_terminal::note;
use serde_json::json;

use crate::args::json::Json;
use crate::commands::output::{print, print_json};

/// Returns the first digits of a commit or hash.
pub fn named(pin: &str) -> String {
    let (kind, digits) = match pin.strip_prefix("sha256:") {
        Some(digits) => ("files ", digits),
        None => ("", pin),
    };
    format!("{kind}{}", &digits[..digits.len().min(12)])
}

/// Returns what was added, and what it offers.
pub fn marketplace_added(added: &AddedMarketplace) -> String {
    let done = if added.was_there { "updated" } else { "added" };
    let pin = added.commit.as_deref().map(named);
    let pin = pin.map_or_else(String::new, |pin| format!(" at {pin}"));
    let offers = added.offers.iter().map(|(name, about)| {
        let line = format!("  {name}  {}", preview(about, 70));
        format!("{}\n", line.trim_end())
    });
    let offers: String = offers.collect();
    format!("{done} marketplace `{}`{pin}\n{offers}", added.name)
}

/// Returns what a plugin brings.
pub fn brought(staged: &StagedPlugin) -> String {
    let version = staged.version.as_deref();
    let version = version.map_or_else(String::new, |version| format!(" {}", preview(version, 20)));
    let mut text = format!("{}{version} at {}\n", staged.id, named(&staged.pin));
    let parts = &staged.parts;
    for (kind, names) in [
        ("commands", &parts.commands),
        ("skills", &parts.skills),
        ("agents", &parts.agents),
    ] {
        if !names.is_empty() {
            text.push_str(&format!("  {kind}: {}\n", whole(&names.join(", "))));
        }
    }
    text.push_str(&effects(parts));
    for line in parts.warnings.iter().chain(&staged.left_out) {
        text.push_str(&format!("  note: {}\n", whole(line)));
    }
    text
}

/// Returns what a plugin runs, allows and reads, an entry each. None is cut, and one of several lines stays so: the user agrees to
/// all of it, and a line break may end a comment.
pub fn effects(parts: &PluginParts) -> String {
    let mut text = String::new();
    for (heading, lines) in [
        ("runs programs", &parts.programs),
        ("allows without asking", &parts.allowed),
        ("reads files", &parts.files),
    ] {
        if !lines.is_empty() {
            let entries = lines.iter().map(|entry| {
                let rows: Vec<_> = entry.split('\n').map(whole).collect();
                format!("    {}\n", rows.join("\n        "))
            });
            text.push_str(&format!("  {heading}:\n{}", entries.collect::<String>()));
        }
    }
    text
}

/// Lists the installed plugins, and on request what the marketplaces offer.
pub fn list(plugins: &Plugins<'_>, available: bool, form: Json) -> Result<u8, Error> {
    let list = plugins.list()?;
    let mut offers = Vec::new();
    for (name, marketplace) in list.marketplaces.iter().filter(|_| available) {
        match plugins.offers(marketplace) {
            Ok(offered) => offers.extend(
                offered
                    .into_iter()
                    .map(|(plugin, about)| (format!("{plugin}@{name}"), about))
                    .filter(|(id, _)| !list.plugins.contains_key(id)),
            ),
            Err(error) => ah_terminal::warn(&format!("marketplace `{name}`: {}", error.message)),
        }
    }
    if form.json {
        let installed = list.plugins.iter().map(|(id, plugin)| {
            json!({
                "id": id,
                "version": plugin.version,
                "pin": plugin.pin,
                "scope": "user",
                "enabled": plugin.enabled,
                "runsPrograms": plugin.runs_programs,
                "installPath": plugin.folder,
            })
        });
        let installed = installed.collect();
        if !available {
            return print_json(&installed);
        }
        let offers = offers
            .iter()
            .map(|(id, about)| json!({"pluginId": id, "description": about}));
        return print_json(
            &json!({"installed": installed, "available": offers.collect::<Vec<_>>()}),
        );
    }
    if list.plugins.is_empty() && !available {
        note("no plugins yet; `ah plugin list --available` lists what the marketplaces offer");
    }
    let lines = list.plugins.iter().map(|(id, plugin)| {
        let version = plugin.version.as_deref();
        let version = version.map_or_else(String::new, |version| format!("  {version}"));
        let state = match (plugin.enabled, plugin.runs_programs) {
            (false, _) => "  disabled",
            (true, _) if !plugin.is_as_shown() => "  left out: its files have changed",
            (true, false) => "  its programs do not run",
            (true, true) => "",
        };
        format!("{id}{version}  {}{state}\n", named(&plugin.pin))
    });
    let lines: String = lines.collect();
    let offers = offers.iter().map(|(id, about)| {
        let line = format!("{id}  not installed  {}", preview(about, 70));
        format!("{}\n", line.trim_end())
    });
    print(&format!("{lines}{}", offers.collect::<String>()))
}
