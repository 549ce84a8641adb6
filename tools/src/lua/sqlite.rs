//! The module `sqlite`: databases in files, or in memory.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mlua::{Function, Lua, Table, UserData, UserDataMethods, Value, Variadic};
use parking_lot::Mutex;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::types::{Value as Sql, ValueRef};
use rusqlite::{Connection, OpenFlags, params_from_iter};

use super::leash::Leash;
use super::module::{Module, ModuleResult, module_result};
use super::surroundings::{LuaSurroundings, surroundings};

/// Timeout for a database that is locked by others.
const BUSY: Duration = Duration::from_secs(5);
/// Number of SQLite instructions between two checks whether the script has to end.
const STEPS: i32 = 10_000;

/// Builds the module.
pub(super) fn build(lua: &Lua) -> mlua::Result<Table> {
    let module = lua.create_table()?;
    module.function(&["open"], lua.create_function(open)?)?;
    Ok(module)
}

/// A database handle of a script; `None` if it is closed.
struct Database(Mutex<Option<Connection>>);

fn open(lua: &Lua, path: PathBuf) -> mlua::Result<ModuleResult<Database>> {
    let around = surroundings(lua)?;
    let opened = if path.as_os_str() == ":memory:" {
        Ok(Connection::open_in_memory())
    } else {
        at(&around, &path)
    };
    let opened = match opened {
        Ok(opened) => opened,
        Err(hidden) => return Ok((None, Some(hidden.to_string()))),
    };
    let opened = opened.and_then(|connection| {
        connection.busy_timeout(BUSY)?;
        if around.workspace.is_confined() {
            connection.authorizer(Some(move |asked: AuthContext<'_>| match asked.action {
                AuthAction::Attach { filename } if !may_attach(&around, filename) => {
                    Authorization::Deny
                }
                _ => Authorization::Allow,
            }))?;
        }
        Ok(Database(Mutex::new(Some(connection))))
    });
    Ok(module_result(opened))
}

/// Opens the database in a file, read-only if it may not be written.
fn at(around: &LuaSurroundings, path: &Path) -> io::Result<rusqlite::Result<Connection>> {
    let (place, rights) = match around.writable(path) {
        Ok(place) => (
            place,
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
        ),
        Err(_) => (around.readable(path)?, OpenFlags::SQLITE_OPEN_READ_ONLY),
    };
    // The path is resolved, so a link in it is new and was not checked.
    let flags = rights | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    ah_sandbox::sqlite::guard();
    Ok(Connection::open_with_flags(place, flags))
}

/// Whether a statement may attach this database: a temporary one, or a resolved path that may be written.
fn may_attach(around: &LuaSurroundings, name: &str) -> bool {
    let path = Path::new(name);
    let is_temporary = matches!(name, "" | ":memory:");
    is_temporary || around.writable(path).is_ok_and(|place| place == path)
}

impl Database {
    /// Does `work` with the connection, at most until the script has to end.
    fn with<T>(
        &self,
        lua: &Lua,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> mlua::Result<Result<T, String>> {
        let leash = Leash::of(lua)?;
        let connection = self.0.lock();
        let Some(connection) = connection.as_ref() else {
            return Ok(Err("the database is closed".to_owned()));
        };
        let asked = leash.clone();
        let result = connection
            .progress_handler(STEPS, Some(move || asked.end().is_some()))
            .and_then(|()| work(connection));
        match leash.end() {
            Some(end) if result.is_err() => Err(mlua::Error::external(end)),
            Some(_) | None => Ok(result.map_err(|error| error.to_string())),
        }
    }

    fn exec(&self, lua: &Lua, sql: &str, given: &[Value]) -> mlua::Result<ModuleResult<bool>> {
        let values = values(given)?;
        let done = self.with(lua, |connection| {
            if values.is_empty() {
                connection.execute_batch(sql)
            } else {
                connection.execute(sql, params_from_iter(values)).map(drop)
            }
        })?;
        Ok(module_result(done.map(|()| true)))
    }

    fn rows(
        &self,
        lua: &Lua,
        sql: &str,
        given: &[Value],
    ) -> mlua::Result<Result<Vec<Table>, String>> {
        let values = values(given)?;
        let mut fault = None;
        let rows = self.with(lua, |connection| {
            let mut statement = connection.prepare(sql)?;
            let names: Vec<String> = statement
                .column_names()
                .into_iter()
                .map(str::to_owned)
                .collect();
            let mut rows = statement.query(params_from_iter(values))?;
            let mut tables = Vec::new();
            while let Some(row) = rows.next()? {
                let table = lua.create_table().and_then(|table| {
                    for (at, name) in names.iter().enumerate() {
                        let value = row.get_ref(at).map_err(mlua::Error::external)?;
                        table.raw_set(name.as_str(), to_lua(lua, value)?)?;
                    }
                    Ok(table)
                });
                match table {
                    Ok(table) => tables.push(table),
                    Err(error) => {
                        fault = Some(error);
                        break;
                    }
                }
            }
            Ok(tables)
        })?;
        match fault {
            Some(error) => Err(error),
            None => Ok(rows),
        }
    }
}

fn values(given: &[Value]) -> mlua::Result<Vec<Sql>> {
    let values = given.iter().map(|value| match value {
        Value::Nil => Ok(Sql::Null),
        Value::LightUserData(null) if null.0.is_null() => Ok(Sql::Null),
        Value::Boolean(value) => Ok(Sql::Integer((*value).into())),
        Value::Integer(value) => Ok(Sql::Integer(*value)),
        Value::Number(value) => Ok(Sql::Real(*value)),
        Value::String(text) => Ok(match text.to_str() {
            Ok(text) => Sql::Text(text.to_owned()),
            Err(_) => Sql::Blob(text.as_bytes().to_vec()),
        }),
        other => {
            let text = format!("a {} cannot be stored in a database", other.type_name());
            Err(mlua::Error::runtime(text))
        }
    });
    values.collect()
}

fn to_lua(lua: &Lua, value: ValueRef<'_>) -> mlua::Result<Value> {
    Ok(match value {
        ValueRef::Null => Value::Nil,
        ValueRef::Integer(value) => Value::Integer(value),
        ValueRef::Real(value) => Value::Number(value),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Value::String(lua.create_string(bytes)?),
    })
}

impl UserData for Database {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method(
            "exec",
            |lua, database, (sql, given): (String, Variadic<Value>)| {
                database.exec(lua, &sql, &given)
            },
        );
        methods.add_method(
            "rows",
            |lua, database, (sql, given): (String, Variadic<Value>)| {
                Ok(module_result(database.rows(lua, &sql, &given)?))
            },
        );
        // An iterator can only throw its errors.
        methods.add_method(
            "query",
            |lua, database, (sql, given): (String, Variadic<Value>)| {
                let rows = database
                    .rows(lua, &sql, &given)?
                    .map_err(mlua::Error::runtime)?;
                let mut rows = VecDeque::from(rows);
                lua.create_function_mut(move |_, ()| Ok(rows.pop_front()))
            },
        );
        methods.add_function("transaction", transaction);
        methods.add_method("last_insert_rowid", |lua, database, ()| {
            Ok(module_result(database.with(lua, |connection| {
                Ok(connection.last_insert_rowid())
            })?))
        });
        methods.add_method("changes", |lua, database, ()| {
            Ok(module_result(
                database.with(lua, |connection| Ok(connection.changes()))?,
            ))
        });
        methods.add_method("close", |_, database, ()| {
            *database.0.lock() = None;
            Ok(true)
        });
    }
}

/// Runs `work` in a transaction, which is rolled back if it fails or returns `false`.
fn transaction(
    lua: &Lua,
    (database, work): (mlua::AnyUserData, Function),
) -> mlua::Result<ModuleResult<bool>> {
    let begun = database
        .borrow::<Database>()?
        .exec(lua, "BEGIN IMMEDIATE", &[])?;
    if begun.0.is_none() {
        return Ok(begun);
    }
    let worked = work.call::<Value>(&database);
    let database = database.borrow::<Database>()?;
    match worked {
        Ok(Value::Boolean(false)) => {
            database.exec(lua, "ROLLBACK", &[])?;
            Ok((None, Some("rolled back".to_owned())))
        }
        Ok(_) => database.exec(lua, "COMMIT", &[]),
        Err(error) => {
            // Also if the script has to end, so without its progress handler.
            if let Some(connection) = database.0.lock().as_ref() {
                let undone = connection
                    .progress_handler(0, None::<fn() -> bool>)
                    .and_then(|()| connection.execute_batch("ROLLBACK"));
                undone.map_err(mlua::Error::external)?;
            }
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lua_values_become_database_values() {
        let lua = Lua::new();
        let text = |bytes: &[u8]| Value::String(lua.create_string(bytes).unwrap());
        let given = [
            Value::Nil,
            Value::Boolean(true),
            Value::Integer(7),
            text(b"a"),
            text(&[255]),
        ];
        let expected = [
            Sql::Null,
            Sql::Integer(1),
            Sql::Integer(7),
            Sql::Text("a".to_owned()),
            Sql::Blob(vec![255]),
        ];
        assert_eq!(values(&given).unwrap(), expected);
        assert!(values(&[Value::Table(lua.create_table().unwrap())]).is_err());
    }
}
