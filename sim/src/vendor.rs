//! Servers of models, without connections: requests are refused as their vendors refuse them, and answers come in pieces, break off,
//! fall silent or are errors. Encoders, decoders and retries are the real ones.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use ah_conversation::{Environment, Provider, StreamEvent};
use ah_http::transport::{Incoming, Outgoing, Own, Transport};
use ah_provider::auth::KeySource;
use ah_provider::catalog::Catalog;
use ah_provider::named_server::NamedServer;
use ah_provider::script::format::{ScriptedCall, Turn};
use ah_provider::script::play::{Step, TurnContext};
use ah_testkit::server::protocol::{Protocol, Stream};
use ah_testkit::server::vendor::{Answers, Asked, Vendor};
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream;
use serde_json::{Value, json};

use crate::chance::Chance;
use crate::law::Law;
use crate::model::{Call, Said};
use crate::servers;
use crate::world::World;

/// Ways in which an answer is cut; from this number on it is whole.
const WHOLE: usize = 3;
/// Most pieces in which an answer comes.
const PIECES: usize = 6;

/// Connects to the example of the server with this number, as its users do, but without a connection.
pub(crate) fn connect(world: &Arc<World>, number: usize) -> Arc<dyn Provider> {
    static CATALOG: LazyLock<Catalog> = LazyLock::new(Catalog::built_in);
    let preset = servers::preset(number);
    let variables = [
        (
            preset.address_variable.clone(),
            "http://simulated".to_owned(),
        ),
        (preset.keys[0].clone(), "secret".to_owned()),
    ];
    // At an address of its own, the row would be that of a compatible server.
    let settings = NamedServer {
        api: preset.compatible.map(|_| preset.api),
        ..NamedServer::default()
    };
    let no_command = |_: &str, _: &str| -> Arc<dyn KeySource> { panic!("no command is set") };
    let vendor = Vendor::of_row(&preset.name);
    let server = Server {
        world: world.clone(),
        name: &preset.name,
        vendor,
    };
    let options = ah_provider::Options {
        environment: &Environment::new(variables, PathBuf::new()),
        catalog: &CATALOG,
        servers: &BTreeMap::from([(preset.name.clone(), settings)]),
        key_source: &no_command,
        http: &ah_http::Options {
            transport: Some(Own(Arc::new(server))),
            ..Default::default()
        },
        betas: &[],
        max_output: None,
        cache_ttl: Default::default(),
        conversation_state: Default::default(),
        server_compaction: false,
        fast_mode: false,
        keep_fact: None,
        keep_warm: 0,
        notes: None,
        timeouts: Default::default(),
        retry: Default::default(),
        seed: 1,
    };
    let name = format!("{}/{}", preset.name, preset.example);
    ah_provider::connect(&name, &options).unwrap_or_else(|error| panic!("{name}: {error}"))
}

struct Server {
    world: Arc<World>,
    name: &'static str,
    /// Without one, it is as strict as the API.
    vendor: Option<&'static Vendor>,
}

impl Transport for Server {
    fn send(&self, request: Outgoing) -> io::Result<Incoming> {
        let protocol = Protocol::at(request.url.path()).ok_or(io::ErrorKind::NotFound)?;
        let headers = { request.headers.iter() }
            .map(|(name, value)| {
                let value = String::from_utf8_lossy(value.as_bytes());
                (name.to_string(), value.into_owned())
            })
            .collect();
        let body = request.body.unwrap_or_default().concat();
        let mut body: Value = ah_conversation::json::from_slice(&body)?;
        // After streams that broke, a whole answer is asked for. One that is streamed nevertheless is as good.
        body["stream"] = true.into();
        if let Some(model) = Protocol::model_in(request.url.path()) {
            body["model"] = model.into();
        }
        self.check(protocol, &headers, &body);
        let (chosen, is_calm) = {
            let mut state = self.world.state();
            (state.chance.below(24), state.is_calm)
        };
        let failure = match chosen {
            _ if is_calm => None,
            0 => {
                self.tell("is not reached");
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            1 => Some((429, "rate_limit_error")),
            2 => Some((529, "overloaded_error")),
            3 => Some((500, "api_error")),
            _ => None,
        };
        match failure {
            Some((status, kind)) => {
                self.tell(&format!("answers {status}"));
                let error = json!({"type": kind, "message": "Try again."});
                let body = protocol.failure(self.answers(), status, &error, "request");
                Ok(incoming(status, vec![Ok(body.to_string().into())], false))
            }
            None => Ok(self.answer(protocol, &body)),
        }
    }
}

impl Server {
    fn tell(&self, what: &str) {
        self.world.state().tell(format!("{} {what}", self.name));
    }

    fn answers(&self) -> Answers {
        self.vendor.map_or(Answers::OF_API, |vendor| vendor.answers)
    }

    /// Notes what the vendor refuses, or what is lost there.
    fn check(&self, api: Protocol, headers: &BTreeMap<String, String>, body: &Value) {
        let mut state = self.world.state();
        let asked = Asked {
            headers,
            body,
            given: state.given.entry(self.name).or_default(),
        };
        let refused = api.refusal(self.vendor, &asked).map(|it| it.message);
        let losses = || self.vendor.map(|vendor| vendor.losses(api, &asked));
        let wrong = refused.or_else(|| losses()?.into_iter().next());
        if let Some(wrong) = wrong {
            state.fail(Law::Accepted.broken(format!("{} says: {wrong}", self.name)));
        }
    }

    /// Returns an answer, which may come in pieces, break off or fall silent.
    fn answer(&self, api: Protocol, body: &Value) -> Incoming {
        let mut state = self.world.state();
        let said = Said::next(&mut state);
        let turn = turn(&said, &mut state.chance);
        let context = TurnContext {
            id: format!("{}", state.turns),
            ..TurnContext::default()
        };
        let mut stream = Stream::new(api, self.answers(), body, &turn);
        let mut bytes = Vec::new();
        for step in turn.steps(&context, None) {
            if let Step::Event(event) = step {
                bytes.extend(stream.event(&event).unwrap_or_default());
                if matches!(event, StreamEvent::BlockStarted { index: 0, .. }) {
                    bytes.extend(stream.ping());
                }
            }
        }
        let how = match state.chance.below(12) {
            how if !state.is_calm => how,
            _ => WHOLE,
        };
        if how < WHOLE {
            let at = state.chance.below(bytes.len());
            bytes.truncate(at);
        }
        let mut pieces = pieces(bytes, &mut state.chance);
        let what = match how {
            0 => ", and the connection ends",
            1 => ", and the connection breaks",
            2 => ", and falls silent",
            _ => "",
        };
        if how == 1 {
            pieces.push(Err(io::ErrorKind::ConnectionReset.into()));
        }
        state.tell(format!("{} {said}{what}", self.name));
        let model = body["model"].as_str().unwrap_or_default().to_owned();
        state.asking().giving = Some((self.name, turn, context.id, model));
        incoming(200, pieces, how == 2)
    }
}

fn turn(said: &Said, chance: &mut Chance) -> Turn {
    let call = |call: &Call| ScriptedCall {
        name: call.name.to_owned(),
        id: Some(call.id.clone()),
        input_json: Some(call.input.clone()),
        ..ScriptedCall::default()
    };
    Turn {
        thinking: chance.one_in(3).then(|| "It is so.".into()),
        text: Some(said.text.as_str().into()),
        tools: said.calls.iter().map(call).collect(),
        ..Turn::default()
    }
}

/// Cuts bytes into pieces anywhere.
fn pieces(bytes: Vec<u8>, chance: &mut Chance) -> Vec<io::Result<Bytes>> {
    let mut rest = Bytes::from(bytes);
    let mut pieces = Vec::new();
    for _ in 0..chance.below(PIECES) {
        let piece = rest.split_to(chance.below(rest.len() + 1));
        pieces.push(Ok(piece));
    }
    pieces.push(Ok(rest));
    pieces.retain(|piece| piece.as_ref().is_ok_and(|piece| !piece.is_empty()));
    pieces
}

fn incoming(status: u16, pieces: Vec<io::Result<Bytes>>, is_silent: bool) -> Incoming {
    let end = stream::once(async move {
        if is_silent {
            std::future::pending::<()>().await;
        }
    });
    let body = stream::iter(pieces).chain(end.filter_map(|()| std::future::ready(None)));
    Incoming {
        status,
        headers: Default::default(),
        body: Box::pin(body),
    }
}
