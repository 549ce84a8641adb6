//! A client of `ah serve` that says exactly what a test wants it to, and checks what it is told against the description.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

use ah_testkit::github::Exchange;
use parking_lot::Mutex;
use serde_json::Value;

use rustix::process::Signal;

use crate::support::binary::Running;
use crate::work::check_exchange;

const DESCRIPTION: &str = include_str!("../../../../docs/openapi.json");

/// A response.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: String,
    /// The body; null if it is no JSON.
    pub json: Value,
}

/// An event of a stream.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Event {
    pub name: String,
    pub id: String,
    pub data: Value,
}

/// A server, and what was said.
pub struct Client {
    /// Locked, so that threads can share a client.
    running: Mutex<Running>,
    host: String,
    token: String,
    /// Address of the page, without the token.
    page: String,
    exchanges: Mutex<Vec<Exchange>>,
}

/// A stream of events.
pub struct Stream(BufReader<Chunks>);

impl Client {
    /// Waits until the server says where it is.
    pub fn of(running: Running) -> Self {
        running.wait_for_output("page: ");
        let output = loop {
            let output = running.output_so_far();
            if output.lines().count() == 3 && output.ends_with('\n') {
                break output;
            }
            std::thread::yield_now();
        };
        let mut lines = output.lines();
        let host = lines.next().unwrap().strip_prefix("http://").unwrap();
        let token = lines.next().unwrap().strip_prefix("token: ").unwrap();
        assert_eq!(token.len(), 64);
        let page = lines.next().unwrap().strip_prefix("page: ").unwrap();
        let (page, secret) = page.split_once('#').unwrap();
        assert_eq!(secret, token);
        Self {
            host: host.to_owned(),
            token: token.to_owned(),
            page: page.to_owned(),
            running: Mutex::new(running),
            exchanges: Mutex::default(),
        }
    }

    pub fn host(&self) -> &str {
        &self.host
    }

    pub fn token(&self) -> &str {
        &self.token
    }

    /// The folder of the page, as `/KEY/`.
    pub fn folder(&self) -> String {
        let server = format!("http://{}", self.host);
        self.page.strip_prefix(&server).unwrap().to_owned()
    }

    /// Interrupts the server, and waits for its end.
    pub fn end(self) {
        let running = self.running.into_inner();
        running.signal(Signal::INT);
        running.wait().expect(0);
    }

    pub fn get(&self, place: &str) -> Reply {
        self.told("GET", place, &Value::Null)
    }

    pub fn post(&self, place: &str, body: &Value) -> Reply {
        self.told("POST", place, body)
    }

    pub fn patch(&self, place: &str, body: &Value) -> Reply {
        self.told("PATCH", place, body)
    }

    pub fn delete(&self, place: &str) -> Reply {
        self.told("DELETE", place, &Value::Null)
    }

    fn told(&self, method: &str, place: &str, body: &Value) -> Reply {
        let token = format!("Bearer {}", self.token);
        let headers = [("Host", &*self.host), ("Authorization", &*token)];
        let text = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        let reply = self.raw(method, place, &headers, text.as_bytes());
        let (path, query) = place.split_once('?').unwrap_or((place, ""));
        self.exchanges.lock().push(Exchange {
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            // An empty object is sent where nothing is wanted.
            sent: match body.as_object().is_some_and(serde_json::Map::is_empty) {
                true => Value::Null,
                false => body.clone(),
            },
            status: reply.status,
            answer: reply.json.clone(),
            is_fault: false,
        });
        reply
    }

    /// Sends a request with exactly these headers, and reads the response.
    pub fn raw(&self, method: &str, place: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        let mut stream = self.ask(method, place, headers, body);
        let mut bytes = Vec::new();
        // A server that has refused a large request may have closed the connection before its end.
        let _ = stream.read_to_end(&mut bytes);
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).map(|word| word.parse().unwrap());
        Reply {
            status: status.unwrap_or_else(|| panic!("{method} {place}: {text}")),
            head: head.to_owned(),
            body: body.to_owned(),
            json: serde_json::from_str(body).unwrap_or_default(),
        }
    }

    fn ask(&self, method: &str, place: &str, headers: &[(&str, &str)], body: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        let mut text = format!("{method} {place} HTTP/1.1\r\nConnection: close\r\n");
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
        stream.write_all(text.as_bytes()).unwrap();
        // The server may have answered before it has all of it.
        let _ = stream.write_all(body);
        stream
    }

    /// Follows a session from the message after `last` on.
    pub fn events(&self, place: &str, last: Option<&str>) -> Stream {
        self.stream(place, last)
    }

    /// Follows a session, and reads nothing until it is asked to.
    pub fn stalled(&self, place: &str) -> Stream {
        self.stream(place, None)
    }

    fn stream(&self, place: &str, last: Option<&str>) -> Stream {
        let token = format!("Bearer {}", self.token);
        let mut headers = vec![("Host", &*self.host), ("Authorization", &*token)];
        headers.extend(last.map(|last| ("Last-Event-ID", last)));
        let mut line = String::new();
        // A client that asks too often asks again.
        let mut lines = loop {
            let mut lines = BufReader::new(self.ask("GET", place, &headers, b""));
            line.clear();
            lines.read_line(&mut line).unwrap();
            if !line.contains(" 429 ") {
                break lines;
            }
            std::thread::yield_now();
        };
        assert!(line.contains(" 200 "), "{line}");
        while line.trim_end() != "" {
            line.clear();
            lines.read_line(&mut line).unwrap();
        }
        let chunks = Chunks { lines, left: 0 };
        Stream(BufReader::new(chunks))
    }

    /// Fails if something was said that the description does not say.
    pub fn conforms(&self) {
        let description: Value = serde_json::from_str(DESCRIPTION).unwrap();
        for exchange in self.exchanges.lock().iter() {
            check_exchange(&description, exchange);
        }
    }
}

impl Stream {
    /// Returns the next event.
    pub fn next(&mut self) -> Event {
        let mut event = Event::default();
        let mut data = String::new();
        loop {
            let mut line = String::new();
            assert!(self.0.read_line(&mut line).unwrap() > 0, "the stream ended");
            let line = line.trim_end_matches('\n');
            match line.split_once(": ") {
                Some(("event", name)) => name.clone_into(&mut event.name),
                Some(("id", id)) => id.clone_into(&mut event.id),
                Some(("data", more)) => data.push_str(more),
                _ if line.is_empty() && !event.name.is_empty() => {
                    event.data = serde_json::from_str(&data).unwrap();
                    return event;
                }
                _ => {}
            }
        }
    }

    /// Returns the events until the run has ended, with the state that says so.
    pub fn until_idle(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        loop {
            let event = self.next();
            if event.name == "message" {
                events.push(event);
            } else if event.data["running"] == false && event.data["ended"].is_object() {
                // Not the end of the run before.
                let is_new = events.iter().any(|event: &Event| event.name == "message");
                events.push(event);
                if is_new {
                    return events;
                }
                events.clear();
            }
        }
    }

    /// Returns the first question that is asked.
    pub fn until_asked(&mut self) -> Value {
        loop {
            let event = self.next();
            if event.name == "state" && event.data["questions"][0].is_object() {
                return event.data["questions"][0].clone();
            }
        }
    }
}

/// The body of a response in chunks.
struct Chunks {
    lines: BufReader<TcpStream>,
    left: usize,
}

impl std::io::Read for Chunks {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        while self.left == 0 {
            let mut line = String::new();
            if self.lines.read_line(&mut line)? == 0 {
                return Ok(0);
            }
            if line.trim() != "" {
                self.left = usize::from_str_radix(line.trim(), 16).unwrap();
                if self.left == 0 {
                    return Ok(0);
                }
            }
        }
        let most = buffer.len().min(self.left);
        let read = self.lines.read(&mut buffer[..most])?;
        self.left -= read;
        Ok(read)
    }
}
