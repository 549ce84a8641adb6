//! A session that a client drives itself, and the place that it works in.

use std::sync::{Arc, Mutex, PoisonError};

use ah_agent::hooks::LineHooks;
use ah_agent::{Audience, Session, SessionChange};
use ah_config::untrusted::stricter;
use ah_config::{Error, ErrorKind};
use ah_conversation::{
    Check, ContentBlock, Image, MailKind, PermissionMode, Servers, TellSealed, Verdicts,
};
use ah_desk::{Command, OpenSession, Place, Prompt, Refusal, Start, Which};
use ah_store::{Paths, Queue, SessionStore, Tree};
use async_trait::async_trait;

use super::starts::{Starts, plan};
use crate::assemble::recorded_check::RecordedTo;
use crate::assemble::{self, SessionInputs};
use crate::desk::refusal::refusal;
use crate::model::Catalogued;
use crate::prompt::expand::expand;
use crate::prompt::mentions;
use crate::prompt::served;
use crate::serve::{commands, models};
use crate::sessions::open::Opened;
use crate::sessions::opening::Opening;
use crate::sessions::plan::SessionPlan;
use crate::warn::Warn;

impl Starts {
    /// Opens a session.
    pub(super) async fn open(
        &self,
        start: &Start,
        audience: Audience,
    ) -> Result<OpenSession, Error> {
        let config = self.config(start, |_| {})?;
        let trust = config.trust.notice();
        let known = config.warnings.iter().chain(&trust);
        known.for_each(|text| audience.notice(text));
        let opening = Opening::as_main(config)?;
        let (plan, at) = plan(start.which.clone());
        let plan = SessionPlan {
            ephemeral: opening.config.run.is_ephemeral && start.which == Which::New,
            ..plan
        };
        let told = audience.clone();
        let inputs = SessionInputs {
            has_person: true,
            ..opening.inputs(Arc::new(move |text: &str| told.notice(text)))
        };
        let shown = audience.clone();
        let opened = opening.open(&plan, at, inputs, |_| shown).await?;
        let Opened {
            mut session,
            store,
            recorded_to,
            warnings,
        } = opened;
        let all = opening.warnings.iter().chain(&warnings);
        all.for_each(|text| audience.notice(text));
        for notice in store.take_notices().await {
            audience.notice(&notice.to_string());
        }
        let id = store.id().to_string();
        if let Which::Resume(wanted, _) = &start.which
            && *wanted != id
        {
            return Err(Error::new(
                ErrorKind::NotFound,
                format!("there is no session with exactly the id `{wanted}`"),
            ));
        }
        keep_strict(&mut session, &store).await?;
        let config = &opening.config;
        Ok(OpenSession {
            id,
            folder: config.environment.cwd().to_owned(),
            models: Arc::new(Catalogued::new(config.clone(), self.warn.clone())),
            // The first is the one of the settings, under the name `default`.
            offered: models(config).into_iter().skip(1).collect(),
            commands: commands(config, &opening.skills),
            place: Box::new(OpenPlace {
                store: Mutex::new(Some(store)),
                servers: session.tools().servers().cloned(),
                recorded_to,
                line_hooks: session.line_hooks(),
                first_words: Mutex::new(opening.first_words.clone()),
                opening,
                warn: self.warn.clone(),
            }),
            session,
        })
    }
}

/// The place of an open session.
struct OpenPlace {
    /// `None` once it was given up.
    store: Mutex<Option<Arc<SessionStore>>>,
    /// The file that the session is recorded to.
    recorded_to: RecordedTo,
    /// The MCP servers, until the session is given up.
    servers: Option<Arc<dyn Servers>>,
    opening: Opening,
    line_hooks: LineHooks,
    /// Text that the first prompt begins with, until it has come.
    first_words: Mutex<Option<String>>,
    warn: Warn,
}

impl OpenPlace {
    async fn expanded(&self, prompt: Prompt) -> Result<Vec<ContentBlock>, Error> {
        let (skills, config) = (&self.opening.skills, &self.opening.config);
        let probe = &self.opening.probe;
        let given = config.run.prompt.skill.as_deref();
        let hooks = || self.line_hooks.clone();
        let expanded = expand(&prompt.text, given, skills, config, probe, &hooks).await?;
        expanded.warnings.iter().for_each(|text| (self.warn)(text));
        let first_words = take(&self.first_words);
        let before = first_words.map_or_else(String::new, |words| format!("{words}\n\n"));
        let pictures = prompt.pictures.iter().map(|data| picture(data));
        let pictures = pictures.collect::<Result<_, _>>()?;
        let blocks = mentions::said(&expanded, &before, pictures, config)?.blocks;
        let mut blocks = served::with(self.servers.as_ref(), &expanded, blocks, config).await?;
        let attached = prompt.attached.into_iter().map(ContentBlock::text);
        // The words stay behind what they are about.
        let at = blocks.len().saturating_sub(1);
        blocks.splice(at..at, attached);
        blocks.retain(|block| block.as_text().is_none_or(|text| !text.trim().is_empty()));
        Ok(blocks)
    }

    /// Returns the store until it was given up.
    fn store(&self) -> Option<Arc<SessionStore>> {
        let store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        store.clone()
    }
}

#[async_trait]
impl Place for OpenPlace {
    async fn content(&self, prompt: Prompt) -> Result<Vec<ContentBlock>, Refusal> {
        let content = self.expanded(prompt).await;
        content.map_err(|error| refusal(&error))
    }

    async fn check(
        &self,
        command: Option<&str>,
        mode: PermissionMode,
        tell: TellSealed<'_>,
    ) -> Result<Arc<dyn Check>, Refusal> {
        let config = self.opening.config.clone();
        let store = self.store();
        let store = store.ok_or_else(|| Refusal::failed("the session is closed"))?;
        let recorded = (self.opening.probe.status(), &self.recorded_to);
        let sealed = assemble::goal::check_of((command, mode), config, recorded, &store, tell);
        sealed.await.map_err(|error| refusal(&error))
    }

    fn end_check(&self) -> Result<(), Refusal> {
        let ended = assemble::goal::may_change(&self.opening.config.check);
        ended.map_err(|error| refusal(&error))
    }

    async fn keep_model(&self, name: &str) -> Result<(), Refusal> {
        match self.store() {
            Some(store) => Ok(store.set_model(name.to_owned()).await?),
            None => Ok(()),
        }
    }

    async fn keep_mode(&self, mode: PermissionMode) -> Result<(), Refusal> {
        match self.store() {
            Some(store) => Ok(store.set_permission_mode(mode.as_str().to_owned()).await?),
            None => Ok(()),
        }
    }

    fn send(&self, message: &str) -> Result<(), Refusal> {
        if let Some(store) = self.store() {
            Queue::open(&Paths::of(store.path()))?.send(MailKind::Steer, message)?;
        }
        Ok(())
    }

    async fn verdicts(&self) -> Verdicts {
        match self.store() {
            Some(store) => store.read(Tree::verdicts).await.unwrap_or_default(),
            None => Verdicts::new(),
        }
    }

    async fn more_commands(&self) -> Vec<Command> {
        let Some(servers) = &self.servers else {
            return Vec::new();
        };
        servers.ready(assemble::PATIENCE).await;
        servers.prompts_known(assemble::PATIENCE).await;
        let prompts = servers.prompts().into_iter().map(|prompt| Command {
            name: prompt.command(),
            hint: Some(prompt.hint()).filter(|hint| !hint.is_empty()),
            description: prompt.description,
        });
        prompts.collect()
    }

    async fn leave(&self) {
        take(&self.store);
    }
}

/// Has the session continue in the mode that was chosen in it, if that allows less than the one it begins with.
async fn keep_strict(session: &mut Session, store: &SessionStore) -> Result<(), Error> {
    let chosen = store.read(|tree| tree.permission_mode()).await?;
    let chosen = chosen.and_then(|word| word.parse::<PermissionMode>().ok());
    let first = session.settings().permissions.mode;
    if let Some(mode) = chosen.and_then(|mode| stricter(first, mode)) {
        session.controls().request(SessionChange::Mode(mode));
        session.take_changes();
    }
    Ok(())
}

/// Returns a picture of a client in a form that models accept.
pub(super) fn picture(data: &str) -> Result<Image, Error> {
    ah_tools::picture_in_base64(data)
        .map_err(|error| Error::failure(format!("the attached picture {error}")))
}

fn take<T>(value: &Mutex<Option<T>>) -> Option<T> {
    value.lock().unwrap_or_else(PoisonError::into_inner).take()
}
