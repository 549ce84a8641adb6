//! Records the output of a child: in memory while it is short, else in a file up to a size limit. Head and tail stay in
//! memory.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use ah_conversation::{Content, LineCount, Spool};
use sha2::{Digest, Sha256};

use crate::command::Keep;

/// Bytes of head and of tail that stay in memory when the output is in a file; twice what any tool shows a model.
const ENDS: usize = 64 * 1024;

/// Records output as it is read.
pub(crate) struct Recorder {
    keep: Keep,
    target: RecordTarget,
    /// All output while it is in memory, then its first bytes.
    head: Vec<u8>,
    /// The last bytes that are not in the head, sometimes more than are returned in the end.
    tail: Vec<u8>,
    total: u64,
    lines: LineCount,
}

enum RecordTarget {
    Memory,
    File(SpoolFile),
    /// The file could not be written, so only head and tail are kept.
    EndsOnly(io::Error),
}

struct SpoolFile {
    file: File,
    hash: Sha256,
    written: u64,
}

impl Recorder {
    pub(crate) fn new(keep: Keep) -> Self {
        Self {
            keep,
            target: RecordTarget::Memory,
            head: Vec::new(),
            tail: Vec::new(),
            total: 0,
            lines: LineCount::default(),
        }
    }

    /// Appends output of the child.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        self.lines.add(bytes);
        if let Some(live) = &self.keep.live {
            live.write(bytes);
        }
        if let RecordTarget::Memory = self.target {
            self.head.extend_from_slice(bytes);
            if self.head.len() > self.keep.in_memory {
                self.spill();
            }
            return;
        }
        let (first, rest) = bytes.split_at(bytes.len().min(ENDS - self.head.len()));
        self.head.extend_from_slice(first);
        push_tail(&mut self.tail, rest);
        self.store(bytes);
    }

    /// Appends a line that the child has not written.
    pub(crate) fn note(&mut self, line: &str) {
        let last = self.tail.last().or(self.head.last());
        if last.is_some_and(|last| *last != b'\n') {
            self.write(b"\n");
        }
        self.write(line.as_bytes());
    }

    fn spill(&mut self) {
        let all = std::mem::take(&mut self.head);
        let (head, rest) = all.split_at(all.len().min(ENDS));
        self.head = head.to_vec();
        push_tail(&mut self.tail, rest);
        self.target = match SpoolFile::create(&self.keep.path) {
            Ok(file) => RecordTarget::File(file),
            Err(error) => RecordTarget::EndsOnly(error),
        };
        self.store(&all);
    }

    /// Writes as much of `bytes` to the file as fits before the space for the tail.
    fn store(&mut self, bytes: &[u8]) {
        let RecordTarget::File(file) = &mut self.target else {
            return;
        };
        let limit = self.keep.cap.max(2 * ENDS as u64) - ENDS as u64;
        let room = usize::try_from(limit - file.written).unwrap_or(usize::MAX);
        if let Err(error) = file.write(&bytes[..bytes.len().min(room)]) {
            self.target = RecordTarget::EndsOnly(discard(&self.keep.path, error));
        }
    }

    /// Completes the recording; a file is complete and synced.
    pub(crate) fn finish(mut self) -> Content {
        let surplus = self.tail.len().saturating_sub(ENDS);
        self.tail.drain(..surplus);
        let error = match self.target {
            RecordTarget::Memory => return Content::Bytes(self.head),
            RecordTarget::EndsOnly(error) => error,
            RecordTarget::File(mut file) => {
                match file.complete(&self.tail, self.total, &self.keep.path) {
                    Ok(left_out) => {
                        return Content::Spool(Spool {
                            path: self.keep.path,
                            len: self.total,
                            lines: self.lines.lines(),
                            left_out,
                            sha256: hexadecimal(&file.hash.finalize()),
                            head: self.head,
                            tail: self.tail,
                        });
                    }
                    Err(error) => discard(&self.keep.path, error),
                }
            }
        };
        let left_out = self.total - (self.head.len() + self.tail.len()) as u64;
        let path = self.keep.path.display();
        let notice = format!("\n[{left_out} bytes left out: cannot write `{path}`: {error}]\n");
        self.head.extend_from_slice(notice.as_bytes());
        self.head.append(&mut self.tail);
        Content::Bytes(self.head)
    }
}

/// Removes a file that could not be written, since half an output is useless and the disk may be full; returns `error`.
fn discard(path: &Path, error: io::Error) -> io::Error {
    let _ = fs::remove_file(path);
    error
}

impl SpoolFile {
    fn create(path: &Path) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(folder)?;
        }
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(path)?;
        Ok(Self {
            file,
            hash: Sha256::new(),
            written: 0,
        })
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.hash.update(bytes);
        self.written += bytes.len() as u64;
        Ok(())
    }

    /// Appends the missing end of `total` bytes as far as `tail` holds it, and syncs the file and its folder. Returns
    /// the number of bytes left out between file and tail.
    fn complete(&mut self, tail: &[u8], total: u64, path: &Path) -> io::Result<u64> {
        let missing = total - self.written;
        let available = tail
            .len()
            .min(usize::try_from(missing).unwrap_or(usize::MAX));
        self.write(&tail[tail.len() - available..])?;
        self.file.sync_data()?;
        if let Some(folder) = path.parent() {
            File::open(folder)?.sync_data()?;
        }
        Ok(missing - available as u64)
    }
}

fn push_tail(tail: &mut Vec<u8>, bytes: &[u8]) {
    if bytes.len() >= ENDS {
        tail.clear();
    } else if tail.len() > 2 * ENDS {
        tail.drain(..tail.len() - ENDS);
    }
    tail.extend_from_slice(&bytes[bytes.len().saturating_sub(ENDS)..]);
}

fn hexadecimal(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn output_is_recorded_the_same_for_any_sequence_of_writes(
            pieces in prop::collection::vec(0usize..150_000, 0..8),
            in_memory in prop::sample::select(vec![0, 1_000, 256 * 1024]),
            cap in prop::sample::select(vec![0, 200_000, 500_000, 64 << 20]),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("spool");
            let mut recorder = Recorder::new(Keep { in_memory, ..Keep::new(path, cap) });
            let all: Vec<u8> = (0..pieces.iter().sum()).map(|at: usize| (at % 251) as u8).collect();
            let mut rest = &all[..];
            for length in pieces {
                let (piece, behind) = rest.split_at(length);
                recorder.write(piece);
                rest = behind;
            }
            check(recorder.finish(), &all, in_memory, cap)?;
        }
    }

    fn check(
        content: Content,
        all: &[u8],
        in_memory: usize,
        cap: u64,
    ) -> Result<(), TestCaseError> {
        let spool = match content {
            Content::Spool(spool) => spool,
            other => {
                prop_assert!(all.len() <= in_memory && other == Content::Bytes(all.to_vec()));
                return Ok(());
            }
        };
        let file = fs::read(&spool.path).unwrap();
        prop_assert_eq!(spool.len, all.len() as u64);
        prop_assert_eq!(file.len() as u64, spool.len.min(cap.max(2 * ENDS as u64)));
        prop_assert_eq!(file.len() as u64, spool.len - spool.left_out);
        prop_assert_eq!(spool.sha256, hexadecimal(&Sha256::digest(&file)));
        let (head, tail) = file.split_at(file.len() - spool.tail.len());
        prop_assert!(all.starts_with(head) && all.ends_with(tail) && tail == spool.tail);
        prop_assert_eq!(spool.head.len(), all.len().min(ENDS));
        prop_assert_eq!(spool.tail.len(), (all.len() - spool.head.len()).min(ENDS));
        prop_assert!(head.starts_with(&spool.head));
        Ok(())
    }
}
