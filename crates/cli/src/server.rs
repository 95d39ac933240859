//! Which server a command speaks to, and how it is told what came of it.
//!
//! Nothing here decides whether to ask again: that is the caller's patience (`call`).

use super::client::CallError;
use std::process::ExitCode;
use stockhold_api::wire::Problem;
use stockhold_config::Flags;
use stockhold_config::exit;

/// The variable that names the server.
pub(crate) const VARIABLE: &str = "STOCKHOLD_SERVER";
/// How an address begins that wants TLS.
const TLS: &str = "https://";

/// Where the server is.
#[derive(clap::Args, Clone, Debug, Default)]
pub(super) struct ServerArgs {
    /// The server's API, like http://127.0.0.1:8101 [default: where `serve` would listen here: `listen` of
    /// ./stockhold.toml or STOCKHOLD_LISTEN, else http://127.0.0.1:8101]
    #[arg(long, visible_alias = "url", value_name = "URL", env = VARIABLE, global = true)]
    server: Option<String>,
}

/// Where the server's health and metrics are.
#[derive(clap::Args, Clone, Debug, Default)]
pub(super) struct AdminArgs {
    /// The server's admin listener, like http://127.0.0.1:8102 [default: where `serve` would listen here]
    #[arg(long, value_name = "URL")]
    admin: Option<String>,
}

impl ServerArgs {
    /// The server's address.
    pub(super) fn url(&self) -> Result<String, String> {
        // A variable that is there and empty is as good as none.
        match self.server.as_deref().filter(|url| !url.is_empty()) {
            Some(url) => http_url(url),
            None => Ok(format!("http://{}", Flags::default().load()?.config.listen)),
        }
    }
}

impl AdminArgs {
    /// The admin listener's address.
    pub(super) fn url(&self) -> Result<String, String> {
        match &self.admin {
            Some(url) => http_url(url),
            None => Ok(format!("http://{}", Flags::default().load()?.config.admin_listen)),
        }
    }
}

/// An address as it is asked for, unless it wants TLS.
fn http_url(url: &str) -> Result<String, String> {
    if url.get(..TLS.len()).is_some_and(|scheme| scheme.eq_ignore_ascii_case(TLS)) {
        return Err(format!(
            "{url}: commands speak plain HTTP only. Let a proxy or a tunnel on this side speak TLS to the server, and name \
             that one's address, like http://127.0.0.1:8101"
        ));
    }
    Ok(url.trim_end_matches('/').to_owned())
}

/// Runs what speaks to a server, on this thread.
pub(super) fn block_on(work: impl Future<Output = ExitCode>) -> ExitCode {
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => tokio::task::LocalSet::new().block_on(&runtime, work),
        Err(error) => exit::because(exit::FAILED, format!("starting the runtime: {error}")),
    }
}

/// The exit code of what went wrong.
pub(super) fn exit_code(failed: &CallError) -> u8 {
    match failed {
        CallError::TimedOut { .. } => exit::NO_ANSWER,
        CallError::Refused(_) | CallError::Unexpected(_) => exit::FAILED,
    }
}

/// Says what went wrong and what to do about it.
pub(super) fn explain(url: &str, failed: &CallError) -> String {
    match failed {
        CallError::Refused(problem) => refusal(url, problem),
        CallError::TimedOut { answered: true, .. } => format!(
            "{url}: {failed}\nThe server is there, and /readyz on its admin listener says why (`stockhold doctor` looks there \
             too)."
        ),
        CallError::TimedOut { .. } => format!(
            "{url}: {failed}\nIs a server running there? Start one with `stockhold serve`, or name it with --server \
             (or {VARIABLE})."
        ),
        CallError::Unexpected(what) => format!("{url}: {what}"),
    }
}

/// A refusal with all that it carries: reason, fields, figures, and the page that says what to do.
fn refusal(url: &str, problem: &Problem) -> String {
    use std::fmt::Write;
    let mut text = format!("{}: {}", problem.reason, problem.detail);
    // Writing to a String does not fail.
    for error in problem.errors.iter().filter(|error| !problem.detail.contains(&error.detail)) {
        let _ = write!(text, "\n  {}: {}", error.pointer, error.detail);
    }
    // One line's figures are in the sentence.
    for line in problem.lines.iter().filter(|_| problem.lines.len() > 1) {
        let _ = write!(
            text,
            "\n  {} at {}: {} asked for, {} available",
            line.sku, line.location, line.requested_quantity, line.available
        );
        if let Some(at) = line.next_expiry_at {
            let _ = write!(text, "; the earliest hold ends at {}", stockhold_api::encode::time(at));
        }
    }
    if problem.retryable {
        text.push_str("\nThe same command may succeed later.");
    }
    let page =
        if problem.kind.starts_with('/') { format!("{url}{}", problem.kind) } else { problem.kind.clone() };
    let _ = write!(text, "\nWhat it means and what to do: {page}");
    text
}

/// A problem as the server sent it.
pub(super) fn problem_json(problem: &Problem) -> serde_json::Value {
    use serde_json::json;
    let mut object = json!({
        "type": problem.kind,
        "title": problem.title,
        "status": problem.status,
        "detail": problem.detail,
        "reason": problem.reason,
        "retryable": problem.retryable,
        "request_id": problem.request_id,
    });
    let errors: Vec<_> = problem
        .errors
        .iter()
        .map(|error| json!({ "pointer": error.pointer, "detail": error.detail }))
        .collect();
    let lines: Vec<_> = problem
        .lines
        .iter()
        .map(|line| {
            json!({
                "sku": line.sku,
                "location": line.location,
                "requested_quantity": line.requested_quantity,
                "available": line.available,
                "next_expiry_at": line.next_expiry_at.map(stockhold_api::encode::time),
            })
        })
        .collect();
    for (name, list) in [("errors", errors), ("lines", lines)] {
        if !list.is_empty() {
            object[name] = json!(list);
        }
    }
    for (name, value) in &problem.more {
        object[name] = value.clone();
    }
    object
}
