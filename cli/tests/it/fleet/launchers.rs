//! What starts workers (`contrib/fleet`): every file can be parsed, and every command in it is one of this program.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::binary::World;

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../contrib/fleet")
        .join(name)
}

fn text(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap()
}

fn yaml(name: &str) -> Value {
    serde_saphyr::from_str(&text(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Fails unless `ah` knows this command and its options.
fn assert_known<'a>(arguments: impl IntoIterator<Item = &'a str>) {
    let arguments: Vec<_> = arguments.into_iter().chain(["--help"]).collect();
    World::new().as_typed(arguments).run().expect(0);
}

fn words(list: &Value) -> Vec<&str> {
    let words = list.as_array().unwrap().iter();
    words.map(|word| word.as_str().unwrap()).collect()
}

#[test]
fn an_unknown_option_would_be_noticed() {
    let world = World::new();
    let unknown = ["worker", "--unknown", "4", "--help"];
    world.as_typed(unknown).run().expect(2);
}

#[test]
fn a_unit_of_systemd() {
    let unit = text("ah-worker@.service");
    let mut section = "";
    for line in unit
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        if let Some(name) = line.strip_prefix('[') {
            section = name.strip_suffix(']').unwrap();
            continue;
        }
        let (key, value) = line.split_once('=').expect(line);
        if (section, key) == ("Service", "ExecStart") {
            let mut command = value.split_whitespace();
            assert_eq!(command.next(), Some("/usr/local/bin/ah"));
            assert_known(command);
        }
    }
    assert_eq!(section, "Install");
    if Command::new("systemd-analyze")
        .arg("--version")
        .output()
        .is_err()
    {
        return;
    }
    // Where systemd is installed, it judges the unit, with the program in a place where there is one.
    let folder = tempfile::tempdir().unwrap();
    let unit = unit.replace("/usr/local/bin/ah", env!("CARGO_BIN_EXE_ah"));
    let file = folder.path().join("ah-worker@.service");
    fs::write(&file, unit).unwrap();
    let verified = Command::new("systemd-analyze")
        .args(["verify", "--man=no"])
        .arg(&file)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&verified.stderr);
    let about_us: Vec<_> = said
        .lines()
        .filter(|line| line.contains("ah-worker"))
        .collect();
    assert!(
        verified.status.success() && about_us.is_empty(),
        "{about_us:?}"
    );
}

#[test]
fn an_array_of_slurm() {
    let script = text("slurm.sh");
    let checked = Command::new("sh").arg("-n").arg(path("slurm.sh")).status();
    assert!(checked.unwrap().success());
    let commands: Vec<_> = script
        .lines()
        .filter_map(|line| line.strip_prefix("exec ah "))
        .collect();
    assert_eq!(commands.len(), 1);
    assert_known(commands[0].split_whitespace());
}

#[test]
fn a_deployment_of_kubernetes() {
    let deployment = yaml("kubernetes.yaml");
    assert_eq!(deployment["kind"], "Deployment");
    let spec = &deployment["spec"];
    assert_eq!(
        spec["selector"]["matchLabels"],
        spec["template"]["metadata"]["labels"]
    );
    let pod = &spec["template"]["spec"];
    let worker = &pod["containers"][0];
    assert_known(words(&worker["args"]));
    // A pod may unmask `/proc` only in a user namespace of its own.
    assert_eq!(worker["securityContext"]["procMount"], "Unmasked");
    assert_eq!(pod["hostUsers"], false);
    for mount in worker["volumeMounts"].as_array().unwrap() {
        let volumes = pod["volumes"].as_array().unwrap();
        assert!(volumes.iter().any(|volume| volume["name"] == mount["name"]));
    }
}

#[test]
fn a_compose_file() {
    let compose = yaml("compose.yaml");
    let worker = &compose["services"]["worker"];
    assert_known(words(&worker["command"]));
    for service in words(&worker["depends_on"]) {
        assert!(compose["services"][service].is_object());
    }
    let named = text("compose.yaml");
    let command = named.split("run --rm worker ").nth(1).unwrap();
    assert_known(command.split('`').next().unwrap().split_whitespace());
}
