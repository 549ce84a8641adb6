//! Which rows of a transcript are the conversation, and in which order. Pure.
//!
//! Rows are a tree, and a single way through it is not the conversation: with calls in parallel, the result of each hangs
//! below its own call, and the conversation goes on below one of them. So a way from the last row to the root is what was
//! said, and everything that belongs to an answer on it is added by names: further rows of the answer, the results of its
//! calls, and what the program told the model with a result.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

/// A row with its 1-based number in the file.
pub(super) type Row = (usize, Value);

/// The conversation, and what is no part of it.
#[derive(Default)]
pub(super) struct Ordered<'a> {
    /// Rows in order: those of an answer together, then the results of its calls.
    pub(super) rows: Vec<&'a Value>,
    /// What was left out.
    pub(super) left: Vec<String>,
}

/// An answer on the way, with all that belongs to it, or another row.
struct Part {
    /// Id of the answer at its server, if it has one.
    answer: Option<String>,
    /// Rows of the answer, or the row.
    said: Vec<usize>,
    /// Rows with results of its calls.
    results: Vec<usize>,
    /// Rows that the program added to the results.
    beside: Vec<usize>,
}

/// Returns the conversation in these rows.
pub(super) fn order(rows: &[Row]) -> Ordered<'_> {
    let mut tree = Tree::new(rows);
    let way = tree.way();
    for at in &way {
        tree.follow(*at);
    }
    let off: Vec<_> = (0..rows.len())
        .filter(|at| tree.is_message(*at) && !tree.placed.contains_key(at))
        .collect();
    // What belongs to a row may stand before it.
    let mut waiting = off;
    loop {
        let before = waiting.len();
        waiting.retain(|at| !tree.join(*at));
        if waiting.len() == before {
            break;
        }
    }
    let mut ordered = Ordered {
        rows: Vec::new(),
        left: tree.left(&waiting),
    };
    for part in &mut tree.parts {
        part.said.sort_unstable();
        part.results.sort_unstable();
        let all = part.said.iter().chain(&part.results).chain(&part.beside);
        ordered.rows.extend(all.map(|at| &rows[*at].1));
    }
    ordered
}

struct Tree<'a> {
    rows: &'a [Row],
    /// The row of each UUID.
    known: HashMap<&'a str, usize>,
    parts: Vec<Part>,
    /// The part of each row that was placed.
    placed: HashMap<usize, usize>,
    /// The part of each answer.
    answers: HashMap<&'a str, usize>,
    /// The part of each call.
    calls: HashMap<&'a str, usize>,
    /// Calls that have a result.
    answered: HashSet<&'a str>,
}

impl<'a> Tree<'a> {
    fn new(rows: &'a [Row]) -> Self {
        let uuids = rows.iter().enumerate();
        let known = uuids.filter_map(|(at, (_, row))| Some((row["uuid"].as_str()?, at)));
        Self {
            rows,
            known: known.collect(),
            parts: Vec::new(),
            placed: HashMap::new(),
            answers: HashMap::new(),
            calls: HashMap::new(),
            answered: HashSet::new(),
        }
    }

    fn row(&self, at: usize) -> &'a Value {
        &self.rows[at].1
    }

    /// Whether a row is a message of any conversation in the file.
    fn is_message(&self, at: usize) -> bool {
        let row = self.row(at);
        let is_message = row["type"] == "user" || row["type"] == "assistant";
        is_message && row["uuid"].is_string()
    }

    /// Whether a row may be one of the main conversation. The program's message about a failed request, in the model's
    /// place, is none.
    fn is_said(&self, at: usize) -> bool {
        let row = self.row(at);
        self.is_message(at) && !is_synthetic(row) && row["isSidechain"] != true
    }

    fn parent(&self, at: usize) -> Option<usize> {
        let row = self.row(at);
        let before = || (0..at).rev().find(|at| self.is_said(*at));
        // Behind the mark of a compaction stands what was compacted.
        let parent = row["parentUuid"]
            .as_str()
            .or_else(|| row["logicalParentUuid"].as_str());
        parent.and_then(|parent| self.known.get(parent).copied().or_else(before))
    }

    /// Returns the rows from the root to the last one.
    fn way(&self) -> Vec<usize> {
        let mut way = Vec::new();
        let mut seen = HashSet::new();
        let mut next = (0..self.rows.len()).rev().find(|at| self.is_said(*at));
        while let Some(at) = next.filter(|at| seen.insert(*at)) {
            way.extend(Some(at).filter(|at| self.is_said(*at)));
            next = self.parent(at);
        }
        way.reverse();
        way
    }

    /// Places a row of the way: with the answer that it belongs to, or behind all others.
    fn follow(&mut self, at: usize) {
        if self.join_answer(at) || self.join_results(at) {
            return;
        }
        let row = self.row(at);
        let answer = answer(row).filter(|answer| !answer.is_empty());
        let part = self.parts.len();
        self.parts.push(Part {
            answer: answer.map(str::to_owned),
            said: Vec::new(),
            results: Vec::new(),
            beside: Vec::new(),
        });
        self.say(part, at);
        self.answers.extend(answer.map(|answer| (answer, part)));
    }

    /// Places a row that is not on the way, if it belongs to one that is placed; returns whether it needs no place any more.
    fn join(&mut self, at: usize) -> bool {
        self.is_said(at) && (self.join_answer(at) || self.join_results(at) || self.join_note(at))
    }

    fn join_answer(&mut self, at: usize) -> bool {
        let row = self.row(at);
        let Some(part) = answer(row).and_then(|answer| self.answers.get(answer).copied()) else {
            return false;
        };
        // Programs that go on in a session may write its rows again.
        let mut said = self.parts[part].said.iter();
        let is_copy =
            said.any(|other| self.row(*other)["message"]["content"] == row["message"]["content"]);
        if is_copy {
            self.placed.insert(at, part);
        } else {
            self.say(part, at);
        }
        true
    }

    fn join_results(&mut self, at: usize) -> bool {
        let row = self.row(at);
        let ids: Vec<_> = blocks(row, "tool_result")
            .filter_map(|block| block["tool_use_id"].as_str())
            .collect();
        let Some(part) = ids.iter().find_map(|id| self.calls.get(id).copied()) else {
            return false;
        };
        self.placed.insert(at, part);
        if ids.iter().any(|id| !self.answered.contains(id)) {
            self.parts[part].results.push(at);
            self.answered.extend(ids);
        }
        true
    }

    /// Places what the program told the model with a result, such as the body of a skill.
    fn join_note(&mut self, at: usize) -> bool {
        if self.row(at)["isMeta"] != true {
            return false;
        }
        let mut seen = HashSet::new();
        let mut above = self.parent(at);
        while let Some(row) = above.filter(|row| !self.is_said(*row) && seen.insert(*row)) {
            above = self.parent(row);
        }
        let part = above.and_then(|row| self.placed.get(&row).copied());
        let Some(part) = part.filter(|part| self.parts[*part].answer.is_some()) else {
            return false;
        };
        self.placed.insert(at, part);
        self.parts[part].beside.push(at);
        true
    }

    fn say(&mut self, part: usize, at: usize) {
        self.placed.insert(at, part);
        self.parts[part].said.push(at);
        let calls = blocks(self.row(at), "tool_use");
        let ids = calls.filter_map(|block| block["id"].as_str());
        self.calls.extend(ids.map(|id| (id, part)));
    }

    /// Names the rows that have no place, by kinds.
    fn left(&self, rows: &[usize]) -> Vec<String> {
        let kind_of = |row: &Value| match row {
            row if row["isSidechain"] == true => "of a subagent",
            row if is_synthetic(row) => "about a failed request",
            _ => "of another branch",
        };
        let mut rest = rows.to_vec();
        let mut left = Vec::new();
        for kind in [
            "of a subagent",
            "about a failed request",
            "of another branch",
        ] {
            let (found, others): (Vec<_>, Vec<_>) =
                rest.iter().partition(|at| kind_of(self.row(**at)) == kind);
            rest = others;
            let Some(first) = found.first() else {
                continue;
            };
            let line = self.rows[*first].0;
            left.push(match found.len() {
                1 => format!("line {line}: a message {kind}"),
                count => format!("line {line}: {count} messages {kind}, the first here"),
            });
        }
        left
    }
}

fn is_synthetic(row: &Value) -> bool {
    row["message"]["model"] == "<synthetic>"
}

/// Returns the server's id of the answer that a row is a part of; it may be empty.
fn answer(row: &Value) -> Option<&str> {
    let is_answer = row["type"] == "assistant";
    is_answer.then(|| row["message"]["id"].as_str().unwrap_or_default())
}

/// Returns the blocks of one kind in a row.
fn blocks<'a>(row: &'a Value, kind: &str) -> impl Iterator<Item = &'a Value> {
    let blocks = row["message"]["content"].as_array().into_iter().flatten();
    blocks.filter(move |block| block["type"] == kind)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Returns the row that `ID PARENT WORDS` describes: `p` is a prompt, `m1:text` a part of an answer, `m1+A` one of its
    /// calls, `=A` the result of call A, `meta` a note of the program, `side`, `sub` and `failed` what is none.
    fn row(text: &str) -> Value {
        let words: Vec<_> = text.split(' ').collect();
        let [id, parent, what] = words[..] else {
            panic!("{text}");
        };
        let user = |content: Value| json!({"type": "user", "message": {"content": content}});
        let said = |answer: &str, block: Value| {
            let message = json!({"id": answer, "model": "m", "content": [block]});
            json!({"type": "assistant", "message": message})
        };
        let call = |id: &str| json!({"type": "tool_use", "id": id, "name": "t", "input": {}});
        let mut row = if let Some((answer, words)) = what.split_once(':') {
            said(answer, json!({"type": "text", "text": words}))
        } else if let Some((answer, id)) = what.split_once('+') {
            said(answer, call(id))
        } else if let Some(id) = what.strip_prefix('=') {
            user(json!([{"type": "tool_result", "tool_use_id": id, "content": "r"}]))
        } else {
            user(json!(what))
        };
        match what {
            "meta" => row["isMeta"] = json!(true),
            "sub" => row["isSidechain"] = json!(true),
            "failed" => {
                row = said("x", json!({"type": "text", "text": "failed"}));
                row["message"]["model"] = json!("<synthetic>");
            }
            "progress" => row = json!({"type": "progress"}),
            _ => {}
        }
        row["uuid"] = json!(id);
        row["parentUuid"] = match parent {
            "-" => Value::Null,
            parent => json!(parent),
        };
        row
    }

    fn check(text: &str) -> String {
        let rows: Vec<_> = text
            .split(", ")
            .map(row)
            .zip(1..)
            .map(|(row, line)| (line, row))
            .collect();
        let ordered = order(&rows);
        let ids: Vec<_> = ordered
            .rows
            .iter()
            .map(|row| row["uuid"].as_str().unwrap())
            .collect();
        let left = ordered.left.join("; ");
        [ids.join(" "), left].join(" | ")
    }

    #[test]
    fn all_that_belongs_to_an_answer_is_with_it() {
        for (text, expected) in [
            ("1 - p, 2 1 m1:a, 3 2 p", "1 2 3 | "),
            // Calls in parallel, each result below its call.
            (
                "1 - p, 2 1 m1+A, 3 2 m1+B, 4 2 =A, 5 3 =B, 6 5 m2:z",
                "1 2 3 4 5 6 | ",
            ),
            (
                "1 - p, 2 1 m1+A, 3 2 m1+B, 4 3 m1+C, 5 4 =C, 6 2 =A, 7 3 =B, 8 7 m2:z",
                "1 2 3 4 5 6 7 8 | ",
            ),
            // The result of the first call before the second call.
            (
                "1 - p, 2 1 m1+A, 3 2 =A, 4 2 m1+B, 5 4 =B, 6 5 m2:z",
                "1 2 4 3 5 6 | ",
            ),
            (
                "1 - p, 2 1 m1+A, 3 2 =A, 4 3 m1+B, 5 4 =B, 6 5 m2:z",
                "1 2 4 3 5 6 | ",
            ),
            // Rows of progress between, and a session that ends among its results.
            (
                "1 - p, 2 1 m1+A, 3 2 m1+B, 4 2 progress, 5 3 =B, 6 4 =A",
                "1 2 3 5 6 | ",
            ),
            ("1 - p, 2 1 m1+A, 3 2 m1+B, 5 3 =B, 4 2 =A", "1 2 3 5 4 | "),
            // The body of a skill beside the way.
            (
                "1 - p, 2 1 m1+A, 3 2 m1+B, 4 2 =A, 5 4 meta, 6 3 =B, 7 6 m2:z",
                "1 2 3 4 6 5 7 | ",
            ),
            (
                "1 - p, 2 1 m1+A, 3 2 m1+B, 4 2 =A, 5 3 =B, 6 4 meta, 7 6 m2:z",
                "1 2 3 4 5 6 7 | ",
            ),
            // A result twice, an answer written again, a result of a former answer.
            ("1 - p, 2 1 m1+A, 3 2 =A, 4 2 =A, 5 4 m2:z", "1 2 4 5 | "),
            ("1 - p, 2 1 m1:a, 3 1 m1:a, 4 3 p", "1 3 4 | "),
            ("1 - p, 2 1 m1+A, 3 2 m2:b, 4 3 =A", "1 2 4 3 | "),
            // What is none of it.
            (
                "1 - p, 2 1 m1:a, 3 2 p, 4 3 m2:b, 5 2 p, 6 5 m3:c",
                "1 2 5 6 | line 3: 2 messages of another branch, the first here",
            ),
            (
                "1 - p, 2 1 sub, 3 1 failed, 4 1 m1:a",
                "1 4 | line 2: a message of a subagent; line 3: a message about a failed request",
            ),
            (
                "1 - p, 2 - meta, 3 1 m1:a",
                "1 3 | line 2: a message of another branch",
            ),
            // Broken trees.
            ("1 2 p, 2 1 m1:a", "1 2 | "),
            ("1 - p, 2 9 m1:a, 3 2 p", "1 2 3 | "),
            ("1 1 p", "1 | "),
        ] {
            assert_eq!(check(text), expected, "{text}");
        }
    }

    proptest! {
        /// In whichever order the results come and wherever the conversation goes on, all are there, once.
        #[test]
        fn no_result_of_a_call_in_parallel_is_lost(
            order in Just(vec![0, 1, 2, 3]).prop_shuffle(),
            ends_at in 0..4_usize,
            chained in any::<[bool; 4]>(),
        ) {
            let mut rows = vec!["p0 - p".to_owned()];
            for call in 0..4 {
                let parent = if call == 0 { "p0".to_owned() } else { format!("c{}", call - 1) };
                rows.push(format!("c{call} {parent} m1+T{call}"));
            }
            let mut last = String::new();
            for (at, call) in order.iter().enumerate() {
                let parent = if chained[at] && !last.is_empty() { last.clone() } else { format!("c{call}") };
                last = format!("r{call}");
                rows.push(format!("{last} {parent} =T{call}"));
            }
            rows.push(format!("z r{ends_at} m2:z"));
            let shown = check(&rows.join(", "));
            let (ids, left) = shown.split_once(" | ").unwrap();
            prop_assert_eq!(left, "");
            let ids: Vec<_> = ids.split(' ').collect();
            prop_assert_eq!(&ids[..5], &["p0", "c0", "c1", "c2", "c3"]);
            prop_assert_eq!(ids.last(), Some(&"z"));
            let mut results = ids[5..9].to_vec();
            results.sort_unstable();
            prop_assert_eq!(results, ["r0", "r1", "r2", "r3"]);
        }
    }
}
