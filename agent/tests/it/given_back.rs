//! What a server gives with an answer for itself is with the answer in each later request.

use std::sync::Arc;

use ah_conversation::{
    BlockStart, ContentBlock, EventStream, Fields, Message, Model, Opaque, Provider,
    ProviderExtras, Request, Role, StreamEvent, Usage, estimate_message,
};
use ah_testkit::script::{Scripted, Turn, says, uses_all};
use futures_util::{StreamExt, stream};
use serde_json::json;

use crate::world::{Fake, World};

/// A model whose server seals each answer and each call.
struct Sealing(Scripted);

fn seal(of: &str) -> Fields {
    Fields::from_iter([("seal".to_owned(), json!({"of": of}))])
}

impl Provider for Sealing {
    fn model(&self) -> &Model {
        self.0.model()
    }

    fn extras(&self) -> ProviderExtras<'_> {
        self.0.extras()
    }

    fn stream(&self, request: Request) -> EventStream {
        let given = |index, of: &str| {
            let fields = seal(of);
            Some(Ok(StreamEvent::Opaque { index, fields }))
        };
        Box::pin(self.0.stream(request).flat_map(move |event| {
            let more = match &event {
                Ok(StreamEvent::BlockStarted {
                    index,
                    block: BlockStart::ToolUse { id, .. },
                }) => given(Some(*index), id.as_str()),
                Ok(StreamEvent::Started { .. }) => given(None, "message"),
                _ => None,
            };
            stream::iter([event].into_iter().chain(more))
        }))
    }
}

/// What is given with a message of this content.
fn expected(message: &Message) -> Opaque {
    let blocks = message.content.iter().enumerate();
    let calls = blocks.filter_map(|(place, block)| match block {
        ContentBlock::ToolUse(call) => Some((place, seal(call.id.as_str()))),
        _ => None,
    });
    Opaque {
        message: seal("message"),
        blocks: calls.collect(),
    }
}

/// Checks all answers in a request, and returns their number.
fn check(request: &Request) -> usize {
    let answers = request.messages.iter();
    let answers = answers.filter(|message| message.role == Role::Assistant);
    for answer in answers.clone() {
        let response = answer.response.as_ref().unwrap();
        let given = answer.opaque_of(&response.provider, &response.model);
        assert_eq!(given, Some(&expected(answer)));
        assert_eq!(answer.opaque_of(&response.provider, "another"), None);
        assert_eq!(answer.opaque_of("another", &response.model), None);
        let mut bare = Message::clone(answer);
        bare.response.as_mut().unwrap().opaque = None;
        assert!(estimate_message(&bare) < estimate_message(answer));
    }
    answers.count()
}

fn at(tokens: u64, turn: Turn) -> Turn {
    Turn {
        usage: Some(Usage {
            input_tokens: tokens,
            ..Usage::default()
        }),
        ..turn
    }
}

#[tokio::test]
async fn it_survives_results_a_resume_and_a_summary() {
    let look = || Fake::reading("look", |_| async { ah_conversation::Output::text("seen") });
    let calls = || Turn {
        text: Some("Let me see.".into()),
        ..uses_all([("look", json!({"n": 1})), ("look", json!({"n": 2}))])
    };
    let sealed = |mut world: World| {
        world.between = |provider| Arc::new(Sealing(provider));
        world.with(look())
    };
    let mut world = sealed(World::new([calls(), says("Done.")]));
    world.run("go").await;
    let answers: Vec<_> = world.requests().iter().map(check).collect();
    assert_eq!(answers, [0, 1]);
    let turns = [
        calls(),
        at(170_000, says("Full.")),
        at(500, says("In short.")),
        at(2_000, says("On.")),
    ];
    let mut world = sealed(world.resumed(turns));
    for prompt in ["on", "and on"] {
        world.run(prompt).await;
    }
    let answers: Vec<_> = world.requests().iter().map(check).collect();
    // The third is the request for the summary; the last begins with it and with what the view keeps.
    assert_eq!(answers[..3], [2, 3, 4]);
    assert!(answers[3] > 0 && answers[3] < 4, "{answers:?}");
}
