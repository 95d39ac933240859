//! What was measured, as ratios and as rates.

use super::super::promise;
use super::Limits;
use crate::Outcome;
use std::fmt::Write;

/// Everything that the rounds gave over one database.
#[derive(Default)]
pub(super) struct DatabaseResults {
    /// The store's rate in each round; with batches of one; by two servers.
    pub(super) together: Vec<f64>,
    pub(super) alone: Vec<f64>,
    pub(super) two: Vec<f64>,
    /// The rivals.
    pub(super) forms: Vec<Series>,
    pub(super) procedures: Vec<Series>,
    /// 50th and 99th percentile in milliseconds at a steady rate, of reserves and of looks.
    pub(super) steady: [(f64, f64); 2],
}

/// One rival, and its rate in each round.
#[derive(Default)]
pub(super) struct Series {
    pub(super) name: String,
    pub(super) rates: Vec<f64>,
}

impl Series {
    pub(super) fn row(&self) -> (&str, &[f64]) {
        (&self.name, &self.rates)
    }
}

/// As Markdown.
pub(super) fn of(taken: &DatabaseResults, limits: &Limits, connections: usize) -> Outcome<String> {
    let DatabaseResults { together, alone, two, forms, procedures, steady } = taken;
    let ratios = |of: &dyn Fn(usize) -> f64| -> Vec<f64> {
        together.iter().enumerate().map(|(round, rate)| rate / of(round)).collect()
    };
    let mut text = String::from("| | median | worst | must | goal | |\n|---|---:|---:|---:|---:|---|\n");
    for (what, values, [must, goal]) in [
        ("the best of one transaction a request", ratios(&|round| best(forms, round)), limits.rival),
        ("own adapter, batches of one", ratios(&|round| alone[round]), limits.alone),
    ] {
        let (median, worst) = middle(&values);
        let verdict = match (median >= goal, median >= must) {
            (true, _) => "goal",
            (false, true) => "must",
            (false, false) => "MISSED",
        };
        let figure = limits.figure;
        writeln!(
            text,
            "| {figure}: store ÷ {what} | {median:.2} × | {worst:.2} × | ≥ {must} | ≥ {goal} | {verdict} |"
        )?;
    }
    if !procedures.is_empty() {
        let (median, worst) = middle(&ratios(&|round| best(procedures, round)));
        writeln!(text, "| store ÷ the best of one call a request | {median:.2} × | {worst:.2} × | | | |")?;
    }
    let of_one: Vec<f64> = two.iter().zip(together).map(|(two, one)| two / one).collect();
    let (median, worst) = middle(&of_one);
    writeln!(text, "| two servers ÷ one, hot SKU | {median:.2} × | {worst:.2} × | ≥ 1 | | |")?;
    let [(p50, p99), (look50, look99)] = steady;
    let per_second = promise::PER_SECOND;
    writeln!(
        text,
        "\n{per_second} reserves/s on one SKU beside as many looks, open loop: reserve p50 {p50:.1} ms, p99 {p99:.1} ms \
         (< 50); availability p50 {look50:.1} ms, p99 {look99:.1} ms (< 10)\n"
    )?;
    let store = format!("store, {connections} connections");
    let two_stores = format!("store, two servers, {} connections each", connections / 2);
    let own = [(store.as_str(), &together[..]), ("store, batches of one", alone), (&two_stores, two)];
    text.push_str(&rates(own.into_iter().chain(forms.iter().chain(procedures).map(Series::row))));
    Ok(text)
}

/// Rates by name.
pub(super) fn rates<'a>(rows: impl Iterator<Item = (&'a str, &'a [f64])>) -> String {
    let head = "| requests a second | median | worst |\n|---|---:|---:|\n".to_owned();
    rows.fold(head, |text, (name, rates)| {
        let (median, worst) = middle(rates);
        text + &format!("| {name} | {median:.0} | {worst:.0} |\n")
    })
}

/// The best of several rates in a round.
pub(super) fn best(some: &[Series], round: usize) -> f64 {
    some.iter().filter_map(|series| series.rates.get(round).copied()).fold(0.0, f64::max)
}

/// Median and least.
pub(super) fn middle(values: &[f64]) -> (f64, f64) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let nothing = f64::NAN;
    (sorted.get(sorted.len() / 2).copied().unwrap_or(nothing), sorted.first().copied().unwrap_or(nothing))
}
