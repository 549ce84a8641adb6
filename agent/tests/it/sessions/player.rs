//! Plays a story: a real session in a database of its own, with real providers, against a server of each vendor.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use ah_agent::hooks::Hooks;
use ah_agent::{
    Audience, Ports, Ready, RunOutcome, Session, SessionChange, SessionSettings, SessionUpdate,
    Stop, Toolbox, Watcher, no_variables,
};
use ah_conversation::{
    Access, Completion, Content, ContentBlock, Context, Delta, Environment, Image, Input, Limits,
    MailKind, Model, Output, PermissionMode, PermissionUpdate, Permissions, Provider, ResultBlock,
    Role, Rulebook, ServerPrompt, ServerStatus, Servers, ServersChange, StreamEvent, Tool,
    ToolExtras, ToolSpec, ToolUse, Truncation,
};
use ah_testkit::ids::SystemClock;
use ah_testkit::provider;
use ah_testkit::provider::auth::KeySource;
use ah_testkit::provider::caching::CacheTtl;
use ah_testkit::provider::catalog::Catalog;
use ah_testkit::provider::exchange::Timeouts;
use ah_testkit::provider::named_server::NamedServer;
use ah_testkit::provider::retry::Policy;
use ah_testkit::script::{says, scenario};
use ah_testkit::server::{Pick, Server};
use ah_testkit::store::{Paths, SessionStore, Sessions};
use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::routes::Route;
use super::story::{Act, CUE, Story, TOOLS, served};

/// A picture of a pixel.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// Plays a story; panics if a request was refused, if something was lost with one, or if a run failed.
pub fn play(story: &Story) {
    let elsewhere = story.models.len() - 1;
    let servers: Vec<_> = [0, elsewhere]
        .into_iter()
        .zip(&story.answers)
        .map(|(model, answers)| {
            // A scenario without turns is none.
            let turns = answers.iter().cloned().chain([says("Never.")]);
            let server = Server::start(scenario(turns), Pick::InOrder, 0).unwrap();
            match story.models[model].0.vendor {
                Some(vendor) => server.of(vendor),
                None => server,
            }
        })
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut world = World::begin(story, &servers, folder.path()).await;
        for act in &story.acts {
            let done = world.perform(act).await;
            for server in &servers {
                assert_eq!(
                    server.refusals(),
                    Vec::<String>::new(),
                    "refused after {act:?}"
                );
                assert_eq!(server.losses(), Vec::<String>::new(), "lost after {act:?}");
            }
            if let Some(failure) = done.and_then(|outcome| outcome.failure) {
                panic!("{act:?} failed: {failure}");
            }
        }
        world.session.take().unwrap().close("other").await.unwrap();
    });
    for (server, answers) in servers.iter().zip(&story.answers) {
        assert_eq!(
            server.requests().len(),
            answers.len(),
            "requests of a server"
        );
    }
}

/// The store of the session, for the tool that steers; none between two processes.
type Current = Arc<Mutex<Option<Arc<SessionStore>>>>;

/// A session and what is around it.
struct World {
    /// None between two processes.
    session: Option<Session>,
    paths: Paths,
    sessions: Sessions,
    models: Vec<Arc<dyn Provider>>,
    /// Number of the current model.
    model: usize,
    late: Arc<Late>,
    store: Current,
    screen: Arc<Screen>,
}

impl World {
    async fn begin(story: &Story, servers: &[Server], folder: &Path) -> Self {
        let models = story
            .models
            .iter()
            .enumerate()
            .map(|(number, (route, model))| {
                let is_elsewhere = number + 1 == story.models.len();
                connect(route, model, &servers[usize::from(is_elsewhere)].url())
            });
        let sessions = Sessions::in_folder(folder);
        let mut world = Self {
            session: None,
            paths: sessions.fresh().unwrap(),
            sessions,
            models: models.collect(),
            model: 0,
            late: Arc::default(),
            store: Current::default(),
            screen: Arc::default(),
        };
        world.open().await;
        world
    }

    fn session(&mut self) -> &mut Session {
        self.session.as_mut().unwrap()
    }

    async fn perform(&mut self, act: &Act) -> Option<RunOutcome> {
        match act {
            Act::Ask { text, picture } => return Some(self.ask(text, *picture).await),
            Act::Summary => {
                let stop = Stop::abort(CancellationToken::new());
                return Some(self.session().compact_all(None, &stop).await.unwrap());
            }
            Act::NewTool => {
                self.late.count.fetch_add(1, Ordering::SeqCst);
            }
            Act::Model(number) => {
                self.model = *number;
                let change = SessionChange::Model(self.models[*number].clone());
                self.session().controls().request(change);
            }
            Act::Resume => self.go_on(None).await,
            Act::Copy => {
                let copy = self.sessions.copy(&self.paths).unwrap();
                self.go_on(Some(copy)).await;
            }
            Act::Back(part) => self.go_back(*part).await,
        }
        None
    }

    async fn ask(&mut self, text: &str, picture: bool) -> RunOutcome {
        let picture = picture.then(|| ContentBlock::Image(pixel()));
        let prompt = picture.into_iter().chain([ContentBlock::text(text)]);
        let token = CancellationToken::new();
        *self.screen.interrupt.lock() = token.clone();
        let stop = Stop::interrupt(token);
        self.session().run(prompt.collect(), &stop).await.unwrap()
    }

    /// Goes on behind the answer that is this part of a thousand of the way.
    async fn go_back(&mut self, part: usize) {
        let messages = self.session().transcript().messages();
        let answers = messages.iter().filter(|it| it.role == Role::Assistant);
        let ids: Vec<_> = answers.map(|answer| answer.id.clone()).collect();
        let Some(id) = ids.get(part * ids.len() / 1_000) else {
            return;
        };
        let store = self.store.lock().clone().unwrap();
        store.checkout(id.clone()).await.unwrap();
        drop(store);
        self.session().reload().await.unwrap();
    }

    /// Goes on with the session or a copy of it, as another process would.
    async fn go_on(&mut self, copy: Option<Paths>) {
        let former = self.session.take().unwrap();
        former.close("other").await.unwrap();
        // The lock ends with the last handle.
        self.store.lock().take();
        if let Some(copy) = copy {
            self.paths = copy;
        }
        self.open().await;
    }

    async fn open(&mut self) {
        let store = Arc::new(SessionStore::open(&self.paths).unwrap());
        *self.store.lock() = Some(store.clone());
        let model = &self.models[self.model];
        let ports = Ports {
            provider: model.clone(),
            summarizer: model.clone(),
            store,
            clock: Arc::new(SystemClock::default()),
            audience: Audience::watching(self.screen.clone()),
            variables: no_variables(),
            agent_id: None,
            rules: Arc::new(NoRules),
            hooks: Hooks::default(),
            refusals: ah_agent::no_refusals(),
            command_files: None,
            pictures: ah_agent::unchecked_pictures(),
        };
        let tools = TOOLS.map(|name| tool(name, &self.store));
        let toolbox = Toolbox::new(tools).with_servers(self.late.clone(), Duration::ZERO);
        let session = Session::open(ports, toolbox, settings(model.model())).await;
        self.session = Some(session.unwrap());
    }
}

fn settings(model: &Model) -> SessionSettings {
    SessionSettings {
        prompt: vec!["You are tested.".to_owned()].into(),
        limits: Limits {
            context_window: model.context_window,
            reserved_output: model.max_output,
            ..Limits::default()
        },
        permissions: Permissions {
            mode: PermissionMode::BypassPermissions,
            ..Permissions::default()
        },
        ..SessionSettings::default()
    }
}

fn pixel() -> Image {
    Image {
        media_type: "image/png".to_owned(),
        data: PIXEL.to_owned(),
    }
}

/// Connects a model of the row at `address`.
fn connect(route: &Route, model: &str, address: &str) -> Arc<dyn Provider> {
    static CATALOG: LazyLock<Catalog> = LazyLock::new(Catalog::built_in);
    let preset = route.preset;
    let variables = [
        (preset.address_variable.clone(), address.to_owned()),
        (preset.keys[0].clone(), "secret".to_owned()),
    ];
    // At an address of its own, the row would be that of a compatible server.
    let settings = NamedServer {
        api: preset.compatible.map(|_| preset.api),
        ..NamedServer::default()
    };
    let no_command = |_: &str, _: &str| -> Arc<dyn KeySource> { panic!("no command is set") };
    let options = provider::Options {
        environment: &Environment::new(variables, PathBuf::new()),
        catalog: &CATALOG,
        servers: &BTreeMap::from([(preset.name.clone(), settings)]),
        key_source: &no_command,
        http: &Default::default(),
        betas: &[],
        max_output: None,
        cache_ttl: CacheTtl::default(),
        conversation_state: Default::default(),
        server_compaction: false,
        fast_mode: false,
        keep_fact: None,
        keep_warm: 0,
        notes: None,
        timeouts: Timeouts::default(),
        retry: Policy {
            retries: 0,
            ..Policy::default()
        },
        seed: 1,
    };
    let name = format!("{}/{model}", preset.name);
    provider::connect(&name, &options).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// A tool whose results are as its name says.
struct Scripted {
    spec: ToolSpec,
    store: Current,
}

fn tool(name: &str, store: &Current) -> Arc<dyn Tool> {
    let path = json!({"type": "string", "description": "A file."});
    let schema = json!({"type": "object", "properties": {"path": path}, "required": ["path"]});
    Arc::new(Scripted {
        spec: ToolSpec {
            name: name.to_owned(),
            description: format!("Does what `{name}` says."),
            input_schema: Arc::new(schema),
            guidance: None,
            truncation: Truncation::DEFAULT,
            key: None,
        },
        store: store.clone(),
    })
}

#[async_trait]
impl Tool for Scripted {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, _: &Input) -> Vec<Access> {
        vec![Access::Read("x".into())]
    }

    fn extras(&self) -> ToolExtras<'_> {
        ToolExtras::default()
    }

    async fn run(&self, call: &ToolUse, _: &Context) -> Output {
        match self.spec.name.as_str() {
            "look" => {
                let text = "A picture.".to_owned();
                let blocks = vec![ResultBlock::Text { text }, ResultBlock::Image(pixel())];
                Output {
                    content: Content::Blocks(blocks),
                    ..Output::text("")
                }
            }
            "fail" => Output::error("it failed"),
            "steer" => {
                let store = self.store.lock().clone().unwrap();
                store
                    .send(MailKind::Steer, "Be quick.".to_owned())
                    .await
                    .unwrap();
                Output::text("")
            }
            _ => Output::text(format!("content of {:?}", call.input)),
        }
    }
}

/// A server of tools, whose number grows.
#[derive(Default)]
struct Late {
    count: AtomicUsize,
    tools: Mutex<Vec<Arc<dyn Tool>>>,
}

#[async_trait]
impl Servers for Late {
    fn version(&self) -> u64 {
        u64::try_from(self.count.load(Ordering::SeqCst)).unwrap()
    }

    async fn changed(&self, _: u64) {
        std::future::pending::<()>().await;
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let mut tools = self.tools.lock();
        let count = self.count.load(Ordering::SeqCst);
        let store = Current::default();
        for number in tools.len()..count {
            tools.push(tool(&served(number), &store));
        }
        tools.clone()
    }

    fn find(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.tools()
            .into_iter()
            .find(|tool| tool.spec().name == name)
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

/// Interrupts the run at the cue.
#[derive(Default)]
struct Screen {
    interrupt: Mutex<CancellationToken>,
}

impl Watcher for Screen {
    fn update(&self, update: SessionUpdate<'_>) {
        if let SessionUpdate::Piece(StreamEvent::Delta {
            delta: Delta::Text(text),
            ..
        }) = update
            && text.contains(CUE)
        {
            self.interrupt.lock().cancel();
        }
    }

    fn ready(&self) -> Option<Ready<'_>> {
        None
    }
}

/// A rulebook that saves nothing.
struct NoRules;

impl Rulebook for NoRules {
    fn save(&self, _: &PermissionUpdate) -> Result<(), String> {
        Ok(())
    }
}
