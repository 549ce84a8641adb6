//! The optional log. It contains no secrets of the environment.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;

use ah_conversation::Environment;
use tracing::Dispatch;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use ah_config::Error;

/// Returns the log with this filter and file, or those of `AH_LOG` and `AH_LOG_FILE`; `None` if none is requested.
///
/// # Errors
///
/// If the filter is invalid, or the file cannot be opened.
pub fn log_of(
    filter: Option<&str>,
    file: Option<&Path>,
    environment: &Environment,
) -> Result<Option<Dispatch>, Error> {
    let asked = filter.or_else(|| environment.get("AH_LOG"));
    let Some(filter) = asked.or_else(|| file.map(|_| "debug")) else {
        return Ok(None);
    };
    let filter = EnvFilter::try_new(filter).map_err(|error| {
        Error::failure(format!("the log filter `{filter}` cannot be read: {error}"))
            .hint("for example `debug`, or `ah_agent=trace,info`")
    })?;
    let target = match file.or_else(|| environment.get("AH_LOG_FILE").map(Path::new)) {
        Some(path) => Target::File(open(path)?),
        None => Target::Stderr,
    };
    let log = Log {
        environment: Arc::new(environment.clone()),
        target: Arc::new(target),
    };
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_writer(log);
    Ok(Some(Dispatch::new(subscriber.finish())))
}

fn open(path: &Path) -> Result<File, Error> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)
        .map_err(|error| {
            Error::failure(format!(
                "cannot write the log to `{}`: {error}",
                path.display()
            ))
        })
}

#[derive(Clone)]
struct Log {
    environment: Arc<Environment>,
    target: Arc<Target>,
}

enum Target {
    Stderr,
    File(File),
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Write for Log {
    /// Writes a whole line at once, as the subscriber passes it.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        let text = self.environment.redact(&text);
        match &*self.target {
            Target::Stderr => io::stderr().write_all(text.as_bytes())?,
            Target::File(file) => (&*file).write_all(text.as_bytes())?,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_stay_out_of_the_log() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let variables = [("X_API_KEY".to_owned(), "sk-very-secret".to_owned())];
        let mut log = Log {
            environment: Arc::new(Environment::new(variables, folder.path().to_owned())),
            target: Arc::new(Target::File(open(&path).unwrap())),
        };
        log.write_all(b"asked with sk-very-secret\n").unwrap();
        assert_eq!(
            std::fs::read_to_string(path).unwrap(),
            "asked with [X_API_KEY]\n"
        );
    }
}
