//! `stockhold archive` of a data directory that a server uses: the server does it, one file for each request.

use super::ArchiveArgs;
use super::report::tell;
use crate::client::{CallError, RetryClient};
use crate::server::{block_on, exit_code, explain};
use indicatif::ProgressBar;
use serde::Deserialize;
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use stockhold_api::wire::Problem;
use stockhold_config::exit;
use stockhold_store::ArchiveSummary;

/// How long a server may be away while it is asked. A file takes seconds, and what is on its way is not lost.
const PATIENCE: Duration = Duration::from_mins(2);

#[derive(Deserialize)]
struct Report {
    after: u64,
    through: u64,
    dropped_events: u64,
    dropped_through: u64,
    reservations: u64,
    held_back_by: Option<String>,
    held_back_position: Option<u64>,
    complete: bool,
}

/// Asks the server until nothing is left to do, and reports.
pub(super) fn run(args: &ArchiveArgs, to: &Path, url: &str) -> Result<(), (u8, String)> {
    let absolute =
        std::path::absolute(to).map_err(|error| (exit::FAILED, format!("{}: {error}", to.display())))?;
    let body = json!({
        "older_than_hours": args.older_than.as_secs().div_ceil(3_600),
        "to": absolute,
        "drop": args.drop,
        "ignore_sinks": args.ignore_sink,
    });
    let body = body.to_string();
    let mut outcome = Err((exit::FAILED, String::new()));
    block_on(async {
        outcome = ask(url, args.plain_http, body.as_bytes()).await;
        ExitCode::SUCCESS
    });
    let done = outcome?;
    tell(args, to, &done);
    Ok(())
}

/// Whether the server refuses the directory: what the credential lacks would be named.
fn is_other_directory(problem: &Problem) -> bool {
    problem.status == 403 && !problem.more.contains_key("missing")
}

async fn ask(url: &str, plain_http: bool, body: &[u8]) -> Result<ArchiveSummary, (u8, String)> {
    let say = |what: &str| eprintln!("stockhold: {what}");
    let failed = |error| {
        // An age or a directory that the server refuses is a wrong command line, as without a server.
        match &error {
            CallError::Refused(problem) if problem.status == 400 => (exit::USAGE, explain(url, &error)),
            CallError::Refused(problem) if is_other_directory(problem) => {
                let advice = "Set `dir` of `[archive]` (STOCKHOLD_ARCHIVE__DIR) in the configuration of the server, and start it again";
                (exit::USAGE, format!("{}. {advice}", explain(url, &error).trim_end_matches('.')))
            }
            other => (exit_code(other), explain(url, &error)),
        }
    };
    let client = RetryClient::new(url, plain_http, PATIENCE, Box::new(say)).map_err(failed)?;
    let bar = ProgressBar::new_spinner();
    let mut done: Option<ArchiveSummary> = None;
    loop {
        let answer = client.send("POST", "/v1/archive", body).await.map_err(failed)?;
        let report: Report = serde_json::from_slice(&answer.body).map_err(|error| {
            (exit::FAILED, format!("{url}: it did not answer like a Stockhold server: {error}"))
        })?;
        bar.set_message(format!("archived up to position {}", report.through));
        bar.tick();
        let before =
            done.take().unwrap_or(ArchiveSummary { after: report.after, ..ArchiveSummary::default() });
        let all = ArchiveSummary {
            after: before.after,
            through: report.through,
            dropped: before.dropped + report.dropped_events,
            dropped_through: report.dropped_through,
            reservations: before.reservations + report.reservations,
            held_back: report.held_back_by.zip(report.held_back_position),
            is_complete: report.complete,
        };
        if all.is_complete {
            bar.finish_and_clear();
            return Ok(all);
        }
        done = Some(all);
    }
}
