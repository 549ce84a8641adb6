mod exported;

use std::collections::HashSet;

use ah_conversation::{ContentBlock, Origin, Role};
use serde_json::json;

use super::*;

const CLAUDE: &str = r#"{"type":"summary","summary":"x","leafUuid":"00000000-0000-4000-8000-000000000004"}
{"parentUuid":null,"isSidechain":false,"cwd":"/w","sessionId":"9b0f0a52-0000-4000-8000-000000000000","type":"user","message":{"role":"user","content":"List it"},"uuid":"00000000-0000-4000-8000-000000000001","timestamp":"2026-11-20T10:00:00.000Z"}
{"parentUuid":"00000000-0000-4000-8000-000000000001","type":"assistant","sessionId":"9b0f0a52-0000-4000-8000-000000000000","message":{"id":"m1","role":"assistant","model":"claude-opus-5-5","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls"}}],"stop_reason":"tool_use","usage":{"input_tokens":5,"output_tokens":3}},"uuid":"00000000-0000-4000-8000-000000000002","timestamp":"2026-11-20T10:00:01.000Z"}
{"parentUuid":"00000000-0000-4000-8000-000000000002","type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"a b"}]},"uuid":"00000000-0000-4000-8000-000000000003","timestamp":"2026-11-20T10:00:02.000Z"}
{"parentUuid":"00000000-0000-4000-8000-000000000003","type":"assistant","message":{"id":"m2","role":"assistant","model":"claude-opus-5-5","content":[{"type":"text","text":"a and b"}],"stop_reason":"end_turn","usage":{}},"uuid":"00000000-0000-4000-8000-000000000004","timestamp":"2026-11-20T10:00:03.000Z"}
"#;

const CODEX: &str = r##"{"timestamp":"2026-11-20T10:00:00.000Z","type":"session_meta","payload":{"id":"0199f000-0000-7000-8000-000000000000","cwd":"/w","cli_version":"0.60.0"}}
{"timestamp":"2026-11-20T10:00:00.000Z","type":"turn_context","payload":{"cwd":"/w","model":"gpt-6"}}
{"timestamp":"2026-11-20T10:00:00.000Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"# AGENTS.md instructions for /w"},{"type":"input_text","text":"<environment_context>x</environment_context>"}]}}
{"timestamp":"2026-11-20T10:00:01.000Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"List it"}]}}
{"timestamp":"2026-11-20T10:00:01.000Z","type":"event_msg","payload":{"type":"user_message","message":"List it"}}
{"timestamp":"2026-11-20T10:00:02.000Z","type":"response_item","payload":{"type":"reasoning","summary":[{"type":"summary_text","text":"I look"}],"encrypted_content":"gAAA"}}
{"timestamp":"2026-11-20T10:00:02.000Z","type":"response_item","payload":{"type":"function_call","name":"exec_command","arguments":"{\"cmd\":\"ls\"}","call_id":"c1"}}
{"timestamp":"2026-11-20T10:00:02.000Z","type":"response_item","payload":{"type":"custom_tool_call","name":"apply_patch","input":"*** Begin","call_id":"c2"}}
{"timestamp":"2026-11-20T10:00:03.000Z","type":"response_item","payload":{"type":"function_call_output","call_id":"c1","output":"a b"}}
{"timestamp":"2026-11-20T10:00:03.000Z","type":"response_item","payload":{"type":"custom_tool_call_output","call_id":"c2","output":[{"type":"input_text","text":"done"}]}}
{"timestamp":"2026-11-20T10:00:04.000Z","type":"event_msg","payload":{"type":"token_count","info":{"last_token_usage":{"input_tokens":10,"cached_input_tokens":4,"output_tokens":2}}}}
{"timestamp":"2026-11-20T10:00:05.000Z","type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a and b"}]}}
"##;

const PI: &str = r#"{"type":"session","version":3,"id":"0199f000-0000-7000-8000-000000000001","timestamp":"2026-11-20T10:00:00.000Z","cwd":"/w"}
{"type":"message","id":"a","parentId":null,"timestamp":"2026-11-20T10:00:00.000Z","message":{"role":"user","content":"List it"}}
{"type":"message","id":"x","parentId":"a","timestamp":"2026-11-20T10:00:00.000Z","message":{"role":"assistant","content":[{"type":"text","text":"another branch"}]}}
{"type":"message","id":"b","parentId":"a","timestamp":"2026-11-20T10:00:01.000Z","message":{"role":"assistant","provider":"anthropic","model":"claude-opus-5-5","content":[{"type":"thinking","thinking":"hm"},{"type":"toolCall","id":"t1","name":"bash","arguments":{"command":"ls"}}],"usage":{"input":1,"output":2,"cacheRead":3,"cacheWrite":4},"stopReason":"toolUse"}}
{"type":"message","id":"c","parentId":"b","timestamp":"2026-11-20T10:00:02.000Z","message":{"role":"toolResult","toolCallId":"t1","toolName":"bash","content":[{"type":"text","text":"a b"}],"isError":false}}
{"type":"session_info","id":"d","parentId":"c","timestamp":"2026-11-20T10:00:02.000Z","name":"listing"}
{"type":"message","id":"e","parentId":"d","timestamp":"2026-11-20T10:00:03.000Z","message":{"role":"assistant","content":[{"type":"text","text":"a and b"}],"stopReason":"stop"}}
"#;

fn read_as(program: Program, content: &str) -> Imported {
    match program {
        Program::Claude => claude::read(content, "9b0f0a52-0000-4000-8000-000000000000"),
        Program::Codex => codex::read(content),
        _ => pi::read(content),
    }
}

#[test]
fn a_line_with_half_of_a_character_is_kept() {
    for (program, content) in [
        (Program::Claude, CLAUDE),
        (Program::Codex, CODEX),
        (Program::Pi, PI),
    ] {
        let cut = content.replace("\"a b\"", "\"a \\ud83d b\"");
        assert_ne!(cut, content);
        let expected = shown(&read_as(program, content)).replace("a b\n", "a \u{fffd} b\n");
        assert_eq!(shown(&read_as(program, &cut)), expected, "{program:?}");
    }
}

/// What was said, a line each.
fn shown(imported: &Imported) -> String {
    let mut text = String::new();
    for message in &imported.messages {
        for block in &message.content {
            let shown = match block {
                ContentBlock::Text { text } => text.clone(),
                ContentBlock::Thinking { thinking, .. } => format!("({thinking})"),
                ContentBlock::ToolUse(call) => format!("{} {}", call.name, call.input.to_value()),
                ContentBlock::ToolResult(result) => {
                    format!("{}: {}", result.tool_name, result.text())
                }
                other => format!("{other:?}"),
            };
            let who = if message.role == Role::User { '>' } else { '<' };
            text.push_str(&format!("{who} {shown}\n"));
        }
    }
    text
}

#[test]
fn each_program_is_told_by_its_lines() {
    for (content, program) in [
        (CLAUDE, Some(Program::Claude)),
        (CODEX, Some(Program::Codex)),
        (PI, Some(Program::Pi)),
        (
            "{\"id\":\"x\",\"timestamp\":\"\",\"instructions\":null}\n",
            Some(Program::Codex),
        ),
        ("{}\nnonsense\n", None),
        ("", None),
    ] {
        assert_eq!(program_of(content), program, "{content}");
    }
}

#[test]
fn a_session_has_what_was_said() {
    let codex = read_as(Program::Codex, CODEX);
    assert_eq!(
        shown(&codex),
        "> List it\n< (I look)\n< exec_command {\"cmd\":\"ls\"}\n< apply_patch {\"input\":\"*** Begin\"}\n> exec_command: a \
         b\n> apply_patch: done\n< a and b\n"
    );
    let usage = codex.messages[1]
        .response
        .as_ref()
        .map(|response| response.usage);
    assert_eq!(
        usage.map(|usage| (
            usage.input_tokens,
            usage.cache_read_input_tokens,
            usage.output_tokens
        )),
        Some((6, 4, 2))
    );
    assert_eq!(
        (codex.cwd.as_deref(), &*codex.uuid),
        (Some("/w"), "0199f000-0000-7000-8000-000000000000")
    );
    let pi = read_as(Program::Pi, PI);
    assert_eq!(
        shown(&pi),
        "> List it\n< (hm)\n< bash {\"command\":\"ls\"}\n> bash: a b\n< a and b\n"
    );
    assert_eq!(pi.name.as_deref(), Some("listing"));
    let claude = read_as(Program::Claude, CLAUDE);
    assert_eq!(
        shown(&claude),
        "> List it\n< Bash {\"command\":\"ls\"}\n> Bash: a b\n< a and b\n"
    );
    for imported in [codex, pi, claude] {
        assert_eq!(imported.left, [""; 0]);
    }
}

/// Wherever a file is damaged, what is left is a conversation that a model accepts.
#[test]
fn of_a_broken_file_what_is_left_is_saved() {
    for (program, content) in [
        (Program::Claude, CLAUDE),
        (Program::Codex, CODEX),
        (Program::Pi, PI),
    ] {
        let lines: Vec<_> = content.lines().collect();
        for at in 0..lines.len() {
            let mut broken = lines.clone();
            let half = &lines[at][..lines[at].len() / 2];
            broken[at] = half;
            let imported = read_as(program, &broken.join("\n"));
            assert_eq!(
                imported.left.first().map(String::as_str),
                Some(&*format!("line {}: not JSON, or cut off", at + 1))
            );
            check(&imported);
            broken.remove(at);
            check(&read_as(program, &broken.join("\n")));
            check(&read_as(program, &lines[at..].join("\n")));
            broken.truncate(at);
            check(&read_as(program, &broken.join("\n")));
        }
        // One that nobody can link to its answer: the rest is there.
        let first = lines
            .iter()
            .position(|line| line.contains("List it"))
            .unwrap();
        let mut broken = lines.clone();
        broken.remove(first + 1);
        assert!(
            shown(&read_as(program, &broken.join("\n"))).starts_with("> List it\n"),
            "{program}"
        );
    }
}

/// Fails unless each call is answered in the message behind it, and each result answers a call.
fn check(imported: &Imported) {
    let ids = imported.messages.iter().map(|message| message.id.clone());
    assert_eq!(ids.collect::<HashSet<_>>().len(), imported.messages.len());
    for (at, message) in imported.messages.iter().enumerate() {
        assert_eq!(message.seq as usize, at);
        assert_eq!(
            message.parent.as_ref(),
            at.checked_sub(1)
                .map(|before| &imported.messages[before].id)
        );
        assert!(!message.content.is_empty());
        let calls = message.content.iter().filter_map(|block| match block {
            ContentBlock::ToolUse(call) => Some(call.id.clone()),
            _ => None,
        });
        let next = imported.messages.get(at + 1);
        let behind = next.into_iter().flat_map(|next| &next.content);
        let answers = behind.filter_map(|block| match block {
            ContentBlock::ToolResult(result) => Some(result.tool_use_id.clone()),
            _ => None,
        });
        let (calls, answers): (HashSet<_>, HashSet<_>) = (calls.collect(), answers.collect());
        assert_eq!(calls, answers, "{}", shown(imported));
        assert_eq!(
            message.origin == Origin::Results,
            matches!(message.content[0], ContentBlock::ToolResult(_))
        );
    }
}

#[test]
fn a_stored_session_of_opencode_is_put_together() {
    let storage = tempfile::tempdir().unwrap();
    let put = |name: &str, value: Value| {
        let path = storage.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, value.to_string()).unwrap();
    };
    use serde_json::json;
    put(
        "session/p/ses_1.json",
        json!({"id": "ses_1", "directory": "/w", "title": "listing", "time": {"created": 1}}),
    );
    put(
        "message/ses_1/msg_1.json",
        json!({"id": "msg_1", "role": "user", "time": {"created": 1000}}),
    );
    put(
        "part/msg_1/prt_1.json",
        json!({"type": "text", "text": "List it"}),
    );
    put(
        "message/ses_1/msg_2.json",
        json!({"id": "msg_2", "role": "assistant", "providerID": "anthropic", "modelID": "m", "time": {"created": 2000}, "tokens": {"input": 1, "output": 2, "cache": {"read": 3}}}),
    );
    put("part/msg_2/prt_1.json", json!({"type": "step-start"}));
    put(
        "part/msg_2/prt_2.json",
        json!({"type": "reasoning", "text": "hm"}),
    );
    put(
        "part/msg_2/prt_3.json",
        json!({"type": "tool", "callID": "t1", "tool": "bash", "state": {"status": "completed", "input": {"command": "ls"}, "output": "a b"}}),
    );
    put("part/msg_2/prt_4.json", json!({"type": "step-finish"}));
    put(
        "part/msg_2/prt_5.json",
        json!({"type": "text", "text": "a and b"}),
    );
    put(
        "part/msg_2/prt_6.json",
        json!({"type": "tool", "callID": "t2", "tool": "edit", "state": {"status": "running", "input": {}}}),
    );
    put(
        "message/ses_1/msg_3.json",
        json!({"id": "../msg_1", "role": "user", "time": {"created": 3000}}),
    );
    std::fs::write(storage.path().join("part/msg_2/prt_7.json"), "{").unwrap();
    let files = session_files(storage.path());
    assert_eq!(files.len(), 1);
    let imported = read(&files[0]).unwrap();
    assert_eq!(
        shown(&imported),
        "> List it\n< (hm)\n< bash {\"command\":\"ls\"}\n> bash: a b\n< a and b\n< edit {}\n> edit: [the imported session has no \
         result of this call]\n"
    );
    assert!(
        imported.left.len() == 1 && imported.left[0].contains("prt_7.json"),
        "{:?}",
        imported.left
    );
    check(&imported);
    let again = read(&files[0]).unwrap();
    assert!(ah_engine::sessions::plan::is_uuid(&again.uuid) && again.uuid == imported.uuid);
}

const GEMINI: &str = r#"{"sessionId":"0199f000-0000-7000-8000-000000000002","projectHash":"x","startTime":"2026-11-20T10:00:00.000Z","messages":[
{"id":"1","timestamp":"2026-11-20T10:00:00.000Z","type":"user","content":"List it"},
{"id":"2","timestamp":"2026-11-20T10:00:01.000Z","type":"info","content":"Updated"},
{"id":"3","timestamp":"2026-11-20T10:00:01.000Z","type":"gemini","content":"","model":"gemini-3-pro","thoughts":[{"subject":"Look","description":"I look"}],"tokens":{"input":10,"cached":4,"output":2,"thoughts":1},"toolCalls":[{"id":"t1","name":"run_shell_command","args":{"command":"ls"},"status":"success","result":[{"functionResponse":{"id":"t1","name":"run_shell_command","response":{"output":"a b"}}}]},{"id":"t2","name":"read_file","args":{},"status":"error","result":[{"functionResponse":{"id":"t2","name":"read_file","response":{"error":"none"}}}]}]},
{"id":"4","timestamp":"2026-11-20T10:00:03.000Z","type":"gemini","content":[{"text":"a and b"}],"model":"gemini-3-pro"}]}"#;

const QWEN: &str = r#"{"uuid":"1","parentUuid":null,"sessionId":"0199f000-0000-7000-8000-000000000003","timestamp":"2026-11-20T10:00:00.000Z","type":"user","cwd":"/w","version":"0.5","message":{"role":"user","parts":[{"text":"List it"}]}}
{"uuid":"2","parentUuid":"1","sessionId":"0199f000-0000-7000-8000-000000000003","timestamp":"2026-11-20T10:00:01.000Z","type":"assistant","cwd":"/w","model":"qwen3","message":{"role":"model","parts":[{"text":"I look","thought":true},{"functionCall":{"id":"t1","name":"run_shell_command","args":{"command":"ls"}}}]},"usageMetadata":{"promptTokenCount":10,"cachedContentTokenCount":4,"candidatesTokenCount":2}}
{"uuid":"3","parentUuid":"2","sessionId":"0199f000-0000-7000-8000-000000000003","timestamp":"2026-11-20T10:00:02.000Z","type":"tool_result","cwd":"/w","message":{"role":"user","parts":[{"functionResponse":{"id":"t1","name":"run_shell_command","response":{"output":"a b"}}}]}}
{"uuid":"4","parentUuid":"3","sessionId":"0199f000-0000-7000-8000-000000000003","timestamp":"2026-11-20T10:00:03.000Z","type":"assistant","cwd":"/w","model":"qwen3","message":{"role":"model","parts":[{"text":"a and b"}]}}
"#;

#[test]
fn sessions_of_gemini_and_qwen_are_read() {
    let gemini = gemini::read(&json::from_str(GEMINI).unwrap()).unwrap();
    assert_eq!(
        shown(&gemini),
        "> List it\n< (Look\nI look)\n< run_shell_command {\"command\":\"ls\"}\n< read_file {}\n> run_shell_command: a b\n> read_file: none\n< a and b\n"
    );
    assert_eq!(program_of(QWEN), Some(Program::Qwen));
    let qwen = gemini::read_lines(QWEN);
    assert_eq!(
        shown(&qwen),
        "> List it\n< (I look)\n< run_shell_command {\"command\":\"ls\"}\n> run_shell_command: a b\n< a and b\n"
    );
    assert_eq!(qwen.cwd.as_deref(), Some("/w"));
    for imported in [gemini, qwen] {
        assert_eq!(imported.left, [""; 0]);
        let usage = imported.messages[1].response.as_ref().unwrap().usage;
        assert_eq!((usage.input_tokens, usage.cache_read_input_tokens), (6, 4));
        check(&imported);
    }
}

/// Gemini CLI appends what changes, and goes back; Qwen Code begins another branch.
#[test]
fn logs_of_gemini_and_branches_of_qwen_are_read_as_their_programs_read_them() {
    let line = |id: &str, kind: &str, more: Value| {
        let mut line = json!({"id": id, "type": kind, "timestamp": "2026-11-20T10:00:00.000Z"});
        line.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        line.to_string()
    };
    let call = json!({"id": "t", "name": "ls", "args": {}, "result": [{"functionResponse": {"id": "t", "response": {"output": "a"}}}]});
    let lines = [
        json!({"sessionId": "s", "projectHash": "x", "kind": "main"}).to_string(),
        line("1", "user", json!({"content": [{"text": "List it"}]})),
        line("2", "gemini", json!({"content": "I look"})),
        json!({"$set": {"summary": "a list"}}).to_string(),
        line(
            "2",
            "gemini",
            json!({"content": "I look", "toolCalls": [call]}),
        ),
        line(
            "3",
            "user",
            json!({"content": [{"functionResponse": {"id": "t", "response": {"output": "a"}}}]}),
        ),
        line("4", "user", json!({"content": "Wrong"})),
        line("5", "gemini", json!({"content": "Wrong, too"})),
        json!({"$rewindTo": "4"}).to_string(),
        line("6", "user", json!({"content": "And now?"})),
    ];
    let log = lines.join("\n");
    assert_eq!(program_of(&log), Some(Program::Gemini));
    let gemini = gemini::read_log(&log).unwrap();
    assert_eq!(
        shown(&gemini),
        "> List it\n< I look\n< ls {}\n> ls: a\n> And now?\n"
    );
    assert_eq!(gemini.left, [""; 0]);
    check(&gemini);

    let said = |id: &str, parent: Option<&str>, text: &str| {
        json!({"uuid": id, "parentUuid": parent, "sessionId": "s", "type": "user", "message": {"parts": [{"text": text}]}})
            .to_string()
    };
    for (lines, expected) in [
        (
            [
                ("1", None, "a"),
                ("2", Some("1"), "b"),
                ("3", Some("1"), "c"),
            ],
            "> a\n> c\n",
        ),
        // A line is lost: what was before it counts.
        (
            [
                ("1", None, "a"),
                ("2", Some("1"), "b"),
                ("4", Some("3"), "c"),
            ],
            "> a\n> b\n> c\n",
        ),
    ] {
        let lines = lines.map(|(id, parent, text)| said(id, parent, text));
        let qwen = gemini::read_lines(&lines.join("\n"));
        assert_eq!(shown(&qwen), expected);
    }
}

/// The frame of `zstd` for a text, whose content is stored without compression.
fn zstd_of(text: &str) -> Vec<u8> {
    let mut frame = vec![0x28, 0xB5, 0x2F, 0xFD, 0xA0];
    let length = u32::try_from(text.len()).unwrap();
    frame.extend(length.to_le_bytes());
    frame.extend(&(length << 3 | 1).to_le_bytes()[..3]);
    frame.extend(text.as_bytes());
    frame
}

#[test]
fn compressed_rollouts_of_codex_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rollout-x.jsonl.zst");
    std::fs::write(&path, zstd_of(CODEX)).unwrap();
    let imported = read(&path).unwrap();
    assert_eq!(
        imported.messages.len(),
        read_as(Program::Codex, CODEX).messages.len()
    );
    assert_eq!(shown(&imported), shown(&read_as(Program::Codex, CODEX)));
    assert_eq!(session_files(folder.path()), std::slice::from_ref(&path));
    let cut = zstd_of(CODEX);
    std::fs::write(&path, &cut[..cut.len() / 2]).unwrap();
    read(&path).unwrap_err();
    uncompressed(zstd_of(CODEX), 100).unwrap_err();
}
