//! Plots as SVG: panels one above the other over the same points, drawn with nothing but lines, dots and text, so that
//! they look the same everywhere and a change of theirs can be read.

use std::fmt::Write;

/// One plot.
pub(super) struct Curve {
    /// Its file's name.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// What goes along the bottom.
    pub(super) along: &'static str,
    /// The points along it, evenly spaced.
    pub(super) points: Vec<String>,
    pub(super) panels: Vec<Panel>,
}

/// One of its panels.
pub(super) struct Panel {
    /// What goes up, with its unit.
    pub(super) title: &'static str,
    /// Whether it goes up by powers of ten, and not from 0.
    pub(super) log: bool,
    pub(super) series: Vec<PlotSeries>,
}

/// One line: a value for each point, if there is one.
pub(super) struct PlotSeries {
    pub(super) name: String,
    pub(super) values: Vec<Option<f64>>,
}

const WIDTH: f64 = 720.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 44.0;
/// Of one panel, and the gap under it.
const HEIGHT: f64 = 190.0;
const GAP: f64 = 46.0;
const TICKS: u32 = 4;
/// Told apart by everybody (Okabe and Ito).
const COLOURS: [&str; 4] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7"];

impl Curve {
    /// The plot.
    pub(super) fn svg(&self) -> String {
        let height = TOP + (HEIGHT + GAP) * self.panels.len() as f64 + 14.0;
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#333\">\n<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n"
        );
        text(&mut out, (LEFT, 20.0), "start", "font-size=\"15\"", self.title);
        for (nth, panel) in self.panels.iter().enumerate() {
            self.draw(&mut out, panel, TOP + (HEIGHT + GAP) * nth as f64);
        }
        text(&mut out, ((LEFT + WIDTH - RIGHT) / 2.0, height - 8.0), "middle", "", self.along);
        out.push_str("</svg>\n");
        out
    }

    fn draw(&self, out: &mut String, panel: &Panel, top: f64) {
        let bottom = top + HEIGHT;
        let scale = Scale::of(panel);
        let step = (WIDTH - LEFT - RIGHT) / (self.points.len().max(2) - 1) as f64;
        let across = |nth: usize| {
            if self.points.len() == 1 { (LEFT + WIDTH - RIGHT) / 2.0 } else { LEFT + step * nth as f64 }
        };
        let up = |value: f64| bottom - scale.part(value) * (HEIGHT - 24.0);
        text(out, (LEFT, top + 4.0), "start", "font-weight=\"bold\"", panel.title);
        for tick in scale.ticks() {
            let at = up(tick);
            line(out, (LEFT, at), (WIDTH - RIGHT, at), "#ddd");
            text(out, (LEFT - 8.0, at + 4.0), "end", "", &short(tick));
        }
        for (nth, point) in self.points.iter().enumerate() {
            line(out, (across(nth), bottom), (across(nth), bottom + 4.0), "#888");
            text(out, (across(nth), bottom + 18.0), "middle", "", point);
        }
        let mut right = WIDTH - RIGHT;
        for (series, colour) in panel.series.iter().zip(COLOURS).rev() {
            if panel.series.len() > 1 {
                text(out, (right, top + 4.0), "end", &format!("fill=\"{colour}\""), &series.name);
                right -= 16.0 + 7.0 * series.name.chars().count() as f64;
            }
            let dots: Vec<_> = series
                .values
                .iter()
                .enumerate()
                .filter_map(|(nth, value)| Some((across(nth), up((*value)?))))
                .collect();
            for pair in dots.windows(2) {
                if let [from, to] = pair {
                    line(out, *from, *to, colour);
                }
            }
            for (x, y) in dots {
                put(out, format_args!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>"));
            }
        }
    }

    /// The same in numbers, as a Markdown table.
    pub(super) fn table(&self) -> String {
        let columns: Vec<(String, &PlotSeries)> = self
            .panels
            .iter()
            .flat_map(|panel| {
                panel.series.iter().map(|series| (format!("{}: {}", panel.title, series.name), series))
            })
            .collect();
        let heads = columns.iter().map(|(head, _)| head.as_str()).collect::<Vec<_>>().join(" | ");
        let mut out = format!("| {} | {heads} |\n|---:{}|\n", self.along, "|---:".repeat(columns.len()));
        for (nth, point) in self.points.iter().enumerate() {
            let cell = |series: &PlotSeries| {
                series.values.get(nth).copied().flatten().map_or_else(|| "–".to_owned(), long)
            };
            let cells = columns.iter().map(|(_, series)| cell(series)).collect::<Vec<_>>().join(" | ");
            put(&mut out, format_args!("| {point} | {cells} |"));
        }
        out
    }
}

/// What goes up a panel.
struct Scale {
    low: f64,
    high: f64,
    log: bool,
}

impl Scale {
    fn of(panel: &Panel) -> Self {
        let values = || panel.series.iter().flat_map(|series| series.values.iter().copied().flatten());
        let high = values().fold(0.0, f64::max);
        if !panel.log {
            return Self { low: 0.0, high: round_up(high), log: false };
        }
        let low = values().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min).min(high);
        let (low, high) =
            (low.max(f64::MIN_POSITIVE).log10().floor(), high.max(f64::MIN_POSITIVE).log10().ceil());
        Self { low, high: high.max(low + 1.0), log: true }
    }

    /// How far up a value is, from 0 to 1.
    fn part(&self, value: f64) -> f64 {
        let value = if self.log { value.max(f64::MIN_POSITIVE).log10() } else { value };
        ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    fn ticks(&self) -> Vec<f64> {
        if !self.log {
            return (0..=TICKS).map(|nth| self.high * f64::from(nth) / f64::from(TICKS)).collect();
        }
        let mut ticks = Vec::new();
        let mut power = self.low;
        while power <= self.high {
            ticks.push(10_f64.powf(power));
            power += 1.0;
        }
        ticks
    }
}

/// The next number that a scale may end at.
fn round_up(value: f64) -> f64 {
    let power = 10_f64.powf(value.max(f64::MIN_POSITIVE).log10().floor());
    [1.0, 2.0, 4.0, 6.0, 8.0, 10.0]
        .map(|times| times * power)
        .into_iter()
        .find(|end| *end >= value)
        .unwrap_or(1.0)
}

/// A number for a scale.
fn short(value: f64) -> String {
    let (value, unit) = match value {
        value if value >= 1e6 => (value / 1e6, " M"),
        value if value >= 1e3 => (value / 1e3, " k"),
        value => (value, ""),
    };
    let text = format!("{value:.3}");
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

/// A number for a table.
fn long(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

fn text(out: &mut String, (x, y): (f64, f64), anchor: &str, more: &str, words: &str) {
    let words = words.replace('&', "&amp;").replace('<', "&lt;");
    put(out, format_args!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" {more}>{words}</text>"));
}

fn line(out: &mut String, from: (f64, f64), to: (f64, f64), colour: &str) {
    let ((x1, y1), (x2, y2)) = (from, to);
    put(
        out,
        format_args!(
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\" stroke-width=\"1.5\"/>"
        ),
    );
}

/// Writing into a string can't fail.
fn put(out: &mut String, line: std::fmt::Arguments<'_>) {
    let _ = writeln!(out, "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(log: bool, values: &[Option<f64>]) -> Curve {
        let series = |name: &str| PlotSeries { name: name.to_owned(), values: values.to_vec() };
        Curve {
            name: "name",
            title: "title",
            along: "along <",
            points: (0..values.len()).map(|nth| nth.to_string()).collect(),
            panels: vec![Panel { title: "up", log, series: vec![series("one"), series("two")] }],
        }
    }

    #[test]
    fn every_value_is_a_dot_inside_the_panel_and_a_gap_is_none() {
        for log in [true, false] {
            let svg = curve(log, &[Some(0.02), None, Some(47_000.0)]).svg();
            let heights: Vec<f64> = svg
                .lines()
                .filter_map(|line| line.strip_prefix("<circle")?.split("cy=\"").nth(1)?.split('"').next())
                .map(|number| number.parse().unwrap())
                .collect();
            assert_eq!(heights.len(), 4, "{svg}");
            assert!(heights.iter().all(|height| (TOP..=TOP + HEIGHT).contains(height)), "{heights:?}");
            assert!(heights[0] > heights[1], "more is higher: {heights:?}");
            assert!(svg.contains("along &lt;") && !svg.contains("NaN") && !svg.contains("inf"));
        }
    }

    #[test]
    fn nothing_but_zeros_can_be_drawn() {
        for log in [true, false] {
            let svg = curve(log, &[Some(0.0)]).svg();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }

    #[test]
    fn scales_end_and_numbers_read_well() {
        let ends = [0.9, 1.0, 21.0, 63_500.0].map(|value| short(round_up(value)));
        assert_eq!(ends, ["1", "1", "40", "80 k"]);
        assert_eq!([0.0, 0.25, 1_500.0, 1e7].map(short), ["0", "0.25", "1.5 k", "10 M"]);
    }

    #[test]
    fn the_table_has_every_value() {
        let table = curve(false, &[Some(1.0), None]).table();
        assert_eq!(
            table,
            "| along < | up: one | up: two |\n|---:|---:|---:|\n| 0 | 1.00 | 1.00 |\n| 1 | – | – |\n"
        );
    }
}
