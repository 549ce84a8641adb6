//! `ah shim`: in the place of the program of an installed SDK, and back.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::extensions::put;
use crate::support::binary::World;

/// The hash of `original` as a wheel lists it.
const HASH: &str = "BoLF8gdvCZw0z90VqeBjhJ7UN6SWd-b8xbQZjHZXW-U";

fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink())
}

/// An environment with the Python SDK.
fn wheel(world: &World) -> PathBuf {
    let packages = ".venv/lib/python3.12/site-packages";
    let line = format!("claude_agent_sdk/_bundled/claude,sha256={HASH},8\n");
    put(
        world,
        &format!("{packages}/claude_agent_sdk-0.2.189.dist-info/RECORD"),
        &line,
    );
    put(
        world,
        &format!("{packages}/claude_agent_sdk/_bundled/claude"),
        "original",
    )
}

#[test]
fn the_program_of_a_wheel_is_replaced_and_put_back() {
    let world = World::new();
    let program = wheel(&world);
    let shim = |more: &[&str]| world.as_typed(["shim"].iter().chain(more).copied()).run();
    for _ in 0..2 {
        let done = shim(&["--python", ".venv"]).expect(0);
        assert!(
            done.stdout.contains("/_bundled/claude now starts /"),
            "{}",
            done.stdout
        );
        assert!(is_link(&program));
        assert_eq!(
            fs::read_to_string(program.with_extension("original")).unwrap(),
            "original"
        );
    }
    for _ in 0..2 {
        // Found by itself, too.
        shim(&["--remove"]).expect(0);
        assert!(!is_link(&program));
        assert_eq!(fs::read_to_string(&program).unwrap(), "original");
        assert!(!program.with_extension("original").exists());
    }
    fs::write(&program, "somebody").unwrap();
    let refused = shim(&["--python", ".venv"]).expect(1);
    assert!(
        refused
            .stderr
            .contains("is not changed: it is not the file that the package came with"),
        "{}",
        refused.stderr
    );
    assert_eq!(fs::read_to_string(&program).unwrap(), "somebody");
    fs::remove_file(&program).unwrap();
    std::os::unix::fs::symlink("/bin/true", &program).unwrap();
    for more in [
        &["--python", ".venv"][..],
        &["--python", ".venv", "--remove"],
    ] {
        let refused = shim(more).expect(1);
        assert!(
            refused.stderr.contains("a link that ah did not make"),
            "{}",
            refused.stderr
        );
        assert_eq!(fs::read_link(&program).unwrap(), Path::new("/bin/true"));
    }
    shim(&["--python", "elsewhere"]).expect(1);
}

#[test]
fn the_package_for_the_platform_is_replaced_or_made() {
    let world = World::new();
    let modules = "app/node_modules/@anthropic-ai";
    let manifest = |name: &str| {
        json!({"name": format!("@anthropic-ai/{name}"), "version": "0.3.332"}).to_string()
    };
    put(
        &world,
        &format!("{modules}/claude-agent-sdk/package.json"),
        &manifest("claude-agent-sdk"),
    );
    let shim = |more: &[&str]| {
        let words = ["shim", "--node", "app"];
        world.as_typed(words.iter().chain(more).copied()).run()
    };
    // Installed without the program.
    shim(&[]).expect(0);
    let folder = world.file(modules);
    let made = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let made = made.filter(|path| !path.ends_with("claude-agent-sdk"));
    let made: Vec<_> = made.collect();
    assert!(made.len() == 1 && is_link(&made[0].join("claude")));
    shim(&[]).expect(0);
    shim(&["--remove"]).expect(0);
    assert!(!made[0].exists());
    // With it.
    let name = "claude-agent-sdk-linux-x64";
    put(
        &world,
        &format!("{modules}/{name}/package.json"),
        &manifest(name),
    );
    let program = put(
        &world,
        &format!("{modules}/{name}/claude"),
        "\u{7f}ELF and more",
    );
    shim(&[]).expect(0);
    assert!(is_link(&program));
    shim(&["--remove"]).expect(0);
    assert_eq!(fs::read_to_string(&program).unwrap(), "\u{7f}ELF and more");
    fs::write(&program, "#!/bin/sh\n").unwrap();
    let refused = shim(&[]).expect(1);
    assert!(
        refused.stderr.contains("not a program for this platform"),
        "{}",
        refused.stderr
    );
}
