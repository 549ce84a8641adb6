//! Writes responses to the connection: the events of a turn in the form of their protocol, and errors.

use std::net::{Shutdown, TcpStream};

use ah_conversation::{ErrorClass, StreamEvent};
use ah_provider::script::failure::{Class, Failure};
use ah_provider::script::format::{Turn, Wire};
use ah_provider::script::play::Step;
use serde_json::{Value, json};

use super::http::{Broken, Line, OutgoingResponse};
use super::protocol::{Protocol, Stream};
use super::vendor::Answers;

/// Sends an error before any event: a status, or the end of the connection if the failure has none.
pub(super) fn fail(
    line: Line<'_>,
    wire: &Wire,
    (protocol, answers): (Protocol, Answers),
    failure: &Failure,
    id: String,
) -> Result<(), Broken> {
    let is_network = failure.class == Some(Class(ErrorClass::Network));
    let status = match failure.status {
        None if is_network || failure.kind.is_none() => {
            // The connection may be closed already.
            let _ = line.stream.shutdown(Shutdown::Both);
            return Err(Broken::Cut);
        }
        status => status.unwrap_or(500),
    };
    let body = protocol.failure(answers, status, &failure.error_object(), &id);
    refuse(line, wire, status, failure.retry_after, &body, id)
}

/// Sends a JSON document.
pub(super) fn send(stream: &TcpStream, status: u16, body: &Value) -> Result<(), Broken> {
    let headers = [("content-type", "application/json".to_owned())];
    let wire = Wire::default();
    let mut answer = OutgoingResponse::new(stream, &wire, status, &headers);
    answer.push(body.to_string().as_bytes())?;
    answer.finish()
}

/// Sends an error with a status.
pub(super) fn refuse(
    line: Line<'_>,
    wire: &Wire,
    status: u16,
    retry_after: Option<f64>,
    body: &Value,
    id: String,
) -> Result<(), Broken> {
    if line.is_socket {
        let headers = retry_after.map(|seconds| json!({"retry-after": seconds.to_string()}));
        let error = json!({
            "type": "error", "status": status, "error": body["error"], "headers": headers.unwrap_or(json!({})),
        });
        let mut answer = OutgoingResponse::new(line, wire, status, &[]);
        answer.push(format!("data: {error}\n\n").as_bytes())?;
        return answer.finish();
    }
    let mut headers = vec![
        ("content-type", "application/json".to_owned()),
        ("request-id", id),
    ];
    headers.extend(retry_after.map(|seconds| ("retry-after", seconds.to_string())));
    let mut answer = OutgoingResponse::new(line, wire, status, &headers);
    answer.push(body.to_string().as_bytes())?;
    answer.finish()
}

/// Streams the turn in the form of the protocol of `answer`, and calls `ended` before the client learns that it has ended.
pub(super) fn play(
    mut out: OutgoingResponse<'_>,
    wire: &Wire,
    turn: &Turn,
    steps: impl Iterator<Item = Step>,
    mut answer: Stream,
    ended: impl Fn(&Stream),
) -> Result<(), Broken> {
    if let Some(body) = &wire.body {
        out.push(body.as_bytes())?;
        return out.finish();
    }
    let mut events = 0;
    for step in steps {
        if wire.hang_after_events == Some(events) {
            return Err(out.hang(&answer.ping()));
        }
        match step {
            Step::Wait(time) => out.wait(time)?,
            Step::Event(event) => {
                let Some(bytes) = answer.event(&event) else {
                    continue;
                };
                events += 1;
                // The last event of these.
                let is_last = matches!(
                    (&answer, &event),
                    (
                        Stream::Responses(_) | Stream::Interactions(_),
                        StreamEvent::Stopping { .. }
                    )
                );
                if is_last || event == StreamEvent::Ended {
                    ended(&answer);
                }
                out.push(&bytes)?;
                if matches!(event, StreamEvent::BlockStarted { index: 0, .. }) {
                    out.push(&answer.ping())?;
                }
            }
            Step::Fail(_) => {
                let error = turn.stream_error.as_ref().map(Failure::error_object);
                out.push(&answer.failure(&error.unwrap_or_default()))?;
            }
            Step::Cut => {
                out.flush()?;
                return Err(out.cut());
            }
            Step::Hang => return Err(out.hang(&answer.ping())),
        }
    }
    out.finish()
}
