//! A Lua state as scripts find it: the standard library but `debug`, with a few functions of it replaced that would
//! reach past the script (to the process, its output, its secrets, or the memory of the interpreter).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use mlua::chunk::ChunkMode;
use mlua::{Function, Lua, LuaOptions, StdLib, Table, Value};
use tokio::runtime::{Builder, Runtime};

use super::LuaSurroundings;
use super::leash::{Leash, Limits};
use super::{env, modules, places, spawn};

/// Where a script and what it requires is found.
#[derive(Debug, Clone)]
pub(super) struct Source {
    /// The file.
    pub(super) path: PathBuf,
    /// Further folders in which `require` looks, after the file's own.
    pub(super) modules: Vec<PathBuf>,
}

/// A state in which `source` can be run.
pub(super) fn open(around: &Arc<LuaSurroundings>, source: &Source) -> mlua::Result<Lua> {
    let lua = Lua::new_with(StdLib::ALL_SAFE, LuaOptions::default())?;
    lua.set_memory_limit(Limits::DEFAULT.memory)?;
    lua.set_app_data(around.clone());
    prepare_search(&lua, source)?;
    let native = lua.create_table()?;
    native.set("ended", lua.create_function(|lua, ()| ended(lua))?)?;
    native.set(
        "log",
        lua.create_function(|_, line: mlua::LuaString| {
            tracing::debug!(target: "lua", "{}", line.to_string_lossy());
            Ok(())
        })?,
    )?;
    native.set(
        "getenv",
        lua.create_function(|lua, name: String| env::variable(lua, &name))?,
    )?;
    places::natives(&lua, &native)?;
    native.set("run", spawn::build(&lua)?.get::<Function>("run")?)?;
    lua.load(include_str!("prelude.lua"))
        .set_name("=prelude")
        .call::<()>(native)?;
    Ok(lua)
}

/// Waits for `work` as long as the script may go on.
pub(super) fn block_on<T>(lua: &Lua, work: impl Future<Output = T>) -> mlua::Result<T> {
    let known = lua
        .app_data_ref::<Arc<Waiting>>()
        .map(|waiting| waiting.clone());
    let waiting = match known {
        Some(waiting) => waiting,
        None => {
            let runtime = Builder::new_current_thread().enable_all().build();
            let waiting = Arc::new(Waiting(Some(runtime.map_err(mlua::Error::external)?)));
            lua.set_app_data(waiting.clone());
            waiting
        }
    };
    let leash = Leash::of(lua)?;
    let runtime = waiting.0.as_ref().expect("it is there until it is dropped");
    runtime
        .block_on(leash.wait(work))
        .map_err(mlua::Error::external)
}

/// What a script waits with. A state may end where nothing may be waited for, so this does not wait for what is left.
struct Waiting(Option<Runtime>);

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// What the scripts of `lua` see.
pub(super) fn surroundings(lua: &Lua) -> mlua::Result<Arc<LuaSurroundings>> {
    match lua.app_data_ref::<Arc<LuaSurroundings>>() {
        Some(around) => Ok(around.clone()),
        None => Err(mlua::Error::runtime("this state has no surroundings")),
    }
}

impl LuaSurroundings {
    /// How `path` is called in messages.
    pub(super) fn shown(&self, path: &Path) -> String {
        let path = path.strip_prefix(&self.cwd).unwrap_or(path);
        path.display().to_string()
    }
}

fn ended(lua: &Lua) -> mlua::Result<bool> {
    Ok(Leash::of(lua)?.end().is_some())
}

/// Makes `require` look beside the file, then in the further folders, and last among our own modules: so a file may
/// have a `json.lua` of its own.
fn prepare_search(lua: &Lua, source: &Source) -> mlua::Result<()> {
    let package: Table = lua.globals().get("package")?;
    let own = source.path.parent().map(Path::to_owned);
    let templates: Vec<String> = own
        .iter()
        .chain(&source.modules)
        .flat_map(|folder| ["?.lua", "?/init.lua"].map(|name| folder.join(name)))
        .map(|template| template.display().to_string())
        .collect();
    package.set("path", templates.join(";"))?;
    package.set("cpath", "")?;
    let searchers: Table = package.get("searchers")?;
    let preloaded: Function = searchers.get(1)?;
    let all = [
        preloaded,
        lua.create_function(search_files)?,
        lua.create_function(modules::search)?,
    ];
    package.set("searchers", lua.create_sequence_from(all)?)
}

/// A searcher of `require`: the function that loads the module, and where it was found; or where it was not.
fn search_files(lua: &Lua, name: String) -> mlua::Result<(Value, Option<String>)> {
    let package: Table = lua.globals().get("package")?;
    let templates: String = package.get("path")?;
    let around = surroundings(lua)?;
    let relative = name.replace('.', "/");
    let mut tried = String::new();
    for template in templates.split(';').filter(|template| !template.is_empty()) {
        let path = around.cwd.join(template.replace('?', &relative));
        let content = around.read_for_script(&path, Limits::DEFAULT.memory);
        let Ok(content) = content else {
            tried.push_str(&format!("\n\tno file '{}'", path.display()));
            continue;
        };
        let loader = compile(lua, &content, &around.shown(&path))?;
        return Ok((Value::Function(loader), Some(path.display().to_string())));
    }
    Ok((Value::String(lua.create_string(tried)?), None))
}

/// The function that a file is. Bytecode is not taken: it could break the interpreter.
pub(super) fn compile(lua: &Lua, content: &[u8], shown: &str) -> mlua::Result<Function> {
    let text = content.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(content);
    // A line that is for the system, before the script; it stays a line, so that the numbers are right.
    let shebang = text.starts_with(b"#").then(|| [b"--", text].concat());
    lua.load(shebang.as_deref().unwrap_or(text))
        .set_name(format!("@{shown}"))
        .set_mode(ChunkMode::Text)
        .into_function()
}
