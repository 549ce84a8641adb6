//! A program outside the workspace, built by `cargo xtask test --all`. Without its variable nothing is tested.

use std::process::Command;

use ah_testkit::script::says;
use ah_testkit::server::Server;

#[test]
fn a_program_that_depends_on_the_library_alone_asks_a_model() {
    let Some(program) = std::env::var_os("AH_TEST_LIBRARY") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new([says("Hello from the model.")]);
    let output = Command::new(program)
        .arg("Hello")
        .current_dir(folder.path())
        .env("HOME", folder.path())
        .env("ANTHROPIC_BASE_URL", server.url())
        .env("ANTHROPIC_API_KEY", "key-of-a-test")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "Hello from the model.\n"
    );
}
