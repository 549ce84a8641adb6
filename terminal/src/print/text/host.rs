//! Questions of a run that is printed: they are answered line by line.

use ah_conversation::{
    Elicitation, ElicitationAnswer, Host, HostPermission, PermissionAnswer, PermissionRequest,
};
use async_trait::async_trait;

use super::Text;
use crate::print::question::{self, Lines};

#[async_trait]
impl Host for Text {
    async fn permission(&self, question: &PermissionRequest) -> PermissionAnswer {
        let Some(keeping) = self.view.asks.clone() else {
            return PermissionAnswer::nobody(question);
        };
        self.screen.flush();
        self.screen.rest();
        let asked = question.clone();
        let (key, size) = (self.key_argument(&question.call), self.screen.look.size);
        // If the run is stopped meanwhile, the thread waits for a line until the program ends.
        let answer = tokio::task::spawn_blocking(move || {
            let mut form = Lines::of_process(size);
            question::ask(&asked, key.as_deref(), &keeping, &mut form)
        });
        let answer = match answer.await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) | Err(_) => PermissionAnswer::nobody(question),
        };
        self.note_answered(question, &answer);
        answer
    }

    async fn elicitation(&self, question: &Elicitation) -> ElicitationAnswer {
        if self.view.asks.is_none() {
            return ElicitationAnswer::Decline;
        }
        self.screen.flush();
        self.screen.rest();
        let (asked, size) = (question.clone(), self.screen.look.size);
        let ask = move || question::elicitation::ask(&asked, &mut Lines::of_process(size));
        let answer = tokio::task::spawn_blocking(ask).await.map(Result::ok);
        answer.ok().flatten().unwrap_or(ElicitationAnswer::Cancel)
    }

    fn elicitation_complete(&self, _: &str, _: &str) {}

    async fn new_host(&self, host: &str) -> HostPermission {
        if self.view.asks.is_none() {
            return HostPermission::No;
        }
        self.screen.flush();
        self.screen.rest();
        let (host, size) = (host.to_owned(), self.screen.look.size);
        let answer = tokio::task::spawn_blocking(move || {
            question::ask_host(&host, &mut Lines::of_process(size))
        });
        match answer.await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) | Err(_) => HostPermission::No,
        }
    }
}
