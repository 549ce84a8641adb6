//! The examples at work.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use ah_testkit::script::{hangs, says};
use ah_testkit::server::Server;

#[path = "../../examples/resume.rs"]
#[expect(dead_code, reason = "`main` is for people who run the example")]
mod resume;
#[path = "../../examples/tool.rs"]
#[expect(dead_code, reason = "`main` is for people who run the example")]
mod tool;

#[tokio::test]
async fn a_tool_has_a_derived_schema() {
    let folder = tempfile::tempdir().unwrap();
    let (output, answer) = tool::run(folder.path()).await.unwrap();
    assert_eq!((&*output, &*answer), ("68 °F", "It is warm."));
}

/// Variable that names the database to the child process of the test below.
const DATABASE: &str = "AH_TEST_RESUME_DATABASE";

/// Runs the example in the child process; does nothing otherwise.
#[tokio::test]
async fn child_of_the_resume_test() {
    let Some(file) = std::env::var_os(DATABASE) else {
        return;
    };
    let (earlier, answer) = resume::run(&PathBuf::from(file), "sonnet").await.unwrap();
    assert!(earlier > 0);
    assert_eq!(answer, "The end.");
}

#[test]
fn a_killed_conversation_is_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let child = |server: &Server| {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child
            .args(["--exact", "examples::child_of_the_resume_test"])
            .env(DATABASE, folder.path().join("chat.db"))
            .env("HOME", folder.path())
            .env("ANTHROPIC_BASE_URL", server.url())
            .env("ANTHROPIC_API_KEY", "key-of-a-test")
            .stdout(Stdio::null());
        child
    };
    let server = Server::new([hangs("Once upon")]);
    let mut killed = child(&server).spawn().unwrap();
    server.wait_until(|requests| requests.len() == 1);
    // SIGKILL.
    killed.kill().unwrap();
    killed.wait().unwrap();

    let server = Server::new([says("The end.")]);
    assert!(child(&server).status().unwrap().success());
    let messages = server.requests()[0].body["messages"].to_string();
    assert!(messages.contains("Write a poem."), "{messages}");
    assert!(messages.contains("Go on."), "{messages}");
}
