//! The tools of a session, in the order in which the model is told of them: those that it begins with, then those of
//! servers, which come and go.

use std::sync::Arc;
use std::time::Duration;

use ah_conversation::{Servers, Tasks, Tool, ToolSpec, is_same_tool};

use crate::Subagents;
use crate::schema::Schema;

/// The tools of a session.
pub struct Toolbox {
    tools: Vec<Arc<Entry>>,
    specs: Arc<[ToolSpec]>,
    /// How many of the tools are the session's own.
    own: usize,
    servers: Option<Arc<dyn Servers>>,
    /// How long a request waits for servers that have just been started.
    patience: Duration,
    /// Which tools of the servers are among the tools.
    version: u64,
    /// What starts subagents, if one of the tools does.
    subagents: Option<Arc<Subagents>>,
}

pub(crate) struct Entry {
    pub(crate) tool: Arc<dyn Tool>,
    pub(crate) schema: Schema,
}

impl Entry {
    fn new(tool: Arc<dyn Tool>) -> Arc<Self> {
        Arc::new(Self {
            tool,
            schema: Schema::default(),
        })
    }

    fn name(&self) -> &str {
        &self.tool.spec().name
    }
}

impl Toolbox {
    /// A toolbox of `tools`; of two with one name the later counts, in the place of the earlier.
    pub fn new(tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        let mut entries: Vec<Arc<Entry>> = Vec::new();
        for tool in tools {
            let entry = Entry::new(tool);
            match entries
                .iter_mut()
                .find(|known| known.name() == entry.name())
            {
                Some(known) => *known = entry,
                None => entries.push(entry),
            }
        }
        Self {
            specs: specs(&entries),
            own: entries.len(),
            tools: entries,
            servers: None,
            patience: Duration::ZERO,
            version: 0,
            subagents: None,
        }
    }

    /// The same tools; whoever starts subagents among them is told of the session before its calls run.
    #[must_use]
    pub fn with_subagents(self, subagents: Arc<Subagents>) -> Self {
        Self {
            subagents: Some(subagents),
            ..self
        }
    }

    /// What starts subagents.
    pub fn subagents(&self) -> Option<&Arc<Subagents>> {
        self.subagents.as_ref()
    }

    /// What calls have started that goes on without them.
    pub fn tasks(&self) -> Vec<Arc<dyn Tasks>> {
        self.tools().filter_map(|tool| tool.tasks()).collect()
    }

    /// The tools themselves, those of servers included.
    pub(crate) fn tools(&self) -> impl Iterator<Item = &Arc<dyn Tool>> {
        self.tools.iter().map(|entry| &entry.tool)
    }

    /// The same tools, and behind them those of `servers` as they come. A name that is taken stays with whom it has.
    /// A request waits for a server until `patience` has passed since it was started; zero means not at all.
    #[must_use]
    pub fn with_servers(self, servers: Arc<dyn Servers>, patience: Duration) -> Self {
        Self {
            servers: Some(servers),
            patience,
            ..self
        }
    }

    /// The servers whose tools are among these.
    pub fn servers(&self) -> Option<&Arc<dyn Servers>> {
        self.servers.as_ref()
    }

    /// What the model is told.
    pub fn specs(&self) -> &Arc<[ToolSpec]> {
        &self.specs
    }

    /// Takes up what has changed at the servers. Only before a request: the tools that a model was told of are those
    /// that its calls are for.
    pub(crate) async fn catch_up(&mut self) {
        let Some(servers) = &self.servers else { return };
        if !self.patience.is_zero() {
            servers.ready(self.patience).await;
        }
        // Asked before the tools: a change in between is taken up the next time.
        let version = servers.version();
        if version == self.version {
            return;
        }
        self.version = version;
        let former = self.tools.split_off(self.own);
        for tool in servers.tools() {
            let mut kept = former.iter();
            let entry = match kept.find(|entry| Arc::ptr_eq(&entry.tool, &tool)) {
                Some(entry) => entry.clone(),
                None => Entry::new(tool),
            };
            if self.tools.iter().all(|known| known.name() != entry.name()) {
                self.tools.push(entry);
            }
        }
        self.specs = specs(&self.tools);
    }

    /// The tool of this name, or of another one that it is known by: a session may have begun with a profile that names
    /// it otherwise, and a model repeats what it finds in the conversation. So it may know a tool before its server has
    /// started.
    pub(crate) fn find(&self, name: &str) -> Option<Arc<Entry>> {
        let named = |is_name: &dyn Fn(&str) -> bool| {
            let mut entries = self.tools.iter();
            entries.find(|entry| is_name(entry.name())).cloned()
        };
        let of_server = || self.servers.as_ref()?.find(name).map(Entry::new);
        named(&|known| known == name)
            .or_else(|| named(&|known| is_same_tool(known, name)))
            .or_else(of_server)
    }
}

fn specs(entries: &[Arc<Entry>]) -> Arc<[ToolSpec]> {
    let specs = entries.iter().map(|entry| entry.tool.spec().clone());
    specs.collect()
}
