//! Model server of any API that only records times.
//!
//! The server of the tests checks each history as the real API would; its work would be measured along with the agent's.
//! This one checks nothing: it records when a request begins to arrive and when its answer was handed to the kernel, and
//! the request itself only for those who ask for it.
//! Simultaneous runs are distinguished by their API key.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use parking_lot::Mutex;

use super::answer::Answer;

/// Returns the answer to a request, by its 0-based number within the session.
pub type Script = Arc<dyn Fn(usize) -> Answer + Send + Sync>;

/// One request and its answer.
#[derive(Clone, Copy)]
pub struct Exchange {
    /// Time at which the first byte of the request was there.
    pub asked: Instant,
    /// Time at which the answer was about to be written.
    pub answered: Instant,
}

/// Server on the loopback interface; it runs as long as this process.
pub struct Server {
    pub address: SocketAddr,
    sessions: Sessions,
}

#[derive(Clone, Default)]
struct Sessions(Arc<Mutex<HashMap<String, MeasuredSession>>>);

struct MeasuredSession {
    script: Script,
    asked: usize,
    exchanges: Vec<Exchange>,
    /// Bodies of the requests, if they are kept.
    bodies: Option<Vec<Vec<u8>>>,
}

impl Server {
    /// Listens on a free port.
    pub fn start() -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let sessions = Sessions::default();
        let ours = sessions.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let sessions = sessions.clone();
                // A client that disconnects early fails on its own side.
                thread::spawn(move || drop(serve(&stream, &sessions)));
            }
        });
        Ok(Self {
            address,
            sessions: ours,
        })
    }

    /// Starts a session: requests with this key are answered by the script.
    pub fn open(&self, key: &str, script: Script) {
        self.insert(key, script, None);
    }

    /// Starts a session whose requests are kept whole.
    pub fn open_keeping(&self, key: &str, script: Script) {
        self.insert(key, script, Some(Vec::new()));
    }

    fn insert(&self, key: &str, script: Script, bodies: Option<Vec<Vec<u8>>>) {
        let session = MeasuredSession {
            script,
            asked: 0,
            exchanges: Vec::new(),
            bodies,
        };
        self.sessions
            .with(|sessions| sessions.insert(key.to_owned(), session));
    }

    /// Ends a session and returns the bodies of its requests.
    pub fn close_kept(&self, key: &str) -> Vec<Vec<u8>> {
        self.sessions
            .with(|sessions| sessions.remove(key))
            .and_then(|session| session.bodies)
            .unwrap_or_default()
    }

    /// Returns the number of requests of a session that have been answered.
    pub fn answered(&self, key: &str) -> usize {
        self.sessions.with(|sessions| {
            sessions
                .get(key)
                .map_or(0, |session| session.exchanges.len())
        })
    }

    /// Ends a session and returns its exchanges; later requests with the key are refused.
    pub fn close(&self, key: &str) -> Vec<Exchange> {
        self.sessions
            .with(|sessions| sessions.remove(key))
            .map(|session| session.exchanges)
            .unwrap_or_default()
    }
}

impl Sessions {
    fn with<T>(&self, f: impl FnOnce(&mut HashMap<String, MeasuredSession>) -> T) -> T {
        f(&mut self.0.lock())
    }

    fn keeps(&self, key: &str) -> bool {
        self.with(|sessions| {
            sessions
                .get(key)
                .is_some_and(|session| session.bodies.is_some())
        })
    }

    fn next_answer(&self, key: &str, body: Vec<u8>) -> Option<Answer> {
        let (script, index) = self.with(|sessions| {
            let session = sessions.get_mut(key)?;
            session.asked += 1;
            if let Some(bodies) = &mut session.bodies {
                bodies.push(body);
            }
            Some((Arc::clone(&session.script), session.asked - 1))
        })?;
        Some(script(index))
    }
}

fn serve(stream: &TcpStream, sessions: &Sessions) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::with_capacity(1 << 16, stream);
    let mut writer = stream;
    while !reader.fill_buf()?.is_empty() {
        let asked = Instant::now();
        let (key, body) = read_request(&mut reader, |key| sessions.keeps(key))?;
        let Some(answer) = sessions.next_answer(&key, body) else {
            return writer.write_all(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n");
        };
        thread::sleep(answer.delay);
        // Taken before the write: the client may be reading before the kernel has returned to us.
        let answered = Instant::now();
        say(writer, &answer)?;
        sessions.with(|sessions| {
            if let Some(session) = sessions.get_mut(&key) {
                session.exchanges.push(Exchange { asked, answered });
            }
        });
    }
    Ok(())
}

/// Sends an answer: at once, or in one piece per millisecond of its time.
fn say(mut writer: impl Write, answer: &Answer) -> io::Result<()> {
    let pieces = usize::try_from(answer.time.as_millis())
        .map_err(io::Error::other)?
        .max(1);
    let size = answer.bytes.len().div_ceil(pieces).max(1);
    let mut due = Instant::now();
    for piece in answer.bytes.chunks(size) {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        writer.write_all(piece)?;
        due += answer.time / u32::try_from(pieces).map_err(io::Error::other)?;
    }
    Ok(())
}

/// Reads one request to its end; returns its API key, and its body if sessions with this key keep them.
fn read_request(
    reader: &mut impl BufRead,
    keeps: impl Fn(&str) -> bool,
) -> io::Result<(String, Vec<u8>)> {
    let (mut key, mut length, mut is_chunked) = (String::new(), 0, false);
    loop {
        let line = read_line(reader)?;
        if line.is_empty() {
            break;
        }
        let Some((name, value)) = line.split_once(':') else {
            continue;
        };
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "x-api-key" => value.clone_into(&mut key),
            "authorization" => value.trim_start_matches("Bearer ").clone_into(&mut key),
            "content-length" => length = value.parse().map_err(io::Error::other)?,
            "transfer-encoding" => is_chunked = value.eq_ignore_ascii_case("chunked"),
            _ => {}
        }
    }
    let mut body = Vec::new();
    let mut sink: Box<dyn Write + '_> = if keeps(&key) {
        Box::new(&mut body)
    } else {
        Box::new(io::sink())
    };
    if is_chunked {
        loop {
            let size = u64::from_str_radix(&read_line(reader)?, 16).map_err(io::Error::other)?;
            io::copy(&mut reader.take(size), &mut sink)?;
            read_line(reader)?;
            if size == 0 {
                break;
            }
        }
    } else {
        io::copy(&mut reader.take(length), &mut sink)?;
    }
    drop(sink);
    Ok((key, body))
}

fn read_line(reader: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::answer::says;
    use super::*;

    #[test]
    fn a_session_is_played_in_order_on_one_connection() {
        let server = Server::start().unwrap();
        server.open("a", Arc::new(|index| says(&format!("answer {index}."))));
        let mut stream = TcpStream::connect(server.address).unwrap();
        for (request, expected) in [
            ("x-api-key: a\r\ncontent-length: 2\r\n\r\n{}", "answer 0."),
            (
                "Authorization: Bearer a\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
                "answer 1.",
            ),
        ] {
            write!(stream, "POST /v1/messages HTTP/1.1\r\n{request}").unwrap();
            let mut received = String::new();
            let mut reader = BufReader::new(&stream);
            while !received.ends_with("\r\n0\r\n\r\n") {
                reader.read_line(&mut received).unwrap();
            }
            assert!(received.contains(expected), "{received}");
        }
        write!(stream, "POST / HTTP/1.1\r\nauthorization: Bearer b\r\n\r\n").unwrap();
        let mut refusal = String::new();
        stream.read_to_string(&mut refusal).unwrap();
        assert!(refusal.starts_with("HTTP/1.1 401 "), "{refusal}");

        let exchanges = server.close("a");
        assert_eq!(exchanges.len(), 2);
        assert!(
            exchanges
                .iter()
                .all(|exchange| exchange.asked <= exchange.answered)
        );
        assert!(exchanges[0].answered <= exchanges[1].asked);
    }
}
