//! What the figures were measured on, so that they can be judged.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::process::time;
use super::table::median;

/// The machine and the prices of what every run has to pay on it, as Markdown.
pub fn describe(binary: &Path) -> Result<String> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let model = cpu
        .lines()
        .find(|line| line.starts_with("model name"))
        .and_then(|line| line.split(": ").nth(1));
    let cores = std::thread::available_parallelism()?;
    let kernel = read("/proc/sys/kernel/osrelease");
    let load = read("/proc/loadavg");
    Ok(format!(
        "- {}\n- {cores} cores ({}), kernel {}, load {} at the start\n- one write of 4 KiB with sync in {}: {:.2} ms; \
         a bare `bash -c true`: {:.2} ms (medians)\n",
        binary.display(),
        model.unwrap_or("unknown processor"),
        kernel.trim(),
        load.split(' ').next().unwrap_or("unknown"),
        std::env::temp_dir().display(),
        milliseconds(bare_sync()?),
        milliseconds(bare_bash()?),
    ))
}

/// What any engine pays for a `bash` call.
pub fn bare_bash() -> Result<Duration> {
    let times = (0..100).map(|_| time(Command::new("bash").args(["-c", "true"])));
    Ok(median(times.collect::<Result<_>>()?))
}

/// What any engine pays for each thing that it keeps.
fn bare_sync() -> Result<Duration> {
    let mut file: File = tempfile::tempfile()?;
    let mut times = Vec::new();
    for _ in 0..100 {
        let started = Instant::now();
        file.write_all(&[b'x'; 4096])?;
        file.sync_data()?;
        times.push(started.elapsed());
    }
    Ok(median(times))
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
