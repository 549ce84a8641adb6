//! The model and the permissions that a command lends the run of its prompt.

use std::sync::Arc;

use ah_agent::SessionChange;
use ah_config::Error;
use ah_conversation::ContentBlock;
use ah_engine::prompt::expand::Expanded;

use super::super::input::{Ending, Input};
use super::super::lent::{Lent, LentModel};
use super::super::session_factory::SessionFactory;
use super::{SessionWorker, failed};

impl SessionWorker {
    /// Runs a prompt with the model and permissions that it brings along; returns these with the ending.
    pub(super) async fn run_with(
        &mut self,
        expanded: &Expanded,
        blocks: Vec<ContentBlock>,
    ) -> Result<(Ending, Lent), Error> {
        let lent = match self.lend(expanded) {
            Ok(lent) => lent,
            Err(error) => return Ok((failed(error), Lent::default())),
        };
        self.shared.clear();
        let run =
            self.run(async |session, stop| session.run_or_check(blocks, stop).await.map(Some));
        let ending = run.await;
        self.take_back(&lent);
        Ok((ending?, lent))
    }

    /// Applies the model and permissions that a prompt brings along, for its run.
    fn lend(&mut self, expanded: &Expanded) -> Result<Lent, Error> {
        let SessionFactory {
            opening, models, ..
        } = &self.factory;
        let config = &opening.config;
        let (applied, warnings) = expanded.applied_to(config);
        warnings.iter().for_each(|warning| crate::warn(warning));
        let mut lent = Lent::default();
        if applied.model != config.model {
            let own = models
                .connect(Some(&applied.model.value))
                .map_err(|error| Error::failure(error.to_string()))?;
            self.tell(Input::Model(own.model().clone()));
            lent.model = Some(LentModel {
                name: applied.model.value.clone(),
                own: own.clone(),
                former: self.session.provider(),
            });
            self.session.controls().request(SessionChange::Model(own));
        }
        lent.rules = self.session.grant(applied.permissions().allow);
        Ok(lent)
    }

    /// Restores the model and permissions from before the run, unless another model was chosen meanwhile.
    fn take_back(&mut self, lent: &Lent) {
        self.session.take_changes();
        self.session.revoke(&lent.rules);
        if let Some(LentModel { own, former, .. }) = &lent.model
            && Arc::ptr_eq(&self.session.provider(), own)
        {
            self.session
                .controls()
                .request(SessionChange::Model(former.clone()));
            self.session.take_changes();
        }
    }
}
