//! Whether the terminal shows Unicode, and the streams on which its signs are written.
//!
//! Everything that a person sees leaves through here: [`err`], [`out`] and [`fit`]. With a locale without Unicode
//! (`LC_ALL=C`), the signs of this program become ASCII. What programs read (JSON, an answer in a pipe, an exported
//! document) does not come here.

use std::borrow::Cow;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use ah_conversation::Environment;
use ah_render::ascii;

use crate::print::wrap::Wrapped;

/// Whether signs are translated. It is a property of the process, like its streams.
static IS_ASCII: AtomicBool = AtomicBool::new(false);

/// Decides by the locale in `environment` for the rest of the process.
pub fn choose(environment: &Environment) {
    IS_ASCII.store(!has_unicode(environment), Ordering::Relaxed);
}

/// Returns whether the locale for characters is one of Unicode: the first of `LC_ALL`, `LC_CTYPE` and `LANG` that is set and
/// not empty decides, as POSIX says.
fn has_unicode(environment: &Environment) -> bool {
    let names = ["LC_ALL", "LC_CTYPE", "LANG"];
    let mut set = names
        .iter()
        .filter_map(|name| environment.get(name).filter(|value| !value.is_empty()));
    set.next().is_some_and(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}

/// Returns `text` in signs that the terminal can show.
pub fn fit(text: &str) -> Cow<'_, str> {
    if IS_ASCII.load(Ordering::Relaxed) {
        ascii(text)
    } else {
        Cow::Borrowed(text)
    }
}

/// A stream that a person reads.
#[derive(Debug)]
pub struct Fitted<W>(W);

impl<W: Write> Fitted<W> {
    /// Returns a stream whose text ends on `stream`.
    pub fn new(stream: W) -> Self {
        Self(stream)
    }
}

impl<W: Write> Write for Fitted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Text is written in whole characters; other bytes are not text.
        match std::str::from_utf8(bytes) {
            Ok(text) => self.0.write_all(fit(text).as_bytes())?,
            Err(_) => self.0.write_all(bytes)?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Standard error for people, with colours if it takes them. On a terminal, lines break between words.
pub type Err = Wrapped<Fitted<anstream::AutoStream<io::StderrLock<'static>>>>;

/// Returns standard error for people.
pub fn err() -> Err {
    Wrapped::new(Fitted(anstream::stderr().lock()), columns(io::stderr()))
}

/// Returns standard error for people, for rows that are laid out already.
pub fn raw_err() -> Fitted<io::Stderr> {
    Fitted(io::stderr())
}

/// Returns whether standard error takes colours.
pub fn err_has_colours() -> bool {
    anstream::AutoStream::choice(&io::stderr()) != anstream::ColorChoice::Never
}

/// Returns the width of the terminal that `stream` is, in columns; 0 if it is none.
pub fn columns(stream: impl AsFd) -> usize {
    rustix::termios::tcgetwinsize(stream).map_or(0, |size| size.ws_col.into())
}

/// Returns standard output, for text that a person reads.
pub fn out() -> Fitted<io::Stdout> {
    Fitted(io::stdout())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn the_locale_for_characters_decides() {
        for (variables, expected) in [
            (&[] as &[_], false),
            (&[("LANG", "C.UTF-8")], true),
            (&[("LANG", "de_DE.utf8")], true),
            (&[("LC_CTYPE", "UTF-8")], true),
            (&[("LANG", "C")], false),
            (&[("LANG", "en_US.UTF-8"), ("LC_ALL", "C")], false),
            (&[("LANG", "en_US.UTF-8"), ("LC_ALL", "")], true),
            (&[("LANG", "en_US.UTF-8"), ("LC_CTYPE", "POSIX")], false),
            (&[("LANG", "C"), ("LC_CTYPE", "en_US.UTF-8")], true),
            (&[("LC_MESSAGES", "en_US.UTF-8")], false),
        ] {
            let variables = variables
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            let environment = Environment::new(variables, PathBuf::from("/"));
            assert_eq!(has_unicode(&environment), expected, "{environment:?}");
        }
    }
}
