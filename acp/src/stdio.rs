//! Standard input and output as the connection to an editor.
//!
//! The official crate has the same, but refuses a line with half of a character ([`json`]) and ends at one that is no UTF-8.
//! Here both are replaced before it sees the line.

use std::io;

use agent_client_protocol::{Agent, ConnectTo, Lines};
use ah_conversation::json;
use blocking::Unblock;
use futures_util::io::BufReader;
use futures_util::{AsyncBufReadExt as _, AsyncRead, AsyncWriteExt as _, Stream, sink, stream};

/// Returns the connection over standard input and output.
pub fn stdio() -> impl ConnectTo<Agent> {
    let output = sink::unfold(
        Unblock::new(io::stdout()),
        async |mut output, line: String| {
            let mut line = line.into_bytes();
            line.push(b'\n');
            output.write_all(&line).await?;
            output.flush().await?;
            Ok::<_, io::Error>(output)
        },
    );
    Lines::new(output, lines(Unblock::new(io::stdin())))
}

/// Returns the lines of an input, without their ends.
fn lines(
    input: impl AsyncRead + Unpin + Send + 'static,
) -> impl Stream<Item = io::Result<String>> + Send {
    stream::unfold(BufReader::new(input), async |mut input| {
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

#[cfg(test)]
mod tests {
    use futures_util::TryStreamExt as _;

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
}
