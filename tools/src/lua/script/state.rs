//! The Lua state of a script by the model: the parts of the standard library that compute, and the table `tools`.

use std::sync::Arc;

use ah_conversation::{LiveOutput, Output};
use mlua::chunk::ChunkMode;
use mlua::{Function, Lua, LuaOptions, LuaString, MultiValue, StdLib, Table, Value, Variadic};
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use super::limits::{MOST_BYTES, MOST_CALLS, MOST_PRINTED};
use super::step::{Given, Step, Wanted};
use crate::lua::leash::Leash;
use crate::lua::load::trace;
use crate::lua::wait::block_on_others;
use crate::lua::{json, state};

/// What a script has printed.
#[derive(Clone)]
pub(super) struct Printed {
    text: Arc<Mutex<String>>,
    live: LiveOutput,
}

/// What a script has used up.
#[derive(Default)]
struct Used {
    calls: usize,
    bytes: usize,
}

impl Printed {
    pub(super) fn new(live: LiveOutput) -> Self {
        Self {
            text: Arc::default(),
            live,
        }
    }

    /// Returns what was printed, with `more` below it.
    pub(super) fn with(&self, more: &str) -> String {
        let text = self.text.lock();
        match (text.trim_end(), more) {
            ("", more) => more.to_owned(),
            (text, "") => text.to_owned(),
            (text, more) => format!("{text}\n{more}"),
        }
    }

    fn add(&self, line: &str) -> Result<(), mlua::Error> {
        let mut text = self.text.lock();
        if text.len() + line.len() > MOST_PRINTED {
            let limit = MOST_PRINTED >> 20;
            return Err(mlua::Error::runtime(format!(
                "a script can print at most {limit} MiB"
            )));
        }
        text.push_str(line);
        text.push('\n');
        self.live.write(line.as_bytes());
        self.live.write(b"\n");
        Ok(())
    }
}

/// Runs a script to its end; its calls go to `steps`.
pub(super) fn run(
    code: &str,
    leash: &Leash,
    printed: &Printed,
    steps: &mpsc::UnboundedSender<Step>,
) -> Output {
    let ran = open(printed, steps).and_then(|lua| {
        leash.fasten(&lua)?;
        let chunk = lua.load(code).set_name("=script");
        let returned = chunk.set_mode(ChunkMode::Text).call::<MultiValue>(())?;
        shown(&lua, returned)
    });
    match (ran, leash.end()) {
        (Ok(text), _) => match printed.with(&text) {
            empty if empty.is_empty() => Output::text("(the script printed and returned nothing)"),
            text => Output::text(text),
        },
        // An ended script may fail with any error; the reason is that it was ended.
        (Err(_), Some(end)) => Output::error(printed.with(&format!("[the script was {end}]"))),
        (Err(error), None) => Output::error(printed.with(&trace(&error))),
    }
}

/// Opens a state that can call tools.
fn open(printed: &Printed, steps: &mpsc::UnboundedSender<Step>) -> mlua::Result<Lua> {
    let library = StdLib::COROUTINE | StdLib::TABLE | StdLib::STRING | StdLib::UTF8 | StdLib::MATH;
    let lua = Lua::new_with(library, LuaOptions::default())?;
    let globals = lua.globals();
    let native = lua.create_table()?;
    state::limit(&lua, &native)?;
    globals.set("json", json::build(&lua)?)?;
    let printed = printed.clone();
    let print = move |_: &Lua, words: Variadic<LuaString>| {
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        printed.add(&words.join("\t"))
    };
    native.set("print", lua.create_function(print)?)?;
    native.set("call", call(&lua, steps.clone())?)?;
    lua.load(include_str!("prelude.lua"))
        .set_name("=prelude")
        .call::<()>(native)?;
    Ok(lua)
}

/// Returns the function that makes calls: it takes a list of pairs, and returns a list of texts and a list of errors.
fn call(lua: &Lua, steps: mpsc::UnboundedSender<Step>) -> mlua::Result<Function> {
    let used = Arc::new(Mutex::new(Used::default()));
    lua.create_function(move |lua, wanted: Vec<Table>| {
        let wanted = { wanted.into_iter() }
            .map(|call| {
                let (name, input): (LuaString, Value) = (call.get(1)?, call.get(2)?);
                let input = json::from_lua(lua, input).map_err(mlua::Error::runtime)?;
                Ok((name.to_string_lossy(), input))
            })
            .collect::<mlua::Result<Vec<Wanted>>>()?;
        if wanted.is_empty() {
            return Ok((lua.create_table()?, lua.create_table()?));
        }
        let mut used = used.lock();
        used.count(wanted.len())?;
        let (reply, results) = oneshot::channel();
        let sent = steps.send(Step::Calls(wanted, reply));
        let results: Vec<Given> = match sent {
            Ok(()) => block_on_others(lua, results)?.unwrap_or_default(),
            Err(_) => Vec::new(),
        };
        if results.is_empty() {
            return Err(mlua::Error::runtime("the script was ended"));
        }
        let (texts, errors) = (lua.create_table()?, lua.create_table()?);
        for (at, result) in (1..).zip(results) {
            used.add(&result)?;
            match result {
                Ok(text) => texts.raw_set(at, text)?,
                Err(error) => errors.raw_set(at, error)?,
            }
        }
        Ok((texts, errors))
    })
}

impl Used {
    fn count(&mut self, calls: usize) -> mlua::Result<()> {
        if self.calls + calls > MOST_CALLS {
            return Err(mlua::Error::runtime(format!(
                "a script can make at most {MOST_CALLS} calls"
            )));
        }
        self.calls += calls;
        Ok(())
    }

    fn add(&mut self, result: &Given) -> mlua::Result<()> {
        let (Ok(text) | Err(text)) = result;
        self.bytes += text.len();
        if self.bytes > MOST_BYTES {
            let limit = MOST_BYTES >> 20;
            return Err(mlua::Error::runtime(format!(
                "the results of a script can have at most {limit} MiB together"
            )));
        }
        Ok(())
    }
}

/// Returns the values that a script returned as text: tables as JSON.
fn shown(lua: &Lua, returned: MultiValue) -> mlua::Result<String> {
    let mut lines = Vec::new();
    for value in returned {
        lines.push(match value {
            Value::Nil => continue,
            Value::Table(_) => json::from_lua(lua, value)
                .map_err(mlua::Error::runtime)?
                .to_string(),
            other => other.to_string()?,
        });
    }
    Ok(lines.join("\n"))
}
