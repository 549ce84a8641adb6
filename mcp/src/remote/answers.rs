//! Answers to what a server asks its client: the working directory, and questions to the user.

use std::sync::Arc;

use ah_conversation::{Elicitation, ElicitationAnswer, Wanted};
use rmcp::model::{
    ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability,
    FormElicitationCapability, UrlElicitationCapability,
};

use serde_json::{Map, Value};

use crate::options::Asked;

/// Answers for one server.
#[derive(Clone)]
pub(crate) struct Answers {
    pub(crate) server: Arc<str>,
    /// URI of the working directory, the only root that servers are told.
    pub(crate) root: Arc<str>,
    /// `None` if nobody can be asked.
    pub(crate) asked: Option<Asked>,
}

impl Answers {
    /// Returns the kinds of questions that are answered.
    pub(crate) fn elicitation(&self) -> Option<ElicitationCapability> {
        self.asked.as_ref().map(|_| {
            ElicitationCapability::new()
                .with_form(FormElicitationCapability::new())
                .with_url(UrlElicitationCapability::new())
        })
    }

    /// Has a question answered; declined if nobody can be asked.
    pub(crate) async fn elicit(&self, question: ElicitRequestParams) -> ElicitResult {
        let mut defaults = Map::new();
        let (message, wanted) = match question {
            ElicitRequestParams::FormElicitationParams {
                message,
                requested_schema,
                ..
            } => {
                let schema = serde_json::to_value(requested_schema).unwrap_or_default();
                defaults = self::defaults(&schema);
                (message, Wanted::Form(schema))
            }
            ElicitRequestParams::UrlElicitationParams {
                message,
                url,
                elicitation_id: id,
                ..
            } => (message, Wanted::Visit { url, id }),
            _ => return ElicitResult::new(ElicitationAction::Decline),
        };
        let Some(Asked(host)) = &self.asked else {
            return ElicitResult::new(ElicitationAction::Decline);
        };
        let server = self.server.to_string();
        let question = Elicitation {
            server,
            message,
            wanted,
        };
        match host.elicitation(&question).await {
            ElicitationAnswer::Accept(None) => ElicitResult::new(ElicitationAction::Accept),
            ElicitationAnswer::Accept(Some(mut content)) => {
                if let Value::Object(given) = &mut content {
                    defaults.retain(|name, _| !given.contains_key(name));
                    given.extend(defaults);
                }
                ElicitResult::new(ElicitationAction::Accept).with_content(content)
            }
            ElicitationAnswer::Decline => ElicitResult::new(ElicitationAction::Decline),
            ElicitationAnswer::Cancel => ElicitResult::new(ElicitationAction::Cancel),
        }
    }

    /// Passes on that what the server asked for is done.
    pub(crate) fn complete(&self, id: &str) {
        if let Some(Asked(host)) = &self.asked {
            host.elicitation_complete(&self.server, id);
        }
    }
}

/// Returns the values of a form's fields that the user has left out.
fn defaults(schema: &Value) -> Map<String, Value> {
    let fields = schema["properties"].as_object().into_iter().flatten();
    let with_default = fields.filter_map(|(name, field)| {
        let default = field.get("default").filter(|value| !value.is_null())?;
        Some((name.clone(), default.clone()))
    });
    with_default.collect()
}
