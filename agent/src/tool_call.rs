//! Tool calls, from the model's request to the stored result: find, validate, permission, run, truncate.
//! [`permission`](crate::permission) decides whether a call may run, just before it would.
//!
//! A call is stored as started before it runs, and its result when it ends; the message with all results is stored in
//! one transaction with the last of them. So after a crash at any point the journal shows which calls may have run. Calls
//! that only read files wait for no transaction of their own, since it makes no difference whether they ran.

mod afterwards;
mod prepared;
mod unsaved;

use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;

use ah_conversation::{
    Access, CallFinish, CallStart, CallState, Clock, Content, ContentBlock, Context, ExitReason,
    Input, JsonText, LineCount, LiveOutput, MessageId, Origin, Output, Progress, ProgressSink,
    Record, ResultBlock, Role, StoreError, Time, ToolResult, ToolSpec, ToolUse, Truncation,
    close_open_calls, interrupted,
};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::sync::mpsc;

use afterwards::FinishedCall;
pub(crate) use prepared::{CallPlan, PreparedCall};

use crate::conflict::told;
use crate::hooks::HookVerdict;
use crate::truncate::{Truncated, cut_to_characters, truncate};
use crate::{
    AGENT, AnswerForm, CallPlace, Session, SessionUpdate, Stop, ToolConcurrency, checkpoint,
};

/// Maximum number of concurrent calls.
const MAX_CONCURRENT: usize = 10;
/// Maximum number of tools that an error names.
const MOST_NAMED: usize = 100;

/// Progress of the call at this index of the batch.
struct ProgressReport {
    at: usize,
    progress: Progress,
    elapsed_ms: u64,
}

/// Returns the progress sink for a call that starts now; reports go to `sender`.
fn progress_sink(
    at: usize,
    clock: Arc<dyn Clock>,
    sender: mpsc::UnboundedSender<ProgressReport>,
) -> ProgressSink {
    let started = clock.now();
    ProgressSink::new(move |progress| {
        let elapsed_ms = clock.now().since(started);
        // The receiver is gone once the batch has ended.
        let _ = sender.send(ProgressReport {
            at,
            progress,
            elapsed_ms,
        });
    })
}

/// The calls of one answer while they are processed.
struct Batch {
    message_id: MessageId,
    calls: Vec<PreparedCall>,
    /// Number of calls with a result.
    ended: usize,
    /// Starts and results not stored yet.
    unstored: Vec<Record>,
    /// Whether all calls that began so far only read files.
    only_reads: bool,
    /// The calls that hooks leave to a later run.
    deferred: Vec<usize>,
}

impl Batch {
    /// Returns the parts of `group` between deferred calls.
    fn not_deferred(&self, group: Range<usize>) -> Vec<Range<usize>> {
        let (mut parts, mut start) = (Vec::new(), group.start);
        for at in group.clone() {
            if self.deferred.contains(&at) {
                parts.push(start..at);
                start = at + 1;
            }
        }
        parts.push(start..group.end);
        parts.retain(|part| !part.is_empty());
        parts
    }
}

impl Session {
    /// Runs the calls of the last answer and stores their results, in the order of the calls.
    pub(crate) async fn run_tools(
        &mut self,
        calls: Vec<ToolUse>,
        stop: &Stop,
    ) -> Result<(), StoreError> {
        let message_id = self
            .transcript
            .last()
            .expect("the calls stand in the last message")
            .id
            .clone();
        let is_taken_up = self.has_deferred();
        let calls = self.take_waiting(calls).into_iter();
        let calls: Vec<PreparedCall> = calls.map(|call| self.prepare(call)).collect();
        let subagents = self.tools.subagents();
        let _guard = subagents.map(|subagents| subagents.register_parent(self.as_parent()));
        let groups = groups(&calls, self.settings.concurrency);
        let mut batch = Batch {
            message_id,
            calls,
            ended: 0,
            unstored: Vec::new(),
            only_reads: true,
            deferred: Vec::new(),
        };
        for group in groups {
            if stop.is_left() {
                break;
            }
            let goes_on = self.permit_group(&mut batch, group.clone(), stop).await;
            for at in batch.deferred.iter().filter(|at| group.contains(at)) {
                self.defer(&batch.calls[*at].call).await?;
            }
            if goes_on {
                // The decision may have changed a call, and so which calls can run together.
                let parts = regroup(&batch.calls, group, self.settings.concurrency).into_iter();
                let parts: Vec<_> = parts.flat_map(|part| batch.not_deferred(part)).collect();
                for part in parts {
                    self.run_group(&mut batch, part, stop).await?;
                }
            }
        }
        let is_left = stop.is_left() && batch.ended < batch.calls.len();
        if self.has_deferred() || is_left {
            stop.halt(ExitReason::EndTurn);
            self.store(batch.unstored).await?;
            self.tell_stored();
            return Ok(());
        }
        // Calls without a result after an interrupt are answered as after a crash.
        let results = close_open_calls(&self.transcript);
        self.after_batch(&batch.calls, &results, stop).await;
        let results = { results.into_iter() }
            .map(ContentBlock::ToolResult)
            .chain(self.take_context())
            .collect();
        let message = self.message(Role::User, Origin::Results, results);
        if is_taken_up {
            batch.unstored.push(self.deferred_note());
        }
        self.append_with(message, batch.unstored).await?;
        self.tell_stored();
        if self.settings.answer_form.is_some()
            && let Some(reason) = AnswerForm::ends(self.transcript.run())
        {
            stop.halt(reason);
        }
        Ok(())
    }

    /// Finds the tool and validates the arguments. From here on the call has the tool's own name, however the model has spelt it:
    /// a guard that looks for `Bash` is asked about `BASH` too.
    pub(crate) fn prepare(&self, call: ToolUse) -> PreparedCall {
        let alias = self.settings.tool_aliases.get(&call.name).cloned();
        let call = self.tools.resolved(ToolUse {
            name: alias.unwrap_or(call.name),
            ..call
        });
        let Some(entry) = self.tools.find(&call.name) else {
            let known: Vec<_> = self.tools.names().take(MOST_NAMED).collect();
            let near = self.tools.near(&call.name);
            let near = near.map_or_else(String::new, |near| format!("did you mean `{near}`? "));
            let text = format!(
                "there is no tool `{}`; {near}the tools are {}",
                call.name,
                known.join(", ")
            );
            return PreparedCall::answered(call, text);
        };
        let tool = entry.tool.clone();
        let call = ToolUse {
            name: tool.spec().name.clone(),
            ..call
        };
        match entry.schema.check(tool.spec(), &call.input) {
            Ok(input) => {
                let call = ToolUse { input, ..call };
                let accesses = tool.access(&call.input);
                let plan = CallPlan::Run { tool, accesses };
                PreparedCall::new(call, plan)
            }
            Err(errors) => PreparedCall::answered(call, errors),
        }
    }

    /// Decides about each call of a group; returns whether the run continues.
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
                () = stop.left() => return false,
                permitted = self.permit(&batch.calls[at]) => permitted,
            };
            batch.calls[at] = permitted.prepared;
            if permitted.is_deferred {
                batch.deferred.push(at);
            }
            if let Some(reason) = permitted.ends {
                stop.halt(reason);
            }
        }
        true
    }

    /// Runs adjacent calls concurrently, up to the limit; results are stored as they come.
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
        let (sender, mut reports) = mpsc::unbounded_channel();
        let mut started = Vec::new();
        loop {
            let starting: Vec<_> = waiting
                .by_ref()
                .take(MAX_CONCURRENT - running.len())
                .collect();
            let is_stopped = tokio::select! {
                biased;
                () = self.take_unsaved(&mut batch.calls, &starting) => false,
                () = &mut stopped => true,
            };
            let ended = if is_stopped {
                None
            } else {
                self.note(batch, &starting).await?;
                for at in starting {
                    let context = Context {
                        progress: progress_sink(at, clock.clone(), sender.clone()),
                        caller: Some(self.caller(stop)),
                        ..self.context(&batch.calls[at])
                    };
                    self.tell_start(batch, at, &context.output);
                    started.push((at, clock.now(), context.output.clone()));
                    let run = batch.calls[at].run(context);
                    let done = self.observe(&batch.calls[at], run);
                    running.push(done.map(move |done| (at, done)));
                }
                tokio::select! {
                    biased;
                    ended = running.next() => ended,
                    () = &mut stopped => None,
                    Some(report) = reports.recv() => {
                        self.follow(batch, &report);
                        continue;
                    }
                }
            };
            // Progress of a call is reported before its end.
            while let Ok(report) = reports.try_recv() {
                self.follow(batch, &report);
            }
            let Some((at, done)) = ended else {
                // Dropping the calls ends them before their ends are reported.
                drop(running);
                self.notify_of_interrupt(&batch.calls[group.start..waiting.start], stop)
                    .await;
                for (at, since, output) in started {
                    self.finish_interrupted(batch, at, since, &output);
                }
                return Ok(());
            };
            self.apply_verdict(&done.verdict);
            if done.verdict.stop_reason.is_some() {
                stop.halt(ExitReason::EndTurn);
            }
            self.finish(batch, at, done);
        }
    }

    /// Returns the context of a call.
    fn context(&self, prepared: &PreparedCall) -> Context {
        let PreparedCall { call, plan, .. } = prepared;
        let accesses = match plan {
            CallPlan::Run { accesses, .. } => accesses.as_slice(),
            CallPlan::Answer(_) => &[],
        };
        let former = self.transcript.last_success(&call.name);
        Context {
            former: former.and_then(|result| Some(result.details.as_ref()?.value())),
            tasks: self.task_sink(),
            variables: self.variables(call),
            hidden: self.settings.permissions.hidden_from(call, accesses),
            denied: self.settings.permissions.denied_to(&call.name),
            reach: prepared.reach.clone(),
            unsaved: prepared.unsaved.clone(),
            ..Context::new(self.ports.store.spool_path(&call.id))
        }
    }

    /// Returns the environment variables for the commands of a call.
    fn variables(&self, call: &ToolUse) -> Vec<(String, String)> {
        let agent = self.ports.agent_id.clone();
        let agent = agent.map(|id| (AGENT.to_owned(), id));
        let mut variables = (self.ports.variables)(&call.id);
        variables.extend(agent);
        variables
    }

    fn follow(&self, batch: &Batch, report: &ProgressReport) {
        self.ports.audience.update(SessionUpdate::Progress {
            call: &batch.calls[report.at].call,
            progress: &report.progress,
            elapsed_ms: report.elapsed_ms,
        });
    }

    /// Stores ended calls and those about to run, in one transaction. While all of them only read files, they wait for the
    /// next one.
    async fn note(&mut self, batch: &mut Batch, starting: &[usize]) -> Result<(), StoreError> {
        // The last one is stored together with the results message.
        if batch.ended == batch.calls.len() {
            return Ok(());
        }
        let at = self.ports.clock.now();
        let origin = self.origin_of(batch);
        let commands = self.ports.command_files.clone();
        if let Some(commands) = &commands
            && !starting.is_empty()
        {
            commands.begin(&origin);
        }
        let mut records = std::mem::take(&mut batch.unstored);
        // What commands of other agents have changed so far was there before what these calls find.
        records.extend(checkpoint::after(
            &[],
            commands.as_deref(),
            &origin,
            &*self.ports.clock,
        ));
        for prepared in starting.iter().map(|at| &batch.calls[*at]) {
            let PreparedCall {
                call,
                plan,
                unsaved,
                reach: _,
            } = prepared;
            let CallPlan::Run { accesses, .. } = plan else {
                continue;
            };
            let words: Vec<_> = accesses.iter().map(Access::word).collect();
            let access = words.join(",");
            self.transcript
                .start_call(call.id.clone(), !Access::may_begin_again(&access));
            let unseen = checkpoint::is_unseen(accesses, commands.is_some());
            let unseen = unseen.then(|| format!("{}: {}", call.name, self.key(call)));
            let record = checkpoint::record(accesses, unseen, &origin, &*self.ports.clock);
            records.extend(unsaved::before(record, unsaved));
            records.push(Record::CallStarted(CallStart {
                tool_use_id: call.id.clone(),
                message_id: batch.message_id.clone(),
                access,
                at,
            }));
        }
        batch.only_reads &= starting.iter().all(|at| batch.calls[*at].only_reads());
        if batch.only_reads {
            batch.unstored = records;
            return Ok(());
        }
        self.store(records).await?;
        self.tell_stored();
        Ok(())
    }

    /// Tells that the changes of files by ended calls are stored.
    fn tell_stored(&self) {
        if let Some(commands) = &self.ports.command_files {
            commands.stored();
        }
    }

    /// Takes a call's output: the truncated result for the model, and the whole for the store.
    fn finish(&mut self, batch: &mut Batch, at: usize, done: FinishedCall) {
        let now = self.ports.clock.now();
        let output = done.output;
        let PreparedCall { call, plan, .. } = &batch.calls[at];
        let most = self.settings.limits.result_bytes(batch.calls.len());
        let truncation = match plan {
            CallPlan::Run { tool, .. } => tool.spec().truncation,
            CallPlan::Answer(_) => Truncation::DEFAULT,
        };
        let Truncated { mut content, lines } = { self.cut(&output.content, call) }
            .unwrap_or_else(|| truncate(&output.content, truncation, most, &call.id));
        let shown = LineCount::of(ResultBlock::text_of(&content));
        content.extend(self.refused_connections());
        content.extend(self.overwritten());
        let added = LineCount::of(ResultBlock::text_of(&content)).saturating_sub(shown);
        let result = ToolResult {
            tool_use_id: call.id.clone(),
            tool_name: call.name.clone(),
            content,
            is_error: output.is_error,
            duration_ms: done.duration_ms,
            details: output.details.map(JsonText::from),
            lines: lines.map(|lines| lines + added),
        };
        let place = CallPlace {
            key: &self.key(call),
            index: at + 1,
            count: batch.calls.len(),
        };
        self.tell(SessionUpdate::Result(&result, place));
        if let CallPlan::Run { accesses, .. } = plan {
            let commands = self.ports.command_files.as_deref();
            let origin = self.origin_of(batch);
            let changed = checkpoint::after(accesses, commands, &origin, &*self.ports.clock);
            batch.unstored.extend(changed);
            let finish = CallFinish {
                message_id: batch.message_id.clone(),
                result: result.clone(),
                output: output.content,
                at: now,
            };
            batch.unstored.push(Record::CallFinished(finish));
        }
        self.transcript.finish_call(result);
        batch.ended += 1;
    }

    /// Returns the first message of the run that a call's changes of files belong to.
    fn origin_of(&self, batch: &Batch) -> MessageId {
        let prompt = self.origin_prompt();
        prompt.unwrap_or_else(|| batch.message_id.clone())
    }

    /// Ends a call that was interrupted; its result is what it has written until then. That of a subagent is made when
    /// the other open calls are answered: it says how the subagent goes on.
    fn finish_interrupted(
        &mut self,
        batch: &mut Batch,
        at: usize,
        since: Time,
        output: &LiveOutput,
    ) {
        let state = self.transcript.call(&batch.calls[at].call.id);
        if !matches!(state, Some(CallState::Started { agent_id: None, .. })) {
            return;
        }
        let done = FinishedCall {
            output: Output::error(interrupted(output)),
            duration_ms: self.ports.clock.now().since(since),
            verdict: HookVerdict::default(),
        };
        self.finish(batch, at, done);
    }

    /// Returns a text about connections that the sandbox has refused meanwhile, by whatever tool: programs show a bare
    /// error at best.
    fn refused_connections(&self) -> Option<ResultBlock> {
        let text = (self.ports.refusals)()?;
        Some(ResultBlock::Text {
            text: format!("\n[{text}]"),
        })
    }

    /// Returns a text about what commands have overwritten of other agents.
    fn overwritten(&self) -> Option<ResultBlock> {
        let conflicts = self.ports.command_files.as_ref()?.conflicts();
        let text = told(&conflicts)?;
        Some(ResultBlock::Text {
            text: format!("\n[{text}]"),
        })
    }

    /// Returns the beginning of an output that exceeds the configured limit; the user is told.
    fn cut(&self, content: &Content, call: &ToolUse) -> Option<Truncated> {
        let limit = self.settings.max_result_chars?;
        let (truncated, how_many) = cut_to_characters(content, limit, &call.name)?;
        self.ports.audience.notice(&format!(
            "the model is shown {how_many} from {} (maxToolResultChars)",
            call.name
        ));
        Some(truncated)
    }

    fn tell_start(&mut self, batch: &Batch, at: usize, output: &LiveOutput) {
        let call = &batch.calls[at].call;
        let place = CallPlace {
            key: &self.key(call),
            index: at + 1,
            count: batch.calls.len(),
        };
        self.tell(SessionUpdate::Call(call, output, place));
    }

    fn key(&self, call: &ToolUse) -> String {
        self.tools
            .find(&call.name)
            .map(|entry| key(entry.tool.spec(), &call.input))
            .unwrap_or_default()
    }
}

/// Groups calls that run together: ranges that cover all calls, in order.
fn groups(calls: &[PreparedCall], concurrency: ToolConcurrency) -> Vec<Range<usize>> {
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

/// Groups the calls of one group anew.
fn regroup(
    calls: &[PreparedCall],
    group: Range<usize>,
    concurrency: ToolConcurrency,
) -> Vec<Range<usize>> {
    let start = group.start;
    let parts = groups(&calls[group], concurrency).into_iter();
    parts
        .map(|part| part.start + start..part.end + start)
        .collect()
}

/// Returns the argument that represents a call on a display, or an empty text.
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
