//! Environment variables of confined commands, including those that point programs to the proxy.

/// Port of the proxy inside the sandbox, on 127.0.0.1.
pub const PROXY_PORT: u16 = 3128;
/// Path inside the sandbox, and content, of the script by which older versions of Node find the proxy.
pub(crate) const NODE_PROXY: (&str, &str) =
    ("/.node-proxy.cjs", include_str!("environment/node.cjs"));

/// Variables without secrets that configure common programs.
const ALLOWED: [&str; 74] = [
    "AH_CALL",
    "AR",
    "AS",
    "BUN_INSTALL",
    "CARGO_HOME",
    "CARGO_INCREMENTAL",
    "CARGO_TARGET_DIR",
    "CARGO_TERM_COLOR",
    "CC",
    "CFLAGS",
    "CI",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLORTERM",
    "COLUMNS",
    "CONDA_PREFIX",
    "CPPFLAGS",
    "CURL_CA_BUNDLE",
    "CXX",
    "CXXFLAGS",
    "DEBIAN_FRONTEND",
    "DENO_DIR",
    "DENO_INSTALL",
    "DOTNET_ROOT",
    "EDITOR",
    "FORCE_COLOR",
    "GIT_SSL_CAINFO",
    "GOBIN",
    "GOFLAGS",
    "GOMODCACHE",
    "GOPATH",
    "GOROOT",
    "GOTOOLCHAIN",
    "GRADLE_USER_HOME",
    "HOME",
    "JAVA_HOME",
    "LANG",
    "LANGUAGE",
    "LDFLAGS",
    "LD_LIBRARY_PATH",
    "LESS",
    "LINES",
    "LOGNAME",
    "MAKEFLAGS",
    "MANPATH",
    "NODE_ENV",
    "NODE_EXTRA_CA_CERTS",
    "NODE_PATH",
    "NO_COLOR",
    "NVM_DIR",
    "PAGER",
    "PATH",
    "PKG_CONFIG_PATH",
    "PWD",
    "PYENV_ROOT",
    "PYENV_VERSION",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONHASHSEED",
    "PYTHONPATH",
    "PYTHONUNBUFFERED",
    "RBENV_ROOT",
    "REQUESTS_CA_BUNDLE",
    "RUSTC_WRAPPER",
    "RUSTFLAGS",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "SHELL",
    "SHLVL",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TERM",
    "VIRTUAL_ENV",
];
const ALSO_ALLOWED: [&str; 9] = [
    "TMPDIR",
    "TZ",
    "USER",
    "VISUAL",
    "VOLTA_HOME",
    "SOURCE_DATE_EPOCH",
    "CMAKE_PREFIX_PATH",
    "NODE_OPTIONS",
    "MAKELEVEL",
];
const ALLOWED_BEGINNINGS: [&str; 4] = ["LC_", "GIT_AUTHOR_", "GIT_COMMITTER_", "CARGO_PROFILE_"];

/// Filters `variables` for a confined command: keeps the well-known harmless ones and those listed in `named`. With a
/// port, adds those by which programs find the proxy there.
pub fn variables(
    variables: impl IntoIterator<Item = (String, String)>,
    named: &[String],
    proxy_port: Option<u16>,
) -> Vec<(String, String)> {
    let is_allowed = |name: &str| {
        ALLOWED.contains(&name)
            || ALSO_ALLOWED.contains(&name)
            || ALLOWED_BEGINNINGS
                .iter()
                .any(|start| name.starts_with(start))
            || named.iter().any(|named| named == name)
    };
    let mut allowed: Vec<_> = variables
        .into_iter()
        .filter(|(name, _)| is_allowed(name))
        .collect();
    // The temporary directory of the host does not exist inside.
    allowed.retain(|(name, _)| !matches!(name.as_str(), "TMPDIR" | "IS_SANDBOX"));
    // Some agents refuse certain options to root unless they know that they are in a sandbox.
    allowed.push(("IS_SANDBOX".to_owned(), "1".to_owned()));
    // The script is part of the file system of a sandbox with namespaces.
    set_node_proxy(
        &mut allowed,
        proxy_port.is_some() && !cfg!(target_os = "macos"),
    );
    if let Some(port) = proxy_port {
        allowed.retain(|(name, _)| !is_proxy_variable(name));
        allowed.extend(proxy_variables(port));
    }
    allowed
}

/// Adds the script by which older versions of Node find the proxy to `NODE_OPTIONS`, or removes it if an outer sandbox
/// has set it.
fn set_node_proxy(variables: &mut Vec<(String, String)>, with_proxy: bool) {
    let name = "NODE_OPTIONS";
    let ours = format!("--require={}", NODE_PROXY.0);
    let others = variables
        .iter()
        .position(|(known, _)| known == name)
        .map(|at| variables.swap_remove(at).1.replace(&ours, ""))
        .unwrap_or_default();
    let all = if with_proxy {
        format!("{} {ours}", others.trim())
    } else {
        others
    };
    if !all.trim().is_empty() {
        variables.push((name.to_owned(), all.trim().to_owned()));
    }
}

fn is_proxy_variable(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    lower.ends_with("_proxy")
}

/// Returns the proxy variables of curl, git, npm, Cargo, pip, Yarn, Node and Java. npm obeys those of curl.
fn proxy_variables(port: u16) -> Vec<(String, String)> {
    let address = format!("http://127.0.0.1:{port}");
    let mut pairs: Vec<(String, String)> = [
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "CARGO_HTTP_PROXY",
        "PIP_PROXY",
        "YARN_HTTP_PROXY",
        "YARN_HTTPS_PROXY",
    ]
    .map(|name| (name.to_owned(), address.clone()))
    .to_vec();
    // The loopback inside the sandbox needs no proxy; everything else is unreachable without one.
    for name in ["no_proxy", "NO_PROXY"] {
        pairs.push((name.to_owned(), "localhost,127.0.0.1,::1".to_owned()));
    }
    pairs.push(("NODE_USE_ENV_PROXY".to_owned(), "1".to_owned()));
    let java = ["http", "https"]
        .map(|scheme| format!("-D{scheme}.proxyHost=127.0.0.1 -D{scheme}.proxyPort={port}"))
        .join(" ");
    pairs.push(("MAVEN_OPTS".to_owned(), java.clone()));
    pairs.push(("GRADLE_OPTS".to_owned(), java));
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_and_named_variables_are_passed_on() {
        let outside = [
            "PATH",
            "LC_ALL",
            "GIT_AUTHOR_NAME",
            "STRIPE_KEY",
            "SSH_AUTH_SOCK",
            "DATABASE_URL",
            "TMPDIR",
            "https_proxy",
            "DBUS_SESSION_BUS_ADDRESS",
            "LD_PRELOAD",
        ];
        let outside = outside.map(|name| (name.to_owned(), "x".to_owned()));
        let names = |named: &[String]| {
            let seen = variables(outside.clone(), named, None);
            seen.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(
            names(&[]),
            ["PATH", "LC_ALL", "GIT_AUTHOR_NAME", "IS_SANDBOX"]
        );
        assert_eq!(
            names(&["DATABASE_URL".to_owned()]),
            [
                "PATH",
                "LC_ALL",
                "GIT_AUTHOR_NAME",
                "DATABASE_URL",
                "IS_SANDBOX"
            ]
        );
    }

    #[test]
    fn node_options_keep_other_options_beside_the_proxy_script() {
        let ours = "--require=/.node-proxy.cjs";
        let both = format!("--max-old-space-size=9 {ours}");
        for (outside, with_proxy, expected) in [
            (None, true, Some(ours)),
            (None, false, None),
            (Some("--max-old-space-size=9"), true, Some(both.as_str())),
            (Some(both.as_str()), true, Some(both.as_str())),
            (Some(both.as_str()), false, Some("--max-old-space-size=9")),
            (Some(ours), false, None),
        ] {
            let outside = outside.map(|value| ("NODE_OPTIONS".to_owned(), value.to_owned()));
            let port = with_proxy.then_some(PROXY_PORT);
            let seen = variables(outside.clone(), &[], port);
            let seen = seen
                .iter()
                .find(|(name, _)| name == "NODE_OPTIONS")
                .map(|(_, value)| value.as_str());
            assert_eq!(seen, expected, "{outside:?} {with_proxy}");
        }
    }

    #[test]
    fn every_proxy_variable_is_set_once() {
        let outside = [(
            "HTTPS_PROXY".to_owned(),
            "http://user:secret@corp:1".to_owned(),
        )];
        let seen = variables(outside, &["HTTPS_PROXY".to_owned()], Some(PROXY_PORT));
        for name in [
            "https_proxy",
            "HTTPS_PROXY",
            "CARGO_HTTP_PROXY",
            "YARN_HTTPS_PROXY",
        ] {
            let values: Vec<_> = seen.iter().filter(|(seen, _)| seen == name).collect();
            assert!(
                matches!(values[..], [(_, value)] if value == "http://127.0.0.1:3128"),
                "{name}: {values:?}"
            );
        }
    }
}
