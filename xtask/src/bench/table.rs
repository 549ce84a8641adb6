//! Figures, what they may be, and the table that compares them.

use std::fmt;
use std::time::Duration;

/// One row: something that a user would notice.
pub struct Row {
    pub what: &'static str,
    pub figures: Vec<Figure>,
    /// What a bare loop without anything else needs on the machine where the budget was set.
    pub least: &'static str,
    /// What the best other agent needed there.
    pub best: &'static str,
}

/// A measured value and its budget, in one unit.
pub struct Figure {
    value: f64,
    budget: f64,
    unit: Unit,
}

#[derive(Clone, Copy)]
enum Unit {
    Milliseconds,
    Seconds,
    Megabytes,
    Times,
}

impl Figure {
    pub fn milliseconds(value: Duration, budget: f64) -> Self {
        Self {
            value: value.as_secs_f64() * 1e3,
            budget,
            unit: Unit::Milliseconds,
        }
    }

    pub fn seconds(value: Duration, budget: f64) -> Self {
        Self {
            value: value.as_secs_f64(),
            budget,
            unit: Unit::Seconds,
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "three digits of it are shown")]
    pub fn megabytes(bytes: u64, budget: f64) -> Self {
        Self {
            value: bytes as f64 / 1e6,
            budget,
            unit: Unit::Megabytes,
        }
    }

    pub fn times(value: f64, budget: f64) -> Self {
        Self {
            value,
            budget,
            unit: Unit::Times,
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Milliseconds => "ms",
            Self::Seconds => "s",
            Self::Megabytes => "MB",
            Self::Times => "×",
        })
    }
}

/// The rows as a Markdown table.
pub fn render(rows: &[Row]) -> String {
    let mut table = String::from(
        "| what | measured | budget | verdict | least possible (a bare loop) | best agent measured beside it |\n\
         | --- | --- | --- | --- | --- | --- |\n",
    );
    for Row {
        what,
        figures,
        least,
        best,
    } in rows
    {
        let list =
            |show: fn(&Figure) -> String| figures.iter().map(show).collect::<Vec<_>>().join(", ");
        let measured = list(|figure| match figure.unit {
            Unit::Milliseconds | Unit::Megabytes => format!("{:.1} {}", figure.value, figure.unit),
            Unit::Seconds | Unit::Times => format!("{:.2} {}", figure.value, figure.unit),
        });
        let budget = list(|figure| format!("≤ {} {}", figure.budget, figure.unit));
        let is_within = figures.iter().all(|figure| figure.value <= figure.budget);
        let verdict = if is_within { "within" } else { "**over**" };
        table += &format!("| {what} | {measured} | {budget} | {verdict} | {least} | {best} |\n");
    }
    table
}

/// The middle of what was measured.
pub fn median<T: Copy + Ord>(mut values: Vec<T>) -> T {
    values.sort_unstable();
    values[values.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_within_its_budget_when_all_its_figures_are() {
        let figures = |first| {
            vec![
                Figure::milliseconds(Duration::from_micros(first), 12.0),
                Figure::megabytes(5_000_000, 32.0),
            ]
        };
        let row = |first| Row {
            what: "a run",
            figures: figures(first),
            least: "1 ms",
            best: "9 ms",
        };
        let table = render(&[row(11_940), row(12_060)]);
        let rows: Vec<&str> = table.lines().skip(2).collect();
        assert_eq!(
            rows,
            [
                "| a run | 11.9 ms, 5.0 MB | ≤ 12 ms, ≤ 32 MB | within | 1 ms | 9 ms |",
                "| a run | 12.1 ms, 5.0 MB | ≤ 12 ms, ≤ 32 MB | **over** | 1 ms | 9 ms |",
            ]
        );
    }
}
