//! The module `codec`: base64 and hexadecimal.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use mlua::{Lua, LuaString, Table};

use super::module::{Module, ModuleResult};

/// Builds the module.
pub(super) fn build(lua: &Lua) -> mlua::Result<Table> {
    let module = lua.create_table()?;
    module.function(
        &["encode_base64"],
        lua.create_function(|_, bytes: LuaString| Ok(BASE64_STANDARD.encode(bytes.as_bytes())))?,
    )?;
    module.function(&["decode_base64"], lua.create_function(decode_base64)?)?;
    module.function(&["encode_hex"], lua.create_function(encode_hex)?)?;
    module.function(&["decode_hex"], lua.create_function(decode_hex)?)?;
    Ok(module)
}

fn decode_base64(lua: &Lua, text: LuaString) -> mlua::Result<ModuleResult<LuaString>> {
    let bytes: Vec<u8> = text
        .as_bytes()
        .iter()
        .copied()
        .filter(|byte| !byte.is_ascii_whitespace())
        .collect();
    match BASE64_STANDARD.decode(bytes) {
        Ok(bytes) => Ok((Some(lua.create_string(bytes)?), None)),
        Err(error) => Ok((None, Some(format!("not base64: {error}")))),
    }
}

fn encode_hex(_: &Lua, bytes: LuaString) -> mlua::Result<String> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| char::from(DIGITS[usize::from(value)]);
    let bytes = bytes.as_bytes();
    Ok(bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
        .collect())
}

fn decode_hex(lua: &Lua, text: LuaString) -> mlua::Result<ModuleResult<LuaString>> {
    let text = text.as_bytes();
    let value = |digit: u8| {
        char::from(digit)
            .to_digit(16)
            .and_then(|value| u8::try_from(value).ok())
    };
    let pairs = text.chunks(2).map(|pair| match pair {
        [high, low] => Some(value(*high)? << 4 | value(*low)?),
        _ => None,
    });
    match pairs.collect::<Option<Vec<u8>>>() {
        Some(bytes) => Ok((Some(lua.create_string(bytes)?), None)),
        None => Ok((
            None,
            Some("not an even number of hexadecimal digits".to_owned()),
        )),
    }
}
