//! Compares the replies to all callers with the events, and checks that every kind of command happened.

use super::{LASTS, MINUTE, Place, UNITS};
use crate::fixture::item;
use std::collections::BTreeMap;
use stockhold_conformance::START;
use stockhold_domain::{
    Command, Envelope, Event, EventId, Hold, HoldChange, ItemKey, Outcome, Rejection, Reply, Reserve, State,
    Status, Transition, UnitSelection,
};
use stockhold_model::NaiveState;
use stockhold_store::{EventRow, Store};

/// One answer.
pub(super) struct RecordedReply {
    /// When its caller asked, counted: what it asked at once has the same number.
    pub(super) step: u64,
    /// At which instance.
    pub(super) at: usize,
    pub(super) asked: Envelope,
    pub(super) outcome: Outcome,
}

impl RecordedReply {
    pub(super) fn hold(&self) -> Option<&Hold> {
        match &self.outcome {
            Outcome::Done(Reply::Reservation(hold)) | Outcome::Replayed(Reply::Reservation(hold)) => {
                Some(hold)
            }
            _ => None,
        }
    }

    /// What it has in common with the same request sent again.
    fn request(&self) -> String {
        self.asked.origin.request_id.to_string()
    }
}

/// Whatever was told follows from the events, and from what was told before.
pub(super) fn follows(store: &dyn Store, place: &Place, rows: &[EventRow], told: &[Vec<RecordedReply>]) {
    word_for_word(rows, told);
    once_each(rows, told);
    ended_as_told(rows, told);
    nothing_is_reserved_in_a_pause(rows);
    for key in &place.items {
        let figures = item(store, key).unwrap().figures;
        let moved: i64 = told.iter().flatten().filter_map(|told| adjusted(told, key)).sum();
        assert_eq!(
            Some(figures.total_units),
            UNITS.checked_add_signed(moved),
            "{key:?}: every adjustment once"
        );
    }
}

fn adjusted(told: &RecordedReply, key: &ItemKey) -> Option<i64> {
    match (&told.asked.command, &told.outcome) {
        (Command::AdjustStock(adjust), Outcome::Done(_)) if adjust.item == *key => Some(adjust.delta),
        _ => None,
    }
}

/// Who was shown a reservation was shown what one of its events says, and who asked again later nothing older.
fn word_for_word(rows: &[EventRow], told: &[Vec<RecordedReply>]) {
    let states: BTreeMap<EventId, (u64, &Hold)> = rows
        .iter()
        .filter_map(|row| match &row.event.transition {
            Transition::Hold { hold, .. } => Some((row.event.id, (row.position, hold))),
            _ => None,
        })
        .collect();
    assert_eq!(states.keys().len(), rows.iter().filter(|row| change(&row.event).is_some()).count());
    for told in told {
        let mut seen = BTreeMap::new();
        for at_once in told.chunk_by(|one, other| one.step == other.step) {
            let shown = at_once.iter().filter_map(RecordedReply::hold).map(|hold| {
                let (position, state) =
                    states.get(&hold.last_event).unwrap_or_else(|| panic!("no event made {hold:?}"));
                assert_eq!(hold, *state, "as it was at position {position}");
                (hold.id, *position)
            });
            let shown: Vec<_> = shown.collect();
            for (id, position) in &shown {
                let before = seen.get(id).copied().unwrap_or(0);
                assert!(*position >= before, "{id} was shown as at {position}, and before as at {before}");
            }
            for (id, position) in shown {
                let newest = seen.entry(id).or_insert(position);
                *newest = position.max(*newest);
            }
        }
    }
}

/// A request has one effect however often it was sent, none if it was always refused, and what it was told it did.
fn once_each(rows: &[EventRow], told: &[Vec<RecordedReply>]) {
    let mut effects: BTreeMap<String, Vec<&Event>> = BTreeMap::new();
    for row in rows.iter().filter(|row| !matches!(change(&row.event), Some(HoldChange::Expired))) {
        effects.entry(row.event.origin.request_id.to_string()).or_default().push(&row.event);
    }
    for (request, answers) in by_request(told) {
        let made = effects.get(&request).map_or(&[][..], Vec::as_slice);
        let command = &answers[0].asked.command;
        let done: Vec<_> = answers.iter().filter(|told| matches!(told.outcome, Outcome::Done(_))).collect();
        if answers.iter().all(|told| matches!(told.outcome, Outcome::Refused(_))) {
            assert!(made.is_empty(), "refused, and yet: {made:?}");
        }
        if answers[0].asked.key_in_use().is_some() {
            assert!(made.len() <= 1 && done.len() <= 1, "{made:?} by {command:?}, done {} times", done.len());
        }
        // The others may find that what they ask for is so.
        let moves = matches!(
            command,
            Command::Reserve(_) | Command::Return(_) | Command::AdjustStock(_) | Command::RetireUnit(_)
        );
        if let (true, Some(done)) = (moves, done.first()) {
            let made = made.first().unwrap_or_else(|| panic!("nothing came of {command:?}"));
            match (&made.transition, &done.outcome) {
                (Transition::Hold { hold, .. }, _) => assert_eq!(done.hold(), Some(hold)),
                (Transition::Stock { item, .. }, Outcome::Done(Reply::Item { item: told, .. })) => {
                    assert_eq!(told, item);
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

fn by_request(told: &[Vec<RecordedReply>]) -> BTreeMap<String, Vec<&RecordedReply>> {
    let mut answers: BTreeMap<String, Vec<&RecordedReply>> = BTreeMap::new();
    for told in told.iter().flatten() {
        answers.entry(told.request()).or_default().push(told);
    }
    answers
}

/// A refusal because a reservation had ended says how it ended.
fn ended_as_told(rows: &[EventRow], told: &[Vec<RecordedReply>]) {
    let ends = NaiveState::fold(rows.iter().map(|row| &row.event), []).holds;
    for told in told.iter().flatten() {
        let Outcome::Refused(rejection) = &told.outcome else { continue };
        let (id, told) = match rejection {
            Rejection::ReservationConfirmed { id, .. } => (id, Status::Confirmed),
            Rejection::ReservationCancelled(id) => (id, Status::Cancelled),
            Rejection::ReservationExpired { id, expires_at } => {
                assert_eq!(ends[id].expires_at, *expires_at);
                (id, Status::Expired)
            }
            _ => continue,
        };
        assert_eq!(ends[id].status, told, "{rejection:?}");
    }
}

/// Between the events that pause and resume a sale there is none by which it went on.
fn nothing_is_reserved_in_a_pause(rows: &[EventRow]) {
    let mut state = NaiveState::default();
    for EventRow { position, event } in rows {
        if let (Some(HoldChange::Created), Transition::Hold { hold, .. }) = (change(event), &event.transition)
        {
            for line in &*hold.lines {
                let here = state.paused(Some(line.item.location())) == Ok(true);
                let paused = here || state.paused(None) == Ok(true) || state.items[&line.item].paused;
                assert!(!paused, "at {position} {:?} was reserved while its sale was paused", line.item);
            }
        }
        state.apply(event);
    }
    let paused = state.items.values().filter(|item| item.paused).count() + state.paused.len();
    assert_eq!(paused, 0, "whoever pauses resumes");
}

fn change(event: &Event) -> Option<&HoldChange> {
    match &event.transition {
        Transition::Hold { change, .. } => Some(change),
        _ => None,
    }
}

/// What half an hour has to have in it, or it has shown nothing: what happened, how it was asked for, and every refusal.
const EVERYTHING: [&str; 43] = [
    "Created",
    "Extended",
    "Confirmed",
    "Cancelled",
    "Expired by a sweeper meanwhile",
    "Expired by a sweeper afterwards",
    "Expired on the way meanwhile",
    "Returned",
    "Adjusted",
    "UnitsAdded",
    "UnitsRetired",
    "paused",
    "resumed",
    "limit",
    "counted",
    "any units",
    "named units",
    "the best units",
    "both kinds in one order",
    "both kinds in the other",
    "a basket in one order",
    "a basket in the other",
    "granted in part",
    "replayed elsewhere",
    "TtlTooLong",
    "UnknownItem",
    "SalePaused",
    "QuantityLimit",
    "LimitExceeded",
    "UnitsUnavailable",
    "InsufficientInventory",
    "IdempotencyMismatch",
    "UnknownReservation",
    "ReservationConfirmed",
    "ReservationCancelled",
    "ReservationExpired",
    "ReservationNotConfirmed",
    "ExtensionLimit",
    "ReturnExceedsSold",
    "BelowCommitted",
    "UnknownUnit",
    "UnitInUse",
    "PreconditionFailed",
];

/// No part of the traffic has come to nothing.
pub(super) fn everything_happened(rows: &[EventRow], told: &[Vec<RecordedReply>]) {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let mut count = |what: String| *counts.entry(what).or_default() += 1;
    for row in rows {
        count(happened(&row.event));
    }
    for told in told.iter().flatten() {
        match (&told.asked.command, &told.outcome) {
            (_, Outcome::Refused(rejection)) => count(variant(rejection)),
            (Command::Reserve(reserve), Outcome::Done(Reply::Reservation(hold))) => {
                for what in asked_for(reserve, hold) {
                    count(what.to_owned());
                }
            }
            _ => {}
        }
    }
    for answers in by_request(told).values() {
        let first = answers.iter().find(|told| matches!(told.outcome, Outcome::Done(_)));
        let replay = answers.iter().find(|told| matches!(told.outcome, Outcome::Replayed(_)));
        if first.zip(replay).is_some_and(|(first, replay)| first.at != replay.at) {
            count("replayed elsewhere".to_owned());
        }
    }
    let last = rows.iter().filter(|row| !by_a_sweeper(&row.event)).map(|row| row.event.at.micros()).max();
    assert!(last >= Some(START.micros() + 30 * MINUTE), "half an hour has passed: {last:?}");
    let missing: Vec<_> = EVERYTHING.iter().filter(|what| !counts.contains_key(**what)).collect();
    assert!(missing.is_empty(), "{missing:?} never happened: {counts:?}");
}

fn happened(event: &Event) -> String {
    match &event.transition {
        Transition::Hold { change: HoldChange::Expired, .. } => {
            let meanwhile = event.at.micros() < START.micros() + LASTS;
            let when = if meanwhile { "meanwhile" } else { "afterwards" };
            format!("Expired {} {when}", if by_a_sweeper(event) { "by a sweeper" } else { "on the way" })
        }
        Transition::Hold { change, .. } => variant(change),
        Transition::Stock { change, .. } => variant(change),
        Transition::Sale { paused, .. } => (if *paused { "paused" } else { "resumed" }).to_owned(),
        Transition::Limit { .. } => "limit".to_owned(),
        Transition::Record { .. } => "record".to_owned(),
    }
}

fn by_a_sweeper(event: &Event) -> bool {
    event.origin.actor.as_str() == "stockhold"
}

/// How a reservation came about.
fn asked_for(reserve: &Reserve, hold: &Hold) -> Vec<&'static str> {
    let wants = reserve.basket.lines();
    let of_hall = hold.lines.iter().position(|line| line.units.is_some());
    let mut all = vec![match (of_hall, wants.len(), reserve.basket.selection(0)) {
        (_, 1, Some(UnitSelection::Named(_))) => "named units",
        (_, 1, Some(UnitSelection::BestAvailable(_))) => "the best units",
        (Some(_), 1, None) => "any units",
        (Some(0), _, _) => "both kinds in one order",
        (Some(_), _, _) => "both kinds in the other",
        (None, 1, _) => "counted",
        (None, _, _) if wants.is_sorted_by(|one, other| one.item < other.item) => "a basket in one order",
        (None, _, _) => "a basket in the other",
    }];
    let asked: u64 = wants.iter().map(|want| want.quantity).sum();
    if hold.quantity() < asked {
        all.push("granted in part");
    }
    all
}

/// The name of what a value is.
fn variant(value: &impl std::fmt::Debug) -> String {
    format!("{value:?}").chars().take_while(|letter| letter.is_alphanumeric()).collect()
}
