//! Standard input and output as the connection to an editor.
//!
//! The official crate has the same, but refuses a line with half of a character ([`json`]) and ends at one that is no UTF-8.
//! Here both are replaced before it sees the line, and what an editor writes as UTF-16 is read. Our lines are lines for every
//! reader.

use std::io;

use agent_client_protocol::{Agent, ConnectTo, Lines};
use ah_conversation::encoding::Decoder;
use ah_conversation::json;
use blocking::Unblock;
use futures_util::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite,
    AsyncWriteExt as _, Sink, Stream, TryStreamExt as _, sink, stream,
};

/// Bytes that are read at once.
const READ_SIZE: usize = 8 << 10;

/// Returns the connection over standard input and output.
pub fn stdio() -> impl ConnectTo<Agent> {
    let output = written(Unblock::new(io::stdout()));
    Lines::new(output, lines(Unblock::new(io::stdin())))
}

/// Returns an output that takes lines without their ends.
fn written(
    output: impl AsyncWrite + Unpin + Send + 'static,
) -> impl Sink<String, Error = io::Error> + Send {
    sink::unfold(output, async |mut output, line: String| {
        let mut line = json::one_line(line).into_bytes();
        line.push(b'\n');
        let sent = match output.write_all(&line).await {
            Ok(()) => output.flush().await,
            failed => failed,
        };
        match sent {
            // An editor that goes away closes this side first. The end of its input ends the connection, in order.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
            _ => Ok(output),
        }
    })
}

/// Returns the lines of an input, without their ends.
fn lines(
    input: impl AsyncRead + Unpin + Send + 'static,
) -> impl Stream<Item = io::Result<String>> + Send {
    stream::unfold(decoded(input), async |mut input| {
        let mut line = Vec::new();
        let line = match input.read_until(b'\n', &mut line).await {
            Ok(0) => return None,
            Ok(_) => Ok(json::whole_bytes(line.trim_ascii_end())
                .into_text()
                .into_owned()),
            Err(error) => Err(error),
        };
        Some((line, input))
    })
}

/// Returns an input as UTF-8.
fn decoded(
    input: impl AsyncRead + Unpin + Send + 'static,
) -> impl AsyncBufRead + Unpin + Send + 'static {
    let start = Some((input, Decoder::default(), vec![0; READ_SIZE]));
    let pieces = stream::unfold(start, async |state| {
        let (mut input, mut decoder, mut buffer) = state?;
        match input.read(&mut buffer).await {
            Ok(0) => Some((Ok(decoder.end()), None)),
            Ok(read) => {
                let piece = decoder.feed(&buffer[..read]).into_owned();
                Some((Ok(piece), Some((input, decoder, buffer))))
            }
            Err(error) => Some((Err(error), None)),
        }
    });
    Box::pin(pieces).into_async_read()
}

#[cfg(test)]
mod tests {
    use futures_util::SinkExt as _;

    use super::*;

    #[tokio::test]
    async fn lines_have_neither_halves_nor_bad_bytes() {
        let input = b"{\"a\": \"\\ud83d \\ud83d\\ude00\"}\r\n{\"b\": \"caf\xe9\"}\n\n[]";
        let lines: Vec<_> = lines(&input[..]).try_collect().await.unwrap();
        assert_eq!(
            lines,
            [
                r#"{"a": "\ufffd \ud83d\ude00"}"#,
                "{\"b\": \"caf\u{fffd}\"}",
                "",
                "[]"
            ]
        );
    }

    #[tokio::test]
    async fn what_an_editor_that_has_gone_does_not_read_is_no_error() {
        let (input, output) = io::pipe().unwrap();
        drop(input);
        let mut written = Box::pin(written(Unblock::new(output)));
        written.send("{}".to_owned()).await.unwrap();
    }

    #[tokio::test]
    async fn what_is_written_is_one_line_for_every_reader() {
        let (mut input, output) = io::pipe().unwrap();
        let mut written = Box::pin(written(Unblock::new(output)));
        written.send("\"a\u{2028}b\"".to_owned()).await.unwrap();
        let mut text = [0; 16];
        let length = io::Read::read(&mut input, &mut text).unwrap();
        assert_eq!(&text[..length], b"\"a\\u2028b\"\n");
    }

    #[tokio::test]
    async fn lines_in_utf_16_are_read() {
        // The first letter's bytes are those of a line end, too.
        let text = "\u{feff}{\"a\": \"上 😀\"}\r\n[]\n";
        let input: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let lines: Vec<_> = lines(futures_util::io::Cursor::new(input))
            .try_collect()
            .await
            .unwrap();
        assert_eq!(lines, ["{\"a\": \"上 😀\"}", "[]"]);
    }
}
