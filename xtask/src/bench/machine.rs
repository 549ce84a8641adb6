//! The machine on which the figures were measured, and its load.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::process::{cpu_of_children, cpu_of_self, time};
use super::statistics::median;

/// Describes the machine, and the costs that no engine can avoid on it, as Markdown.
pub fn describe(binary: &Path) -> Result<String> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let model = cpu
        .lines()
        .find(|line| line.starts_with("model name"))
        .and_then(|line| line.split(": ").nth(1));
    let cores = std::thread::available_parallelism()?;
    let kernel = read("/proc/sys/kernel/osrelease");
    let load = average(&read("/proc/loadavg")).unwrap_or_default();
    Ok(format!(
        "- {}\n- {cores} cores ({}), kernel {}, load {load} at the start\n- one write of 4 KiB with sync in {}: {:.2} ms; \
         a bare `bash -c true`: {:.2} ms (medians)\n",
        binary.display(),
        model.unwrap_or("unknown processor"),
        kernel.trim(),
        std::env::temp_dir().display(),
        milliseconds(bare_sync()?),
        milliseconds(bare_bash()?),
    ))
}

/// Load of the machine during a measurement.
#[derive(Clone, Copy)]
pub struct Load {
    /// Load average over the last minute of it, our own part included.
    pub average: f64,
    /// Share of all cores that was neither idle nor ours, from 0 to 1.
    pub others: f64,
}

/// Runs `act`; returns its result and the load meanwhile.
pub fn watched<T>(act: impl FnOnce() -> Result<T>) -> Result<(T, Load)> {
    let ours = || Ok::<_, anyhow::Error>(cpu_of_self()? + cpu_of_children()?);
    let (started, busy_before, ours_before) = (Instant::now(), busy()?, ours()?);
    let result = act()?;
    let busy = busy()?.saturating_sub(busy_before);
    let others = busy.saturating_sub(ours()?.saturating_sub(ours_before));
    // The kernel counts in hundredths of a second, too coarse for less than a second.
    let time = started.elapsed().max(Duration::from_secs(1));
    let cores = u32::try_from(std::thread::available_parallelism()?.get())?;
    let load = Load {
        average: average(&fs::read_to_string("/proc/loadavg")?).unwrap_or_default(),
        others: others.as_secs_f64() / (time * cores).as_secs_f64(),
    };
    Ok((result, load))
}

/// Returns the busy time of all cores so far, stolen time included.
fn busy() -> Result<Duration> {
    let statistics = fs::read_to_string("/proc/stat")?;
    worked(&statistics).context("reading the first line of /proc/stat")
}

/// Sums the busy times of the first line: user, nice, system, idle, waiting, interrupts, soft interrupts, stolen.
fn worked(statistics: &str) -> Option<Duration> {
    let numbers = statistics.lines().next()?.strip_prefix("cpu")?;
    let hundredths: Vec<u64> = numbers
        .split_whitespace()
        .map_while(|number| number.parse().ok())
        .collect();
    let idle: u64 = hundredths.get(3..5)?.iter().sum();
    let all: u64 = hundredths.get(..8)?.iter().sum();
    Some(Duration::from_millis(10 * (all - idle)))
}

fn average(loads: &str) -> Option<f64> {
    loads.split(' ').next()?.parse().ok()
}

/// Measures `bash -c true`, which any engine pays for a `bash` call.
pub fn bare_bash() -> Result<Duration> {
    let times = (0..100).map(|_| time(Command::new("bash").args(["-c", "true"])));
    Ok(median(times.collect::<Result<_>>()?))
}

/// Measures a small write with sync, which any engine pays for each record.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_read_from_the_kernels_file() {
        let statistics = "cpu  100 20 3 4000 500 6 7 8 9 10\ncpu0 1 1 1 1\n";
        assert_eq!(worked(statistics), Some(Duration::from_millis(1_440)));
        assert_eq!(worked("cpu 1 2 3"), None);
        assert_eq!(average("2.64 2.75 2.72 1/99 123\n"), Some(2.64));
        assert!(busy().unwrap() > Duration::ZERO);
    }
}
