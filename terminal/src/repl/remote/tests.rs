use ah_config::overlay::Overlay;
use ah_config::overrides::Overrides;
use ah_conversation::Environment;

use super::*;

/// A session that nothing is asked of.
struct Untouched;

#[async_trait]
impl RemoteSession for Untouched {
    async fn prompt(&self, _text: &str) -> Result<(), String> {
        unreachable!("no prompt was sent")
    }

    async fn send(&self, _kind: MailKind, _text: &str) -> Result<MessageId, String> {
        unreachable!("no message was sent")
    }

    async fn interrupt(&self) -> Result<(), String> {
        unreachable!("nothing was interrupted")
    }

    async fn answer(&self, _: u64, _: BTreeMap<String, String>) -> Result<(), String> {
        unreachable!("nothing was answered")
    }
}

/// The process of the session opens the connection itself.
#[tokio::test]
async fn the_first_letter_of_a_prompt_changes_nothing_elsewhere() {
    let (inputs, happened) = channel();
    let (_events, events) = unbounded_channel();
    let (_tasks, tasks) = unbounded_channel();
    let remote = Remote {
        session: Arc::new(Untouched),
        events,
        past: Vec::new(),
        verdicts: Verdicts::default(),
        messages: 0,
        id: "s".to_owned(),
        model: Model::new("anthropic", "m", 1_000, 100),
        place: Some(String::new()),
        way: "ah -r s".to_owned(),
        tools: Arc::new([]),
    };
    let config = Config::resolve(
        Overrides::default(),
        Interface::Native,
        Environment::default(),
        &Overlay::default(),
    )
    .unwrap();
    let mut worker = RemoteWorker::new(remote, tasks, link(true, inputs), &config);
    worker.perform(Task::Expect).await;
    assert!(happened.try_recv().is_err());
    worker.perform(Task::Copy).await;
    assert!(matches!(happened.try_recv(), Ok(Input::Ended(_))));
}
