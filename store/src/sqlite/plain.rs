//! Whether a database is one that this program may have made: tables and indexes that hold something, and do nothing.
//!
//! A file that came with a folder may define more: a query of a view, a trigger, a computed column, an index on an expression, a
//! check or a computed default could run for ever, or change what is stored. So each statement of the schema is one of ours,
//! or a table or an index without any of these.

use std::collections::HashSet;
use std::sync::LazyLock;

use rusqlite::Connection;

use super::Failure;
use super::schema::{CONVERSATION, QUEUE, RUNS};

/// The statements by which our tables and indexes are made, without what is blank.
static OURS: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let steps = [&CONVERSATION, &QUEUE, &RUNS].into_iter();
    let steps = steps.flat_map(|schema| schema.steps());
    let statements = steps.flat_map(|step| step.split(';')).map(normal);
    statements
        .filter(|statement| statement.starts_with("CREATE "))
        .collect()
});

/// Fails if the schema of a database is not plain.
pub(super) fn check(connection: &Connection) -> Result<(), Failure> {
    let all = "SELECT type, name, sql, coalesce(rootpage, 0) FROM main.sqlite_schema";
    let mut statement = connection.prepare(all)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (kind, name): (String, String) = (row.get(0)?, row.get(1)?);
        let (sql, page): (Option<String>, i64) = (row.get(2)?, row.get(3)?);
        // An index that a table brings along has no statement.
        let sql = normal(&sql.unwrap_or_default());
        let is_ours = page != 0 && OURS.contains(&sql);
        let foreign = match kind.as_str() {
            "table" | "index" if is_ours => None,
            "table" if page == 0 || !is_plain("TABLE", &sql) => Some("virtual table"),
            "table" => not_plain_table(connection, &name, &sql)?,
            "index"
                if !sql.is_empty()
                    && !is_plain("INDEX", &sql)
                    && !is_plain("UNIQUE INDEX", &sql) =>
            {
                Some("unknown kind of entry")
            }
            "index" => not_plain_index(connection, &name, &sql)?,
            "view" => Some("view"),
            "trigger" => Some("trigger"),
            // Our own statement under an unknown kind is a damaged page, not another program's work.
            _ if is_ours => {
                let reason = format!("the schema has the unknown kind `{kind}` for `{name}`");
                return Err(Failure::Damaged(reason));
            }
            _ => Some("unknown kind of entry"),
        };
        if let Some(kind) = foreign {
            return Err(Failure::Refused {
                reason: format!("it has the {kind} `{name}`, which this program does not create"),
                hint: Some(
                    "another program changed it, or a newer `ah` created it: ask its sender, or update".to_owned(),
                ),
            });
        }
    }
    Ok(())
}

/// Whether a statement begins as SQLite itself writes one for a table or an index; with a comment between its words it would be
/// somebody's who wants it to be taken for one.
fn is_plain(kind: &str, sql: &str) -> bool {
    let rest = sql
        .strip_prefix("CREATE ")
        .and_then(|rest| rest.strip_prefix(kind));
    rest.is_some_and(|rest| rest.starts_with(' '))
}

/// Returns what is not plain about a table.
fn not_plain_table(
    connection: &Connection,
    name: &str,
    sql: &str,
) -> Result<Option<&'static str>, Failure> {
    let columns = "SELECT hidden > 0, dflt_value FROM pragma_table_xinfo(?1, 'main')";
    let mut statement = connection.prepare_cached(columns)?;
    let mut rows = statement.query([name])?;
    while let Some(row) = rows.next()? {
        let default: Option<String> = row.get(1)?;
        if row.get(0)? {
            return Ok(Some("table with a computed column"));
        }
        if default.is_some_and(|default| !is_literal(&default)) {
            return Ok(Some("table with a computed default"));
        }
    }
    // A word of the language cannot be written in another way.
    let has_check = sql.to_ascii_lowercase().contains("check");
    Ok(has_check.then_some("table with a check"))
}

/// Returns what is not plain about an index.
fn not_plain_index(
    connection: &Connection,
    name: &str,
    sql: &str,
) -> Result<Option<&'static str>, Failure> {
    /// What `index_xinfo` says of a column that is an expression.
    const EXPRESSION: &str = "SELECT count(*) FROM pragma_index_xinfo(?1, 'main') WHERE cid = -2";
    let mut statement = connection.prepare_cached(EXPRESSION)?;
    let expressions: i64 = statement.query_row([name], |row| row.get(0))?;
    let is_partial = sql.to_ascii_lowercase().contains("where");
    Ok(match (expressions, is_partial) {
        (0, false) => None,
        (0, true) => Some("index with a condition"),
        _ => Some("index on an expression"),
    })
}

/// Returns whether a default is a number, a text or another word, and nothing that is computed.
fn is_literal(default: &str) -> bool {
    let text = |quote: char| {
        let inner = default.strip_prefix(quote)?.strip_suffix(quote)?;
        (!inner
            .replace(&format!("{quote}{quote}"), "")
            .contains(quote))
        .then_some(())
    };
    let is_word = |char: char| char.is_ascii_alphanumeric() || "+-._".contains(char);
    text('\'').or(text('"')).is_some() || default.chars().all(is_word)
}

/// Returns a statement with one space where there is white space.
fn normal(statement: &str) -> String {
    let words: Vec<&str> = statement.split_ascii_whitespace().collect();
    words.join(" ")
}
