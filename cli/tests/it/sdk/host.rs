//! A host that speaks the Agent SDK protocol, and reads each line when the test asks for it.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{self, JoinHandle};

use ah_testkit::server::Server;
use serde_json::{Value, json};

use crate::support::binary::{HANG, World, spawn};

/// The binary as a child process, and both ends of its streams.
pub struct Host {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    errors: Option<JoinHandle<String>>,
    /// The lines read so far.
    pub seen: Vec<Value>,
    asked: usize,
}

/// The result of a finished session.
#[derive(Debug)]
pub struct Over {
    /// All lines of its output.
    pub lines: Vec<Value>,
    pub code: Option<i32>,
    pub stderr: String,
}

impl Host {
    /// Starts it with these arguments after those that all hosts pass.
    pub fn new(world: &World, server: &Server, arguments: &[&str]) -> Self {
        let all = ["--output-format", "stream-json", "--verbose"]
            .iter()
            .chain(&["--input-format", "stream-json"])
            .chain(&["-m", "sonnet"])
            .chain(arguments)
            .copied();
        let mut command = world.asking(server, all).into_command();
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = spawn(command.stderr(Stdio::piped()));
        let (out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let (sender, lines) = sync_channel(0);
        thread::spawn(move || {
            for line in BufReader::new(out).lines() {
                if sender.send(line.unwrap()).is_err() {
                    return;
                }
            }
        });
        let errors = thread::spawn(move || {
            let mut text = String::new();
            err.read_to_string(&mut text).unwrap();
            text
        });
        Self {
            input: child.stdin.take(),
            child,
            lines,
            errors: Some(errors),
            seen: Vec::new(),
            asked: 0,
        }
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Writes a line of any content.
    pub fn write(&mut self, line: &[u8]) {
        let input = self.input.as_mut().unwrap();
        input.write_all(line).unwrap();
        input.write_all(b"\n").unwrap();
        input.flush().unwrap();
    }

    /// Writes an object as a line.
    pub fn say(&mut self, line: &Value) {
        self.write(line.to_string().as_bytes());
    }

    /// Writes a prompt.
    pub fn prompt(&mut self, text: &str) {
        self.say(&json!({
            "type": "user",
            "session_id": "",
            "message": {"role": "user", "content": text},
            "parent_tool_use_id": null,
        }));
    }

    /// Sends a control request without waiting; returns its id.
    pub fn request(&mut self, subtype: &str, fields: &Value) -> String {
        self.asked += 1;
        let id = format!("req_{}", self.asked);
        let mut request = fields.clone();
        request["subtype"] = json!(subtype);
        self.say(&json!({"type": "control_request", "request_id": id, "request": request}));
        id
    }

    /// Sends a control request, reads up to its response, and returns that.
    pub fn ask(&mut self, subtype: &str, fields: &Value) -> Value {
        let id = self.request(subtype, fields);
        self.answer_to(&id)
    }

    /// Reads up to the response to request `id`, and returns it.
    pub fn answer_to(&mut self, id: &str) -> Value {
        let line = self.until(|line| line["response"]["request_id"] == id);
        assert_eq!(line["type"], "control_response", "{line}");
        line["response"].clone()
    }

    /// Answers a control request of the program.
    pub fn answer(&mut self, request: &Value, response: &Value) {
        let response = json!({
            "subtype": "success",
            "request_id": request["request_id"],
            "response": response,
        });
        self.say(&json!({"type": "control_response", "response": response}));
    }

    /// The next line, or `None` at the end of the output.
    pub fn next(&mut self) -> Option<Value> {
        let line = match self.lines.recv_timeout(HANG) {
            Ok(line) => line,
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return None,
            Err(error) => panic!("nothing more comes ({error}) after {:#?}", self.seen.last()),
        };
        let line: Value = serde_json::from_str(&line)
            .unwrap_or_else(|error| panic!("a line is no JSON ({error}): {line}"));
        assert!(line.is_object(), "a line is no object: {line}");
        self.seen.push(line.clone());
        Some(line)
    }

    /// Reads up to the first line that matches, and returns it.
    pub fn until(&mut self, is_meant: impl Fn(&Value) -> bool) -> Value {
        while let Some(line) = self.next() {
            if is_meant(&line) {
                return line;
            }
        }
        panic!("it did not come; the last line was {:#?}", self.seen.last());
    }

    /// Reads up to the result of the current prompt.
    pub fn result(&mut self) -> Value {
        self.until(|line| line["type"] == "result")
    }

    /// Closes the input.
    pub fn close(&mut self) {
        self.input = None;
    }

    /// Closes the input and reads to the end.
    pub fn end(mut self) -> Over {
        self.close();
        while self.next().is_some() {}
        self.over()
    }

    fn over(mut self) -> Over {
        let errors = self.errors.take().unwrap();
        let stderr = errors.join().unwrap();
        let code = self.child.wait().unwrap().code();
        assert!(!stderr.contains("panicked"), "{stderr}");
        Over {
            lines: std::mem::take(&mut self.seen),
            code,
            stderr,
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
