//! A tool call that is ready to run, or answered without running.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use ah_conversation::{Access, Context, Output, Reach, Tool, ToolUse, Unsaved};
use futures_util::FutureExt;

/// A call with the plan for it.
#[derive(Clone)]
pub(crate) struct PreparedCall {
    pub(crate) call: ToolUse,
    pub(crate) plan: CallPlan,
    /// Unsaved texts of its files, once it is about to run.
    pub(crate) unsaved: Vec<Unsaved>,
    /// What its commands may do at most, once it is permitted.
    pub(crate) reach: Reach,
}

/// Plan for a call.
#[derive(Clone)]
pub(crate) enum CallPlan {
    /// Run the tool.
    Run {
        tool: Arc<dyn Tool>,
        accesses: Vec<Access>,
    },
    /// Answer without running.
    Answer(Output),
}

impl PreparedCall {
    /// Returns a call answered with an error.
    pub(crate) fn answered(call: ToolUse, text: impl Into<String>) -> Self {
        Self::new(call, CallPlan::Answer(Output::error(text)))
    }

    pub(crate) fn new(call: ToolUse, plan: CallPlan) -> Self {
        Self {
            call,
            plan,
            unsaved: Vec::new(),
            reach: Reach::default(),
        }
    }

    /// Returns what the call would touch.
    pub(crate) fn accesses(&self) -> &[Access] {
        match &self.plan {
            CallPlan::Run { accesses, .. } => accesses,
            CallPlan::Answer(_) => &[],
        }
    }

    pub(crate) fn runs(&self) -> bool {
        matches!(self.plan, CallPlan::Run { .. })
    }

    pub(super) fn is_read_only(&self) -> bool {
        match &self.plan {
            CallPlan::Run { accesses, .. } => accesses.iter().all(Access::is_read_only),
            CallPlan::Answer(_) => true,
        }
    }

    /// Whether it does nothing but read files.
    pub(super) fn only_reads(&self) -> bool {
        match &self.plan {
            CallPlan::Run { accesses, .. } => {
                let reads = |access: &Access| matches!(access, Access::Read(_) | Access::Named(_));
                !accesses.is_empty() && accesses.iter().all(reads)
            }
            CallPlan::Answer(_) => true,
        }
    }

    /// Returns the future that runs the call, borrowing nothing; a panic becomes a failed output.
    pub(super) fn run(&self, context: Context) -> impl Future<Output = Output> + Send + 'static {
        let (tool, answer) = match &self.plan {
            CallPlan::Run { tool, .. } => (Some(tool.clone()), None),
            CallPlan::Answer(output) => (None, Some(output.clone())),
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
                    "the tool `{}` panicked: {}",
                    call.name,
                    panic_text(&*panic)
                )),
            }
        }
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("it panicked")
}
