//! `stockhold doctor`: checks the machine, the configuration, the data directory and a running server, and says for each finding what
//! to do. It changes nothing. It writes one file beside the data to measure the disk, and removes it.

mod data;
mod disk;
mod machine;
mod network;

use super::server;
use anstyle::{AnsiColor, Style};
use clap::Args;
use serde::Serialize;
use std::process::ExitCode;
use stockhold_config::exit;
use stockhold_config::{Config, Flags, Loaded};

#[derive(Args)]
pub(super) struct DoctorArgs {
    #[command(flatten)]
    flags: Flags,
    /// Don't measure the disk
    #[arg(long)]
    no_disk: bool,
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Severity {
    /// Right.
    Ok,
    /// A warning: it works, but perhaps not for long, or not as well as it could.
    Look,
    /// It does not work.
    Wrong,
}

/// The result of one check. Field names are part of the interface.
#[derive(Clone, Debug, Serialize)]
struct Finding {
    check: &'static str,
    grade: Severity,
    says: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

fn ok(check: &'static str, says: impl Into<String>) -> Finding {
    Finding { check, grade: Severity::Ok, says: says.into(), advice: None }
}

fn look(check: &'static str, says: impl Into<String>, advice: impl Into<String>) -> Finding {
    Finding { check, grade: Severity::Look, says: says.into(), advice: Some(advice.into()) }
}

fn wrong(check: &'static str, says: impl Into<String>, advice: impl Into<String>) -> Finding {
    Finding { check, grade: Severity::Wrong, says: says.into(), advice: Some(advice.into()) }
}

/// Runs all checks, prints the findings, and exits with 1 if something is wrong.
pub(super) fn run(args: &DoctorArgs) -> ExitCode {
    server::block_on(async {
        let findings = args.findings().await;
        let wrong = findings.iter().filter(|finding| finding.grade == Severity::Wrong).count();
        let look = findings.iter().filter(|finding| finding.grade == Severity::Look).count();
        if args.json {
            let report = serde_json::json!({ "healthy": wrong == 0, "wrong": wrong, "look": look, "findings": findings });
            println!("{report:#}");
        } else {
            findings.iter().for_each(Finding::tell);
            match (wrong, look) {
                (0, 0) => println!("\nnothing is wrong"),
                (0, look) => println!("\nnothing is wrong; {look} to look at"),
                (wrong, look) => println!("\n{wrong} wrong, {look} to look at"),
            }
        }
        ExitCode::from(if wrong == 0 { exit::DONE } else { exit::FAILED })
    })
}

impl DoctorArgs {
    async fn findings(&self) -> Vec<Finding> {
        let mut findings = vec![machine::version()];
        let loaded = match self.flags.load() {
            Ok(loaded) => loaded,
            Err(why) => {
                let advice =
                    "correct it; nothing else was checked, because all other checks depend on the settings";
                findings.push(wrong("config", why, advice));
                return findings;
            }
        };
        findings.push(settings(&loaded));
        let config = &loaded.config;
        findings.push(machine::processors(config));
        findings.push(machine::open_files());
        if config.store.is_embedded() {
            findings.extend(disk::check(config, !self.no_disk));
            findings.extend(data::check(&config.data_dir));
        } else {
            findings.extend(data::elsewhere(&config.store));
        }
        findings.extend(permissions(config));
        findings.extend(network::certificate(config));
        findings.extend(network::check(config).await);
        findings
    }
}

/// The settings that are not defaults, with their sources.
fn settings(loaded: &Loaded) -> Finding {
    let entries = loaded.entries();
    let own = entries.iter().filter(|(.., from)| from != "default");
    let shown: Vec<String> = own.map(|(key, value, from)| format!("{key} = {value} ({from})")).collect();
    if shown.is_empty() {
        return ok("config", "all defaults; `stockhold config` prints them");
    }
    ok("config", format!("valid: {}", shown.join(", ")))
}

/// Whether other users of this machine can read what the server writes.
fn permissions(config: &Config) -> Vec<Finding> {
    let advice = "reservations, personal data and secrets are in these files";
    let wide = config.wide_files();
    wide.into_iter().map(|says| look("permissions", says, advice)).collect()
}

impl Finding {
    fn tell(&self) {
        let (word, colour) = match self.grade {
            Severity::Ok => ("ok", AnsiColor::Green),
            Severity::Look => ("look", AnsiColor::Yellow),
            Severity::Wrong => ("WRONG", AnsiColor::Red),
        };
        let style = Style::new().fg_color(Some(colour.into()));
        println_styled!(style, &format!("{word:<5}"), "  {:<12} {}", self.check, self.says);
        if let Some(advice) = &self.advice {
            println!("       {:<12} → {advice}", "");
        }
    }
}

fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}
