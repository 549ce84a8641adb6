//! A prompt: what the editor sends, in the form that ours have. Pure.

use std::path::Path;

use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::{ContentBlock, EmbeddedResourceResource, ResourceLink};
use ah_conversation::{Goal, NOTE};
use ah_desk::Prompt;

use crate::fault::invalid;

/// Returns the prompt with these blocks; `folder` is the working directory.
pub(crate) fn of(blocks: Vec<ContentBlock>, folder: &Path) -> Result<Prompt, Error> {
    let mut prompt = Prompt::default();
    for block in blocks {
        match block {
            ContentBlock::Text(text) => prompt.text.push_str(&text.text),
            ContentBlock::Image(image) => prompt.pictures.push(image.data),
            ContentBlock::ResourceLink(link) => name_in(&mut prompt.text, &mention(&link, folder)),
            ContentBlock::Resource(resource) => match resource.resource {
                EmbeddedResourceResource::TextResourceContents(content) => {
                    let place = escaped(&content.uri);
                    let text = content.text;
                    prompt.attached.push(format!(
                        "{NOTE} Attached by the editor:\n<resource uri=\"{place}\">\n{text}\n</resource>"
                    ));
                    if prompt.text.is_empty() || prompt.text.ends_with(char::is_whitespace) {
                        name_in(&mut prompt.text, &shown(&content.uri, folder));
                    }
                }
                _ => return Err(invalid("only text can be attached")),
            },
            _ => return Err(invalid("a prompt consists of text, pictures and resources")),
        }
    }
    let is_empty = prompt.text.trim().is_empty();
    if is_empty && prompt.attached.is_empty() && prompt.pictures.is_empty() {
        return Err(invalid("the prompt is empty"));
    }
    Ok(prompt)
}

/// Adds a name to the text. Names are not typed: none makes a goal of it, or is part of the command of one.
fn name_in(text: &mut String, name: &str) {
    if Goal::in_prompt(&format!("{text}{name}")).is_some() {
        text.push('\n');
    }
    text.push_str(name);
}

/// Returns how a linked resource is named in the text: a file as `@PATH`, anything else by its name and address.
fn mention(link: &ResourceLink, folder: &Path) -> String {
    match file(&link.uri) {
        Some(path) if !path.contains(char::is_whitespace) => {
            let path = Path::new(&path);
            format!("@{}", path.strip_prefix(folder).unwrap_or(path).display())
        }
        _ => format!("{} ({})", link.name, link.uri),
    }
}

/// Returns the place of an attached text as the prompt names it.
fn shown(uri: &str, folder: &Path) -> String {
    match file(uri) {
        Some(path) => {
            let path = Path::new(&path);
            path.strip_prefix(folder)
                .unwrap_or(path)
                .display()
                .to_string()
        }
        None => uri.to_owned(),
    }
}

/// Returns the path of a `file:` address.
fn file(uri: &str) -> Option<String> {
    let path = uri.strip_prefix("file://")?;
    let path = path.split(['#', '?']).next().unwrap_or(path);
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((before, code)) = rest.split_once('%') {
        bytes.extend_from_slice(before.as_bytes());
        bytes.push(u8::from_str_radix(code.get(..2)?, 16).ok()?);
        rest = code.get(2..)?;
    }
    bytes.extend_from_slice(rest.as_bytes());
    let path = String::from_utf8(bytes).ok()?;
    path.starts_with('/').then_some(path)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('"', "&quot;")
        .replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use agent_client_protocol::v1::schema::{
        AudioContent, EmbeddedResource, ImageContent, TextResourceContents,
    };

    use super::*;

    fn prompt(blocks: Vec<ContentBlock>) -> Result<Prompt, String> {
        of(blocks, Path::new("/work")).map_err(|error| error.message)
    }

    fn link(name: &str, uri: &str) -> ContentBlock {
        ContentBlock::ResourceLink(ResourceLink::new(name, uri))
    }

    #[test]
    fn files_are_named_as_in_a_typed_prompt() {
        for (uri, expected) in [
            ("file:///work/src/main.rs", "see @src/main.rs"),
            ("file:///else/a%2Bb.rs#L3", "see @/else/a+b.rs"),
            ("file:///work/a%20b.rs", "see it (file:///work/a%20b.rs)"),
            ("https://example.org/x", "see it (https://example.org/x)"),
            ("file:///work/%zz", "see it (file:///work/%zz)"),
            ("file:///work/%é", "see it (file:///work/%é)"),
        ] {
            let found = prompt(vec!["see ".into(), link("it", uri)]).map(|prompt| prompt.text);
            assert_eq!(found.as_deref(), Ok(expected), "{uri}");
        }
    }

    /// Names come from elsewhere: none runs as a part of a check, or sets one.
    #[test]
    fn a_name_is_no_part_of_a_goal() {
        let typed = || "/goal mend it --until make ".into();
        let evil = || link("a", "file:///work/;evil");
        for (blocks, expected) in [
            (vec![typed(), evil()], Some((true, Some("make")))),
            (
                vec!["/goal mend it ".into(), link("x --until evil", "http://x/")],
                Some((true, None)),
            ),
            (vec![link("/goal x --until evil", "http://x/")], None),
            (vec![link("a", "/goal --until evil")], None),
            (
                vec!["/go".into(), link("al --until evil", "http://x/")],
                None,
            ),
        ] {
            let text = prompt(blocks).unwrap().text;
            let goal = match Goal::in_prompt(&text) {
                Some(Goal::Is(words, command)) => Some((!words.is_empty(), command)),
                _ => None,
            };
            assert_eq!(goal, expected, "{text}");
        }
    }

    #[test]
    fn attached_texts_and_pictures_stand_beside_the_text() {
        let content = TextResourceContents::new("fn main() {}", "file:///work/\"a\".rs");
        let resource =
            EmbeddedResource::new(EmbeddedResourceResource::TextResourceContents(content));
        let found = prompt(vec![
            "explain ".into(),
            ContentBlock::Resource(resource),
            ContentBlock::Image(ImageContent::new("AAAA", "image/png")),
        ]);
        let expected = Prompt {
            text: "explain \"a\".rs".to_owned(),
            attached: vec![
                "[ah] Attached by the editor:\n<resource uri=\"file:///work/&quot;a&quot;.rs\">\nfn main() {}\n</resource>"
                    .to_owned(),
            ],
            pictures: vec!["AAAA".to_owned()],
            ..Prompt::default()
        };
        assert_eq!(found, Ok(expected));
    }

    #[test]
    fn what_no_model_takes_is_refused() {
        let audio = ContentBlock::Audio(AudioContent::new("AAAA", "audio/wav"));
        assert!(prompt(vec![audio]).is_err());
        assert!(prompt(vec![" ".into()]).is_err());
        assert!(prompt(Vec::new()).is_err());
    }
}
