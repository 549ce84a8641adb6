//! The protocol of the Agent SDKs over a WebSocket of `ah serve`.

use std::net::TcpStream;

use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use ah_testkit::wait::HANG;
use serde_json::{Value, json};
use tungstenite::client::IntoClientRequest as _;
use tungstenite::handshake::HandshakeError;
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::{Error, Message, WebSocket};

use super::client::Client;
use crate::support::binary::World;

/// A host at a WebSocket.
struct Host(WebSocket<TcpStream>);

impl Host {
    /// Connects with these headers; returns the status of the response if it is refused.
    fn connect(client: &Client, query: &str, headers: &[(&str, &str)]) -> Result<Self, u16> {
        let address = format!("ws://{}/v1/sdk{query}", client.host());
        let mut request = address.into_client_request().unwrap();
        for (name, value) in headers {
            let name = tungstenite::http::HeaderName::try_from(*name).unwrap();
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        let stream = TcpStream::connect(client.host()).unwrap();
        stream.set_read_timeout(Some(HANG)).unwrap();
        match tungstenite::client(request, stream) {
            Ok((socket, _)) => Ok(Self(socket)),
            Err(HandshakeError::Failure(Error::Http(response))) => Err(response.status().as_u16()),
            Err(error) => panic!("{error}"),
        }
    }

    fn of(client: &Client, query: &str) -> Self {
        let token = format!("Bearer {}", client.token());
        Self::connect(client, query, &[("Authorization", &token)]).unwrap()
    }

    fn say(&mut self, value: &Value) {
        self.0.send(Message::text(value.to_string())).unwrap();
    }

    fn prompt(&mut self, text: &str) {
        let message = json!({"role": "user", "content": text});
        self.say(&json!({"type": "user", "message": message, "parent_tool_use_id": null}));
    }

    /// Returns the next message of this type.
    fn next(&mut self, kind: &str) -> Value {
        loop {
            if let Message::Text(text) = self.0.read().unwrap() {
                let value: Value = serde_json::from_str(&text).unwrap();
                if value["type"] == kind {
                    return value;
                }
            }
        }
    }

    /// Returns why the server closes.
    fn closed(mut self) -> (CloseCode, String) {
        loop {
            match self.0.read() {
                Ok(Message::Close(Some(frame))) => return (frame.code, frame.reason.to_string()),
                // It has answered the host's own closing frame.
                Ok(Message::Close(None)) | Err(Error::ConnectionClosed) => {
                    return (CloseCode::Normal, String::new());
                }
                other => drop(other.unwrap()),
            }
        }
    }
}

#[test]
fn a_host_drives_a_session_and_others_see_it() {
    let world = World::new();
    let file = world.file("a.txt");
    let write = || uses("Write", json!({"file_path": file, "content": "a"}));
    let server = Server::new([write(), says("Written."), says("Again.")]);
    let ah = world.asking_as_typed(&server, ["--no-sandbox", "serve"]);
    let client = Client::of(ah.start());
    let mut host = Host::of(&client, "?include_partial_messages=true");
    let initialize = json!({"subtype": "initialize", "hooks": null});
    host.say(&json!({"type": "control_request", "request_id": "1", "request": initialize}));
    let answer = host.next("control_response");
    assert_eq!(answer["response"]["request_id"], "1", "{answer}");
    assert_eq!(answer["response"]["subtype"], "success", "{answer}");
    host.prompt("Write it.");
    let asked = host.next("control_request");
    assert_eq!(asked["request"]["subtype"], "can_use_tool", "{asked}");
    assert!(!file.exists());
    let response = json!({
        "subtype": "success",
        "request_id": asked["request_id"],
        "response": {"behavior": "allow", "updatedInput": asked["request"]["input"]},
    });
    host.say(&json!({"type": "control_response", "response": response}));
    let piece = host.next("stream_event");
    assert!(piece["event"].is_object(), "{piece}");
    let result = host.next("result");
    assert_eq!(result["result"], "Written.", "{result}");
    assert_eq!(world.text("a.txt"), "a");
    // The same session, as others see it.
    let session = client.get("/v1/sessions").json["sessions"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let messages = client.get(&format!("/v1/sessions/{session}/messages"));
    assert_eq!(messages.json["messages"].as_array().unwrap().len(), 4);
    host.0.close(None).unwrap();
    assert_eq!(host.closed().0, CloseCode::Normal);
    // Another host goes on with it.
    let mut host = Host::of(&client, &format!("?resume={session}"));
    host.prompt("And again.");
    assert_eq!(host.next("result")["result"], "Again.");
    let asked = server.requests().last().unwrap().body.to_string();
    assert!(asked.contains("Write it."), "{asked}");
    // The end of the server is told.
    let ending = std::thread::spawn(move || host.closed());
    client.end();
    assert_eq!(ending.join().unwrap().0, CloseCode::Away);
}

#[test]
fn who_may_not_drive_is_refused_and_what_is_no_message_ends_it() {
    let world = World::new();
    let server = Server::new([says("unused")]);
    let client = Client::of(world.asking(&server, super::FREE).start());
    let token = format!("Bearer {}", client.token());
    for (headers, status) in [
        (vec![], 401),
        (vec![("Authorization", "Bearer 00")], 401),
        (
            vec![
                ("Authorization", &*token),
                ("Origin", "http://evil.example"),
            ],
            403,
        ),
    ] {
        let refused = Host::connect(&client, "", &headers).err();
        assert_eq!(refused, Some(status), "{headers:?}");
    }
    let own = [("Authorization", &*token)];
    let unknown = Host::connect(&client, "?cwd=/", &own).err();
    assert_eq!(unknown, Some(400));
    let mut host = Host::of(&client, "");
    host.0.send(Message::binary(vec![0, 1])).unwrap();
    assert_eq!(host.closed().0, CloseCode::Normal);
    let mut host = Host::of(&client, "?resume=01ARZ3NDEKTSV4RRFFQ69G5FAV");
    host.prompt("Go on.");
    let (code, reason) = host.closed();
    assert_eq!(code, CloseCode::Error);
    assert!(reason.contains("01ARZ3NDEKTSV4RRFFQ69G5FAV"), "{reason}");
    // A host that breaks off has its session ended, and nobody else's.
    let mut host = Host::of(&client, "");
    host.prompt("Begin.");
    drop(host);
    assert_eq!(client.get("/v1/sessions").status, 200);
    client.end();
}
