//! `cargo xtask sim --seed N --turns M`: plays numbers until they have M turns, or one fails. With `--chaos COUNT`, it plays ten minutes
//! of so many fleets.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "printing is its output"
)]

use std::process::ExitCode;
use std::time::Instant;

const USAGE: &str = "usage: cargo xtask sim [--seed N] [--turns M | --chaos COUNT]";

fn main() -> ExitCode {
    let (mut seed, mut turns, mut chaos) = (0, 20_000, None);
    let words: Vec<String> = std::env::args().skip(1).collect();
    for pair in words.chunks(2) {
        let number = pair.get(1).and_then(|number| number.parse().ok());
        match (pair[0].as_str(), number) {
            ("--seed", Some(number)) => seed = number,
            ("--turns", Some(number)) => turns = number,
            ("--chaos", Some(number)) => chaos = Some(number),
            _ => {
                eprintln!("{USAGE}");
                return ExitCode::from(2);
            }
        }
    }
    let begin = Instant::now();
    let turns = usize::try_from(turns).unwrap_or(usize::MAX);
    let played = match chaos {
        Some(count) => ah_sim::chaos(seed, count),
        None => ah_sim::search(seed, turns),
    };
    match played {
        Ok(turns) => {
            println!(
                "{turns} turns, nothing found, {:.0} s",
                begin.elapsed().as_secs_f64()
            );
            ExitCode::SUCCESS
        }
        Err(failure) => {
            print!("{failure}");
            ExitCode::FAILURE
        }
    }
}
