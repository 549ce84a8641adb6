//! Thinking and tool calls that a server leaves in the text: `<think>…</think>`, `<tool_call>{…}</tool_call>`. A plain value
//! that is fed text and gives the same parts however the text is cut. It is a quirk that has to be turned on, since a
//! model may write about such tags. The forms of calls are read in `text_calls`.

use serde::Deserialize;
use serde_json::Value;

use super::text_calls::CallForm;

/// Tags that a server leaves in the text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct TextTags {
    /// `<think>`.
    pub think: ThinkTags,
    /// Form of tool calls.
    pub tool_call: CallForm,
}

/// Thinking in the text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThinkTags {
    /// None: the tags are text.
    #[default]
    None,
    /// Between `<think>` and `</think>`.
    Paired,
    /// From the start of the answer to `</think>`: the prompt's template has opened it.
    Opened,
}

/// A part of an answer's text.
#[derive(Debug, Clone, PartialEq)]
pub enum TextPart {
    /// Text.
    Text(String),
    /// Reasoning.
    Thinking(String),
    /// A tool call.
    Call {
        /// Name of the tool.
        name: String,
        /// Arguments: an object, or JSON in a string.
        arguments: Value,
    },
}

const THINK: [&str; 2] = ["<think>", "</think>"];
/// Beginnings and ends of the channels of Harmony for reasoning and answer.
const ANALYSIS: [&str; 2] = ["<|channel|>analysis<|message|>", "<|end|>"];
const OTHER_MARKS: [&str; 5] = [
    "<|start|>assistant",
    "<|channel|>final<|message|>",
    "<|channel|>commentary<|message|>",
    "<|end|>",
    "<|return|>",
];

/// Splits the text of one answer.
#[derive(Debug, Default)]
pub struct Tags {
    tags: TextTags,
    inside: Inside,
    /// Text that may be the start of a tag, or white space beside one; the whole call within its marks.
    held: String,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Inside {
    /// Text; white space at its start is dropped.
    #[default]
    Start,
    Text,
    Think,
    /// Reasoning in a channel of Harmony.
    Analysis,
    /// A call behind this mark.
    Call(&'static str),
}

impl Tags {
    /// A decoder for an answer of a server that leaves `tags` in its text.
    pub fn new(tags: TextTags) -> Self {
        let inside = match tags.think {
            ThinkTags::Opened => Inside::Think,
            ThinkTags::None | ThinkTags::Paired => Inside::Start,
        };
        Self {
            tags,
            inside,
            held: String::new(),
        }
    }

    /// Accepts the next text; returns the parts that it completes. Adjacent parts of the same kind may follow one another.
    pub fn feed(&mut self, text: String) -> Vec<TextPart> {
        if self.tags == TextTags::default() {
            return vec![TextPart::Text(text)];
        }
        self.held.push_str(&text);
        let mut parts = Vec::new();
        while self.step(&mut parts) {}
        parts.retain(|part| !part.is_empty());
        parts
    }

    /// Ends the answer; returns the rest.
    pub fn finish(&mut self) -> Vec<TextPart> {
        let held = std::mem::take(&mut self.held);
        let part = match self.inside {
            Inside::Start | Inside::Text => TextPart::Text(held),
            Inside::Think | Inside::Analysis => TextPart::Thinking(held),
            // A server may take the end of the call for the end of the answer.
            Inside::Call(mark) => {
                self.inside = Inside::Text;
                return self.calls(mark, &held, "");
            }
        };
        self.inside = Inside::Text;
        let parts = vec![part];
        parts.into_iter().filter(|part| !part.is_empty()).collect()
    }

    /// Takes the next part off the held text; returns whether there may be another.
    fn step(&mut self, parts: &mut Vec<TextPart>) -> bool {
        if self.inside == Inside::Start {
            let text = self.held.trim_start().len();
            self.held.drain(..self.held.len() - text);
            if text == 0 {
                return false;
            }
        }
        let tags = match self.inside {
            Inside::Start | Inside::Text => self.openings(),
            Inside::Think => vec![(THINK[1], Inside::Start)],
            Inside::Analysis => vec![(ANALYSIS[1], Inside::Start)],
            Inside::Call(mark) => {
                let marks = self.tags.tool_call.marks().iter();
                let ends = marks.filter(|(begin, end)| *begin == mark && !end.is_empty());
                ends.map(|(_, end)| (*end, Inside::Start)).collect()
            }
        };
        let found = tags
            .iter()
            .filter_map(|(tag, then)| Some((self.held.find(tag)?, *tag, *then)))
            .min_by_key(|(at, ..)| *at);
        match found {
            Some((at, tag, then)) => {
                let rest = self.held.split_off(at + tag.len());
                self.held.truncate(at);
                let before = std::mem::replace(&mut self.held, rest);
                match self.inside {
                    Inside::Start | Inside::Text => {
                        parts.push(TextPart::Text(before.trim_end().to_owned()));
                    }
                    Inside::Think | Inside::Analysis => parts.push(TextPart::Thinking(before)),
                    Inside::Call(mark) => parts.extend(self.calls(mark, &before, tag)),
                }
                self.inside = then;
                true
            }
            None => {
                let ready = match self.inside {
                    Inside::Call(_) => 0,
                    Inside::Think | Inside::Analysis => ready(&self.held, &tags, false),
                    Inside::Start | Inside::Text => ready(&self.held, &tags, true),
                };
                let rest = self.held.split_off(ready);
                let text = std::mem::replace(&mut self.held, rest);
                if !text.is_empty() {
                    parts.push(match self.inside {
                        Inside::Think | Inside::Analysis => TextPart::Thinking(text),
                        _ => {
                            self.inside = Inside::Text;
                            TextPart::Text(text)
                        }
                    });
                }
                false
            }
        }
    }

    /// The tags that may open in text, and what each leads into.
    fn openings(&self) -> Vec<(&'static str, Inside)> {
        let think = self.tags.think != ThinkTags::None;
        let think = think.then_some((THINK[0], Inside::Think));
        let form = self.tags.tool_call;
        let calls = form.marks().iter();
        let mut openings: Vec<_> = { think.into_iter() }
            .chain(calls.map(|(begin, _)| (*begin, Inside::Call(begin))))
            .collect();
        if form == CallForm::GptOss {
            openings.push((ANALYSIS[0], Inside::Analysis));
            openings.extend(OTHER_MARKS.map(|mark| (mark, Inside::Start)));
        }
        if form.may_be_whole_answer() && self.inside == Inside::Start && self.held.starts_with('{')
        {
            openings.push(("{", Inside::Call("")));
        }
        openings
    }

    /// The calls in `content` between a mark and its end, or all of it as text.
    fn calls(&self, mark: &str, content: &str, end: &str) -> Vec<TextPart> {
        // The brace is part of the call.
        let read = match mark {
            "" => self.tags.tool_call.calls(mark, &format!("{{{content}")),
            mark => self.tags.tool_call.calls(mark, content),
        };
        let text = || {
            let mark = if mark.is_empty() { "{" } else { mark };
            vec![TextPart::Text(format!("{mark}{content}{end}"))]
        };
        let parts = read.map(|calls| {
            let calls = calls.into_iter();
            calls
                .map(|(name, arguments)| TextPart::Call { name, arguments })
                .collect()
        });
        parts.unwrap_or_else(text)
    }
}

/// Length of the part of `text` that no tag can begin in; `drops_white` if white space before a tag is no text.
fn ready(text: &str, tags: &[(&str, Inside)], drops_white: bool) -> usize {
    let begins_tag = |at: &usize| tags.iter().any(|(tag, _)| tag.starts_with(&text[*at..]));
    let places = text.match_indices(['<', '[', '{']).map(|(at, _)| at);
    let end = places
        .filter(|at| begins_tag(at))
        .min()
        .unwrap_or(text.len());
    if drops_white {
        text[..end].trim_end().len()
    } else {
        end
    }
}

impl TextPart {
    fn is_empty(&self) -> bool {
        match self {
            Self::Text(text) | Self::Thinking(text) => text.is_empty(),
            Self::Call { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const ALL: TextTags = TextTags {
        think: ThinkTags::Paired,
        tool_call: CallForm::Tags,
    };

    /// The parts of an answer that comes in these pieces, those of one kind put together.
    fn parts<'a>(tags: TextTags, pieces: impl IntoIterator<Item = &'a str>) -> Vec<TextPart> {
        let mut decoder = Tags::new(tags);
        let mut all: Vec<_> = pieces
            .into_iter()
            .flat_map(|piece| decoder.feed(piece.to_owned()))
            .collect();
        all.extend(decoder.finish());
        let mut joined: Vec<TextPart> = Vec::new();
        for part in all {
            match (joined.last_mut(), part) {
                (Some(TextPart::Text(known)), TextPart::Text(more))
                | (Some(TextPart::Thinking(known)), TextPart::Thinking(more)) => {
                    known.push_str(&more);
                }
                (_, part) => joined.push(part),
            }
        }
        joined
    }

    fn text(text: &str) -> TextPart {
        TextPart::Text(text.to_owned())
    }

    fn thinking(text: &str) -> TextPart {
        TextPart::Thinking(text.to_owned())
    }

    fn calls(name: &str, arguments: Value) -> TextPart {
        TextPart::Call {
            name: name.to_owned(),
            arguments,
        }
    }

    #[test]
    fn tags_become_thinking_and_calls() {
        let opened = TextTags {
            think: ThinkTags::Opened,
            ..ALL
        };
        for (tags, answer, expected) in [
            (ALL, "Hello", vec![text("Hello")]),
            (
                ALL,
                "<think>\nHm.\n</think>\n\nHello ",
                vec![thinking("\nHm.\n"), text("Hello ")],
            ),
            (
                opened,
                "Hm.</think>\n\nHello",
                vec![thinking("Hm."), text("Hello")],
            ),
            (
                ALL,
                "Look:\n<tool_call>\n{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}\n</tool_call>\n\
                 <tool_call>{\"name\": \"ls\", \"parameters\": \"{}\"}</tool_call>",
                vec![
                    text("Look:"),
                    calls("read", json!({"path": "a"})),
                    calls("ls", json!("{}")),
                ],
            ),
            (
                ALL,
                "<tool_call>{\"name\": \"ls\"}",
                vec![calls("ls", json!({}))],
            ),
            // What is no call, and what is no tag, is text.
            (
                ALL,
                "<tool_call>ls</tool_call>!",
                vec![text("<tool_call>ls</tool_call>!")],
            ),
            (ALL, "a <b> <thin", vec![text("a <b> <thin")]),
            (ALL, "<think>Hm", vec![thinking("Hm")]),
            (
                TextTags::default(),
                " <think>Hm.</think>",
                vec![text(" <think>Hm.</think>")],
            ),
            (
                TextTags {
                    tool_call: CallForm::None,
                    ..ALL
                },
                "<tool_call>{\"name\": \"ls\"}</tool_call>",
                vec![text("<tool_call>{\"name\": \"ls\"}</tool_call>")],
            ),
        ] {
            assert_eq!(parts(tags, [answer]), expected, "{answer}");
        }
    }

    #[test]
    fn calls_are_read_in_the_form_of_each_model() {
        let ls = || calls("ls", json!({"path": "a"}));
        for (form, answer, expected) in [
            (
                CallForm::Tags,
                "Look:\n<tool_call>\n<function=ls>\n<parameter=path>\na\n</parameter>\n</function>\n</tool_call>",
                vec![text("Look:"), ls()],
            ),
            (
                CallForm::Tags,
                "<function=write>\n<parameter=path>\na\n</parameter>\n<parameter=content>\n x\n\ny\n</parameter>\n</function>",
                vec![calls("write", json!({"path": "a", "content": " x\n\ny"}))],
            ),
            (
                CallForm::Tags,
                "<tool_call>{\"name\": \"ls\", \"arguments\": {\"path\": \"a\"}</tool_call>",
                vec![ls()],
            ),
            (
                CallForm::Llama,
                "{\"name\": \"ls\", \"parameters\": {\"path\": \"a\"}}",
                vec![ls()],
            ),
            (
                CallForm::Llama,
                "<|python_tag|>{\"name\": \"ls\", \"parameters\": {\"path\": \"a\"}}; {\"name\": \"pwd\"}<|eom_id|>",
                vec![ls(), calls("pwd", json!({}))],
            ),
            (
                CallForm::Llama,
                "<function=ls>{\"path\": \"a\"}</function>",
                vec![ls()],
            ),
            (
                CallForm::Llama,
                "{\"answer\": 42}",
                vec![text("{\"answer\": 42}")],
            ),
            (
                CallForm::Llama,
                "It is {\"name\": \"ls\"}",
                vec![text("It is {\"name\": \"ls\"}")],
            ),
            (
                CallForm::Mistral,
                "[TOOL_CALLS][{\"name\": \"ls\", \"arguments\": {\"path\": \"a\"}}, {\"name\": \"pwd\", \"arguments\": {}}]</s>",
                vec![ls(), calls("pwd", json!({}))],
            ),
            (
                CallForm::Mistral,
                "Well.[TOOL_CALLS]ls[ARGS]{\"path\": \"a\"}[TOOL_CALLS]pwd[CALL_ID]123456789[ARGS]{}",
                vec![text("Well."), ls(), calls("pwd", json!({}))],
            ),
            (
                CallForm::Mistral,
                "See [TOOL_CALLS] there",
                vec![text("See[TOOL_CALLS] there")],
            ),
            (
                CallForm::DeepSeek,
                "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>ls\n```json\n{\"path\": \"a\"}\n```<｜tool▁call▁end｜>\n\
                 <｜tool▁call▁begin｜>pwd<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
                vec![ls(), calls("pwd", json!({}))],
            ),
            (
                CallForm::GptOss,
                "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to=functions.ls \
                 <|constrain|>json<|message|>{\"path\": \"a\"}<|call|>",
                vec![thinking("Hm."), ls()],
            ),
            (
                CallForm::GptOss,
                "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Done.<|return|>",
                vec![thinking("Hm."), text("Done.")],
            ),
        ] {
            let tags = TextTags {
                think: ThinkTags::None,
                tool_call: form,
            };
            assert_eq!(parts(tags, [answer]), expected, "{answer}");
        }
    }

    fn fragment() -> impl Strategy<Value = &'static str> {
        prop::sample::select(vec![
            "<think>",
            "</think>",
            "<tool_call>",
            "</tool_call>",
            "{\"name\": \"ls\"}",
            "<",
            "<th",
            "</",
            " ",
            "\n",
            "a",
            "é",
            "<tool_",
            "call>",
            "{",
            "<function=ls>",
            "</function>",
            "[TOOL_CALLS]",
            "ls[ARGS]",
            "<｜tool▁calls▁begin｜>",
            "ls<｜tool▁sep｜>{}",
            "<｜tool▁calls▁end｜>",
            "<|channel|>",
            "commentary to=functions.ls <|message|>{}",
            "<|call|>",
            "analysis<|message|>",
            "<|end|>",
        ])
    }

    proptest! {
        #[test]
        fn cuts_change_nothing(
            fragments in prop::collection::vec(fragment(), 0..12),
            think in prop::sample::select(vec![ThinkTags::None, ThinkTags::Paired, ThinkTags::Opened]),
            tool_call in prop::sample::select(vec![
                CallForm::None, CallForm::Tags, CallForm::Llama, CallForm::Mistral, CallForm::DeepSeek, CallForm::GptOss,
            ]),
            cuts in prop::collection::vec(0usize..80, 0..8),
        ) {
            let tags = TextTags { think, tool_call };
            let answer = fragments.concat();
            let mut cuts: Vec<_> = cuts.into_iter().map(|at| answer.floor_char_boundary(at)).collect();
            cuts.sort_unstable();
            let mut from = 0;
            let mut pieces = Vec::new();
            for at in cuts {
                pieces.push(&answer[from..at]);
                from = at;
            }
            pieces.push(&answer[from..]);
            prop_assert_eq!(parts(tags, pieces), parts(tags, [answer.as_str()]));
        }
    }
}
