//! The contract of a store: what a run relies on, wherever its session is kept.

use std::sync::Arc;

use ah_conversation::{
    CallState, Content, ContentBlock, Event, EventKind, Image, MailKind, Mailbox as _, Message,
    MessageId, Origin, Record, ResultBlock, Role, Spool, Store, ToolResult, ToolUseId,
};
use ah_store::SessionStore;

use crate::fixture::{Speaker, append, bytes, finished, result, started, tool_use};

/// Gives the names of all checks to the macro `$test`.
macro_rules! checks {
    ($test:ident) => {
        $test! {
            a_new_session_is_empty,
            appended_messages_are_loaded,
            the_last_appended_message_is_the_current_one,
            a_message_is_stored_once,
            a_batch_is_stored_whole_or_not_at_all,
            a_started_call_is_in_the_journal,
            a_finished_call_keeps_its_result_until_a_message_stores_it,
            results_store_the_full_output_of_calls_in_the_same_batch,
            a_reused_id_means_the_newer_call,
            results_of_calls_that_never_ran_are_their_own_output,
            a_call_whose_results_were_deleted_counts_as_started,
            going_back_to_an_answer_keeps_the_results_of_its_calls,
            big_and_binary_outputs_come_back_byte_for_byte,
            a_spooled_output_is_adopted_from_any_folder,
            a_gap_in_a_capped_output_is_marked_in_its_place,
            images_are_stored_and_loaded,
            messages_before_the_view_are_loaded_without_content,
            queued_messages_are_delivered_exactly_once_and_in_order,
            a_queued_message_that_was_appended_before_a_crash_is_not_delivered_again,
            only_events_of_stored_kinds_are_stored,
            editing_the_tree_moves_the_current_message,
        }
    };
}
pub(crate) use checks;

async fn messages(store: &dyn Store) -> Vec<Arc<Message>> {
    store.load().await.unwrap().messages().to_vec()
}

pub async fn a_new_session_is_empty(session: &SessionStore) {
    assert_eq!(messages(session).await, []);
    assert_eq!(session.mail(MailKind::Steer).await.unwrap(), []);
    let nothing = session.output(&ToolUseId::from("x"), 1, 10).await.unwrap();
    assert_eq!(nothing, None);
}

pub async fn appended_messages_are_loaded(session: &SessionStore) {
    let mut speaker = Speaker::default();
    let all = [
        speaker.prompt("one"),
        speaker.answer("two"),
        speaker.prompt("three"),
    ];
    for message in &all {
        append(session, message).await;
    }
    assert_eq!(messages(session).await, all);
}

pub async fn the_last_appended_message_is_the_current_one(session: &SessionStore) {
    let mut speaker = Speaker::default();
    let root = speaker.prompt("root");
    let first = speaker.answer("first");
    let second = Speaker::after(&root).answer("second");
    for message in [&root, &first, &second] {
        append(session, message).await;
    }
    assert_eq!(messages(session).await, [root, second]);
}

pub async fn a_message_is_stored_once(session: &SessionStore) {
    let mut speaker = Speaker::default();
    let (prompt, answer) = (speaker.prompt("one"), speaker.answer("two"));
    for message in [&prompt, &answer, &prompt] {
        append(session, message).await;
    }
    assert_eq!(messages(session).await, [prompt, answer]);
}

pub async fn a_batch_is_stored_whole_or_not_at_all(session: &SessionStore) {
    let mut speaker = Speaker::default();
    let prompt = speaker.prompt("one");
    let mut lost = (*speaker.answer("two")).clone();
    lost.parent = Some(MessageId::from("nobody"));
    let records = vec![
        Record::Message(prompt.clone()),
        Record::Message(Arc::new(lost)),
    ];
    let error = session.append(records).await.unwrap_err();
    assert_eq!(error.action, "cannot write");
    assert_eq!(messages(session).await, []);
    append(session, &prompt).await;
    assert_eq!(messages(session).await, [prompt]);
}

pub async fn a_started_call_is_in_the_journal(session: &SessionStore) {
    let mut speaker = Speaker::default();
    append(session, &speaker.prompt("go")).await;
    let asking = speaker.calls(&["r", "w", "n", "x"]);
    append(session, &asking).await;
    session
        .append(vec![
            started(&asking, "r", "read"),
            started(&asking, "w", "read,write"),
            started(&asking, "n", ""),
        ])
        .await
        .unwrap();
    let transcript = session.load().await.unwrap();
    for (id, expected) in [
        (
            "r",
            Some(CallState::Started {
                mutating: false,
                agent_id: None,
            }),
        ),
        (
            "w",
            Some(CallState::Started {
                mutating: true,
                agent_id: None,
            }),
        ),
        (
            "n",
            Some(CallState::Started {
                mutating: false,
                agent_id: None,
            }),
        ),
        ("x", None),
    ] {
        assert_eq!(transcript.call(&id.into()), expected.as_ref(), "{id}");
    }
}

pub async fn a_finished_call_keeps_its_result_until_a_message_stores_it(session: &SessionStore) {
    let mut speaker = Speaker::default();
    append(session, &speaker.prompt("go")).await;
    let asking = speaker.calls(&["a", "b"]);
    append(session, &asking).await;
    let (a, b) = (result("a", "cut"), result("b", "all of it"));
    session
        .append(vec![
            started(&asking, "a", "command"),
            finished(&asking, a.clone(), bytes("all\nof\nit\n")),
        ])
        .await
        .unwrap();
    let transcript = session.load().await.unwrap();
    assert_eq!(
        transcript.call(&"a".into()),
        Some(&CallState::Finished(a.clone()))
    );
    check_output(session, "a", "all\nof\nit", 3).await;

    let results = speaker.results(vec![a, b.clone()]);
    session
        .append(vec![
            finished(&asking, b, bytes("all of it")),
            Record::Message(results.clone()),
        ])
        .await
        .unwrap();
    let transcript = session.load().await.unwrap();
    assert_eq!(transcript.last(), Some(&results));
    assert_eq!(transcript.call(&"a".into()), None);
    check_output(session, "a", "all\nof\nit", 3).await;
    check_output(session, "b", "all of it", 1).await;
}

pub async fn results_store_the_full_output_of_calls_in_the_same_batch(session: &SessionStore) {
    let mut speaker = Speaker::default();
    append(session, &speaker.prompt("go")).await;
    let asking = speaker.calls(&["a"]);
    let results = speaker.results(vec![result("a", "[cut]")]);
    let output = "line\n".repeat(1000);
    session
        .append(vec![
            Record::Message(asking.clone()),
            started(&asking, "a", "command"),
            finished(&asking, result("a", "[cut]"), bytes(output.clone())),
            Record::Message(results.clone()),
        ])
        .await
        .unwrap();
    assert_eq!(messages(session).await.last(), Some(&results));
    check_output(session, "a", output.trim_end(), 1000).await;
}

pub async fn a_reused_id_means_the_newer_call(session: &SessionStore) {
    let mut speaker = Speaker::default();
    append(session, &speaker.prompt("go")).await;
    let mut expected = Vec::new();
    for text in ["first", "second"] {
        let asking = speaker.calls(&["call_0"]);
        let results = speaker.results(vec![result("call_0", text)]);
        session
            .append(vec![
                Record::Message(asking.clone()),
                started(&asking, "call_0", "read"),
            ])
            .await
            .unwrap();
        session
            .append(vec![
                finished(&asking, result("call_0", text), bytes(text)),
                Record::Message(results.clone()),
            ])
            .await
            .unwrap();
        expected.push(results);
    }
    let stored = messages(session).await;
    assert_eq!([&stored[2], &stored[4]], [&expected[0], &expected[1]]);
    check_output(session, "call_0", "second", 1).await;
}

pub async fn results_of_calls_that_never_ran_are_their_own_output(session: &SessionStore) {
    let mut speaker = Speaker::default();
    append(session, &speaker.prompt("go")).await;
    append(session, &speaker.calls(&["a"])).await;
    let skipped = ToolResult::error(&tool_use("a"), "it did not run");
    let results = speaker.results(vec![skipped]);
    append(session, &results).await;
    assert_eq!(messages(session).await.last(), Some(&results));
    check_output(session, "a", "it did not run", 1).await;
}

pub async fn a_call_whose_results_were_deleted_counts_as_started(session: &SessionStore) {
    let mut speaker = Speaker::default();
    append(session, &speaker.prompt("go")).await;
    let asking = speaker.calls(&["a"]);
    append(session, &asking).await;
    session
        .append(vec![
            started(&asking, "a", "command"),
            finished(&asking, result("a", "x"), bytes("x")),
        ])
        .await
        .unwrap();
    let results = speaker.results(vec![result("a", "x")]);
    append(session, &results).await;
    assert!(session.delete(results.id.clone()).await.unwrap());
    session.checkout(asking.id.clone()).await.unwrap();
    let transcript = session.load().await.unwrap();
    let expected = CallState::Started {
        mutating: true,
        agent_id: None,
    };
    assert_eq!(transcript.call(&"a".into()), Some(&expected));
}

pub async fn going_back_to_an_answer_keeps_the_results_of_its_calls(session: &SessionStore) {
    let mut speaker = Speaker::default();
    append(session, &speaker.prompt("go")).await;
    let asking = speaker.calls(&["a", "b"]);
    let results = speaker.results(vec![result("a", "done"), result("b", "done as well")]);
    for message in [&asking, &results, &speaker.answer("Well.")] {
        append(session, message).await;
    }
    session.checkout(asking.id.clone()).await.unwrap();
    let transcript = session.load().await.unwrap();
    assert_eq!(transcript.last(), Some(&results));
    append(session, &Speaker::after(&results).prompt("or else")).await;
    assert_eq!(messages(session).await.len(), 4);
}

pub async fn big_and_binary_outputs_come_back_byte_for_byte(session: &SessionStore) {
    let mut speaker = Speaker::default();
    append(session, &speaker.prompt("go")).await;
    let big: Vec<u8> = (0..400_000_u32).flat_map(u32::to_le_bytes).collect();
    for (id, output) in [
        ("nul", b"a\0b\0".to_vec()),
        ("not utf-8", vec![0xff, 0xfe, b'\n', 0x80]),
        ("../big", big),
        ("empty", Vec::new()),
    ] {
        let asking = speaker.calls(&[id]);
        let seen = result(id, &String::from_utf8_lossy(&output[..output.len().min(9)]));
        let results = speaker.results(vec![seen.clone()]);
        session
            .append(vec![
                Record::Message(asking.clone()),
                finished(&asking, seen, bytes(output.clone())),
            ])
            .await
            .unwrap();
        assert_eq!(copy_of(session, id).await.as_deref(), Some(&*output));
        append(session, &results).await;
        assert_eq!(messages(session).await.last(), Some(&results));
        assert_eq!(copy_of(session, id).await, Some(output));
    }
}

pub async fn a_spooled_output_is_adopted_from_any_folder(session: &SessionStore) {
    let mut speaker = Speaker::default();
    append(session, &speaker.prompt("go")).await;
    let elsewhere = tempfile::TempDir::new().unwrap();
    let home = session.spool_path(&"a".into());
    for (id, path) in [("a", home), ("b", elsewhere.path().join("b"))] {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "one\ntwo\n").unwrap();
        let spool = Spool {
            path: path.clone(),
            len: 8,
            lines: 2,
            left_out: 0,
            sha256: "00".to_owned(),
            head: b"one\n".to_vec(),
            tail: b"two\n".to_vec(),
        };
        let asking = speaker.calls(&[id]);
        let results = speaker.results(vec![result(id, "one [cut]")]);
        session
            .append(vec![
                Record::Message(asking.clone()),
                finished(&asking, result(id, "one [cut]"), Content::Spool(spool)),
                Record::Message(results.clone()),
            ])
            .await
            .unwrap();
        assert_ne!(session.spool_path(&id.into()), path, "the path is in use");
        assert_eq!(messages(session).await.last(), Some(&results));
        check_output(session, id, "one\ntwo", 2).await;
    }
}

pub async fn a_gap_in_a_capped_output_is_marked_in_its_place(session: &SessionStore) {
    let mut speaker = Speaker::default();
    append(session, &speaker.prompt("go")).await;
    let path = session.spool_path(&"a".into());
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, "one\ntwo\nlast\n").unwrap();
    let spool = Spool {
        path,
        len: 1_013,
        lines: 3,
        left_out: 1_000,
        sha256: "00".to_owned(),
        head: b"one\n".to_vec(),
        tail: b"last\n".to_vec(),
    };
    let asking = speaker.calls(&["a"]);
    let end = finished(&asking, result("a", "cut"), Content::Spool(spool));
    let records = vec![Record::Message(asking), end];
    session.append(records).await.unwrap();
    let text = "one\ntwo\n\n[1000 bytes left out]\nlast";
    check_output(session, "a", text, 5).await;
}

pub async fn images_are_stored_and_loaded(session: &SessionStore) {
    let mut speaker = Speaker::default();
    append(session, &speaker.prompt("go")).await;
    let picture = vec![
        ResultBlock::Image(Image {
            media_type: "image/png".to_owned(),
            data: "aGk=".to_owned(),
        }),
        ResultBlock::Text {
            text: "a picture".to_owned(),
        },
    ];
    let asking = speaker.calls(&["a"]);
    let seen = ToolResult {
        content: picture.clone(),
        ..result("a", "")
    };
    let results = speaker.results(vec![seen.clone()]);
    session
        .append(vec![
            Record::Message(asking.clone()),
            finished(&asking, seen.clone(), Content::Blocks(picture)),
        ])
        .await
        .unwrap();
    let transcript = session.load().await.unwrap();
    let expected = CallState::Finished(seen);
    assert_eq!(transcript.call(&"a".into()), Some(&expected));
    append(session, &results).await;
    assert_eq!(messages(session).await.last(), Some(&results));
    let envelope = copy_of(session, "a").await.unwrap();
    assert!(envelope.starts_with(br#"{"__image__":true,"content":[{"type":"image","source":{"#));
}

pub async fn messages_before_the_view_are_loaded_without_content(session: &SessionStore) {
    let mut speaker = Speaker::default();
    let old = [speaker.prompt("one"), speaker.answer("two")];
    let kept = [speaker.prompt("three"), speaker.answer("four")];
    let summary = speaker.says(
        Role::User,
        Origin::summary(Some(kept[0].id.clone())),
        vec![ContentBlock::text("[COMPACTION SUMMARY]\nso far")],
    );
    let new = speaker.answer("five");
    for message in old.iter().chain(&kept).chain([&summary, &new]) {
        append(session, message).await;
    }
    let transcript = session.load().await.unwrap();
    let view = [&summary, &kept[0], &kept[1], &new].map(Arc::clone);
    assert_eq!(transcript.view(), view);
    for (message, old) in transcript.messages().iter().zip(&old) {
        assert_eq!(message.content, []);
        assert_eq!((&message.id, &message.response), (&old.id, &old.response));
    }
}

pub async fn queued_messages_are_delivered_exactly_once_and_in_order(session: &SessionStore) {
    let mut speaker = Speaker::default();
    append(session, &speaker.prompt("go")).await;
    for (kind, text) in [
        (MailKind::Steer, "left"),
        (MailKind::FollowUp, "later"),
        (MailKind::Steer, "right"),
    ] {
        session.send(kind, text.to_owned()).await.unwrap();
    }
    let mail = session.mail(MailKind::Steer).await.unwrap();
    let texts: Vec<_> = mail.iter().map(|mail| mail.content.as_str()).collect();
    assert_eq!(texts, ["left", "right"]);
    // Messages that were not appended are delivered again.
    assert_eq!(session.mail(MailKind::Steer).await.unwrap(), mail);
    for mail in &mail {
        let block = ContentBlock::text(format!("[STEERING] {}", mail.content));
        let message = speaker.says_as(mail.id.clone(), Role::User, Origin::Steering, vec![block]);
        append(session, &message).await;
    }
    assert_eq!(session.mail(MailKind::Steer).await.unwrap(), []);
    let later = session.mail(MailKind::FollowUp).await.unwrap();
    assert_eq!(later[0].content, "later");
    assert_eq!(messages(session).await.last(), speaker.last.as_ref());
}

pub async fn a_queued_message_that_was_appended_before_a_crash_is_not_delivered_again(
    session: &SessionStore,
) {
    let mut speaker = Speaker::default();
    append(session, &speaker.prompt("go")).await;
    let id = session
        .send(MailKind::Steer, "left".to_owned())
        .await
        .unwrap();
    // Appended without having been handed out here, as by a process that died before it could mark the message.
    let block = ContentBlock::text("[STEERING] left");
    append(
        session,
        &speaker.says_as(id, Role::User, Origin::Steering, vec![block]),
    )
    .await;
    assert_eq!(session.mail(MailKind::Steer).await.unwrap(), []);
    session
        .send(MailKind::Steer, "right".to_owned())
        .await
        .unwrap();
    assert_eq!(session.mail(MailKind::Steer).await.unwrap().len(), 1);
}

pub async fn only_events_of_stored_kinds_are_stored(session: &SessionStore) {
    let mut speaker = Speaker::default();
    let prompt = speaker.prompt("go");
    let answer = speaker.answer("done");
    append(session, &prompt).await;
    let event = |kind| Event {
        kind,
        timestamp: 1_700_000_000,
    };
    let call_end = event(EventKind::ApiCallEnd {
        message_id: answer.id.clone(),
        input_tokens: 10,
        output_tokens: 20,
        cache_creation_input_tokens: 30,
        cache_read_input_tokens: 40,
        api_latency_ms: 1234,
        model: "model-1".to_owned(),
        cost_usd: Some(0.1),
        reason: None,
    });
    let tool_end = |output: &str| {
        event(EventKind::ToolCallEnd {
            tool_name: "bash".to_owned(),
            tool_output: output.to_owned(),
            is_error: false,
            duration_ms: 1,
            tool_key: "ls".to_owned(),
            tool_index: 1,
            tool_count: 1,
            tool_lines: None,
        })
    };
    let state = event(EventKind::StateChange {
        from_state: "idle".to_owned(),
        to_state: "processing".to_owned(),
    });
    let delta = event(EventKind::TextDelta {
        text: "do".to_owned(),
    });
    session
        .append(vec![
            Record::Event(call_end.clone()),
            Record::Message(answer.clone()),
            Record::Event(delta),
            Record::Event(tool_end("the whole output")),
            Record::Event(state.clone()),
        ])
        .await
        .unwrap();
    let (events, calls, now) = session
        .read(|tree| Ok((tree.events()?, tree.api_calls()?, tree.state()?)))
        .await
        .unwrap();
    assert_eq!(events, [call_end, tool_end(""), state]);
    assert_eq!(now, "processing");
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].message.as_ref(), Some(&answer.id));
    assert_eq!(calls[0].usage, answer.usage());
}

pub async fn editing_the_tree_moves_the_current_message(session: &SessionStore) {
    let mut speaker = Speaker::default();
    let root = speaker.prompt("root");
    let first = speaker.answer("first");
    let more = speaker.prompt("more");
    let second = Speaker::after(&root).answer("second");
    for message in [&root, &first, &more, &second] {
        append(session, message).await;
    }
    session.checkout(first.id.clone()).await.unwrap();
    assert_eq!(messages(session).await, [root.clone(), first.clone()]);
    assert!(session.checkout(MessageId::from("nobody")).await.is_err());

    // The children of a deleted message become children of its parent.
    session.checkout(more.id.clone()).await.unwrap();
    assert!(session.delete(first.id.clone()).await.unwrap());
    assert!(!session.delete(first.id.clone()).await.unwrap());
    let ids: Vec<_> = messages(session)
        .await
        .iter()
        .map(|message| message.id.clone())
        .collect();
    assert_eq!(ids, [root.id.clone(), more.id.clone()]);

    // Without a recorded current message, the newest leaf is the current one.
    assert_eq!(session.delete_subtree(more.id.clone()).await.unwrap(), 1);
    assert_eq!(messages(session).await, [root.clone(), second]);
    assert_eq!(session.delete_subtree(root.id.clone()).await.unwrap(), 2);
    assert_eq!(messages(session).await, []);
}

async fn check_output(session: &SessionStore, call: &str, text: &str, lines: usize) {
    let page = session
        .output(&call.into(), 1, usize::MAX)
        .await
        .unwrap()
        .unwrap();
    assert_eq!((page.text.as_str(), page.lines), (text, lines));
}

async fn copy_of(session: &SessionStore, call: &str) -> Option<Vec<u8>> {
    let call = ToolUseId::from(call);
    session
        .read(move |tree| {
            let mut bytes = Vec::new();
            let length = tree.copy_output(&call, &mut bytes)?;
            assert_eq!(length.unwrap_or(0), bytes.len() as u64);
            Ok(length.map(|_| bytes))
        })
        .await
        .unwrap()
}
