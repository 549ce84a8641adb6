//! A loopback server that answers requests with prepared bytes, one answer after the other, and records the requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// A part of an answer.
#[derive(Clone)]
pub enum Part {
    /// These bytes.
    Send(Vec<u8>),
    /// Pings until the client disconnects.
    Pings,
    /// So many comments, with pauses between them.
    Comments(u32),
    /// Nothing until the client disconnects.
    Silence,
    /// The end of the connection.
    Close,
}

#[derive(Default)]
struct Log {
    requests: Mutex<Vec<String>>,
    connections: AtomicUsize,
    client_left: Notify,
}

/// The server; it runs until the test's runtime ends.
pub struct Server {
    pub url: String,
    log: Arc<Log>,
}

impl Server {
    /// Starts a server with these answers. It closes the connection of further requests.
    pub async fn start(answers: Vec<Vec<Part>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let log = Arc::new(Log::default());
        let answers = Arc::new(Mutex::new(answers.into_iter()));
        let shared = log.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                shared.connections.fetch_add(1, Ordering::SeqCst);
                let (answers, log) = (answers.clone(), shared.clone());
                tokio::spawn(async move {
                    let next = || answers.lock().next();
                    serve(stream, next, &log).await;
                });
            }
        });
        Self { url, log }
    }

    /// Returns the requests so far, with their bodies.
    pub fn requests(&self) -> Vec<String> {
        self.log.requests.lock().clone()
    }

    /// Returns the head and the body of the only request.
    pub fn request(&self) -> (String, String) {
        let [request] = &self.requests()[..] else {
            panic!("not one request: {:?}", self.requests())
        };
        let (head, body) = request.split_once("\r\n\r\n").expect("a head");
        (head.to_owned(), body.to_owned())
    }

    /// Returns the number of connections so far.
    pub fn connections(&self) -> usize {
        self.log.connections.load(Ordering::SeqCst)
    }

    /// Waits until a client has disconnected during an answer.
    pub async fn client_left(&self) {
        self.log.client_left.notified().await;
    }
}

async fn serve(mut stream: TcpStream, next: impl Fn() -> Option<Vec<Part>>, log: &Log) {
    while let Some(request) = read_request(&mut stream).await {
        log.requests.lock().push(request);
        let Some(answer) = next() else { return };
        for part in answer {
            match part {
                Part::Send(bytes) => stream.write_all(&bytes).await.expect("written"),
                Part::Pings => {
                    while stream.write_all(chunk(PING).as_bytes()).await.is_ok() {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                }
                Part::Comments(count) => {
                    for _ in 0..count {
                        stream
                            .write_all(chunk(":\n\n").as_bytes())
                            .await
                            .expect("written");
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                }
                Part::Silence => {
                    let _ = stream.read(&mut [0]).await;
                    log.client_left.notify_one();
                }
                Part::Close => return,
            }
        }
    }
}

/// Reads a request with its body, or `None` at the end of the connection.
async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "));
            let length = length.map_or(0, |length| length.parse().expect("a number"));
            if body.len() >= length {
                return Some(text.into_owned());
            }
        }
        let mut piece = [0; 4096];
        let count = stream.read(&mut piece).await.ok()?;
        if count == 0 {
            return None;
        }
        bytes.extend_from_slice(&piece[..count]);
    }
}

const PING: &str = "event: ping\ndata: {\"type\": \"ping\"}\n\n";

/// The head of a streamed answer.
pub fn stream_head() -> Part {
    Part::Send(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
            .to_vec(),
    )
}

/// The end of a streamed answer.
pub fn stream_end() -> Part {
    Part::Send(b"0\r\n\r\n".to_vec())
}

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

/// Events of a streamed answer, one per line.
pub fn events(lines: &str) -> Part {
    let lines = lines.lines().map(str::trim).filter(|line| !line.is_empty());
    let events: String = lines.map(|line| format!("data: {line}\n\n")).collect();
    Part::Send(chunk(&events).into_bytes())
}

/// The start of an answer: `Hel` in its first block.
pub fn beginning() -> Part {
    events(
        r#"{"type":"message_start","message":{"id":"msg_1","usage":{"input_tokens":3,"output_tokens":1}}}
        {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}
        {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hel"}}"#,
    )
}

/// A complete streamed answer: `Hello`.
pub fn hello() -> Vec<Part> {
    let rest = events(
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"lo"}}
        {"type":"content_block_stop","index":0}
        {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}
        {"type":"message_stop"}"#,
    );
    vec![stream_head(), beginning(), rest, stream_end()]
}

/// An answer that is not streamed.
pub fn plain(status: &str, headers: &str, body: &str) -> Vec<Part> {
    let length = body.len();
    vec![Part::Send(
        format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\n\r\n{body}")
            .into_bytes(),
    )]
}
