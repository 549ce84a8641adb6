//! `contrib/inspect`: `ah` as an agent of Inspect, which evaluates it by its own runner.
//!
//! `cargo xtask test inspect` installs Inspect and passes its Python; without it, this test passes without testing anything.

use std::env;
use std::process::Command;

use serde_json::{Value, json};

use crate::binary::World;

#[test]
fn a_sample_is_solved_through_the_bridge() {
    let Some(python) = env::var_os("AH_TEST_INSPECT") else {
        return;
    };
    let world = World::new();
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../interop/inspect/evaluate.py"
    );
    let ended = Command::new(python)
        .args([script, env!("CARGO_BIN_EXE_ah")])
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
    let messages = outcome["messages"].as_array().unwrap();
    let has = |role: &str, text: &str| {
        let mut said = messages.iter();
        said.any(|it| it[0] == role && it[1].as_str().unwrap().contains(text))
    };
    assert!(has("system", "Answer in one sentence."));
    assert!(has("tool", "forty-two"));
}
