//! The layers of tests as programs that fail or do not.

use crate::ends::ended_within;
use crate::spawn::{Process, scratch, server_with, workspace};
use crate::{Outcome, fail};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The crates whose tests meet a bug, in this order.
const CRATES: [&str; 4] = ["stockhold-domain", "stockhold-store", "stockhold-embedded", "stockhold-sim"];
const FEATURE: &str = "stockhold-domain/seeded-bugs";
/// What the harness does to a server with a bug: enough that a bug that belongs there is met. One round of a kind is run
/// for each entry.
const SERVER_ROUNDS: [(&str, &[&str]); 3] = [
    ("kill −9 under load", &["crash", "--only", "kills", "--kills", "25"]),
    ("failing disks", &["crash", "--only", "disk", "--disk-faults", "21"]),
    ("power cuts", &["powercut", "--images", "40"]),
];
/// A test that a bug keeps from ending is a test that caught it.
const PATIENCE: Duration = Duration::from_mins(5);
const WORDS: usize = 160;
/// Lines that are shown of a layer that fails where nothing is wrong with it.
const LINES: usize = 80;

/// One layer.
#[derive(Debug)]
pub(super) struct Layer {
    pub(super) name: String,
    program: PathBuf,
    arguments: Vec<String>,
    /// Where its tests expect to run.
    folder: PathBuf,
}

/// What a layer says of a bug.
#[derive(Debug)]
pub(super) enum Verdict {
    Passed,
    /// With all that it printed.
    Caught(String),
}

/// Builds everything once.
pub(super) fn build(tests_only: bool) -> Outcome<Vec<Layer>> {
    let mut layers = tests()?;
    if !tests_only {
        let server = server_with("seeded-bugs")?;
        let harness = std::env::current_exe()?;
        for (name, arguments) in SERVER_ROUNDS {
            let mut arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
            arguments.extend(["--server".to_owned(), server.display().to_string()]);
            layers.push(Layer {
                name: name.to_owned(),
                program: harness.clone(),
                arguments,
                folder: workspace(),
            });
        }
    }
    Ok(layers)
}

fn tests() -> Outcome<Vec<Layer>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args([
        "test",
        "--no-run",
        "--release",
        "--quiet",
        "--message-format=json",
        "--features",
        FEATURE,
    ]);
    for krate in CRATES {
        command.args(["--package", krate]);
    }
    let output = command.current_dir(workspace()).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return fail("the tests do not build with the seeded bugs in them");
    }
    let mut layers = Vec::new();
    for line in String::from_utf8(output.stdout)?.lines() {
        let message: Value = serde_json::from_str(line)?;
        let (Some(program), Some(manifest)) =
            (message["executable"].as_str(), message["manifest_path"].as_str())
        else {
            continue;
        };
        let folder = Path::new(manifest).parent().ok_or("a manifest in no folder")?.to_owned();
        let krate = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let target = message["target"]["kind"][0].as_str().unwrap_or_default().to_owned();
        layers.push(Layer {
            name: format!("{krate} ({})", if target == "test" { "tests" } else { "unit tests" }),
            program: program.into(),
            arguments: Vec::new(),
            folder,
        });
    }
    let order = |layer: &Layer| {
        let crate_of = |name: &str| layer.name.starts_with(name.trim_start_matches("stockhold-"));
        (CRATES.iter().position(|name| crate_of(name)), layer.name.contains("(tests)"))
    };
    layers.sort_by_key(order);
    if layers.len() < CRATES.len() { fail(format!("only {layers:?}")) } else { Ok(layers) }
}

impl Layer {
    /// Runs it with a bug; with none when the name is empty.
    pub(super) fn run(&self, bug: &str) -> Outcome<Verdict> {
        let folder = scratch(None, "stockhold-bugs-")?;
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .current_dir(&self.folder)
            .env("SEEDED_BUG", bug)
            // A failure is enough: nobody reads the smallest one.
            .env("PROPTEST_MAX_SHRINK_ITERS", "0")
            .env("RUST_BACKTRACE", "0");
        let mut process = Process::start(command, &folder.path().join("said"))?;
        match ended_within(&mut process, PATIENCE)? {
            Some(status) if status.success() => Ok(Verdict::Passed),
            Some(_) => Ok(Verdict::Caught(process.log())),
            None => Ok(Verdict::Caught(format!("{}\nit does not end within {PATIENCE:?}", process.log()))),
        }
    }
}

/// The end of what it printed.
pub(super) fn last_lines(said: &str) -> String {
    let lines: Vec<&str> = said.lines().collect();
    lines.get(lines.len().saturating_sub(LINES)..).unwrap_or_default().join("\n")
}

/// Which test failed, or what the harness said.
pub(super) fn first_words(said: &str) -> String {
    let failed =
        |line: &&str| line.starts_with("test ") && line.ends_with("FAILED") || line.starts_with("failed: ");
    let words = match said.lines().find(failed) {
        Some(line) => line.trim_start_matches("test ").trim_end_matches(" ... FAILED"),
        None => said.lines().last().unwrap_or_default(),
    };
    // The harness's own words span lines: the second says what was wrong.
    let more = said.lines().skip_while(|line| !line.starts_with("failed: ")).nth(1).unwrap_or_default();
    format!("{words} {more}").trim().chars().take(WORDS).collect()
}
