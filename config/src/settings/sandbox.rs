//! Sandbox settings: our own keys, and those of the Agent SDKs that apply here.

use std::path::PathBuf;
use std::str::FromStr;

use ah_sandbox::{Access, Authority, Domain, Grant};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::file::File;
use crate::error::Error;
use crate::tier::SandboxTier;

/// Sandbox settings of one file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SandboxSettings {
    /// Whether commands run in the sandbox.
    pub enabled: Option<bool>,
    /// Required tier.
    pub tier: Option<SandboxTier>,
    /// Whether a run without a sandbox is an error.
    pub fail_if_unavailable: Option<bool>,
    /// Whether confined commands need no permission.
    pub auto_allow: Option<bool>,
    /// Hosts reachable through a tunnel.
    pub allow_hosts: Vec<Authority>,
    /// Hosts reachable by plain HTTP.
    pub allow_http: Vec<Authority>,
    /// Domains whose hosts are reachable on the usual ports.
    pub allow_domains: Vec<Domain>,
    /// Hosts and domains that are never reachable.
    pub deny_domains: Vec<Domain>,
    /// Whether other hosts are refused without a question.
    pub is_strict: Option<bool>,
    /// Additional visible paths.
    pub unveil: Vec<Grant>,
    /// Hidden paths.
    pub hide: Vec<PathBuf>,
    /// Additional visible variables.
    pub env: Vec<String>,
    /// Read-only paths of the project.
    pub protect: Vec<PathBuf>,
    /// MCP servers that run outside of the sandbox.
    pub unconfined_servers: Vec<String>,
}

/// Keys of the Agent SDKs that would only loosen the sandbox, or concern another implementation.
const WITHOUT_MEANING: [&str; 11] = [
    "allowUnsandboxedCommands",
    "enableWeakerNestedSandbox",
    "enableWeakerNetworkIsolation",
    "ignoreViolations",
    "ripgrep",
    "network.allowAllUnixSockets",
    "network.allowLocalBinding",
    "network.allowManagedDomainsOnly",
    "network.allowUnixSockets",
    "network.httpProxyPort",
    "network.socksProxyPort",
];

impl SandboxSettings {
    /// Keeps only the settings that make a run safer, which a project may set; returns the keys of the rest.
    pub fn keep_what_tightens(&mut self) -> Vec<&'static str> {
        let Self {
            enabled,
            tier,
            fail_if_unavailable,
            auto_allow,
            allow_hosts,
            allow_http,
            allow_domains,
            deny_domains: _,
            is_strict,
            unveil,
            hide: _,
            env,
            protect: _,
            unconfined_servers,
        } = self;
        let loose = [
            ("sandbox.enabled", enabled.take_if(|is| !*is).is_some()),
            ("sandbox.tier", tier.take().is_some()),
            (
                "sandbox.failIfUnavailable",
                fail_if_unavailable.take_if(|must| !*must).is_some(),
            ),
            (
                "sandbox.autoAllowBashIfSandboxed",
                auto_allow.take_if(|may| *may).is_some(),
            ),
            ("sandbox.allowHosts", is_taken(allow_hosts)),
            ("sandbox.allowHttp", is_taken(allow_http)),
            ("sandbox.network.allowedDomains", is_taken(allow_domains)),
            (
                "sandbox.network.strictAllowlist",
                is_strict.take_if(|is| !*is).is_some(),
            ),
            ("sandbox.unveil", is_taken(unveil)),
            ("sandbox.env", is_taken(env)),
            ("sandbox.unconfinedServers", is_taken(unconfined_servers)),
        ];
        let loose = loose.into_iter().filter(|(_, is_there)| *is_there);
        loose.map(|(key, _)| key).collect()
    }
}

fn is_taken<T>(list: &mut Vec<T>) -> bool {
    !std::mem::take(list).is_empty()
}

impl<'a> File<'a> {
    pub(super) fn sandbox(&mut self, value: &'a RawValue) -> Result<SandboxSettings, Error> {
        let mut sandbox = SandboxSettings::default();
        for (key, value) in self.object(value)? {
            match key.as_str() {
                "enabled" => sandbox.enabled = Some(self.value(value)?),
                "tier" => sandbox.tier = Some(self.value(value)?),
                "failIfUnavailable" => sandbox.fail_if_unavailable = Some(self.value(value)?),
                "autoAllowBashIfSandboxed" => sandbox.auto_allow = Some(self.value(value)?),
                "allowHosts" => sandbox.allow_hosts.extend(self.parsed(value)?),
                "allowHttp" => sandbox.allow_http.extend(self.parsed(value)?),
                "unveil" => sandbox.unveil.extend(self.parsed(value)?),
                "env" => sandbox.env = self.value(value)?,
                "protect" => sandbox.protect.extend(self.list::<PathBuf>(value)?),
                "unconfinedServers" => sandbox.unconfined_servers = self.value(value)?,
                "network" => self.network(value, &mut sandbox)?,
                "filesystem" => self.filesystem(value, &mut sandbox)?,
                key if WITHOUT_MEANING.contains(&key) => {}
                _ => self.warn_unknown(&format!("sandbox.{key}"), value),
            }
        }
        Ok(sandbox)
    }

    /// Other agents name domains, without ports.
    fn network(&mut self, value: &'a RawValue, to: &mut SandboxSettings) -> Result<(), Error> {
        for (key, value) in self.object(value)? {
            match key.as_str() {
                "allowedDomains" => {
                    for domain in self.domains(value)? {
                        let ports = [443, 80].map(|port| format!("{domain}:{port}").parse().ok());
                        match ports {
                            [Some(tunnel), Some(plain)] => {
                                to.allow_hosts.push(tunnel);
                                to.allow_http.push(plain);
                            }
                            _ => to.allow_domains.push(domain),
                        }
                    }
                }
                "deniedDomains" => to.deny_domains.extend(self.domains(value)?),
                "strictAllowlist" => to.is_strict = Some(self.value(value)?),
                key if WITHOUT_MEANING.contains(&format!("network.{key}").as_str()) => {}
                _ => self.warn_unknown(&format!("sandbox.network.{key}"), value),
            }
        }
        Ok(())
    }

    /// Returns the valid domains, and warns about the others.
    fn domains(&mut self, value: &'a RawValue) -> Result<Vec<Domain>, Error> {
        let mut domains = Vec::new();
        for domain in self.list::<String>(value)? {
            match domain.parse() {
                Ok(domain) => domains.push(domain),
                Err(_) => self.warn_unknown(&format!("sandbox.network domain {domain}"), value),
            }
        }
        Ok(domains)
    }

    fn filesystem(&mut self, value: &'a RawValue, to: &mut SandboxSettings) -> Result<(), Error> {
        for (key, value) in self.object(value)? {
            match key.as_str() {
                "allowWrite" => {
                    let paths = self.list::<PathBuf>(value)?.into_iter();
                    to.unveil.extend(paths.map(|path| Grant {
                        path,
                        access: Access::ALL,
                    }));
                }
                "allowRead" => {
                    let paths = self.list::<PathBuf>(value)?.into_iter();
                    to.unveil.extend(paths.map(|path| Grant {
                        path,
                        access: Access::READ,
                    }));
                }
                "denyRead" => to.hide.extend(self.list::<PathBuf>(value)?),
                "denyWrite" => to.protect.extend(self.list::<PathBuf>(value)?),
                _ => self.warn_unknown(&format!("sandbox.filesystem.{key}"), value),
            }
        }
        Ok(())
    }

    fn list<T: DeserializeOwned>(&self, value: &'a RawValue) -> Result<Vec<T>, Error> {
        self.value(value)
    }

    /// Parses a list of words.
    fn parsed<T: FromStr<Err: std::fmt::Display>>(
        &self,
        value: &'a RawValue,
    ) -> Result<Vec<T>, Error> {
        let items: Vec<&RawValue> = self.value_of(value)?;
        let item = |item: &'a RawValue| {
            let text: String = self.value(item)?;
            text.parse::<T>()
                .map_err(|error| self.error_at(&error.to_string(), item))
        };
        items.into_iter().map(item).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::read;

    fn check(text: &str, expected: &str) {
        let (settings, warnings) = read("s.json", text, false).unwrap();
        let shown = format!("{:?} {warnings:?}", settings.sandbox);
        assert!(shown.contains(expected), "{text}: {shown}");
    }

    #[test]
    fn what_others_call_otherwise_means_the_same() {
        let network = r#"{"sandbox": {"network": {"allowedDomains": ["a.example"]}}}"#;
        let ours =
            r#"{"sandbox": {"allowHosts": ["a.example:443"], "allowHttp": ["a.example:80"]}}"#;
        let files = r#"{"sandbox": {"filesystem": {"allowWrite": ["/d"], "denyWrite": ["o"]}}}"#;
        let own = r#"{"sandbox": {"unveil": ["/d:rwxc"], "protect": ["o"]}}"#;
        for (theirs, ours) in [(network, ours), (files, own)] {
            assert_eq!(read("", theirs, false), read("", ours, false));
        }
        check(r#"{"sandbox": {"ignoreViolations": {}}}"#, " []");
        check(
            r#"{"sandbox": {"excludedCommands": ["docker"]}}"#,
            "s.json:1: unknown setting `sandbox.excludedCommands`",
        );
        check(
            r#"{"sandbox": {"network": {"allowedDomains": ["*.a.example"], "deniedDomains": ["b.example"], "strictAllowlist": true}}}"#,
            "allow_domains: [Domain { name: Name(\"a.example\"), is_below: true }], \
             deny_domains: [Domain { name: Name(\"b.example\"), is_below: false }], is_strict: Some(true)",
        );
        check(
            r#"{"sandbox": {"network": {"allowedDomains": ["*"]}}}"#,
            "unknown setting `sandbox.network domain *`",
        );
        check(
            r#"{"sandbox": {"filesystem": {"denyRead": ["k"], "allowRead": ["k/p"]}}}"#,
            "unveil: [Grant { path: \"k/p\", access: Access { read: true, write: false, execute: false, create: false } }], \
             hide: [\"k\"]",
        );
    }

    #[test]
    fn a_project_may_only_tighten() {
        let loose = r#"{"sandbox": {"enabled": false, "tier": "landlock", "failIfUnavailable": false,
            "autoAllowBashIfSandboxed": true, "allowHosts": ["a.example:1"], "allowHttp": ["a.example:2"],
            "unveil": ["/"], "env": ["A"], "unconfinedServers": ["s"], "protect": ["o"],
            "network": {"allowedDomains": ["*.b.example"], "strictAllowlist": false}}}"#;
        let (mut settings, _) = read("", loose, false).unwrap();
        assert_eq!(settings.sandbox.keep_what_tightens().len(), 11);
        let tight = r#"{"sandbox": {"enabled": true, "failIfUnavailable": true, "autoAllowBashIfSandboxed": false,
            "protect": ["o"], "network": {"deniedDomains": ["c.example"], "strictAllowlist": true},
            "filesystem": {"denyRead": ["k"]}}}"#;
        let (mut kept, _) = read("", tight, false).unwrap();
        assert!(kept.sandbox.keep_what_tightens().is_empty());
        assert_eq!(settings.sandbox.protect, kept.sandbox.protect);
        assert_eq!(kept.sandbox.enabled, Some(true));
    }
}
