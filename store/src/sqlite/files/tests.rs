use std::fs;
use std::sync::Arc;

use super::*;

#[test]
fn the_oldest_contents_go_first_and_all_their_files_with_them() {
    let outputs = tempfile::tempdir().unwrap();
    let mut connection = Connection::open_in_memory().unwrap();
    crate::sqlite::schema::CONVERSATION
        .migrate(&mut connection)
        .unwrap();
    let file = |byte: u8| FileState::File {
        content: Arc::from(vec![byte; 100]),
        mode: 0o644,
    };
    for (run, files) in [("1", [("/a", 1), ("/b", 2)]), ("2", [("/c", 1), ("/d", 3)])] {
        let change = FileChange {
            cause: FileCause::Run(MessageId::from(run)),
            at: Time(0),
            before: files.map(|(name, byte)| (name.into(), file(byte))).into(),
            unseen: Vec::new(),
        };
        insert(&connection, outputs.path(), &change, None).unwrap();
    }
    drop_oldest(&connection, outputs.path(), &Contents::All, 250).unwrap();
    let kept = |path: &str| {
        let steps = steps(&connection, outputs.path(), None).unwrap();
        let mut states = steps.into_iter().flat_map(|step| step.before);
        let (_, state) = states.find(|(name, _)| name.as_os_str() == path).unwrap();
        matches!(state, FileState::File { .. })
    };
    assert_eq!(
        ["/a", "/b", "/c", "/d"].map(kept),
        [false, true, false, true]
    );
}
/// A database that somebody else has written, or changed.
#[test]
fn rows_that_name_files_elsewhere_are_no_steps_and_delete_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(folder.path()).unwrap();
    let outputs = root.join("session.out");
    fs::create_dir(&outputs).unwrap();
    let kept = "kept-1-2-3.000000004-5";
    let victims = ["victim", "session.out/victim", "session.out/kept-x", kept];
    let names: [&[u8]; 8] = [
        b"../victim",
        b"victim",
        b"kept-x",
        b"../kept-1-2-3.000000004-5",
        b"kept-1/../../victim",
        b"/victim",
        b"",
        kept.as_bytes(),
    ];
    for victim in victims {
        fs::write(root.join(victim), "victim").unwrap();
    }
    fs::write(outputs.join(kept), "ours").unwrap();
    let mut connection = Connection::open_in_memory().unwrap();
    crate::sqlite::schema::CONVERSATION
        .migrate(&mut connection)
        .unwrap();
    connection
        .execute("INSERT INTO file_steps VALUES (1, 'run', NULL, 0)", [])
        .unwrap();
    let insert = |path: &[u8], kind: &str, content: &[u8]| {
        let hash = hex(&Sha256::digest(content));
        let row = params![path, kind, hash, content];
        connection
            .execute(
                "INSERT INTO file_states VALUES (1, ?, ?, 420, NULL, ?, ?)",
                row,
            )
            .unwrap();
    };
    for (number, name) in names.into_iter().enumerate() {
        insert(format!("/work/{number}").as_bytes(), BIG, name);
    }
    for path in ["/work/x/../../y", "relative", "/", "/work/", "/work\0/x"] {
        insert(path.as_bytes(), FILE, path.as_bytes());
        connection
            .execute(
                "INSERT INTO file_notes VALUES (1, ?, ?, NULL)",
                params![path.as_bytes(), i64::MAX],
            )
            .unwrap();
    }
    insert(b"/work/good", FILE, b"good");
    connection
        .execute(
            "UPDATE file_states SET content = 'forged' WHERE path = ?",
            [b"/work/0"],
        )
        .unwrap();
    let steps = steps(&connection, &outputs, None).unwrap();
    let of_a_path: Vec<_> = steps[0]
        .before
        .keys()
        .map(|path| path.to_str().unwrap())
        .collect();
    let expected = (0..names.len()).map(|number| format!("/work/{number}"));
    assert_eq!(
        of_a_path,
        expected
            .chain(["/work/good".to_owned()])
            .collect::<Vec<_>>()
    );
    assert!(steps[0].until.is_empty());
    let others = steps[0]
        .before
        .iter()
        .filter(|(path, _)| !path.ends_with("good"));
    for (path, state) in others {
        assert_eq!(*state, FileState::Unkept, "{path:?}");
    }
    drop_oldest(&connection, &outputs, &Contents::All, 0).unwrap();
    for victim in victims {
        assert!(root.join(victim).exists(), "{victim}");
    }
    // A control: the content that is ours goes.
    assert!(!outputs.join(kept).exists());
}

#[test]
fn a_content_that_has_another_hash_is_none() {
    let mut connection = Connection::open_in_memory().unwrap();
    crate::sqlite::schema::CONVERSATION
        .migrate(&mut connection)
        .unwrap();
    for (stored, is_found) in [("text", true), ("forged", false)] {
        connection.execute("DELETE FROM file_states", []).unwrap();
        let hash = hex(&Sha256::digest("text"));
        connection
            .execute(
                "INSERT INTO file_states VALUES (1, 'x', 'file', 420, NULL, ?, ?)",
                params![hash, stored.as_bytes()],
            )
            .unwrap();
        assert_eq!(content(&connection, &hash).unwrap().is_some(), is_found);
    }
}
/// Each way in which somebody without the key can change a step shows.
#[test]
fn a_step_that_this_user_has_not_recorded_is_not_their_own() {
    let changes = [
        (None, true),
        (Some("UPDATE file_states SET content = content"), true),
        (
            Some("UPDATE file_states SET kind = 'unkept', hash = NULL, content = NULL"),
            true,
        ),
        (Some("DELETE FROM file_seals"), false),
        (
            Some("UPDATE file_states SET path = CAST('/b' AS BLOB)"),
            false,
        ),
        (
            Some("UPDATE file_states SET hash = hex(randomblob(32))"),
            false,
        ),
        (Some("UPDATE file_states SET mode = 511"), false),
        (Some("UPDATE file_states SET kind = 'link'"), false),
        (
            Some("UPDATE file_states SET kind = 'absent', folders = 9"),
            false,
        ),
        (Some("UPDATE file_steps SET message_id = 'other'"), false),
        (
            Some("UPDATE file_steps SET message_id = NULL, target = 1"),
            false,
        ),
        (
            Some("UPDATE file_seals SET path = CAST('/b' AS BLOB)"),
            false,
        ),
        (
            Some(
                "INSERT INTO file_states VALUES (1, CAST('/b' AS BLOB), 'folder', 511, NULL, NULL, NULL)",
            ),
            false,
        ),
    ];
    let [key, other] = [(); 2].map(|()| Seal::random().unwrap());
    for (change, is_own) in changes {
        let outputs = tempfile::tempdir().unwrap();
        let mut connection = Connection::open_in_memory().unwrap();
        crate::sqlite::schema::CONVERSATION
            .migrate(&mut connection)
            .unwrap();
        let file = FileState::File {
            content: Arc::from(*b"text"),
            mode: 0o644,
        };
        let recorded = FileChange {
            cause: FileCause::Run(MessageId::from("run")),
            at: Time(0),
            before: vec![("/a".into(), file)],
            unseen: Vec::new(),
        };
        insert(&connection, outputs.path(), &recorded, Some(&key)).unwrap();
        connection
            .execute_batch(change.unwrap_or_default())
            .unwrap();
        let found = |seal| steps(&connection, outputs.path(), seal).unwrap()[0].is_own;
        assert_eq!(found(Some(&key)), is_own, "{change:?}");
        let is_unkept = change.is_some_and(|change| change.contains("unkept"));
        assert!(
            is_unkept || !(found(Some(&other)) || found(None)),
            "{change:?}"
        );
    }
}

/// That a rewind was cut off is only believed if this user's program has said so.
#[test]
fn a_rewind_is_in_progress_only_by_a_seal() {
    let cut_off = format!("UPDATE file_notes SET until_ms = {}", FilesLeft::ONGOING.0);
    let key = Seal::random().unwrap();
    for (until, forged, is_own) in [
        (FilesLeft::ONGOING, "", true),
        (Time(1), "", true),
        (Time(1), &*cut_off, false),
        (
            FilesLeft::ONGOING,
            "DELETE FROM file_seals WHERE path = x''",
            false,
        ),
    ] {
        let outputs = tempfile::tempdir().unwrap();
        let mut connection = Connection::open_in_memory().unwrap();
        crate::sqlite::schema::CONVERSATION
            .migrate(&mut connection)
            .unwrap();
        let rewind = FileChange {
            cause: FileCause::Rewind(1),
            at: Time(0),
            before: vec![("/a".into(), FileState::Absent { folders: 0 })],
            unseen: Vec::new(),
        };
        insert(&connection, outputs.path(), &rewind, Some(&key)).unwrap();
        for until in [FilesLeft::ONGOING, until] {
            let left = FilesLeft { paths: None, until };
            note_left(&connection, &left, Some(&key)).unwrap();
        }
        connection.execute_batch(forged).unwrap();
        let step = steps(&connection, outputs.path(), Some(&key))
            .unwrap()
            .pop()
            .unwrap();
        assert_eq!(step.is_own, is_own, "{until:?} {forged}");
    }
}
