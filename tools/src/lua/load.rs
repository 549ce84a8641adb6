//! Loads files as tools. Each file runs in its own Lua state, several at a time; a file that fails gives a warning.

use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use mlua::{Function, Lua, Value};

use super::contract::{self, Contract, Returned};
use super::leash::{Leash, Limits};
use super::state::{self, Source};
use super::surroundings::LuaSurroundings;

/// Number of files that are loaded at a time.
const AT_ONCE: usize = 16;
/// Time that a file is given to end after its time limit.
const GRACE: Duration = Duration::from_millis(500);
/// Size limit of a script, in bytes.
const MAX_SOURCE: usize = 16 << 20;
/// Stack size of threads that run scripts, in bytes: enough for the recursion that the interpreter permits.
pub(super) const STACK: usize = 8 << 20;

/// A loaded script.
pub(super) struct Script {
    pub(super) lua: Lua,
    pub(super) execute: Function,
}

/// A loaded tool.
pub(super) struct LoadedTool {
    pub(super) source: Source,
    pub(super) contract: Contract,
    pub(super) script: Script,
}

/// The tools of a folder, and a warning for each other file.
#[derive(Default)]
pub(super) struct LoadedTools {
    pub(super) tools: Vec<LoadedTool>,
    pub(super) warnings: Vec<String>,
}

/// The value that a file returned.
enum Loaded {
    Tool(Box<Contract>, Script),
    Module,
}

/// Loads the tools of a folder.
pub(super) fn folder(
    around: &Arc<LuaSurroundings>,
    folder: &Path,
    modules: &[PathBuf],
) -> LoadedTools {
    let mut found = LoadedTools::default();
    let folder = around.cwd.join(folder);
    let names = match around.list(&folder) {
        Ok(names) => names,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return found,
        Err(error) => {
            let shown = around.shown(&folder);
            found
                .warnings
                .push(format!("{shown}: cannot be read: {error}"));
            return found;
        }
    };
    let sources: Vec<Source> = names
        .iter()
        .filter(|name| name.ends_with(".lua") && !name.starts_with('.'))
        .map(|name| Source {
            path: folder.join(name),
            modules: modules.to_vec(),
        })
        .collect();
    for some in sources.chunks(AT_ONCE) {
        let begun: Vec<_> = some.iter().map(|source| begin(around, source)).collect();
        for (source, loading) in some.iter().zip(begun) {
            match loading.finish(around, source) {
                Ok(Some(tool)) => found.tools.push(tool),
                Ok(None) => {}
                Err(warning) => found.warnings.push(warning),
            }
        }
    }
    found
}

/// Loads the tool of one file; an `Err` is a warning that names the file.
pub(super) fn file(
    around: &Arc<LuaSurroundings>,
    path: &Path,
    modules: &[PathBuf],
) -> Result<LoadedTool, String> {
    let source = Source {
        path: around.cwd.join(path),
        modules: modules.to_vec(),
    };
    match begin(around, &source).finish(around, &source)? {
        Some(tool) => Ok(tool),
        None => Err(format!(
            "{}: it returns no tool: a table with `name`, `description`, `input_schema` and `execute`",
            around.shown(&source.path)
        )),
    }
}

/// A file that is being loaded, on its own thread.
struct Loading {
    result: mpsc::Receiver<Result<Loaded, String>>,
    until: Instant,
}

fn begin(around: &Arc<LuaSurroundings>, source: &Source) -> Loading {
    let (sender, result) = mpsc::channel();
    let (around, source) = (around.clone(), source.clone());
    let work = move || {
        let _ = sender.send(load(&around, &source, &Leash::new(Limits::LOADING)));
    };
    // If the thread cannot start, the channel closes, and `finish` reports that.
    let _ = thread::Builder::new()
        .name("lua".into())
        .stack_size(STACK)
        .spawn(work);
    Loading {
        result,
        until: Instant::now() + Limits::LOADING.time + GRACE,
    }
}

impl Loading {
    fn finish(
        self,
        around: &Arc<LuaSurroundings>,
        source: &Source,
    ) -> Result<Option<LoadedTool>, String> {
        let rest = self.until.saturating_duration_since(Instant::now());
        let loaded = match self.result.recv_timeout(rest) {
            Ok(loaded) => loaded?,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                let shown = around.shown(&source.path);
                return Err(format!("{shown}: it takes too long to load"));
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                let shown = around.shown(&source.path);
                return Err(format!("{shown}: it cannot be loaded: its thread crashed"));
            }
        };
        Ok(match loaded {
            Loaded::Tool(contract, script) => Some(LoadedTool {
                source: source.clone(),
                contract: *contract,
                script,
            }),
            Loaded::Module => None,
        })
    }
}

/// Loads the script of a known tool into a new state.
pub(super) fn script(
    around: &Arc<LuaSurroundings>,
    source: &Source,
    leash: &Leash,
) -> Result<Script, String> {
    match load(around, source, leash)? {
        Loaded::Tool(_, script) => Ok(script),
        Loaded::Module => Err(format!(
            "{} is no longer a tool",
            around.shown(&source.path)
        )),
    }
}

/// Runs a file. An `Err` names the file, and the line if it is known.
fn load(around: &Arc<LuaSurroundings>, source: &Source, leash: &Leash) -> Result<Loaded, String> {
    let shown = around.shown(&source.path);
    let content = around
        .read(&source.path, MAX_SOURCE)
        .map_err(|error| format!("{shown}: cannot be read: {error}"))?;
    if !bstr::ByteSlice::contains_str(&content[..], "return") {
        // A script for another interpreter, perhaps: it must not run.
        return Err(format!(
            "{shown}:1: a tool's file returns a table, this one returns nothing"
        ));
    }
    let run = || {
        let lua = state::open(around, source)?;
        leash.fasten(&lua)?;
        let returned: Value = state::compile(&lua, &content, &shown)?.call(())?;
        Ok((lua, returned))
    };
    let (lua, returned) = run().map_err(|error: mlua::Error| match leash.end() {
        Some(end) => format!("{shown}: {end} while it was loaded"),
        None => named(&shown, &error),
    })?;
    match contract::read(&lua, &returned) {
        Ok(Returned::Tool(contract, execute)) => {
            Ok(Loaded::Tool(contract, Script { lua, execute }))
        }
        Ok(Returned::Module) => Ok(Loaded::Module),
        Err(fault) => {
            let line = line_of(&content, fault.near);
            Err(format!("{shown}:{line}: {}", fault.text))
        }
    }
}

/// Returns the first line of a Lua error, with the file's name if Lua gives none.
fn named(shown: &str, error: &mlua::Error) -> String {
    let text = trace(error);
    let first = text
        .lines()
        .next()
        .unwrap_or_default()
        .trim_end_matches(':');
    if first.contains(".lua:") {
        first.to_owned()
    } else {
        format!("{shown}: {first}")
    }
}

/// Returns the text of a Lua error, with its traceback.
pub(super) fn trace(error: &mlua::Error) -> String {
    match error {
        mlua::Error::SyntaxError { message, .. }
        | mlua::Error::RuntimeError(message)
        | mlua::Error::MemoryError(message) => match message.strip_prefix("table: 0x") {
            // The address of a table tells nobody anything, and its content is gone.
            Some(rest) => {
                let trace = rest.split_once('\n').map(|(_, trace)| trace);
                let text = "the script raised a table, which has no text: raise a string, or give it `__tostring`";
                format!("{text}\n{}", trace.unwrap_or_default())
                    .trim_end()
                    .to_owned()
            }
            None => message.clone(),
        },
        other => other.to_string(),
    }
}

/// Returns the number of the first line that contains `word`, or of the last line.
fn line_of(content: &[u8], word: &str) -> usize {
    let at = bstr::ByteSlice::find(content, word);
    let before = &content[..at.unwrap_or(content.trim_ascii_end().len())];
    1 + before.iter().filter(|byte| **byte == b'\n').count()
}
