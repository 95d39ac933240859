//! The Redis traffic: the same reserve as a Lua script, one call a request, no pipelining.

use super::Traffic;
use crate::rng::{Rng, UUID_TEXT, write_uuid};
use crate::{Outcome, fail};

/// Check, take, write the hold down, let it end by itself, and remember when: what a reservation in Redis is at least.
pub(crate) const SCRIPT: &str = "\
local left = tonumber(redis.call('GET', KEYS[1]) or '0')
local quantity = tonumber(ARGV[2])
if left < quantity then return -1 end
redis.call('DECRBY', KEYS[1], quantity)
redis.call('HSET', KEYS[2], 'owner', ARGV[1], 'quantity', quantity, 'status', 'active')
redis.call('PEXPIRE', KEYS[2], ARGV[3])
redis.call('ZADD', KEYS[3], ARGV[4], KEYS[2])
return left - quantity";

/// The key that the stock stands under.
pub(crate) const STOCK_KEY: &str = "stock:hot-000000";
/// The key that the deadlines stand under.
pub(crate) const DUE_KEY: &str = "due:hot-000000";

/// Calls of the script: a hold and an owner of 36 bytes each, all different.
#[derive(Debug)]
pub(crate) struct Calls {
    template: Vec<u8>,
    hold_at: usize,
    owner_at: usize,
    rng: Rng,
}

impl Calls {
    pub(crate) fn new(sha: &str, ttl_seconds: u64, now_millis: u64, rng: Rng) -> Self {
        let hold = format!("hold:{}", "0".repeat(UUID_TEXT));
        let owner = "0".repeat(UUID_TEXT);
        let (ttl, due) = ((ttl_seconds * 1_000).to_string(), (now_millis + ttl_seconds * 1_000).to_string());
        let parts = ["EVALSHA", sha, "3", STOCK_KEY, &hold, DUE_KEY, &owner, "1", &ttl, &due];
        let template = command(&parts);
        let text = String::from_utf8_lossy(&template);
        let hold_at = text.find(&hold).unwrap_or_default() + "hold:".len();
        let owner_at = text.rfind(&owner).unwrap_or_default();
        Self { template, hold_at, owner_at, rng }
    }
}

impl Traffic for Calls {
    fn request(&mut self, _connection: usize, out: &mut Vec<u8>) -> bool {
        let (one, two, three) = (self.rng.next(), self.rng.next(), self.rng.next());
        write_uuid(&mut self.template[self.hold_at..], one, two);
        write_uuid(&mut self.template[self.owner_at..], two, three);
        out.extend_from_slice(&self.template);
        true
    }

    fn answer(&mut self, _connection: usize, received: &[u8]) -> Outcome<Option<usize>> {
        if !received.ends_with(b"\r\n") {
            return Ok(None);
        }
        match received {
            [b':', b'0'..=b'9', ..] => Ok(Some(received.len())),
            _ => fail(format!("refused by Redis: {}", String::from_utf8_lossy(received))),
        }
    }
}

/// A command as Redis reads it.
pub(crate) fn command(parts: &[&str]) -> Vec<u8> {
    let bulk = |part: &&str| format!("${}\r\n{part}\r\n", part.len());
    let head = std::iter::once(format!("*{}\r\n", parts.len()));
    head.chain(parts.iter().map(bulk)).collect::<String>().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_differ_in_hold_and_owner() {
        let mut calls = Calls::new("sha", 600, 0, Rng::new(3));
        let (mut first, mut second) = (Vec::new(), Vec::new());
        assert!(calls.request(0, &mut first) && calls.request(0, &mut second));
        assert_eq!(first.len(), second.len());
        let differing = first.iter().zip(&second).filter(|(one, two)| one != two).count();
        assert!(differing > UUID_TEXT, "two ids of 36 bytes differ in {differing} bytes only");
        assert!(calls.answer(0, b":-1\r\n").is_err());
        assert_eq!(calls.answer(0, b":12\r\n").unwrap(), Some(5));
        assert_eq!(calls.answer(0, b":12").unwrap(), None);
    }
}
