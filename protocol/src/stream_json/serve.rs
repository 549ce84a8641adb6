//! Serving a host: prompts one after the other, control requests between and during them.

use std::io::{Read, Write};
use std::sync::Arc;

use ah_conversation::ContentBlock;
use tokio_util::sync::CancellationToken;

use super::Wanted;
use super::input;
use super::link::Link;
use super::output::Lines;
use super::program::Program;
use super::sink::Sink;
use super::speaker::Speaker;
use super::wire::Prompt;
use super::worker::{Served, Worker};
use crate::Engine;
use ah_transcript::Ids;

/// Input from the host.
pub enum Source {
    /// Lines of the protocol.
    Lines(Box<dyn Read + Send>),
    /// One prompt, and nothing else.
    Prompt(String),
}

/// Input and output of the session.
pub struct Streams {
    /// Input from the host.
    pub source: Source,
    /// Output to the host, a line at a time.
    pub output: Box<dyn Write + Send>,
}

/// Serves a host until it has no more prompts, or `stop` is cancelled.
pub async fn serve(
    streams: Streams,
    engine: Arc<dyn Engine>,
    ids: Arc<dyn Ids>,
    wanted: Wanted,
    stop: &CancellationToken,
) -> Served {
    let lines = Lines::new(streams.output, stop.clone());
    let link = Arc::new(Link::new(Sink::Lines(lines), ids));
    let speaker = Speaker::new(link, wanted, None);
    let (worker, next) = Worker::new(speaker, engine, Vec::new(), stop);
    let shared = worker.shared.clone();
    match streams.source {
        Source::Lines(input) => {
            tokio::spawn(shared.hear(input::lines(input)));
        }
        Source::Prompt(text) => {
            shared.prompt(Prompt {
                content: vec![ContentBlock::text(text)],
                ..Prompt::default()
            });
            shared.end();
        }
    }
    worker.perform(next).await
}

/// Serves this program until its requests end, or `stop` is cancelled. The messages and their order are those of
/// [`serve`]. Of `wanted`, `asks` does not count: questions go to the program's host.
pub async fn serve_program(
    program: Program,
    engine: Arc<dyn Engine>,
    ids: Arc<dyn Ids>,
    wanted: Wanted,
    stop: &CancellationToken,
) -> Served {
    let abandoned = program.messages.abandoned();
    let sink = Sink::Messages(program.messages);
    let link = Arc::new(Link::new(sink, ids));
    let speaker = Speaker::new(link, wanted, program.host);
    let (worker, next) = Worker::new(speaker, engine, program.hooks, stop);
    let worker = worker.resuming(program.resumes);
    let following = tokio::spawn(worker.shared.clone().follow(program.requests));
    // Also while nothing is told: it may be the program that a question waits for.
    let stopping = async {
        abandoned.await;
        stop.cancel();
        std::future::pending().await
    };
    let served = tokio::select! {
        biased;
        served = stopping => served,
        served = worker.perform(next) => served,
    };
    // Later requests fail once it has been dropped.
    following.abort();
    let _ = following.await;
    served
}
