//! Tool calls, from the model's request to the stored result: find, validate, permission, run, truncate. Whether a call
//! may happen is settled in [`permission`](crate::permission), just before it would.
//!
//! A call is stored as started before it runs, and its result when it ends; the message with all results is stored
//! in one transaction with the last of them. So a crash at any point leaves a journal that says what may have run.

mod afterwards;

use std::any::Any;
use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;

use ah_conversation::{
    Access, CallFinish, CallStart, Clock, Content, ContentBlock, Context, Event, EventKind,
    ExitReason, Input, MessageId, Origin, Output, Progress, ProgressSink, Record, ResultBlock,
    Role, StoreError, Tool, ToolResult, ToolSpec, ToolUse, Truncation, close_open_calls,
};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::sync::mpsc;

use afterwards::Done;

use crate::truncate::{cut_to_characters, truncate};
use crate::{AnswerForm, Session, SessionUpdate, Stop, ToolConcurrency, checkpoint};

/// How many calls run at once at most.
const AT_ONCE: usize = 10;

/// A call once it is known what becomes of it.
#[derive(Clone)]
pub(crate) struct Prepared {
    pub(crate) call: ToolUse,
    pub(crate) fate: Fate,
}

#[derive(Clone)]
pub(crate) enum Fate {
    /// It runs.
    Run {
        tool: Arc<dyn Tool>,
        accesses: Vec<Access>,
    },
    /// It is answered without running.
    Answer(Output),
}

impl Prepared {
    pub(crate) fn answered(call: ToolUse, text: impl Into<String>) -> Self {
        let fate = Fate::Answer(Output::error(text));
        Self { call, fate }
    }

    pub(crate) fn runs(&self) -> bool {
        matches!(self.fate, Fate::Run { .. })
    }

    fn is_read_only(&self) -> bool {
        match &self.fate {
            Fate::Run { accesses, .. } => accesses.iter().all(Access::is_read_only),
            Fate::Answer(_) => true,
        }
    }
}

/// How far the call at this place of its batch is.
struct Report {
    at: usize,
    progress: Progress,
    elapsed_ms: u64,
}

/// Where a call that starts now tells how far it is; the reports go to `teller`.
fn reporting(
    at: usize,
    clock: Arc<dyn Clock>,
    teller: mpsc::UnboundedSender<Report>,
) -> ProgressSink {
    let started = clock.now();
    ProgressSink::new(move |progress| {
        let elapsed_ms = clock.now().since(started);
        // A batch that has ended wants to know no more.
        let _ = teller.send(Report {
            at,
            progress,
            elapsed_ms,
        });
    })
}

/// The calls of one answer on their way to their results.
struct Batch {
    asked_by: MessageId,
    calls: Vec<Prepared>,
    /// How many have their result.
    ended: usize,
    /// What has ended and is not stored yet.
    unstored: Vec<Record>,
}

impl Session {
    /// Runs the calls of the last answer and stores their results, in the order of the calls.
    pub(crate) async fn run_tools(
        &mut self,
        calls: Vec<ToolUse>,
        stop: &Stop,
    ) -> Result<(), StoreError> {
        let asked_by = self
            .transcript
            .last()
            .expect("the calls stand in the last message")
            .id
            .clone();
        let calls: Vec<Prepared> = calls.into_iter().map(|call| self.prepare(call)).collect();
        let subagents = self.tools.subagents();
        let _known = subagents.map(|subagents| subagents.know(self.as_parent()));
        let groups = groups(&calls, self.settings.concurrency);
        let mut batch = Batch {
            asked_by,
            calls,
            ended: 0,
            unstored: Vec::new(),
        };
        for group in groups {
            if self.permit_group(&mut batch, group.clone(), stop).await {
                // What was settled may have changed a call, and so what may run beside it.
                for part in regroup(&batch.calls, group, self.settings.concurrency) {
                    self.run_group(&mut batch, part, stop).await?;
                }
            }
        }
        // What an interrupt left without a result is answered as what a crash left would be.
        let results = close_open_calls(&self.transcript).into_iter();
        let results = results.map(ContentBlock::ToolResult);
        let results = results.chain(self.take_context()).collect();
        let message = self.message(Role::User, Origin::Results, results);
        self.append_with(message, batch.unstored).await?;
        if self.settings.answer_form.is_some()
            && let Some(reason) = AnswerForm::ends(self.transcript.run())
        {
            stop.halt(reason);
        }
        Ok(())
    }

    /// Finds the tool and checks the arguments.
    pub(crate) fn prepare(&self, call: ToolUse) -> Prepared {
        let Some(entry) = self.tools.find(&call.name) else {
            let known: Vec<_> = self
                .tools
                .specs()
                .iter()
                .map(|spec| spec.name.as_str())
                .collect();
            let text = format!(
                "there is no tool `{}`; the tools are {}",
                call.name,
                known.join(", ")
            );
            return Prepared::answered(call, text);
        };
        let tool = entry.tool.clone();
        match entry.schema.check(tool.spec(), &call.input) {
            Ok(input) => {
                let call = ToolUse { input, ..call };
                let accesses = tool.access(&call.input);
                let fate = Fate::Run { tool, accesses };
                Prepared { call, fate }
            }
            Err(faults) => Prepared::answered(call, faults),
        }
    }

    /// Settles for each call of a group whether it happens; says whether the run goes on.
    async fn permit_group(&mut self, batch: &mut Batch, group: Range<usize>, stop: &Stop) -> bool {
        let clock = self.ports.clock.clone();
        for at in group {
            if stop.reason(clock.now()).is_some() {
                return false;
            }
            self.take_changes();
            let permitted = tokio::select! {
                biased;
                () = stop.wait(&*clock) => return false,
                permitted = self.permit(&batch.calls[at]) => permitted,
            };
            batch.calls[at] = permitted.prepared;
            if let Some(reason) = permitted.ends {
                stop.halt(reason);
            }
        }
        true
    }

    /// Runs neighbouring calls together, as many at once as is allowed, each result stored when it comes.
    async fn run_group(
        &mut self,
        batch: &mut Batch,
        group: Range<usize>,
        stop: &Stop,
    ) -> Result<(), StoreError> {
        let clock = self.ports.clock.clone();
        let mut stopped = pin!(stop.wait(&*clock));
        let mut waiting = group.clone();
        let mut running = FuturesUnordered::new();
        let (teller, mut told) = mpsc::unbounded_channel();
        loop {
            let starting: Vec<_> = waiting.by_ref().take(AT_ONCE - running.len()).collect();
            self.note(batch, &starting).await?;
            for at in starting {
                self.emit_start(batch, at);
                let context = Context {
                    progress: reporting(at, clock.clone(), teller.clone()),
                    ..self.context(&batch.calls[at].call)
                };
                let run = batch.calls[at].run(context);
                let done = self.observe(&batch.calls[at], run);
                running.push(done.map(move |done| (at, done)));
            }
            let ended = tokio::select! {
                biased;
                ended = running.next() => ended,
                () = &mut stopped => None,
                Some(report) = told.recv() => {
                    self.follow(batch, &report);
                    continue;
                }
            };
            // What a call has told comes before its end.
            while let Ok(report) = told.try_recv() {
                self.follow(batch, &report);
            }
            let Some((at, done)) = ended else {
                // Dropped, what runs has ended before anybody hears of it.
                drop(running);
                self.tell_of_stopped(&batch.calls[group.start..waiting.start], stop)
                    .await;
                return Ok(());
            };
            self.heed(&done.verdict);
            if done.verdict.ends.is_some() {
                stop.halt(ExitReason::EndTurn);
            }
            self.finish(batch, at, done);
        }
    }

    /// What a call may use.
    fn context(&self, call: &ToolUse) -> Context {
        let former = self.transcript.last_success(&call.name);
        Context {
            former: former.and_then(|result| result.details.clone()),
            tasks: self.task_sink(),
            ..Context::new(self.ports.store.spool_path(&call.id))
        }
    }

    fn follow(&self, batch: &Batch, report: &Report) {
        self.ports.frontend.update(SessionUpdate::Progress {
            call: &batch.calls[report.at].call,
            progress: &report.progress,
            elapsed_ms: report.elapsed_ms,
        });
    }

    /// Stores which calls have ended and which are about to run, in one transaction.
    async fn note(&mut self, batch: &mut Batch, starting: &[usize]) -> Result<(), StoreError> {
        // The last of all is stored together with the message that holds them all.
        if batch.ended == batch.calls.len() {
            return Ok(());
        }
        let at = self.ports.clock.now();
        let run = self.origin_prompt();
        let run = run.unwrap_or_else(|| batch.asked_by.clone());
        let mut records = std::mem::take(&mut batch.unstored);
        for Prepared { call, fate } in starting.iter().map(|at| &batch.calls[*at]) {
            let Fate::Run { accesses, .. } = fate else {
                continue;
            };
            self.transcript
                .start_call(call.id.clone(), !accesses.iter().all(Access::is_read_only));
            records.extend(checkpoint::note(accesses, &run, &*self.ports.clock));
            let words: Vec<_> = accesses.iter().map(Access::word).collect();
            records.push(Record::CallStarted(CallStart {
                tool_use_id: call.id.clone(),
                message_id: batch.asked_by.clone(),
                access: words.join(","),
                at,
            }));
        }
        self.store(records).await
    }

    /// Takes a call's output: what the model sees of it, and the whole for the store.
    fn finish(&mut self, batch: &mut Batch, at: usize, done: Done) {
        let now = self.ports.clock.now();
        let output = done.output;
        let Prepared { call, fate } = &batch.calls[at];
        let truncation = match fate {
            Fate::Run { tool, .. } => tool.spec().truncation,
            Fate::Answer(_) => Truncation::DEFAULT,
        };
        let content = match self.cut(&output.content, call) {
            Some(block) => vec![block],
            None => truncate(&output.content, truncation, &call.id),
        };
        let result = ToolResult {
            tool_use_id: call.id.clone(),
            tool_name: call.name.clone(),
            content,
            is_error: output.is_error,
            duration_ms: done.duration_ms,
            details: output.details,
        };
        self.emit_end(batch, at, &result);
        self.ports.frontend.update(SessionUpdate::Result(&result));
        if matches!(fate, Fate::Run { .. }) {
            let message_id = batch.asked_by.clone();
            let finish = CallFinish {
                message_id,
                result: result.clone(),
                output: output.content,
                at: now,
            };
            batch.unstored.push(Record::CallFinished(finish));
        }
        self.transcript.finish_call(result);
        batch.ended += 1;
    }

    /// The beginning of an output that is longer than the setting allows; the person is told.
    fn cut(&self, content: &Content, call: &ToolUse) -> Option<ResultBlock> {
        let limit = self.settings.max_result_chars?;
        let (block, all) = cut_to_characters(content, limit, &call.name)?;
        self.ports.frontend.notice(&format!(
            "the model is shown {limit} of {all} characters from {} (maxToolResultChars)",
            call.name
        ));
        Some(block)
    }

    fn emit_start(&mut self, batch: &Batch, at: usize) {
        let call = &batch.calls[at].call;
        self.ports.frontend.update(SessionUpdate::Call(call));
        self.emit(EventKind::ToolCallStart {
            tool_name: call.name.clone(),
            tool_input: call.input.to_value().to_string(),
            tool_key: self.key(call),
            tool_index: at + 1,
            tool_count: batch.calls.len(),
        });
    }

    /// The watcher sees what the model sees; the log has no output, since the store has it whole.
    fn emit_end(&mut self, batch: &Batch, at: usize, result: &ToolResult) {
        let kind = |tool_output| EventKind::ToolCallEnd {
            tool_name: result.tool_name.clone(),
            tool_output,
            is_error: result.is_error,
            duration_ms: result.duration_ms,
            tool_key: self.key(&batch.calls[at].call),
            tool_index: at + 1,
            tool_count: batch.calls.len(),
        };
        let shown = self.event(kind(result.text()));
        let kept = Event {
            kind: kind(String::new()),
            timestamp: shown.timestamp,
        };
        self.ports.frontend.show(&shown);
        self.keep(kept);
    }

    fn key(&self, call: &ToolUse) -> String {
        self.tools
            .find(&call.name)
            .map(|entry| key(entry.tool.spec(), &call.input))
            .unwrap_or_default()
    }
}

impl Prepared {
    /// The call's run, which holds on to nothing of ours; a tool that panics has failed.
    fn run(&self, context: Context) -> impl Future<Output = Output> + Send + 'static {
        let (tool, answer) = match &self.fate {
            Fate::Run { tool, .. } => (Some(tool.clone()), None),
            Fate::Answer(output) => (None, Some(output.clone())),
        };
        let call = self.call.clone();
        async move {
            let Some(tool) = tool else {
                return answer.expect("a call runs or has its answer");
            };
            match AssertUnwindSafe(tool.run(&call, &context))
                .catch_unwind()
                .await
            {
                Ok(output) => output,
                Err(panic) => Output::error(format!(
                    "the tool `{}` broke: {}",
                    call.name,
                    panic_text(&*panic)
                )),
            }
        }
    }
}

/// Which calls run together: ranges that cover all, in order.
fn groups(calls: &[Prepared], concurrency: ToolConcurrency) -> Vec<Range<usize>> {
    let joins = |at: usize| match concurrency {
        ToolConcurrency::Serial => false,
        ToolConcurrency::Parallel => true,
        ToolConcurrency::Auto => calls[at - 1].is_read_only() && calls[at].is_read_only(),
    };
    let mut groups: Vec<Range<usize>> = Vec::new();
    for at in 0..calls.len() {
        match groups.last_mut() {
            Some(group) if joins(at) => group.end = at + 1,
            _ => groups.push(at..at + 1),
        }
    }
    groups
}

/// The same for the calls of one group.
fn regroup(
    calls: &[Prepared],
    group: Range<usize>,
    concurrency: ToolConcurrency,
) -> Vec<Range<usize>> {
    let start = group.start;
    let parts = groups(&calls[group], concurrency).into_iter();
    parts
        .map(|part| part.start + start..part.end + start)
        .collect()
}

/// What stands for a call on a display: the argument that its tool names, or nothing.
fn key(spec: &ToolSpec, input: &Input) -> String {
    let argument = spec.key.as_ref().and_then(|key| input.get(key.argument()));
    argument
        .map(|value| {
            value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned)
        })
        .unwrap_or_default()
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("it panicked")
}
