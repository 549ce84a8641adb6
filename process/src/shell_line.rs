//! A command line as a shell takes it without showing it in a list of processes.
//!
//! A shell that had the line among its arguments would be found by what the line itself looks for: `pkill -f NAME; start
//! NAME` would end its own shell. An argument is also limited to 128 KiB on Linux. So the shell reads the line from its
//! standard input and evaluates it; then the command has the standard input that it would have had.

use std::ffi::OsString;
use std::path::Path;

/// The only argument of the shell, for all lines the same, with as few words as possible: what stands here is found. It
/// evaluates the first line of the input, unless a file that the shell reads at its start has taken that away.
const START: &str = r#"read -r __ ___;[ "$__" = : ]&&eval "$___""#;

/// Reads a line up to a NUL, in the variable in which bash itself keeps a line that it is given.
const BASH: &str = r#"IFS= read -rd "" BASH_EXECUTION_STRING||exit 126"#;
const EVALUATE_BASH: &str = r#"eval "$BASH_EXECUTION_STRING""#;

/// Reads a line of `COUNT` lines with what POSIX has, a hundred at a time, since text is copied when it gets longer. It is
/// kept in an argument, which is removed before the line begins.
const POSIX: &str = r#"___=$(printf '\n:'); ___=${___%:}; __=; _____=; ____=COUNT; while IFS= read -r ______||exit 126; [ "$((____-=1))" -gt 0 ]; do _____=$_____$______$___; case $____ in *00) __=$__$_____; _____=;; esac; done; set -- "$__$_____$______" "$@"; unset ____ _____ ______"#;
const EVALUATE_POSIX: &str = r#"eval "shift;$1""#;

/// Standard input of a command behind its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behind {
    /// Empty.
    Nothing,
    /// What follows in the standard input of the shell.
    Input,
}

/// Arguments and the beginning of the standard input of a shell that runs a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellLine {
    /// The arguments. Further ones are `$0` and those of the line.
    pub arguments: Vec<OsString>,
    /// The beginning of the standard input.
    pub stdin: Vec<u8>,
}

impl ShellLine {
    /// Returns how `shell` runs `line`. A shell with another language than the one of POSIX is given the line as an
    /// argument.
    pub fn new(shell: &Path, line: &str, behind: Behind) -> Self {
        let name = shell.file_name().and_then(|name| name.to_str());
        let (read, evaluate, end) = match name {
            // Of a line with a NUL, the start of the shell fails.
            _ if line.contains('\0') => return Self::as_argument(line),
            Some("bash") => (BASH.to_owned(), EVALUATE_BASH, '\0'),
            Some("sh" | "dash" | "ash" | "ksh" | "mksh" | "zsh") => {
                let count = line.matches('\n').count() + 1;
                let read = POSIX.replace("COUNT", &count.to_string());
                (read, EVALUATE_POSIX, '\n')
            }
            Some(_) | None => return Self::as_argument(line),
        };
        let close = match behind {
            Behind::Nothing => "exec </dev/null;",
            Behind::Input => "",
        };
        let stdin = format!(": {read};unset __ ___;{close}{evaluate}\n{line}{end}");
        Self {
            arguments: vec!["-c".into(), START.into()],
            stdin: stdin.into_bytes(),
        }
    }

    /// Returns how a shell is given `line` as an argument.
    pub fn as_argument(line: &str) -> Self {
        Self {
            arguments: vec!["-c".into(), line.into()],
            stdin: Vec::new(),
        }
    }
}
