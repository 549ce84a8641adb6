//! Kinds and causes of errors.

use std::error::Error as _;

use ah::{Agent, ErrorKind};

#[tokio::test]
async fn errors_have_a_kind_and_a_cause() {
    let folder = tempfile::tempdir().unwrap();
    let busy = folder.path().join("busy.db");
    let holder = Agent::builder()
        .model("script:demo")
        .store_file(&busy)
        .build()
        .await
        .unwrap();
    let garbage = folder.path().join("file");
    std::fs::write(&garbage, "no folder").unwrap();
    let builder = || Agent::builder().model("script:demo");
    let cases = [
        (Agent::builder(), ErrorKind::Usage, false),
        (
            Agent::builder().model("script:/nowhere.json"),
            ErrorKind::Provider,
            true,
        ),
        (builder().store_file(&busy), ErrorKind::SessionBusy, false),
        (
            builder().store_file(garbage.join("chat.db")),
            ErrorKind::Store,
            true,
        ),
    ];
    for (builder, kind, has_cause) in cases {
        let error = builder.build().await.err().unwrap();
        assert_eq!(
            (error.kind, error.source().is_some()),
            (kind, has_cause),
            "{error}"
        );
        assert!(!error.message.is_empty());
    }
    holder.close().await.unwrap();
}
