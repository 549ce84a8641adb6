//! Connections that become WebSockets.

use std::io::Write as _;
use std::net::TcpStream;

use tungstenite::handshake::derive_accept_key;
use tungstenite::protocol::{Role, WebSocket};
use tungstenite::{Error, Message};

use super::http::IncomingRequest;

/// Whether a request asks for a WebSocket.
pub fn is_wanted(asked: &IncomingRequest) -> bool {
    let is = |name: &str, value: &str| {
        let found = asked.headers.get(name);
        found.is_some_and(|found| found.eq_ignore_ascii_case(value))
    };
    asked.method == "GET" && is("upgrade", "websocket") && is("sec-websocket-version", "13")
}

/// Makes a connection the WebSocket that `asked` asks for.
pub fn open<'a>(
    stream: &'a TcpStream,
    asked: &IncomingRequest,
) -> std::io::Result<WebSocket<&'a TcpStream>> {
    let key = asked.headers.get("sec-websocket-key");
    let key = key.ok_or_else(|| std::io::Error::other("no key of a WebSocket"))?;
    let accept = derive_accept_key(key.as_bytes());
    let head = format!(
        "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-accept: {accept}\r\n\r\n"
    );
    (&mut &*stream).write_all(head.as_bytes())?;
    Ok(WebSocket::from_raw_socket(stream, Role::Server, None))
}

/// Returns the next message of the client as a request to the path of the one that has opened the socket; `None` if it has
/// closed it.
pub fn read(
    socket: &mut WebSocket<&TcpStream>,
    opening: &IncomingRequest,
) -> Option<IncomingRequest> {
    loop {
        match socket.read() {
            Ok(Message::Text(text)) => {
                return Some(IncomingRequest {
                    method: "POST".to_owned(),
                    path: opening.path.clone(),
                    headers: opening.headers.clone(),
                    body: text.as_bytes().to_vec(),
                });
            }
            Ok(Message::Close(_)) | Err(Error::Io(_) | Error::ConnectionClosed) => return None,
            Ok(_) => {}
            Err(_) => return None,
        }
    }
}
