//! Answers from bytes to [`StreamEvent`]s, as far as all APIs are alike: a plain value without I/O, which gives the same
//! events however the bytes are cut, and takes nothing for whole that is not.
//!
//! What an event means is left to the [`Answer`] of each API, how the pieces make a message to the reader of the events,
//! and the time between them to whoever feeds the bytes.

use std::collections::VecDeque;

use ah_conversation::{ErrorClass, ProviderError, StreamEvent};
use ah_http::sse;

use crate::body::{Body, Rest};
use crate::failure;

/// How much of an event that is not understood an error repeats.
const EXCERPT: usize = 200;

/// Turns the bytes of an answer into events.
#[derive(Debug, Default)]
pub struct Decoder<A> {
    body: Body,
    answer: A,
}

/// What was said so far of an answer of one API.
pub trait Answer: Default + Send + 'static {
    /// Reads the next event of a stream.
    fn read(
        &mut self,
        event: sse::Event<'_>,
        events: &mut VecDeque<StreamEvent>,
    ) -> Result<(), ProviderError>;

    /// Reads an answer that came in one piece, as a server gives it that does not heed that a stream was asked for.
    fn read_whole(
        &mut self,
        json: &str,
        events: &mut VecDeque<StreamEvent>,
    ) -> Result<(), ProviderError>;

    /// Notes that the stream has ended, where that may be the end of the answer.
    fn close(&mut self, _events: &mut VecDeque<StreamEvent>) -> Result<(), ProviderError> {
        Ok(())
    }

    /// How far the answer has come.
    fn phase(&self) -> Phase;

    /// How many events only kept the connection open.
    fn pings(&self) -> u64 {
        0
    }
}

/// How far an answer has come.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Nothing of it is here.
    #[default]
    Waiting,
    /// More of it is to come.
    Started,
    /// It is whole.
    Ended,
}

impl<A: Answer> Decoder<A> {
    /// Takes the next bytes and adds the events they complete to `events`. After an error the answer is lost.
    pub fn feed(
        &mut self,
        bytes: &[u8],
        events: &mut VecDeque<StreamEvent>,
    ) -> Result<(), ProviderError> {
        if self.has_ended() {
            return Ok(());
        }
        self.body.feed(bytes)?;
        while let Some(event) = self.body.next_event()? {
            if self.answer.phase() != Phase::Ended {
                self.answer.read(event, events)?;
            }
        }
        Ok(())
    }

    /// Notes that no more bytes will come: an error unless the answer is whole.
    pub fn finish(&mut self, events: &mut VecDeque<StreamEvent>) -> Result<(), ProviderError> {
        if self.has_ended() {
            return Ok(());
        }
        match self.body.finish()? {
            Rest::Nothing => {}
            // What a cut stream ends with may be half an event: then the cut is the error, not the half.
            Rest::Event(event) => match self.answer.read(event, events) {
                Err(error) if error.class != ErrorClass::Protocol => return Err(error),
                Ok(()) | Err(_) => {}
            },
            Rest::Document(json) => self.answer.read_whole(json, events)?,
        }
        if self.answer.phase() == Phase::Started {
            self.answer.close(events)?;
        }
        match self.answer.phase() {
            Phase::Ended => Ok(()),
            Phase::Started => Err(protocol("the answer ended early")),
            Phase::Waiting => Err(protocol("the stream ended before an answer began")),
        }
    }

    /// Whether the answer is whole.
    pub fn has_ended(&self) -> bool {
        self.answer.phase() == Phase::Ended
    }

    /// How many events there were, not counting those that only keep the connection open.
    pub fn signs_of_life(&self) -> u64 {
        self.body.events() - self.answer.pings()
    }
}

/// The error of an answer that is not what its API allows.
pub fn protocol(message: impl Into<String>) -> ProviderError {
    ProviderError::new(ErrorClass::Protocol, message)
}

/// The error of `json`, a piece of an answer that is not understood.
pub fn not_understood(error: &serde_json::Error, json: &str) -> ProviderError {
    let excerpt = failure::excerpt(json, EXCERPT);
    protocol(format!(
        "an event of the answer is not understood ({error}): {excerpt}"
    ))
}
