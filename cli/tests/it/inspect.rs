//! `ah` as an agent of Inspect, which evaluates it by its own runner: by `contrib/inspect`, and as the program of the package
//! inspect-swe.
//!
//! `cargo xtask test inspect` installs Inspect and passes its Python; without it, these tests pass without testing anything.

use std::env;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::binary::World;

#[test]
fn a_sample_is_solved_through_the_bridge() {
    evaluates("ours", "forty-two");
}

#[test]
fn a_sample_is_solved_in_the_place_of_the_original() {
    evaluates("swe", "forty-two, for everything");
}

/// Evaluates a sample with `agent`, whose call has to return `result`.
fn evaluates(agent: &str, result: &str) {
    let Some(python) = env::var_os("AH_TEST_INSPECT") else {
        return;
    };
    let world = World::new();
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../interop/inspect/evaluate.py"
    );
    let ended = Command::new(python)
        .args([script, env!("CARGO_BIN_EXE_ah"), agent])
        .current_dir(world.project())
        .env("HOME", world.home())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    let last = said.lines().last().unwrap_or_default();
    let outcome: Value = serde_json::from_str(last).unwrap_or_default();
    let errors = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(outcome["status"], "success", "{said}\n{errors}");
    assert_eq!(outcome["score"], json!({"includes": "C"}));
    let of = |role: &str| -> Vec<&str> {
        let messages = outcome["messages"].as_array().unwrap().iter();
        let of_role = messages.filter(|it| it[0] == role);
        of_role.map(|it| it[1].as_str().unwrap()).collect()
    };
    assert!(of("system").contains(&"Answer in one sentence."));
    assert_eq!(of("tool"), [result]);
}
