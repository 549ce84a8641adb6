//! `-p` with the JSON formats: runs for programs, which get the messages of the Agent SDK (all of them or only the
//! result) and may drive the session by its protocol.

use std::io::{self, Write};
use std::sync::Arc;

use ah_config::{Config, Error, ErrorKind};
use ah_conversation::{ExitReason, json};
use ah_engine::assemble::HostExtensions;
use ah_engine::serve::{ServeRequest, serve_host};
use ah_protocol::stream_json::{Served, Source, Streams};
use ah_terminal::exit::{self, output_error};
use ah_terminal::print::Lines;
use ah_terminal::signals::Signals;
use parking_lot::Mutex;
use serde_json::Value;

use crate::args::options::{Options, OutputFormat};
use crate::args::session::plan;

/// Serves the program that started this one; returns the exit code.
///
/// # Errors
///
/// If the session cannot be opened or stored.
pub async fn perform(
    source: Source,
    fork_at: Option<u32>,
    options: &Options,
    config: &Config,
    signals: &Signals,
) -> Result<u8, Error> {
    let format = options.output.output_format.unwrap_or_default();
    let lines = BufferedLines::default();
    let output: Box<dyn Write + Send> = match (format, options.output.verbose) {
        (OutputFormat::StreamJson, _) => Box::new(Lines),
        (_, keeps_all) => Box::new(LineBuffer {
            lines: lines.clone(),
            keeps_all,
        }),
    };
    let request = ServeRequest {
        plan: plan(options, config.interface)?,
        fork_at,
        config,
        stop: signals.token(),
        extensions: HostExtensions::default(),
        warn: Arc::new(ah_terminal::warn),
    };
    let (served, refusal) = serve_host(Streams { source, output }, request).await?;
    // Programs decide by the words of the result.
    let is_keyless = ah_engine::model::keyless(&refusal).is_some();
    if is_keyless || !matches!(served, Served::Refused) {
        let printed = match format {
            OutputFormat::Json => lines.print(options.output.verbose),
            OutputFormat::Text => lines.print_answer(),
            OutputFormat::StreamJson | OutputFormat::Events => Ok(()),
        };
        printed.map_err(|error| output_error(&error))?;
    }
    match (served, signals.interrupt()) {
        (Served::Closed(error), _) => Err(Error::new(ErrorKind::OutputClosed, error)),
        (Served::Lost(error), _) => Err(error.into()),
        (Served::Refused, _) if is_keyless => Ok(1),
        (Served::Refused, _) => Err(refusal),
        (Served::Ended { .. }, interrupt @ Some(_)) => Ok(exit::code(
            config.interface,
            &ExitReason::Interrupted,
            interrupt,
        )),
        // The result has told the failure, in the words by which programs decide.
        (Served::Ended { is_error, .. }, None) => Ok(u8::from(is_error)),
    }
}

/// Lines of a run that are printed only at its end.
#[derive(Clone, Default)]
struct BufferedLines(Arc<Mutex<Vec<Vec<u8>>>>);

struct LineBuffer {
    lines: BufferedLines,
    keeps_all: bool,
}

impl Write for LineBuffer {
    /// Collects one line.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut lines = self.lines.0.lock();
        if !self.keeps_all {
            lines.clear();
        }
        lines.push(line.trim_ascii_end().to_vec());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl BufferedLines {
    /// Prints the text of the result, which is the last line.
    fn print_answer(&self) -> io::Result<()> {
        let lines = self.0.lock();
        let result = lines.last().map(|line| json::from_slice::<Value>(line));
        match result {
            Some(Ok(result)) => match result["result"].as_str() {
                Some("") | None => Ok(()),
                Some(text) => Lines.write_all(format!("{text}\n").as_bytes()),
            },
            _ => Ok(()),
        }
    }

    /// Prints the last line, or all lines as an array.
    fn print(&self, all: bool) -> io::Result<()> {
        let lines = self.0.lock();
        let joined = match (all, &lines[..]) {
            (false, [.., last]) => last.clone(),
            (false, []) => return Ok(()),
            (true, lines) => [&b"["[..], &lines.join(&b","[..]), b"]"].concat(),
        };
        Lines.write_all(&[&joined[..], b"\n"].concat())
    }
}
