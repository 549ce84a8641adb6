//! From files to tools. Each file is run in a state of its own, several at a time, and what does not work is left out
//! with a word about it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use mlua::Value;

use super::call::{Calls, STACK, Script};
use super::contract::{self, Contract, Returned};
use super::leash::{Leash, Limits};
use super::state::{self, Source};
use super::{LuaSurroundings, LuaTool, LuaTools};

/// How many files are loaded at a time.
const AT_ONCE: usize = 16;
/// How long a file is waited for that was told to stop.
const GRACE: Duration = Duration::from_millis(500);
/// The largest file that is taken for a script.
const MAX_SOURCE: usize = 16 << 20;

/// What came of a file.
enum Loaded {
    Tool(Box<Contract>, Script),
    Module,
}

/// The tools of a folder.
pub(super) fn folder(
    around: &Arc<LuaSurroundings>,
    folder: &Path,
    modules: &[PathBuf],
) -> LuaTools {
    let mut found = LuaTools::default();
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

/// The tool of one file.
pub(super) fn file(
    around: &Arc<LuaSurroundings>,
    path: &Path,
    modules: &[PathBuf],
) -> Result<LuaTool, String> {
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

/// A file that is being loaded on a thread of its own.
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
    // Where there can be no thread the channel ends, and that is told.
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
    ) -> Result<Option<LuaTool>, String> {
        let rest = self.until.saturating_duration_since(Instant::now());
        let loaded = match self.result.recv_timeout(rest) {
            Ok(loaded) => loaded?,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                let shown = around.shown(&source.path);
                return Err(format!("{shown}: it takes too long to load"));
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                let shown = around.shown(&source.path);
                return Err(format!("{shown}: it cannot be loaded: its thread broke"));
            }
        };
        Ok(match loaded {
            Loaded::Tool(contract, script) => Some(LuaTool {
                path: source.path.clone(),
                cwd: around.cwd.clone(),
                contract: *contract,
                calls: Calls::new(around.clone(), source.clone(), script),
            }),
            Loaded::Module => None,
        })
    }
}

/// The script of a file that was a tool before, in a new state.
pub(super) fn script(
    around: &Arc<LuaSurroundings>,
    source: &Source,
    leash: &Leash,
) -> Result<Script, String> {
    match load(around, source, leash)? {
        Loaded::Tool(_, script) => Ok(script),
        Loaded::Module => Err(format!(
            "{} is no tool any more",
            around.shown(&source.path)
        )),
    }
}

/// Runs a file; an `Err` names it, and the line where there is one.
fn load(around: &Arc<LuaSurroundings>, source: &Source, leash: &Leash) -> Result<Loaded, String> {
    let shown = around.shown(&source.path);
    let content = around
        .read(&source.path, MAX_SOURCE)
        .map_err(|error| format!("{shown}: cannot be read: {error}"))?;
    if !bstr::ByteSlice::contains_str(&content[..], "return") {
        // A script, and not for us to run.
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

/// The first line of what Lua says, which names file and line if Lua knows them.
fn named(shown: &str, error: &mlua::Error) -> String {
    let text = super::call::trace(error);
    let first = text.lines().next().unwrap_or_default();
    let first = first.trim_end_matches(':');
    match first.contains(".lua:") {
        true => first.to_owned(),
        false => format!("{shown}: {first}"),
    }
}

/// The line in which `word` stands first, else the last one.
fn line_of(content: &[u8], word: &str) -> usize {
    let at = bstr::ByteSlice::find(content, word);
    let before = &content[..at.unwrap_or(content.trim_ascii_end().len())];
    1 + before.iter().filter(|byte| **byte == b'\n').count()
}
