//! A hook that asks an address: the payload is the body of a request, and the answer has the words of a command's output.

use std::time::Duration;

use ah_agent::hooks::{
    Hook, HookAnswer, HookEvent, HookPost, HookReply, HookSetting, Matcher, OnFailure,
};
use ah_conversation::{Environment, Rule, ToolUseId, json};
use async_trait::async_trait;
use serde_json::Value;

/// Maximum number of bytes read of an answer.
const MAX_ANSWER: usize = 1024 * 1024;
/// Headers that follow from the body.
const OF_THE_BODY: [&str; 2] = ["content-length", "transfer-encoding"];

/// An address that is asked at an event.
pub struct PostHook {
    setting: HookSetting,
    /// Scheme, host and port.
    name: String,
    url: String,
    headers: Vec<(String, String)>,
    timeout: Duration,
    http: ah_http::Options,
}

impl PostHook {
    /// Creates the hook that `post` of `setting` describes. Only the variables that it names are put into its headers.
    pub fn new(
        setting: &HookSetting,
        post: &HookPost,
        timeout: Duration,
        environment: &Environment,
    ) -> Self {
        let value = |name: &str| {
            let is_named = post.variables.iter().any(|it| it == name);
            environment.get(name).filter(|_| is_named)
        };
        let of_the_body = |name: &str| OF_THE_BODY.contains(&&*name.trim().to_lowercase());
        let own = post.headers.iter().filter(|(name, _)| !of_the_body(name));
        let mut headers: Vec<_> = own
            .map(|(name, text)| (name.clone(), filled(text, value)))
            .collect();
        let is_kind = |(name, _): &(String, String)| name.eq_ignore_ascii_case("content-type");
        if !headers.iter().any(is_kind) {
            headers.push(("content-type".to_owned(), "application/json".to_owned()));
        }
        Self {
            setting: setting.clone(),
            name: post.address().0,
            url: post.url.clone(),
            headers,
            timeout,
            http: ah_http::Options::from_variables(|name| environment.get(name)),
        }
    }

    async fn post(&self, input: &Value) -> Result<HookReply, String> {
        // The name in the place of the address: there may be a password in it.
        let client = ah_http::client(&self.http, &self.url)
            .map_err(|error| error.to_string().replace(&self.url, &self.name))?;
        let mut request = client.post(&self.url).body(json::line(input));
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let mut answer = request
            .send()
            .await
            .map_err(|error| error.without_url().to_string())?;
        if !answer.status().is_success() {
            return Err(format!("it answers {}", answer.status()));
        }
        let mut body = Vec::new();
        while let Some(piece) =
            { answer.chunk().await }.map_err(|error| error.without_url().to_string())?
        {
            body.extend_from_slice(&piece);
            if body.len() > MAX_ANSWER {
                return Err(format!("its answer has more than {MAX_ANSWER} bytes"));
            }
        }
        match HookReply::of_output(self.setting.event, &body) {
            HookReply::Text(_) => Err("its answer is not a JSON object".to_owned()),
            reply => Ok(reply),
        }
    }
}

#[async_trait]
impl Hook for PostHook {
    fn event(&self) -> HookEvent {
        self.setting.event
    }

    fn matcher(&self) -> &Matcher {
        &self.setting.matcher
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> &'static str {
        "hook"
    }

    fn condition(&self) -> Option<&Rule> {
        self.setting.condition.as_ref()
    }

    fn on_failure(&self) -> Option<OnFailure> {
        self.setting.on_failure
    }

    async fn ask(&self, input: &Value, _: Option<&ToolUseId>) -> HookAnswer {
        let seconds = self.timeout.as_secs_f64();
        let reply = match tokio::time::timeout(self.timeout, self.post(input)).await {
            Ok(Ok(reply)) => reply,
            Ok(Err(error)) => HookReply::no_answer(error),
            Err(_) => HookReply::no_answer(format!("it timed out after {seconds} s")),
        };
        reply.into()
    }
}

/// Replaces `$NAME` and `${NAME}` by the value, or by nothing, and leaves out what would end a header.
fn filled<'a>(text: &str, value: impl Fn(&str) -> Option<&'a str>) -> String {
    let (mut filled, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once('$') {
        filled.push_str(before);
        let (open, body) = match after.strip_prefix('{') {
            Some(body) => (true, body),
            None => (false, after),
        };
        let is_of_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
        let end = body.find(|c| !is_of_name(c)).unwrap_or(body.len());
        let (name, tail) = body.split_at(end);
        let tail = if open {
            tail.strip_prefix('}')
        } else {
            Some(tail)
        };
        match tail {
            Some(tail) if !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit()) => {
                filled.push_str(value(name).unwrap_or_default());
                rest = tail;
            }
            _ => {
                filled.push('$');
                rest = after;
            }
        }
    }
    filled.push_str(rest);
    filled.retain(|c| !matches!(c, '\r' | '\n' | '\0'));
    filled
}

#[cfg(test)]
mod tests {
    use super::filled;

    #[test]
    fn headers_have_the_variables_that_are_named() {
        let value = |name: &str| match name {
            "KEY" => Some("k\r\n1"),
            _ => None,
        };
        for (text, expected) in [
            ("Bearer $KEY", "Bearer k1"),
            ("${KEY}x", "k1x"),
            ("$KEY_2 $OTHER.", " ."),
            ("5$ $5 $key ${KEY ${}", "5$ $5 $key ${KEY ${}"),
        ] {
            assert_eq!(filled(text, value), expected, "{text}");
        }
    }
}
