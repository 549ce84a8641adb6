//! Messages of opencode 2, a row each, in the form that its first generation exports. Pure.
//!
//! The kinds and fields are those of its `session-message.ts` in November 2026.

use serde_json::{Value, json};

/// Returns the message of a row: its kind, and its data. `None` if it is nothing that was said.
pub(super) fn message(id: &str, kind: &str, data: &Value) -> Option<Value> {
    let text = |text: &str| json!({"type": "text", "text": text});
    let word = |key: &str| data[key].as_str().unwrap_or_default();
    let said = |role: &str, parts: Vec<Value>| {
        let info = json!({"id": id, "role": role, "time": data["time"]});
        Some(json!({"info": info, "parts": parts}))
    };
    match kind {
        "user" => {
            let files = data["files"].as_array().into_iter().flatten();
            let files = files.map(|file| json!({"type": "file", "url": file["uri"]}));
            said(
                "user",
                [text(word("text"))].into_iter().chain(files).collect(),
            )
        }
        "synthetic" | "skill" => said("user", vec![text(word("text"))]),
        "shell" => {
            let output = &data["output"];
            let output = output.as_str().or_else(|| output["output"].as_str());
            let told = format!("$ {}\n{}", word("command"), output.unwrap_or_default());
            said("user", vec![text(&told)])
        }
        "assistant" => {
            let content = data["content"].as_array().into_iter().flatten();
            let mut message = said("assistant", content.map(part).collect())?;
            let info = &mut message["info"];
            info["providerID"] = data["model"]["providerID"].clone();
            info["modelID"] = data["model"]["id"].clone();
            info["tokens"] = data["tokens"].clone();
            info["error"] = data["error"].clone();
            Some(message)
        }
        "compaction" if data["status"] == "completed" => {
            let parts = ["summary", "recent"].map(word).into_iter();
            let parts = parts.filter(|part| !part.is_empty()).map(text);
            let mut message = said("assistant", parts.collect())?;
            message["info"]["summary"] = json!(true);
            Some(message)
        }
        _ => None,
    }
}

/// Returns a part of an answer. Texts and thoughts are as they were.
fn part(part: &Value) -> Value {
    if part["type"] != "tool" {
        return part.clone();
    }
    let state = &part["state"];
    // While it was written, the input is a text that is not whole.
    let input = Some(&state["input"]).filter(|input| input.is_object());
    let content = state["content"].as_array().into_iter().flatten();
    let texts: Vec<_> = content.filter_map(|part| part["text"].as_str()).collect();
    let error = state["error"]["message"].as_str().map(str::to_owned);
    json!({
        "type": "tool",
        "callID": part["id"],
        "tool": part["name"],
        "state": {
            "status": state["status"],
            "input": input.cloned().unwrap_or_else(|| json!({})),
            "output": texts.join("\n"),
            "error": error.unwrap_or_else(|| texts.join("\n")),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_what_was_said() {
        let time = json!({"created": 1});
        let image = "data:image/png;base64,AA";
        let tool = |id: &str, state: Value| json!({"type": "tool", "id": id, "name": "bash", "state": state});
        let told = |id: &str, state: Value| json!({"type": "tool", "callID": id, "tool": "bash", "state": state});
        let answer = json!({"model": {"id": "m", "providerID": "p"}, "content": [
            {"type": "reasoning", "text": "hm"},
            tool("c", json!({"status": "completed", "input": {"a": 1}, "content": [{"type": "text", "text": "x"}]})),
            tool("d", json!({"status": "error", "input": {}, "error": {"message": "no"}})),
            tool("e", json!({"status": "streaming", "input": "{\"a"})),
        ]});
        let answered = json!([
            {"type": "reasoning", "text": "hm"},
            told("c", json!({"status": "completed", "input": {"a": 1}, "output": "x", "error": "x"})),
            told("d", json!({"status": "error", "input": {}, "output": "", "error": "no"})),
            told("e", json!({"status": "streaming", "input": {}, "output": "", "error": ""})),
        ]);
        let text = |text: &str| json!({"type": "text", "text": text});
        for (kind, mut data, expected) in [
            (
                "user",
                json!({"text": "hi", "files": [{"uri": image, "mime": "image/png"}]}),
                Some(("user", json!([text("hi"), {"type": "file", "url": image}]))),
            ),
            (
                "synthetic",
                json!({"text": "note"}),
                Some(("user", json!([text("note")]))),
            ),
            (
                "shell",
                json!({"command": "ls", "output": {"output": "a"}}),
                Some(("user", json!([text("$ ls\na")]))),
            ),
            ("assistant", answer, Some(("assistant", answered))),
            (
                "compaction",
                json!({"status": "completed", "summary": "all", "recent": ""}),
                Some(("assistant", json!([text("all")]))),
            ),
            ("compaction", json!({"status": "failed"}), None),
            ("idle", json!({"outcome": "succeeded"}), None),
            ("model-switched", json!({}), None),
        ] {
            data["time"] = time.clone();
            let made = message("msg_1", kind, &data);
            let made = made.as_ref().map(|made| {
                assert_eq!(made["info"]["time"], time);
                (
                    made["info"]["role"].as_str().unwrap(),
                    made["parts"].clone(),
                )
            });
            assert_eq!(made, expected, "{kind}");
        }
    }
}
