//! What a command in the sandbox can reach, counted as a published probe of agents counts it: points for each finding, the fewer
//! the better. Its outside addresses are a listener on the loopback here.

use std::fs;
use std::net::TcpListener;
use std::process::Command;

use ah_testkit::script::{says, uses};
use serde_json::json;

use crate::sandbox::{is_missing, stored_results};
use crate::support::binary::World;

/// Findings with their points, and the condition in bash.
const FINDINGS: [(u32, &str, &str); 16] = [
    (15, "the network", "(: <> /dev/tcp/127.0.0.1/PORT)"),
    (
        15,
        "root of the machine",
        r#"[ "$(id -u)" = 0 ] && [ "$(tr -s ' ' < /proc/self/uid_map)" = ' 0 0 4294967295' ]"#,
    ),
    // The number alone, without any right.
    (3, "root of a namespace", r#"[ "$(id -u)" = 0 ]"#),
    (
        25,
        "capabilities",
        r"! grep -q '^CapEff:.0*$' /proc/self/status",
    ),
    (
        8,
        "no filter of system calls",
        r"grep -q '^Seccomp:.0' /proc/self/status",
    ),
    (
        3,
        "new rights",
        r"grep -q '^NoNewPrivs:.0' /proc/self/status",
    ),
    (
        25,
        "sockets of container engines",
        "ls /run/docker.sock /run/containerd/containerd.sock /run/podman/podman.sock | grep .",
    ),
    (
        15,
        "variables named like secrets",
        "env | cut -d= -f1 | grep -iE 'SECRET|TOKEN|PASSWORD|PASSWD|API_?KEY|PRIVATE_KEY|ACCESS_KEY|CREDENTIAL|^(AWS|AZURE|GOOGLE|GCP|OPENAI|ANTHROPIC|HF|GITHUB|GH|NPM|PYPI|DOCKER)_|^KUBE'",
    ),
    (
        15,
        "files of credentials",
        "for f in /run/secrets /etc/shadow CREDENTIALS; do [ -r $f ] && echo $f; done | grep .",
    ),
    (
        8,
        "variables of the first process",
        "[ $$ != 1 ] && head -c 1 /proc/1/environ",
    ),
    (
        15,
        "folders of the system",
        "for d in / /etc /usr/bin /usr/local/bin /root /home /var /opt; do [ -d $d ] && [ \"$d\" != ~ ] && mktemp -p $d; done | grep .",
    ),
    (
        3,
        "the root of the file system",
        "awk '$2 == \"/\" && $4 ~ /(^|,)rw(,|$)/' /proc/mounts | grep .",
    ),
    // The project, as is meant; in a run also the private home.
    (
        8,
        "mounts that can be written",
        "awk '$2 != \"/\" && $2 != \"/tmp\" && $4 ~ /(^|,)rw(,|$)/ && $3 !~ /^(proc|sysfs|cgroup2?|devpts|mqueue|tmpfs|devtmpfs|overlay)$/' /proc/mounts | grep .",
    ),
    (25, "the system request key", "[ -w /proc/sysrq-trigger ]"),
    (
        8,
        "processes of others",
        "[ $$ != 1 ] && [ $(ls -d /proc/[0-9]* | wc -l) -gt 50 ]",
    ),
    (
        3,
        "no limits",
        "[ -r /sys/fs/cgroup/pids.max ] && grep -q max /sys/fs/cgroup/pids.max",
    ),
];
/// Files in the home that contain keys.
const CREDENTIALS: [&str; 8] = [
    ".aws/credentials",
    ".ssh/id_rsa",
    ".ssh/id_ed25519",
    ".netrc",
    ".docker/config.json",
    ".kube/config",
    ".git-credentials",
    ".config/gh/hosts.yml",
];
/// Variables with secrets.
const SECRETS: [&str; 4] = [
    "AWS_SECRET_ACCESS_KEY",
    "OPENAI_API_KEY",
    "GITHUB_TOKEN",
    "NPM_PASSWORD",
];
/// What is found, of an ordinary user and of root: the project.
const MEANT: [&str; 1] = ["mounts that can be written"];
/// Its points.
const POINTS: u32 = 8;

/// Returns the names of findings in an output.
fn found(output: &str) -> Vec<&str> {
    let names = FINDINGS.iter().map(|(_, name, _)| *name);
    let is_found = |name: &&str| output.contains(&format!("found: {name}\n"));
    names.filter(is_found).collect()
}

#[test]
fn only_what_is_meant_is_in_reach() {
    let world = World::new();
    for name in CREDENTIALS {
        let path = world.home().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "key").unwrap();
    }
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let files = CREDENTIALS.map(|name| world.home().join(name).display().to_string());
    let lines = FINDINGS.map(|(_, name, condition)| {
        let condition = condition
            .replace("PORT", &port)
            .replace("CREDENTIALS", &files.join(" "));
        format!("if {{ {condition}; }} > /dev/null 2>&1; then echo 'found: {name}'; fi\n")
    });
    let probe = lines.concat();

    // A control: without the sandbox all of the user's is in reach.
    let mut bare = Command::new("bash");
    bare.args(["-c", &probe]).env("HOME", world.home());
    let bare = bare.envs(SECRETS.map(|name| (name, "x"))).output().unwrap();
    let bare = String::from_utf8(bare.stdout).unwrap();
    for name in [
        "the network",
        "variables named like secrets",
        "files of credentials",
    ] {
        assert!(found(&bare).contains(&name), "{name}: {bare}");
    }
    if is_missing() {
        return;
    }
    let secrets = |mut ah: crate::support::binary::Ah| {
        for name in SECRETS {
            ah = ah.env(name, "x");
        }
        ah
    };
    let alone = ["sandbox", "exec", "--", "bash", "-c", &probe];
    let alone = secrets(world.as_typed(alone)).run().expect(0).stdout;
    let call = uses("bash", json!({"command": probe}));
    let model = world.scenario("s", [call, says("Done.")]);
    let run = ["-n", "--sandbox", "-m", &model, "go"];
    secrets(world.as_typed(run)).run().expect(0);
    for output in [alone, stored_results(&world).concat()] {
        let output = format!("{output}\n");
        let found = found(&output);
        assert_eq!(found, MEANT);
        let all = FINDINGS.iter().filter(|(_, name, _)| found.contains(name));
        assert_eq!(all.map(|(points, ..)| points).sum::<u32>(), POINTS);
    }
}
