//! What a list says of a session, read from its database.

use std::path::PathBuf;

use ah_conversation::{HOOK_NOTE, NOTE, SessionId, StoreError, Time, called, command_in};
use rusqlite::OptionalExtension;

use super::messages::MOST_TOKENS;
use super::number::{signed, unsigned};
use super::tree::Tree;
use super::{Failure, context, resting};
use crate::paths::Paths;
use ah_ids::created_at;

/// Maximum number of characters of a session's first text in a list.
const FIRST_TEXT: usize = 400;

/// Summary of a session for lists.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionHead {
    /// Id.
    pub id: SessionId,
    /// Paths of the files.
    pub paths: Paths,
    /// UUID assigned by another program.
    pub uuid: Option<String>,
    /// Name.
    pub name: Option<String>,
    /// Time of creation.
    pub created_at: Time,
    /// Time of the newest message.
    pub last_written: Time,
    /// Whether it has no message yet.
    pub is_unused: bool,
    /// Number of messages on all branches.
    pub messages: u64,
    /// Input and output tokens on all branches.
    pub tokens: u64,
    /// Start of the first text, with line breaks.
    pub first_text: String,
    /// Working directory when it was used last, if it was recorded.
    pub folder: Option<PathBuf>,
    /// Branch of the repository when it was used last, if there was one.
    pub branch: Option<String>,
    /// Whether the user has made or chosen it, as far as there is a list; others came with a folder.
    pub is_known: bool,
    /// Error if the session cannot be read; the other fields are incomplete then.
    pub problem: Option<StoreError>,
}

impl SessionHead {
    pub(super) fn read(paths: &Paths, id: SessionId) -> Self {
        Self::read_with(paths, id, |head, tree| {
            head.identify(tree)?;
            head.count(tree)
        })
    }

    /// Reads what the session is chosen by, which takes the same time for a long session: its name, UUID and times.
    pub(super) fn read_identity(paths: &Paths, id: SessionId) -> Self {
        Self::read_with(paths, id, Self::identify)
    }

    fn read_with(
        paths: &Paths,
        id: SessionId,
        look: impl Fn(&mut Self, &Tree) -> Result<(), Failure>,
    ) -> Self {
        let created_at = created_at(&id);
        let unread = Self {
            id,
            paths: paths.clone(),
            uuid: None,
            name: None,
            created_at,
            last_written: created_at,
            is_unused: false,
            messages: 0,
            tokens: 0,
            first_text: String::new(),
            folder: None,
            branch: None,
            is_known: true,
            problem: None,
        };
        let read = |tree: &Tree| {
            let mut head = unread.clone();
            let read = look(&mut head, tree);
            // What was read before the damage is enough to find the session by, and so to recover it.
            head.problem = read
                .err()
                .map(|failure| failure.at("cannot read", paths.database()));
            head
        };
        let whole = |tree: &Tree| Some(read(tree)).filter(|head| head.problem.is_none());
        if let Some(head) = resting::read(paths, whole) {
            return head;
        }
        match Tree::open(paths) {
            Ok(tree) => read(&tree),
            Err(problem) => Self {
                problem: Some(problem),
                ..unread
            },
        }
    }

    fn identify(&mut self, tree: &Tree) -> Result<(), Failure> {
        let connection = &tree.connection;
        self.name = context::get(connection, context::NAME)?;
        self.uuid = context::get(connection, context::UUID)?;
        if let Some(begun) = context::get(connection, context::BEGUN)? {
            self.created_at = Time(begun.parse().unwrap_or(self.created_at.0));
        }
        let newest: Option<i64> = connection
            .query_row(
                "SELECT created_at * 1000 + created_ms FROM messages ORDER BY rowid DESC LIMIT 1",
                [],
                |row| row.get(0),
            )
            .optional()?;
        self.is_unused = newest.is_none();
        self.last_written = newest.map_or(self.created_at, Time);
        Ok(())
    }

    fn count(&mut self, tree: &Tree) -> Result<(), Failure> {
        let connection = &tree.connection;
        self.folder = context::get(connection, context::FOLDER)?.map(PathBuf::from);
        self.branch =
            context::get(connection, context::GIT_BRANCH)?.filter(|branch| !branch.is_empty());
        let count = connection.query_row("SELECT count(*) FROM messages", [], |row| row.get(0))?;
        self.messages = unsigned(count);
        let tokens = connection.query_row(
            "SELECT coalesce(sum(min(max(coalesce(input_tokens, 0), 0), ?1) + min(max(coalesce(output_tokens, 0), 0), ?1)), 0)
             FROM messages",
            [signed(MOST_TOKENS)],
            |row| row.get(0),
        )?;
        self.tokens = unsigned(tokens);
        let first: Option<String> = connection
            .query_row(
                "SELECT substr(content, 1, ?1) FROM content_blocks \
                 WHERE block_type = 'text' AND (content NOT LIKE ?2 AND content NOT LIKE ?3 OR content LIKE ?4) ORDER BY id LIMIT 1",
                (FIRST_TEXT as i64, format!("{NOTE} %"), format!("{HOOK_NOTE} %"), called("%")),
                |row| row.get(0),
            )
            .optional()?;
        let first = first.unwrap_or_default();
        self.first_text = command_in(&first).unwrap_or(&first).to_owned();
        Ok(())
    }

    /// Corrects times that a clock has given which was ahead: the session was begun no later than `newest`.
    pub(super) fn date_by(&mut self, newest: Time) {
        self.created_at = self.created_at.min(newest);
        if self.last_written > ah_ids::now() {
            self.last_written = self.created_at;
        }
    }

    /// Returns what tells it from other sessions of the name.
    pub(super) fn label(&self) -> String {
        match &self.name {
            Some(name) => format!("{} [{name}]", self.id),
            None => self.id.to_string(),
        }
    }
}
