//! What wraps a host passes on what it does not do itself.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ah_agent::{Audience, Ready, SessionUpdate, Watcher};
use ah_conversation::{Environment, Interface};
use ah_mcp::{Granted, RemoteServers};
use ah_protocol::stream_json::PermissionTool;
use ah_testkit::asked::{ALL, Asked, ask_all};

fn permission_tool(audience: Audience) -> PermissionTool {
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
    PermissionTool::new(audience, servers, "tool".to_owned())
}

#[tokio::test]
async fn a_host_whose_permissions_a_tool_decides_passes_everything_else_on() {
    let asked = Arc::new(Asked::default());
    let audience = Audience::watching(Arc::new(Unseen)).with_host(asked.clone());
    ask_all(&permission_tool(audience)).await;
    assert_eq!(asked.take(), ALL[1..]);
}

struct Unseen;

impl Watcher for Unseen {
    fn update(&self, _: SessionUpdate<'_>) {}

    fn ready(&self) -> Option<Ready<'_>> {
        None
    }
}
