//! The table: median and worst of the rounds beside must and goal, what the ratios are made of, and the file that a
//! run may be written to.

use super::figures::{Better, Figure, Measurement, Reading, Round};
use crate::{Outcome, fail};
use std::fmt::Write;
use std::path::Path;

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
        "| measured (medians) | | p50 µs | p99 µs | server core | load core | others |\n|---|---:|---:|---:|---:|---:|---:|\n",
    );
    let names: Vec<Measurement> =
        rounds.first().map(|round| round.keys().copied().collect()).unwrap_or_default();
    for name in names {
        let readings: Vec<_> = rounds.iter().filter_map(|round| round.get(&name)).collect();
        let median_of =
            |value: fn(&Reading) -> f64| median(readings.iter().map(|reading| value(reading)).collect());
        let share =
            |share: f64| if share > 0.0 { format!("{:.0} %", share * 100.0) } else { "–".to_owned() };
        let micros = |micros: f64| if micros > 0.0 { format!("{micros:.1}") } else { "–".to_owned() };
        let value = median_of(|reading| reading.value);
        let line = format!(
            "| {} | {value:.*}{} | {} | {} | {} | {} | {} |\n",
            name.name(),
            usize::from(value < 100.0) * 2,
            readings.first().map_or("", |reading| reading.unit),
            micros(median_of(|reading| reading.p50)),
            micros(median_of(|reading| reading.p99)),
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

/// Puts text between the markers of this name in a file, which must have them.
pub(crate) fn write(path: &Path, markers: &str, text: &str) -> Outcome<()> {
    let (begin, end) = (format!("<!-- {markers}:begin -->"), format!("<!-- {markers}:end -->"));
    let old = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let (Some(from), Some(to)) = (old.find(&begin), old.find(&end)) else {
        return fail(format!("{} has no {begin} … {end}", path.display()));
    };
    let mut new = String::with_capacity(old.len() + text.len());
    write!(new, "{}{begin}\n\n{text}\n{}", &old[..from], &old[to..])?;
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
        let higher = row("G1a", &[1.3, 2.5, 1.1]);
        assert_eq!((higher.median(), higher.worst(), higher.verdict()), (1.3, 1.1, "must"));
        let lower = row("G11", &[1.2, 3.5, 3.4]);
        assert_eq!((lower.median(), lower.worst(), lower.verdict()), (3.4, 3.5, "MISSED"));
        assert_eq!(row("G3", &[1.0]).verdict(), "goal");
    }

    #[test]
    fn text_replaces_what_stood_between_its_markers() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(write(file.path(), "one", "new").is_err());
        let (begin, end) = ("<!-- one:begin -->", "<!-- one:end -->");
        std::fs::write(file.path(), format!("a\n{begin}\nold\n{end}\nz\n")).unwrap();
        write(file.path(), "one", "new").unwrap();
        assert_eq!(std::fs::read_to_string(file.path()).unwrap(), format!("a\n{begin}\n\nnew\n{end}\nz\n"));
    }
}
