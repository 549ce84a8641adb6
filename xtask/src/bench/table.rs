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

impl Row {
    /// Whether all its figures are within their budgets.
    pub fn is_within(&self) -> bool {
        self.figures.iter().all(Figure::is_within)
    }
}

/// A measured value and its budget, in one unit.
pub struct Figure {
    value: f64,
    budget: Budget,
    /// Figure of a bare loop without anything else, measured in the same run.
    least: Option<f64>,
    unit: Unit,
}

#[derive(Clone, Copy)]
enum Budget {
    /// In the unit of the figure.
    Value(f64),
    /// So many times the figure of the bare loop.
    Times(f64),
    /// The figure is only shown.
    Any,
}

/// Share of the cores taken by others above which a measurement is marked as disturbed.
const DISTURBED: f64 = 0.1;

#[derive(Clone, Copy)]
enum Unit {
    Milliseconds,
    Megabytes,
    Bytes,
    Tokens,
    Times,
    PerSecond,
    More,
    Transactions,
}

impl Figure {
    pub fn milliseconds(value: Duration, budget: f64) -> Self {
        Self::new(value.as_secs_f64() * 1e3, budget, Unit::Milliseconds)
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

    /// How many more there are of something that must not grow.
    #[expect(clippy::cast_precision_loss, reason = "counts are small")]
    pub fn more(count: usize) -> Self {
        Self::new(count as f64, 0.0, Unit::More)
    }

    pub fn transactions(value: f64, budget: f64) -> Self {
        Self::new(value, budget, Unit::Transactions)
    }

    /// A time that may be so many times that of a bare loop.
    pub fn over(value: Duration, least: Duration, times: f64) -> Self {
        let figure = Self::milliseconds(value, 0.0);
        Self {
            budget: Budget::Times(times),
            least: Some(least.as_secs_f64() * 1e3),
            ..figure
        }
    }

    /// Adds the figure of a bare loop, measured as this one.
    pub fn beside(self, least: &Self) -> Self {
        Self {
            least: Some(least.value),
            ..self
        }
    }

    /// Makes it a figure that is only shown.
    pub fn without_budget(self) -> Self {
        Self {
            budget: Budget::Any,
            ..self
        }
    }

    fn new(value: f64, budget: f64, unit: Unit) -> Self {
        Self {
            value,
            budget: Budget::Value(budget),
            least: None,
            unit,
        }
    }

    fn is_within(&self) -> bool {
        match (self.budget, self.least) {
            (Budget::Value(budget), _) => self.value <= budget,
            (Budget::Times(times), Some(least)) => self.value <= times * least,
            (Budget::Times(_), None) => false,
            (Budget::Any, _) => true,
        }
    }

    fn allowed(&self) -> String {
        match self.budget {
            Budget::Value(budget) => format!("≤ {budget} {}", self.unit),
            Budget::Times(times) => format!("≤ {times} × the least"),
            Budget::Any => "–".to_owned(),
        }
    }

    fn measured(&self) -> String {
        self.shown(self.value)
    }

    fn shown(&self, value: f64) -> String {
        match self.unit {
            Unit::Milliseconds | Unit::Megabytes | Unit::PerSecond | Unit::Transactions => {
                format!("{value:.1} {}", self.unit)
            }
            Unit::Bytes | Unit::Tokens | Unit::More => format!("{value:.0} {}", self.unit),
            Unit::Times => format!("{value:.2} {}", self.unit),
        }
    }

    /// Formats the figure of a bare loop, and how many times it the measured one is.
    fn compared(&self) -> String {
        self.least.map_or_else(
            || "–".to_owned(),
            |least| format!("{} ({:.2} ×)", self.shown(least), self.value / least),
        )
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Milliseconds => "ms",
            Self::Megabytes => "MB",
            Self::Bytes => "bytes",
            Self::Tokens => "tokens",
            Self::Times => "×",
            Self::PerSecond => "a second",
            Self::More => "more",
            Self::Transactions => "transactions",
        })
    }
}

/// Formats the rows as a Markdown table.
pub fn render(groups: &[Group]) -> String {
    let mut table = String::from(
        "| what | measured | budget | verdict | load, CPU taken by others | least possible (a bare loop in this run) \
         | best agent, measured once |\n\
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
    let budget = list(Figure::allowed);
    let verdict = if row.is_within() {
        "within"
    } else {
        "**over**"
    };
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
        let least = Duration::from_millis(4);
        let group = |first, others| Group {
            rows: vec![Row {
                what: "a run",
                figures: vec![
                    Figure::over(Duration::from_micros(first), least, 3.0),
                    Figure::megabytes(5_000_000, 32.0).beside(&Figure::megabytes(4_000_000, 0.0)),
                    Figure::tokens(7, 8.0),
                    Figure::bytes(9, 0.0).without_budget(),
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
        let budget = "≤ 3 × the least, ≤ 32 MB, ≤ 8 tokens, –";
        let least = "4.0 MB (1.25 ×), –, –";
        assert_eq!(
            rows,
            [
                format!(
                    "| a run | 11.9 ms, 5.0 MB, 7 tokens, 9 bytes | {budget} | within | 1.2, 2 % | 4.0 ms (2.98 ×), {least} | 9 ms |"
                ),
                format!(
                    "| a run | 12.1 ms, 5.0 MB, 7 tokens, 9 bytes | {budget} | **over** | 1.2, **50 %** | 4.0 ms (3.01 ×), {least} | 9 ms |"
                ),
            ]
        );
    }
}
