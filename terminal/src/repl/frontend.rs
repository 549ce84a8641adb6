//! A session's way to the terminal: what a run shows is written by the same code as for a run without a conversation,
//! into the terminal's hands in the place of the streams; who is asked sits before the live lines.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;

use ah_agent::{Frontend, SessionUpdate};
use ah_conversation::{
    Event, EventKind, Host, HostPermission, PermissionAnswer, PermissionRequest,
};
use ah_render::Palette;
use async_trait::async_trait;

use super::app::Input;
use super::question::Asker;
use ah_config::Keeping;

use crate::print::question;
use crate::print::text::{Text, View};
use crate::print::{Look, Screen, Size};

/// The way to the terminal, and how it looks.
#[derive(Clone)]
pub struct Link {
    /// What happens is sent here.
    pub inputs: Sender<Input>,
    /// Whether with colours.
    pub colours: bool,
    /// Whether answers are laid out; else they come as they are.
    pub is_drawn: bool,
    /// How large the terminal is.
    pub size: Size,
}

impl Link {
    /// With what it is painted.
    pub fn palette(&self) -> Palette {
        match self.colours {
            true => Palette::Ansi,
            false => Palette::Plain,
        }
    }

    /// What shows a session.
    pub fn frontend(&self, view: View) -> Shown {
        let look = Look {
            out_is_terminal: true,
            err_is_terminal: true,
            colours: self.colours,
            spinner: false,
            drawn: self.is_drawn,
            size: self.size,
        };
        let stream = |kind: fn(String) -> Input| Box::new(Stream(self.inputs.clone(), kind));
        let screen = Screen::apart(stream(Input::Written), stream(Input::Noted), look);
        Shown {
            asks: view.asks.clone(),
            text: Text::new(view, screen),
            inputs: self.inputs.clone(),
            is_answering: AtomicBool::default(),
        }
    }
}

/// A stream that ends at the terminal's hands.
struct Stream(Sender<Input>, fn(String) -> Input);

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes).into_owned();
        match self.0.send((self.1)(text)) {
            Ok(()) => Ok(bytes.len()),
            Err(_) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Shows a session in the conversation.
pub struct Shown {
    text: Text,
    /// Where an answer that is meant for good is kept.
    asks: Option<Keeping>,
    inputs: Sender<Input>,
    /// Whether it is known that the model answers: it is told once, and not with every piece.
    is_answering: AtomicBool,
}

impl Shown {
    fn send(&self, input: Input) {
        // Where the terminal has gone, the program ends.
        let _ = self.inputs.send(input);
    }
}

#[async_trait]
impl Host for Shown {
    async fn permission(&self, question: &PermissionRequest) -> PermissionAnswer {
        let Some(keeping) = self.asks.clone() else {
            return PermissionAnswer::nobody(question);
        };
        self.text.set_apart();
        let asked = question.clone();
        let (_asker, mut lines, mut words) = Asker::put(&self.inputs);
        let answer = tokio::task::spawn_blocking(move || {
            question::ask(&asked, &keeping, &mut lines, &mut words)
        });
        match answer.await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) | Err(_) => PermissionAnswer::nobody(question),
        }
    }

    async fn new_host(&self, host: &str) -> HostPermission {
        self.text.set_apart();
        let host = host.to_owned();
        let (_asker, mut lines, mut words) = Asker::put(&self.inputs);
        let answer =
            tokio::task::spawn_blocking(move || question::ask_host(&host, &mut lines, &mut words));
        { answer.await }.map_or(HostPermission::No, |answer| {
            answer.unwrap_or(HostPermission::No)
        })
    }
}

impl Frontend for Shown {
    fn show(&self, event: &Event) {
        self.text.show(event);
        match &event.kind {
            EventKind::TextDelta { .. } => {
                if !self.is_answering.swap(true, Ordering::Relaxed) {
                    let text = String::new();
                    self.send(Input::Event(Box::new(EventKind::TextDelta { text })));
                }
            }
            kind => {
                if matches!(kind, EventKind::ApiCallStart { .. }) {
                    self.text.flush();
                    self.is_answering.store(false, Ordering::Relaxed);
                }
                self.send(Input::Event(Box::new(kind.clone())));
            }
        }
    }

    fn notice(&self, text: &str) {
        self.text.notice(text);
    }

    fn update(&self, update: SessionUpdate<'_>) {
        match update {
            SessionUpdate::Progress { call, progress, .. } => {
                let name = crate::print::neutralise(&call.name).into_owned();
                self.send(Input::Progress(name, progress.clone()));
            }
            update => self.text.update(update),
        }
    }
}
