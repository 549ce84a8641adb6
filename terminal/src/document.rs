//! A session as a document: Markdown, HTML, JSON lines. Secrets of the environment are replaced by their names, but by
//! [`markdown`], whose caller does that.

mod html;

use std::ffi::OsStr;
use std::path::Path;

use ah_agent::without_agent_id;
use ah_conversation::{
    ContentBlock, Environment, Message, StoreError, Verdicts, is_note, json, neutralise,
};
use ah_store::Tree;
use serde_json::Value;

use crate::message::role;

/// Returns a session in the form that the ending of the file stands for, else as Markdown: as HTML the whole tree, else
/// the current branch. Secrets are replaced.
///
/// # Errors
///
/// If the session cannot be read.
pub fn for_file(
    path: &Path,
    id: &str,
    tree: &Tree,
    environment: &Environment,
) -> Result<String, StoreError> {
    Ok(match path.extension().and_then(OsStr::to_str) {
        Some("html" | "htm") => html(tree, environment)?,
        Some("jsonl") => jsonl(tree, environment)?,
        _ => markdown_of(tree, id, environment)?,
    })
}

/// Returns the current branch as Markdown, titled by the session's name or else its id. Secrets are replaced.
///
/// # Errors
///
/// If the session cannot be read.
pub fn markdown_of(tree: &Tree, id: &str, environment: &Environment) -> Result<String, StoreError> {
    let name = tree.name()?.unwrap_or_else(|| format!("Session {id}"));
    let page = markdown(&name, &current_branch(tree)?, &tree.verdicts()?);
    Ok(environment.redact(&page).into_owned())
}

/// Returns the messages of the current branch.
///
/// # Errors
///
/// If the session cannot be read.
pub fn current_branch(tree: &Tree) -> Result<Vec<Message>, StoreError> {
    tree.current()?
        .map_or_else(|| Ok(Vec::new()), |current| tree.branch(&current))
}

/// Returns the whole tree as a self-contained HTML page, which opens at the current branch. Secrets are replaced.
///
/// # Errors
///
/// If the session cannot be read.
pub fn html(tree: &Tree, environment: &Environment) -> Result<String, StoreError> {
    let current = tree.current()?.map(|id| id.to_string());
    let name = tree.name()?;
    let messages = tree.messages()?;
    Ok(html_of(
        name.as_deref(),
        &messages,
        &tree.verdicts()?,
        current.as_deref(),
        environment,
    ))
}

fn html_of(
    name: Option<&str>,
    messages: &[Message],
    verdicts: &Verdicts,
    current: Option<&str>,
    environment: &Environment,
) -> String {
    let messages = messages.iter();
    let messages: Vec<_> = messages
        .map(|message| judged(message, verdicts, environment))
        .collect();
    let name = name.map(|name| environment.redact(name));
    html::page(name.as_deref(), &messages, current)
}

/// Returns the messages with the names of secrets in their place.
pub fn redacted(messages: &[Message], environment: &Environment) -> Vec<Message> {
    let redacted = messages.iter();
    redacted
        .map(|message| read_back(without_secrets(message, environment)))
        .collect()
}

/// Returns the messages of the current branch as JSON lines. Secrets are replaced before the texts are encoded, since encoding
/// may change them.
///
/// # Errors
///
/// If the session cannot be read.
pub fn jsonl(tree: &Tree, environment: &Environment) -> Result<String, StoreError> {
    let messages = current_branch(tree)?;
    Ok(jsonl_of(&messages, &tree.verdicts()?, environment))
}

fn jsonl_of(messages: &[Message], verdicts: &Verdicts, environment: &Environment) -> String {
    let line = |message: &Message| json::line(&judged(message, verdicts, environment)) + "\n";
    messages.iter().map(line).collect()
}

/// Returns a message, and what the check has shown of the run that it ended, if there was one.
fn judged(message: &Message, verdicts: &Verdicts, environment: &Environment) -> Value {
    let mut value = without_secrets(message, environment);
    if let Some(known) = verdicts.get(&message.id) {
        let mut known = known.replayed();
        redact(&mut known, environment);
        value["verification"] = known;
    }
    value
}

fn without_secrets(message: &Message, environment: &Environment) -> Value {
    let mut value = serde_json::to_value(message).expect("a message has only names as keys");
    redact(&mut value, environment);
    value
}

fn read_back(message: Value) -> Message {
    serde_json::from_value(message).expect("texts stay texts where secrets are replaced")
}

fn redact(value: &mut Value, environment: &Environment) {
    match value {
        Value::String(text) => *text = environment.redact(text).into_owned(),
        Value::Array(items) => items.iter_mut().for_each(|item| redact(item, environment)),
        Value::Object(entries) => entries
            .values_mut()
            .for_each(|value| redact(value, environment)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns the messages as Markdown, each with what the check has shown of the run that it ended. Secrets are not replaced.
pub fn markdown(name: &str, messages: &[Message], verdicts: &Verdicts) -> String {
    let mut page = format!("# {name}\n");
    for message in messages {
        let model = message
            .response
            .as_ref()
            .map_or_else(String::new, |response| format!(" ({})", response.model));
        page.push_str(&format!(
            "\n## @{} {}{model}\n",
            message.seq,
            role(message.role)
        ));
        for block in &message.content {
            page.push('\n');
            page.push_str(&paragraph(block));
        }
        if let Some(known) = verdicts.get(&message.id) {
            page.push_str(&format!(
                "\n*{}*\n",
                neutralise(&known.replayed_line()).replace('\n', " ")
            ));
        }
    }
    page
}

fn paragraph(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text { text } if is_note(text) => {
            text.lines().map(|line| format!("> {line}\n")).collect()
        }
        ContentBlock::Text { text } => format!("{}\n", text.trim_end()),
        ContentBlock::Thinking { thinking, .. } => {
            thinking.lines().map(|line| format!("> {line}\n")).collect()
        }
        ContentBlock::RedactedThinking { .. } => "> (redacted thinking)\n".to_owned(),
        ContentBlock::Image(image) => format!("*picture: {}*\n", image.media_type),
        ContentBlock::ToolUse(call) => {
            let input = call.input.to_value();
            format!(
                "**{}**\n\n{}",
                call.name,
                fenced("json", &format!("{input:#}"))
            )
        }
        ContentBlock::ToolResult(result) => {
            let state = if result.is_error { "error" } else { "result" };
            format!(
                "*{state} of {}*\n\n{}",
                result.tool_name,
                fenced("", without_agent_id(&result.text()))
            )
        }
        ContentBlock::Other { raw } => fenced("json", &format!("{raw:#}")),
    }
}

/// Returns `text` as a code block whose fence is longer than any in the text.
fn fenced(language: &str, text: &str) -> String {
    let longest = text
        .lines()
        .map(|line| line.trim_start().chars().take_while(|c| *c == '`').count())
        .max();
    let fence = "`".repeat(longest.unwrap_or(0).max(2) + 1);
    format!(
        "{fence}{language}\n{}\n{fence}\n",
        text.trim_end_matches('\n')
    )
}

#[cfg(test)]
mod tests {
    use ah_conversation::{
        Evidence, Origin, Response, ResultBlock, Role, StopReason, Time, ToolResult, ToolUse,
        Usage, Verification,
    };
    use serde_json::json;

    use super::*;

    fn conversation() -> Vec<Message> {
        let message = |seq: u32, role, origin, content, response| Message {
            id: format!("m{seq}").into(),
            parent: seq.checked_sub(1).map(|seq| format!("m{seq}").into()),
            seq,
            role,
            origin,
            created_at: Time(0),
            content,
            response,
        };
        let response = Response {
            stop_reason: StopReason::ToolUse,
            usage: Usage::default(),
            cost: None,
            model: "m".to_owned(),
            provider: "script".to_owned(),
            latency_ms: 1,
            request_id: None,
            opaque: None,
        };
        let call = ToolUse {
            id: "t".into(),
            name: "bash".to_owned(),
            input: json!({"command": "cat README.md"}).into(),
        };
        let result = ToolResult {
            tool_use_id: "t".into(),
            tool_name: "bash".to_owned(),
            content: vec![ResultBlock::Text {
                text: "```sh\nexport KEY=\"quite \\secret\"\n```\n".to_owned(),
            }],
            is_error: false,
            duration_ms: 3,
            details: None,
            lines: None,
        };
        vec![
            message(
                0,
                Role::User,
                Origin::Prompt,
                vec![ContentBlock::text("Look.")],
                None,
            ),
            message(
                1,
                Role::Assistant,
                Origin::Model,
                vec![
                    ContentBlock::Thinking {
                        thinking: "Hm.\nSo.".to_owned(),
                        signature: None,
                    },
                    ContentBlock::ToolUse(call),
                ],
                Some(response),
            ),
            message(
                2,
                Role::User,
                Origin::Results,
                vec![ContentBlock::ToolResult(result)],
                None,
            ),
        ]
    }

    /// The run that ends with the last message was not verified.
    fn verdicts() -> Verdicts {
        let mut known = Verification::not_tried("check 'quite \\secret'", 1);
        known.evidence = Evidence::Claimed;
        [("m2".into(), known)].into()
    }

    fn environment() -> Environment {
        let variables = [("MY_SECRET".to_owned(), "quite \\secret".to_owned())];
        Environment::new(variables, std::path::PathBuf::new())
    }

    #[test]
    fn markdown_shows_messages_calls_and_results() {
        let page = markdown("Session", &conversation(), &verdicts());
        insta::assert_snapshot!(environment().redact(&page), @r#"
# Session

## @0 user

Look.

## @1 assistant (m)

> Hm.
> So.

**bash**

```json
{
  "command": "cat README.md"
}
```

## @2 user

*result of bash*

````
```sh
export KEY="[MY_SECRET]"
```
````

*claimed, but `check '[MY_SECRET]'` did not pass: it did not run, in 0.0 s (as recorded; not checked again)*
"#);
    }

    #[test]
    fn html_is_self_contained_and_inert() {
        let mut messages = conversation();
        messages[0].content = vec![ContentBlock::text(
            "</script><script>alert(1)</script><!-- http://a.b/c.png",
        )];
        let page = html_of(
            Some("<b>Session</b>"),
            &messages,
            &verdicts(),
            None,
            &environment(),
        );
        let (before, rest) = page.split_once(html::DATA).unwrap();
        let (data, after) = rest.split_once("</script>").unwrap();
        assert!(!data.contains('<') && !data.contains("quite"), "{data}");
        let held: Value = serde_json::from_str(data).unwrap();
        assert_eq!(held["name"], "<b>Session</b>");
        let text = messages[0].text();
        assert_eq!(held["messages"][0]["content"][0]["text"], text.as_str());
        assert_eq!(held["messages"][0]["verification"], Value::Null);
        let known = &held["messages"][2]["verification"];
        assert_eq!(known["command"], "check '[MY_SECRET]'");
        assert_eq!(
            (&known["evidence"], &known["is_replayed"]),
            (&json!("claimed"), &json!(true))
        );
        insta::assert_snapshot!(after, @r"

</body>
</html>
");
        // Nothing but what the policy names by its hash runs, and nothing is loaded.
        assert_eq!(before.matches("<script").count(), 1);
        assert!(!before.contains(" src=") && !before.contains("href=\"page"));
        let policy = before
            .lines()
            .find(|line| line.contains("Content-Security-Policy"));
        let policy = policy.unwrap();
        assert!(
            policy.contains("default-src 'none'; script-src 'sha256-"),
            "{policy}"
        );
        assert!(!policy.contains("unsafe") && !policy.contains("connect-src"));
    }

    #[test]
    fn json_lines_are_the_messages_without_secrets() {
        let lines = jsonl_of(&conversation(), &verdicts(), &environment());
        let read: Vec<Message> = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(read[..2], conversation()[..2]);
        assert_eq!(lines.matches("is_replayed").count(), 1);
        assert!(
            read[2]
                .tool_results()
                .next()
                .unwrap()
                .text()
                .contains("export KEY=\"[MY_SECRET]\"")
        );
    }
}
