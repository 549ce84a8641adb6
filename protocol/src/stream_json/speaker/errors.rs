//! Messages about requests that the model's server has not answered.

use ah_conversation::{ProviderError, Usage};
use serde_json::{Value, json};

use super::Speaker;
use crate::stream_json::api_error::{ApiError, retried_kind};
use ah_transcript::parts::of_block;

impl Speaker {
    /// Sends the message about a failed request, in the model's place.
    pub(crate) fn failed(&self, told: &ApiError, error: &ProviderError) {
        let block = json!({"type": "text", "text": told.text});
        let id = self.link.ids.fresh();
        let mut message = of_block(&id, "<synthetic>", &Usage::default(), &block);
        message["stop_reason"] = json!("stop_sequence");
        message["stop_sequence"] = json!("");
        let mut line = json!({
            "type": "assistant",
            "message": message,
            "parent_tool_use_id": null,
            "error": told.kind,
            "is_api_error_message": true,
            "timestamp": self.now(),
        });
        let mut put = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                line[name] = value;
            }
        };
        put("api_error_status", error.status.map(Value::from));
        put("api_error_type", error.kind.clone().map(Value::from));
        put("request_id", error.request_id.clone().map(Value::from));
        self.say(line);
    }

    /// Reports an attempt that is repeated after a delay; `attempt` counts from 0.
    pub(super) fn retried(&self, attempt: u32, delay_ms: u64, status: u16, error: &str) {
        let max_retries = self.state.lock().max_retries;
        // The answer is asked for in one piece, which is no retry to the original.
        if attempt >= max_retries {
            return;
        }
        let more = json!({
            "attempt": attempt + 1,
            "max_retries": max_retries,
            "retry_delay_ms": delay_ms,
            "error_status": (status > 0).then_some(status),
            "error": retried_kind(status),
            "message": error,
        });
        self.system("api_retry", more);
    }
}
