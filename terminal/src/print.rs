//! Output of a run, for people and for programs. Each frontend shows the same events in its own format; nothing else
//! writes to standard output during a run.

mod divert;
mod drawn;
pub mod events;
mod in_short;
mod looked;
mod mode;
mod number;
pub mod question;
mod screen;
pub mod table;
pub mod text;
mod tool_block;
pub mod wrap;

use std::borrow::Cow;
use std::io::{self, IsTerminal as _, Write, stderr, stdin, stdout};

use ah_config::{Config, Keeping, Origin, Sourced};

use ah_conversation::neutralise;

use crate::glyphs;
pub use divert::{divert, tell};
pub use drawn::{REST, REST_END, Size};
pub use looked::Looked;
pub use mode::mode;
pub use number::{count, elapsed, money};
pub use screen::{Look, Outlet, Screen};
pub use tool_block::cut;

/// Number of times that a failed request is tried again while a person looks on: they see the wait, and can end it.
const RETRIES_AT_TERMINAL: u32 = 10;

/// Returns what the person has said as it is shown among the output: in reverse video, which a light terminal and a dark one
/// both carry, so that it is found in a long conversation.
pub fn said(text: &str, colours: bool) -> String {
    if !colours {
        return text.to_owned();
    }
    let rows = text.lines().map(|line| match line.trim().is_empty() {
        true => String::new(),
        false => format!("\x1b[1;7m{line}\x1b[0m"),
    });
    rows.collect::<Vec<_>>().join("\n")
}

/// Returns a text for standard output; on a terminal, control characters are made visible, and signs are those it has.
pub fn shown(text: &str) -> Cow<'_, str> {
    if stdout().is_terminal() {
        Cow::Owned(glyphs::fit(&neutralise(text)).into_owned())
    } else {
        Cow::Borrowed(text)
    }
}

/// Standard output for whole lines that programs read; on a terminal they are as [`shown`] returns them. JSON stays JSON.
#[derive(Debug, Clone, Copy)]
pub struct Lines;

impl Write for Lines {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        match stdout().is_terminal() {
            true => stdout().write_all(shown(&String::from_utf8_lossy(lines)).as_bytes())?,
            false => stdout().write_all(lines)?,
        }
        Ok(lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        stdout().flush()
    }
}

/// Returns whether a person can be asked: they type on standard input, and read the question on standard output in a
/// conversation, on standard error elsewhere.
pub fn is_attended(is_conversation: bool) -> bool {
    let sees = match is_conversation {
        true => stdout().is_terminal(),
        false => stderr().is_terminal(),
    };
    sees && stdin().is_terminal()
}

/// Returns the configuration of a run, which a person at a terminal may look at.
pub fn patient(config: &Config, is_conversation: bool) -> Config {
    match is_attended(is_conversation) {
        true => attended(config.clone(), is_conversation),
        false => config.clone(),
    }
}

/// Returns a configuration with what a person at a terminal waits for. In a conversation, the person may come back from a pause, so
/// that the prompt cache is kept as long as that pays; not where money is limited, as no limit counts what that costs.
fn attended(mut config: Config, is_conversation: bool) -> Config {
    config.retry.retries = config.retry.retries.max(RETRIES_AT_TERMINAL);
    if is_conversation && config.run.limits.max_budget_usd.is_none() {
        config.exchange.keep_warm.get_or_insert(Sourced {
            value: u32::MAX,
            origin: Origin::BuiltIn,
        });
    }
    config
}

/// Returns the place of permanent permissions, if a person at a terminal can be asked.
pub fn asks(config: &Config, is_conversation: bool) -> Option<Keeping> {
    if !config.interface.asks_person() || !is_attended(is_conversation) {
        return None;
    }
    Keeping::of(config)
}

#[cfg(test)]
mod tests {
    use ah_config::overlay::Overlay;
    use ah_config::overrides::Overrides;
    use ah_conversation::{Environment, Interface};

    use super::*;

    /// Only where a person may come back, and unless it is set.
    #[test]
    fn a_conversation_at_a_terminal_is_kept_warm() {
        for (is_conversation, set, budget, expected) in [
            (false, None, None, None),
            (true, None, None, Some(u32::MAX)),
            (true, None, Some(5.0), None),
            (true, Some(0), None, Some(0)),
            (true, Some(2), None, Some(2)),
            (true, Some(2), Some(5.0), Some(2)),
        ] {
            let environment = Environment::default();
            let overlay = Overlay::default();
            let config = Config::resolve(
                Overrides::default(),
                Interface::Native,
                environment,
                &overlay,
            );
            let mut config = config.unwrap();
            config.exchange.keep_warm = set.map(Sourced::typed);
            config.run.limits.max_budget_usd = budget;
            let kept = attended(config, is_conversation)
                .exchange
                .keep_warm
                .map(|set| set.value);
            assert_eq!(kept, expected, "{is_conversation} {set:?} {budget:?}");
        }
    }
}
