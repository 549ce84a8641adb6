//! A server that may be asked in two ways, by chat completions or by the Responses API. Which of them a server takes, or
//! takes for one model, often shows only in its refusal. The other way is tried then, once for each request, and if it is no
//! worse, it is the first for this model of the server from then on. What a refusal says is decided by [`names_other`], which is
//! pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use ah_conversation::{
    ErrorClass, EventStream, Model, Provider, ProviderError, ProviderExtras, Request, StreamEvent,
};
use futures_util::{StreamExt, stream};
use parking_lot::Mutex;

use crate::fact::{Fact, KeepFact};
use crate::named_server::Api;

/// A model that may be asked in two ways.
pub struct Ways {
    /// The way that the rules of routes give.
    first: Way,
    /// The other, if there is one.
    second: Option<Way>,
    /// The address of the server and the model's name there.
    place: (String, String),
    /// Keeps what was learned for later sessions.
    keep: Option<KeepFact>,
}

/// A model, and the protocol by which it is asked.
#[derive(Clone)]
pub struct Way {
    /// The protocol.
    pub api: Api,
    /// The model, asked by it.
    pub model: Arc<dyn Provider>,
}

/// The ways that refusals have taught, by place. They are kept for the life of the process, since each session and each
/// subagent connects anew.
static LEARNED: Mutex<BTreeMap<(String, String), Api>> = Mutex::new(BTreeMap::new());

impl Ways {
    /// A model of the server at `address`, which is asked in the way `first` unless it has refused that before.
    pub fn new(address: &str, first: Way, second: Option<Way>, keep: Option<KeepFact>) -> Self {
        let place = (address.to_owned(), first.model.model().name.clone());
        Self {
            first,
            second,
            place,
            keep,
        }
    }

    /// Returns what notes the way in which the server is asked from now on.
    fn learner(&self) -> impl Fn(Api) + Send + 'static {
        let (place, keep) = (self.place.clone(), self.keep.clone());
        let server = self.first.model.model().provider.clone();
        move |api| {
            if let Some(keep) = &keep {
                keep(&server, &place.1, Fact::Api(api));
            }
            let mut learned = LEARNED.lock();
            learned.insert(place.clone(), api);
        }
    }

    /// The way to ask in, and the other.
    fn ordered(&self) -> (&Way, Option<&Way>) {
        let learned = LEARNED.lock();
        let learned = learned.get(&self.place);
        match &self.second {
            Some(second) if learned == Some(&second.api) => (second, Some(&self.first)),
            second => (&self.first, second.as_ref()),
        }
    }
}

impl Provider for Ways {
    fn model(&self) -> &Model {
        self.ordered().0.model.model()
    }

    fn extras(&self) -> ProviderExtras<'_> {
        self.ordered().0.model.extras()
    }

    fn stream(&self, request: Request) -> EventStream {
        let (Way { api: asked, model }, other) = self.ordered();
        let Some(other) = other.cloned() else {
            return model.stream(request);
        };
        let asked = *asked;
        let learn = self.learner();
        or_again(model.stream(request.clone()), move |refusal| {
            if !names_other(asked, &refusal) {
                return Err(refusal);
            }
            learn(other.api);
            // If both are refused, the first refusal says more.
            Ok(or_again(other.model.stream(request), move |error| {
                if !names_other(other.api, &error) {
                    return Err(error);
                }
                learn(asked);
                Err(refusal)
            }))
        })
    }
}

/// Returns `events`, where those that `again` gives stand in the place of an error before the answer has begun.
pub(crate) fn or_again(
    events: EventStream,
    again: impl FnOnce(ProviderError) -> Result<EventStream, ProviderError> + Send + 'static,
) -> EventStream {
    // Boxed, as it is moved with each event.
    let state = (events, Some(Box::new(again)));
    Box::pin(stream::unfold(state, |(mut events, again)| async move {
        let event = events.next().await?;
        match (event, again) {
            (
                event @ Ok(
                    StreamEvent::Sent { .. }
                    | StreamEvent::LeftOut { .. }
                    | StreamEvent::Accepted { .. },
                ),
                again,
            ) => Some((event, (events, again))),
            (Err(error), Some(again)) => match again(error) {
                Ok(mut events) => {
                    let event = events.next().await?;
                    Some((event, (events, None)))
                }
                Err(error) => Some((Err(error), (events, None))),
            },
            (event, _) => Some((event, (events, None))),
        }
    }))
}

/// What names the Responses API in a refusal.
const RESPONSES: [&str; 2] = ["/responses", "responses api"];
/// What names chat completions in a refusal.
const CHAT: [&str; 3] = [
    "/chat/completions",
    "chat completions",
    "chatcompletion operation",
];
/// What says that the way which is named is the wrong one.
const WRONG: [&str; 6] = [
    "not supported",
    "unsupported",
    "not support",
    "not accessible",
    "not available",
    "does not work",
];
/// What says that there is nothing at the path.
const NOTHING: [&str; 7] = [
    "not found",
    "no reason",
    "cannot post",
    "invalid url",
    "unknown request url",
    "no route",
    "web page",
];

/// Returns whether `error`, the answer to a request by `asked`, is about the way and not about the request: it names the other
/// way, says that this one is wrong, or there is nothing at the path.
///
/// - "Function tools with reasoning_effort are not supported for gpt-5.6 in /v1/chat/completions. To use function tools, use
///   /v1/responses …" (OpenAI, 400), "This model is only supported in v1/responses" (OpenAI, 404)
/// - "The chatCompletion operation does not work with the specified model" (Azure, 400)
/// - "File Not Found" (llama.cpp, 404), `{"detail":"Not Found"}` (vLLM and other FastAPI servers, 404), "404 page not found"
///   (Ollama, 404)
pub fn names_other(asked: Api, error: &ProviderError) -> bool {
    let text = error.message.to_ascii_lowercase();
    let says = |words: &[&str]| words.iter().any(|words| text.contains(words));
    let (own, other) = match asked {
        Api::Anthropic | Api::Interactions => return false,
        Api::OpenAi => (&CHAT[..], &RESPONSES[..]),
        Api::OpenAiResponses => (&RESPONSES[..], &CHAT[..]),
    };
    let about_way = says(other) || (says(own) && says(&WRONG));
    match error.status {
        Some(405 | 501) => true,
        Some(404) if error.class != ErrorClass::ModelNotFound && says(&NOTHING) => true,
        Some(400 | 403 | 404 | 422) => about_way,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_of_the_way_is_told_from_one_of_the_request() {
        use Api::{OpenAi as Chat, OpenAiResponses as Responses};
        for (asked, status, message, expected) in [
            (
                Chat,
                400,
                "Function tools with reasoning_effort are not supported for gpt-5.6 in /v1/chat/completions. To use function \
                 tools, use /v1/responses or set reasoning_effort to 'none'.",
                true,
            ),
            (
                Chat,
                404,
                "This model is only supported in v1/responses and not in v1/chat/completions.",
                true,
            ),
            (
                Chat,
                404,
                "This is not a chat model and thus not supported in the v1/chat/completions endpoint.",
                true,
            ),
            (
                Chat,
                400,
                "The chatCompletion operation does not work with the specified model, gpt-5-codex.",
                true,
            ),
            (
                Chat,
                400,
                "model gpt-5.2-codex is not accessible via the /chat/completions endpoint",
                true,
            ),
            (Chat, 405, "the server gave no reason", true),
            (Chat, 404, "Not Found", true),
            (Chat, 404, "The model `x` does not exist", false),
            (Chat, 404, "No endpoints found that support tool use", false),
            (
                Chat,
                400,
                "Invalid value: 'tools' of /v1/chat/completions",
                false,
            ),
            (Chat, 401, "use /v1/responses", false),
            (Chat, 500, "error in /v1/responses", false),
            (Responses, 404, "File Not Found", true),
            (Responses, 404, "404 page not found", true),
            (Responses, 501, "no", true),
            (
                Responses,
                400,
                "The Responses API is not supported for this model",
                true,
            ),
            (Responses, 400, "use /v1/chat/completions", true),
            (Responses, 404, "Item with id 'rs_1' does not exist", false),
            (Responses, 400, "Unknown parameter: 'input[2].phase'", false),
        ] {
            let class = match (status, message) {
                (404, message) if message.to_lowercase().contains("model") => {
                    ErrorClass::ModelNotFound
                }
                _ => ErrorClass::InvalidRequest,
            };
            let error = ProviderError {
                status: Some(status),
                ..ProviderError::new(class, message)
            };
            assert_eq!(
                names_other(asked, &error),
                expected,
                "{asked:?} {status} {message}"
            );
        }
    }
}
