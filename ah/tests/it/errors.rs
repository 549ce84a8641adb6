//! Kinds and causes of errors.

use std::error::Error as _;

use ah::{Agent, ErrorKind, Options};

#[tokio::test]
async fn errors_have_a_kind_and_a_cause() {
    let folder = tempfile::tempdir().unwrap();
    let busy = folder.path().join("busy.db");
    let agent = |model: &str| Agent::with(Options::new().model(model));
    let holder = agent("script:demo").store_file(&busy).open().await.unwrap();
    let garbage = folder.path().join("file");
    std::fs::write(&garbage, "no folder").unwrap();
    let cases = [
        (Agent::with(Options::new()), ErrorKind::Usage, false),
        (
            Agent::with(Options::new().model("script:demo").resume("one")),
            ErrorKind::Usage,
            false,
        ),
        (agent("script:/nowhere.json"), ErrorKind::Provider, true),
        (
            Agent::with(Options::new().model("script:demo").tools(["Reed"])),
            ErrorKind::Usage,
            false,
        ),
        (
            agent("script:demo").store_file(&busy),
            ErrorKind::SessionBusy,
            false,
        ),
        (
            agent("script:demo").store_file(garbage.join("chat.db")),
            ErrorKind::Store,
            true,
        ),
    ];
    for (builder, kind, has_cause) in cases {
        let error = builder.open().await.err().unwrap();
        assert_eq!(
            (error.kind, error.source().is_some()),
            (kind, has_cause),
            "{error}"
        );
        assert!(!error.message.is_empty());
    }
    holder.close().await.unwrap();
}
