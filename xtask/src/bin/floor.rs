//! The least that a run of an agent can cost: a bare loop that asks the model, stores what it says, runs what it asks for,
//! and asks again.
//!
//! It has no tools but a command, no permissions, limits or display, and trusts what it gets; what it stores is as safe as
//! in the agent: SQLite with `synchronous=FULL`, a commit before each step. The benchmark measures it beside the agent, by
//! the same requests on the same machine, so it takes the agent's command line and environment.

#![expect(
    clippy::print_stdout,
    reason = "a command-line tool: printing is its output"
)]

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use rusqlite::{Connection, params};
use serde_json::{Value, json};

/// The model sees so many bytes of an output; all of it is kept in a file.
const SEEN: usize = 30_000;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--version") {
        println!("floor");
        return Ok(());
    }
    let prompt = arguments.last().context("no prompt")?;
    let mut session = Session::open()?;
    let mut server = Server::connect()?;
    session.append("user", &json!([{"type": "text", "text": prompt}]))?;
    loop {
        let answer = server.ask(&session.messages)?;
        session.append("assistant", &Value::Array(answer.blocks.clone()))?;
        if answer.calls.is_empty() {
            print!("{}", answer.text);
            return Ok(());
        }
        let results = session.run(&answer.calls)?;
        session.append("user", &results)?;
    }
}

/// The conversation in memory, as it is sent, and its database.
struct Session {
    database: Connection,
    messages: String,
}

impl Session {
    fn open() -> Result<Self> {
        let database = Connection::open("floor.db")?;
        database.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
             CREATE TABLE IF NOT EXISTS messages (id INTEGER PRIMARY KEY, message TEXT NOT NULL);
             CREATE TABLE IF NOT EXISTS calls (id TEXT PRIMARY KEY, output TEXT);",
        )?;
        let mut messages = String::new();
        {
            let mut statement = database.prepare("SELECT message FROM messages ORDER BY id")?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                join(&mut messages, row.get_ref(0)?.as_str()?);
            }
        }
        Ok(Self { database, messages })
    }

    fn append(&mut self, role: &str, content: &Value) -> Result<()> {
        let message = json!({"role": role, "content": content}).to_string();
        let mut insert = self
            .database
            .prepare_cached("INSERT INTO messages (message) VALUES (?1)")?;
        insert.execute([&message])?;
        join(&mut self.messages, &message);
        Ok(())
    }

    /// Runs all commands at once; returns their results.
    fn run(&self, calls: &[Call]) -> Result<Value> {
        let mut running = Vec::new();
        for call in calls {
            let started = "INSERT INTO calls (id) VALUES (?1)";
            self.database.prepare_cached(started)?.execute([&call.id])?;
            let child = Command::new("bash")
                .args(["-c", &call.command])
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .spawn()?;
            running.push((call, child));
        }
        let mut results = Vec::new();
        for (call, mut child) in running {
            let output = kept(&mut child, &call.id)?;
            child.wait()?;
            let finished = "UPDATE calls SET output = ?2 WHERE id = ?1";
            let mut finished = self.database.prepare_cached(finished)?;
            finished.execute(params![call.id, output])?;
            results.push(json!({"type": "tool_result", "tool_use_id": call.id, "content": output}));
        }
        Ok(Value::Array(results))
    }
}

fn join(messages: &mut String, message: &str) {
    if !messages.is_empty() {
        messages.push(',');
    }
    messages.push_str(message);
}

/// Reads what a command prints, and keeps it in a file if it is much; returns the beginning.
fn kept(child: &mut Child, id: &str) -> Result<String> {
    let mut output = child.stdout.take().context("no output")?;
    let mut seen = Vec::new();
    output.by_ref().take(SEEN as u64).read_to_end(&mut seen)?;
    if seen.len() == SEEN {
        let mut file = File::create(format!("{id}.out"))?;
        file.write_all(&seen)?;
        io::copy(&mut output, &mut file)?;
        file.sync_data()?;
    }
    Ok(String::from_utf8_lossy(&seen).into_owned())
}

/// What the model says.
#[derive(Default)]
struct Answer {
    text: String,
    blocks: Vec<Value>,
    calls: Vec<Call>,
}

struct Call {
    id: String,
    command: String,
}

/// A connection to the model's server that is kept.
struct Server {
    host: String,
    key: String,
    stream: BufReader<TcpStream>,
}

impl Server {
    fn connect() -> Result<Self> {
        let url = std::env::var("ANTHROPIC_BASE_URL")?;
        let host = url.strip_prefix("http://").context("no http address")?;
        let stream = TcpStream::connect(host)?;
        stream.set_nodelay(true)?;
        Ok(Self {
            host: host.to_owned(),
            key: std::env::var("ANTHROPIC_API_KEY")?,
            stream: BufReader::with_capacity(1 << 16, stream),
        })
    }

    fn ask(&mut self, messages: &str) -> Result<Answer> {
        let body =
            format!(r#"{{"model":"m","max_tokens":8192,"stream":true,"messages":[{messages}]}}"#);
        let request = format!(
            "POST /v1/messages HTTP/1.1\r\nhost: {}\r\nx-api-key: {}\r\ncontent-length: {}\r\n\r\n{body}",
            self.host,
            self.key,
            body.len()
        );
        self.stream.get_mut().write_all(request.as_bytes())?;
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        ensure!(line.starts_with("HTTP/1.1 200"), "the server says {line}");
        while line.trim_end() != "" {
            line.clear();
            self.stream.read_line(&mut line)?;
        }
        let mut answer = Answer::default();
        let mut open = Open::default();
        let mut chunk = Vec::new();
        loop {
            line.clear();
            self.stream.read_line(&mut line)?;
            let length = usize::from_str_radix(line.trim_end(), 16)?;
            chunk.resize(length + 2, 0);
            self.stream.read_exact(&mut chunk)?;
            if length == 0 {
                return Ok(answer);
            }
            // One event is one chunk here.
            for line in chunk[..length].split(|byte| *byte == b'\n') {
                if let Some(data) = line.strip_prefix(b"data: ") {
                    open.take(&serde_json::from_slice(data)?, &mut answer);
                }
            }
        }
    }
}

/// The block that is being sent.
#[derive(Default)]
struct Open {
    id: String,
    text: String,
    input: String,
}

impl Open {
    fn take(&mut self, event: &Value, answer: &mut Answer) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        match event["type"].as_str() {
            Some("content_block_start") => {
                *self = Self {
                    id: text(&event["content_block"]["id"]),
                    ..Self::default()
                };
            }
            Some("content_block_delta") => {
                let delta = &event["delta"];
                self.text += delta["text"].as_str().unwrap_or_default();
                self.input += delta["partial_json"].as_str().unwrap_or_default();
            }
            Some("content_block_stop") if self.id.is_empty() => {
                answer.text += &self.text;
                answer
                    .blocks
                    .push(json!({"type": "text", "text": self.text}));
            }
            Some("content_block_stop") => {
                let input: Value = serde_json::from_str(&self.input).unwrap_or_default();
                let command = text(&input["command"]);
                let block =
                    json!({"type": "tool_use", "id": self.id, "name": "bash", "input": input});
                answer.blocks.push(block);
                answer.calls.push(Call {
                    id: self.id.clone(),
                    command,
                });
            }
            _ => {}
        }
    }
}
