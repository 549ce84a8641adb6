//! Hosts that a server's program needs: those its configuration names, and the package registry that its command
//! installs it from. Pure.

use ah_process::{Allowlist, Authority, Egress};

/// Hosts that a server's program needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    /// Package registries. They serve packages and know nothing of the user.
    pub registries: Vec<Authority>,
    /// Hosts of the entry's `allowHosts` and of `https` URLs in its arguments and variables.
    pub tunnels: Vec<Authority>,
    /// Hosts of the entry's `allowHttp` and of `http` URLs.
    pub http: Vec<Authority>,
}

const NPM: &[&str] = &["registry.npmjs.org:443"];
const YARN: &[&str] = &["registry.yarnpkg.com:443", "registry.npmjs.org:443"];
const PYPI: &[&str] = &["pypi.org:443", "files.pythonhosted.org:443"];
const JSR: &[&str] = &["jsr.io:443", "npm.jsr.io:443", "registry.npmjs.org:443"];
const GO: &[&str] = &["proxy.golang.org:443", "sum.golang.org:443"];
const NUGET: &[&str] = &["api.nuget.org:443"];

impl Needs {
    /// Returns what a command line needs, with the hosts that its entry allows. URLs are also looked for in `values`, those
    /// of its variables.
    pub(crate) fn of<'a>(
        command: &str,
        arguments: &'a [String],
        values: impl Iterator<Item = &'a String>,
        [allow_hosts, allow_http]: [Vec<Authority>; 2],
    ) -> Self {
        let registries = registries(base_name(command), arguments);
        let mut needs = Self {
            registries: registries
                .iter()
                .filter_map(|host| host.parse().ok())
                .collect(),
            tunnels: allow_hosts,
            http: allow_http,
        };
        let words = arguments.iter().chain(values);
        for (to, egress) in words.filter_map(|word| url_host(word)) {
            let list = match egress {
                Egress::Tunnel => &mut needs.tunnels,
                Egress::Http => &mut needs.http,
            };
            if !list.contains(&to) && !needs.registries.contains(&to) {
                list.push(to);
            }
        }
        needs
    }

    /// Returns whether it needs no host.
    pub fn is_empty(&self) -> bool {
        self.registries.is_empty() && !self.reaches_out()
    }

    /// Returns whether it needs hosts where it can do more than install itself.
    pub fn reaches_out(&self) -> bool {
        !self.tunnels.is_empty() || !self.http.is_empty()
    }

    /// Returns the hosts as a list, in the order of a display.
    pub fn names(&self) -> Vec<String> {
        let all = self
            .registries
            .iter()
            .chain(&self.tunnels)
            .chain(&self.http);
        all.map(ToString::to_string).collect()
    }

    /// Returns the hosts as additions to an allowlist. A list that is complete gets no registries, which nobody named.
    pub fn allowed(&self, is_complete: bool) -> Allowlist {
        let registries = self.registries.iter().filter(|_| !is_complete);
        Allowlist {
            tunnels: registries.chain(&self.tunnels).cloned().collect(),
            http: self.http.clone(),
            ..Allowlist::default()
        }
    }
}

pub(crate) fn base_name(command: &str) -> &str {
    command.rsplit('/').next().unwrap_or(command)
}

/// Returns the registries that `command` installs packages from when it is called with `arguments`.
fn registries(command: &str, arguments: &[String]) -> &'static [&'static str] {
    let mut words = arguments.iter().map(String::as_str);
    let names = |prefix: &str| arguments.iter().any(|word| word.starts_with(prefix));
    let verb = words
        .find(|word| !word.starts_with('-'))
        .unwrap_or_default();
    match (command, verb) {
        ("npx" | "pnpx" | "bunx", _) | ("npm", "exec" | "x") | ("pnpm", "dlx") | ("bun", "x") => {
            NPM
        }
        ("yarn", "dlx") => YARN,
        ("uvx", _) | ("uv", "tool" | "run") | ("pipx", "run") => PYPI,
        ("deno", _) if names("jsr:") => JSR,
        ("deno", _) if names("npm:") => NPM,
        ("go", "run") if arguments.iter().any(|word| word.contains('@')) => GO,
        ("dnx", _) | ("dotnet", "dnx" | "tool") => NUGET,
        _ => &[],
    }
}

/// Returns the host of a word that is a URL, or an option with one: `--url=https://example.com`.
fn url_host(word: &str) -> Option<(Authority, Egress)> {
    let url = match word.split_once('=') {
        Some((option, url)) if option.starts_with('-') => url,
        _ => word,
    };
    let url = url.strip_prefix("git+").unwrap_or(url);
    let (rest, port, egress) = match url.split_once("://")? {
        ("https", rest) => (rest, 443, Egress::Tunnel),
        ("http", rest) => (rest, 80, Egress::Http),
        _ => return None,
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let authority = rest[..end].rsplit('@').next()?;
    let with_port = authority.parse().ok();
    let to = with_port.or_else(|| format!("{authority}:{port}").parse().ok())?;
    Some((to, egress))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(line: &str, values: &[&str]) -> Needs {
        let mut words = line.split(' ').map(str::to_owned);
        let command = words.next().unwrap();
        let arguments: Vec<_> = words.collect();
        let values: Vec<_> = values.iter().map(|value| (*value).to_owned()).collect();
        Needs::of(&command, &arguments, values.iter(), Default::default())
    }

    #[test]
    fn the_command_decides_the_registry() {
        for (line, expected) in [
            ("npx -y @modelcontextprotocol/server-filesystem .", NPM),
            ("/usr/local/bin/npx tool", NPM),
            ("npm exec --yes tool", NPM),
            ("npm --silent x tool", NPM),
            ("npm start", &[]),
            ("pnpm dlx tool", NPM),
            ("pnpm run serve", &[]),
            ("bunx tool", NPM),
            ("bun x tool", NPM),
            ("bun run server.ts", &[]),
            ("yarn dlx tool", YARN),
            ("uvx mcp-server-git", PYPI),
            ("uv tool run mcp-server-git", PYPI),
            ("uv run server.py", PYPI),
            ("uv --version", &[]),
            ("pipx run tool", PYPI),
            ("pipx list", &[]),
            ("deno run -A jsr:@a/b", JSR),
            ("deno run -A npm:a", NPM),
            ("deno run server.ts", &[]),
            ("go run example.com/a@latest", GO),
            ("go run .", &[]),
            ("dnx Tool.Mcp --yes", NUGET),
            ("dotnet tool exec Tool", NUGET),
            ("dotnet run", &[]),
            ("docker run -i --rm mcp/tool", &[]),
            ("node server.js", &[]),
            ("npxx tool", &[]),
        ] {
            let found = needs(line, &[]);
            let names: Vec<_> = found.registries.iter().map(ToString::to_string).collect();
            assert_eq!(names, expected, "{line}");
            assert!(!found.reaches_out(), "{line}");
        }
    }

    #[test]
    fn urls_name_their_hosts() {
        for (word, expected) in [
            ("https://mcp.example.com/sse", Some("mcp.example.com:443")),
            ("https://mcp.example.com:8443", Some("mcp.example.com:8443")),
            ("http://mcp.example.com?x=1", Some("mcp.example.com:80")),
            (
                "http://[2606:2800:220:1::1]/x",
                Some("[2606:2800:220:1::1]:80"),
            ),
            ("--url=https://mcp.example.com", Some("mcp.example.com:443")),
            (
                "git+https://git.example.com/a/b",
                Some("git.example.com:443"),
            ),
            ("https://u:p@mcp.example.com/", Some("mcp.example.com:443")),
            ("https://", None),
            ("https://2130706433/", None),
            ("https://a b/", None),
            ("ftp://mcp.example.com", None),
            ("see https://mcp.example.com", None),
            ("mcp.example.com", None),
        ] {
            let argument = needs("node server.js", &[]);
            assert!(argument.is_empty());
            let found = url_host(word).map(|(to, _)| to.to_string());
            assert_eq!(found.as_deref(), expected, "{word}");
        }
        let found = needs(
            "npx mcp-remote https://mcp.example.com/sse",
            &["http://api.example.com", "https://registry.npmjs.org/", "x"],
        );
        let expected = [
            "registry.npmjs.org:443",
            "mcp.example.com:443",
            "api.example.com:80",
        ];
        assert_eq!(found.names(), expected);
        assert!(found.reaches_out());
        // Where only listed hosts are reached, a registry has to be listed as well.
        let strict: Vec<_> = found.allowed(true).tunnels;
        assert_eq!(strict, ["mcp.example.com:443".parse().unwrap()]);
    }
}
