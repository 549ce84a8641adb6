//! Facts of a session for the user's status line, and totals of its usage.

use std::path::PathBuf;

use ah_conversation::{ContentBlock, Cost, Message, ModelUsage, Usage};
use ah_render::diff;
use ah_store::ApiCall;

/// Facts of a session besides its model and mode.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Its id, as in the input of hooks.
    pub session_id: String,
    /// File that mirrors its transcript.
    pub transcript_path: Option<PathBuf>,
    /// Its working directory.
    pub cwd: PathBuf,
    /// Root of the project.
    pub project: PathBuf,
    /// Working directories besides the first.
    pub added: Vec<PathBuf>,
    /// Totals of its usage.
    pub totals: Totals,
}

/// Totals of a session: all that was paid for in it, on every branch and by its subagents.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Totals {
    /// Tokens of all requests.
    pub usage: Usage,
    /// Tokens of the conversation's last request.
    pub last: Usage,
    /// Tokens and cost by model, in the order of first use.
    pub models: Vec<ModelUsage>,
    /// Cost, as far as prices are known. All that is shown of money is this sum, which is exact.
    pub cost: Cost,
    /// Time spent waiting for the model, in milliseconds.
    pub api_ms: u64,
    /// Lines added and removed by tools.
    pub lines: (usize, usize),
}

impl Totals {
    /// Counts what a request has cost.
    pub fn count(&mut self, share: ModelUsage, api_ms: u64) {
        self.usage += share.usage;
        self.cost = self.cost + share.cost.unwrap_or_default();
        self.api_ms += api_ms;
        ModelUsage::add(&mut self.models, share);
    }

    /// Counts the requests of a stored session.
    pub fn count_calls(&mut self, calls: Vec<ApiCall>) {
        for call in calls {
            let share = ModelUsage {
                provider: call.provider.unwrap_or_default(),
                model: call.model,
                usage: call.usage,
                cost: call.cost,
            };
            self.count(share, call.latency_ms);
        }
    }

    /// Counts a message, of the conversation or of a subagent: its request, and those of its tools.
    pub fn count_message(&mut self, message: &Message) {
        if let Some(response) = &message.response {
            for share in ModelUsage::of([response]) {
                self.count(share, response.latency_ms);
            }
        }
        for share in ModelUsage::by_tools(message) {
            self.count(share, 0);
        }
    }

    /// Keeps what a message of the conversation itself says besides: its last request, and the lines that tools have changed.
    pub fn note_own(&mut self, message: &Message) {
        if let Some(response) = &message.response {
            self.last = response.usage;
        }
        self.count_lines(message);
    }

    /// Counts the lines that tools have changed.
    fn count_lines(&mut self, message: &Message) {
        for block in &message.content {
            let ContentBlock::ToolResult(result) = block else {
                continue;
            };
            let details = result.details.as_ref();
            let patch = details.and_then(|details| diff::hunks(&details.get("structuredPatch")?));
            let (added, removed) = diff::counts(&patch.unwrap_or_default());
            self.lines = (self.lines.0 + added, self.lines.1 + removed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ah_conversation::{
        Branch, Event, EventKind, JsonText, MessageId, Origin, Record, Response, Role, RunTotals,
        StopReason, Store, Time, ToolResult,
    };
    use ah_store::SessionStore;
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::report;
    use super::*;

    /// Who asks a model.
    #[derive(Debug, Clone, Copy)]
    enum Asker {
        Conversation,
        Subagent,
        Tool,
    }

    /// A request: whose, which model's, its price, and to which of its messages the conversation goes back first.
    type Asked = (Asker, u8, Option<f64>, Option<usize>);

    /// A message of a conversation, a child of the one before or of the one that it has gone back to.
    struct Speaker(&'static str, Option<MessageId>, u32);

    impl Speaker {
        fn says(&mut self, content: Vec<ContentBlock>, response: Option<Response>) -> Arc<Message> {
            self.2 += 1;
            let id = MessageId::from(format!("{}-{:04}", self.0, self.2));
            let is_answer = response.is_some();
            Arc::new(Message {
                parent: self.1.replace(id.clone()),
                id,
                seq: self.2,
                role: if is_answer {
                    Role::Assistant
                } else {
                    Role::User
                },
                origin: match (is_answer, content.is_empty()) {
                    (true, _) => Origin::Model,
                    (false, true) => Origin::Prompt,
                    (false, false) => Origin::Results,
                },
                created_at: Time(0),
                content,
                response,
            })
        }
    }

    /// A request to one of three models, whose price may be unknown.
    fn response(model: u8, dollars: Option<f64>) -> Response {
        Response {
            stop_reason: StopReason::EndTurn,
            usage: Usage {
                output_tokens: 1,
                ..Usage::default()
            },
            cost: dollars.map(Cost::from_usd),
            model: format!("m{model}"),
            provider: "p".to_owned(),
            latency_ms: 1,
            request_id: None,
            opaque: None,
        }
    }

    fn told(message: &Message) -> Event {
        let response = message.response.as_ref().unwrap();
        Event {
            kind: EventKind::ApiCallEnd {
                message_id: message.id.clone(),
                input_tokens: 0,
                output_tokens: 1,
                cache_creation_input_tokens: 0,
                cache_read_input_tokens: 0,
                api_latency_ms: 1,
                model: response.model.clone(),
                cost_usd: response.cost.map(Cost::usd),
                reason: None,
            },
            timestamp: 0,
        }
    }

    fn result(details: serde_json::Value) -> Vec<ContentBlock> {
        vec![ContentBlock::ToolResult(ToolResult {
            tool_use_id: "call".into(),
            tool_name: "tool".to_owned(),
            content: Vec::new(),
            is_error: false,
            duration_ms: 0,
            details: Some(JsonText::from(details)),
            lines: None,
        })]
    }

    /// Stores a session with these requests; returns its messages, all of them and those of the conversation itself.
    async fn session(store: &Arc<SessionStore>, requests: &[Asked]) -> [Vec<Arc<Message>>; 2] {
        let (mut all, mut own) = (Vec::new(), Vec::new());
        let (mut speaker, mut agent) = (Speaker("own", None, 0), Speaker("agent", None, 0));
        for (asker, model, dollars, back) in requests {
            if let Some(back) = back
                && !own.is_empty()
            {
                let there: &Arc<Message> = &own[back % own.len()];
                store.checkout(there.id.clone()).await.unwrap();
                speaker.1 = Some(there.id.clone());
            }
            let response = response(*model, *dollars);
            let mut details = json!({});
            ModelUsage::write_into(&mut details, &ModelUsage::of([&response]));
            let answer = match asker {
                Asker::Conversation => Some(speaker.says(Vec::new(), Some(response))),
                Asker::Subagent => Some(agent.says(Vec::new(), Some(response))),
                Asker::Tool => None,
            };
            if let Some(answer) = &answer {
                let branch = Branch {
                    agent_id: "agent".to_owned(),
                    spawned_by: "call".into(),
                };
                let to: Arc<dyn Store> = match asker {
                    Asker::Subagent => store.clone().branch(branch),
                    Asker::Conversation | Asker::Tool => store.clone(),
                };
                let event = Record::Event(told(answer));
                to.append(vec![event, Record::Message(answer.clone())])
                    .await
                    .unwrap();
                all.push(answer.clone());
            }
            own.extend(match asker {
                Asker::Conversation => answer,
                Asker::Subagent | Asker::Tool => {
                    if matches!(asker, Asker::Subagent) {
                        details["agentId"] = json!("agent");
                    }
                    let results = speaker.says(result(details), None);
                    let record = Record::Message(results.clone());
                    store.append(vec![record]).await.unwrap();
                    all.push(results.clone());
                    Some(results)
                }
            });
        }
        [all, own]
    }

    fn asker() -> impl Strategy<Value = Asker> {
        prop_oneof![
            Just(Asker::Conversation),
            Just(Asker::Subagent),
            Just(Asker::Tool)
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Whoever has asked the models, on whatever branch, and whether they have prices: the status line and `statusLine` (counted as it comes), a
        /// session that is opened again, `/cost`, `/usage` and the page (the store's sum), and `-p` with its limit (the totals of a
        /// run) know one sum.
        #[test]
        fn every_sum_of_money_is_the_same(
            requests in proptest::collection::vec((asker(), 0..3_u8, proptest::option::of(0.0..10.0_f64), proptest::option::of(0..12_usize)), 1..12),
        ) {
            let costs = requests.iter().filter_map(|(_, _, dollars, _)| dollars.map(Cost::from_usd));
            let known: Cost = costs.sum();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let folder = tempfile::tempdir().unwrap();
            let store = Arc::new(SessionStore::in_memory(folder.path()).unwrap());
            let [all, own] = runtime.block_on(session(&store, &requests));
            let stored = runtime.block_on(store.read(|tree| Ok((tree.spent()?, tree.api_calls()?))));
            let (spent, calls) = stored.unwrap();
            prop_assert_eq!(spent, known);
            let (mut live, mut opened) = (Totals::default(), Totals::default());
            all.iter().for_each(|message| live.count_message(message));
            opened.count_calls(calls);
            prop_assert_eq!(live.cost, known);
            prop_assert_eq!(opened.cost, known);
            prop_assert_eq!(live.usage, opened.usage);
            prop_assert_eq!(RunTotals::of(&own).cost, known);
            let lines = report::cost(&live);
            let last = lines.last().cloned().unwrap_or_default();
            if known.usd() > 0.0 {
                prop_assert!(last.contains(&known.to_string()), "{} {}", last, known);
            }
        }
    }
}
