//! Cost of runs with several models.

use std::sync::{Arc, LazyLock};

use ah_agent::{SessionChange, Stop};
use ah_conversation::{
    CallReason, Cost, EventStream, ExitReason, FallbackNotice, Model, ModelUsage, Provider,
    ProviderExtras, Request, StreamEvent, UnseenUse, Usage,
};
use ah_testkit::script::{PricePerMillion, Scenario, Scripted, Turn, says, scenario, uses};
use futures_util::{StreamExt, stream};
use parking_lot::Mutex;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::world::{Fake, World};

fn priced(dollars: f64, turns: impl IntoIterator<Item = Turn>) -> Scenario {
    Scenario {
        price: Some(PricePerMillion {
            input: dollars,
            ..PricePerMillion::default()
        }),
        ..scenario(turns)
    }
}

fn reads(input_tokens: u64, turn: Turn) -> Turn {
    Turn {
        usage: Some(Usage {
            input_tokens,
            ..Usage::default()
        }),
        ..turn
    }
}

/// The same model, replaced by a fallback whose server reports the cost.
struct Replaced(Scripted);

impl Provider for Replaced {
    fn model(&self) -> &Model {
        self.0.model()
    }

    fn extras(&self) -> ProviderExtras<'_> {
        self.0.extras()
    }

    fn stream(&self, request: Request) -> EventStream {
        let model = Model {
            name: "other".to_owned(),
            ..self.0.model().clone()
        };
        let before = StreamEvent::Fallback(FallbackNotice {
            model: Box::new(model),
            instead_of: self.0.model().name.clone(),
            error: Some("overloaded".to_owned()),
        });
        let events = self.0.stream(request).flat_map(|event| {
            let billed = matches!(event, Ok(StreamEvent::Stopping { .. }));
            let bill = StreamEvent::Billed { cost: Cost(7) };
            stream::iter(billed.then_some(Ok(bill)).into_iter().chain([event]))
        });
        Box::pin(stream::iter([Ok(before)]).chain(events))
    }
}

/// Stored and reported values name the model that answered, at the cost reported by its server.
#[tokio::test]
async fn a_fallback_counts_at_the_cost_reported_by_its_server() {
    let mut world = World::playing(priced(1.0, [reads(10, says("Hi."))]));
    world.between = |provider| Arc::new(Replaced(provider));
    let outcome = world.run("hello").await;
    let usage = Usage {
        input_tokens: 10,
        ..Usage::default()
    };
    let share = ModelUsage {
        provider: "script".to_owned(),
        model: "other".to_owned(),
        usage,
        cost: Some(Cost(7)),
    };
    assert_eq!(outcome.models, [share]);
    assert!(
        world.events().contains("fallback test other"),
        "{}",
        world.events()
    );
    let messages = world.messages().await;
    let response = messages[1].response.as_ref().unwrap();
    assert_eq!(
        (response.model.as_str(), response.cost),
        ("other", Some(Cost(7)))
    );
}

/// A model whose conversation was kept in the prompt cache before each question.
struct KeptWarm(Scripted);

impl Provider for KeptWarm {
    fn model(&self) -> &Model {
        self.0.model()
    }

    fn extras(&self) -> ProviderExtras<'_> {
        ProviderExtras {
            unseen: Some(self),
            ..self.0.extras()
        }
    }

    fn stream(&self, request: Request) -> EventStream {
        self.0.stream(request)
    }
}

impl UnseenUse for KeptWarm {
    fn end_pause(&self) -> Vec<(CallReason, Model, Usage)> {
        let usage = Usage {
            cache_read_input_tokens: 777,
            ..Usage::default()
        };
        vec![(CallReason::KeepWarm, self.model().clone(), usage)]
    }

    fn used(&self) -> Vec<(CallReason, Model, Usage)> {
        unreachable!("no subagent asks")
    }
}

/// What keeps a conversation warm is told before the next request, and at the end of the session.
#[tokio::test]
async fn what_kept_the_cache_warm_counts_to_the_end() {
    let mut world = World::new([says("One.")]);
    world.between = |provider| Arc::new(KeptWarm(provider));
    world.run("hello").await;
    let events = world.events();
    let calls = events.matches("api_call_end").count();
    assert_eq!(calls, 3, "{events}");
    assert!(
        events.ends_with("agent_end end_turn\napi_call_end"),
        "{events}"
    );
}

/// What kept it warm for a model is told before another one takes its place.
#[tokio::test]
async fn what_kept_the_cache_warm_counts_when_the_model_changes() {
    let mut world = World::new([says("One.")]);
    world.between = |provider| Arc::new(KeptWarm(provider));
    let mut session = world.open().await.unwrap();
    let change = SessionChange::Model(session.provider());
    session.controls().request(change);
    session.take_changes();
    assert_eq!(world.events().matches("api_call_end").count(), 1);
}

/// The model, which notes of each question whether a person may continue the conversation.
struct Continued(Scripted, Arc<Mutex<Vec<bool>>>);

static CONTINUED: LazyLock<Arc<Mutex<Vec<bool>>>> = LazyLock::new(Arc::default);

impl Provider for Continued {
    fn model(&self) -> &Model {
        self.0.model()
    }

    fn extras(&self) -> ProviderExtras<'_> {
        self.0.extras()
    }

    fn stream(&self, request: Request) -> EventStream {
        self.1.lock().push(request.precedes_pause);
        self.0.stream(request)
    }
}

/// A subagent, a question beside and a summary are not continued by a person.
#[tokio::test]
async fn only_the_conversation_itself_is_kept_over_a_pause() {
    let turns = [
        uses(
            "agent",
            json!({"prompt": "Dig.", "description": "digs", "subagent_type": "digger"}),
        ),
        says("Gold."),
        says("It found gold."),
        says("In short."),
    ];
    let mut world = World::new(turns)
        .with_agents(json!({"digger": {"description": "digs", "prompt": "You dig."}}));
    world.between = |provider| Arc::new(Continued(provider, CONTINUED.clone()));
    world.run("delegate").await;
    let mut session = world.open().await.unwrap();
    let stop = Stop::interrupt(CancellationToken::new());
    let beside = session.side_questions().request("Is it?").await;
    assert!(!beside.unwrap().unwrap().precedes_pause);
    session.compact_all(None, &stop).await.unwrap();
    let continued = CONTINUED.lock().clone();
    assert_eq!(continued, [true, false, true, false]);
}

/// The summary's model costs a hundred times as much, and the budget counts that.
#[tokio::test]
async fn a_summary_counts_at_the_price_of_its_own_model() {
    let turns = || {
        [
            reads(170_000, says("One.")),
            reads(1_000, uses("look", json!({}))),
            reads(1_000, says("Two.")),
        ]
    };
    let look = || Fake::reading("look", |_| async { ah_conversation::Output::text("seen") });
    for (dollars, reason, models) in [
        (1.0, ExitReason::EndTurn, 2),
        (100.0, ExitReason::MaxBudget, 1),
    ] {
        let mut world = World::playing(priced(1.0, turns())).with(look());
        world.summarised_by(Scenario {
            model: Some("short".to_owned()),
            ..priced(dollars, [reads(1_000, says("In short."))])
        });
        world.run("first").await;
        world.settings.limits.max_budget = Some(Cost::from_usd(0.05));
        let outcome = world.run("second").await;
        assert_eq!(outcome.reason, reason);
        let shares: Vec<_> = outcome
            .models
            .iter()
            .map(|share| share.model.as_str())
            .collect();
        assert_eq!(shares, ["short", "test"][..models], "{dollars}");
        assert_eq!(
            outcome.models[0].cost,
            Some(Cost::from_usd(dollars / 1_000.0))
        );
    }
}

/// An answer that was to be a summary and is none counts, and nothing more is asked once the money is spent.
#[tokio::test]
async fn a_discarded_summary_counts() {
    let look = || Fake::reading("look", |_| async { ah_conversation::Output::text("seen") });
    let call = || reads(100_000, uses("look", json!({})));
    // Answered once, two prompts later a summary is due: its first try only calls a tool.
    for (budget, requests, tokens, reason) in [
        (10.0, 4, 400_000, ExitReason::EndTurn),
        (0.2, 3, 300_000, ExitReason::MaxBudget),
        (0.1, 2, 200_000, ExitReason::MaxBudget),
    ] {
        let first = reads(170_000, says("One."));
        let rest = [
            call(),
            reads(100_000, says("In short.")),
            reads(100_000, says("Two.")),
            reads(100_000, says("Three.")),
        ];
        let mut world = World::playing(priced(1.0, [first].into_iter().chain(rest))).with(look());
        world.run("first").await;
        let before = world.requests().len();
        world.settings.limits.max_budget = Some(Cost::from_usd(budget));
        let outcome = world.run("second").await;
        let asked = world.requests().len() - before;
        assert_eq!(
            (asked, &outcome.reason),
            (requests - 1, &reason),
            "{budget}"
        );
        let read = ModelUsage::total(&outcome.models).input_tokens;
        assert_eq!(read, tokens - 100_000, "{budget}");
        assert_eq!(outcome.usage.input_tokens, read, "{budget}");
    }
}

/// A conversation of one short prompt gains nothing by a summary of it.
#[tokio::test]
async fn a_single_exchange_is_not_summarised() {
    let look = Fake::reading("look", |_| async { ah_conversation::Output::text("seen") });
    let turns = [
        reads(190_000, uses("look", json!({}))),
        reads(190_000, says("Done.")),
    ];
    let mut world = World::playing(priced(1.0, turns)).with(look);
    let outcome = world.run("go").await;
    assert_eq!(outcome.answer, "Done.");
    assert_eq!(world.requests().len(), 2);
    assert!(!world.events().contains("compaction"), "{}", world.events());
}

/// Without a price for one part, the sum is unknown.
#[test]
fn an_unknown_part_makes_the_cost_unknown() {
    let response = |model: &str, cost| ah_conversation::Response {
        stop_reason: ah_conversation::StopReason::EndTurn,
        usage: Usage::default(),
        cost,
        model: model.to_owned(),
        provider: "p".to_owned(),
        latency_ms: 0,
        request_id: None,
        opaque: None,
    };
    let responses = [
        response("a", Some(Cost(1))),
        response("b", Some(Cost(2))),
        response("a", None),
        response("b", Some(Cost(3))),
        response("a", Some(Cost(4))),
    ];
    let shares = ModelUsage::of(&responses);
    let costs: Vec<_> = shares
        .iter()
        .map(|share| (share.model.as_str(), share.cost))
        .collect();
    assert_eq!(costs, [("a", None), ("b", Some(Cost(5)))]);
}
