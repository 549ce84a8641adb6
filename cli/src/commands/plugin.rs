//! `ah plugin`: installs plugins from marketplaces. What a plugin brings is shown first, and its programs run only once
//! the user has agreed. A yes is to the files that were shown: others, on disk or by an update, wait for another one.

mod show;

use std::io::IsTerminal as _;

use ah_config::installed::{InstalledPlugin, fingerprint};
use ah_config::{Config, Error};
use ah_plugins::{Plugins, StagedPlugin};
use ah_terminal::note;
use ah_terminal::trust::ask_consent;
use serde_json::json;

use super::runtime::runtime;
use crate::args::json::Json;
use crate::args::plugin::{MarketplaceAction, PluginAction};
use crate::commands::output::{print, print_json};
use show::{brought, effects, list, marketplace_added, named};

/// Runs a subcommand of `ah plugin`.
pub fn run(config: &Config, action: &PluginAction) -> Result<u8, Error> {
    let plugins = Plugins::of(config)?;
    match action {
        PluginAction::Marketplace { action } => marketplace(&plugins, action),
        PluginAction::Install {
            plugins: wanted,
            consent,
        } => install(&plugins, wanted, consent.yes),
        PluginAction::List { available, json } => list(&plugins, *available, *json),
        PluginAction::Update {
            plugins: wanted,
            consent,
        } => update(&plugins, wanted, consent.yes),
        PluginAction::Remove {
            plugins: wanted, ..
        } => remove(&plugins, wanted),
        PluginAction::Enable { plugin, consent } => enable(config, &plugins, plugin, consent.yes),
        PluginAction::Disable { plugin, .. } => disable(&plugins, plugin),
    }
}

fn marketplace(plugins: &Plugins<'_>, action: &MarketplaceAction) -> Result<u8, Error> {
    match action {
        MarketplaceAction::Add { source, .. } => {
            let added = runtime()?.block_on(plugins.add_marketplace(source))?;
            print(&marketplace_added(&added))
        }
        MarketplaceAction::List(form) => list_marketplaces(plugins, *form),
        MarketplaceAction::Update { name } => {
            let names = match name {
                Some(name) => vec![name.clone()],
                None => plugins.list()?.marketplaces.into_keys().collect(),
            };
            for name in names {
                let updated = runtime()?.block_on(plugins.update_marketplace(&name))?;
                print(&marketplace_added(&updated))?;
            }
            Ok(0)
        }
        MarketplaceAction::Remove { name } => {
            let of_it = plugins.remove_marketplace(name)?;
            let lines = of_it.iter().map(|id| format!("removed plugin `{id}`\n"));
            let lines: String = lines.collect();
            print(&format!("{lines}removed marketplace `{name}`\n"))
        }
    }
}

fn list_marketplaces(plugins: &Plugins<'_>, form: Json) -> Result<u8, Error> {
    let list = plugins.list()?;
    if form.json {
        let rows = list.marketplaces.iter().map(|(name, marketplace)| {
            json!({
                "name": name,
                "source": ah_plugins::shown(&marketplace.source),
                "commit": marketplace.commit,
                "installLocation": marketplace.folder,
            })
        });
        return print_json(&rows.collect());
    }
    if list.marketplaces.is_empty() {
        note("no marketplaces yet; `ah plugin marketplace add SOURCE` adds one");
    }
    let lines = list.marketplaces.iter().map(|(name, marketplace)| {
        let source = ah_plugins::shown(&marketplace.source);
        let pin = marketplace.commit.as_deref().map(named);
        let pin = pin.map_or_else(String::new, |pin| format!("  {pin}"));
        format!("{name}  {source}{pin}\n")
    });
    print(&lines.collect::<String>())
}

fn install(plugins: &Plugins<'_>, wanted: &[String], yes: bool) -> Result<u8, Error> {
    for wanted in wanted {
        let staged = runtime()?.block_on(plugins.stage(wanted))?;
        print(&brought(&staged))?;
        let id = staged.id.clone();
        let former = plugins.list()?.plugins.remove(&id);
        let is_same =
            former.is_some_and(|former| former.runs_programs && former.shown == staged.fingerprint);
        let runs = !staged.parts.needs_consent() || is_same || agreed(yes)?;
        plugins.install(staged, runs)?;
        print(&format!("installed `{id}`\n"))?;
        if !runs {
            left_out(&id);
        }
    }
    Ok(0)
}

/// Gets newer copies. One whose programs run stays as it is until the user has agreed to the new ones.
fn update(plugins: &Plugins<'_>, wanted: &[String], yes: bool) -> Result<u8, Error> {
    let ids: Vec<_> = if wanted.is_empty() {
        plugins.list()?.plugins.into_keys().collect()
    } else {
        let ids = wanted.iter().map(|wanted| plugins.installed(wanted));
        ids.collect::<Result<_, _>>()?
    };
    let runtime = runtime()?;
    let mut got = Vec::new();
    for id in ids {
        let marketplace = id
            .split_once('@')
            .map_or("", |(_, marketplace)| marketplace);
        if !got.iter().any(|known| known == marketplace) {
            runtime.block_on(plugins.update_marketplace(marketplace))?;
            got.push(marketplace.to_owned());
        }
        let staged = runtime.block_on(plugins.stage(&id))?;
        let Some(former) = plugins.list()?.plugins.remove(&id) else {
            continue;
        };
        if former.shown == staged.fingerprint {
            print(&format!("`{id}` is up to date\n"))?;
            continue;
        }
        print(&brought(&staged))?;
        replace(plugins, &former, staged, yes)?;
    }
    Ok(0)
}

fn replace(
    plugins: &Plugins<'_>,
    former: &InstalledPlugin,
    staged: StagedPlugin,
    yes: bool,
) -> Result<(), Error> {
    let id = staged.id.clone();
    let pins = format!("{} to {}", named(&former.pin), named(&staged.pin));
    let runs = !staged.parts.needs_consent() || agreed(yes)?;
    if !runs && former.runs_programs {
        note(&format!(
            "`{id}` stays at {}, since its new programs may not run; `ah plugin update {id} --yes` allows them",
            named(&former.pin)
        ));
        return Ok(());
    }
    plugins.install(staged, runs)?;
    print(&format!("updated `{id}` from {pins}\n"))?;
    Ok(())
}

fn remove(plugins: &Plugins<'_>, wanted: &[String]) -> Result<u8, Error> {
    let ids = wanted.iter().map(|wanted| plugins.installed(wanted));
    // All are looked up before any is removed: with a typo nothing is removed.
    for id in ids.collect::<Result<Vec<_>, _>>()? {
        plugins.change(&id, |_| None)?;
        print(&format!("removed `{id}`\n"))?;
    }
    Ok(0)
}

fn enable(config: &Config, plugins: &Plugins<'_>, wanted: &str, yes: bool) -> Result<u8, Error> {
    let id = plugins.installed(wanted)?;
    let Some(plugin) = plugins.list()?.plugins.remove(&id) else {
        return Ok(0);
    };
    let failed = |why: String| Error::failure(format!("cannot use `{id}`: {why}"));
    let shown = fingerprint(&plugin.folder).map_err(|error| failed(error.to_string()))?;
    let mut runs = plugin.runs_programs && shown == plugin.shown;
    if !runs {
        let parts = config.parts_of_plugin(&plugin.folder).map_err(failed)?;
        print(&effects(&parts))?;
        runs = !parts.needs_consent() || agreed(yes)?;
    }
    plugins.change(&id, |plugin| {
        Some(InstalledPlugin {
            enabled: true,
            shown,
            runs_programs: runs,
            ..plugin
        })
    })?;
    print(&format!("enabled `{id}`\n"))?;
    if !runs {
        left_out(&id);
    }
    Ok(0)
}

fn disable(plugins: &Plugins<'_>, wanted: &str) -> Result<u8, Error> {
    let id = plugins.installed(wanted)?;
    plugins.change(&id, |plugin| {
        Some(InstalledPlugin {
            enabled: false,
            ..plugin
        })
    })?;
    print(&format!("disabled `{id}`\n"))
}

fn left_out(id: &str) {
    note(&format!(
        "its programs do not run and its permissions have no effect; `ah plugin enable {id} --yes` allows both"
    ));
}

/// Returns whether the user lets the programs run that were just shown: said on the command line, or on the terminal.
fn agreed(yes: bool) -> Result<bool, Error> {
    let is_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    if yes || !is_terminal {
        return Ok(yes);
    }
    ask_consent().map_err(|error| Error::failure(format!("cannot ask on the terminal: {error}")))
}
