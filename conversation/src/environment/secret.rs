//! Which variables hold a secret: by the parts of their names, which an underscore separates, and by values that are one in
//! any case. Pure.
//!
//! It errs on the side of a secret: a variable that is withheld from a command can be named with `--env`.

/// Ends of a part that make a variable a secret, wherever the part stands: `GITHUB_TOKEN_2`, `PGPASSWORD`. The plural of
/// `TOKEN` is a number.
const WORDS: [&str; 7] = [
    "APIKEY",
    "PASSPHRASE",
    "PASSWD",
    "PASSWORD",
    "SECRET",
    "SECRETS",
    "TOKEN",
];
/// Last parts that do.
const LAST: [&str; 3] = ["AUTH", "PASS", "PAT"];
/// The last part of a password, and alone the working directory.
const PASSWORD_OR_FOLDER: &str = "PWD";
/// Last parts of names that are about a secret and hold none: `AWS_ACCESS_KEY_ID`, `SSH_KEY_PATH`.
const ABOUT: [&str; 24] = [
    "ALGORITHM",
    "COMMAND",
    "COUNT",
    "DIR",
    "ENDPOINT",
    "FILE",
    "HELPER",
    "HOST",
    "ID",
    "ISSUER",
    "LENGTH",
    "LIMIT",
    "NAME",
    "PATH",
    "PORT",
    "PROVIDER",
    "SIZE",
    "SOCK",
    "TIMEOUT",
    "TTL",
    "TYPE",
    "URI",
    "URL",
    "USER",
];
/// Words before `KEY` that make it none to hide.
const OPEN_KEYS: [&str; 5] = ["CACHE", "FOREIGN", "PARTITION", "PUBLIC", "SORT"];
/// Ends of names that are secret though no part is.
const ENDS: [&str; 2] = ["CREDENTIALS_JSON", "WEBHOOK_URL"];
/// Names of single programs.
const NAMES: [&str; 4] = [
    "AH_STORE",
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    "SSHPASS",
];
/// Last parts of addresses that programs go through or fetch from. Without one they would go elsewhere, and not fail.
const WAYS: [&str; 3] = ["INDEX", "PROXY", "REGISTRY"];
/// The same as a whole end.
const INDEX: &str = "INDEX_URL";

/// Returns whether a variable of this name holds a secret.
pub(super) fn is_name(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    let ends = |end: &&str| {
        { upper.strip_suffix(*end) }.is_some_and(|rest| rest.is_empty() || rest.ends_with('_'))
    };
    if NAMES.contains(&&*upper) || ENDS.iter().any(ends) {
        return true;
    }
    let mut parts: Vec<_> = upper.split('_').filter(|part| !part.is_empty()).collect();
    while parts
        .last()
        .is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()))
    {
        parts.pop();
    }
    let Some(last) = parts.last() else {
        return false;
    };
    if ABOUT.contains(last) {
        return false;
    }
    let is_key = |(at, part): (usize, &&str)| {
        *part == "KEY"
            && at
                .checked_sub(1)
                .is_none_or(|at| !OPEN_KEYS.contains(&parts[at]))
    };
    LAST.contains(last)
        || *last == PASSWORD_OR_FOLDER && parts.len() > 1
        || parts.iter().enumerate().any(is_key)
        || parts
            .iter()
            .any(|part| WORDS.iter().any(|word| part.ends_with(word)))
}

/// Returns whether a value is a secret whatever its name is: a private key, or an address with a password.
pub(super) fn is_value(name: &str, value: &str) -> bool {
    if value.contains("-----BEGIN") && value.contains("PRIVATE KEY-----") {
        return true;
    }
    let upper = name.to_ascii_uppercase();
    let last = upper.rsplit('_').next().unwrap_or_default();
    !WAYS.iter().any(|way| last.ends_with(way)) && !upper.ends_with(INDEX) && has_password(value)
}

/// Returns whether an address names a password, for a server that others can reach.
fn has_password(value: &str) -> bool {
    let Some((_, rest)) = value.split_once("://") else {
        return false;
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let Some((user, host)) = authority.rsplit_once('@') else {
        return false;
    };
    let is_nearby = ["localhost", "127.", "[::1]"]
        .iter()
        .any(|near| host.starts_with(near));
    !is_nearby && { user.split_once(':') }.is_some_and(|(_, password)| !password.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_secret_by_their_names() {
        for name in [
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_AUTH_TOKEN",
            "API_KEY_PROD",
            "AWS_BEARER_TOKEN_BEDROCK",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_SESSION_TOKEN",
            "AZURE_STORAGE_ACCOUNT_KEY",
            "AZURE_STORAGE_KEY",
            "BUNDLE_GITHUB__COM_PASSWORD",
            "CARGO_REGISTRY_TOKEN",
            "CLAUDE_CODE_OAUTH_TOKEN",
            "CLIENT_SECRET",
            "DB_PASS",
            "DB_PASSWORD_OLD",
            "DJANGO_SECRET_KEY",
            "DOCKER_PASSWORD",
            "FLASK_SIGNING_KEY",
            "GH_PAT",
            "GITHUB_TOKEN",
            "GITHUB_TOKEN_2",
            "GOOGLE_CREDENTIALS_JSON",
            "GPG_PASSPHRASE",
            "MYSQLPASSWORD",
            "MYSQL_PWD",
            "NPM_CONFIG__AUTH",
            "npm_config__authToken",
            "NPM_TOKEN",
            "OPENAI_API_KEY",
            "OPENAI_APIKEY",
            "OPENAI_KEY",
            "OPENAI_KEY_2",
            "PGPASSWORD",
            "RAILS_MASTER_KEY",
            "REDISCLI_AUTH",
            "SECRET_KEY_BASE",
            "SLACK_WEBHOOK_URL",
            "SSHPASS",
            "STRIPE_SECRET_KEY",
            "SUPABASE_SERVICE_KEY",
            "TOKEN",
            "API_KEY",
            "APIKEY",
            "SECRET",
            "PASSWORD",
            "api_key",
            "my_token",
        ] {
            assert!(is_name(name), "{name}");
        }
    }

    #[test]
    fn names_that_only_sound_like_secrets_stay() {
        for name in [
            "",
            "_",
            "PWD",
            "OLDPWD",
            "PATH",
            "AWS_ACCESS_KEY_ID",
            "AWS_WEB_IDENTITY_TOKEN_FILE",
            "AUTHOR",
            "CACHE_KEY",
            "CLAUDE_CODE_MAX_OUTPUT_TOKENS",
            "COMPASS",
            "DATABASE_URL",
            "GIT_ASKPASS",
            "GIT_AUTHOR_NAME",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "GPG_TTY",
            "KEYBOARD",
            "KEYTIMEOUT",
            "LESSKEY",
            "MAX_THINKING_TOKENS",
            "PASSWORD_STORE_DIR",
            "SECRETARY",
            "SPAT",
            "SSH_AUTH_SOCK",
            "SSH_KEY_PATH",
            "SSH_PUBLIC_KEY",
            "TOKENIZER",
            "TOKENIZERS_PARALLELISM",
            "TOKEN_LIMIT",
            "XAUTHORITY",
            "npm_config_cache",
            "npm_config_registry",
            "npm_config_user_agent",
            "npm_lifecycle_event",
        ] {
            assert!(!is_name(name), "{name}");
        }
    }

    #[test]
    fn variables_are_secret_by_their_values() {
        for (name, value, expected) in [
            (
                "DATABASE_URL",
                "postgres://app:hunter2@db.example/app",
                true,
            ),
            ("REDIS", "redis://:hunter2@10.0.0.1:6379/0?x#y", true),
            ("AMQP", "amqps://u:p%40ss@broker", true),
            ("SIGNING", "-----BEGIN RSA PRIVATE KEY-----\nMII", true),
            ("DATABASE_URL", "postgres://app@db.example/app", false),
            ("DATABASE_URL", "postgres://app:@db.example/app", false),
            (
                "DATABASE_URL",
                "postgres://app:app@localhost:5432/app",
                false,
            ),
            ("DATABASE_URL", "postgres://app:app@127.0.0.1/app", false),
            (
                "DATABASE_URL",
                "postgres://db.example/app?next=a:b@c",
                false,
            ),
            ("HTTPS_PROXY", "http://me:hunter2@proxy.example:3128", false),
            (
                "PIP_EXTRA_INDEX_URL",
                "https://me:hunter2@pypi.example/simple",
                false,
            ),
            (
                "npm_config_registry",
                "https://me:hunter2@npm.example",
                false,
            ),
            ("CERTIFICATE", "-----BEGIN CERTIFICATE-----\nMII", false),
            ("TIME", "12:30 me@example.org", false),
        ] {
            assert_eq!(is_value(name, value), expected, "{name}={value}");
        }
    }
}
