//! Checks, tests and benchmarks of this repository, run as `cargo xtask`.
//!
//! Checks need nothing but Rust and git: whatever cargo lacks is written here.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool: printing is its output"
)]

mod arrows;
mod bench;
mod check;
#[cfg(test)]
mod checks;
mod circles;
mod dist;
mod doors;
mod drift;
mod foreign;
mod fuzz;
mod json;
mod layout;
mod licenses;
mod models;
mod newest;
mod ports;
mod prints;
mod public;
mod ratchets;
mod sizes;
mod source;
mod suites;
mod tidy;
mod words;
mod workspace;

use std::process::ExitCode;

use anyhow::{Result, bail};

const USAGE: &str = "\
usage: cargo xtask <command>

  check   format, house rules, dependencies between crates, licences, clippy, documentation
  test    every test suite; the last line names those left out: test [--all] [--again] [--times], or one of acp, browser, conformance, differential, features, harness, hubs, inspect, library, litellm, local, mcp, openapi, packages, page, postgres, programs, projects, sdk
  drift   what the newest packages of vendors and protocols have that is not judged in interop/drift; needs the network: drift [NAME…]
  models  writes the built-in catalogue of models anew, from LiteLLM's newest list; needs the network
  sim     plays whole sessions and fleets with kills, power cuts, failing disks and servers, and mail, from one number each (docs/simulation.md): sim [--seed N] [--turns M | --chaos COUNT]
  fuzz    searches for inputs that break a parser; needs a nightly compiler: fuzz [--seconds N] [TARGET…]
  dist    builds the published binaries and packs them into target/packages: dist [--profile NAME] [--target TRIPLE]… [--twice]
  bench   measures the binary against its budget: bench [--build PROFILE | --binary FILE] [GROUP…]; with --profile, writes where its bytes go
  words   lists all texts that users see, to be read in one go: words [CRATE]
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<()> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["check"] => check::check(),
        ["test", options @ ..] if options.iter().all(|it| it.starts_with("--")) => {
            suites::test(suites::wanted(options)?)
        }
        ["test", "browser"] => suites::browser::install().and_then(|it| suites::browser::test(&it)),
        ["test", "page"] => suites::browser::modules(),
        ["test", "conformance"] => {
            suites::conformance::install().and_then(|it| suites::conformance::test(&it))
        }
        ["test", "differential"] => suites::differential::test(),
        ["test", "postgres"] => suites::postgres::test(),
        ["test", "local"] => suites::local::install().and_then(|it| suites::local::test(&it)),
        ["test", "litellm"] => suites::litellm::install().and_then(|it| suites::litellm::test(&it)),
        ["test", "features"] => suites::features::test(),
        ["test", "library"] => suites::library::build().and_then(|it| suites::library::test(&it)),
        ["test", "acp"] => suites::acp::install().and_then(|it| suites::acp::test(&it)),
        ["test", "inspect"] => suites::inspect::install().and_then(|it| suites::inspect::test(&it)),
        ["test", "harness"] => suites::harness::install().and_then(|it| suites::harness::test(&it)),
        ["test", "mcp"] => suites::mcp::install().and_then(|it| suites::mcp::test(&it)),
        ["test", "openapi"] => suites::openapi::install().and_then(|it| suites::openapi::test(&it)),
        ["test", "hubs"] => suites::hubs::install().and_then(|it| suites::hubs::test(&it)),
        ["test", "projects"] => {
            suites::projects::install().and_then(|it| suites::projects::test(&it))
        }
        ["test", "packages"] => suites::packages::test_alone(None),
        ["test", "packages", "--binary", binary] => suites::packages::test_alone(Some(binary)),
        ["test", "programs"] => {
            suites::programs::install().and_then(|it| suites::programs::test(&it))
        }
        ["test", "sdk"] => suites::sdk::install().and_then(|it| suites::sdk::test_alone(&it)),
        ["dist", rest @ ..] => dist::dist(rest),
        ["models"] => models::models(),
        ["drift", names @ ..] => drift::drift(names),
        ["words"] => words::words(None),
        ["words", folder] => words::words(Some(folder)),
        ["bench", rest @ ..] => bench::bench(rest),
        ["sim", rest @ ..] => workspace::run(
            workspace::cargo()
                .args(["run", "--quiet", "--release", "--package", "ah-sim", "--"])
                .args(rest),
        ),
        ["fuzz", rest @ ..] => fuzz::fuzz(rest),
        // Called by the compiler.
        ["link", real, rest @ ..] => layout::link(real, rest),
        [] | ["-h" | "--help" | "help"] => {
            print!("{USAGE}");
            Ok(())
        }
        _ => bail!("unknown command `{}`\n{USAGE}", words.join(" ")),
    }
}
