//! A session that leaves its place for another: as files, or into a log. And the contents that go with it, each of which
//! a note names by its hash.

use std::ffi::OsStr;
use std::io::{self, Read as _, Write as _};
use std::sync::Arc;

use ah_beneath::Folder;
use ah_conversation::{Cost, MailKind, Mailbox as _, MessageId, Record, StoreError};
use rustix::fs::OFlags;

use super::SessionStore;
use crate::log::{Change, Image, blob};
use crate::paths::{FILE_MODE, Paths, create_folder, outputs_folder};
use crate::sqlite::Failure;
use crate::sqlite::copy::{copy_outputs, outputs_in};
use crate::sqlite::queue::Mailbox;
use crate::{Queue, Tree};

impl SessionStore {
    /// Sets a note that names `content` by its SHA-256, both durably or neither.
    ///
    /// # Errors
    ///
    /// If another process has taken over the session, or the content cannot be written.
    pub async fn keep(&self, key: &str, note: String, content: Vec<u8>) -> Result<(), StoreError> {
        let change = Change::Append(None, vec![Record::Note(key.to_owned(), note)]);
        let blob = blob(content);
        if let Some(logged) = &self.logged {
            let apply = self.apply(&change);
            return logged.commit(&change, vec![blob], apply).await.map(drop);
        }
        let outputs = self.outputs.clone();
        self.perform("cannot write", move |_| {
            let outputs = outputs_folder(&outputs)?;
            let name = layer(&blob.hash);
            if outputs.status(name.as_ref())?.is_some() {
                return Ok(());
            }
            let draft = format!("{name}.new");
            let _ = outputs.remove_file(draft.as_ref());
            let mut file = outputs.create_file(draft.as_ref(), FILE_MODE)?;
            file.write_all(&blob.content)?;
            file.sync_all()?;
            outputs.rename(draft.as_ref(), name.as_ref())?;
            Ok(outputs.sync()?)
        })
        .await?;
        self.apply(&change).await.map(drop)
    }

    /// Returns the content with this SHA-256 that [`SessionStore::keep`] has stored.
    ///
    /// # Errors
    ///
    /// If it is missing or damaged.
    pub async fn kept(&self, hash: &str) -> Result<Vec<u8>, StoreError> {
        let content = match &self.logged {
            Some(logged) => logged.log().blob(hash).await?,
            None => {
                let outputs = Folder::at(&self.outputs);
                let content = outputs.and_then(|outputs| read(&outputs, layer(hash).as_ref()));
                content.map_err(|error| Failure::from(error).at("cannot read", &self.outputs))?
            }
        };
        let blob = blob(content);
        if blob.hash == hash {
            return Ok(blob.content);
        }
        let failure = Failure::Refused {
            reason: format!("the content {hash} is damaged"),
            hint: None,
        };
        Err(failure.at("cannot read", &self.path))
    }

    /// Copies the session to `paths`, which must be free, with the contents of these hashes, and its mail. Returns the ids
    /// of the mail.
    ///
    /// # Errors
    ///
    /// If something cannot be read or written.
    pub async fn copy_to(
        &self,
        paths: &Paths,
        hashes: &[String],
    ) -> Result<Vec<MessageId>, StoreError> {
        let (to, outputs) = (paths.clone(), self.outputs.clone());
        self.perform("cannot copy", move |database| {
            create_folder(to.folder())?;
            copy_outputs(&outputs, &to.outputs())?;
            database.copy_to(to.database())
        })
        .await?;
        if self.logged.is_some() {
            for hash in hashes {
                let content = self.kept(hash).await?;
                let written = outputs_folder(&paths.outputs()).and_then(|outputs| {
                    let mut file = outputs.create_file(layer(hash).as_ref(), FILE_MODE)?;
                    file.write_all(&content)
                });
                let failed = |error| Failure::from(error).at("cannot write", &paths.outputs());
                written.map_err(failed)?;
            }
        }
        let mut sent = Vec::new();
        self.copy_mail(paths, &mut sent).await?;
        Ok(sent)
    }

    /// Copies the mail that is not in `sent`, and adds its ids.
    ///
    /// # Errors
    ///
    /// If it cannot be read or written.
    pub async fn copy_mail(
        &self,
        paths: &Paths,
        sent: &mut Vec<MessageId>,
    ) -> Result<(), StoreError> {
        for kind in [MailKind::Steer, MailKind::FollowUp] {
            for mail in self.mail(kind).await? {
                if !sent.contains(&mail.id) {
                    Queue::open(paths)?.send_as(&mail.id, kind, &mail.content)?;
                    sent.push(mail.id);
                }
            }
        }
        Ok(())
    }

    /// Makes this empty session the one at `paths`, which is closed and nobody uses, with its mail. One that is that
    /// session already stays.
    ///
    /// # Errors
    ///
    /// If this is another session, or something cannot be read or written.
    pub async fn become_copy_of(&self, paths: &Paths) -> Result<(), StoreError> {
        let failed = |failure: Failure| failure.at("cannot read", paths.database());
        let image = Image::read(paths)?;
        let known = self.read(Tree::heads).await?;
        let is_known = |id: &MessageId| known.iter().any(|head| head.message.id == *id);
        if known.is_empty() {
            self.change(Change::Whole(Arc::new(image))).await?;
        } else if !image.messages.iter().all(|message| is_known(&message.id)) {
            return Err(failed(Failure::Refused {
                reason: "the store has another session with this id".to_owned(),
                hint: None,
            }));
        }
        let Some(logged) = &self.logged else {
            return Ok(());
        };
        for kind in [MailKind::Steer, MailKind::FollowUp] {
            let waiting = Mailbox::at(paths).waiting(kind).map_err(failed)?;
            for mail in waiting.iter().filter(|mail| !is_known(&mail.id)) {
                logged.log().send(&mail.id, kind, &mail.content).await?;
            }
        }
        Ok(())
    }
}

/// Returns the name of a content among the outputs.
fn layer(hash: &str) -> String {
    format!("{}{hash}", Paths::LAYER)
}

fn read(folder: &Folder, name: &OsStr) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    let mut file = folder.open_file(name, OFlags::RDONLY)?;
    file.read_to_end(&mut content)?;
    Ok(content)
}

impl Image {
    fn read(paths: &Paths) -> Result<Self, StoreError> {
        let tree = Tree::open(paths)?;
        let mut messages = Vec::new();
        for head in tree.heads()? {
            if head.agent_id.is_none() {
                messages.extend(tree.message(&head.message.id)?.map(Arc::new));
            }
        }
        let cost: Cost = tree.spent()?;
        drop(tree);
        let read = || {
            let mut outputs = Vec::new();
            if let Some((folder, names)) = outputs_in(&paths.outputs())? {
                for name in names {
                    outputs.push((name.to_string_lossy().into_owned(), read(&folder, &name)?));
                }
            }
            let database = std::fs::read(paths.database())?;
            Ok(Self {
                database,
                outputs,
                messages,
                cost: i64::try_from(cost.0).unwrap_or(i64::MAX),
            })
        };
        read().map_err(|error: std::io::Error| {
            Failure::from(error).at("cannot read", paths.database())
        })
    }
}
