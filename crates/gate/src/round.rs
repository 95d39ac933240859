//! The rounds in which the gate is asked. While Redis answers one round, the requests of the next one gather. A round calls Redis once
//! for each item, whatever many requests want of it.
//!
//! A refusal that can't be final, because of an idempotency key or of something that the gate does not know, waits until the store may be
//! asked again: once in [`crate::GateOptions::ask_interval`] all such requests go to the store together. As often, one request of each item
//! that the gate calls empty goes to the store, so that a gate that is wrong is noticed.

use crate::admission::GateRequest;
use crate::counter::{Admission, Counter, CounterMoves, Settlement};
use crate::follow_up::{FollowUp, FollowUpInbox, Followed, FollowedCommands, Part};
use crate::message::{AskedCommands, AskedRequest, Message};
use crate::meters::GateMeters;
use crate::refresh;
use crate::shared::Shared;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use stockhold_domain::{Envelope, Fulfilment, ItemKey, Outcome, Rejection, Shortage};
use stockhold_store::{Answer, Inbox, Job, ReplyTo, Request};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// Maximum number of messages of one round.
const ROUND_MESSAGES: usize = 4_096;

/// Items whose probes are remembered before those are forgotten that do not matter any more.
const KNOWN_PROBES: usize = 4_096;

/// The loop of the gate's thread.
pub(crate) struct Rounds {
    shared: Arc<Shared>,
    inbox: Arc<FollowUpInbox>,
    messages: mpsc::UnboundedReceiver<Message>,
    /// Requests that wait until the store may be asked.
    deferred: Vec<Deferred>,
    /// When the store was asked last for the requests that wait for it, or the start.
    asked_at: Instant,
    /// When a request of each item was last sent on although the gate was empty.
    probed_at: BTreeMap<ItemKey, Instant>,
    started_at: Instant,
    /// What the store has answered to admitted requests, for the next round.
    settled: Vec<(ItemKey, Settlement)>,
    has_ended: bool,
}

/// The calls to Redis of one round.
#[derive(Default)]
struct RoundCalls(BTreeMap<ItemKey, CounterMoves>);

/// The counters of the items of one round. An item is missing if Redis gave no answer or has no counter of it.
type Counters = BTreeMap<ItemKey, Counter>;

/// A request whose wants are among the calls of a round.
enum PlacedCommands {
    One(Box<Envelope>, PlacedRequest),
    Many(Vec<(Envelope, Option<PlacedRequest>)>),
}

/// A reserve that waits until the store may be asked.
struct Deferred {
    envelope: Box<Envelope>,
    reply: ReplyTo,
}

/// A reserve for which the gate is asked, and the places of its lines among the admissions of their items.
struct PlacedRequest {
    request: GateRequest,
    places: Vec<usize>,
}

/// What becomes of one reserve.
enum Verdict {
    /// The store decides it. These units are admitted.
    Admitted(Vec<(ItemKey, Admission)>),
    /// The gate has too few units. What it has admitted goes back.
    Empty { shortages: Vec<Shortage>, returned: Vec<(ItemKey, Admission)> },
}

impl Rounds {
    pub(crate) fn new(
        shared: Arc<Shared>,
        inbox: Arc<FollowUpInbox>,
        messages: mpsc::UnboundedReceiver<Message>,
    ) -> Self {
        Self {
            shared,
            inbox,
            messages,
            deferred: Vec::new(),
            asked_at: Instant::now(),
            probed_at: BTreeMap::new(),
            started_at: Instant::now(),
            settled: Vec::new(),
            has_ended: false,
        }
    }

    /// Runs until the store is closed.
    pub(crate) async fn run(mut self) {
        let mut messages = Vec::new();
        while !self.has_ended {
            // Units that a round gave back are not kept until somebody asks.
            if self.settled.is_empty() {
                let ask_at = self.next_ask();
                tokio::select! {
                    _ = self.messages.recv_many(&mut messages, ROUND_MESSAGES) => {}
                    () = sleep_until(ask_at), if !self.deferred.is_empty() => {}
                }
            }
            let asked = self.sort(messages.drain(..));
            if !asked.is_empty() || !self.settled.is_empty() {
                self.round(asked).await;
            }
            if !self.deferred.is_empty() && self.may_ask() {
                self.ask_store();
            }
        }
        self.ask_store();
        if !self.settled.is_empty() {
            self.round(Vec::new()).await;
        }
    }

    /// When the store may be asked again.
    fn next_ask(&self) -> Instant {
        self.asked_at + self.shared.options.ask_interval
    }

    fn may_ask(&self) -> bool {
        self.next_ask() <= Instant::now()
    }

    /// The requests among the messages. The other messages are dealt with.
    fn sort(&mut self, messages: impl Iterator<Item = Message>) -> Vec<AskedRequest> {
        let mut asked = Vec::new();
        let (mut raised, mut answers, mut changes_pauses) = (BTreeSet::new(), Vec::new(), false);
        for message in messages {
            match message {
                Message::Ask(request) => asked.push(request),
                Message::Settle(settled) => self.settled.extend(settled),
                Message::RaiseFirst { items, changes_pauses: pauses, reply, answer } => {
                    raised.extend(items);
                    changes_pauses |= pauses;
                    answers.push((reply, answer));
                }
                Message::Reload { selection, reply } => {
                    let shared = Arc::clone(&self.shared);
                    tokio::spawn(async move {
                        // The caller may have gone away.
                        let _ = reply.send(refresh::reload(&shared, &selection).await);
                    });
                }
                Message::Status { limit, reply } => {
                    let shared = Arc::clone(&self.shared);
                    tokio::spawn(async move {
                        let _ = reply.send(refresh::status(&shared, limit).await);
                    });
                }
                Message::Stop => self.has_ended = true,
            }
        }
        if !answers.is_empty() {
            let shared = Arc::clone(&self.shared);
            tokio::spawn(async move {
                refresh::raise(&shared, raised, changes_pauses).await;
                for (reply, answer) in answers {
                    reply.answer(answer);
                }
            });
        }
        asked
    }

    /// Asks Redis for all requests, and hands those that are admitted to the store.
    async fn round(&mut self, asked: Vec<AskedRequest>) {
        self.shared.waiting.fetch_sub(asked.len(), Ordering::AcqRel);
        let mut calls = RoundCalls::default();
        for (item, settlement) in std::mem::take(&mut self.settled) {
            calls.of(&item).settled.push(settlement);
        }
        let mut placed = Vec::with_capacity(asked.len());
        for AskedRequest { commands, reply } in asked {
            placed.push((calls.place(commands), reply));
        }
        let counters = calls.run(&self.shared).await;
        // Items of which this round gives units back: a later refusal of the round may be wrong.
        let mut returned = BTreeSet::new();
        for (commands, reply) in placed {
            match commands {
                PlacedCommands::One(envelope, request) => {
                    self.decide_one(envelope, &request, reply, &counters, &mut returned);
                }
                PlacedCommands::Many(commands) => {
                    self.decide_many(commands, reply, &counters, &mut returned);
                }
            }
        }
        self.shared.store.flush();
        self.inbox.flush();
    }

    fn decide_one(
        &mut self,
        envelope: Box<Envelope>,
        placed: &PlacedRequest,
        reply: ReplyTo,
        counters: &Counters,
        returned_items: &mut BTreeSet<ItemKey>,
    ) {
        let shortages = match self.verdict(placed, counters) {
            Verdict::Admitted(admissions) => {
                self.count_passed(&admissions);
                return self.send(envelope, reply, Followed { admissions, ..Followed::default() });
            }
            Verdict::Empty { shortages, returned } => {
                self.give_back(returned, returned_items);
                shortages
            }
        };
        if self.is_probe(&shortages) {
            GateMeters::asked(1);
            self.send(envelope, reply, Followed { was_empty: true, ..Followed::default() });
        } else if is_final(&envelope, &placed.request, &shortages, returned_items) {
            self.shared.meters.refused(1);
            let refusal = Outcome::Refused(Rejection::InsufficientInventory(shortages));
            self.inbox.give_answer(reply, Ok(Answer::Outcome(refusal)));
        } else {
            self.deferred.push(Deferred { envelope, reply });
        }
    }

    fn decide_many(
        &mut self,
        commands: Vec<(Envelope, Option<PlacedRequest>)>,
        reply: ReplyTo,
        counters: &Counters,
        returned_items: &mut BTreeSet<ItemKey>,
    ) {
        let (mut parts, mut envelopes) = (Vec::with_capacity(commands.len()), Vec::new());
        for (envelope, placed) in commands {
            let mut followed = Followed::of(&envelope);
            if let Some(placed) = placed {
                match self.verdict(&placed, counters) {
                    Verdict::Admitted(admissions) => {
                        self.count_passed(&admissions);
                        followed.admissions = admissions;
                    }
                    Verdict::Empty { shortages, returned } => {
                        self.give_back(returned, returned_items);
                        let is_final = is_final(&envelope, &placed.request, &shortages, returned_items);
                        if is_final && !self.is_probe(&shortages) {
                            self.shared.meters.refused(1);
                            parts.push(Part::Refused(Rejection::InsufficientInventory(shortages)));
                            continue;
                        }
                        GateMeters::asked(1);
                        followed.was_empty = true;
                    }
                }
            }
            parts.push(Part::Sent(followed));
            envelopes.push(envelope);
        }
        let follow_up = FollowUp { reply, commands: FollowedCommands::Many(parts) };
        let reply = self.inbox.address(follow_up);
        if envelopes.is_empty() {
            return reply.answer(Ok(Answer::Outcomes(Vec::new())));
        }
        self.shared.store.submit(Job { request: Request::Commands(envelopes), reply });
    }

    fn verdict(&self, placed: &PlacedRequest, counters: &Counters) -> Verdict {
        let now = self.shared.options.clock.now();
        let content = self.shared.table.read();
        let (mut admissions, mut shortages) = (Vec::new(), Vec::new());
        let request = &placed.request;
        for (line, place) in request.lines.iter().zip(&placed.places) {
            let Some(counter) = counters.get(&line.item) else { continue };
            let units = counter.admitted.get(*place).copied().unwrap_or(0);
            if units > 0 {
                admissions.push((line.item.clone(), Admission { units, epoch: counter.epoch }));
                continue;
            }
            let known = content.get(&line.item);
            // The store may have units of a hold that is due.
            if !known.is_some_and(|known| known.is_due(now)) {
                shortages.push(Shortage {
                    item: line.item.clone(),
                    requested: line.wanted.units,
                    available: u64::try_from(counter.left).unwrap_or(0),
                    next_expiry_at: known.and_then(|known| known.next_expiry_after(now)),
                    unknown_sections: Vec::new(),
                    approximate: true,
                });
            }
        }
        let is_empty = match request.fulfilment {
            Fulfilment::All => !shortages.is_empty(),
            // Each line gets what there is, also the lines that the gate does not count.
            Fulfilment::Partial => request.is_whole && shortages.len() == request.lines.len(),
        };
        if is_empty {
            Verdict::Empty { shortages, returned: admissions }
        } else {
            Verdict::Admitted(admissions)
        }
    }

    /// Whether a request goes to the store although the gate is empty: one in each interval for each item.
    fn is_probe(&mut self, shortages: &[Shortage]) -> bool {
        let (now, interval) = (Instant::now(), self.shared.options.ask_interval);
        let is_due = |item: &ItemKey| {
            self.probed_at
                .get(item)
                .unwrap_or(&self.started_at)
                .checked_add(interval)
                .is_none_or(|due| due <= now)
        };
        if !shortages.iter().any(|shortage| is_due(&shortage.item)) {
            return false;
        }
        if self.probed_at.len() >= KNOWN_PROBES {
            self.probed_at.retain(|_, probed_at| now.duration_since(*probed_at) < interval);
        }
        self.probed_at.extend(shortages.iter().map(|shortage| (shortage.item.clone(), now)));
        true
    }

    fn count_passed(&self, admissions: &[(ItemKey, Admission)]) {
        if admissions.is_empty() {
            GateMeters::passed(1);
        } else {
            self.shared.meters.admitted(1);
        }
    }

    /// Units that were admitted and are not used go back in the next round.
    fn give_back(&mut self, returned: Vec<(ItemKey, Admission)>, returned_items: &mut BTreeSet<ItemKey>) {
        returned_items.extend(returned.iter().map(|(item, _)| item.clone()));
        let returned =
            returned.into_iter().map(|(item, admission)| (item, Settlement { admission, taken: None }));
        self.settled.extend(returned);
    }

    /// Hands a command to the store. Its batch is still open.
    fn send(&self, envelope: Box<Envelope>, reply: ReplyTo, followed: Followed) {
        let reply = self.inbox.address(FollowUp { reply, commands: FollowedCommands::One(followed) });
        self.shared.store.submit(Job { request: Request::Command(envelope), reply });
    }

    /// Hands all requests to the store that wait until it may be asked.
    fn ask_store(&mut self) {
        self.asked_at = Instant::now();
        let deferred = std::mem::take(&mut self.deferred);
        GateMeters::asked(deferred.len() as u64);
        for Deferred { envelope, reply } in deferred {
            self.send(envelope, reply, Followed { was_empty: true, ..Followed::default() });
        }
        self.shared.store.flush();
    }
}

/// Whether the gate refuses by itself. A key may have been used before, and units that this round gives back are not in the counters
/// that it has read.
fn is_final(
    envelope: &Envelope,
    request: &GateRequest,
    shortages: &[Shortage],
    returned_items: &BTreeSet<ItemKey>,
) -> bool {
    request.is_certain
        && envelope.key_in_use().is_none()
        && !shortages.iter().any(|shortage| returned_items.contains(&shortage.item))
}

impl RoundCalls {
    fn of(&mut self, item: &ItemKey) -> &mut CounterMoves {
        self.0.entry(item.clone()).or_default()
    }

    /// Adds what the commands of a request want.
    fn place(&mut self, commands: AskedCommands) -> PlacedCommands {
        match commands {
            AskedCommands::One(envelope, request) => {
                PlacedCommands::One(envelope, self.place_request(request))
            }
            AskedCommands::Many(commands) => {
                let place = |(envelope, request): (Envelope, Option<GateRequest>)| {
                    (envelope, request.map(|request| self.place_request(request)))
                };
                PlacedCommands::Many(commands.into_iter().map(place).collect())
            }
        }
    }

    fn place_request(&mut self, request: GateRequest) -> PlacedRequest {
        let mut places = Vec::with_capacity(request.lines.len());
        for line in &request.lines {
            let wanted = &mut self.of(&line.item).wanted;
            places.push(wanted.len());
            wanted.push(line.wanted);
        }
        PlacedRequest { request, places }
    }

    /// Calls Redis for all items at once.
    async fn run(self, shared: &Arc<Shared>) -> Counters {
        let mut counters = Counters::new();
        let (mut missing, mut unanswered) = (Vec::new(), Vec::new());
        for (item, answer) in shared.move_counters(self.0).await {
            match answer {
                Some(Some(counter)) => {
                    counters.insert(item, counter);
                }
                Some(None) => missing.push(item),
                // What was admitted or settled in this call is unknown.
                None => unanswered.push(item),
            }
        }
        if !missing.is_empty() {
            shared.suspect(missing, true);
        }
        if !unanswered.is_empty() {
            shared.suspect(unanswered, false);
        }
        counters
    }
}
