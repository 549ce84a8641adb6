//! The tools of a session, in the order in which the model is told of them.

use std::sync::Arc;

use ah_conversation::{Tool, ToolSpec};

use crate::schema::Schema;

/// The tools of a session.
pub struct Toolbox {
    tools: Vec<Entry>,
    specs: Arc<[ToolSpec]>,
}

pub(crate) struct Entry {
    pub(crate) tool: Arc<dyn Tool>,
    pub(crate) schema: Schema,
}

impl Toolbox {
    /// A toolbox of `tools`; of two with one name the later counts, in the place of the earlier.
    pub fn new(tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        let mut entries: Vec<Entry> = Vec::new();
        for tool in tools {
            let entry = Entry {
                tool,
                schema: Schema::default(),
            };
            match entries
                .iter_mut()
                .find(|known| known.tool.spec().name == entry.tool.spec().name)
            {
                Some(known) => *known = entry,
                None => entries.push(entry),
            }
        }
        let specs = entries
            .iter()
            .map(|entry| entry.tool.spec().clone())
            .collect();
        Self {
            tools: entries,
            specs,
        }
    }

    /// What the model is told.
    pub fn specs(&self) -> &Arc<[ToolSpec]> {
        &self.specs
    }

    /// The tool of this name, in any case: a session may have begun with a profile that writes it otherwise, and a
    /// model repeats what it finds in the conversation.
    pub(crate) fn find(&self, name: &str) -> Option<&Entry> {
        let named = |is_name: &dyn Fn(&str) -> bool| {
            let mut entries = self.tools.iter();
            entries.find(|entry| is_name(&entry.tool.spec().name))
        };
        named(&|known| known == name).or_else(|| named(&|known| known.eq_ignore_ascii_case(name)))
    }
}
