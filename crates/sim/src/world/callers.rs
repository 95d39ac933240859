//! Simulates callers and the network: requests, arrivals and replies.

use super::{SECOND, World};
use crate::checker::{Checked, Condition, SentRequest};
use crate::counters::Count;
use crate::flaw::Flaw;
use crate::step::OpRequest;
use stockhold_domain::{Access, Command, Envelope, Instant};
use stockhold_embedded::stepped::TraceEntry;
use stockhold_model::maker::{PRINCIPAL, label, reserve, reserve_for, set_stock};
use stockhold_store::{Failure, Query, Request, UsageRequest};

/// Requests that may be retried: this many newest ones.
const RECENT: usize = 12;

/// Another principal.
const OTHER: &str = "another";
/// Most commands of one request that the notes show.
const NOTED: usize = 10;
/// Most subjects of a limit that one query asks for: more than there are.
const SUBJECTS: usize = 100;

/// A request that a caller sent.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    what: What,
    /// How often it was sent.
    tries: u32,
    /// How often it arrived.
    arrivals: u32,
}

#[derive(Clone, Debug)]
enum What {
    One(Box<Envelope>),
    All(Vec<Envelope>),
    Query(Query),
}

/// A reply in the network: its request, and how often the request had been sent when it arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reply {
    sent: usize,
    tries: u32,
}

impl World {
    pub(super) fn send(&mut self, request: &OpRequest) {
        let envelope = self.envelope(request);
        if envelope.key.is_some() {
            self.keyed.push(self.sent.len());
        }
        self.put(What::One(Box::new(envelope)));
    }

    pub(super) fn send_all(&mut self, requests: &[OpRequest]) {
        let envelopes = requests.iter().map(|request| self.envelope(request)).collect();
        self.put(What::All(envelopes));
    }

    fn envelope(&mut self, request: &OpRequest) -> Envelope {
        let mut envelope = self.context.envelope(&request.op);
        self.aim(&mut envelope.command, request.aim);
        if let (Access::Holder { id, .. }, Some(named)) =
            (&mut envelope.access, envelope.command.reservation())
        {
            *id = named;
        }
        let Some(key) = request.key else { return Envelope { key: None, ..envelope } };
        // Sometimes another principal sends the same request.
        let (principal, key) =
            if key.is_multiple_of(16) { (OTHER, key.saturating_add(1)) } else { (PRINCIPAL, key) };
        let Envelope { key, origin, .. } =
            self.maker.keyed_for(principal, &key.to_string(), envelope.command.clone());
        Envelope { key, origin, ..envelope }
    }

    fn put(&mut self, what: What) {
        self.requests.send(self.sent.len());
        self.sent.push(Sent { what, tries: 1, arrivals: 0 });
    }

    pub(super) fn retry(&mut self, n: u8) {
        let span = self.keyed.len().min(RECENT);
        let Some(ago) = usize::from(n).checked_rem(span) else { return };
        let sent = self.keyed[self.keyed.len() - 1 - ago];
        self.sent[sent].tries += 1;
        self.requests.send(sent);
        self.counters.one(Count::Retry);
    }

    pub(super) fn ask(&mut self, n: u8) {
        if n % 8 == 4
            && let Some(usage) = self.usage(n)
        {
            self.put(What::Query(usage));
            return;
        }
        let holds = self.context.holds();
        let query = match (usize::from(n) * 7).checked_rem(holds.len()) {
            Some(hold) if !n.is_multiple_of(4) => Query::Reservation(holds[hold]),
            _ => Query::Items(self.context.items().to_vec()),
        };
        self.put(What::Query(query));
    }

    /// A query of what a limit counts: of all subjects, or of one that is a customer in some histories.
    fn usage(&self, n: u8) -> Option<Query> {
        let limits = &self.checker.durable().limits;
        let place = (usize::from(n) / 16).checked_rem(limits.iter().count())?;
        let limit = limits.iter().nth(place)?;
        let subject = n.is_multiple_of(16).then(|| label("ann"));
        let request = UsageRequest { limit_id: limit.id.clone(), subject, after: None, limit: SUBJECTS };
        Some(Query::LimitUsage(request))
    }

    pub(super) fn arrive(&mut self, n: u8) -> Checked {
        match self.requests.arrive(n, &mut self.counters) {
            Some(sent) => self.hand_in(sent),
            None => Ok(()),
        }
    }

    /// A request reaches the store.
    pub(super) fn hand_in(&mut self, n: usize) -> Checked {
        let ticket = self.ticket();
        let sent = &mut self.sent[n];
        let again = sent.arrivals > 0;
        sent.arrivals += 1;
        self.tickets.insert(ticket, Reply { sent: n, tries: sent.tries });
        if self.machine.stage().is_some() {
            self.counters.one(Count::Overlapped);
        }
        // Ids are generated when a request arrives, so a repeated request gets other ids.
        match self.sent[n].what.clone() {
            What::Query(query) => {
                self.note(format_args!("        {ticket} asks {query:?}"));
                self.checker.asks(ticket, SentRequest::Query(query.clone()), Vec::new());
                let decided = self.machine.submit(Request::Query(query), ticket, self.now());
                self.decided(decided)
            }
            What::One(envelope) => {
                let meant = if again { self.maker.again(&envelope) } else { *envelope };
                if meant.key_in_use().is_some_and(|key| self.checker.is_under_way(key.hash)) {
                    self.counters.one(Count::KeyAtOnce);
                }
                let mut got = meant.clone();
                if again && self.flaw == Some(Flaw::ExecutesRetryAsNew) {
                    got.key = None;
                }
                self.command(ticket, meant, got, self.now())
            }
            What::All(envelopes) => {
                let envelopes: Vec<_> = envelopes
                    .iter()
                    .map(|one| if again { self.maker.again(one) } else { one.clone() })
                    .collect();
                self.commands(ticket, envelopes)
            }
        }
    }

    pub(super) fn ticket(&mut self) -> u64 {
        self.next_ticket += 1;
        self.next_ticket
    }

    /// Submits a command: as its caller intended it, and as the store receives it.
    pub(super) fn command(&mut self, ticket: u64, meant: Envelope, got: Envelope, now: Instant) -> Checked {
        self.note(format_args!("        {ticket} asks {:?}, key {:?}", got.command, got.key));
        self.counters.one(Count::Commands);
        self.checker.asks(ticket, SentRequest::One(meant.fresh.event), vec![meant]);
        let decided = self.machine.submit(Request::Command(Box::new(got)), ticket, now);
        self.decided(decided)
    }

    fn commands(&mut self, ticket: u64, envelopes: Vec<Envelope>) -> Checked {
        self.note(format_args!("        {ticket} asks for {} commands", envelopes.len()));
        for envelope in envelopes.iter().take(NOTED) {
            self.note(format_args!("          {:?}, key {:?}", envelope.command, envelope.key));
        }
        self.counters.more(Count::Commands, envelopes.len() as u64);
        let all = envelopes.iter().map(|envelope| envelope.fresh.event).collect();
        self.checker.asks(ticket, SentRequest::All(all), envelopes.clone());
        let decided = self.machine.submit(Request::Commands(envelopes), ticket, self.now());
        self.decided(decided)
    }

    /// Records what is decided at once, and then collects the answers.
    pub(super) fn decided(&mut self, decided: Vec<TraceEntry>) -> Checked {
        if !decided.is_empty() {
            self.checker.commits(None, decided, &mut self.counters)?;
        }
        self.collect()
    }

    /// Collects the answers of the store and sends replies.
    pub(super) fn collect(&mut self) -> Checked {
        for (ticket, mut answer) in self.machine.answers() {
            if self.flaw == Some(Flaw::ReportsFailedCommitAsUndone)
                && matches!(answer, Err(Failure::OutcomeUnknown))
            {
                answer = Err(Failure::Unavailable("a commit failed".to_owned()));
            }
            self.trace.note(format_args!("{ticket} {answer:?}"));
            self.note(format_args!("        {ticket} is answered {answer:?}"));
            let condition = Condition {
                poisoned: self.machine.poisoned().is_some(),
                full: self.full || ticket <= self.full_until,
            };
            self.checker.answered(ticket, &answer, condition, &mut self.counters)?;
            if self.sweeper == Some(ticket) {
                self.sweeper = None;
            }
            if let Some(reply) = self.tickets.remove(&ticket) {
                self.replies.send(reply);
            }
        }
        Ok(())
    }

    pub(super) fn reply(&mut self, n: u8) {
        if let Some(Reply { sent, tries }) = self.replies.arrive(n, &mut self.counters)
            && self.sent[sent].tries > tries
        {
            self.counters.one(Count::ReplyLate);
        }
    }

    /// Makes many small holds that fall due together, runs the sweeper, and lets one caller request all of their units
    /// at that moment.
    pub(super) fn crowd(&mut self, count: u16) -> Checked {
        let item = self.crowd.clone();
        let set = self.maker.wrap(set_stock(&item, u64::from(count)));
        let one = |world: &mut Self, command: Command| {
            let (ticket, envelope) = (world.ticket(), world.maker.wrap(command));
            world.command(ticket, envelope.clone(), envelope, world.now())
        };
        let ticket = self.ticket();
        self.command(ticket, set.clone(), set, self.now())?;
        let reserves = (0..count).map(|_| self.maker.wrap(reserve_for(1, &[(&item, 1)]))).collect();
        let ticket = self.ticket();
        self.commands(ticket, reserves)?;
        self.let_go_on()?;
        self.commit()?;
        self.advance(2 * SECOND);
        if count.is_multiple_of(2) {
            self.sweep()?;
        }
        one(self, reserve(&[(&item, u64::from(count))]))?;
        one(self, reserve(&[(&item, 1)]))
    }
}
