//! What was measured of halls, beside what must be.

use super::super::report::{best, rates};
use super::locks::LockWaits;
use super::{BUYERS, CONNECTIONS, LAST_UNITS, PER_SECOND, Series, UNITS};
use crate::bench::databases::Watched;

/// Everything that the rounds gave over one database.
#[derive(Default)]
pub(super) struct UnitResults {
    /// Claims a second in each round.
    pub(super) rates: Vec<f64>,
    pub(super) steady: Vec<SteadyRound>,
    /// The 99th percentile of each crowd in milliseconds.
    pub(super) crowds: Vec<f64>,
    /// The rivals that lock a counter row.
    pub(super) counters: Vec<Series>,
    pub(super) procedures: Vec<Series>,
}

/// What the rounds gave without a database.
#[derive(Default)]
pub(super) struct EmbeddedResults {
    /// What a claim of any unit and of one by its id costs beside a reserve of counted stock.
    pub(super) any: Vec<f64>,
    pub(super) named: Vec<f64>,
    /// As over a database.
    pub(super) crowds: Vec<f64>,
}

/// A round at a steady rate: percentiles in milliseconds.
pub(super) struct SteadyRound {
    pub(super) p95: f64,
    pub(super) p99: f64,
    pub(super) locks: LockWaits,
    /// Batches while the database was watched,
    pub(super) batches: u64,
    /// and what it says.
    pub(super) watched: Watched,
}

impl SteadyRound {
    /// Percent of the batches of which no statement that claims was slow, at least: a batch may have had several.
    fn quick_percent(&self) -> f64 {
        100.0 - self.watched.slow_claims as f64 * 100.0 / self.batches as f64
    }
}

/// What a figure has to be.
#[derive(Clone, Copy)]
enum Requirement {
    Least(f64),
    Most(f64),
    Below(f64),
    /// Zero, in every round.
    Never,
    /// Nothing, but more is better.
    Nothing,
}

impl Requirement {
    fn words(self) -> String {
        match self {
            Self::Least(limit) => format!("≥ {limit}"),
            Self::Most(limit) => format!("≤ {limit}"),
            Self::Below(limit) => format!("< {limit}"),
            Self::Never => "0".to_owned(),
            Self::Nothing => String::new(),
        }
    }

    fn verdict(self, median: f64, worst: f64) -> &'static str {
        let reached = match self {
            Self::Least(limit) => median >= limit,
            Self::Most(limit) => median <= limit,
            Self::Below(limit) => median < limit,
            Self::Never => worst <= 0.0,
            Self::Nothing => return "",
        };
        if reached { "must" } else { "MISSED" }
    }
}

struct Row {
    what: String,
    values: Vec<f64>,
    unit: &'static str,
    must: Requirement,
}

impl Row {
    /// The worst is the least where more is better.
    fn line(&self) -> String {
        let Self { what, values, unit, must } = self;
        let mut sorted = values.clone();
        sorted.sort_by(f64::total_cmp);
        let median = sorted.get(sorted.len() / 2);
        let worst = if matches!(must, Requirement::Least(_) | Requirement::Nothing) {
            sorted.first()
        } else {
            sorted.last()
        };
        let [median, worst] = [median, worst].map(|value| value.copied().unwrap_or(f64::NAN));
        let (words, verdict) = (must.words(), must.verdict(median, worst));
        format!("| {what} | {median:.2}{unit} | {worst:.2}{unit} | {words} | {verdict} |\n")
    }
}

fn table(rows: &[Row]) -> String {
    let head = "| | median | worst | must | |\n|---|---:|---:|---:|---|\n";
    rows.iter().fold(head.to_owned(), |text, row| text + &row.line())
}

/// As Markdown.
pub(super) fn over(taken: &UnitResults) -> String {
    let ratios = |rivals: &[Series]| -> Vec<f64> {
        taken.rates.iter().enumerate().map(|(round, rate)| rate / best(rivals, round)).collect()
    };
    let steady = |of: fn(&SteadyRound) -> f64| taken.steady.iter().map(of).collect();
    let at_rate = |what: &str| format!("at {PER_SECOND} claims/s, open loop: {what}");
    let mut rows = vec![Row {
        what: format!("claims/s of one hall of {UNITS} units ÷ the best FOR UPDATE of a counter row"),
        values: ratios(&taken.counters),
        unit: " ×",
        must: Requirement::Least(5.0),
    }];
    if !taken.procedures.is_empty() {
        rows.push(Row {
            what: "the same ÷ the best FOR UPDATE in a procedure".to_owned(),
            values: ratios(&taken.procedures),
            unit: " ×",
            must: Requirement::Nothing,
        });
    }
    for (what, values, unit, must) in [
        ("p95", steady(|steady| steady.p95), " ms", Requirement::Below(34.0)),
        ("p99", steady(|steady| steady.p99), " ms", Requirement::Below(61.0)),
        (
            "batches of which no statement that claims took 1 ms, by the database's log",
            steady(SteadyRound::quick_percent),
            " %",
            Requirement::Least(95.0),
        ),
        (
            "batches with all their locks, and their state read, within 1 ms, as the server sees it",
            steady(|steady| steady.locks.short_percent()),
            " %",
            Requirement::Nothing,
        ),
        (
            "the same within 5 ms",
            steady(|steady| steady.locks.not_long_percent()),
            " %",
            Requirement::Nothing,
        ),
        (
            "lock waits that were or may have been longer than 5 ms, by the database",
            steady(|steady| steady.watched.long_waits as f64),
            "",
            Requirement::Never,
        ),
    ] {
        rows.push(Row { what: at_rate(what), values, unit, must });
    }
    rows.push(crowd(&taken.crowds));
    let store = format!("claims of one hall, {CONNECTIONS} connections");
    let rivals = taken.counters.iter().chain(&taken.procedures).map(Series::row);
    let rates = rates(std::iter::once((store.as_str(), &taken.rates[..])).chain(rivals));
    format!("{}\n{rates}", table(&rows))
}

/// As Markdown.
pub(super) fn embedded(taken: &EmbeddedResults) -> String {
    let cost = |what: &str, values: &[f64]| Row {
        what: format!(
            "{what} of a hall of {UNITS}, over HTTP, {CONNECTIONS} connections: cost ÷ counted stock"
        ),
        values: values.to_vec(),
        unit: " ×",
        must: Requirement::Most(1.5),
    };
    table(&[cost("any unit", &taken.any), cost("a unit by its id", &taken.named), crowd(&taken.crowds)])
}

fn crowd(crowds: &[f64]) -> Row {
    let refused = BUYERS - LAST_UNITS;
    Row {
        what: format!("{BUYERS} buyers at once, {LAST_UNITS} holds and {refused} refusals: p99"),
        values: crowds.to_vec(),
        unit: " ms",
        must: Requirement::Most(50.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_judged_unless_it_must_never_be() {
        let line = |values: &[f64], must| {
            Row { what: "x".to_owned(), values: values.to_vec(), unit: " ms", must }.line()
        };
        assert_eq!(
            line(&[3.0, 9.0, 6.0], Requirement::Least(5.0)),
            "| x | 6.00 ms | 3.00 ms | ≥ 5 | must |\n"
        );
        assert_eq!(
            line(&[3.0, 9.0, 6.0], Requirement::Below(6.0)),
            "| x | 6.00 ms | 9.00 ms | < 6 | MISSED |\n"
        );
        assert_eq!(line(&[0.0, 1.0, 0.0], Requirement::Never), "| x | 0.00 ms | 1.00 ms | 0 | MISSED |\n");
    }
}
