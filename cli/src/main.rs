//! The binary; its code is in the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    ah_cli::main()
}
