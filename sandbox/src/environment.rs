//! Which variables a confined command sees, and those that lead programs to the proxy.

/// Where the proxy is reached inside, on 127.0.0.1.
pub const PROXY_PORT: u16 = 3128;
/// Where what older versions of Node need to find the proxy lies inside, and what it is.
pub(crate) const NODE_PROXY: (&str, &str) =
    ("/.node-proxy.cjs", include_str!("environment/node.cjs"));

/// Variables that say how programs work and hold nothing to hide.
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

/// What the names of variables begin with on their way through the launcher that are not for it.
pub(crate) const HELD: &str = "AH_HELD_";

/// Whether a variable tells the loader or the C library of a program what to load and where: the ones that they leave
/// out themselves in programs that run as somebody else.
pub(crate) fn is_for_the_loader(name: &str) -> bool {
    const NAMES: [&str; 10] = [
        "GCONV_PATH",
        "GETCONF_DIR",
        "GLIBC_TUNABLES",
        "HOSTALIASES",
        "LOCALDOMAIN",
        "LOCPATH",
        "NLSPATH",
        "RESOLV_HOST_CONF",
        "RES_OPTIONS",
        "TZDIR",
    ];
    name.starts_with("LD_") || name.starts_with("MALLOC_") || NAMES.contains(&name)
}

/// Of `variables`, those that a confined command may see: the usual ones, and those that `named` names.
/// With `with_proxy`, also those by which programs find the proxy.
pub fn variables(
    variables: impl IntoIterator<Item = (String, String)>,
    named: &[String],
    with_proxy: bool,
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
    // The temporary folder of outside is not there.
    allowed.retain(|(name, _)| !matches!(name.as_str(), "TMPDIR" | "IS_SANDBOX"));
    // Agents that refuse root some things let it have them where it can do no harm.
    allowed.push(("IS_SANDBOX".to_owned(), "1".to_owned()));
    lead_node(&mut allowed, with_proxy);
    if with_proxy {
        allowed.retain(|(name, _)| !is_proxy_variable(name));
        allowed.extend(proxy_variables());
    }
    allowed
}

/// Adds what older versions of Node load to find the proxy, or takes it out: a sandbox around this one has given it.
fn lead_node(variables: &mut Vec<(String, String)>, with_proxy: bool) {
    let name = "NODE_OPTIONS";
    let ours = format!("--require={}", NODE_PROXY.0);
    let at = variables.iter().position(|(known, _)| known == name);
    let others = at.map(|at| variables.swap_remove(at).1.replace(&ours, ""));
    let others = others.unwrap_or_default();
    let all = match with_proxy {
        true => format!("{} {ours}", others.trim()),
        false => others,
    };
    if !all.trim().is_empty() {
        variables.push((name.to_owned(), all.trim().to_owned()));
    }
}

fn is_proxy_variable(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    lower.ends_with("_proxy")
}

/// What curl, git, cargo, npm, pip, Node, Go and Java look at.
fn proxy_variables() -> Vec<(String, String)> {
    let address = format!("http://127.0.0.1:{PROXY_PORT}");
    let mut pairs: Vec<(String, String)> = [
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "npm_config_proxy",
        "npm_config_https_proxy",
        "CARGO_HTTP_PROXY",
        "PIP_PROXY",
        "YARN_HTTP_PROXY",
        "YARN_HTTPS_PROXY",
    ]
    .map(|name| (name.to_owned(), address.clone()))
    .to_vec();
    // The sandbox's own loopback needs no proxy, and nothing else can be reached without.
    for name in ["no_proxy", "NO_PROXY", "npm_config_noproxy"] {
        pairs.push((name.to_owned(), "localhost,127.0.0.1,::1".to_owned()));
    }
    pairs.push(("NODE_USE_ENV_PROXY".to_owned(), "1".to_owned()));
    let java = ["http", "https"]
        .map(|scheme| format!("-D{scheme}.proxyHost=127.0.0.1 -D{scheme}.proxyPort={PROXY_PORT}"))
        .join(" ");
    pairs.push(("MAVEN_OPTS".to_owned(), java.clone()));
    pairs.push(("GRADLE_OPTS".to_owned(), java));
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_known_or_named_is_seen() {
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
            let seen = variables(outside.clone(), named, false);
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
    fn node_is_led_to_the_proxy_beside_what_else_it_is_told() {
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
            let seen = variables(outside.clone(), &[], with_proxy);
            let seen = seen.iter().find(|(name, _)| name == "NODE_OPTIONS");
            let seen = seen.map(|(_, value)| value.as_str());
            assert_eq!(seen, expected, "{outside:?} {with_proxy}");
        }
    }

    #[test]
    fn the_proxy_is_named_in_every_spelling_and_once() {
        let outside = [(
            "HTTPS_PROXY".to_owned(),
            "http://user:secret@corp:1".to_owned(),
        )];
        let seen = variables(outside, &["HTTPS_PROXY".to_owned()], true);
        for name in [
            "https_proxy",
            "HTTPS_PROXY",
            "CARGO_HTTP_PROXY",
            "npm_config_https_proxy",
        ] {
            let values: Vec<_> = seen.iter().filter(|(seen, _)| seen == name).collect();
            assert!(
                matches!(values[..], [(_, value)] if value == "http://127.0.0.1:3128"),
                "{name}: {values:?}"
            );
        }
    }
}
