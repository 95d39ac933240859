//! Which texts are a log level.

use tracing_subscriber::filter::LevelFilter;

/// Checks that the text is a level or a list of `target=level`. A single word that is not a level would be read as a target, and
/// would silence all others.
pub fn check(level: &str) -> Result<(), String> {
    let words = level.split(',').map(str::trim).filter(|word| !word.is_empty() && !word.contains(['=', '[']));
    for word in words {
        if word.parse::<LevelFilter>().is_err() {
            return Err(format!(
                "log_level {level:?}: {word:?} is no level: error, warn, info, debug, trace or off, or target=level for one \
                 target"
            ));
        }
    }
    Ok(())
}
