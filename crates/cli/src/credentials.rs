//! What commands need to reach a server that speaks TLS or asks for credentials. It comes from the environment only: all users of a
//! machine can see command lines.

use std::net::IpAddr;
use std::path::Path;
use stockhold_api::client::ClientAccess;

/// Names a PEM file of the certificates that are trusted, instead of those of the system.
const CA_FILE: &str = "STOCKHOLD_CA_FILE";
/// The API key.
const API_KEY: &str = "STOCKHOLD_API_KEY";
/// Names a file that holds the API key and nothing else.
const API_KEY_FILE: &str = "STOCKHOLD_API_KEY_FILE";
/// Longest file of a key, in bytes.
const KEY_FILE_BYTES: u64 = 16 * 1024;
/// What to do when TLS with a server fails.
pub(crate) const TLS_ADVICE: &str = "If an authority of your own has issued the server's certificate, name the authority's PEM file in \
    STOCKHOLD_CA_FILE. The address must have a name that the certificate is for.";

/// The certificates and the key for the server at `url`. `plain_http`: the key may be read on the way.
pub(crate) fn access(url: &str, plain_http: bool) -> Result<ClientAccess, String> {
    let access = certificates();
    let Some(key) = key()? else { return Ok(access) };
    if can_be_overheard(url) && !plain_http {
        return Err(format!(
            "the API key is not sent to {url} without encryption, because everybody on the way could read it. Use https://, or \
             --plain-http on a network that you trust"
        ));
    }
    access.with_api_key(&key).map_err(|error| format!("{}: {error}", key_variable()))
}

/// The certificates alone.
pub(crate) fn certificates() -> ClientAccess {
    match variable(CA_FILE) {
        Some(file) => ClientAccess::default().with_ca_file(file),
        None => ClientAccess::default(),
    }
}

/// What to do about an answer that is about credentials.
pub(crate) fn advice(status: u16) -> Option<String> {
    let has_key = variable(API_KEY).is_some() || variable(API_KEY_FILE).is_some();
    match (status, has_key) {
        (401, true) => Some(format!("The server does not accept the key of {}.", key_variable())),
        (401, false) => Some(format!(
            "Set {API_KEY} to an API key of this server, or {API_KEY_FILE} to a file that holds one."
        )),
        (403, true) => Some(format!("The key of {} has no right to this: use another one.", key_variable())),
        _ => None,
    }
}

/// The key, if there is one. An error does not repeat it.
fn key() -> Result<Option<String>, String> {
    match (variable(API_KEY), variable(API_KEY_FILE)) {
        (Some(_), Some(_)) => {
            Err(format!("{API_KEY} and {API_KEY_FILE} are both set: unset the one that is not meant"))
        }
        (Some(key), None) => Ok(Some(key)),
        (None, Some(file)) => key_in(Path::new(&file)).map(Some),
        (None, None) => Ok(None),
    }
}

fn key_in(file: &Path) -> Result<String, String> {
    let wrong = |what: &str| format!("{API_KEY_FILE}: {}: {what}", file.display());
    let length = std::fs::metadata(file).map_err(|error| wrong(&error.to_string()))?.len();
    if length > KEY_FILE_BYTES {
        return Err(wrong("is too long for a key"));
    }
    let text = std::fs::read_to_string(file).map_err(|error| wrong(&error.to_string()))?;
    match text.trim() {
        "" => Err(wrong("is empty")),
        key => Ok(key.to_owned()),
    }
}

/// The variable that the key is from.
fn key_variable() -> &'static str {
    if variable(API_KEY).is_some() { API_KEY } else { API_KEY_FILE }
}

/// A variable that is set. An empty one counts as not set. In one that is not UTF-8, a sign stands for each part that is not, so
/// that it is refused and not ignored.
fn variable(name: &str) -> Option<String> {
    let value = std::env::var_os(name).filter(|value| !value.is_empty())?;
    Some(value.to_string_lossy().into_owned())
}

/// Whether what is sent to this address can be read on the way.
fn can_be_overheard(url: &str) -> bool {
    let Ok(uri) = url.parse::<hyper::Uri>() else { return false };
    let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let stays_here = match host.parse::<IpAddr>() {
        // A connection to the unspecified address goes to this machine.
        Ok(address) => address.is_loopback() || address.is_unspecified(),
        Err(_) => host.eq_ignore_ascii_case("localhost"),
    };
    uri.scheme_str() == Some("http") && !stays_here
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_can_read_along() {
        for url in ["http://stock.example", "http://10.0.0.1:8101", "http://[2001:db8::1]:8101"] {
            assert!(can_be_overheard(url), "{url}");
        }
        for url in [
            "https://stock.example",
            "http://localhost:8101",
            "http://127.0.0.1:8101",
            "http://127.9.9.9",
            "http://[::1]:8101",
            "http://0.0.0.0:8101",
        ] {
            assert!(!can_be_overheard(url), "{url}");
        }
    }

    #[test]
    fn a_file_holds_one_key() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let read = |text: &str| {
            std::fs::write(file.path(), text).unwrap();
            key_in(file.path())
        };
        assert_eq!(read("sh_live_1\n"), Ok("sh_live_1".to_owned()));
        assert!(read(" \n").unwrap_err().ends_with("is empty"));
        assert!(read(&"x".repeat(20_000)).unwrap_err().ends_with("is too long for a key"));
        assert!(key_in(Path::new("/nowhere/key")).unwrap_err().contains("/nowhere/key: No such file"));
    }
}
