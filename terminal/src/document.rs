//! A session as a document: Markdown, HTML, JSON lines. Secrets of the environment are replaced by their names in the
//! latter two; for Markdown the caller does that.

mod html;

use ah_agent::without_agent_id;
use ah_conversation::{ContentBlock, Environment, Message, is_note};
use serde_json::Value;

use crate::message::{Keys, role};

/// Returns the messages as a self-contained HTML page. Secrets are replaced.
pub fn html(name: &str, messages: &[Message], environment: &Environment, keys: &Keys) -> String {
    let messages = redacted(messages, environment);
    html::page(&environment.redact(name), &messages, keys)
}

/// Returns the messages with the names of secrets in their place.
pub fn redacted(messages: &[Message], environment: &Environment) -> Vec<Message> {
    let redacted = messages.iter();
    redacted
        .map(|message| read_back(without_secrets(message, environment)))
        .collect()
}

/// Returns the messages as JSON lines. Secrets are replaced before the texts are encoded, since encoding may change
/// them.
pub fn jsonl(messages: &[Message], environment: &Environment) -> String {
    let line = |message: &Message| format!("{}\n", without_secrets(message, environment));
    messages.iter().map(line).collect()
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

/// Returns the messages as Markdown.
pub fn markdown(name: &str, messages: &[Message]) -> String {
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
        Origin, Response, ResultBlock, Role, StopReason, Time, ToolResult, ToolUse, Usage,
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

    fn environment() -> Environment {
        let variables = [("MY_SECRET".to_owned(), "quite \\secret".to_owned())];
        Environment::new(variables, std::path::PathBuf::new())
    }

    #[test]
    fn markdown_shows_messages_calls_and_results() {
        let page = markdown("Session", &conversation());
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
"#);
    }

    #[test]
    fn html_is_self_contained_and_inert() {
        let mut messages = conversation();
        messages[0].content = vec![
            ContentBlock::text("<script>alert(1)</script> **Look** ![x](http://a.b/c.png)"),
            ContentBlock::Image(ah_conversation::Image {
                media_type: "image/png".to_owned(),
                data: "QUJD".to_owned(),
            }),
            ContentBlock::Image(ah_conversation::Image {
                media_type: "image/png".to_owned(),
                data: "\"><script>".to_owned(),
            }),
        ];
        let messages = messages
            .iter()
            .map(|message| read_back(without_secrets(message, &environment())))
            .collect::<Vec<_>>();
        let page = html::page("<b>Session</b>", &messages, &Keys::none());
        let body = &page[page.find("<body>").unwrap()..];
        insta::assert_snapshot!(body, @r#"
<body>
<h1>&lt;b&gt;Session&lt;/b&gt;</h1>
<section class="user" id="m0">
<div class="meta">@0 user · <time>1970-01-01T00:00:00</time></div>
<p>&lt;script&gt;alert(1)&lt;/script&gt; **Look** ![x](http://a.b/c.png)</p>
<p><img alt="a picture" src="data:image/png;base64,QUJD"></p>
<p class="dim">a picture: image/png</p>
</section>
<section class="assistant" id="m1">
<div class="meta">@1 assistant · m · <time>1970-01-01T00:00:00</time></div>
<details><summary class="dim">thinking</summary>
<p>Hm.
So.</p>
</details>
<details><summary><span class="done">✓</span> bash cat README.md <span class="dim">(0.0s)</span></summary>
<pre>{
  <span class="quoted">&quot;command&quot;</span>: <span class="quoted">&quot;cat README.md&quot;</span>
}
</pre>
<pre>```sh
export KEY=&quot;[MY_SECRET]&quot;
```
</pre>
</details>
</section>
<footer>Written by ah 0.1.0.</footer>
</body>
</html>
"#);
        let head = &page[..page.len() - body.len()];
        assert!(head.contains("default-src 'none'"), "{head}");
        assert!(!page.contains("<script") && !page.contains("src=\"http"));
    }

    #[test]
    fn html_marks_what_nobody_has_typed() {
        let [typed, told, ..] = &mut conversation()[..] else {
            panic!("there are three messages");
        };
        typed.content = vec![
            ContentBlock::text("[ah] The user undid changes."),
            ContentBlock::text("Go on."),
        ];
        told.role = Role::User;
        told.origin = Origin::Reminder;
        told.content = vec![ContentBlock::text("Write the file.")];
        told.response = None;
        let page = html::page("Session", &[typed.clone(), told.clone()], &Keys::none());
        let body = &page[page.find("<section").unwrap()..page.find("<footer").unwrap()];
        insta::assert_snapshot!(body, @r#"
<section class="user" id="m0">
<div class="meta">@0 user · <time>1970-01-01T00:00:00</time></div>
<details class="note"><summary class="dim">note to the model</summary>
<p>[ah] The user undid changes.</p>
</details>
<p>Go on.</p>
</section>
<section class="note" id="m1">
<div class="meta">@1 ah · <time>1970-01-01T00:00:00</time></div>
<p>Write the file.</p>
</section>
"#);
    }

    #[test]
    fn json_lines_are_the_messages_without_secrets() {
        let lines = jsonl(&conversation(), &environment());
        let read: Vec<Message> = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(read[..2], conversation()[..2]);
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
