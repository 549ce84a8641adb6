//! Decodes the bytes of answers to [`StreamEvent`]s, as far as all APIs are alike: a plain value without I/O, which gives
//! the same events however the bytes are cut and reports an incomplete answer as an error.
//!
//! The meaning of each event is left to the [`AnswerReader`] of the API, putting the pieces together to a message to the
//! consumer of the events, and timeouts to the caller that feeds the bytes.

use std::collections::VecDeque;

use ah_conversation::{ErrorClass, ProviderError, StreamEvent};
use ah_http::sse;

use crate::body::{Body, Rest};
use crate::failure::protocol;
use crate::halves::Seam;

/// Decoder of one answer.
#[derive(Debug, Default)]
pub struct Decoder<R> {
    body: Body,
    seam: Seam,
    reader: R,
    /// Number of events that only say that the server is there.
    idle: u64,
}

/// Reads the events of one answer in the format of one API.
pub trait AnswerReader: Default + Send + 'static {
    /// Reads the next event of a stream.
    fn read(
        &mut self,
        event: sse::Event<'_>,
        events: &mut VecDeque<StreamEvent>,
    ) -> Result<(), ProviderError>;

    /// Reads an answer in one JSON document, from a server that ignores the request for a stream.
    fn read_whole(
        &mut self,
        json: &str,
        events: &mut VecDeque<StreamEvent>,
    ) -> Result<(), ProviderError>;

    /// Called when the stream ends before the answer has; some servers send no end event.
    fn close(&mut self, _events: &mut VecDeque<StreamEvent>) -> Result<(), ProviderError> {
        Ok(())
    }

    /// Returns the progress of the answer.
    fn phase(&self) -> Phase;

    /// Whether the answer is whole, so that only numbers and an end marker may follow.
    fn has_stopped(&self) -> bool {
        false
    }

    /// Returns the number of events so far that say that the server still reads.
    fn readings(&self) -> u64 {
        0
    }

    /// Returns the number of keep-alive events so far.
    fn pings(&self) -> u64 {
        0
    }
}

/// Progress of an answer.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Not started.
    #[default]
    Waiting,
    /// Started and not complete.
    Started,
    /// Complete.
    Ended,
}

impl<R: AnswerReader> Decoder<R> {
    /// A decoder whose events `reader` reads.
    pub fn reading(reader: R) -> Self {
        Self {
            body: Body::default(),
            seam: Seam::default(),
            reader,
            idle: 0,
        }
    }

    /// Accepts the next bytes and adds the events that they complete to `events`. After an error the decoder is unusable.
    pub fn feed(
        &mut self,
        bytes: &[u8],
        events: &mut VecDeque<StreamEvent>,
    ) -> Result<(), ProviderError> {
        if self.has_ended() {
            return Ok(());
        }
        let Self {
            body,
            seam,
            reader,
            idle,
        } = self;
        body.feed(bytes)?;
        while let Some(event) = body.next_event()? {
            if event.data.trim_ascii() == "null" {
                *idle += 1;
                continue;
            }
            seam.pass(event, |event| match reader.phase() {
                Phase::Ended => Ok(()),
                Phase::Waiting | Phase::Started => reader.read(event, events),
            })?;
        }
        Ok(())
    }

    /// Ends the stream. An incomplete answer is an error.
    pub fn finish(&mut self, events: &mut VecDeque<StreamEvent>) -> Result<(), ProviderError> {
        if self.has_ended() {
            return Ok(());
        }
        let Self {
            body, seam, reader, ..
        } = self;
        match body.finish()? {
            Rest::Nothing => {}
            // A cut stream may end with half an event. The early end is reported then, not the half event.
            Rest::Event(event) => match seam.pass(event, |event| reader.read(event, events)) {
                Err(error) if error.class != ErrorClass::Protocol => return Err(error),
                Ok(()) | Err(_) => {}
            },
            Rest::Document(json) => reader.read_whole(&json, events)?,
        }
        seam.end(|event| reader.read(event, events))?;
        if reader.phase() == Phase::Started {
            reader.close(events)?;
        }
        match reader.phase() {
            Phase::Ended => Ok(()),
            Phase::Started => Err(protocol("the answer ended early")),
            Phase::Waiting => Err(protocol("the stream ended before an answer began")),
        }
    }

    /// Returns whether the answer is complete.
    pub fn has_ended(&self) -> bool {
        self.reader.phase() == Phase::Ended
    }

    /// Returns whether the answer is whole, though its stream goes on.
    pub fn has_stopped(&self) -> bool {
        self.reader.has_stopped()
    }

    /// Returns the number of events so far, without those that only say that the server is there, or still reads.
    pub fn content_events(&self) -> u64 {
        self.body.events() - self.reader.pings() - self.reader.readings() - self.idle
    }

    /// Returns whether no event has come yet, but for comments.
    pub fn is_silent(&self) -> bool {
        self.body.events() == 0
    }

    /// Returns the number of events so far that say that the server still reads.
    pub fn readings(&self) -> u64 {
        self.reader.readings()
    }
}
