//! Which server a command talks to, and how its refusals are shown.
//!
//! Nothing here retries: `client` does.

use super::client::CallError;
use super::credentials;
use std::process::ExitCode;
use stockhold_api::wire::Problem;
use stockhold_config::Flags;
use stockhold_config::exit;

/// The variable that names the server.
pub(crate) const VARIABLE: &str = "STOCKHOLD_SERVER";

/// The address of the server.
#[derive(clap::Args, Clone, Debug, Default)]
pub(super) struct ServerArgs {
    /// Address of the server's API, with http:// or https:// [default: the address that `serve` would use here: STOCKHOLD_LISTEN, else `listen` of
    /// ./stockhold.toml, else http://127.0.0.1:8101]
    #[arg(
        long,
        visible_alias = "url",
        value_name = "URL",
        env = VARIABLE,
        global = true,
        help_heading = "Global options"
    )]
    server: Option<String>,
    /// Send the API key to another machine without TLS, where everybody on the way can read it
    #[arg(long, global = true, help_heading = "Global options")]
    pub(super) plain_http: bool,
}

/// The address of the server's admin listener.
#[derive(clap::Args, Clone, Debug, Default)]
pub(super) struct AdminArgs {
    /// Address of the server's admin listener [default: the address that `serve` would use here, else http://127.0.0.1:8102]
    #[arg(long, value_name = "URL")]
    admin: Option<String>,
}

impl ServerArgs {
    /// The server's address.
    pub(super) fn url(&self) -> Result<String, String> {
        // An empty variable counts as not set.
        match self.server.as_deref().filter(|url| !url.is_empty()) {
            Some(url) => Ok(without_slash(url)),
            None => {
                let config = Flags::default().load()?.config;
                Ok(format!("{}://{}", config.scheme(), config.listen))
            }
        }
    }
}

impl AdminArgs {
    /// The admin listener's address.
    pub(super) fn url(&self) -> Result<String, String> {
        match &self.admin {
            Some(url) => Ok(without_slash(url)),
            None => Ok(format!("http://{}", Flags::default().load()?.config.admin_listen)),
        }
    }
}

/// An address without the slash at its end.
fn without_slash(url: &str) -> String {
    url.trim_end_matches('/').to_owned()
}

/// Runs a future on this thread until it ends.
pub(super) fn block_on(work: impl Future<Output = ExitCode>) -> ExitCode {
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => tokio::task::LocalSet::new().block_on(&runtime, work),
        Err(error) => exit::because(exit::FAILED, format!("starting the runtime: {error}")),
    }
}

/// The exit code of an error.
pub(super) fn exit_code(failed: &CallError) -> u8 {
    match failed {
        CallError::TimedOut { .. } => exit::NO_ANSWER,
        CallError::Refused(_) | CallError::Unexpected(_) => exit::FAILED,
    }
}

/// The error text: what went wrong and what to do about it.
pub(super) fn explain(url: &str, failed: &CallError) -> String {
    match failed {
        CallError::Refused(problem) => refusal(url, problem),
        CallError::TimedOut { answered: true, .. } => format!(
            "{url}: {failed}\nThe server answers. /readyz on its admin listener says why it is not ready, and so does `stockhold \
             doctor`."
        ),
        CallError::TimedOut { .. } => format!(
            "{url}: {failed}\nIs a server running there? Start one with `stockhold serve`, or give its address with --server \
             (or {VARIABLE})."
        ),
        CallError::Unexpected(what) => format!("{url}: {what}"),
    }
}

/// The text of a refusal: its reason, fields and numbers, and the page that says what to do.
fn refusal(url: &str, problem: &Problem) -> String {
    use std::fmt::Write;
    let mut text = format!("{}: {}", problem.reason, problem.detail);
    // Writing to a String does not fail.
    for error in problem.errors.iter().filter(|error| !problem.detail.contains(&error.detail)) {
        let _ = write!(text, "\n  {}: {}", error.pointer, error.detail);
    }
    // The numbers of a single line are in the detail.
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
    if let Some(advice) = credentials::advice(problem.status) {
        let _ = write!(text, "\n{advice}");
    }
    let page =
        if problem.kind.starts_with('/') { format!("{url}{}", problem.kind) } else { problem.kind.clone() };
    let _ = write!(text, "\nWhat it means and what to do: {page}");
    text
}

/// A problem as JSON, as the server sent it.
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
