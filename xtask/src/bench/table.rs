//! Measured figures, their budgets, and the table that compares them.

use std::fmt;
use std::time::Duration;

use super::machine::Load;

/// Rows measured together, with the machine's load meanwhile.
pub struct Group {
    pub rows: Vec<Row>,
    pub load: Load,
}

/// One row: a cost that a user would notice.
pub struct Row {
    pub what: &'static str,
    pub figures: Vec<Figure>,
    /// Figure of the best other agent, measured on the machine where the budget was set.
    pub best: Option<&'static str>,
}

/// A measured value and its budget, in one unit.
pub struct Figure {
    value: f64,
    budget: f64,
    /// Figure of a bare loop without anything else, measured on the machine where the budget was set.
    least: Option<f64>,
    unit: Unit,
}

/// Share of the cores taken by others above which a measurement is marked as disturbed.
const DISTURBED: f64 = 0.1;

#[derive(Clone, Copy)]
enum Unit {
    Milliseconds,
    Seconds,
    Megabytes,
    Bytes,
    Tokens,
    Times,
    PerSecond,
}

impl Figure {
    pub fn milliseconds(value: Duration, budget: f64) -> Self {
        Self::new(value.as_secs_f64() * 1e3, budget, Unit::Milliseconds)
    }

    pub fn seconds(value: Duration, budget: f64) -> Self {
        Self::new(value.as_secs_f64(), budget, Unit::Seconds)
    }

    #[expect(clippy::cast_precision_loss, reason = "three digits of it are shown")]
    pub fn megabytes(bytes: u64, budget: f64) -> Self {
        Self::new(bytes as f64 / 1e6, budget, Unit::Megabytes)
    }

    #[expect(clippy::cast_precision_loss, reason = "requests are small")]
    pub fn bytes(bytes: usize, budget: f64) -> Self {
        Self::new(bytes as f64, budget, Unit::Bytes)
    }

    #[expect(clippy::cast_precision_loss, reason = "requests are small")]
    pub fn tokens(tokens: usize, budget: f64) -> Self {
        Self::new(tokens as f64, budget, Unit::Tokens)
    }

    pub fn times(value: f64, budget: f64) -> Self {
        Self::new(value, budget, Unit::Times)
    }

    pub fn per_second(value: f64, budget: f64) -> Self {
        Self::new(value, budget, Unit::PerSecond)
    }

    /// Adds the figure of a bare loop.
    pub fn at_least(self, least: f64) -> Self {
        Self {
            least: Some(least),
            ..self
        }
    }

    fn new(value: f64, budget: f64, unit: Unit) -> Self {
        Self {
            value,
            budget,
            least: None,
            unit,
        }
    }

    fn measured(&self) -> String {
        match self.unit {
            Unit::Milliseconds | Unit::Megabytes | Unit::PerSecond => {
                format!("{:.1} {}", self.value, self.unit)
            }
            Unit::Bytes | Unit::Tokens => format!("{:.0} {}", self.value, self.unit),
            Unit::Seconds | Unit::Times => format!("{:.2} {}", self.value, self.unit),
        }
    }

    /// Formats the figure of a bare loop and, of a time, its share of the measured one.
    fn compared(&self) -> String {
        match (self.least, self.unit) {
            (None, _) => "–".to_owned(),
            (Some(least), Unit::Milliseconds | Unit::Seconds) => {
                let share = 100.0 * least / self.value;
                format!("{least} {} ({share:.0} %)", self.unit)
            }
            (
                Some(least),
                Unit::Megabytes | Unit::Bytes | Unit::Tokens | Unit::Times | Unit::PerSecond,
            ) => {
                format!("{least} {}", self.unit)
            }
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Milliseconds => "ms",
            Self::Seconds => "s",
            Self::Megabytes => "MB",
            Self::Bytes => "bytes",
            Self::Tokens => "tokens",
            Self::Times => "×",
            Self::PerSecond => "a second",
        })
    }
}

/// Formats the rows as a Markdown table.
pub fn render(groups: &[Group]) -> String {
    let mut table = String::from(
        "| what | measured | budget | verdict | load, CPU taken by others | least possible (a bare loop, its share) \
         | best agent measured beside it |\n\
         | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for Group { rows, load } in groups {
        for row in rows {
            table += &line(row, *load);
        }
    }
    table
}

fn line(row: &Row, load: Load) -> String {
    let list = |show: fn(&Figure) -> String| {
        let shown: Vec<String> = row.figures.iter().map(show).collect();
        shown.join(", ")
    };
    let what = row.what;
    let measured = list(Figure::measured);
    let budget = list(|figure| format!("≤ {} {}", figure.budget, figure.unit));
    let is_within = row
        .figures
        .iter()
        .all(|figure| figure.value <= figure.budget);
    let verdict = if is_within { "within" } else { "**over**" };
    let others = format!("{:.0} %", 100.0 * load.others);
    let others = if load.others < DISTURBED {
        others
    } else {
        format!("**{others}**")
    };
    let least = list(Figure::compared);
    let best = row.best.unwrap_or("–");
    format!(
        "| {what} | {measured} | {budget} | {verdict} | {:.1}, {others} | {least} | {best} |\n",
        load.average
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_within_its_budget_when_all_its_figures_are() {
        let group = |first, others| Group {
            rows: vec![Row {
                what: "a run",
                figures: vec![
                    Figure::milliseconds(Duration::from_micros(first), 12.0).at_least(3.0),
                    Figure::megabytes(5_000_000, 32.0),
                ],
                best: Some("9 ms"),
            }],
            load: Load {
                average: 1.23,
                others,
            },
        };
        let table = render(&[group(11_940, 0.02), group(12_060, 0.5)]);
        let rows: Vec<&str> = table.lines().skip(2).collect();
        assert_eq!(
            rows,
            [
                "| a run | 11.9 ms, 5.0 MB | ≤ 12 ms, ≤ 32 MB | within | 1.2, 2 % | 3 ms (25 %), – | 9 ms |",
                "| a run | 12.1 ms, 5.0 MB | ≤ 12 ms, ≤ 32 MB | **over** | 1.2, **50 %** | 3 ms (25 %), – | 9 ms |",
            ]
        );
    }
}
