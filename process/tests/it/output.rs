//! Recorded output of a child: order, completeness and limits.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;

use ah_conversation::{Content, Spool};
use ah_process::{Ending, Keep};
use sha2::{Digest, Sha256};

use crate::shell::{Scratch, gone, text};

#[tokio::test]
async fn output_arrives_in_order() {
    let scratch = Scratch::new();
    for (script, ending, output) in [
        ("true", Ending::Exited(0), ""),
        (
            "echo out; echo err >&2; echo out",
            Ending::Exited(0),
            "out\nerr\nout\n",
        ),
        ("printf half; exit 3", Ending::Exited(3), "half"),
        ("kill -9 $$", Ending::Killed(9), ""),
        ("cat; echo end", Ending::Exited(0), "end\n"),
        (
            "pwd -P >/dev/null; echo $AH_CALL | tr -d '0-9a-f-'",
            Ending::Exited(0),
            "\n",
        ),
    ] {
        assert_eq!(
            scratch.run(script).await,
            (ending, output.to_owned()),
            "{script}"
        );
    }
}

#[tokio::test]
async fn all_of_stdin_is_written_unless_the_child_closes_it() {
    let scratch = Scratch::new();
    let input = vec![b'x'; 3 << 20];
    for (script, output) in [("wc -c", "3145728\n"), ("exec <&-; echo no", "no\n")] {
        let mut command = scratch.command(script);
        command.stdin = input.clone();
        let (ending, text) = text(command.run().await.unwrap());
        assert_eq!(
            (ending, text.trim_start()),
            (Ending::Exited(0), output),
            "{script}"
        );
    }
}

#[tokio::test]
async fn binary_output_is_recorded_unchanged() {
    let scratch = Scratch::new();
    let outcome = scratch
        .command(r"printf '\377\000\355\240\200'")
        .run()
        .await
        .unwrap();
    assert_eq!(
        outcome.output,
        Content::Bytes(b"\xff\0\xed\xa0\x80".to_vec())
    );
}

#[tokio::test]
async fn a_note_is_appended_on_its_own_line() {
    let scratch = Scratch::new();
    for (script, output) in [
        ("exit 3", "code 3"),
        ("echo a; exit 3", "a\ncode 3"),
        ("printf a; exit 3", "a\ncode 3"),
    ] {
        let mut command = scratch.command(script);
        command.note = |ending| Some(format!("code {}", ending.code()));
        assert_eq!(text(command.run().await.unwrap()).1, output);
    }
}

/// Returns the output of `seq`: the numbers from 1, a line each.
fn numbers(last: usize) -> Vec<u8> {
    (1..=last)
        .flat_map(|number| format!("{number}\n").into_bytes())
        .collect()
}

async fn spooled(scratch: &Scratch, script: &str, keep: Keep) -> (Spool, Vec<u8>) {
    let mut command = scratch.command(script);
    command.keep = keep;
    let Content::Spool(spool) = command.run().await.unwrap().output else {
        panic!("a long output");
    };
    let bytes = fs::read(&spool.path).unwrap();
    let hash: String = Sha256::digest(&bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!(spool.sha256, hash);
    assert_eq!(spool.len - spool.left_out, bytes.len() as u64);
    (spool, bytes)
}

#[tokio::test]
async fn long_output_goes_to_a_private_file_in_full() {
    let scratch = Scratch::new();
    let path = scratch.path("out/spool");
    let (spool, bytes) = spooled(&scratch, "seq 300000", Keep::new(path.clone(), 64 << 20)).await;
    let all = numbers(300_000);
    assert!(bytes == all, "the file has all output");
    assert_eq!((spool.len, spool.left_out), (all.len() as u64, 0));
    assert!(all.starts_with(&spool.head) && all.ends_with(&spool.tail));
    assert_eq!((spool.head.len(), spool.tail.len()), (64 << 10, 64 << 10));
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
}

#[tokio::test]
async fn output_past_the_size_limit_keeps_head_and_tail() {
    let scratch = Scratch::new();
    let all = numbers(300_000);
    for cap in [128 << 10, 1 << 20, all.len() - 1, all.len()] {
        let keep = Keep::new(scratch.path("out"), cap as u64);
        let (spool, bytes) = spooled(&scratch, "seq 300000", keep).await;
        assert_eq!(spool.len, all.len() as u64);
        assert_eq!(bytes.len(), cap);
        let (head, tail) = bytes.split_at(cap - spool.tail.len());
        assert!(all.starts_with(head) && all.ends_with(tail) && tail == spool.tail);
    }
}

#[tokio::test]
async fn an_unwritable_file_loses_only_the_middle_of_the_output() {
    let scratch = Scratch::new();
    fs::write(scratch.path("file"), "").unwrap();
    let mut command = scratch.command("seq 300000");
    command.keep.path = scratch.path("file/below");
    let (ending, text) = text(command.run().await.unwrap());
    assert_eq!(ending, Ending::Exited(0));
    assert!(text.starts_with("1\n2\n") && text.ends_with("\n300000\n"));
    assert!(text.contains("bytes left out: cannot write `"));
}

#[tokio::test]
async fn a_caller_exchanges_lines_with_a_child_until_it_is_dropped() {
    let scratch = Scratch::new();
    let script = "echo $$ >pid; echo careful >&2; while read -r line; do echo \"heard $line\"; done; sleep 1000";
    let (child, mut pipes) = scratch.command(script).converse().await.unwrap();
    let mut answers = BufReader::new(pipes.stdout).lines();
    for word in ["one", "two"] {
        writeln!(pipes.stdin, "{word}").unwrap();
        assert_eq!(answers.next().unwrap().unwrap(), format!("heard {word}"));
    }
    let mut said = String::new();
    BufReader::new(pipes.stderr).read_line(&mut said).unwrap();
    assert_eq!(said, "careful\n");
    assert!(child.outcome().is_none());
    let pid = scratch.pid("pid").await;
    drop(child);
    gone(pid).await;
}
