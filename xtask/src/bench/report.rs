//! The table: median and worst of the rounds beside must and goal, what the ratios are made of, and the file that a
//! run may be written to.

use super::figures::{Better, Figure, Measurement, Round};
use crate::{Outcome, fail};
use std::fmt::Write;
use std::path::Path;

const BEGIN: &str = "<!-- results:begin -->";
const END: &str = "<!-- results:end -->";
/// What others may use, in cores, before the machine no longer counts as quiet.
const QUIET: f64 = 0.1;

/// One figure with its value in each round.
pub(super) struct Row {
    pub(super) figure: &'static Figure,
    pub(super) values: Vec<f64>,
}

impl Row {
    fn median(&self) -> f64 {
        median(self.values.clone())
    }

    fn worst(&self) -> f64 {
        let worse = match self.figure.better {
            Better::Higher => f64::min,
            Better::Lower => f64::max,
        };
        self.values.iter().copied().reduce(worse).unwrap_or(f64::NAN)
    }

    /// The median against must and goal.
    fn verdict(&self) -> &'static str {
        let reaches = |limit: f64| match self.figure.better {
            Better::Higher => self.median() >= limit,
            Better::Lower => self.median() <= limit,
        };
        match (reaches(self.figure.goal), reaches(self.figure.must)) {
            (true, _) => "goal",
            (false, true) => "must",
            (false, false) => "MISSED",
        }
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The figures as a Markdown table.
pub(super) fn figures(rows: &[Row]) -> String {
    let mut text =
        String::from("| | figure | median | worst | must | goal | |\n|---|---|---:|---:|---:|---:|---|\n");
    for row in rows {
        let Figure { id, what, unit, better, must, goal, .. } = row.figure;
        let sign = if *better == Better::Higher { "≥" } else { "≤" };
        let (median, worst, verdict) = (row.median(), row.worst(), row.verdict());
        let line = format!(
            "| {id} | {what} | {median:.2} {unit} | {worst:.2} {unit} | {sign} {must} | {sign} {goal} | {verdict} |\n"
        );
        text.push_str(&line);
    }
    text
}

/// What was measured, medians over the rounds, as a Markdown table.
pub(super) fn measurements(rounds: &[Round]) -> String {
    let mut text = String::from(
        "| measured (medians) | per second | p50 µs | p99 µs | server core | load core | others |\n|---|---:|---:|---:|---:|---:|---:|\n",
    );
    let names: Vec<Measurement> =
        rounds.first().map(|round| round.keys().copied().collect()).unwrap_or_default();
    for name in names {
        let readings: Vec<_> = rounds.iter().filter_map(|round| round.get(&name)).collect();
        let median_of = |value: fn(&super::figures::Reading) -> f64| {
            median(readings.iter().map(|reading| value(reading)).collect())
        };
        let share =
            |share: f64| if share > 0.0 { format!("{:.0} %", share * 100.0) } else { "–".to_owned() };
        let line = format!(
            "| {} | {:.0} | {:.1} | {:.1} | {} | {} | {} |\n",
            name.name(),
            median_of(|reading| reading.rate),
            median_of(|reading| reading.p50),
            median_of(|reading| reading.p99),
            share(median_of(|reading| reading.server_cpu)),
            share(median_of(|reading| reading.load_cpu)),
            share(median_of(|reading| reading.other_cpu)),
        );
        text.push_str(&line);
    }
    text
}

/// Says so when other programs were at work while something was measured.
pub(super) fn noise(rounds: &[Round]) -> Option<String> {
    let worst = rounds.iter().flat_map(Round::values).map(|reading| reading.other_cpu).fold(0.0, f64::max);
    (worst > QUIET).then(|| {
        format!("NOT QUIET: other programs used up to {:.0} % of a core while measuring", worst * 100.0)
    })
}

/// Puts the results between the markers of a file, which must have them.
pub(super) fn write(path: &Path, results: &str) -> Outcome<()> {
    let old = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let (Some(begin), Some(end)) = (old.find(BEGIN), old.find(END)) else {
        return fail(format!("{} has no {BEGIN} … {END}", path.display()));
    };
    let mut new = String::with_capacity(old.len() + results.len());
    write!(new, "{}{BEGIN}\n\n{results}\n{}", &old[..begin], &old[end..])?;
    Ok(std::fs::write(path, new)?)
}

#[cfg(test)]
mod tests {
    use super::super::figures::FIGURES;
    use super::*;

    fn row(id: &str, values: &[f64]) -> Row {
        let figure = FIGURES.iter().find(|figure| figure.id == id).unwrap();
        Row { figure, values: values.to_vec() }
    }

    #[test]
    fn median_worst_and_verdict_mind_which_way_is_better() {
        let higher = row("G1", &[1.3, 2.5, 1.1]);
        assert_eq!((higher.median(), higher.worst(), higher.verdict()), (1.3, 1.1, "must"));
        let lower = row("G11", &[1.2, 3.5, 3.4]);
        assert_eq!((lower.median(), lower.worst(), lower.verdict()), (3.4, 3.5, "MISSED"));
        assert_eq!(row("G3", &[1.0]).verdict(), "goal");
    }

    #[test]
    fn results_replace_what_stood_between_the_markers() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(write(file.path(), "new").is_err());
        std::fs::write(file.path(), format!("a\n{BEGIN}\nold\n{END}\nz\n")).unwrap();
        write(file.path(), "new").unwrap();
        assert_eq!(std::fs::read_to_string(file.path()).unwrap(), format!("a\n{BEGIN}\n\nnew\n{END}\nz\n"));
    }
}
