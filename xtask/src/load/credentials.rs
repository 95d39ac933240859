//! Traffic of callers with credentials.

use super::Traffic;
use crate::Outcome;
use crate::http::with_credential;

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
