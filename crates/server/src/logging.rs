//! Where log lines go: standard error, one line per event, as text or JSON. Logging waits for nothing and ends nothing: a line that has
//! no room or can't be written is dropped.

use std::panic;
use stockhold_config::{LogFormat, check_log_level, standard_error};
use tracing_subscriber::EnvFilter;

/// Starts logging. `level` is a level or a list of `target=level`.
pub(crate) fn start(level: &str, format: LogFormat) -> Result<(), String> {
    check_log_level(level)?;
    let filter = EnvFilter::try_new(level).map_err(|error| format!("log_level {level:?}: {error}"))?;
    standard_error::start_queue().map_err(|error| format!("standard error: {error}"))?;
    let is_styled = matches!(format, LogFormat::Text) && std::io::IsTerminal::is_terminal(&std::io::stderr());
    // The library would print its own errors past the queue, and panic if that is not possible.
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(move || standard_error::LineWriter { is_styled })
        .log_internal_errors(false);
    let started = match format {
        LogFormat::Text => lines.with_ansi(is_styled).try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
    panic::set_hook(Box::new(|panic| {
        let at = panic.location().map(ToString::to_string).unwrap_or_default();
        let what = panic.payload_as_str().unwrap_or("no message");
        tracing::error!(at, what, "a panic: this is a bug");
    }));
    started.map_err(|error| error.to_string())
}
