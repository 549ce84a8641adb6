//! The transcript of a session as the viewer shows it, read from the store: the current branch, the full output of each
//! call, and the conversations of subagents below the messages that have begun them.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

use ah_agent::without_agent_id;
use ah_conversation::{ContentBlock, Message, MessageId, Origin, Role, StoreError, ToolUseId};
use ah_store::Tree;

use super::{Kind, Section};
use crate::line::preview;
use crate::message::Keys;

/// Longest part of an output that is shown, in bytes.
const MOST: u64 = 256 * 1024;
/// Longest first row of a call or a subagent, in characters.
const HEAD: usize = 200;

/// Returns the transcript of the current branch.
///
/// # Errors
///
/// If the session cannot be read.
pub fn sections(tree: &Tree, keys: &Keys) -> Result<Vec<Section>, StoreError> {
    let mut reader = Reader {
        tree,
        keys,
        agents: agents(tree)?,
        sections: Vec::new(),
    };
    let heads = match tree.current()? {
        Some(current) => tree.ancestry(&current)?,
        None => Vec::new(),
    };
    for head in heads {
        reader.read(&head.message.id, 0)?;
    }
    Ok(reader.sections)
}

/// The conversation of a subagent: its id, and its messages.
type Conversation = (String, Vec<MessageId>);

/// Returns the conversations of subagents, by the message that has begun each.
fn agents(tree: &Tree) -> Result<HashMap<MessageId, Vec<Conversation>>, StoreError> {
    let mut begun: BTreeMap<u32, (Option<MessageId>, Conversation)> = BTreeMap::new();
    let mut firsts: HashMap<String, u32> = HashMap::new();
    for head in tree.heads()? {
        let Some(agent) = head.agent_id else {
            continue;
        };
        let first = *firsts.entry(agent.clone()).or_insert(head.message.seq);
        let (_, (_, messages)) = { begun.entry(first) }
            .or_insert_with(|| (head.message.parent.clone(), (agent, Vec::new())));
        messages.push(head.message.id);
    }
    let mut agents: HashMap<MessageId, Vec<Conversation>> = HashMap::new();
    for (parent, conversation) in begun.into_values() {
        if let Some(parent) = parent {
            agents.entry(parent).or_default().push(conversation);
        }
    }
    Ok(agents)
}

struct Reader<'a> {
    tree: &'a Tree,
    keys: &'a Keys,
    agents: HashMap<MessageId, Vec<Conversation>>,
    sections: Vec<Section>,
}

impl Reader<'_> {
    /// Adds a message, and the conversations that it has begun.
    fn read(&mut self, id: &MessageId, depth: usize) -> Result<(), StoreError> {
        let Some(message) = self.tree.message(id)? else {
            return Ok(());
        };
        match (&message.origin, message.role) {
            (_, Role::Assistant) => self.answer(&message, depth)?,
            (Origin::Summary { .. }, _) => {
                self.add(Kind::Thinking, "summary", message.text(), depth);
            }
            (Origin::Prompt | Origin::FollowUp, _) => {
                self.add(
                    Kind::Prompt,
                    &format!("you @{}", message.seq),
                    message.said(),
                    depth,
                );
            }
            (Origin::Steering, _) => {
                let text = message.text();
                let said = text.strip_prefix("[STEERING]").unwrap_or(&text).trim();
                self.add(
                    Kind::Prompt,
                    &format!("you @{}", message.seq),
                    said.to_owned(),
                    depth,
                );
            }
            // Results stand with their calls; the rest is what the program told the model.
            _ => {}
        }
        for (agent, messages) in self.agents.remove(id).unwrap_or_default() {
            let first = messages
                .first()
                .map(|id| self.tree.message(id))
                .transpose()?;
            let task = first.flatten().map(|message| message.said());
            let task = preview(&task.unwrap_or_default(), HEAD);
            self.add(
                Kind::Subagent,
                &format!("subagent {agent}: {task}"),
                String::new(),
                depth,
            );
            if let Some(head) = self.sections.last_mut() {
                head.is_folded = true;
            }
            for message in messages {
                self.read(&message, depth + 1)?;
            }
        }
        Ok(())
    }

    fn answer(&mut self, message: &Message, depth: usize) -> Result<(), StoreError> {
        for block in &message.content {
            match block {
                ContentBlock::Text { text } if !text.trim().is_empty() => {
                    let model = message.response.as_ref().map_or("", |it| &it.model);
                    let head = format!("{model} @{}", message.seq);
                    self.add(Kind::Answer, head.trim_start(), text.clone(), depth);
                }
                ContentBlock::Thinking { thinking, .. } if !thinking.trim().is_empty() => {
                    self.add(Kind::Thinking, "thinking", thinking.clone(), depth);
                }
                ContentBlock::ToolUse(call) => {
                    let text = self.output(&call.id)?;
                    self.add(Kind::Output, &self.keys.show(call, HEAD), text, depth);
                    if let Some(section) = self.sections.last_mut() {
                        section.call = Some(call.id.clone());
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns the output of a call; of a long one the beginning.
    fn output(&self, call: &ToolUseId) -> Result<String, StoreError> {
        let mut head = Beginning::default();
        let Some(length) = self.tree.copy_output(call, &mut head)? else {
            return Ok(String::new());
        };
        let text = String::from_utf8_lossy(&head.0);
        let text = without_agent_id(&text).trim_end().to_owned();
        Ok(match length > head.0.len() as u64 {
            true => format!(
                "{text}\n... the first {MOST} of {length} bytes; in a shell: `ah -c show N --output`"
            ),
            false => text,
        })
    }

    fn add(&mut self, kind: Kind, head: &str, text: String, depth: usize) {
        self.sections.push(Section {
            kind,
            head: head.to_owned(),
            text,
            depth,
            is_folded: false,
            call: None,
        });
    }
}

/// Keeps the beginning of what is written.
#[derive(Default)]
struct Beginning(Vec<u8>);

impl Write for Beginning {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = usize::try_from(MOST).unwrap_or(usize::MAX) - self.0.len();
        self.0.extend_from_slice(&bytes[..bytes.len().min(room)]);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
