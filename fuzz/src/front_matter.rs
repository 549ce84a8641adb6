//! Front matter of Markdown files, in commands and skills.

use std::collections::BTreeMap;
use std::path::Path;

use ah_agent::commands::SlashCommand;
use ah_agent::skills::Skill;
use ah_conversation::Layer;
use ah_conversation::front_matter::{self, WordList};
use serde_json::Value;

/// Any text is parsed or refused with a line number within it; the body is a part of it.
pub fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let lines = text.split('\n').count() as u64;
    let location = Path::new("commands/x.md");
    let command = SlashCommand::parse(&text, Path::new("x.md"), location, Layer::Project);
    let skill = Skill::parse(&text, location, Layer::Project);
    let faults = [
        front_matter::read::<BTreeMap<String, Value>>(&text).map(|(_, body)| check(&text, body)),
        front_matter::read::<BTreeMap<String, WordList>>(&text).map(|(_, body)| check(&text, body)),
        command.map(|command| check(&text, &command.body)),
        skill.map(|skill| check(&text, &skill.body)),
    ];
    for fault in faults.into_iter().filter_map(Result::err) {
        assert!((1..=lines + 1).contains(&fault.line), "{fault} of {lines}");
    }
}

fn check(text: &str, body: &str) {
    assert!(text.contains(body), "{body:?} is not part of {text:?}");
}
