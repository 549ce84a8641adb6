//! What wraps a frontend passes on what it does not do itself.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ah_agent::Frontend;
use ah_conversation::{Environment, Event, Host, Interface, ToolUse};
use ah_mcp::{Granted, RemoteServers};
use ah_protocol::stream_json::PermissionTool;
use ah_protocol::{RowHead, Transcribed};
use ah_testkit::asked::{ALL, Asked, ask_all};
use async_trait::async_trait;
use serde_json::json;

use crate::identity::SystemIds;
use crate::otel::traced_to;

/// A frontend that notes which methods are called.
#[derive(Default)]
struct Told {
    asked: Asked,
}

impl Host for Told {
    fn inner_host(&self) -> Option<&dyn Host> {
        Some(&self.asked)
    }
}

#[async_trait]
impl Frontend for Told {
    fn show(&self, _: &Event) {
        self.asked.note("show");
    }

    fn notice(&self, _: &str) {}

    fn variables(&self, _: &ToolUse) -> Vec<(String, String)> {
        self.asked.note("variables");
        vec![("NAME".to_owned(), "value".to_owned())]
    }

    async fn ready(&self) {
        self.asked.note("ready");
    }
}

fn permission_tool(frontend: Arc<dyn Frontend>) -> Arc<dyn Frontend> {
    let options = ah_mcp::Options {
        environment: Environment::new([], "/".into()),
        http: ah_http::Options::from_variables(|_| None),
        credentials: None,
        outputs: None,
        host: None,
        confined: None,
        start_timeout: Duration::from_secs(1),
        call_timeout: Duration::from_secs(1),
        denied: Vec::new(),
        asked: None,
        reserved: None,
        granted: Granted::All,
        interface: Interface::Native,
    };
    let servers = Arc::new(RemoteServers::start(BTreeMap::new(), options));
    Arc::new(PermissionTool::new(frontend, servers, "tool".to_owned()))
}

#[tokio::test]
async fn wrapped_frontends_get_what_their_wrappers_do_not_do() {
    let folder = tempfile::tempdir().unwrap();
    let head = RowHead {
        session_id: "session".to_owned(),
        cwd: folder.path().to_owned(),
        version: String::new(),
        entrypoint: "cli".to_owned(),
        agent_id: None,
    };
    let told = Arc::new(Told::default());
    let path = folder.path().join("transcript.jsonl");
    let ids = Arc::new(SystemIds::default());
    let transcribed = Transcribed::new(told.clone(), path, head, &[], ids).unwrap();
    let wrappers: [(&str, Arc<dyn Frontend>, &[&str]); 3] = [
        ("a transcript", Arc::new(transcribed), &ALL),
        (
            "a permission tool",
            permission_tool(told.clone()),
            &ALL[1..],
        ),
        (
            "traces",
            traced_to(told.clone(), "http://127.0.0.1:9"),
            &ALL,
        ),
    ];
    for (name, wrapper, passed_on) in wrappers {
        ask_all(&*wrapper).await;
        assert_eq!(told.asked.take(), passed_on, "{name}");
        let call = ToolUse {
            id: "call".into(),
            name: "tool".to_owned(),
            input: json!({}).into(),
        };
        let variables = wrapper.variables(&call);
        assert!(
            variables.contains(&("NAME".into(), "value".into())),
            "{name}"
        );
        wrapper.ready().await;
        assert_eq!(told.asked.take(), ["variables", "ready"], "{name}");
    }
}
