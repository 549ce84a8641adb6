//! A store that keeps the files of a session before it says that a call is done, so that no worker that goes on has fewer
//! files than the conversation tells of.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use ah_conversation::{
    Branch, CallStart, Mailbox, Record, Store, StoreError, StoreLayer, ToolUseId,
};
use ah_engine::warn::Warn;
use ah_store::SessionStore;
use async_trait::async_trait;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::workspace::Workspace;

/// Longest time that the end of a call waits for its files. Files that take longer are stored meanwhile, and until then the
/// session says that it is ahead of them.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// The store of a conversation whose session carries its files.
pub struct FilesFirst {
    inner: Arc<dyn Store>,
    carried: Arc<Carried>,
}

/// What a conversation and those of its subagents share.
struct Carried {
    session: Arc<SessionStore>,
    files: Arc<Workspace>,
    calls: Mutex<Calls>,
    warn: Warn,
}

/// The calls that may have changed files when they end.
struct Calls {
    running: HashSet<ToolUseId>,
    /// Those that say nothing of what they access. They may tell of commands that other calls have started.
    silent: HashSet<ToolUseId>,
    /// Whether the session says that it may be ahead of its stored files.
    is_ahead: bool,
}

impl FilesFirst {
    /// Returns the store of a session with its files.
    pub fn of(session: Arc<SessionStore>, files: Arc<Workspace>, warn: Warn) -> Self {
        let calls = Calls {
            running: HashSet::new(),
            silent: HashSet::new(),
            is_ahead: files.is_ahead(),
        };
        Self {
            inner: session.clone(),
            carried: Arc::new(Carried {
                session,
                files,
                calls: Mutex::new(calls),
                warn,
            }),
        }
    }
}

impl Carried {
    /// Stores the files; returns whether they are there.
    async fn keep(self: &Arc<Self>) -> bool {
        let this = self.clone();
        // It goes on when nobody waits any more.
        let kept = tokio::spawn(async move { this.files.keep(&this.session).await });
        let error = match timeout(LONGEST_WAIT, kept).await {
            Ok(Ok(Ok(()))) => return true,
            Ok(Ok(Err(error))) => error.to_string(),
            Ok(Err(panicked)) => panicked.to_string(),
            Err(_) => format!("it takes more than {} s", LONGEST_WAIT.as_secs()),
        };
        (self.warn)(&format!("cannot store the files yet: {error}"));
        false
    }
}

/// Whether a call may change files of the folder.
fn may_change(start: &CallStart) -> bool {
    let mut words = start.access.split(',').map(str::trim);
    words.any(|word| !matches!(word, "" | "read" | "host" | "ask"))
}

#[async_trait]
impl StoreLayer for FilesFirst {
    fn below(&self) -> &dyn Store {
        &*self.inner
    }

    async fn append(&self, mut records: Vec<Record>) -> Result<(), StoreError> {
        let carried = &self.carried;
        let finished = records.iter().filter_map(|record| match record {
            Record::CallFinished(finish) => Some(finish.result.tool_use_id.clone()),
            _ => None,
        });
        let finished: Vec<_> = finished.collect();
        let ends = {
            let calls = carried.calls.lock().await;
            let may_have = |id| calls.running.contains(id) || calls.silent.contains(id);
            finished.iter().any(may_have)
        };
        let is_kept = ends && carried.keep().await;
        // What the session says is decided and stored before another call begins or ends.
        let mut calls = carried.calls.lock().await;
        for record in &records {
            if let Record::CallStarted(start) = record {
                let id = start.tool_use_id.clone();
                if may_change(start) {
                    calls.running.insert(id);
                } else if start.access.is_empty() {
                    calls.silent.insert(id);
                }
            }
        }
        for call in &finished {
            calls.running.remove(call);
            calls.silent.remove(call);
        }
        let is_ahead = !calls.running.is_empty() || (ends || calls.is_ahead) && !is_kept;
        if is_ahead != calls.is_ahead {
            records.push(Workspace::ahead(is_ahead));
            calls.is_ahead = is_ahead;
        }
        self.inner.append(records).await
    }

    fn mailbox(&self) -> Option<&dyn Mailbox> {
        self.inner.mailbox()
    }

    fn branch(self: Arc<Self>, branch: Branch) -> Arc<dyn Store> {
        Arc::new(Self {
            inner: self.inner.clone().branch(branch),
            carried: self.carried.clone(),
        })
    }
}
