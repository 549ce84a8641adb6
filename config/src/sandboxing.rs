//! Sandbox settings of all layers together.

use std::path::{Path, PathBuf};

use ah_conversation::Environment;
use ah_sandbox::{Authority, Domain, Grant};
use serde::Serialize;
use serde_json::json;

use crate::entry::SettingEntry;
use crate::layers::Layer;
use crate::origin::{Origin, Sourced};
use crate::overlay::Overlay;
use crate::settings::SandboxSettings;
use crate::tier::SandboxTier;

/// Sandbox settings of all layers: lists add up. A project's settings can only make it stricter, and always do.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sandboxing {
    /// Whether commands run in the sandbox.
    pub enabled: Option<Sourced<bool>>,
    /// Required tier.
    pub tier: Option<Sourced<SandboxTier>>,
    /// Whether a run without a sandbox is an error.
    pub must_hold: bool,
    /// Whether confined commands need no permission.
    pub spares_questions: bool,
    /// Hosts reachable through a tunnel.
    pub allow_hosts: Vec<Sourced<Authority>>,
    /// Hosts reachable by plain HTTP.
    pub allow_http: Vec<Sourced<Authority>>,
    /// Domains whose hosts are reachable on the usual ports.
    pub allow_domains: Vec<Sourced<Domain>>,
    /// Hosts and domains that are never reachable.
    pub deny_domains: Vec<Sourced<Domain>>,
    /// Whether other hosts are refused without a question.
    pub is_strict: bool,
    /// Additional visible paths, absolute.
    pub unveil: Vec<Sourced<Grant>>,
    /// Hidden paths, absolute.
    pub hide: Vec<Sourced<PathBuf>>,
    /// Additional visible variables.
    pub env: Vec<Sourced<String>>,
    /// Read-only paths, absolute.
    pub protect: Vec<Sourced<PathBuf>>,
    /// MCP servers that run outside of the sandbox.
    pub unconfined_servers: Vec<Sourced<String>>,
}

impl Sandboxing {
    /// Merges the sandbox settings of `layers`; a project's ones can only make it stricter.
    pub(crate) fn of(layers: &[Layer], overlay: &Overlay, environment: &Environment) -> Self {
        let of_project = || layers.iter().filter(|layer| layer.is_of_project);
        let first = |of: fn(&SandboxSettings) -> Option<bool>| {
            let mut layers = of_project().chain(layers);
            layers.find_map(|layer| Some((of(&layer.settings.sandbox)?, layer)))
        };
        let enabled = first(|sandbox| sandbox.enabled);
        // A project cannot skip questions.
        let is_users_wish = enabled.is_none_or(|(_, layer)| !layer.is_of_project);
        let place = |path: &Path| match (path.strip_prefix("~"), environment.home()) {
            (Ok(below), Some(home)) => home.join(below),
            _ => environment.cwd().join(path),
        };
        Self {
            enabled: enabled.map(|(value, layer)| sourced(value, layer)),
            tier: { layers.iter() }
                .find_map(|layer| Some(sourced(layer.settings.sandbox.tier?, layer))),
            must_hold: first(|sandbox| sandbox.fail_if_unavailable).is_some_and(|(must, _)| must),
            spares_questions: is_users_wish
                && first(|sandbox| sandbox.auto_allow).is_none_or(|(may, _)| may),
            allow_hosts: list(layers, |sandbox| sandbox.allow_hosts.clone()),
            allow_http: list(layers, |sandbox| sandbox.allow_http.clone()),
            allow_domains: list(layers, |sandbox| sandbox.allow_domains.clone()),
            deny_domains: list(layers, |sandbox| sandbox.deny_domains.clone()),
            is_strict: first(|sandbox| sandbox.is_strict).is_some_and(|(is, _)| is),
            hide: list(layers, |sandbox| {
                sandbox.hide.iter().map(|path| place(path)).collect()
            }),
            unveil: list(layers, |sandbox| {
                let grants = sandbox.unveil.iter().map(|grant| Grant {
                    path: place(&grant.path),
                    ..grant.clone()
                });
                grants.collect()
            }),
            env: variables(layers, overlay),
            protect: list(layers, |sandbox| {
                sandbox.protect.iter().map(|path| place(path)).collect()
            }),
            unconfined_servers: list(layers, |sandbox| sandbox.unconfined_servers.clone()),
        }
    }

    /// Returns the settings in force, as `ah config show` lists them.
    pub(crate) fn entries(&self) -> Vec<SettingEntry<'_>> {
        let mut entries: Vec<SettingEntry<'_>> = Vec::new();
        let enabled = self.enabled.as_ref();
        entries.extend(enabled.map(|is| ("sandbox.enabled", json!(is.value), &is.origin)));
        entries.extend(shown(
            "sandbox.allowHosts",
            &self.allow_hosts,
            Authority::to_string,
        ));
        entries.extend(shown(
            "sandbox.allowHttp",
            &self.allow_http,
            Authority::to_string,
        ));
        for (key, domains) in [
            ("sandbox.network.allowedDomains", &self.allow_domains),
            ("sandbox.network.deniedDomains", &self.deny_domains),
        ] {
            entries.extend(shown(key, domains, Domain::to_string));
        }
        let hidden = &self.hide;
        entries.extend(shown("sandbox.filesystem.denyRead", hidden, PathBuf::clone));
        entries.extend(shown("sandbox.unveil", &self.unveil, |grant| {
            grant.path.clone()
        }));
        entries.extend(shown("sandbox.protect", &self.protect, PathBuf::clone));
        let servers = &self.unconfined_servers;
        entries.extend(shown("sandbox.unconfinedServers", servers, String::clone));
        entries
    }
}

fn shown<'a, T, S: Serialize>(
    key: &'static str,
    list: &'a [Sourced<T>],
    show: fn(&T) -> S,
) -> impl Iterator<Item = SettingEntry<'a>> {
    let items = list.iter();
    items.map(move |item| (key, json!(show(&item.value)), &item.origin))
}

/// Returns the named variables, and those that the user or the embedded settings set for the session.
fn variables(layers: &[Layer], overlay: &Overlay) -> Vec<Sourced<String>> {
    let mut named = list(layers, |sandbox| sandbox.env.clone());
    for layer in layers.iter().filter(|layer| !layer.is_of_project) {
        let names = layer.settings.env.keys();
        named.extend(names.map(|name| sourced(name.clone(), layer)));
    }
    let embedded = overlay.variables.iter();
    named.extend(embedded.map(|(name, _)| Sourced {
        value: name.clone(),
        origin: Origin::Embedded,
    }));
    named
}

fn sourced<T>(value: T, layer: &Layer) -> Sourced<T> {
    Sourced {
        value,
        origin: layer.origin.clone(),
    }
}

fn list<T>(layers: &[Layer], of: impl Fn(&SandboxSettings) -> Vec<T>) -> Vec<Sourced<T>> {
    let items = layers.iter().flat_map(|layer| {
        let items = of(&layer.settings.sandbox).into_iter();
        items.map(|item| sourced(item, layer)).collect::<Vec<_>>()
    });
    items.collect()
}
