//! The model of a session: one that was begun with a model continues with it until another is named, since another model
//! can use neither its prompt cache nor its thinking.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;

use ah_config::{Config, Error, Origin, Sourced, untrusted};
use ah_conversation::Provider;

use crate::assemble::recorded_check::RecordedTo;
use crate::model;

/// The model of a session, ready for requests.
pub(crate) struct SessionModel<'a> {
    /// The model.
    pub(crate) provider: Arc<dyn Provider>,
    /// The file that its answers are recorded to.
    pub(crate) recorded_to: RecordedTo,
    /// The configuration with that model.
    pub(crate) config: Cow<'a, Config>,
    /// The name to record in the session, if that has another one or none.
    pub(crate) recorded_as: Option<String>,
}

impl<'a> SessionModel<'a> {
    /// Returns the model of a session: the one that is named for this run, else `own`, with which the session was begun, else
    /// the configured one.
    ///
    /// # Errors
    ///
    /// If there is no such model, or no key for it.
    pub(crate) fn find(
        own: Option<&str>,
        config: &'a Config,
        warnings: &mut Vec<String>,
    ) -> Result<Self, Error> {
        let configured = resolved(config)?;
        let connected = |config: &Config, warnings: &mut Vec<String>| {
            let provider = model::with_fallbacks(config, warnings)?;
            let record = config.run.record.as_deref();
            let (provider, recording) = model::recorded(provider, record, &config.environment)?;
            Ok::<_, Error>((provider, RecordedTo::new(recording)))
        };
        // No session of this program names a file: one that does would have its maker give the answers.
        let is_file = own.is_some_and(untrusted::is_file);
        if is_file && is_general(&config.model, &config.files) {
            warnings.push(format!(
                "the session names a file as its model, which does not count; it continues with {configured}: \
                 name a file with `-m`"
            ));
        }
        let own = own.filter(|_| !is_file);
        if let Some(own) = own.filter(|_| is_general(&config.model, &config.files)) {
            let mut with_own = config.clone();
            with_own.model = Sourced {
                value: own.to_owned(),
                origin: Origin::Session,
            };
            match connected(&with_own, warnings) {
                Ok((provider, recorded_to)) => {
                    if own != configured && matches!(config.model.origin, Origin::File(_)) {
                        warnings.push(format!(
                            "the session continues with {own}; change it with `--model`"
                        ));
                    }
                    return Ok(Self {
                        provider,
                        recorded_to,
                        config: Cow::Owned(with_own),
                        recorded_as: None,
                    });
                }
                Err(error) => warnings.push(format!(
                    "the session continues with {configured}, not with {own}: {}",
                    error.message
                )),
            }
        }
        // A scenario is for one run; a command's model is for one prompt.
        let is_lasting = is_general(&config.model, &config.files) || is_named(&config.model);
        let is_new = is_lasting && own != Some(configured.as_str());
        let (provider, recorded_to) = connected(config, warnings)?;
        Ok(Self {
            provider,
            recorded_to,
            config: Cow::Borrowed(config),
            recorded_as: (is_new && !configured.starts_with("script:")).then_some(configured),
        })
    }
}

/// The configured model, without an alias: its meaning may change while the session lasts.
fn resolved(config: &Config) -> Result<String, Error> {
    let catalog = config.catalog()?;
    let name = ah_provider::without_window(&config.model.value);
    Ok(catalog.resolve(name).to_owned())
}

/// Whether the model is named for this run.
fn is_named(model: &Sourced<String>) -> bool {
    let origin = &model.origin;
    matches!(
        origin,
        Origin::CommandLine | Origin::Environment(_) | Origin::Inline
    )
}

/// Whether the model is the one for all sessions. Any other file is that of a command or subagent.
fn is_general(model: &Sourced<String>, files: &[PathBuf]) -> bool {
    match &model.origin {
        Origin::BuiltIn | Origin::Embedded => true,
        Origin::File(path) => files.contains(path),
        _ => false,
    }
}
