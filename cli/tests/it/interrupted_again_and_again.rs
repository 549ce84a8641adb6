//! A conversation that is interrupted again and again, and its invariants.
//!
//! The test keeps its own record of what the program acknowledged: requests to the server, messages in the event
//! stream, and effects of the tools. It never relies on what the program reports later.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use ah_conversation::Usage;
use ah_provider::script::format::Turn;
use ah_testkit::script::{says, thinks, uses, uses_all};
use ah_testkit::server::Server;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::support::binary::{Ah, Ended, World};

/// A file to which every tool that changes something appends a line, as its last action.
pub const EFFECTS: &str = "effects";

/// A conversation with its server.
pub struct Talk {
    pub world: World,
    pub server: Server,
    /// Ids of the messages that events reported as stored.
    acknowledged: Vec<String>,
    /// Ids of the calls whose results were in the journal at the end of a run.
    finished: HashSet<String>,
}

impl Talk {
    /// A conversation of `turns`. The server picks each by the number of answers already in the request.
    pub fn new(turns: impl IntoIterator<Item = Turn>) -> Self {
        Self::with(Server::by_history(turns))
    }

    /// A conversation with `server`.
    pub fn with(server: Server) -> Self {
        Self {
            world: World::new(),
            server,
            acknowledged: Vec::new(),
            finished: HashSet::new(),
        }
    }

    /// A conversation with every kind of tool call, and an answer for every later prompt.
    pub fn with_tools() -> Self {
        let talk = Self::new(turns());
        talk.world.write("notes", "first\nsecond\n");
        talk
    }

    /// A run with `prompt` that prints its events.
    pub fn ah(&self, prompt: &str) -> Ah {
        let arguments = ["-m", "sonnet", "--output-format", "events", prompt];
        self.world.asking(&self.server, arguments)
    }

    /// Records what a run acknowledged, and which calls finished.
    pub fn note(&mut self, ended: &Ended) {
        self.finished.extend(self.finished_calls());
        let whole_lines = ended
            .stdout
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'));
        for line in whole_lines {
            let event: Value = serde_json::from_str(line).expect("a line is an event");
            if event["event_type"] == "api_call_end" {
                self.acknowledged
                    .push(event["message_id"].as_str().unwrap().to_owned());
            }
        }
    }

    /// The successful calls in the journal. Reads a copy: opening the database itself would recover it, which is the
    /// next run's task.
    fn finished_calls(&self) -> Vec<String> {
        let copies = tempfile::tempdir().unwrap();
        for path in self.world.databases() {
            for ending in ["", "-wal"] {
                let from = format!("{}{ending}", path.display());
                let to = copies.path().join(format!("copy.db{ending}"));
                // A session that was closed properly has no log.
                let _ = fs::copy(from, to);
            }
        }
        let connection = Connection::open(copies.path().join("copy.db")).unwrap();
        let sql =
            "SELECT tool_use_id FROM tool_calls WHERE finished_at IS NOT NULL AND NOT is_error";
        // If the program died early there are no tables yet.
        let Ok(mut statement) = connection.prepare(sql) else {
            return Vec::new();
        };
        let calls = statement.query_map([], |row| row.get(0)).unwrap();
        calls.map(Result::unwrap).collect()
    }

    /// Fails unless everything acknowledged is stored, each request contains the previous one, no tool ran twice, and
    /// the database is sound.
    #[track_caller]
    pub fn assert_sound(&self) {
        self.assert_nothing_forgotten();
        self.assert_nothing_twice();
        self.assert_stored();
    }

    /// Fails unless everything acknowledged is stored, and the database is sound.
    #[track_caller]
    pub fn assert_stored(&self) {
        assert_eq!(self.server.refusals(), Vec::<String>::new());
        self.world.assert_nothing_runs();
        let connection = open_sound(&self.world.database());
        for id in &self.acknowledged {
            assert_eq!(count(&connection, "messages", id), 1, "{id} is lost");
        }
    }

    /// Each request contains the messages of the previous one, unchanged and in order.
    #[track_caller]
    fn assert_nothing_forgotten(&self) {
        let requests = self.server.requests();
        for (earlier, later) in requests.iter().zip(&requests[1..]) {
            let (earlier, later) = (blocks(&earlier.body), blocks(&later.body));
            assert!(
                later.starts_with(&earlier),
                "{earlier:#?}\nis not the beginning of\n{later:#?}"
            );
        }
    }

    /// No tool that changes something ran twice, and each result matches what the tool did.
    #[track_caller]
    fn assert_nothing_twice(&self) {
        let effects = self.world.text(EFFECTS);
        let lines: Vec<_> = effects.lines().collect();
        let distinct: HashSet<_> = lines.iter().collect();
        assert_eq!(lines.len(), distinct.len(), "{lines:?}");
        let requests = self.server.requests();
        let told = blocks(&requests.last().unwrap().body);
        for (_, call) in told.iter().filter(|(_, block)| block["type"] == "tool_use") {
            let command = call["input"]["command"].as_str().unwrap_or_default();
            let Some(effect) = command
                .split(" >>")
                .next()
                .and_then(|text| text.rsplit("echo ").next())
            else {
                continue;
            };
            let result = told
                .iter()
                .find(|(_, block)| block["tool_use_id"] == call["id"]);
            let (_, result) = result.expect("a call has a result");
            let failed = result["is_error"] == json!(true);
            let had_ended = self.finished.contains(call["id"].as_str().unwrap());
            assert!(!(had_ended && failed), "{effect} had ended well: {result}");
            match lines.contains(&effect) {
                true => assert!(!result.to_string().contains("did not run"), "{effect} was"),
                false => assert!(
                    failed || !effect.starts_with("effect"),
                    "{effect} never was"
                ),
            }
        }
    }
}

/// Calls that change something, alone and beside others, one that only reads, one whose output is spooled to a file,
/// and then one answer per prompt.
fn turns() -> Vec<Turn> {
    let effect =
        |n: u32| json!({"command": format!("echo effect {n}; echo effect {n} >>{EFFECTS}")});
    let big = "head -c 300000 /dev/zero | tr '\\0' x; echo effect 4 >>effects";
    let mut turns = vec![
        Turn {
            text: Some("I begin.".into()),
            ..uses("bash", effect(1))
        },
        uses_all([
            ("bash", effect(2)),
            ("read", json!({"path": "notes"})),
            ("grep", json!({"pattern": "second"})),
            ("bash", effect(3)),
        ]),
        Turn {
            tools: uses("bash", json!({"command": big})).tools,
            usage: Some(Usage {
                input_tokens: 100,
                output_tokens: 10,
                ..Usage::default()
            }),
            ..thinks("It is big.", "And now the big one.")
        },
    ];
    turns.extend(
        [
            "Done.",
            "And done.",
            "Still done.",
            "Yes.",
            "Yes!",
            "Yes?",
            "Well.",
            "So.",
        ]
        .map(says),
    );
    turns
}

/// The blocks of a request with their roles, without the parts that may change between requests.
pub fn blocks(body: &Value) -> Vec<(String, Value)> {
    let mut blocks = Vec::new();
    for message in body["messages"].as_array().into_iter().flatten() {
        let role = message["role"].as_str().unwrap();
        let list = match &message["content"] {
            Value::String(text) => vec![json!({"type": "text", "text": text})],
            content => content.as_array().unwrap().clone(),
        };
        for mut block in list {
            block.as_object_mut().unwrap().remove("cache_control");
            if let Some(text) = block["text"].as_str() {
                let said = without_context(text);
                if said.is_empty() && !text.is_empty() {
                    continue;
                }
                block["text"] = said.into();
            }
            blocks.push((role.to_owned(), block));
        }
    }
    blocks
}

/// Returns a text without what is told before the first message, which is not said. Its end is the environment; a gateway may
/// have joined them all.
fn without_context(text: &str) -> String {
    let Some((before, context)) = text.split_once("[CONTEXT]\n") else {
        return text.to_owned();
    };
    let environment = context.split_once("# Environment\n\n");
    let said = environment.and_then(|(_, lines)| lines.split_once("\n\n"));
    format!("{before}{}", said.map_or("", |(_, said)| said))
}

/// Opens a database, and fails unless it is sound.
#[track_caller]
pub fn open_sound(path: &Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    let verdict: String = connection
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(verdict, "ok", "{}", path.display());
    let mut statement = connection.prepare("PRAGMA foreign_key_check").unwrap();
    assert!(
        !statement.exists([]).unwrap(),
        "{} points nowhere",
        path.display()
    );
    drop(statement);
    connection
}

fn count(connection: &Connection, table: &str, id: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM {table} WHERE id = ?");
    connection.query_row(&sql, [id], |row| row.get(0)).unwrap()
}

/// The texts of one role in a database, oldest first.
pub fn texts(connection: &Connection, role: &str) -> Vec<String> {
    let sql = "SELECT content FROM content_blocks JOIN messages ON messages.id = message_id
               WHERE role = ? AND block_type = 'text' ORDER BY content_blocks.id";
    let mut statement = connection.prepare(sql).unwrap();
    let texts = statement.query_map([role], |row| row.get(0)).unwrap();
    texts.map(Result::unwrap).collect()
}
