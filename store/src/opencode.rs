//! Sessions in the database of another program, opencode, as it stores them: `opencode.db` has a row for each session,
//! message and part of a message, the latter two with JSON. Its second generation has tables of its own in the same file, in
//! which a message is one row. It is only read.

mod second;

use std::collections::BTreeMap;
use std::path::Path;

use ah_conversation::json;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _};
use serde_json::{Value, json};

/// Tables of sessions, of each generation.
const FIRST: &str = "session";
const SECOND: &str = "session_v2";

/// A session in the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its id.
    pub id: String,
    /// The working directory.
    pub directory: String,
}

/// Returns the sessions in the database that are no subagents', in the order of their ids.
///
/// # Errors
///
/// If it is not such a database, or cannot be read.
pub fn sessions(path: &Path) -> Result<Vec<Listed>, String> {
    let read = || -> rusqlite::Result<Vec<Listed>> {
        let database = open(path)?;
        let mut found = BTreeMap::new();
        for table in tables(&database)? {
            let mut rows = database.prepare(&format!(
                "select id, directory from {table} where parent_id is null"
            ))?;
            let rows = rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            for row in rows {
                let (id, directory) = row?;
                found.entry(id).or_insert(directory);
            }
        }
        let listed = |(id, directory)| Listed { id, directory };
        Ok(found.into_iter().map(listed).collect())
    };
    read().map_err(|error| fault(&error))
}

/// Returns a session in the form of an exported file, `{info, messages: [{info, parts}]}`; `None` if there is none with
/// this id.
///
/// # Errors
///
/// If it is not such a database, or cannot be read.
pub fn session(path: &Path, id: &str) -> Result<Option<Value>, String> {
    let read = || -> rusqlite::Result<Option<Value>> {
        let database = open(path)?;
        let mut found = None;
        for table in tables(&database)? {
            let sql = format!("select directory, title from {table} where id = ?1");
            let info = database.query_row(&sql, [id], |row| {
                let (directory, title): (String, Option<String>) = (row.get(0)?, row.get(1)?);
                Ok(json!({"id": id, "directory": directory, "title": title}))
            });
            if let Some(info) = info.optional()? {
                found = Some((table, info));
                break;
            }
        }
        let Some((table, info)) = found else {
            return Ok(None);
        };
        if table == SECOND {
            let messages = entries(
                &database,
                "select id, data, type from session_message where session_id = ?1 order by seq",
                id,
            )?;
            let messages = messages.into_iter().filter_map(|(kind, data)| {
                second::message(data["id"].as_str().unwrap_or_default(), &kind, &data)
            });
            let messages: Vec<_> = messages.collect();
            return Ok(Some(json!({"info": info, "messages": messages})));
        }
        let parts = entries(
            &database,
            "select id, data, message_id from part where session_id = ?1 order by id",
            id,
        )?;
        let messages = entries(
            &database,
            "select id, data, id from message where session_id = ?1 order by time_created, id",
            id,
        )?;
        let messages = messages.into_iter().map(|(message, info)| {
            let own = parts.iter().filter(|(of, _)| *of == message);
            let parts: Vec<_> = own.map(|(_, part)| part).collect();
            json!({"info": info, "parts": parts})
        });
        let messages: Vec<_> = messages.collect();
        Ok(Some(json!({"info": info, "messages": messages})))
    };
    read().map_err(|error| fault(&error))
}

fn open(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(path, flags)
}

/// Returns the tables of sessions, the newer first: what the older generation had is there, too.
fn tables(database: &Connection) -> rusqlite::Result<Vec<&'static str>> {
    let mut named =
        database.prepare("select 1 from sqlite_master where type = 'table' and name = ?1")?;
    let mut tables = Vec::new();
    for table in [SECOND, FIRST] {
        if named.exists([table])? {
            tables.push(table);
        }
    }
    match tables.is_empty() {
        // It is said what is not there.
        true => Ok(vec![FIRST]),
        false => Ok(tables),
    }
}

/// Returns the objects of a table, each with the word in the third column: the message that it belongs to, or its kind.
fn entries(database: &Connection, sql: &str, id: &str) -> rusqlite::Result<Vec<(String, Value)>> {
    let mut rows = database.prepare(sql)?;
    let entries = rows.query_map([id], |row| {
        let (own, data, of): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let mut entry: Value = json::from_str(&data).unwrap_or_else(|_| json!({}));
        entry["id"] = json!(own);
        Ok((of, entry))
    })?;
    entries.collect()
}

fn fault(error: &rusqlite::Error) -> String {
    format!("it is not a database of opencode that can be read: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_has_its_messages_and_their_parts_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("opencode.db");
        let database = Connection::open(&path).unwrap();
        database
            .execute_batch(
                r#"
                create table session (id text, parent_id text, directory text, title text);
                create table message (id text, session_id text, time_created integer, data text);
                create table part (id text, message_id text, session_id text, data text);
                insert into session values ('ses_1', null, '/w', 'listing'), ('ses_2', 'ses_1', '/w', null);
                insert into message values
                    ('msg_b', 'ses_1', 1, '{"role": "user"}'),
                    ('msg_a', 'ses_1', 2, '{"role": "assistant"}'),
                    ('msg_c', 'ses_2', 3, '{}');
                insert into part values
                    ('prt_2', 'msg_a', 'ses_1', 'broken'),
                    ('prt_1', 'msg_b', 'ses_1', '{"type": "text", "text": "hi"}');
                "#,
            )
            .unwrap();
        let listed = sessions(&path).unwrap();
        let expected = Listed {
            id: "ses_1".to_owned(),
            directory: "/w".to_owned(),
        };
        assert_eq!(listed, [expected]);
        assert_eq!(
            session(&path, "ses_1").unwrap().unwrap(),
            json!({
                "info": {"id": "ses_1", "directory": "/w", "title": "listing"},
                "messages": [
                    {
                        "info": {"role": "user", "id": "msg_b"},
                        "parts": [{"type": "text", "text": "hi", "id": "prt_1"}],
                    },
                    {"info": {"role": "assistant", "id": "msg_a"}, "parts": [{"id": "prt_2"}]},
                ],
            })
        );
        assert_eq!(session(&path, "ses_9").unwrap(), None);
        // The second generation keeps the tables of the first, which nothing writes any more.
        database
            .execute_batch(
                r#"
                create table session_v2 (id text, parent_id text, directory text, title text);
                create table session_message (id text, session_id text, type text, seq integer, data text);
                insert into session_v2 values ('ses_1', null, '/w', 'newer'), ('ses_3', null, '/v', null);
                insert into session_message values
                    ('msg_2', 'ses_1', 'idle', 2, '{}'),
                    ('msg_1', 'ses_1', 'user', 1, '{"text": "hi"}');
                "#,
            )
            .unwrap();
        let listed: Vec<_> = sessions(&path)
            .unwrap()
            .into_iter()
            .map(|it| it.id)
            .collect();
        assert_eq!(listed, ["ses_1", "ses_3"]);
        assert_eq!(
            session(&path, "ses_1").unwrap().unwrap(),
            json!({
                "info": {"id": "ses_1", "directory": "/w", "title": "newer"},
                "messages": [{
                    "info": {"id": "msg_1", "role": "user", "time": null},
                    "parts": [{"type": "text", "text": "hi"}],
                }],
            })
        );
        std::fs::write(&path, "no database").unwrap();
        sessions(&path).unwrap_err();
    }
}
