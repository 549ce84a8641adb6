//! Searches files in parallel and returns their outputs in order, as `rg --sort path` prints them.

use std::cell::RefCell;
use std::io::{self, Read};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use bstr::ByteSlice;
use grep_printer::{StandardBuilder, SummaryBuilder, SummaryKind};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};

use super::around::{Around, Shared};
use super::capped::{Capped, MAX_OUTPUT};
use super::{Arguments, OutputMode};
use crate::arguments::Count;
use crate::blocking::{Stop, Stoppable};
use crate::file::FileError;
use crate::workspace::{OpenFile, Workspace};

/// Limit for the memory of a search of one file; a line, or with `multiline` the whole file, has to fit.
const MAX_HEAP: usize = 64 << 20;
/// Number of files that are searched before the output is looked at: few at first, since they may already be enough.
const FIRST_BATCH: usize = 32;
const LARGEST_BATCH: usize = 1024;

/// A prepared search.
pub(super) struct FileSearch {
    matcher: RegexMatcher,
    searcher: SearcherBuilder,
    mode: OutputMode,
    has_context: bool,
    names_files: bool,
    matches_only: bool,
}

/// Result of a search.
#[derive(Default)]
pub(super) struct SearchResult {
    /// The output, in lines.
    pub(super) text: Vec<u8>,
    /// Whether output was left out.
    pub(super) more: bool,
    /// Files that could not be read, and why.
    pub(super) errors: Vec<String>,
    /// Number of files left out because permission rules hide them.
    pub(super) hidden: usize,
    /// Number of binary files, which were not searched to the end.
    pub(super) binary: usize,
    /// What was not searched because it is hidden or ignored.
    pub(super) left_out: Vec<String>,
}

impl FileSearch {
    /// Prepares a search of a folder, or of a single file, whose name is not put before each line.
    pub(super) fn new(arguments: &Arguments, is_single_file: bool) -> Result<Self, String> {
        let multiline = arguments.multiline.unwrap_or(false);
        let mut pattern = RegexMatcherBuilder::new();
        pattern
            .multi_line(true)
            .crlf(!names_return(&arguments.pattern))
            .line_terminator(None)
            .case_insensitive(arguments.ignore_case.unwrap_or(false));
        if multiline {
            pattern.dot_matches_new_line(true);
        } else {
            pattern.line_terminator(Some(b'\n')).ban_byte(Some(0));
        }
        let matcher = pattern
            .build(&arguments.pattern)
            .map_err(|error| explain(&error.to_string()))?;
        let is_content = arguments.output_mode == OutputMode::Content;
        let context = |lines: Option<Count>| match lines.or(arguments.around) {
            Some(Count(lines)) if is_content => usize::try_from(lines).unwrap_or(usize::MAX),
            _ => 0,
        };
        let (before, after) = (context(arguments.before), context(arguments.after));
        // A binary file that `path` names is searched to the end and reported as a match without its lines.
        let binary = if is_single_file {
            BinaryDetection::convert(0)
        } else {
            BinaryDetection::quit(0)
        };
        let mut searcher = SearcherBuilder::new();
        searcher
            .multi_line(multiline)
            .line_number(is_content && arguments.numbers.unwrap_or(true))
            .before_context(before)
            .after_context(after)
            .binary_detection(binary)
            .heap_limit(Some(MAX_HEAP));
        Ok(Self {
            matcher,
            searcher,
            mode: arguments.output_mode,
            has_context: before + after > 0,
            names_files: !is_single_file,
            matches_only: arguments.matches_only.unwrap_or(false),
        })
    }

    /// Searches the files until there are more lines than `wanted` or [`MAX_OUTPUT`] bytes. The result is the same as if
    /// they were searched in order.
    pub(super) fn search(
        &self,
        workspace: &Workspace,
        files: &[PathBuf],
        wanted: Option<u64>,
        stop: &Stop,
    ) -> SearchResult {
        let mut found = SearchResult::default();
        let (mut rest, mut size, mut lines) = (files, FIRST_BATCH, 0);
        while !rest.is_empty() && !stop.is_requested() {
            let (batch, later) = rest.split_at(size.min(rest.len()));
            for (file, result) in batch.iter().zip(self.search_batch(workspace, batch, stop)) {
                let is_enough = wanted.is_some_and(|wanted| lines > wanted);
                if is_enough || found.text.len() >= MAX_OUTPUT {
                    found.more = true;
                    return found;
                }
                match result {
                    Ok(output) => {
                        lines += output.text.lines().count() as u64;
                        self.append(&mut found, &output);
                    }
                    Err(error) => {
                        let file = workspace.show(file);
                        found.errors.push(format!("{file}: {error}"));
                    }
                }
            }
            rest = later;
            size = (size * 2).min(LARGEST_BATCH);
        }
        found
    }

    fn append(&self, found: &mut SearchResult, output: &Capped) {
        if self.has_context && !found.text.is_empty() && !output.text.is_empty() {
            found.text.extend_from_slice(b"--\n");
        }
        found.text.extend_from_slice(&output.text);
        found.more |= output.is_full;
        found.binary += usize::from(output.is_binary && output.text.is_empty());
    }

    /// Returns the outputs of the files of a batch, in order.
    fn search_batch(
        &self,
        workspace: &Workspace,
        batch: &[PathBuf],
        stop: &Stop,
    ) -> Vec<io::Result<Capped>> {
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        let next = AtomicUsize::new(0);
        let work = || {
            let mut searcher = self.searcher.build();
            let mut outputs = Vec::new();
            while let Some(file) = batch.get(next.fetch_add(1, Ordering::Relaxed)) {
                outputs.push((file, self.search_file(&mut searcher, workspace, file, stop)));
            }
            outputs
        };
        let mut outputs: Vec<_> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads.min(batch.len()))
                .map(|_| scope.spawn(work))
                .collect();
            let joined = workers.into_iter().map(|worker| worker.join());
            joined
                .flat_map(|outputs| {
                    outputs.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                })
                .collect()
        });
        outputs.sort_by_key(|(file, _)| *file);
        outputs.into_iter().map(|(_, output)| output).collect()
    }

    fn search_file(
        &self,
        searcher: &mut Searcher,
        workspace: &Workspace,
        file: &Path,
        stop: &Stop,
    ) -> io::Result<Capped> {
        let source = match workspace.open(file) {
            Ok(OpenFile { source, .. }) => Stoppable { source, stop },
            // Removed since the walk, or not a regular file.
            Err(FileError::Missing | FileError::Directory | FileError::Special(_)) => {
                return Ok(Capped::default());
            }
            Err(FileError::Io(error)) => return Err(error),
        };
        let shown = workspace.show(file);
        let output = RefCell::<Capped>::default();
        let result = self.print(searcher, source, &shown, &output);
        let mut output = output.into_inner();
        output.is_binary = *result.as_ref().unwrap_or(&false);
        match result {
            Err(_) if output.is_full => Ok(output.whole_lines()),
            Err(error) => Err(error),
            Ok(_) => Ok(output),
        }
    }

    /// Prints what is found in a file; returns whether it is binary.
    fn print(
        &self,
        searcher: &mut Searcher,
        source: impl Read,
        path: &str,
        output: &RefCell<Capped>,
    ) -> io::Result<bool> {
        let kind = match self.mode {
            OutputMode::Content => {
                let mut printer = StandardBuilder::new()
                    .path(self.names_files)
                    .only_matching(self.matches_only)
                    .build_no_color(Shared(output));
                let sink = printer.sink_with_path(&self.matcher, path);
                let mut sink = self.around(sink, path, Some(output));
                searcher.search_reader(&self.matcher, source, &mut sink)?;
                return Ok(sink.is_binary);
            }
            OutputMode::FilesWithMatches => SummaryKind::PathWithMatch,
            OutputMode::Count => SummaryKind::Count,
        };
        let mut printer = SummaryBuilder::new()
            .kind(kind)
            .path(self.names_files)
            .exclude_zero(true)
            .build_no_color(Shared(output));
        let sink = printer.sink_with_path(&self.matcher, path);
        let mut sink = self.around(sink, path, None);
        searcher.search_reader(&self.matcher, source, &mut sink)?;
        Ok(sink.is_binary)
    }

    fn around<'a, S>(
        &'a self,
        printer: S,
        path: &'a str,
        output: Option<&'a RefCell<Capped>>,
    ) -> Around<'a, S> {
        Around {
            printer,
            matcher: &self.matcher,
            output,
            path: self.names_files.then_some(path),
            matches_only: self.matches_only,
            is_binary: false,
        }
    }
}

/// Whether a pattern names the return of a line end in the format of Windows, which is a part of the line then.
fn names_return(pattern: &str) -> bool {
    let pattern = pattern.to_lowercase();
    let forms = ["\r", "\\r", "\\x0d", "\\x{0d}", "\\x{d}", "\\u000d"];
    forms.iter().any(|form| pattern.contains(form))
}

/// Returns the error of a pattern, with a hint where there is a remedy.
fn explain(error: &str) -> String {
    let hint = if error.contains("\"\\n\" is not allowed") {
        "; set multiline to match across lines"
    } else {
        ""
    };
    format!("bad pattern: {error}{hint}")
}
