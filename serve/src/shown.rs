//! What clients see of a session: no secret of the environment, and no more of an output than they can use.

use std::io;

use ah_conversation::{
    Cost, Environment, Head, Hunk, Message, Origin, Proposal, Question, Role, Verification, json,
    neutralise,
};
use ah_desk::{Asked, BegunCall, FileDiff, FilesDiff, RunningCall, SessionSummary};
use serde::Serialize;
use serde_json::{Value, json};

/// Most of an output that a client gets, in bytes.
const OUTPUT: usize = 4 * 1024 * 1024;
/// Bytes behind that place which are looked at for secrets.
const LONGEST_SECRET: usize = 64 * 1024;
/// What is told of the output of a call in progress: the last bytes, and of these the last lines.
const LAST: usize = 4 * 1024;
const LAST_LINES: usize = 12;
/// What a node of the tree shows of a message: characters, and calls.
const NODE_TEXT: usize = 120;
const NODE_TOOLS: usize = 16;

/// Puts what is known of sessions into the form for clients.
#[derive(Debug, Clone)]
pub(crate) struct Shown(Environment);

/// A message of a transcript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Id.
    pub id: String,
    /// Id of the message before it.
    pub parent: Option<String>,
    /// Its number on its branch, from 0.
    pub seq: u32,
    /// Whether the model has said it.
    pub is_answer: bool,
    /// Whether it has what was recorded of the run that it ended.
    pub is_judged: bool,
    /// All of it, as a JSON object on one line.
    pub json: String,
}

/// A message as the tree shows it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Node {
    /// Id.
    pub id: String,
    /// Id of the message before it.
    pub parent: Option<String>,
    /// Its number on its branch, from 0.
    pub seq: u32,
    /// `user` or `assistant`.
    pub role: &'static str,
    /// Why it is in the conversation: `prompt`, `results`, `steering` …
    pub origin: &'static str,
    /// The beginning of what it says.
    pub text: String,
    /// Names of the tools that it calls.
    pub tools: Vec<String>,
    /// Id of the subagent whose conversation it belongs to.
    pub agent: Option<String>,
    /// Time of storing, in milliseconds since 1970.
    pub at_ms: i64,
    /// What the answer used; `None` for messages that no model wrote.
    pub used: Option<Used>,
}

/// What an answer of a model used.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Used {
    /// The model.
    pub model: String,
    /// Tokens of the request, all of them.
    pub input_tokens: u64,
    /// Of these, the ones that were read from the cache.
    pub cached_tokens: u64,
    /// Tokens of the answer.
    pub output_tokens: u64,
    /// Cost in US dollars, if it is known.
    pub cost_usd: Option<f64>,
    /// Time from the request to the end of the answer, in milliseconds.
    pub latency_ms: u64,
}

impl Shown {
    /// Hides the secrets of this environment.
    pub(crate) fn without_secrets_of(environment: Environment) -> Self {
        Self(environment)
    }

    /// Returns a text without secrets.
    pub(crate) fn redacted(&self, text: &str) -> String {
        self.0.redact(text).into_owned()
    }

    /// Returns what a program has written so far without secrets, nor parts of one: the end of one may stand where the text `is_cut`
    /// at its beginning, and the first part of one at its end.
    pub(crate) fn so_far(&self, text: &str, is_cut: bool) -> String {
        let text = match text.split_once('\n') {
            Some((_, whole)) if is_cut => whole,
            _ => text,
        };
        self.redacted(&text[..self.safe_length(text)])
    }

    /// Returns the number of bytes of a text that may be shown before what follows it is known: the rest may be the first
    /// part of a secret.
    pub(crate) fn safe_length(&self, text: &str) -> usize {
        self.0.safe_length(text)
    }

    /// Returns a text without secrets and control characters.
    fn plain(&self, text: &str) -> String {
        neutralise(&self.0.redact(text)).into_owned()
    }

    pub(crate) fn summary(&self, summary: &SessionSummary) -> Value {
        json!({
            "id": summary.id.to_string(),
            "title": self.plain(&summary.title),
            "is_yours": summary.is_known,
            "messages": summary.messages,
            "tokens": summary.tokens,
            "updated_ms": summary.updated.0,
        })
    }

    /// Returns what a check has shown without secrets.
    pub(crate) fn verification(&self, known: &Verification) -> Option<Box<Verification>> {
        json::from_str(&self.redacted(&json::line(known))).ok()
    }

    /// Returns a message, and what was recorded of the run that it ended.
    pub(crate) fn entry(&self, message: &Message, known: Option<&Verification>) -> Entry {
        let json = match known {
            None => json::line(message),
            Some(known) => {
                let mut value = serde_json::to_value(message).unwrap_or_default();
                value["verification"] = known.replayed();
                json::line(&value)
            }
        };
        Entry {
            id: message.id.to_string(),
            parent: message.parent.as_ref().map(ToString::to_string),
            seq: message.seq,
            is_answer: message.role == Role::Assistant,
            is_judged: known.is_some(),
            json: self.redacted(&json),
        }
    }

    pub(crate) fn question(&self, id: u64, question: Question) -> Asked {
        Asked {
            id,
            about: self.redacted(&question.about),
            picks: question.choices,
            proposal: question.proposal.map(|proposal| Proposal {
                about: self.redacted(&proposal.about),
                hunks: self.hunks(proposal.hunks),
            }),
            is_permission: question.is_permission,
        }
    }

    fn hunks(&self, hunks: Vec<Hunk>) -> Vec<Hunk> {
        let hunks = hunks.into_iter().map(|hunk| Hunk {
            lines: { hunk.lines.iter() }
                .map(|line| self.redacted(line))
                .collect(),
            ..hunk
        });
        hunks.collect()
    }

    /// Returns what has become of files, or would.
    pub(crate) fn files(&self, diff: FilesDiff) -> FilesDiff {
        let files = diff.files.into_iter().map(|file| FileDiff {
            hunks: file.hunks.map(|hunks| self.hunks(hunks)),
            ..file
        });
        FilesDiff {
            files: files.collect(),
            unseen: diff.unseen.iter().map(|call| self.plain(call)).collect(),
            ..diff
        }
    }

    /// Returns a call with the last lines of its output so far.
    pub(crate) fn call(&self, call: &BegunCall) -> RunningCall {
        let (bytes, before) = call.output.last(LAST);
        let text = self.redacted(&String::from_utf8_lossy(&bytes));
        // The first line may have been cut, and a secret with it.
        let whole = match before {
            0 => &*text,
            _ => text.split_once('\n').map_or("", |(_, rest)| rest),
        };
        let lines: Vec<_> = whole.lines().collect();
        RunningCall {
            id: call.id.clone(),
            name: self.plain(&call.name),
            about: self.plain(&call.about),
            tail: lines[lines.len().saturating_sub(LAST_LINES)..].join("\n"),
        }
    }

    /// Returns the name of a session.
    pub(crate) fn name(&self, name: &str) -> String {
        self.plain(name)
    }

    pub(crate) fn node(&self, head: &Head) -> Node {
        let message = &head.message;
        let start = self.plain(head.preview.trim());
        let tools = head.tool_uses.iter().take(NODE_TOOLS);
        Node {
            id: message.id.to_string(),
            parent: message.parent.as_ref().map(ToString::to_string),
            seq: message.seq,
            role: match message.role {
                Role::User => "user",
                Role::Assistant => "assistant",
            },
            origin: origin(&message.origin),
            text: start.chars().take(NODE_TEXT).collect(),
            tools: tools.map(|call| self.plain(&call.name)).collect(),
            agent: head.agent_id.clone(),
            at_ms: message.created_at.0,
            used: message.response.as_ref().map(|response| Used {
                model: response.model.clone(),
                input_tokens: response.usage.effective_input(),
                cached_tokens: response.usage.cache_read_input_tokens,
                output_tokens: response.usage.output_tokens,
                cost_usd: response.cost.map(Cost::usd),
                latency_ms: response.latency_ms,
            }),
        }
    }

    /// Returns an output, with a note if something was left out.
    pub(crate) fn output(&self, output: &OutputStart) -> String {
        let mut text = self.redacted(&String::from_utf8_lossy(&output.bytes));
        if output.left_out > 0 {
            // A secret that was cut in two is not known any more: it would be behind this place.
            text.truncate(text.floor_char_boundary(OUTPUT));
            text.push_str("\n[the rest is left out]\n");
        }
        text
    }
}

fn origin(origin: &Origin) -> &'static str {
    match origin {
        Origin::Prompt => "prompt",
        Origin::Model => "model",
        Origin::Results => "results",
        Origin::Steering => "steering",
        Origin::FollowUp => "follow_up",
        Origin::Nudge => "nudge",
        Origin::Continuation => "continuation",
        Origin::Reminder => "reminder",
        Origin::Task => "task",
        Origin::Update(_) => "update",
        Origin::Summary { .. } => "summary",
    }
}

/// The start of an output that may be long.
#[derive(Debug, Default)]
pub(crate) struct OutputStart {
    bytes: Vec<u8>,
    left_out: u64,
}

impl io::Write for OutputStart {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = (OUTPUT + LONGEST_SECRET).saturating_sub(self.bytes.len());
        let kept = bytes.len().min(room);
        self.bytes.extend_from_slice(&bytes[..kept]);
        self.left_out += (bytes.len() - kept) as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ah_desk::FileFate;

    use super::*;

    #[test]
    fn what_is_written_so_far_shows_no_part_of_a_secret() {
        let secret = ("MY_TOKEN".to_owned(), "a-long-secret".to_owned());
        let shown = Shown::without_secrets_of(Environment::new([secret], "/".into()));
        for (text, is_cut, expected) in [
            (
                "one\nkey = a-long-secret\n",
                false,
                "one\nkey = [MY_TOKEN]\n",
            ),
            ("key = a-long-s", false, "key = "),
            ("secret\ntwo\n", true, "two\n"),
        ] {
            assert_eq!(shown.so_far(text, is_cut), expected);
        }
    }

    #[test]
    fn changes_are_shown_without_secrets() {
        let secret = ("MY_TOKEN".to_owned(), "a-long-secret".to_owned());
        let shown = Shown::without_secrets_of(Environment::new([secret], "/".into()));
        let hunks = |line: &str| {
            vec![Hunk {
                old: 1,
                new: 1,
                lines: vec![line.to_owned()],
            }]
        };
        let asked = shown.question(
            1,
            Question {
                about: "a-long-secret".to_owned(),
                choices: Vec::new(),
                is_permission: true,
                proposal: Some(Proposal {
                    about: "of a-long-secret".to_owned(),
                    hunks: hunks("+key = a-long-secret"),
                }),
            },
        );
        assert_eq!(asked.about, "[MY_TOKEN]");
        let proposal = asked.proposal.unwrap();
        assert_eq!(proposal.about, "of [MY_TOKEN]");
        assert_eq!(proposal.hunks, hunks("+key = [MY_TOKEN]"));
        let files = shown.files(FilesDiff {
            files: vec![FileDiff {
                path: "a".to_owned(),
                change: FileFate::Changed,
                added: 0,
                removed: 1,
                hunks: Some(hunks("-key = a-long-secret")),
            }],
            unseen: vec!["bash: echo a-long-secret".to_owned()],
            ..FilesDiff::default()
        });
        assert_eq!(files.files[0].hunks, Some(hunks("-key = [MY_TOKEN]")));
        assert_eq!(files.unseen, ["bash: echo [MY_TOKEN]"]);
    }
}
