//! A tool that is made of a function: its schema is derived from the type of its arguments.

use std::marker::PhantomData;

use async_trait::async_trait;
use schemars::{JsonSchema, schema_for};
use serde::de::DeserializeOwned;

use super::{Access, Context, Input, Output, Tool, ToolExtras, ToolSpec, ToolUse};

/// Makes a tool of `run`. Arguments that do not fit are answered by an error that names the fault, so `run` never sees them.
///
/// Whether a call may happen is decided by the permissions: a rule with the tool's name ([`Options::allow`], [`Options::ask`],
/// [`Options::deny`]), else the mode. [`FunctionTool::harmless`] says that there is nothing to decide.
///
/// ```
/// use ah::schemars::{self, JsonSchema};
/// use ah::tool::{Output, tool};
/// use ah::{Agent, Decision, Options};
/// use serde::Deserialize;
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Arguments {
///     /// Temperature in degrees Celsius.
///     celsius: f64,
/// }
///
/// let convert = tool(
///     "convert",
///     "Converts a temperature to degrees Fahrenheit.",
///     |arguments: Arguments| async move {
///         match arguments.celsius {
///             // A failure is an answer to the model, which says what to try.
///             celsius if celsius < -273.15 => Output::error("nothing is that cold"),
///             celsius => Output::text(format!("{} °F", celsius * 1.8 + 32.0)),
///         }
///     },
/// );
/// // Asked about, since there is somebody to ask.
/// let options = Options::new().model("script:demo").tool(convert).can_use_tool(|request| async move {
///     match request.input["celsius"].as_f64() {
///         Some(celsius) if celsius < 100.0 => Decision::Allow,
///         _ => Decision::deny("that is too hot"),
///     }
/// });
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let agent = Agent::with(options).open().await?;
/// # agent.close().await
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`Options::allow`]: crate::Options::allow
/// [`Options::ask`]: crate::Options::ask
/// [`Options::deny`]: crate::Options::deny
pub fn tool<A, F>(
    name: impl Into<String>,
    description: impl Into<String>,
    run: impl Fn(A) -> F + Send + Sync + 'static,
) -> FunctionTool<A, impl Fn(A) -> F + Send + Sync + 'static>
where
    A: DeserializeOwned + JsonSchema + 'static,
    F: Future<Output = Output> + Send + 'static,
{
    FunctionTool {
        spec: ToolSpec::new(name, description, schema_for!(A).to_value()),
        is_harmless: false,
        run,
        arguments: PhantomData,
    }
}

/// A tool that calls a function, made by [`tool`](fn@tool).
pub struct FunctionTool<A, R> {
    spec: ToolSpec,
    is_harmless: bool,
    run: R,
    arguments: PhantomData<fn(A)>,
}

impl<A, R> FunctionTool<A, R> {
    /// Says that calls change nothing and reach nothing: no permission is needed for them unless a rule asks for one, and those
    /// of one answer run side by side.
    #[must_use]
    pub fn harmless(self) -> Self {
        Self {
            is_harmless: true,
            ..self
        }
    }
}

#[async_trait]
impl<A, F, R> Tool for FunctionTool<A, R>
where
    A: DeserializeOwned + 'static,
    F: Future<Output = Output> + Send + 'static,
    R: Fn(A) -> F + Send + Sync + 'static,
{
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, _: &Input) -> Vec<Access> {
        match self.is_harmless {
            true => Vec::new(),
            false => vec![Access::Unknown],
        }
    }

    fn extras(&self) -> ToolExtras<'_> {
        ToolExtras::default()
    }

    async fn run(&self, call: &ToolUse, _: &Context) -> Output {
        // The arguments need not be `Send`: they are gone before the first wait.
        let running = match serde_json::from_value::<A>(call.input.to_value()) {
            Ok(arguments) => (self.run)(arguments),
            Err(error) => return Output::error(error.to_string()),
        };
        running.await
    }
}
