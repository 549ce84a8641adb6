//! The place of an open session: what its doors ask of its folder, its settings and its store.

use std::sync::Arc;

use ah_agent::Session;
use ah_agent::hooks::LineHooks;
use ah_config::{Error, extensions, untrusted};
use ah_conversation::{
    Check, ContentBlock, Image, MailKind, PermissionMode, Servers, TellSealed, Verdicts,
};
use ah_desk::{Command, ExpandedPrompt, Place, Prompt, Refusal};
use ah_store::{Queue, SessionStore, Tree};
use async_trait::async_trait;
use parking_lot::Mutex;

use crate::assemble;
use crate::assemble::recorded_check::RecordedTo;
use crate::desk::refusal::{in_one_line, refusal};
use crate::prompt::expand::{Expanded, expand};
use crate::prompt::mentions;
use crate::prompt::served;
use crate::sessions::folders::paths_of;
use crate::sessions::opening::Opening;
use crate::warn::Warn;

/// Stands for the session's UUID in the texts of commands and skills.
const SESSION_ID: &str = "${CLAUDE_SESSION_ID}";

/// The place of an open session.
pub(crate) struct OpenPlace {
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
    pub(crate) fn of(
        session: &Session,
        (store, recorded_to): (Arc<SessionStore>, RecordedTo),
        opening: Opening,
        warn: Warn,
    ) -> Arc<Self> {
        Arc::new(Self {
            store: Mutex::new(Some(store)),
            recorded_to,
            servers: session.tools().servers().cloned(),
            line_hooks: session.line_hooks(),
            first_words: Mutex::new(opening.first_words.clone()),
            opening,
            warn,
        })
    }

    /// Expands what was typed. Skills are read anew, since files may have changed.
    async fn expanded(&self, typed: &str) -> Result<Expanded, Error> {
        let (config, probe) = (&self.opening.config, &self.opening.probe);
        let (skills, _) = extensions::skills(config);
        let given = config.run.prompt.skill.as_deref();
        let hooks = || self.line_hooks.clone();
        expand(typed, given, &skills, config, probe, &hooks).await
    }

    async fn said(&self, prompt: Prompt) -> Result<Vec<ContentBlock>, Error> {
        let config = &self.opening.config;
        let expanded = self.expanded(&prompt.text).await?;
        expanded.warnings.iter().for_each(|text| (self.warn)(text));
        let before = self.first_words();
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

    /// Returns what the first prompt begins with; nothing for later ones.
    fn first_words(&self) -> String {
        let first_words = take(&self.first_words);
        first_words.map_or_else(String::new, |words| format!("{words}\n\n"))
    }

    /// Returns the text of a prompt with what its run is given.
    async fn lent(&self, typed: &str) -> Result<ExpandedPrompt, Error> {
        let config = &self.opening.config;
        let servers = self.servers.as_ref();
        let expanded = match served::called(typed, servers, config).await? {
            Some(called) => called,
            None => self.expanded(typed).await?,
        };
        let (applied, mut notices) = expanded.applied_to(config);
        if !expanded.warnings.is_empty() {
            // What is wrong with files was told when the session began.
            let (_, known) = extensions::commands(config);
            let own = expanded.warnings.iter();
            notices.extend(own.filter(|warning| !known.contains(warning)).cloned());
        }
        let own = applied.allow.iter().skip(config.allow.len());
        let text = match self.store() {
            Some(store) if !expanded.is_as_typed => expanded.text.replace(SESSION_ID, store.uuid()),
            _ => expanded.text.clone(),
        };
        Ok(ExpandedPrompt {
            text: self.first_words() + &text,
            allow: own.map(|rule| rule.value.clone()).collect(),
            model: (applied.model != config.model).then(|| applied.model.value.clone()),
            notices,
        })
    }

    /// Returns the store until it was given up.
    fn store(&self) -> Option<Arc<SessionStore>> {
        let store = self.store.lock();
        store.clone()
    }

    fn open_store(&self) -> Result<Arc<SessionStore>, Refusal> {
        let store = self.store();
        store.ok_or_else(|| Refusal::failed("the session is closed"))
    }
}

#[async_trait]
impl Place for OpenPlace {
    async fn content(&self, prompt: Prompt) -> Result<Vec<ContentBlock>, Refusal> {
        let content = self.said(prompt).await;
        content.map_err(|error| refusal(&error))
    }

    async fn expand(&self, typed: &str) -> Result<ExpandedPrompt, Refusal> {
        self.lent(typed).await.map_err(|error| in_one_line(&error))
    }

    async fn check(
        &self,
        command: Option<&str>,
        mode: PermissionMode,
        tell: TellSealed<'_>,
    ) -> Result<Arc<dyn Check>, Refusal> {
        let config = self.opening.config.clone();
        let (sandbox, recorded_to) = (self.opening.probe.status(), &self.recorded_to);
        let store = self.open_store()?;
        let asked = (command, mode);
        let sealed = assemble::goal::check_of(asked, config, sandbox, recorded_to, &store, tell);
        sealed.await.map_err(|error| refusal(&error))
    }

    fn end_check(&self) -> Result<(), Refusal> {
        let ended = assemble::goal::may_change(&self.opening.config.check);
        ended.map_err(|error| refusal(&error))
    }

    async fn rename(&self, name: &str) -> Result<(), Refusal> {
        Ok(self.open_store()?.set_name(name.to_owned()).await?)
    }

    async fn keep_model(&self, name: &str) -> Result<(), Refusal> {
        match self.store() {
            // A file is for one run.
            _ if untrusted::is_file(name) => Ok(()),
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
            let paths = paths_of(store.path(), self.opening.config.home.as_deref());
            Queue::open(&paths)?.send(MailKind::Steer, message)?;
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

/// Returns a picture of a client in a form that models accept.
pub(super) fn picture(data: &str) -> Result<Image, Error> {
    ah_tools::picture_in_base64(data)
        .map_err(|error| Error::failure(format!("the attached picture {error}")))
}

fn take<T>(value: &Mutex<Option<T>>) -> Option<T> {
    value.lock().take()
}
