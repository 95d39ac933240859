//! The Redis traffic: the same reserve as a Lua script, one call a request, no pipelining.

use super::Traffic;
use crate::rng::{Rng, UUID_TEXT, write_uuid};
use crate::{Outcome, fail};

/// Check, take, write the hold down, let it end by itself, and remember when: what a reservation in Redis is at least.
pub(crate) const BARE: &str = "\
local left = tonumber(redis.call('GET', KEYS[1]) or '0')
local quantity = tonumber(ARGV[2])
if left < quantity then return -1 end
redis.call('DECRBY', KEYS[1], quantity)
redis.call('HSET', KEYS[2], 'owner', ARGV[1], 'quantity', quantity, 'status', 'active')
redis.call('PEXPIRE', KEYS[2], ARGV[3])
redis.call('ZADD', KEYS[3], ARGV[4], KEYS[2])
return left - quantity";

/// The same with an idempotency key: who sends a request again gets the hold that it made.
pub(crate) const KEYED: &str = "\
local known = redis.call('GET', KEYS[4])
if known then return known end
local left = tonumber(redis.call('GET', KEYS[1]) or '0')
local quantity = tonumber(ARGV[2])
if left < quantity then return -1 end
redis.call('DECRBY', KEYS[1], quantity)
redis.call('HSET', KEYS[2], 'owner', ARGV[1], 'quantity', quantity, 'status', 'active')
redis.call('PEXPIRE', KEYS[2], ARGV[3])
redis.call('ZADD', KEYS[3], ARGV[4], KEYS[2])
redis.call('SET', KEYS[4], KEYS[2], 'PX', ARGV[5])
return left - quantity";

/// How long a key is kept: a day, as the server does.
const KEY_MILLIS: &str = "86400000";

/// The key that the stock stands under.
pub(crate) const STOCK_KEY: &str = "stock:hot-000000";
/// The key that the deadlines stand under.
pub(crate) const DUE_KEY: &str = "due:hot-000000";

/// Calls of a script: a hold, an owner and perhaps an idempotency key of 36 bytes each, all different.
#[derive(Debug)]
pub(crate) struct Calls {
    template: Vec<u8>,
    /// Where what differs stands.
    differs_at: Vec<usize>,
    rng: Rng,
}

impl Calls {
    pub(crate) fn new(sha: &str, keyed: bool, ttl_seconds: u64, now_millis: u64, rng: Rng) -> Self {
        let blank = "0".repeat(UUID_TEXT);
        let (hold, key) = (format!("hold:{blank}"), format!("key:{blank}"));
        let (ttl, due) = ((ttl_seconds * 1_000).to_string(), (now_millis + ttl_seconds * 1_000).to_string());
        let template = if keyed {
            let keys = ["4", STOCK_KEY, &hold, DUE_KEY, &key];
            command(&[&["EVALSHA", sha], &keys[..], &[&blank, "1", &ttl, &due, KEY_MILLIS]].concat())
        } else {
            command(&["EVALSHA", sha, "3", STOCK_KEY, &hold, DUE_KEY, &blank, "1", &ttl, &due])
        };
        let text = String::from_utf8_lossy(&template);
        let differs_at = text.match_indices(&blank).map(|(at, _)| at).collect();
        Self { template, differs_at, rng }
    }
}

impl Traffic for Calls {
    fn request(&mut self, _connection: usize, out: &mut Vec<u8>) -> bool {
        for at in &self.differs_at {
            write_uuid(&mut self.template[*at..], self.rng.next(), self.rng.next());
        }
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
    fn calls_differ_in_hold_owner_and_key() {
        for (keyed, ids) in [(false, 2), (true, 3)] {
            let mut calls = Calls::new("sha", keyed, 600, 0, Rng::new(3));
            let (mut first, mut second) = (Vec::new(), Vec::new());
            assert!(calls.request(0, &mut first) && calls.request(0, &mut second));
            assert_eq!((first.len(), calls.differs_at.len()), (second.len(), ids));
            let differing = first.iter().zip(&second).filter(|(one, two)| one != two).count();
            assert!(
                differing > ids * UUID_TEXT / 2,
                "{ids} ids of 36 bytes differ in {differing} bytes only"
            );
            assert!(calls.answer(0, b":-1\r\n").is_err());
            assert_eq!(calls.answer(0, b":12\r\n").unwrap(), Some(5));
            assert_eq!(calls.answer(0, b":12").unwrap(), None);
        }
    }
}
