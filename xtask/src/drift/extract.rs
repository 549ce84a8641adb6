//! Takes names out of the texts that vendors publish: the members of a union of TypeScript, the fields of an interface,
//! or whatever a regular expression finds. Pure. Declarations are found by their layout, which generators keep.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use regex::Regex;
use serde::Deserialize;

/// Fields whose literal names the member of a union, the first that it has.
const TAGS: [&str; 2] = ["subtype", "type"];

/// What is taken out of a file.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Take {
    /// The members of a union, or of a field that is one: literals, and of objects their `subtype` or `type`, or else
    /// their own name.
    Union(String),
    /// The fields of an interface, an object or an enumeration.
    Fields(String),
    /// The first group of each match of a regular expression.
    Pattern(String),
    /// The models of LiteLLM's list that belong into the catalogue.
    Models,
}

impl Take {
    /// Returns what the file `text` has, in alphabetical order.
    ///
    /// # Errors
    /// If it has nothing: then it was not understood.
    pub fn of(&self, text: &str) -> Result<BTreeSet<String>> {
        let found = match self {
            Self::Union(name) => {
                let definition = definition(text, name)?;
                let mut members = BTreeSet::new();
                add_members(text, definition, &mut members)?;
                members
            }
            Self::Fields(name) => fields(definition(text, name)?)?,
            Self::Pattern(pattern) => {
                let matches = Regex::new(pattern)?;
                let matches = matches.captures_iter(text);
                matches
                    .filter_map(|found| Some(found.get(1)?.as_str().to_owned()))
                    .collect()
            }
            Self::Models => crate::models::names(text)?,
        };
        (!found.is_empty())
            .then_some(found)
            .with_context(|| format!("nothing is found by {self:?}"))
    }
}

/// Returns what the type, the interface, the enumeration or the field `name` is. A name may begin with that of
/// the namespace or the interface that it is in.
fn definition<'a>(text: &'a str, name: &str) -> Result<&'a str> {
    if let Some((namespace, name)) = name.split_once('.') {
        let heads = [
            format!(r"namespace {namespace} "),
            format!(r"interface {namespace} "),
        ];
        let mut within = heads.iter().filter_map(|head| block(text, head));
        let found = within.find_map(|within| definition(within, name).ok());
        // Where there is neither, it is another file's, which the bundle has as its own.
        return found.map_or_else(|| definition(text, name), Ok);
    }
    let name = regex::escape(name);
    let declared =
        format!(r"(?:type|interface|enum) {name}(?:<[^\n]*>)?(?: extends [^\n{{]*)?(?: =)? ");
    let head = format!(r"(?:{declared}|{name}\??: )");
    block(text, &head).with_context(|| format!("there is no type {name}"))
}

/// Returns the text after a declaration that begins with `head`, up to the line that ends it.
fn block<'a>(text: &'a str, head: &str) -> Option<&'a str> {
    let head = Regex::new(&format!(r"(?m)^( *)(?:export )?(?:declare )?{head}")).ok()?;
    // Namespaces have types of the same names.
    let found = head
        .captures_iter(text)
        .min_by_key(|found| found[1].len())?;
    let indent = found.get(1)?.as_str();
    let rest = &text[found.get(0)?.end()..];
    let line = rest.lines().next()?;
    if line.trim_end().ends_with(';') {
        return Some(line.trim_end().trim_end_matches(';'));
    }
    // Where the whole is an object, and where one stands in brackets or beside others.
    let ends = [format!("\n{indent}}}"), format!("\n{indent})")];
    let end = ends.iter().filter_map(|end| rest.find(end)).min()?;
    Some(&rest[..end])
}

/// Adds the members of the union `definition`, and of the unions in it.
fn add_members(text: &str, definition: &str, members: &mut BTreeSet<String>) -> Result<()> {
    for member in definition.split('|').map(str::trim) {
        let quotes = ['\'', '"'];
        if member.starts_with(quotes) {
            members.insert(member.trim_matches(quotes).to_owned());
            continue;
        }
        let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
        if member.is_empty() || !member.chars().all(is_name) || is_primitive(member) {
            continue;
        }
        let found = self::definition(text, member)?;
        if found.starts_with(['{', '(']) || found.contains("& {") {
            let name = member.rsplit('.').next().unwrap_or(member);
            members.insert(tag(found)?.unwrap_or_else(|| name.to_owned()));
        } else {
            add_members(text, found, members)?;
        }
    }
    Ok(())
}

fn is_primitive(name: &str) -> bool {
    matches!(
        name,
        "string" | "number" | "boolean" | "null" | "undefined" | "unknown"
    )
}

/// Returns the literal that names an object.
fn tag(object: &str) -> Result<Option<String>> {
    let indent = indent(object);
    for tag in TAGS {
        let literal = Regex::new(&format!(r#"\n {{{indent}}}{tag}\??: ['"]([^'"]+)['"]"#))?;
        if let Some(found) = literal.captures(object) {
            return Ok(Some(found[1].to_owned()));
        }
    }
    Ok(None)
}

fn fields(object: &str) -> Result<BTreeSet<String>> {
    let field = Regex::new(&format!(r"\n {{{}}}([\w$]+)(?:\??:| =)", indent(object)))?;
    let found = field.captures_iter(object);
    Ok(found.map(|found| found[1].to_owned()).collect())
}

/// Returns the number of spaces before the first field of an object.
fn indent(object: &str) -> usize {
    let fields = object.lines().skip(1);
    let first = fields.filter(|line| !line.trim().is_empty()).map(|line| {
        let comment = line.trim_start().starts_with('*');
        line.len() - line.trim_start().len() - usize::from(comment)
    });
    first.min().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPES: &str = r#"
export interface Text {
    /**
     * What type: 'no' is not.
     */
    type: 'text';
    text: string;
    inner?: {
        type: 'hidden';
    };
}
export interface Plain extends Base<string> {
    words?: Array<string>;
}
export type Block = Text | Plain | Tools.Call | Tools.Result | Named;
export declare namespace Other {
    interface Call {
        type: 'wrong';
    }
}
export declare namespace Tools {
    interface Call {
        type: 'tool_call';
    }
    /** A result. */
    interface Result {
        type: 'tool_result';
    }
}
export declare type Named = Base & {
    type: 'system';
    subtype: 'init';
};
export type Reason = (string & {}) | Old | 'stop' | "length" | null;
export type Old = 'halt';
export declare enum Finish {
    /**
     * Why it ended.
     */
    STOP = "STOP",
    SAFETY = "SAFETY"
}
export interface Choice {
    finish_reason: 'stop' | 'length' | null;
}
export declare namespace Choice {
    interface Other {
        finish: string;
    }
}
"#;

    #[test]
    fn members_of_unions_have_the_names_of_the_wire() {
        for (name, expected) in [
            ("Block", "Plain init text tool_call tool_result"),
            ("Reason", "halt length stop"),
            ("finish_reason", "length stop"),
            ("Choice.finish_reason", "length stop"),
        ] {
            let found = Take::Union(name.to_owned()).of(TYPES).unwrap();
            assert_eq!(Vec::from_iter(found).join(" "), expected);
        }
    }

    #[test]
    fn fields_are_those_of_the_object_itself() {
        for (name, expected) in [
            ("Text", "inner text type"),
            ("Plain", "words"),
            ("Tools.Call", "type"),
            ("Named", "subtype type"),
            ("Finish", "SAFETY STOP"),
        ] {
            let found = Take::Fields(name.to_owned()).of(TYPES).unwrap();
            assert_eq!(Vec::from_iter(found).join(" "), expected, "{name}");
        }
    }

    #[test]
    fn a_pattern_finds_its_group() {
        let pattern = Take::Pattern(r"interface (\w+) \{".to_owned());
        let found = pattern.of(TYPES).unwrap();
        assert_eq!(
            Vec::from_iter(found).join(" "),
            "Call Choice Other Result Text"
        );
    }

    #[test]
    fn a_text_that_is_not_understood_is_an_error() {
        for take in [
            Take::Union("Gone".to_owned()),
            Take::Fields("Reason".to_owned()),
            Take::Pattern("x(y)".to_owned()),
        ] {
            assert!(take.of(TYPES).is_err(), "{take:?}");
        }
    }
}
