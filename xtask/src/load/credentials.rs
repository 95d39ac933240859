//! Traffic of callers with credentials.

use super::Traffic;
use crate::Outcome;

const LINE_END: &[u8] = b"\r\n";

/// A request with a credential behind its first line.
pub(crate) fn with_credential(request: &[u8], credential: &str, out: &mut Vec<u8>) {
    let first = memchr::memmem::find(request, LINE_END).map_or(0, |at| at + LINE_END.len());
    out.extend_from_slice(&request[..first]);
    out.extend_from_slice(b"Authorization: Bearer ");
    out.extend_from_slice(credential.as_bytes());
    out.extend_from_slice(LINE_END);
    out.extend_from_slice(&request[first..]);
}

/// Other traffic, with the next of these credentials in each request. After the last one comes the first one again.
#[derive(Debug)]
pub(crate) struct WithCredentials<'a, T> {
    pub(crate) traffic: T,
    credentials: &'a [String],
    next: usize,
    request: Vec<u8>,
}

impl<'a, T> WithCredentials<'a, T> {
    pub(crate) fn new(traffic: T, credentials: &'a [String]) -> Self {
        Self { traffic, credentials, next: 0, request: Vec::new() }
    }
}

impl<T: Traffic> Traffic for WithCredentials<'_, T> {
    fn request(&mut self, connection: usize, out: &mut Vec<u8>) -> bool {
        self.request.clear();
        if !self.traffic.request(connection, &mut self.request) {
            return false;
        }
        with_credential(&self.request, &self.credentials[self.next], out);
        self.next = (self.next + 1) % self.credentials.len();
        true
    }

    fn answer(&mut self, connection: usize, received: &[u8]) -> Outcome<Option<usize>> {
        self.traffic.answer(connection, received)
    }

    fn counts(&self) -> bool {
        self.traffic.counts()
    }

    fn operations(&self) -> u64 {
        self.traffic.operations()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_is_a_header() {
        let mut out = Vec::new();
        with_credential(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "secret", &mut out);
        assert_eq!(out, b"GET / HTTP/1.1\r\nAuthorization: Bearer secret\r\nHost: a\r\n\r\n");
    }
}
