//! Batches of commands through `/v1/commands`: reserves alone, each batch of reserves and then its confirms, or keys that
//! do nothing else. A batch is one template in which the ids are written over; its answer is searched, not parsed.

use super::Traffic;
use super::http::{SKU_DIGITS, sku, write_digits};
use crate::http::{Request, head};
use crate::rng::{Rng, UUID_TEXT, uuid, write_uuid};
use crate::{Outcome, fail};
use memchr::memmem;
use std::time::Duration;

/// The text of a reservation's id in answers and requests.
pub(crate) type Id = [u8; UUID_TEXT];

const RESERVED: &[u8] = b"\"status\":201";
const DONE: &[u8] = b"\"status\":200";
const ID: &[u8] = b"\"reservation_id\":\"";
const PATH: &str = "/v1/commands";
/// How long patience lasts at a time.
const MOMENT: Duration = Duration::from_millis(100);
const OVERLOADED: &str = "refused: 503, the server is overloaded";

/// A request of equal commands, in which ids are written over.
#[derive(Debug)]
pub(crate) struct Template {
    bytes: Vec<u8>,
    body_at: usize,
    first: usize,
    stride: usize,
    key_at: Option<usize>,
    /// The owner or the reservation.
    id_at: usize,
    sku_at: Option<usize>,
}

impl Template {
    /// Reserves of one unit each, with a key if so wished.
    pub(crate) fn reserves(size: usize, family: &str, ttl_seconds: u64, keyed: bool) -> Self {
        let (blank, sku) = (uuid(0, 0), sku(family, 0));
        let key = if keyed { format!(r#""idempotency_key":"{blank}","#) } else { String::new() };
        let text = format!(
            r#"{{"op":"reserve",{key}"owner_id":"{blank}","lines":[{{"sku":"{sku}","quantity":1}}],"ttl_seconds":{ttl_seconds}}}"#
        );
        let sku_at = text.find(&sku).unwrap_or_default() + sku.len() - SKU_DIGITS;
        Self { sku_at: Some(sku_at), ..Self::of(size, &text, "\"owner_id\":\"") }
    }

    /// Confirms.
    fn confirms(size: usize, keyed: bool) -> Self {
        let blank = uuid(0, 0);
        let key = if keyed { format!(r#""idempotency_key":"{blank}","#) } else { String::new() };
        let text = format!(r#"{{"op":"confirm",{key}"reservation_id":"{blank}"}}"#);
        Self::of(size, &text, "\"reservation_id\":\"")
    }

    /// Extensions by less than what is left: they have no effect, and their keys are kept.
    fn keys(size: usize) -> Self {
        let blank = uuid(0, 0);
        let text = format!(
            r#"{{"op":"extend","idempotency_key":"{blank}","reservation_id":"{blank}","ttl_seconds":1}}"#
        );
        Self::of(size, &text, "\"reservation_id\":\"")
    }

    fn of(size: usize, command: &str, id: &str) -> Self {
        let find = |what: &str| command.find(what).map(|at| at + what.len());
        let (key_at, id_at) = (find("\"idempotency_key\":\""), find(id).unwrap_or_default());
        let begin = r#"{"commands":["#;
        let body = format!("{begin}{}]}}", vec![command; size].join(","));
        let length = body.len();
        let request =
            Request { method: "POST", path: PATH.to_owned(), key: None, if_match: None, body: Some(body) };
        let bytes = request.render();
        let body_at = bytes.len() - length;
        Self {
            bytes,
            body_at,
            first: body_at + begin.len(),
            stride: command.len() + 1,
            key_at,
            id_at,
            sku_at: None,
        }
    }

    /// Gives a command a fresh key, if it has one.
    fn key(&mut self, nth: usize, rng: &mut Rng) {
        if let Some(key_at) = self.key_at {
            write_uuid(&mut self.bytes[self.first + nth * self.stride + key_at..], rng.next(), rng.next());
        }
    }

    /// Gives every command a fresh key and owner, and a SKU of so many in turn.
    pub(crate) fn renew(&mut self, size: usize, rng: &mut Rng, skus: usize, next_sku: &mut usize) {
        for nth in 0..size {
            self.key(nth, rng);
            let at = self.first + nth * self.stride;
            write_uuid(&mut self.bytes[at + self.id_at..], rng.next(), rng.next());
            if let Some(sku_at) = self.sku_at
                && skus > 1
            {
                write_digits(&mut self.bytes[at + sku_at..at + sku_at + SKU_DIGITS], *next_sku);
                *next_sku = (*next_sku + 1) % skus;
            }
        }
    }

    /// Gives a command a reservation.
    fn reservation(&mut self, nth: usize, id: &Id) {
        let at = self.first + nth * self.stride + self.id_at;
        self.bytes[at..at + UUID_TEXT].copy_from_slice(id);
    }

    /// The request's body alone.
    pub(crate) fn body(&self) -> &[u8] {
        &self.bytes[self.body_at..]
    }
}

/// What a connection's batch in flight is.
#[derive(Clone, Copy, Debug, Default)]
enum Batch {
    #[default]
    None,
    Reserves(usize),
    Confirms(usize),
}

/// Batches of reserves, and after each of them its confirms if so wished.
#[derive(Debug)]
pub(crate) struct Commands {
    size: usize,
    family: String,
    skus: usize,
    next_sku: usize,
    ttl_seconds: u64,
    confirms: bool,
    keyed: bool,
    patient: bool,
    left: Option<u64>,
    reserve: Template,
    confirm: Template,
    in_flight: Vec<Batch>,
    /// By connection: reserved and to be confirmed.
    open: Vec<Vec<Id>>,
    rng: Rng,
    /// Reserves and confirms that were answered.
    pub(crate) reserved: u64,
    pub(crate) confirmed: u64,
    latest: u64,
    /// Some of what was reserved and not confirmed.
    pub(crate) kept: Vec<Id>,
    keep: usize,
}

impl Commands {
    /// Batches of `size` reserves that go round over `skus` SKUs of a family.
    pub(crate) fn new(
        size: usize,
        (family, skus): (&str, usize),
        ttl_seconds: u64,
        connections: usize,
        rng: Rng,
    ) -> Self {
        Self {
            size,
            family: family.to_owned(),
            skus,
            next_sku: 0,
            ttl_seconds,
            confirms: false,
            keyed: true,
            patient: false,
            left: None,
            reserve: Template::reserves(size, family, ttl_seconds, true),
            confirm: Template::confirms(size, true),
            in_flight: vec![Batch::None; connections],
            open: vec![Vec::new(); connections],
            rng,
            reserved: 0,
            confirmed: 0,
            latest: 0,
            kept: Vec::new(),
            keep: 0,
        }
    }

    /// Each batch of reserves is followed by their confirms.
    pub(crate) fn confirmed(mut self) -> Self {
        self.confirms = true;
        self
    }

    /// Nothing has an idempotency key.
    pub(crate) fn keyless(mut self) -> Self {
        self.keyed = false;
        self.reserve = Template::reserves(self.size, &self.family, self.ttl_seconds, false);
        self.confirm = Template::confirms(self.size, false);
        self
    }

    /// Stops after so many reserves.
    pub(crate) fn first(mut self, count: u64) -> Self {
        self.left = Some(count);
        self
    }

    /// A request that the server turns away is sent again a moment later. Its latency is not measured.
    pub(crate) fn patient(mut self) -> Self {
        self.patient = true;
        self
    }

    /// The batch in flight was not done: the next takes its place.
    fn take_back(&mut self, connection: usize) {
        std::thread::sleep(MOMENT);
        self.latest = 0;
        if let (Batch::Reserves(size), Some(left)) = (self.in_flight[connection], &mut self.left) {
            *left += size as u64;
        }
    }

    /// Keeps so many ids.
    pub(crate) fn keep(mut self, count: usize) -> Self {
        self.keep = count;
        self
    }

    fn reserves(&mut self, out: &mut Vec<u8>) -> Option<Batch> {
        let mut size = self.size;
        if let Some(left) = &mut self.left {
            size = size.min(usize::try_from(*left).unwrap_or(size));
            *left -= size as u64;
        }
        if size == 0 {
            return None;
        }
        let mut rest;
        let template = if size == self.size {
            &mut self.reserve
        } else {
            rest = Template::reserves(size, &self.family, self.ttl_seconds, self.keyed);
            &mut rest
        };
        template.renew(size, &mut self.rng, self.skus, &mut self.next_sku);
        out.extend_from_slice(&template.bytes);
        Some(Batch::Reserves(size))
    }

    fn confirms(&mut self, ids: &[Id], out: &mut Vec<u8>) -> Batch {
        let mut rest;
        let template = if ids.len() == self.size {
            &mut self.confirm
        } else {
            rest = Template::confirms(ids.len(), self.keyed);
            &mut rest
        };
        for (nth, id) in ids.iter().enumerate() {
            template.key(nth, &mut self.rng);
            template.reservation(nth, id);
        }
        out.extend_from_slice(&template.bytes);
        Batch::Confirms(ids.len())
    }
}

impl Traffic for Commands {
    fn request(&mut self, connection: usize, out: &mut Vec<u8>) -> bool {
        let ids = std::mem::take(&mut self.open[connection]);
        let batch = if ids.is_empty() { self.reserves(out) } else { Some(self.confirms(&ids, out)) };
        // They stay until they are confirmed.
        self.open[connection] = ids;
        self.in_flight[connection] = batch.unwrap_or_default();
        batch.is_some()
    }

    fn answer(&mut self, connection: usize, received: &[u8]) -> Outcome<Option<usize>> {
        let (status, size) = match self.in_flight[connection] {
            Batch::None => return fail("an answer to nothing"),
            Batch::Reserves(size) => (RESERVED, size),
            Batch::Confirms(size) => (DONE, size),
        };
        let (length, body) = match results(received, status, size)? {
            Results::Incomplete => return Ok(None),
            Results::Done(length, body) => (length, body),
            Results::Overloaded(length) if self.patient => {
                self.take_back(connection);
                return Ok(Some(length));
            }
            Results::Overloaded(_) => return fail(OVERLOADED),
        };
        self.latest = size as u64;
        if self.confirms {
            self.open[connection].clear();
        }
        if status == DONE {
            self.confirmed += self.latest;
            return Ok(Some(length));
        }
        self.reserved += self.latest;
        if self.confirms {
            self.open[connection].extend(ids(body));
        } else if self.kept.len() < self.keep {
            self.kept.extend(ids(body).take(self.keep - self.kept.len()));
        }
        Ok(Some(length))
    }

    fn operations(&self) -> u64 {
        self.latest
    }
}

/// Keys that do nothing but be there: extensions of known holds by less than what they have left. As patient as it takes.
#[derive(Debug)]
pub(crate) struct Keys {
    size: usize,
    template: Template,
    holds: Vec<Id>,
    next: usize,
    batches: u64,
    rng: Rng,
}

impl Keys {
    /// At least so many keys, in whole batches. `holds` must not be empty.
    pub(crate) fn new(size: usize, count: u64, holds: Vec<Id>, rng: Rng) -> Self {
        let batches = count.div_ceil(size as u64);
        Self { size, template: Template::keys(size), holds, next: 0, batches, rng }
    }
}

impl Traffic for Keys {
    fn request(&mut self, _connection: usize, out: &mut Vec<u8>) -> bool {
        if self.batches == 0 {
            return false;
        }
        self.batches -= 1;
        for nth in 0..self.size {
            self.template.key(nth, &mut self.rng);
            self.template.reservation(nth, &self.holds[self.next]);
            self.next = (self.next + 1) % self.holds.len();
        }
        out.extend_from_slice(&self.template.bytes);
        true
    }

    fn answer(&mut self, _connection: usize, received: &[u8]) -> Outcome<Option<usize>> {
        match results(received, DONE, self.size)? {
            Results::Incomplete => Ok(None),
            Results::Done(length, _) => Ok(Some(length)),
            Results::Overloaded(length) => {
                std::thread::sleep(MOMENT);
                self.batches += 1;
                Ok(Some(length))
            }
        }
    }

    fn operations(&self) -> u64 {
        self.size as u64
    }
}

/// What an answer is.
enum Results<'a> {
    Incomplete,
    /// All of it, with its length and its body.
    Done(usize, &'a [u8]),
    /// Turned away whole, with its length: nothing was done.
    Overloaded(usize),
}

/// Looks at an answer, which must hold so many results of one status.
fn results<'a>(received: &'a [u8], status: &[u8], size: usize) -> Outcome<Results<'a>> {
    let Some(head) = head(received)? else { return Ok(Results::Incomplete) };
    let whole = head.length + head.body;
    if received.len() < whole {
        return Ok(Results::Incomplete);
    }
    let body = &received[head.length..whole];
    if head.status == 503 && memmem::find(body, b"\"overloaded\"").is_some() {
        return Ok(Results::Overloaded(whole));
    }
    let found = memmem::find_iter(body, status).count();
    if head.status == 200 && found == size {
        return Ok(Results::Done(whole, body));
    }
    let problem = memmem::find(body, b"\"problem\"").unwrap_or(0);
    let words = String::from_utf8_lossy(&body[problem..body.len().min(problem + 500)]).into_owned();
    fail(format!("refused: {} with {found} of {size} commands done: {words}", head.status))
}

/// The ids of the reservations in an answer.
fn ids(body: &[u8]) -> impl Iterator<Item = Id> {
    memmem::find_iter(body, ID).filter_map(|at| {
        let start = at + ID.len();
        body.get(start..start + UUID_TEXT)?.try_into().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(request: &[u8]) -> serde_json::Value {
        let text = std::str::from_utf8(request).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
        serde_json::from_str(body).unwrap()
    }

    fn answered(status: u16, ids: &[&str]) -> Vec<u8> {
        let result =
            |id: &&str| format!(r#"{{"status":{status},"reservation":{{"reservation_id":"{id}"}}}}"#);
        let body = format!(r#"{{"results":[{}]}}"#, ids.iter().map(result).collect::<Vec<_>>().join(","));
        format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
    }

    #[test]
    fn each_batch_of_reserves_is_followed_by_their_confirms_and_the_last_is_what_is_left() {
        let mut commands = Commands::new(2, ("hue", 2), 600, 1, Rng::new(1)).confirmed().first(3);
        let sent = |commands: &mut Commands| {
            let mut out = Vec::new();
            commands.request(0, &mut out).then(|| body(&out)["commands"].clone())
        };
        let first = sent(&mut commands).unwrap();
        assert_eq!(first[1]["lines"][0]["sku"], "hue-000001");
        assert_ne!(first[0]["idempotency_key"], first[1]["idempotency_key"]);
        assert_ne!(first[0]["owner_id"], first[1]["owner_id"]);
        let made = [uuid(1, 1), uuid(2, 2)];
        let answer = answered(201, &[&made[0], &made[1]]);
        assert_eq!(commands.answer(0, &answer[..50]).unwrap(), None);
        assert_eq!(commands.answer(0, &answer).unwrap(), Some(answer.len()));
        let confirms = sent(&mut commands).unwrap();
        assert_eq!(
            (confirms[0]["op"].as_str(), confirms[1]["reservation_id"].as_str()),
            (Some("confirm"), Some(made[1].as_str()))
        );
        commands.answer(0, &answered(200, &[&made[0], &made[1]])).unwrap();
        let rest = sent(&mut commands).unwrap();
        assert_eq!((rest[0]["op"].as_str(), rest.as_array().map(Vec::len)), (Some("reserve"), Some(1)));
        commands.answer(0, &answered(201, &[&made[0]])).unwrap();
        assert_eq!(sent(&mut commands).unwrap().as_array().map(Vec::len), Some(1));
        commands.answer(0, &answered(200, &[&made[0]])).unwrap();
        assert_eq!(sent(&mut commands), None);
        assert_eq!((commands.reserved, commands.confirmed), (3, 3));
    }

    #[test]
    fn without_keys_there_are_none() {
        let mut commands = Commands::new(2, ("hot", 1), 600, 1, Rng::new(1)).keyless();
        let mut out = Vec::new();
        assert!(commands.request(0, &mut out));
        let sent = body(&out);
        assert_eq!(sent["commands"][0]["idempotency_key"], serde_json::Value::Null);
        assert_ne!(sent["commands"][0]["owner_id"], sent["commands"][1]["owner_id"]);
    }

    #[test]
    fn what_is_turned_away_is_asked_again_by_the_patient_alone() {
        let body = r#"{"reason":"overloaded"}"#;
        let away = format!("HTTP/1.1 503 \r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes();
        let made = [uuid(1, 1), uuid(2, 2)];
        let mut commands = Commands::new(2, ("hot", 1), 600, 1, Rng::new(1)).confirmed().first(2);
        assert!(commands.request(0, &mut Vec::new()));
        assert!(commands.answer(0, &away).is_err());
        let mut commands = commands.patient();
        assert_eq!(commands.answer(0, &away).unwrap(), Some(away.len()));
        assert_eq!((commands.operations(), commands.reserved), (0, 0));
        assert!(commands.request(0, &mut Vec::new()));
        assert!(commands.answer(0, &answered(201, &[&made[0], &made[1]])).unwrap().is_some());
        let (mut first, mut second) = (Vec::new(), Vec::new());
        assert!(commands.request(0, &mut first));
        assert_eq!(commands.answer(0, &away).unwrap(), Some(away.len()));
        assert!(commands.request(0, &mut second));
        for sent in [first, second] {
            let sent = self::body(&sent);
            assert_eq!(sent["commands"][1]["reservation_id"], made[1]);
        }
        assert!(commands.answer(0, &answered(200, &[&made[0], &made[1]])).unwrap().is_some());
        assert!(!commands.request(0, &mut Vec::new()));
        assert_eq!((commands.reserved, commands.confirmed), (2, 2));
    }

    #[test]
    fn one_refused_command_voids() {
        let mut commands = Commands::new(2, ("hot", 1), 600, 1, Rng::new(1));
        assert!(commands.request(0, &mut Vec::new()));
        assert!(commands.answer(0, &answered(409, &["a", "b"])).is_err());
    }
}
