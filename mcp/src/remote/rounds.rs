//! Requests that need several rounds: the server answers with questions, and gets the request again with the answers.

use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, InputRequest, InputRequests, InputRequiredResult, InputResponses,
};
use serde_json::json;
use tokio::time::sleep;

use crate::remote::answers::Answers;

/// Maximum number of rounds of one request.
pub(crate) const MOST_ROUNDS: usize = 10;
/// Wait before a request whose server needs time, not answers.
const PAUSE: Duration = Duration::from_millis(100);

/// Returns the parameters of the next round.
///
/// # Errors
///
/// If the server asks for something that it cannot have; the text is for the model.
pub(crate) async fn next(
    mut params: CallToolRequestParams,
    required: InputRequiredResult,
    known: &Answers,
) -> Result<CallToolRequestParams, String> {
    let requests = required.input_requests.unwrap_or_default();
    if requests.is_empty() {
        if required.request_state.is_none() {
            return Err("the server needs input, but does not say which".to_owned());
        }
        sleep(PAUSE).await;
    }
    let answers = answers(requests, known).await?;
    params.input_responses = (!answers.is_empty()).then_some(answers);
    params.request_state = required.request_state;
    Ok(params)
}

/// Returns the answers to a server's questions.
///
/// # Errors
///
/// If the server asks for something that it cannot have; the text is for the model.
pub(crate) async fn answers(
    requests: InputRequests,
    known: &Answers,
) -> Result<InputResponses, String> {
    let mut answers = InputResponses::new();
    for (key, request) in requests {
        let answer = match request {
            InputRequest::ListRoots(_) => json!({"roots": [{"uri": *known.root}]}),
            InputRequest::Elicitation(question) => json!(known.elicit(question.params).await),
            _ => {
                return Err(
                    "the server asks for an answer by the model (sampling), which is not supported"
                        .to_owned(),
                );
            }
        };
        answers.insert(key, answer);
    }
    Ok(answers)
}
