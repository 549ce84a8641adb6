//! Answers from bytes to [`StreamEvent`]s, as far as all APIs are alike: a plain value without I/O, which gives the same
//! events however the bytes are cut, and takes nothing for whole that is not.
//!
//! What an event means is left to the [`Answer`] of each API, how the pieces make a message to the reader of the events,
//! and the time between them to whoever feeds the bytes.

use std::collections::VecDeque;

use ah_conversation::{ErrorClass, ProviderError, StreamEvent};
use ah_http::sse;

use crate::body::{Body, Rest};
use crate::failure::protocol;

/// Turns the bytes of an answer into events.
#[derive(Debug, Default)]
pub struct Decoder<R> {
    body: Body,
    reader: R,
}

/// What was said so far of an answer of one API.
pub trait AnswerReader: Default + Send + 'static {
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

impl<R: AnswerReader> Decoder<R> {
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
            if self.reader.phase() != Phase::Ended {
                self.reader.read(event, events)?;
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
            Rest::Event(event) => match self.reader.read(event, events) {
                Err(error) if error.class != ErrorClass::Protocol => return Err(error),
                Ok(()) | Err(_) => {}
            },
            Rest::Document(json) => self.reader.read_whole(json, events)?,
        }
        if self.reader.phase() == Phase::Started {
            self.reader.close(events)?;
        }
        match self.reader.phase() {
            Phase::Ended => Ok(()),
            Phase::Started => Err(protocol("the answer ended early")),
            Phase::Waiting => Err(protocol("the stream ended before an answer began")),
        }
    }

    /// Whether the answer is whole.
    pub fn has_ended(&self) -> bool {
        self.reader.phase() == Phase::Ended
    }

    /// How many events there were, not counting those that only keep the connection open.
    pub fn signs_of_life(&self) -> u64 {
        self.body.events() - self.reader.pings()
    }
}
