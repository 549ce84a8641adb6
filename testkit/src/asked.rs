//! A host that notes what it is asked: it shows whether what wraps a host passes everything on.

use ah_conversation::{
    Elicitation, ElicitationAnswer, Host, HostPermission, Inquiry, PermissionAnswer,
    PermissionRequest, ToolUse, Wanted,
};
use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::json;

/// The methods of a host. A new one belongs here, in [`Asked`] and in [`ask_all`].
pub const ALL: [&str; 4] = [
    "permission",
    "new_host",
    "elicitation",
    "elicitation_complete",
];

/// A host that notes which of its methods are called. None of its answers is a default.
#[derive(Default)]
pub struct Asked(Mutex<Vec<&'static str>>);

impl Asked {
    /// Returns the methods that were called since the last time.
    pub fn take(&self) -> Vec<&'static str> {
        std::mem::take(&mut *self.0.lock())
    }

    fn note(&self, method: &'static str) {
        let mut methods = self.0.lock();
        methods.push(method);
    }
}

#[async_trait]
impl Host for Asked {
    async fn permission(&self, _: &PermissionRequest) -> PermissionAnswer {
        self.note("permission");
        PermissionAnswer::Allow {
            input: None,
            updates: Vec::new(),
        }
    }

    async fn new_host(&self, _: &str) -> HostPermission {
        self.note("new_host");
        HostPermission::Once
    }

    async fn elicitation(&self, _: &Elicitation) -> ElicitationAnswer {
        self.note("elicitation");
        ElicitationAnswer::Accept(None)
    }

    fn elicitation_complete(&self, _: &str, _: &str) {
        self.note("elicitation_complete");
    }
}

/// Calls each method of a host that wraps [`Asked`], in the order of [`ALL`].
///
/// # Panics
///
/// If an answer is not the one of the host within.
pub async fn ask_all(host: &dyn Host) {
    let request = PermissionRequest {
        call: ToolUse {
            id: "call".into(),
            name: "tool".to_owned(),
            input: json!({}).into(),
        },
        inquiry: Inquiry::default(),
        agent: None,
    };
    host.permission(&request).await;
    assert_eq!(host.new_host("host:1").await, HostPermission::Once);
    let question = Elicitation {
        server: "server".to_owned(),
        message: "message".to_owned(),
        wanted: Wanted::Form(json!({})),
    };
    let answer = host.elicitation(&question).await;
    assert!(matches!(answer, ElicitationAnswer::Accept(_)));
    host.elicitation_complete("server", "id");
}
