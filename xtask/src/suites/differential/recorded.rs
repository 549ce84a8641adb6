//! The shapes of a run as text, one file a case. Pure.
//!
//! What most lines of a kind have stands once, in the file of the kinds. The file of a case has the rest, and behind a
//! minus what its line does not have.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};

use super::shape::Shape;

/// Beginnings of the lines of a file: a fact that most do not have, and one that only this does not have.
const MORE: &str = "  ";
const LACKING: &str = "- ";

/// The lines of each case by its name.
pub(super) type Cases = BTreeMap<String, Vec<Shape>>;
/// Facts that most lines of a kind have.
pub(super) type Kinds = BTreeMap<String, BTreeSet<String>>;

/// Returns what most lines of each kind have.
pub(super) fn kinds(cases: &Cases) -> Kinds {
    let mut by_kind: BTreeMap<&str, Vec<&Shape>> = BTreeMap::new();
    for shape in cases.values().flatten() {
        by_kind.entry(&shape.kind).or_default().push(shape);
    }
    let common = |(kind, shapes): (&str, Vec<&Shape>)| {
        let mut counts: BTreeMap<&String, usize> = BTreeMap::new();
        for fact in shapes.iter().flat_map(|shape| &shape.facts) {
            *counts.entry(fact).or_default() += 1;
        }
        let most = counts
            .into_iter()
            .filter(|(_, count)| count * 2 > shapes.len());
        (
            kind.to_owned(),
            most.map(|(fact, _)| fact.clone()).collect(),
        )
    };
    by_kind.into_iter().map(common).collect()
}

/// Returns the file of the kinds.
pub(super) fn write_kinds(kinds: &Kinds) -> String {
    let mut text = String::new();
    for (kind, facts) in kinds {
        write_lines(&mut text, kind, facts, &BTreeSet::new());
    }
    text
}

/// Returns the file of a case.
pub(super) fn write(shapes: &[Shape], kinds: &Kinds) -> String {
    let none = BTreeSet::new();
    let mut text = String::new();
    for Shape { kind, facts } in shapes {
        write_lines(&mut text, kind, facts, kinds.get(kind).unwrap_or(&none));
    }
    text
}

fn write_lines(text: &mut String, kind: &str, facts: &BTreeSet<String>, most: &BTreeSet<String>) {
    let more = facts.difference(most).map(|fact| format!("{MORE}{fact}"));
    let lacking = most
        .difference(facts)
        .map(|fact| format!("{LACKING}{fact}"));
    for line in std::iter::once(kind.to_owned()).chain(more).chain(lacking) {
        text.push_str(&line);
        text.push('\n');
    }
}

/// Reads the file of the kinds.
pub(super) fn read_kinds(text: &str) -> Result<Kinds> {
    let shapes = read(text, &Kinds::new())?;
    Ok(shapes.into_iter().map(|it| (it.kind, it.facts)).collect())
}

/// Reads the file of a case.
pub(super) fn read(text: &str, kinds: &Kinds) -> Result<Vec<Shape>> {
    let mut shapes: Vec<Shape> = Vec::new();
    for line in text.lines() {
        let (more, lacking) = (line.strip_prefix(MORE), line.strip_prefix(LACKING));
        if more.or(lacking).is_none() {
            shapes.push(Shape {
                kind: line.to_owned(),
                facts: kinds.get(line).cloned().unwrap_or_default(),
            });
            continue;
        }
        let shape = shapes
            .last_mut()
            .with_context(|| format!("`{line}` is before any kind"))?;
        shape.facts.extend(more.map(str::to_owned));
        if let Some(fact) = lacking {
            shape.facts.remove(fact);
        }
    }
    Ok(shapes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let shape = |kind: &str, facts: &[&str]| Shape {
            kind: kind.to_owned(),
            facts: facts.iter().map(|&fact| fact.to_owned()).collect(),
        };
        let init = |facts: &[&str]| shape("init", facts);
        let most = ["a=\"b c\"", "n=1"];
        let one = vec![init(&most), init(&most), shape("exit", &[])];
        let two = vec![init(&["m=2", "n=1"])];
        let cases = Cases::from([
            ("one".to_owned(), one.clone()),
            ("two".to_owned(), two.clone()),
        ]);
        let kinds = kinds(&cases);
        insta::assert_snapshot!(write_kinds(&kinds), @r#"
        exit
        init
          a="b c"
          n=1
        "#);
        insta::assert_snapshot!(write(&one, &kinds), @"
        init
        init
        exit
        ");
        let text = write(&two, &kinds);
        insta::assert_snapshot!(text, @r#"
        init
          m=2
        - a="b c"
        "#);
        let kinds = read_kinds(&write_kinds(&kinds)).unwrap();
        assert_eq!(read(&text, &kinds).unwrap(), two);
    }
}
