//! `cargo xtask curves`: how rates, latency, memory and restart go with what there is and what is asked. Each curve is one
//! pass over its points, audited like every run; plots and tables go into the performance page.

mod plot;
mod sweep;

use crate::bench::{Lab, Scale, describe, provenance, write};
use crate::load::{LOAD_CPU, Plan, pin, raise_open_files};
use crate::spawn::{Build, scratch, server_binary, workspace};
use crate::{Outcome, fail};
use clap::Args;
use plot::Curve;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use sweep::{Ranges, Sweep};

/// Where the plots and their tables go.
const PAGE: &str = "docs/performance.md";
const PLOTS: &str = "docs/performance";
const MARKERS: &str = "curves";

/// How the curves are measured.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Fewer and smaller points, each for a second: for a first look; written only if asked
    #[arg(long)]
    short: bool,
    /// Next to nothing, to find out whether everything runs: its figures mean nothing
    #[arg(long, conflicts_with_all = ["short", "write"])]
    trial: bool,
    /// Only these curves: connections, holds, items, basket, delay
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Write into this page and the folder of its name beside it [default for all curves in full: docs/performance.md]
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Where the temporary data goes: the disk that is measured
    #[arg(long, value_name = "DIR")]
    disk: Option<PathBuf>,
    /// Use this server instead of building one
    #[arg(long, value_name = "FILE")]
    server: Option<PathBuf>,
}

/// Runs them.
pub(crate) fn run(options: &Options) -> Outcome<()> {
    if let Some(unknown) =
        options.only.iter().find(|name| !Sweep::ALL.iter().any(|sweep| sweep.name() == **name))
    {
        return fail(format!("no such curve: {unknown}"));
    }
    let (ranges, scale, measure) = match (options.short, options.trial) {
        (true, _) => (Ranges::SHORT, Scale::TENTH, Duration::from_secs(1)),
        (_, true) => (Ranges::TRIAL, Scale::TRIAL, Duration::from_millis(100)),
        _ => (Ranges::FULL, Scale::FULL, Duration::from_secs(4)),
    };
    let plan = Plan { warm_up: measure / 4, measure };
    let binary = server_binary(options.server.as_deref(), Build::Dist)?;
    let folder = scratch(options.disk.as_deref(), "stockhold-curves-")?;
    raise_open_files()?;
    pin(LOAD_CPU)?;
    let machine = describe(folder.path())?;
    println!("{}", machine.join("\n"));
    let lab = Lab::open(&binary, folder.path(), scale)?;

    let mut curves = Vec::new();
    for sweep in Sweep::ALL {
        if options.only.is_empty() || options.only.iter().any(|name| name == sweep.name()) {
            curves.extend(sweep.measure(&lab, &ranges, plan)?);
        }
    }
    for curve in &curves {
        println!("\n{}\n\n{}", curve.title, curve.table());
    }
    let whole = options.only.is_empty() && !options.short && !options.trial;
    let page = options.write.clone().or_else(|| whole.then(|| workspace().join(PAGE)));
    let Some(page) = page else { return Ok(()) };
    let plots =
        if whole && options.write.is_none() { workspace().join(PLOTS) } else { page.with_extension("") };
    let short = if options.short { " --short" } else { "" };
    let about = format!("`cargo xtask curves{short}`, {}\n\n- {}\n", provenance()?, machine.join("\n- "));
    publish(&page, &plots, &about, &curves)
}

/// Writes the plots, and a page's part that shows them.
fn publish(page: &Path, plots: &Path, about: &str, curves: &[Curve]) -> Outcome<()> {
    std::fs::create_dir_all(plots)?;
    let beside = plots.file_name().unwrap_or_default().display().to_string();
    let mut text = about.to_owned();
    for curve in curves {
        std::fs::write(plots.join(format!("{}.svg", curve.name)), curve.svg())?;
        write!(text, "\n![{}]({beside}/{}.svg)\n\n{}", curve.title, curve.name, curve.table())?;
    }
    write(page, MARKERS, &text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plot::{Panel, PlotSeries};

    #[test]
    fn a_page_shows_its_plots() {
        let folder = tempfile::tempdir().unwrap();
        let page = folder.path().join("page.md");
        std::fs::write(&page, "<!-- curves:begin -->\n<!-- curves:end -->\n").unwrap();
        let series = PlotSeries { name: "reserves".to_owned(), values: vec![Some(1.0), Some(2.0)] };
        let panel = Panel { title: "per second", log: false, series: vec![series] };
        let curve = Curve {
            name: "holds",
            title: "What there is",
            along: "active holds",
            points: vec!["1".to_owned(), "10".to_owned()],
            panels: vec![panel],
        };
        publish(&page, &folder.path().join("page"), "about\n", &[curve]).unwrap();
        let text = std::fs::read_to_string(&page).unwrap();
        assert!(
            text.contains(
                "about\n\n![What there is](page/holds.svg)\n\n| active holds | per second: reserves |"
            ),
            "{text}"
        );
        assert!(std::fs::read_to_string(folder.path().join("page/holds.svg")).unwrap().starts_with("<svg"));
    }
}
