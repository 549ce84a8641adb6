//! Errors of the server, in words.

use ah_conversation::StoreError;
use tokio_postgres::error::SqlState;

/// Returns whether another attempt may succeed: the connection was lost, or the server is starting or stopping.
pub(crate) fn is_passing(error: &tokio_postgres::Error) -> bool {
    match error.code() {
        Some(code) => {
            code.code().starts_with("08")
                || [
                    SqlState::ADMIN_SHUTDOWN,
                    SqlState::CRASH_SHUTDOWN,
                    SqlState::CANNOT_CONNECT_NOW,
                    SqlState::TOO_MANY_CONNECTIONS,
                    SqlState::T_R_SERIALIZATION_FAILURE,
                    SqlState::T_R_DEADLOCK_DETECTED,
                ]
                .contains(code)
        }
        // Errors of the server have a code. All others, but wrong parameters, are of the connection.
        None => error.is_closed() || is_of_connection(error),
    }
}

fn is_of_connection(error: &tokio_postgres::Error) -> bool {
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        if inner.is::<std::io::Error>() {
            return true;
        }
        cause = inner.source();
    }
    false
}

/// Returns the error shown to the user.
pub(crate) fn failed(
    action: &'static str,
    name: &str,
    error: &tokio_postgres::Error,
) -> StoreError {
    let reason = match error.as_db_error() {
        Some(error) => error.message().to_owned(),
        None => match std::error::Error::source(error) {
            Some(cause) => format!("{error}: {cause}"),
            None => error.to_string(),
        },
    };
    let undefined = [
        SqlState::UNDEFINED_TABLE,
        SqlState::INVALID_SCHEMA_NAME,
        SqlState::UNDEFINED_COLUMN,
    ];
    let hint = match error.code() {
        Some(code) if undefined.contains(code) => Some("`ah fleet migrate` creates the tables"),
        Some(code) if *code == SqlState::INSUFFICIENT_PRIVILEGE => {
            Some(match reason.contains("for schema") {
                true => "grant the role `ah` to this one: `GRANT ah TO NAME`",
                // It may look into the schema, so it has the role.
                false => "only the role that created the tables may do this (`ah fleet migrate`)",
            })
        }
        _ => None,
    };
    refused(action, name, reason, hint)
}

/// Returns an error of ours.
pub(crate) fn refused(
    action: &'static str,
    name: &str,
    reason: impl Into<String>,
    hint: Option<&str>,
) -> StoreError {
    StoreError {
        action,
        path: name.into(),
        reason: reason.into(),
        hint: hint.map(str::to_owned),
    }
}
