//! Random lives of a session: every request continues an earlier one byte for byte, or the break is declared; and a model
//! that binds its thinking to what stands before it refuses none.
//!
//! `AH_HISTORIES=100000 cargo test -p ah-agent lives` tries more of them, `AH_HISTORIES=700..701` one; a failure names the
//! number of its life.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ah_agent::agents::Agents;
use ah_agent::hooks::Hooks;
use ah_agent::prompt::{ProjectFile, Prompt, PromptContext, PromptSource, SystemPrompt};
use ah_agent::{
    Audience, Ports, Ready, Session, SessionChange, SessionSettings, SessionUpdate, Stop,
    SubagentKinds, Subagents, Toolbox, Watcher, no_variables,
};
use ah_conversation::{
    Completion, ContentBlock, Effort, EventKind, Limits, MailKind, Model, Models, Output,
    PermissionMode, PermissionUpdate, Permissions, Provider, ProviderError, Rulebook, ServerPrompt,
    ServerStatus, Servers, ServersChange, Thinking, Tool,
};
use ah_testkit::bound::{Bound, BoundAnswer, BoundRecord, SUMMARIZED};
use ah_testkit::world::World;
use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::world::Fake;

/// Number of lives in a usual run, and of steps in each.
const LIVES: u64 = 100;
const STEPS: usize = 14;
/// The models that answer.
const MODELS: [&str; 6] = [
    "claude-opus-5-5",
    "claude-opus-4-6",
    "claude-sonnet-5-5",
    SUMMARIZED,
    "gpt-6.2-sol",
    "gpt-6.2-astra",
];

#[test]
fn lives_of_a_session_never_change_what_was_said() {
    let wanted = std::env::var("AH_HISTORIES").ok();
    let wanted = wanted.as_deref().map(|range| match range.split_once("..") {
        Some((first, end)) => Some((first.parse().ok()?, end.parse().ok()?)),
        None => Some((0, range.parse().ok()?)),
    });
    let (first, end) = wanted.map_or((0, LIVES), |range| range.expect("N or FIRST..END"));
    let count = end - first;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let mut all = Tally::default();
    for number in first..end {
        let tally = runtime.block_on(live(number));
        all.breaks += tally.breaks;
        all.thinks += tally.thinks;
        all.summaries += tally.summaries;
    }
    // A declaration of everything would pass all checks, and so would requests without thinking.
    assert!(all.breaks < count, "{} breaks in {count} lives", all.breaks);
    assert!(
        all.thinks > count,
        "{} thoughts in {count} lives",
        all.thinks
    );
    assert!(count < LIVES || all.summaries > 0);
}

/// What shows that the checks had something to check.
#[derive(Default)]
struct Tally {
    /// Declared breaks beyond the steps that need one.
    breaks: u64,
    /// Requests with thinking.
    thinks: u64,
    /// Requests with a summary that the server wrote.
    summaries: u64,
}

/// Lives life `number` and checks its requests.
async fn live(number: u64) -> Tally {
    let mut life = Life::new(number);
    for _ in 0..STEPS {
        life.step().await;
    }
    let story = life.story.join("\n");
    let asked = life.record.asked();
    for (at, request) in asked.iter().enumerate() {
        assert_eq!(
            request.refused, None,
            "life {number}, request {at}:\n{story}"
        );
        let earlier = &asked[..at];
        // The server may be asked to summarise a part of what an earlier request says, to keep the rest.
        let is_summary = !request.body["compaction"].is_null();
        let is_continued = earlier
            .iter()
            .any(|earlier| request.continues(earlier) || is_summary && earlier.continues(request));
        assert!(
            request.is_first() || is_continued || request.is_declared,
            "life {number}, request {at}:\n{story}\n{:#}\nbehind\n{:#}",
            request.body,
            asked[at - 1].body
        );
    }
    let holding = |blocks: &[&str]| {
        let bodies = asked.iter().map(|request| request.body.to_string());
        let has = |body: &String| blocks.iter().any(|block| body.contains(block));
        bodies.filter(has).count() as u64
    };
    let declared = asked.iter().filter(|request| request.is_declared).count();
    Tally {
        breaks: (declared as u64).saturating_sub(life.needed),
        thinks: holding(&["\"type\":\"thinking\"", "\"type\":\"reasoning\""]),
        summaries: holding(&["\"type\":\"compaction\""]),
    }
}

/// Repeatable random numbers (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let number = usize::try_from((mixed ^ (mixed >> 31)) >> 33).unwrap();
        number % end
    }
}

/// What is true around the session.
#[derive(Clone)]
struct Around {
    day: usize,
    commit: usize,
    agents: Option<usize>,
    tools: usize,
}

/// A session, its surroundings and the model's record.
struct Life {
    dice: Dice,
    world: World,
    record: Arc<BoundRecord>,
    around: Arc<Mutex<Around>>,
    servers: Arc<Late>,
    model: usize,
    mode: PermissionMode,
    effort: Option<Effort>,
    session: Option<Session>,
    story: Vec<String>,
    /// Steps so far that cannot go without a break.
    needed: u64,
}

impl Life {
    fn new(number: u64) -> Self {
        let around = Arc::new(Mutex::new(Around {
            day: 1,
            commit: 1,
            agents: Some(1),
            tools: 0,
        }));
        Self {
            dice: Dice(number),
            world: World::new(),
            record: Arc::default(),
            servers: Arc::new(Late(around.clone(), AtomicU64::new(0))),
            around,
            model: 0,
            mode: PermissionMode::BypassPermissions,
            effort: None,
            session: None,
            story: Vec::new(),
            needed: 0,
        }
    }

    async fn step(&mut self) {
        let step = self.dice.below(21);
        let word = self.story.len();
        self.story.push(format!("step {word}: {step}"));
        match step {
            0..5 => self.prompt(vec![]).await,
            5 => {
                self.prompt(vec![BoundAnswer::Calls("look".to_owned(), json!({}))])
                    .await;
            }
            6 => self.prompt(vec![BoundAnswer::Fails]).await,
            7 => {
                self.needed += 1;
                self.prompt(vec![BoundAnswer::Fills("Much.".to_owned())])
                    .await;
            }
            8 => self.subagent().await,
            9 => self.session = None,
            10 => self.around.lock().day += 1,
            11 => self.around.lock().commit += 1,
            12 => self.edit(),
            13 => self.tools(),
            14 => self.change_mode().await,
            15 => self.fork().await,
            16 => self.compact().await,
            17 => self.steer().await,
            18 => self.change_model(),
            19 => self.change_effort().await,
            _ => self.delete().await,
        }
    }

    fn edit(&mut self) {
        let text = self.dice.below(4);
        self.around.lock().agents = (text > 0).then_some(text);
    }

    fn tools(&mut self) {
        self.needed += 1;
        self.around.lock().tools = self.dice.below(3);
        self.servers.1.fetch_add(1, Ordering::SeqCst);
    }

    async fn change_mode(&mut self) {
        let modes = [
            PermissionMode::BypassPermissions,
            PermissionMode::Plan,
            PermissionMode::Default,
        ];
        self.mode = modes[self.dice.below(3)];
        let mode = self.mode;
        let session = self.open().await;
        session.controls().request(SessionChange::Mode(mode));
    }

    fn change_model(&mut self) {
        self.needed += 2;
        self.model = self.dice.below(MODELS.len());
        self.session = None;
    }

    async fn change_effort(&mut self) {
        self.effort = Some(Effort::ALL[self.dice.below(3)]);
        let thinking = self.thinking();
        let session = self.open().await;
        session
            .controls()
            .request(SessionChange::Thinking(thinking));
    }

    fn thinking(&self) -> Thinking {
        Thinking {
            budget: None,
            effort: self.effort,
        }
    }

    async fn prompt(&mut self, answers: Vec<BoundAnswer>) {
        let text = format!("prompt {}", self.story.len());
        self.record.will_answer(answers);
        let session = self.open().await;
        let stop = Stop::interrupt(CancellationToken::new());
        let prompt = vec![ContentBlock::text(text)];
        session.run(prompt, &stop).await.unwrap();
        self.record.forget_answers();
    }

    /// Has the model start a subagent, or continue the last one.
    async fn subagent(&mut self) {
        let asked = self.record.asked();
        let told = asked.iter().rev().map(|request| request.body.to_string());
        let last = told.filter_map(|body| {
            let (_, rest) = body.rsplit_once("agentId: ")?;
            Some(rest.split(' ').next()?.to_owned())
        });
        let id = last.take(1).next().filter(|_| self.dice.below(2) == 0);
        let mut input =
            json!({"description": "a task", "prompt": format!("task {}", self.story.len())});
        if let Some(id) = id {
            input["resume"] = id.into();
        }
        let name = Subagents::OWN_NAME.to_owned();
        self.prompt(vec![
            BoundAnswer::Calls(name, input),
            BoundAnswer::Says("Reported.".to_owned()),
        ])
        .await;
    }

    async fn steer(&mut self) {
        let text = format!("steering {}", self.story.len());
        self.world.store.send(MailKind::Steer, text).await.unwrap();
    }

    /// Goes back to some message of the conversation.
    async fn fork(&mut self) {
        let heads = self.world.store.read(|tree| tree.heads()).await.unwrap();
        let main: Vec<_> = heads
            .iter()
            .filter(|head| head.agent_id.is_none())
            .collect();
        if main.is_empty() {
            return;
        }
        let id = main[self.dice.below(main.len())].message.id.clone();
        self.world.store.checkout(id).await.unwrap();
        if let Some(session) = &mut self.session {
            session.reload().await.unwrap();
        }
    }

    async fn delete(&mut self) {
        self.needed += STEPS as u64;
        let heads = self.world.store.read(|tree| tree.heads()).await.unwrap();
        let main: Vec<_> = heads
            .iter()
            .filter(|head| head.agent_id.is_none())
            .collect();
        if main.len() < 2 {
            return;
        }
        let id = main[1 + self.dice.below(main.len() - 1)].message.id.clone();
        self.session = None;
        self.world.store.delete(id).await.unwrap();
    }

    async fn compact(&mut self) {
        self.needed += 1;
        let stop = Stop::interrupt(CancellationToken::new());
        let session = self.open().await;
        session.compact_all(None, &stop).await.unwrap();
    }

    /// Returns the session, opened as by a new process if it is not open.
    async fn open(&mut self) -> &mut Session {
        if self.session.is_none() {
            self.session = Some(self.process().await);
        }
        self.session.as_mut().unwrap()
    }

    async fn process(&self) -> Session {
        let provider: Arc<dyn Provider> =
            Arc::new(Bound::new(MODELS[self.model], self.record.clone()));
        let quiet = Arc::new(Quiet(self.record.clone()));
        let around = self.around.clone();
        let below = self.around.clone();
        let kinds = SubagentKinds {
            agents: Agents::default(),
            skills: Arc::default(),
            models: Arc::new(NoModels),
            context: Box::new(move || {
                let around = below.lock().clone();
                (
                    String::new(),
                    format!("# Environment\n\nDate: {}", around.day),
                )
            }),
            memory: Vec::new(),
            allow_background: false,
            isolation: None,
            servers: None,
        };
        let subagents = Arc::new(Subagents::new(kinds, Subagents::OWN_NAME, Vec::new()));
        let look = Fake::reading("look", |_| async { Output::text("seen") });
        let tools: [Arc<dyn Tool>; 2] = [Arc::new(look), subagents.clone()];
        let tools = Toolbox::new(tools)
            .with_subagents(subagents)
            .with_servers(self.servers.clone(), Duration::ZERO);
        let settings = SessionSettings {
            prompt: PromptSource::new(move || prompt(&around.lock())),
            limits: Limits {
                context_window: provider.model().context_window,
                reserved_output: 1_000,
                ..Limits::default()
            },
            permissions: Permissions {
                mode: self.mode,
                may_bypass: true,
                ..Permissions::default()
            },
            thinking: self.thinking(),
            ..SessionSettings::default()
        };
        let ports = Ports {
            summarizer: provider.clone(),
            provider,
            store: self.world.store.clone(),
            clock: self.world.clock.clone(),
            audience: Audience::watching(quiet.clone()),
            variables: no_variables(),
            agent_id: None,
            rules: quiet,
            hooks: Hooks::default(),
            pictures: ah_agent::unchecked_pictures(),
            refusals: ah_agent::no_refusals(),
            command_files: None,
        };
        Session::open(ports, tools, settings).await.unwrap()
    }
}

fn prompt(around: &Around) -> SystemPrompt {
    let file = around.agents.map(|number| ProjectFile {
        label: "AGENTS.md".to_owned(),
        text: format!("Rule {number}."),
    });
    let (date, commit) = (format!("day {}", around.day), around.commit.to_string());
    let prompt = Prompt {
        base: "You are tested.",
        project: file.as_slice(),
        context: PromptContext {
            date: &date,
            commit: Some(&commit),
            ..PromptContext::default()
        },
        ..Prompt::default()
    };
    SystemPrompt::of(&prompt.assemble())
}

/// Servers whose tools come and go.
struct Late(Arc<Mutex<Around>>, AtomicU64);

#[async_trait]
impl Servers for Late {
    fn version(&self) -> u64 {
        // A new process has seen no version yet.
        self.1.load(Ordering::SeqCst) + 1
    }

    async fn changed(&self, _: u64) {
        std::future::pending::<()>().await;
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let count = self.0.lock().tools;
        let tool = |number: usize| {
            let name = format!("mcp__s__tool{number}");
            Arc::new(Fake::reading(&name, |_| async { Output::text("done") })) as Arc<dyn Tool>
        };
        (0..count).map(tool).collect()
    }

    fn find(&self, _: &str) -> Option<Arc<dyn Tool>> {
        None
    }

    fn status(&self) -> Vec<ServerStatus> {
        Vec::new()
    }

    async fn ready(&self, _: Duration) {}

    async fn set(&self, _: BTreeMap<String, Value>) -> ServersChange {
        ServersChange::default()
    }

    async fn reconnect(&self, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn toggle(&self, _: &str, _: bool) -> Result<(), String> {
        Ok(())
    }

    async fn resources(&self, _: &str) -> Result<Vec<Value>, String> {
        Ok(Vec::new())
    }

    async fn read_resource(&self, _: &str, _: &str) -> Result<Vec<Value>, String> {
        Ok(Vec::new())
    }

    fn withdrawn(&self) -> Vec<String> {
        Vec::new()
    }

    fn prompts(&self) -> Vec<ServerPrompt> {
        Vec::new()
    }

    async fn prompts_known(&self, _: Duration) {}

    async fn complete(&self, _: &Completion) -> Vec<String> {
        Vec::new()
    }

    async fn prompt(
        &self,
        _: &str,
        _: &str,
        _: BTreeMap<String, String>,
    ) -> Result<String, String> {
        Err("there are none".to_owned())
    }
}

/// Records declared breaks, and answers nothing.
struct Quiet(Arc<BoundRecord>);

impl Rulebook for Quiet {
    fn save(&self, _: &PermissionUpdate) -> Result<(), String> {
        Ok(())
    }
}

impl Watcher for Quiet {
    fn update(&self, update: SessionUpdate<'_>) {
        if let SessionUpdate::Happened(event) = update
            && let EventKind::PrefixBroken { .. } = event
        {
            self.0.declare();
        }
    }

    fn ready(&self) -> Option<Ready<'_>> {
        None
    }
}

struct NoModels;

impl Models for NoModels {
    fn connect(&self, name: Option<&str>) -> Result<Arc<dyn Provider>, ProviderError> {
        panic!("{name:?} is not asked for")
    }

    fn describe(&self, provider: &str, name: &str) -> Model {
        panic!("{provider}/{name} is not asked for")
    }
}
