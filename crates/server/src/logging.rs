//! Where log lines go: standard error, one line per event, as text or JSON. Logging waits for nothing and ends nothing: a line that has
//! no room or can't be written is dropped.

use std::panic;
use stockhold_config::{LogFormat, check_log_level, standard_error};
use tracing_subscriber::EnvFilter;

/// Libraries that log what they send, passwords included, at the levels below `info`.
const TALKATIVE_LIBRARIES: [&str; 6] =
    ["async_nats", "lapin", "mysql_async", "redis", "rskafka", "tokio_postgres"];

/// Starts logging. `level` is a level or a list of `target=level`.
pub(crate) fn start(level: &str, format: LogFormat) -> Result<(), String> {
    check_log_level(level)?;
    let filter = filter(level)?;
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

/// The filter of a level or a list of `target=level`.
fn filter(level: &str) -> Result<EnvFilter, String> {
    let wrong = |error: &dyn std::fmt::Display| format!("log_level {level:?}: {error}");
    let talks = |part: &str| TALKATIVE_LIBRARIES.iter().any(|library| part.trim().starts_with(library));
    let others: Vec<_> = level.split(',').filter(|part| !talks(part)).collect();
    let mut filter = EnvFilter::try_new(others.join(",")).map_err(|error| wrong(&error))?;
    // A level that is lower than `info`, or not given, stays.
    let is_quiet = ["off", "error", "warn"].contains(&level.trim());
    for library in TALKATIVE_LIBRARIES.iter().filter(|_| !is_quiet) {
        filter = filter.add_directive(format!("{library}=info").parse().map_err(|error| wrong(&error))?);
    }
    Ok(filter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_level_lets_libraries_log_what_they_send() {
        for level in ["trace", "lapin=trace", "info,lapin::io_loop=trace", "debug, tokio_postgres = debug"] {
            let filter = filter(level).unwrap().to_string();
            let directives: Vec<_> = filter.split(',').collect();
            for library in TALKATIVE_LIBRARIES {
                let of_library: Vec<_> =
                    directives.iter().filter(|directive| directive.starts_with(library)).collect();
                assert_eq!(of_library, [&format!("{library}=info")], "{level}: {filter}");
            }
        }
        assert_eq!(filter("warn").unwrap().to_string(), "warn");
    }
}
