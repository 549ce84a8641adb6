//! The Lua state of a script: the standard library without `debug`. Functions that reach beyond the script (to the
//! process, its output, its secrets, or the memory of the interpreter) are replaced.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use mlua::chunk::ChunkMode;
use mlua::{Function, Lua, LuaOptions, StdLib, Table, Value};

use super::leash::{Leash, Limits};
use super::surroundings::{LuaSurroundings, surroundings};
use super::{env, places, registry, spawn};

/// Location of a script and its modules.
#[derive(Debug, Clone)]
pub(super) struct Source {
    /// The file.
    pub(super) path: PathBuf,
    /// Folders that `require` searches after that of the file.
    pub(super) modules: Vec<PathBuf>,
}

/// Opens a state for running `source`.
pub(super) fn open(around: &Arc<LuaSurroundings>, source: &Source) -> mlua::Result<Lua> {
    let lua = Lua::new_with(StdLib::ALL_SAFE, LuaOptions::default())?;
    lua.set_memory_limit(Limits::DEFAULT.memory)?;
    lua.set_app_data(around.clone());
    prepare_search(&lua, source)?;
    let native = lua.create_table()?;
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
    limit(&lua, &native)?;
    lua.load(include_str!("prelude.lua"))
        .set_name("=prelude")
        .call::<()>(native)?;
    Ok(lua)
}

/// Replaces what of the basic functions would escape the leash. `native` gets the function that tells whether the script
/// has to end.
pub(super) fn limit(lua: &Lua, native: &Table) -> mlua::Result<()> {
    native.set("ended", lua.create_function(|lua, ()| ended(lua))?)?;
    lua.load(include_str!("limits.lua"))
        .set_name("=prelude")
        .call::<()>(native)
}

fn ended(lua: &Lua) -> mlua::Result<bool> {
    Ok(Leash::of(lua)?.end().is_some())
}

/// Makes `require` search the file's folder, then the other folders, and last the built-in modules: so a file may have
/// its own `json.lua`.
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
        lua.create_function(registry::search)?,
    ];
    package.set("searchers", lua.create_sequence_from(all)?)
}

/// Searcher for `require`: returns the function that loads the module and its path, or the paths that do not exist.
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

/// Compiles a file to a function. Bytecode is refused: it could corrupt the interpreter.
pub(super) fn compile(lua: &Lua, content: &[u8], shown: &str) -> mlua::Result<Function> {
    let text = content.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(content);
    // A shebang becomes a comment, so that line numbers stay right.
    let shebang = text.starts_with(b"#").then(|| [b"--", text].concat());
    lua.load(shebang.as_deref().unwrap_or(text))
        .set_name(format!("@{shown}"))
        .set_mode(ChunkMode::Text)
        .into_function()
}
