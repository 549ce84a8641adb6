//! Tries the models of the phases before an issue is taken.

use ah_config::{Config, Error};
use ah_engine::model::{Reached, reach};
use ah_work::agent::{ModelFault, Models};
use async_trait::async_trait;
use jiff::Zoned;

/// The servers of the models.
pub struct Servers {
    config: Config,
}

impl Servers {
    /// Returns those of `config`.
    pub fn of(config: &Config) -> Self {
        Self {
            config: config.clone(),
        }
    }
}

/// Scripted models, which need no server.
pub struct Scripts;

#[async_trait(?Send)]
impl Models for Scripts {
    async fn try_out(&self, _: Option<&str>) -> Result<(), ModelFault> {
        Ok(())
    }
}

#[async_trait(?Send)]
impl Models for Servers {
    async fn try_out(&self, model: Option<&str>) -> Result<(), ModelFault> {
        let mut config = self.config.clone();
        if let Some(model) = model {
            model.clone_into(&mut config.model.value);
        }
        let date = Zoned::now().strftime("%Y-%m-%d").to_string();
        match reach(&config, &date).await {
            Err(error) => Err(fault(&config.model.value, "", error)),
            Ok(Some((server, Reached::Refused(error)))) => Err(fault(
                &config.model.value,
                &format!("{server} refuses the key: "),
                error,
            )),
            Ok(Some((server, Reached::Silent(error)))) => Err(fault(
                &config.model.value,
                &format!("{server} cannot be reached: "),
                error,
            )),
            // Some servers do not list all models that they have.
            Ok(_) => Ok(()),
        }
    }
}

fn fault(model: &str, what: &str, error: Error) -> ModelFault {
    ModelFault {
        message: format!("{model}: {what}{}", error.message),
        hint: error.hint,
    }
}
