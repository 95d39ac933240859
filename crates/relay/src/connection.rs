//! What connections to other systems have in common.

use percent_encoding::percent_decode_str;
use std::error::Error;

/// A user and a password.
pub(crate) type User = (String, String);

/// Splits `user:password@rest`. Both are percent-encoded in an address, and may be absent.
pub(crate) fn split_user(authority: &str) -> (Option<User>, &str) {
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    match authority.rsplit_once('@') {
        Some((user, rest)) => {
            let (name, password) = user.split_once(':').unwrap_or((user, ""));
            (Some((decoded(name), decoded(password))), rest)
        }
        None => (None, authority),
    }
}

/// The innermost cause of an error, which says what happened.
pub(crate) fn last_cause(error: &(dyn Error + 'static)) -> String {
    let mut last = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    last.to_string()
}
