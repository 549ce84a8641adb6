//! A session driven by this program: prompts and requests go in as values, typed messages come out, and closures answer
//! what another process would be asked by control requests.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use ah_agent::hooks::Hook;
use ah_conversation::{ContentBlock, Host, PermissionMode};
use futures_util::Stream;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{Notify, mpsc, oneshot};

use super::initialize::Initialize;
use super::wire::{ControlRequest, Prompt};
use crate::message::Message;

/// Messages that may wait to be received before the run does.
const MOST_WAITING: usize = 64;

/// The session's end of the channels, for [`serve_program`](super::serve_program).
pub struct Program {
    pub(crate) requests: mpsc::UnboundedReceiver<Request>,
    pub(crate) messages: MessageSender,
    /// Answers permission questions; without one, calls that no rule allows are denied.
    pub host: Option<Arc<dyn Host>>,
    /// Hooks of the program, called after those of the settings.
    pub hooks: Vec<Arc<dyn Hook>>,
    /// Whether a run that was left unfinished continues before any prompt. It ends with a [`Message::Result`], also if there is
    /// none.
    pub resumes: bool,
}

impl Program {
    /// Creates the channels of a session: the session's end, the program's requests, and the session's messages.
    pub fn new() -> (Self, Requests, Messages) {
        let (sender, requests) = mpsc::unbounded_channel();
        let (outgoing, incoming) = mpsc::unbounded_channel();
        let flow = Arc::new(Flow::default());
        let program = Self {
            requests,
            messages: MessageSender {
                sender: Mutex::new(Some(outgoing)),
                flow: flow.clone(),
            },
            host: None,
            hooks: Vec::new(),
            resumes: false,
        };
        let messages = Messages {
            receiver: incoming,
            flow,
        };
        (program, Requests { sender }, messages)
    }
}

/// A prompt, or a request with the channel for its answer.
pub(crate) enum Request {
    Prompt(Prompt),
    Control(ControlRequest, oneshot::Sender<Response>),
}

/// Response of the session to a request.
type Response = Result<Value, String>;

/// Sends prompts and requests to a session. The session ends once all clones are dropped and the prompts are answered.
///
/// Requests are sent at once; awaiting the future is only necessary to learn whether they were granted. Each fails with a
/// text if the session refuses it or has ended.
#[derive(Debug, Clone)]
pub struct Requests {
    sender: mpsc::UnboundedSender<Request>,
}

impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Request")
    }
}

impl Requests {
    /// Opens the session with these options; has to come before the first prompt. Returns the `initialize` response.
    ///
    /// # Errors
    /// If the session has ended.
    pub fn initialize(
        &self,
        options: Initialize,
    ) -> impl Future<Output = Result<Value, String>> + use<> {
        self.ask(ControlRequest::Initialize(Box::new(options)))
    }

    /// Sends a prompt. Prompts are answered one after the other; each ends with a [`Message::Result`].
    pub fn prompt(&self, content: Vec<ContentBlock>) {
        self.send_prompt(content, false);
    }

    /// Sends a prompt in which nothing is a command or is expanded.
    pub fn verbatim_prompt(&self, content: Vec<ContentBlock>) {
        self.send_prompt(content, true);
    }

    fn send_prompt(&self, content: Vec<ContentBlock>, is_verbatim: bool) {
        let prompt = Prompt {
            content,
            is_verbatim,
            ..Prompt::default()
        };
        // A session that has ended answers nothing.
        let _ = self.sender.send(Request::Prompt(prompt));
    }

    /// Interrupts the current run; its result still comes.
    ///
    /// # Errors
    /// If the session has ended.
    pub fn interrupt(&self) -> impl Future<Output = Result<(), String>> + use<> {
        self.change(ControlRequest::Interrupt {
            cancels_others: false,
        })
    }

    /// Changes the permission mode from the next call on.
    ///
    /// # Errors
    /// If the mode may not be chosen, or the session has ended.
    pub fn set_permission_mode(
        &self,
        mode: PermissionMode,
    ) -> impl Future<Output = Result<(), String>> + use<> {
        self.change(ControlRequest::SetPermissionMode {
            mode: mode.as_str().to_owned(),
        })
    }

    /// Changes the model from the next step on; `None` restores the configured one.
    ///
    /// # Errors
    /// If there is no such model or no key for it, or the session has ended.
    pub fn set_model(
        &self,
        model: Option<&str>,
    ) -> impl Future<Output = Result<(), String>> + use<> {
        self.change(ControlRequest::SetModel {
            model: model.map(str::to_owned),
        })
    }

    /// Changes the thinking budget in tokens from the next step on; `None` restores the configured one.
    ///
    /// # Errors
    /// If the session has ended.
    pub fn set_max_thinking_tokens(
        &self,
        tokens: Option<u32>,
    ) -> impl Future<Output = Result<(), String>> + use<> {
        self.change(ControlRequest::SetMaxThinkingTokens { tokens })
    }

    fn change(&self, wish: ControlRequest) -> impl Future<Output = Result<(), String>> + use<> {
        let answer = self.ask(wish);
        async { answer.await.map(drop) }
    }

    fn ask(&self, wish: ControlRequest) -> impl Future<Output = Response> + use<> {
        let (reply, answer) = oneshot::channel();
        let sent = self.sender.send(Request::Control(wish, reply));
        async move {
            let over = || "the session has ended".to_owned();
            sent.map_err(|_| over())?;
            answer.await.unwrap_or_else(|_| Err(over()))
        }
    }
}

#[derive(Debug, Default)]
struct Flow {
    waiting: AtomicUsize,
    /// Set when the receiver was dropped.
    is_abandoned: AtomicBool,
    received: Notify,
}

/// Sends messages of a session to [`Messages`].
pub(crate) struct MessageSender {
    /// `None` once the session has ended.
    sender: Mutex<Option<mpsc::UnboundedSender<Message>>>,
    flow: Arc<Flow>,
}

impl MessageSender {
    /// Sends a message.
    pub(crate) fn send(&self, message: Message) {
        if let Some(sender) = &*self.sender.lock() {
            self.flow.waiting.fetch_add(1, Ordering::Relaxed);
            // Seen by the flag, which also holds where nothing is sent.
            let _ = sender.send(message);
        }
    }

    /// Returns when the receiver was dropped.
    pub(crate) fn abandoned(&self) -> impl Future<Output = ()> + use<> {
        let flow = self.flow.clone();
        async move {
            loop {
                let received = flow.received.notified();
                if flow.is_abandoned.load(Ordering::Relaxed) {
                    return;
                }
                received.await;
            }
        }
    }

    /// Whether the receiver was dropped.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.flow.is_abandoned.load(Ordering::Relaxed)
    }

    /// Waits until few messages are waiting, or the receiver was dropped.
    pub(crate) async fn ready(&self) {
        loop {
            let received = self.flow.received.notified();
            let is_ready = self.flow.waiting.load(Ordering::Relaxed) <= MOST_WAITING;
            if is_ready || self.is_abandoned() {
                return;
            }
            received.await;
        }
    }

    /// Ends the stream of messages.
    pub(crate) fn close(&self) {
        *self.sender.lock() = None;
    }
}

/// Messages of a session, a stream that ends with it. While they are not received, the run waits. Dropping it ends the run.
#[derive(Debug)]
pub struct Messages {
    receiver: mpsc::UnboundedReceiver<Message>,
    flow: Arc<Flow>,
}

impl Messages {
    /// Returns the next message; `None` after the last one.
    pub async fn next(&mut self) -> Option<Message> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }
}

impl Stream for Messages {
    type Item = Message;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Message>> {
        let message = ready!(self.receiver.poll_recv(context));
        if message.is_some() {
            self.flow.waiting.fetch_sub(1, Ordering::Relaxed);
            self.flow.received.notify_waiters();
        }
        Poll::Ready(message)
    }
}

impl Drop for Messages {
    fn drop(&mut self) {
        self.flow.is_abandoned.store(true, Ordering::Relaxed);
        self.flow.received.notify_waiters();
    }
}
