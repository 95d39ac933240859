//! `stockhold backup`: copies the log into another directory, while a server may be running on it.

use super::audit_errors::may_read;
use super::plural::counted;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use stockhold_config::DataDir;
use stockhold_config::exit;
use stockhold_embedded::{BackupSummary, OpenError, VerifyReport};

#[derive(clap::Args)]
pub(super) struct BackupArgs {
    /// Directory of the backup. It is created if it does not exist, and updated if it has an earlier backup
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    #[command(flatten)]
    place: DataDir,
    /// Don't recount the copy. Its checksums are checked anyway, and `stockhold verify --data-dir DIR` can recount it later
    #[arg(long)]
    no_verify: bool,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct BackupReport {
    from: String,
    to: String,
    /// The last batch of the earlier backup.
    begun_at_batch: u64,
    batches_copied: u64,
    bytes_copied: u64,
    batch: u64,
    position: u64,
    newest: Option<String>,
    seconds: f64,
    verified: Option<bool>,
    findings: Vec<String>,
}

/// Copies, recounts and reports.
pub(super) fn run(args: &BackupArgs) -> ExitCode {
    let from = match args.place.find() {
        Ok(from) => from,
        Err(why) => return exit::because(exit::USAGE, why),
    };
    if let Err((code, why)) = may_read(&from) {
        return exit::because(code, why);
    }
    let begun = Instant::now();
    let bar = bar("copying");
    let copied = stockhold_embedded::backup(&from, &args.to, |done, all| {
        bar.set_length(all);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    let copied = match copied {
        Ok(copied) => copied,
        Err(error) => return cut(&error),
    };
    let took = begun.elapsed();
    let verdict = match args.recount() {
        Ok(verdict) => verdict,
        Err(error) => return cut(&error),
    };
    let sound = verdict.as_ref().is_none_or(|verdict| verdict.drift == 0);
    let report = BackupReport::new(args, &from, &copied, took, verdict);
    if args.json {
        println!("{:#}", serde_json::json!(report));
    } else {
        report.tell();
    }
    ExitCode::from(if sound { exit::DONE } else { exit::FAILED })
}

fn cut(error: &OpenError) -> ExitCode {
    let code = if matches!(error, OpenError::Io { .. }) { exit::FAILED } else { exit::DATA };
    exit::because(code, error)
}

fn bar(what: &'static str) -> ProgressBar {
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} batches {eta}") {
        bar.set_style(style);
    }
    bar.with_message(what)
}

impl BackupArgs {
    fn recount(&self) -> Result<Option<VerifyReport>, OpenError> {
        if self.no_verify {
            return Ok(None);
        }
        let bar = bar("recounting");
        let verdict = stockhold_embedded::verify(&self.to, |done, all| {
            bar.set_length(all);
            bar.set_position(done);
        });
        bar.finish_and_clear();
        verdict.map(Some)
    }
}

impl BackupReport {
    fn new(
        args: &BackupArgs,
        from: &std::path::Path,
        copied: &BackupSummary,
        took: Duration,
        verdict: Option<VerifyReport>,
    ) -> Self {
        Self {
            from: from.display().to_string(),
            to: args.to.display().to_string(),
            begun_at_batch: copied.begun_at,
            batches_copied: copied.batches,
            bytes_copied: copied.bytes,
            batch: copied.batch,
            position: copied.position,
            newest: copied.at.map(stockhold_api::encode::time),
            seconds: took.as_secs_f64(),
            verified: verdict.as_ref().map(|verdict| verdict.drift == 0),
            findings: verdict.map(|verdict| verdict.findings).unwrap_or_default(),
        }
    }

    fn tell(&self) {
        let how = match (self.begun_at_batch, self.batches_copied) {
            (0, _) => "a full copy".to_owned(),
            (begun, 0) => format!("nothing new since batch {begun}"),
            (begun, _) => format!("continued after batch {begun}"),
        };
        println!(
            "{how}: {}, {} in {:.1} s",
            counted(self.batches_copied, "batch", "batches"),
            indicatif::HumanBytes(self.bytes_copied),
            self.seconds
        );
        println!(
            "{} holds everything up to batch {}, position {}, decided at {}",
            self.to,
            self.batch,
            self.position,
            self.newest.as_deref().unwrap_or("no time: the log is empty")
        );
        match self.verified {
            None => println!("synced; not recounted (--no-verify)"),
            Some(true) => println!("synced and recounted: everything is consistent"),
            Some(false) => {
                for finding in &self.findings {
                    println!("drift: {finding}");
                }
                println!("synced, but NOT consistent; `stockhold verify --data-dir {}` says more", self.to);
            }
        }
        println!(
            "to restore: stop the server, copy this directory into an empty one, and run `stockhold serve` on the copy"
        );
    }
}
