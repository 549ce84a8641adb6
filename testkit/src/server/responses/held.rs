//! Conversations that the server holds in WebSockets, or with what it stores, as the vendor does
//! (`https://developers.openai.com/api/docs/guides/websocket-mode`, npm `openai` 7.59.0).

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;

use serde_json::Value;

use super::super::json::list;
use super::super::refusal::Refusal;
use super::super::stored::Stored;

/// What the server holds.
#[derive(Debug, Default)]
pub struct Chains {
    /// The last answer of each socket.
    sockets: HashMap<SocketAddr, Held>,
    /// Answers that are stored.
    stored: Stored,
    /// Whether answers are stored.
    pub stores: bool,
    /// Sockets that have been open for too long.
    expired: HashSet<SocketAddr>,
}

#[derive(Debug)]
struct Held {
    id: String,
    items: Vec<Value>,
}

impl Chains {
    /// Returns a request as it would be over HTTP to a server that stores nothing, with what is held put before it; `None` if it is
    /// one. `socket` is where it came from.
    ///
    /// # Errors
    /// If nothing is held for it, or it is no message of a socket.
    pub fn whole(
        &self,
        socket: Option<SocketAddr>,
        body: &Value,
    ) -> Result<Option<Value>, Refusal> {
        let mut whole = body.as_object().cloned().unwrap_or_default();
        let previous = whole.shift_remove("previous_response_id");
        let previous = previous.as_ref().and_then(Value::as_str);
        let is_stored = self.stores && body["store"] == true;
        if is_stored {
            whole.insert("store".to_owned(), false.into());
        } else if socket.is_none() {
            return Ok(None);
        }
        if let Some(client) = socket {
            if self.expired.contains(&client) {
                let message = "Responses websocket connection limit reached (60 minutes)";
                return Err(Refusal {
                    code: Some("websocket_connection_limit_reached"),
                    ..Refusal::invalid(message.to_owned())
                });
            }
            let kind = whole.shift_remove("type");
            if kind.as_ref().and_then(Value::as_str) != Some("response.create") {
                return Err(Refusal::invalid(format!("Unknown event type: {kind:?}")));
            }
            if let Some(field) = ["background", "stream"]
                .into_iter()
                .find(|it| !body[it].is_null())
            {
                return Err(Refusal::invalid(format!("Unknown parameter: '{field}'.")));
            }
            whole.insert("stream".to_owned(), true.into());
        }
        if let Some(id) = previous {
            let held = match socket {
                Some(client) => {
                    let held = self.sockets.get(&client).filter(|held| held.id == id);
                    held.map(|held| held.items.clone())
                }
                None => self.stored.up_to(id),
            };
            let Some(mut items) = held else {
                return Err(Refusal {
                    code: Some("previous_response_not_found"),
                    ..Refusal::invalid(format!("Previous response with id '{id}' not found."))
                });
            };
            items.extend_from_slice(list(body, "input"));
            whole.insert("input".to_owned(), items.into());
        }
        Ok(Some(whole.into()))
    }

    /// Holds an answer to the request `body`, which is `whole` with what was held.
    pub fn keep(
        &mut self,
        socket: Option<SocketAddr>,
        (body, whole): (&Value, Option<&Value>),
        (id, output): (&str, &[Value]),
    ) {
        if body["store"] == true {
            let items = [list(body, "input"), output].concat();
            let previous = body["previous_response_id"].as_str();
            self.stored.keep(id, previous, items);
        }
        if let Some(client) = socket {
            let items = [list(whole.unwrap_or(body), "input"), output].concat();
            let id = id.to_owned();
            self.sockets.insert(client, Held { id, items });
        }
    }

    /// Forgets what a socket holds, as after an error.
    pub fn evict(&mut self, socket: SocketAddr) {
        self.sockets.remove(&socket);
    }

    /// Forgets everything.
    pub fn forget(&mut self) {
        self.sockets.clear();
        self.stored.forget();
    }

    /// Lets the sockets so far have been open for too long.
    pub fn expire(&mut self) {
        self.expired.extend(self.sockets.keys());
    }
}
