//! The examples run as documented.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use ah_testkit::script::{hangs, says};
use ah_testkit::server::Server;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

#[path = "../../examples/chat.rs"]
#[expect(dead_code, reason = "`main` is for people who run the example")]
mod chat;
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

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_over_http_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = folder.path().join("talk.json");
    let turns = r#"{"turns": [{"text": "Good day."}, {"text": "Good day again."}]}"#;
    std::fs::write(&scenario, turns).unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = chat::app(
        folder.path().into(),
        format!("script:{}", scenario.display()),
    );
    tokio::spawn(async { axum::serve(listener, app).await.unwrap() });
    let post = async |name: &str| {
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let head = format!("POST /chats/{name} HTTP/1.0\r\nContent-Length: 5\r\n\r\nHello");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        response
    };
    let first = post("anna").await;
    assert!(first.starts_with("HTTP/1.0 200"), "{first}");
    assert!(first.ends_with("\r\n\r\nGood day."), "{first}");
    let second = post("anna").await;
    assert!(second.ends_with("\r\n\r\nGood day again."), "{second}");
    let other = post("bert").await;
    assert!(other.ends_with("\r\n\r\nGood day."), "{other}");
    let outside = post("..%2Fanna").await;
    assert!(outside.starts_with("HTTP/1.0 404"), "{outside}");
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
    assert!(!messages.contains("Go on."), "no other prompt: {messages}");
}
