//! Which hub a repository is on, and where its API is: from the settings, the variables of a CI, or the host of the
//! remote. Pure.

use ah_config::Error;
use ah_config::settings::work::{HubKind, HubSettings};
use ah_work::github;

/// A hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub kind: HubKind,
    /// Base URL of the API.
    pub api: String,
    /// URL of the server, without a trailing slash.
    pub server: String,
}

impl Place {
    /// Returns the hub of a repository whose remote is on `host`, with the port if it has one.
    ///
    /// # Errors
    ///
    /// If the host is not known, and neither a setting nor a variable says more.
    pub fn of(
        settings: Option<&HubSettings>,
        variable: impl Fn(&str) -> Option<String>,
        host: Option<&str>,
    ) -> Result<Self, Error> {
        let named = |kind: HubKind, api: &str| {
            // Both names are of the same CI.
            let server = match kind {
                HubKind::GitLab => variable("CI_SERVER_URL"),
                _ => variable("GITHUB_SERVER_URL"),
            };
            Self::at(kind, api, server)
        };
        if let Some(settings) = settings {
            let api = settings.api.clone();
            let usual = || host.map(|host| usual(settings.kind, host));
            let unknown = || {
                Error::failure("the remote `origin` has no host")
                    .hint("set `work.hub.api` to the URL of the hub's API")
            };
            let api = api.or_else(usual).ok_or_else(unknown)?;
            return Ok(Self::at(settings.kind, &api, None));
        }
        if let Some(api) = variable("GITHUB_API_URL") {
            // Forgejo's CI sets the variables of GitHub's.
            let is_forgejo = api.trim_end_matches('/').ends_with("/api/v1");
            let kind = if is_forgejo {
                HubKind::Forgejo
            } else {
                HubKind::GitHub
            };
            return Ok(named(kind, &api));
        }
        if let Some(api) = variable("CI_API_V4_URL") {
            return Ok(named(HubKind::GitLab, &api));
        }
        let Some(host) = host else {
            return Ok(Self::at(HubKind::GitHub, github::API, None));
        };
        let is_enterprise = variable("GH_HOST").is_some_and(|name| name == host);
        match kind_of(host).or(is_enterprise.then_some(HubKind::GitHub)) {
            Some(kind) => Ok(Self::at(kind, &usual(kind, host), None)),
            None => Err(Error::failure(format!("unknown kind of hub: `{host}`"))
                .hint("set `work.hub.kind` to github, gitlab or forgejo")),
        }
    }

    fn at(kind: HubKind, api: &str, server: Option<String>) -> Self {
        let api = api.trim_end_matches('/').to_owned();
        let server = server.unwrap_or_else(|| match api.as_str() {
            github::API => "https://github.com".to_owned(),
            other => {
                let paths = ["/api/v3", "/api/v4", "/api/v1"];
                let trimmed = paths.iter().find_map(|path| other.strip_suffix(path));
                trimmed.unwrap_or(other).replace("https://api.", "https://")
            }
        });
        Self {
            kind,
            api,
            server: server.trim_end_matches('/').to_owned(),
        }
    }

    /// Returns the name of the kind.
    pub fn name(&self) -> &'static str {
        match self.kind {
            HubKind::GitHub => "GitHub",
            HubKind::GitLab => "GitLab",
            HubKind::Forgejo => "Forgejo",
        }
    }

    /// Returns the variables that can have its token.
    pub fn tokens(&self) -> &'static [&'static str] {
        match self.kind {
            HubKind::GitHub if self.api == github::API => &["GH_TOKEN", "GITHUB_TOKEN"],
            HubKind::GitHub => &[
                "GH_ENTERPRISE_TOKEN",
                "GITHUB_ENTERPRISE_TOKEN",
                "GH_TOKEN",
                "GITHUB_TOKEN",
            ],
            HubKind::GitLab => &["GITLAB_TOKEN"],
            HubKind::Forgejo => &["FORGEJO_TOKEN", "GITEA_TOKEN"],
        }
    }
}

/// Returns the kind of hub that a host is known for, or named after.
fn kind_of(host: &str) -> Option<HubKind> {
    let begins = |names: &[&str]| names.iter().any(|name| host.starts_with(name));
    match host {
        "github.com" | "ssh.github.com" => Some(HubKind::GitHub),
        "codeberg.org" => Some(HubKind::Forgejo),
        _ if host.ends_with(".ghe.com") || begins(&["github."]) => Some(HubKind::GitHub),
        _ if begins(&["gitlab."]) => Some(HubKind::GitLab),
        _ if begins(&["forgejo.", "gitea."]) => Some(HubKind::Forgejo),
        _ => None,
    }
}

/// Returns the usual place of the API on a host.
fn usual(kind: HubKind, host: &str) -> String {
    match kind {
        HubKind::GitHub if matches!(host, "github.com" | "ssh.github.com") => {
            github::API.to_owned()
        }
        HubKind::GitHub if host.ends_with(".ghe.com") => format!("https://api.{host}"),
        HubKind::GitHub => format!("https://{host}/api/v3"),
        HubKind::GitLab => format!("https://{host}/api/v4"),
        HubKind::Forgejo => format!("https://{host}/api/v1"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(settings: Option<&HubSettings>, variables: &str, host: &str) -> String {
        let variable = |name: &str| {
            let mut pairs = variables.split(' ').filter_map(|pair| pair.split_once('='));
            pairs
                .find(|(known, _)| *known == name)
                .map(|(_, value)| value.to_owned())
        };
        let host = Some(host).filter(|host| !host.is_empty());
        match Place::of(settings, variable, host) {
            Ok(place) => format!("{} {} {}", place.name(), place.api, place.server),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn the_hub_follows_from_the_host_of_the_remote() {
        let actions =
            "GITHUB_API_URL=https://ghe.example/api/v3 GITHUB_SERVER_URL=https://ghe.example";
        for (variables, host, expected) in [
            ("", "", "GitHub https://api.github.com https://github.com"),
            (
                "",
                "github.com",
                "GitHub https://api.github.com https://github.com",
            ),
            (
                "",
                "acme.ghe.com",
                "GitHub https://api.acme.ghe.com https://acme.ghe.com",
            ),
            (
                "",
                "github.acme.example",
                "GitHub https://github.acme.example/api/v3 https://github.acme.example",
            ),
            (
                "GH_HOST=code.example",
                "code.example",
                "GitHub https://code.example/api/v3 https://code.example",
            ),
            (
                actions,
                "ghe.example",
                "GitHub https://ghe.example/api/v3 https://ghe.example",
            ),
            (
                "",
                "gitlab.com",
                "GitLab https://gitlab.com/api/v4 https://gitlab.com",
            ),
            (
                "CI_API_V4_URL=https://code.example/api/v4",
                "code.example",
                "GitLab https://code.example/api/v4 https://code.example",
            ),
            (
                "",
                "codeberg.org",
                "Forgejo https://codeberg.org/api/v1 https://codeberg.org",
            ),
            (
                "",
                "gitea.acme.example",
                "Forgejo https://gitea.acme.example/api/v1 https://gitea.acme.example",
            ),
            (
                "GITHUB_API_URL=https://code.example/api/v1",
                "code.example",
                "Forgejo https://code.example/api/v1 https://code.example",
            ),
            ("", "code.example", "unknown kind of hub: `code.example`"),
        ] {
            assert_eq!(place(None, variables, host), expected, "{variables} {host}");
        }
    }

    #[test]
    fn a_setting_says_more_than_a_name() {
        let hub = |kind, api: Option<&str>| HubSettings {
            kind,
            api: api.map(str::to_owned),
        };
        for (settings, host, expected) in [
            (
                hub(HubKind::GitLab, None),
                "code.example",
                "GitLab https://code.example/api/v4 https://code.example",
            ),
            (
                hub(HubKind::Forgejo, Some("http://127.0.0.1:3000/api/v1/")),
                "",
                "Forgejo http://127.0.0.1:3000/api/v1 http://127.0.0.1:3000",
            ),
            (
                hub(HubKind::GitHub, None),
                "",
                "the remote `origin` has no host",
            ),
        ] {
            assert_eq!(place(Some(&settings), "", host), expected);
        }
    }
}
