//! The tools of a session, in the order in which they are sent to the model: first its own, then those of servers,
//! which may change. Many tools of servers are not sent, but can be searched.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use ah_conversation::{
    Interface, ServerState, Servers, Tasks, Tool, ToolSpec, ToolUse, Transcript, is_same_tool,
};
use tokio::time::timeout;

use crate::Subagents;
use crate::schema::Schema;
use crate::tool_search::{ToolSearch, ToolSearchMode, announced, is_searchable};

/// Time that a request waits for servers before it says so.
const SILENCE: Duration = Duration::from_secs(1);
/// Least similarity of a name that is suggested.
const NEAR: f32 = 0.6;

/// The tools of a session.
pub struct Toolbox {
    /// The session's own tools.
    own: Vec<Arc<ToolEntry>>,
    /// Those of servers.
    served: Vec<Arc<ToolEntry>>,
    /// Those that are sent to the model.
    sent: Vec<Arc<ToolEntry>>,
    /// Those that can be searched.
    searchable: Vec<Arc<ToolEntry>>,
    specs: Arc<[ToolSpec]>,
    search: ToolSearch,
    servers: Option<Arc<dyn Servers>>,
    /// Maximum time that a request waits for servers that were just started.
    patience: Duration,
    /// Beginnings of the names of tools that servers no longer offer.
    withdrawn: Vec<String>,
    /// Version of the servers' tools included here.
    version: u64,
    /// The tool that starts subagents, if there is one.
    subagents: Option<Arc<Subagents>>,
}

pub(crate) struct ToolEntry {
    pub(crate) tool: Arc<dyn Tool>,
    pub(crate) schema: Schema,
}

impl ToolEntry {
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
    /// Creates a toolbox; if two tools have the same name, the later replaces the earlier.
    pub fn new(tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        let mut entries: Vec<Arc<ToolEntry>> = Vec::new();
        for tool in tools {
            let entry = ToolEntry::new(tool);
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
            sent: entries.clone(),
            own: entries,
            served: Vec::new(),
            searchable: Vec::new(),
            search: ToolSearch::new(ToolSearchMode::Off, Interface::default()),
            servers: None,
            patience: Duration::ZERO,
            withdrawn: Vec::new(),
            version: 0,
            subagents: None,
        }
    }

    /// Creates a toolbox whose tools can be called but are not listed in requests.
    pub(crate) fn callable(tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        let mut toolbox = Self::new(tools);
        toolbox.searchable = std::mem::take(&mut toolbox.sent);
        toolbox.specs = Arc::new([]);
        toolbox
    }

    /// Sets the tool that starts subagents; the session registers with it before calls run.
    #[must_use]
    pub fn with_subagents(self, subagents: Arc<Subagents>) -> Self {
        Self {
            subagents: Some(subagents),
            ..self
        }
    }

    /// Sets when tools of servers are searched; `interface` names the tools for it.
    #[must_use]
    pub fn with_search(mut self, mode: ToolSearchMode, interface: Interface) -> Self {
        self.search = ToolSearch::new(mode, interface);
        self.arrange(&[]);
        self
    }

    /// Returns when tools of servers are searched, and the interface that names the tools for it.
    pub(crate) fn search(&self) -> (ToolSearchMode, Interface) {
        (self.search.mode, self.search.interface)
    }

    /// Returns the tool that starts subagents.
    pub fn subagents(&self) -> Option<&Arc<Subagents>> {
        self.subagents.as_ref()
    }

    /// Returns the ports for background tasks of all tools.
    pub fn tasks(&self) -> Vec<Arc<dyn Tasks>> {
        self.tools()
            .filter_map(|tool| tool.extras().tasks)
            .collect()
    }

    /// Returns all tools, those of servers included, without those for the search.
    pub fn tools(&self) -> impl Iterator<Item = &Arc<dyn Tool>> {
        let all = self.own.iter().chain(&self.served);
        all.map(|entry| &entry.tool)
    }

    /// Returns the names of all tools that can be called, those that have to be searched included.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let all = self.sent.iter().chain(&self.searchable);
        all.map(|entry| entry.name())
    }

    /// Adds the tools of `servers` as they become available; existing names take precedence. A request waits for a
    /// server until `patience` has passed since it was started; zero disables waiting.
    #[must_use]
    pub fn with_servers(self, servers: Arc<dyn Servers>, patience: Duration) -> Self {
        Self {
            servers: Some(servers),
            patience,
            ..self
        }
    }

    /// Returns the servers whose tools are included.
    pub fn servers(&self) -> Option<&Arc<dyn Servers>> {
        self.servers.as_ref()
    }

    /// Returns the tool descriptions for the model.
    pub fn specs(&self) -> &Arc<[ToolSpec]> {
        &self.specs
    }

    /// Returns the tools that the model is to know: those that are sent, and those that it has found, or knew before.
    pub(crate) fn known(&self, transcript: &Transcript) -> Arc<[ToolSpec]> {
        if self.searchable.is_empty() {
            return self.specs.clone();
        }
        let told = transcript.updates().flat_map(|update| &update.tools);
        let told = told.map(|tool| tool.name.as_str());
        let names: HashSet<_> = told.chain(announced(transcript)).collect();
        let searchable = self.searchable.iter().map(|entry| entry.tool.spec());
        let found = searchable.filter(|spec| names.contains(spec.name.as_str()));
        self.specs.iter().chain(found).cloned().collect()
    }

    /// Returns the beginnings of the names of tools that are no longer to be offered.
    pub(crate) fn withdrawn(&self) -> &[String] {
        &self.withdrawn
    }

    /// Updates the tools of servers. Only before a request, since calls refer to the tools last sent to the model.
    /// `appends` says whether that model takes tools at the end of the conversation; `tell` receives a notice if servers
    /// that are still starting delay it.
    pub(crate) async fn catch_up(&mut self, appends: bool, tell: impl Fn(&str)) {
        if self.search.appends != appends {
            self.search.appends = appends;
            let sent = self.specs.clone();
            self.arrange(&sent);
        }
        let Some(servers) = &self.servers else { return };
        if !self.patience.is_zero() {
            let mut ready = servers.ready(self.patience);
            if timeout(SILENCE, &mut ready).await.is_err() {
                tell(&waiting_for(&**servers, self.patience));
                ready.await;
            }
        }
        // Read before the tools, so that a change in between is detected the next time.
        let version = servers.version();
        if version == self.version {
            return;
        }
        self.version = version;
        self.withdrawn = servers.withdrawn();
        let former = std::mem::take(&mut self.served);
        for tool in servers.tools() {
            let mut kept = former.iter();
            let entry = match kept.find(|entry| Arc::ptr_eq(&entry.tool, &tool)) {
                Some(entry) => entry.clone(),
                None => ToolEntry::new(tool),
            };
            let mut known = self.own.iter().chain(&self.served);
            if known.all(|known| known.name() != entry.name()) {
                self.served.push(entry);
            }
        }
        let sent = self.specs.clone();
        self.arrange(&sent);
    }

    /// Decides which tools are sent, and which can be searched. Those in `known` were sent before and stay.
    fn arrange(&mut self, known: &[ToolSpec]) {
        let is_searchable = |entry: &&Arc<ToolEntry>| {
            is_searchable(entry.name()) && known.iter().all(|spec| spec.name != entry.name())
        };
        let all = || self.own.iter().chain(&self.served);
        let searchable: Vec<_> = all().filter(is_searchable).cloned().collect();
        let specs_of_searchable = searchable.iter().map(|entry| entry.tool.spec());
        if self.search.takes(specs_of_searchable) {
            let rest = all().filter(|entry| !is_searchable(entry)).cloned();
            let tools = self.search.tools(specs(&searchable));
            self.sent = rest.chain(tools.into_iter().map(ToolEntry::new)).collect();
            self.searchable = searchable;
        } else {
            self.sent = all().cloned().collect();
        }
        self.specs = specs(&self.sent);
    }

    /// Returns the call that `call` stands for, or `call` itself.
    pub(crate) fn resolved(&self, call: ToolUse) -> ToolUse {
        let other = self.find(&call.name);
        let stands_for = other.and_then(|entry| entry.tool.extras().stands_for);
        match stands_for.and_then(|stands_for| stands_for(&call.input)) {
            Some((name, input)) => ToolUse {
                name,
                input,
                ..call
            },
            None => call,
        }
    }

    /// Returns the name of the tool that a name which no tool has was probably meant for: one whose words are among its own, or
    /// one that is spelt nearly like it.
    pub(crate) fn near(&self, name: &str) -> Option<&str> {
        let name = name.to_lowercase();
        let known: Vec<_> = self.names().map(str::to_lowercase).collect();
        let known: Vec<_> = known.iter().map(String::as_str).collect();
        let mut words = name.split(|c: char| !c.is_alphanumeric());
        let contained = words.find(|word| known.contains(word));
        let spelt = || ah_diff::nearest(&name, &known, 1, NEAR).first().copied();
        let meant = contained.or_else(spelt)?;
        self.names().find(|name| name.eq_ignore_ascii_case(meant))
    }

    /// Returns the tool of this name or of an alternative name: a session may have begun with the other interface,
    /// and a model repeats names from the conversation. It may therefore know a tool whose server is still starting.
    pub(crate) fn find(&self, name: &str) -> Option<Arc<ToolEntry>> {
        let named = |is_name: &dyn Fn(&str) -> bool| {
            let mut entries = self.sent.iter().chain(&self.searchable);
            entries.find(|entry| is_name(entry.name())).cloned()
        };
        let of_server = || self.servers.as_ref()?.find(name).map(ToolEntry::new);
        named(&|known| known == name)
            .or_else(|| named(&|known| is_same_tool(known, name)))
            .or_else(of_server)
    }
}

/// Returns the notice that names the servers that are waited for.
fn waiting_for(servers: &dyn Servers, patience: Duration) -> String {
    let status = servers.status().into_iter();
    let starting = status.filter(|status| status.state == ServerState::Pending);
    let names: Vec<_> = starting.map(|status| status.name).collect();
    format!(
        "waiting for MCP servers, at most {} s: {}",
        patience.as_secs(),
        names.join(", ")
    )
}

fn specs(entries: &[Arc<ToolEntry>]) -> Arc<[ToolSpec]> {
    let specs = entries.iter().map(|entry| entry.tool.spec().clone());
    specs.collect()
}
