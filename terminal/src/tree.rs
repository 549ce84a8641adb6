//! The conversation tree as rows: a single child continues straight down, several are indented. `ah tree` prints them, and
//! `/tree` lets one be chosen.

use std::collections::{HashMap, HashSet};

use ah_conversation::{Head, MessageId};

use crate::message::letter;

/// Longest indentation, in bytes. What parts more often is not indented further.
const MOST_INDENT: usize = 1_000;

/// Returns the messages in the order of the drawing, each with its row: `>` before the current one, `*` before its ancestors.
pub fn draw<'a>(
    heads: &'a [Head],
    current: Option<&'a MessageId>,
    text: &dyn Fn(&Head) -> String,
) -> Vec<(&'a Head, String)> {
    let mut children: HashMap<Option<&MessageId>, Vec<&Head>> = HashMap::new();
    for head in heads {
        children
            .entry(head.message.parent.as_ref())
            .or_default()
            .push(head);
    }
    let mut active: HashSet<&MessageId> = HashSet::new();
    let by_id: HashMap<_, _> = heads.iter().map(|head| (&head.message.id, head)).collect();
    let mut next = current;
    while let Some(head) = next.and_then(|id| by_id.get(id)) {
        active.insert(&head.message.id);
        next = head.message.parent.as_ref();
    }
    let mut rows = Vec::new();
    // Stack of messages to draw, each with the prefix of its line and of the lines below.
    let mut waiting = Vec::new();
    let roots = children.get(&None).map_or(&[][..], Vec::as_slice);
    push_ways(&mut waiting, roots, "");
    while let Some((head, before, below)) = waiting.pop() {
        let id = &head.message.id;
        let mark = match (Some(id) == current, active.contains(id)) {
            (true, _) => '>',
            (false, true) => '*',
            (false, false) => ' ',
        };
        let line = format!(
            "{before}{mark} @{} {} {}",
            head.message.seq,
            letter(head.message.role),
            text(head)
        );
        rows.push((head, line.trim_end().to_owned()));
        let ways = children.get(&Some(id)).map_or(&[][..], Vec::as_slice);
        push_ways(&mut waiting, ways, &below);
    }
    rows
}

/// Pushes the children of a message, the first one on top.
fn push_ways<'a>(waiting: &mut Vec<(&'a Head, String, String)>, ways: &[&'a Head], indent: &str) {
    if let [only] = ways {
        waiting.push((only, indent.to_owned(), indent.to_owned()));
        return;
    }
    for (at, way) in ways.iter().enumerate().rev() {
        let (branch, rest) = if at + 1 == ways.len() {
            ("└─", "  ")
        } else {
            ("├─", "│ ")
        };
        let below = match indent.len() < MOST_INDENT {
            true => format!("{indent}{rest}"),
            false => indent.to_owned(),
        };
        waiting.push((way, format!("{indent}{branch}"), below));
    }
}

#[cfg(test)]
mod tests {
    use ah_conversation::{Message, Origin, Role, Time};

    use super::*;

    #[test]
    fn branches_are_indented_where_they_part() {
        let head = |id: &str, parent: Option<&str>, seq, role| Head {
            message: Message {
                id: id.into(),
                parent: parent.map(MessageId::from),
                seq,
                role,
                origin: Origin::Prompt,
                created_at: Time(0),
                content: Vec::new(),
                response: None,
            },
            preview: format!("says {id}"),
            tool_uses: Vec::new(),
            agent_id: None,
        };
        let heads = [
            head("a", None, 0, Role::User),
            head("b", Some("a"), 1, Role::Assistant),
            head("c", Some("b"), 2, Role::User),
            head("d", Some("b"), 2, Role::User),
            head("e", Some("d"), 3, Role::Assistant),
            head("f", Some("c"), 3, Role::Assistant),
            head("g", Some("d"), 3, Role::Assistant),
            head("h", None, 0, Role::User),
        ];
        let current = MessageId::from("e");
        let rows = draw(&heads, Some(&current), &|head| head.preview.clone());
        let rows: Vec<_> = rows.into_iter().map(|(_, row)| row).collect();
        insta::assert_snapshot!(rows.join("\n"), @r#"
├─* @0 U says a
│ * @1 A says b
│ ├─  @2 U says c
│ │   @3 A says f
│ └─* @2 U says d
│   ├─> @3 A says e
│   └─  @3 A says g
└─  @0 U says h
"#);
    }
}
