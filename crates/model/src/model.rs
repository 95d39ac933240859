//! The reference model: a second implementation of the rules, slow and simple. [`decide`] and every store are compared
//! with it. It shares no code with them.
//!
//! It keeps reservations in one list and no sums. Held and sold units are counted again for every query, in numbers
//! that can't overflow. It must never be made fast, and it must never call the rules that it checks.
//!
//! [`decide`]: stockhold_domain::decide

mod access;
mod agreement;
mod audit;
mod backorders;
mod changes;
mod checkouts;
mod customers;
mod find;
mod holds;
mod limits;
mod naive_state;
mod payments;
mod pools;
mod prices;
mod records;
mod sales;
mod sourcing;
mod stock;
mod transfers;
mod units;

pub use agreement::{holds_agree, outcomes_agree};
pub use audit::{audit, check_successor};
pub use customers::NaiveCustomers;
pub use find::find;
pub use naive_state::NaiveState;
pub use units::ShownUnit;

use stockhold_domain::{
    Command, Envelope, EventId, FieldError, Fingerprint, Fulfilment, Hold, HoldLimits, HoldTerms, Instant,
    Item, ItemKey, KeyHash, KeyTarget, Label, Line, LineUnits, Mode, Outcome, Rejection, Reply,
    RequestedLine, ReservationId, Reserve, Scope, Seconds, Settings, Shortage, Status, StockCounters,
    UnavailableUnits, UnitSelection, limits as bounds,
};

/// An item in the model. Held and sold units are not stored, because they are counted from the reservations.
#[derive(Clone, Debug)]
struct Record {
    key: ItemKey,
    mode: Mode,
    total: i128,
    seats: Vec<units::UnitRecord>,
    settings: Settings,
    pools: Vec<pools::PoolRecord>,
    version: u64,
    sequence: u64,
    at: Instant,
    created_at: Instant,
}

/// Predicts the exact outcome of any command.
///
/// It uses the instants that it is given. A store may clamp a clock that steps back for each item or for the whole
/// store, so a caller whose clock steps back clamps it first.
#[derive(Clone, Debug)]
pub struct Model {
    rules: HoldLimits,
    records: Vec<Record>,
    holds: Vec<Hold>,
    used: Vec<(KeyHash, Fingerprint, KeyTarget)>,
    paused: Vec<Scope>,
    /// The records of the service, deleted ones included.
    service_records: Vec<stockhold_domain::Record>,
    /// The limits, deleted ones included, in order of their ids.
    limits: Vec<stockhold_domain::Limit>,
    /// While lines of a reservation are changed: what it can have of each of its items.
    amending: Vec<units::OwnUnits>,
}

impl Model {
    /// A model without items.
    pub fn new(rules: HoldLimits) -> Self {
        Self {
            rules,
            records: Vec::new(),
            holds: Vec::new(),
            used: Vec::new(),
            paused: Vec::new(),
            service_records: Vec::new(),
            limits: Vec::new(),
            amending: Vec::new(),
        }
    }

    /// The outcome of a command. It is never [`Outcome::Later`], because a store runs such a command again by itself.
    pub fn run(&mut self, envelope: &Envelope, now: Instant) -> Outcome {
        // Setting and pausing have the same effect when they are repeated, so they take no key.
        let keyless = matches!(
            envelope.command,
            Command::SetStock(_)
                | Command::AddUnits(_)
                | Command::RetireUnit(_)
                | Command::SetSale(_)
                | Command::Sweep
                | Command::SetLimit(_)
                | Command::DeleteLimit(_)
                | Command::SetPool(_)
                | Command::DeletePool(_)
                | Command::SetUnitPool(_)
                | Command::AdvancePayment(_)
        );
        let key = envelope.key.filter(|_| !keyless);
        if let Some(key) = key
            && let Some((_, fingerprint, target)) = self.used.iter().find(|(hash, ..)| *hash == key.hash)
        {
            if *fingerprint != key.fingerprint {
                if let Some(id) = envelope.command.reservation()
                    && self.hold(id).is_none()
                {
                    return Outcome::Refused(Rejection::UnknownReservation(id));
                }
                let allowed = access::expect_access(self, envelope);
                return Outcome::Refused(allowed.err().unwrap_or(Rejection::IdempotencyMismatch));
            }
            let reply = self.current_reply(&envelope.command, target);
            let shown = reply.and_then(|reply| access::expect_visible(envelope, &reply).map(|()| reply));
            return shown.map_or_else(Outcome::Refused, Outcome::Replayed);
        }
        match self.decide(envelope, now) {
            Err(rejection) => Outcome::Refused(rejection),
            Ok(reply) => {
                let target = match (&reply, envelope.command.changed_item()) {
                    (Reply::ItemDeleted, Some(item)) => Some(KeyTarget::Item(item.clone())),
                    (Reply::Reservation(hold), _) => Some(KeyTarget::Reservation(hold.id)),
                    (Reply::Item { item, .. }, _) => Some(KeyTarget::Item(item.key.clone())),
                    (Reply::Record(record), _) => Some(KeyTarget::Record(record.key.clone())),
                    (
                        Reply::ItemDeleted
                        | Reply::Units { .. }
                        | Reply::Sale { .. }
                        | Reply::Swept { .. }
                        | Reply::Limit { .. },
                        _,
                    ) => None,
                };
                if let (Some(key), Some(target)) = (key, target) {
                    self.used.push((key.hash, key.fingerprint, target));
                }
                Outcome::Done(reply)
            }
        }
    }

    /// Runs a command as if its key had never been used. A store may do so when the key's retention has passed. If the
    /// command does not store the key again, the store may still find the old one later.
    pub fn run_without_key_record(&mut self, envelope: &Envelope, now: Instant) -> Outcome {
        let known =
            |used: &(KeyHash, Fingerprint, KeyTarget)| envelope.key.is_some_and(|key| key.hash == used.0);
        let forgotten: Vec<_> = self.used.extract_if(.., |used| known(used)).collect();
        let outcome = self.run(envelope, now);
        if !self.used.iter().any(known) {
            self.used.extend(forgotten);
        }
        outcome
    }

    /// The current state of an item.
    pub fn item(&self, key: &ItemKey) -> Option<Item> {
        let record = self.records.iter().find(|record| record.key == *key)?;
        let count = |number: i128| u64::try_from(number).expect("a figure that fits its type");
        Some(Item {
            key: record.key.clone(),
            mode: record.mode,
            figures: StockCounters {
                total_units: count(record.total),
                confirmed_sold: count(self.sold(key)),
                fulfilled: self.fulfilled(key),
                held: count(self.held(key)),
                held_under_payment: self.held_under_payment(key),
                active: self.active(key).len() as u64,
                sequence: record.sequence,
                at: record.at,
            },
            settings: record.settings.clone().into(),
            pools: self.pools_of(record),
            version: record.version,
            paused: self.paused.contains(&Scope::Item(key.clone())),
            created_at: record.created_at,
        })
    }

    /// The current state of a reservation.
    pub fn hold(&self, id: ReservationId) -> Option<Hold> {
        self.holds.iter().find(|hold| hold.id == id).cloned()
    }

    /// Every item, in the order of their creation.
    pub fn items(&self) -> Vec<Item> {
        self.records.iter().filter_map(|record| self.item(&record.key)).collect()
    }

    /// All reservations, the oldest first.
    pub fn holds(&self) -> &[Hold] {
        &self.holds
    }

    fn decide(&mut self, envelope: &Envelope, now: Instant) -> Result<Reply, Rejection> {
        access::expect_access(self, envelope)?;
        match &envelope.command {
            Command::Reserve(reserve) if reserve.basket.has_sources() => {
                self.expect_pool(reserve)?;
                self.reserve_from_sources(envelope.fresh.reservation, reserve, now).map(Reply::Reservation)
            }
            Command::Reserve(reserve) => {
                self.expect_pool(reserve)?;
                self.reserve(envelope.fresh.reservation, reserve, None, now).map(Reply::Reservation)
            }
            Command::Confirm(confirm) => {
                self.confirm(envelope.fresh.reservation, confirm, now).map(Reply::Reservation)
            }
            Command::Release(release) => self.release(release, now).map(Reply::Reservation),
            Command::Extend(extend) => self.extend(extend, now).map(Reply::Reservation),
            Command::Amend(amend) => self.amend(amend, now).map(Reply::Reservation),
            Command::Transfer(transfer) => self.transfer(transfer, now).map(Reply::Reservation),
            Command::Split(split) => {
                self.split(envelope.fresh.reservation, split, now).map(Reply::Reservation)
            }
            Command::Merge(merge) => self.merge(merge, now).map(Reply::Reservation),
            Command::OpenPayment(open) => self.open_window(open, now).map(Reply::Reservation),
            Command::ClosePayment(close) => self.close_window(close, now).map(Reply::Reservation),
            Command::StartCheckout(start) => {
                self.start_checkout(envelope, start, now).map(Reply::Reservation)
            }
            Command::AdvancePayment(advance) => {
                self.advance_payment(envelope.fresh.reservation, advance, now).map(Reply::Reservation)
            }
            Command::Refund(refund) => self.refund(refund, now).map(Reply::Reservation),
            Command::Fulfil(fulfil) => self.fulfil(fulfil, now).map(Reply::Reservation),
            Command::Return(returned) => self.return_units(returned, now).map(Reply::Reservation),
            Command::SetStock(set) => self.set_stock(set, now),
            Command::AdjustStock(adjust) => self.adjust_stock(adjust, now),
            Command::DeleteItem(delete) => self.delete_item(delete, now),
            Command::AddUnits(add) => self.add_units(add, now),
            Command::RetireUnit(retire) => self.retire_unit(retire, now),
            Command::SetSale(sale) => self.set_sale(sale),
            Command::Sweep => Ok(self.sweep(now)),
            Command::SetRecord(set) => self.set_record(set),
            Command::SetLimit(set) => self.set_limit(set),
            Command::DeleteLimit(delete) => self.delete_limit(delete),
            Command::SetPool(set) => self.set_pool(set, now),
            Command::DeletePool(delete) => self.delete_pool(delete, now),
            Command::SetUnitPool(set) => self.set_unit_pool(set, now),
        }
    }

    fn current_reply(&self, command: &Command, target: &KeyTarget) -> Result<Reply, Rejection> {
        match (command, target) {
            (Command::DeleteItem(_), _) => Ok(Reply::ItemDeleted),
            (_, KeyTarget::Reservation(id)) => {
                Ok(Reply::Reservation(self.hold(*id).expect("a kept reservation")))
            }
            (_, KeyTarget::Item(key)) => match self.item(key) {
                Some(item) => Ok(Reply::Item { item, created: false }),
                None => Err(Rejection::UnknownItem(vec![key.clone()])),
            },
            (_, KeyTarget::Record(key)) => {
                Ok(Reply::Record(self.record_or_rest(key).expect("a kept record")))
            }
        }
    }

    // Counts.

    fn held(&self, key: &ItemKey) -> i128 {
        let mut units = 0;
        for hold in &self.holds {
            for line in hold.lines.iter().filter(|line| line.item == *key) {
                if hold.status == Status::Active {
                    units += i128::from(line.quantity);
                }
            }
        }
        units
    }

    fn sold(&self, key: &ItemKey) -> i128 {
        let mut units = 0;
        for hold in &self.holds {
            for line in hold.lines.iter().filter(|line| line.item == *key) {
                if hold.status == Status::Confirmed {
                    units += i128::from(line.quantity) - i128::from(line.returned);
                }
            }
        }
        units
    }

    fn available(&self, record: &Record, pool: Option<&Label>) -> i128 {
        if let Some(own) = self.own_units(&record.key) {
            return own.all;
        }
        let kept = i128::from(record.settings.safety_stock) + self.set_aside(record);
        let sellable = record.total + i128::from(record.settings.oversell_allowance);
        let general = (sellable - self.sold(&record.key) - self.held(&record.key) - kept).max(0);
        self.with_pool(record, pool, general)
    }

    /// Active reservations of an item as (deadline, id), the earliest deadline first.
    fn active(&self, key: &ItemKey) -> Vec<(Instant, ReservationId)> {
        let mut found: Vec<_> = self
            .holds
            .iter()
            .filter(|hold| hold.status == Status::Active)
            .filter(|hold| hold.lines.iter().any(|line| line.item == *key))
            .map(|hold| (hold.expires_at, hold.id))
            .collect();
        found.sort_unstable();
        found
    }

    // Reservations.

    /// `expired` is the reservation whose units are taken again, at the prices that it had.
    fn reserve(
        &mut self,
        id: ReservationId,
        asked: &Reserve,
        expired: Option<&Hold>,
        now: Instant,
    ) -> Result<Hold, Rejection> {
        let requested_lines = asked.basket.lines();
        let record_of = |model: &Self, key: &ItemKey| model.records.iter().find(|s| s.key == *key).cloned();
        let known: Vec<Record> = requested_lines
            .iter()
            .filter_map(|requested_line| record_of(self, &requested_line.item))
            .collect();

        let selected = requested_lines.iter().enumerate();
        let selected = selected.map(|(n, line)| (line.clone(), asked.basket.selection(n).cloned()));
        self.expect_reservable(&selected.collect::<Vec<_>>(), asked.ttl, now)?;

        let added = requested_lines.iter().map(|line| (line.item.clone(), line.quantity)).collect();
        let wanted = self.wanted(added, &asked.terms, asked.override_limits, &|_| true)?;
        let mut limits_left =
            self.check_limits(&wanted, &[], asked.fulfilment, asked.override_limits, now)?;

        let pool = asked.terms.optional.as_ref().and_then(|optional| optional.pool.as_ref());
        // Item by item in the order of the basket, and for one item the earliest deadline first. The sequences show
        // this order.
        for (n, (requested_line, record)) in requested_lines.iter().zip(&known).enumerate() {
            let choice = asked.basket.selection(n);
            self.release_due(&record.key, now);
            loop {
                // A unit that comes back leaves a pool that was released.
                let record = self.known(&record.key);
                let is_served =
                    self.offer(&record, requested_line, choice, pool).quantity >= requested_line.quantity;
                if is_served && !self.would_be_late(requested_line, 0, pool) {
                    break;
                }
                match self.blocking_hold(&record, requested_line, choice, pool, now) {
                    Some((deadline, id)) if deadline <= now => self.expire(id, now),
                    _ => break,
                }
            }
        }

        let (mut lines, short, taken) = self.grant_lines(asked, &wanted, &mut limits_left);
        let enough = match asked.fulfilment {
            Fulfilment::All => short.is_empty() && taken.is_empty(),
            Fulfilment::Partial => !lines.is_empty(),
        };
        if !enough && !taken.is_empty() {
            return Err(Rejection::UnitsUnavailable(taken));
        }
        if !enough {
            return Err(Rejection::InsufficientInventory(short));
        }
        for line in &mut lines {
            match expired {
                Some(expired) => {
                    let before = expired.lines.iter().find(|before| before.item == line.item);
                    prices::set_price(line, before.expect("the same item").details().price.clone());
                }
                None => self.price_line(line, None, asked.terms.channel(), now)?,
            }
        }
        prices::expect_one_currency(lines.iter(), "/lines")?;
        if let Some(checkout) = &asked.checkout {
            checkouts::checkout_amount(&lines, checkout, "/auto_checkout/extra")?;
        }
        // Only lines that get units limit the times.
        let granted: Vec<&Record> =
            known.iter().filter(|record| lines.iter().any(|line| line.item == record.key)).collect();
        let max = granted.iter().map(|s| self.max_hold(s)).min().expect("a line");
        let default = granted.iter().map(|s| self.default_ttl(s)).min().expect("a line");
        let ttl = asked.ttl.unwrap_or(default.min(max));
        for line in &mut lines {
            self.count_line_transition(line, now, None);
        }
        self.note_draws(&[], &lines, now);
        let hold = Hold {
            id,
            status: Status::Active,
            expires_at: now.deadline(ttl),
            terms: HoldTerms {
                reserve: asked.terms.clone(),
                created_at: now,
                max_expires_at: now.deadline(max),
            }
            .into(),
            lines: lines.into(),
            closing: None,
            details: None,
            version: 1,
            last_event: NO_EVENT,
        };
        self.holds.push(hold.clone());
        match &asked.checkout {
            Some(checkout) => self.begin_checkout(id, hold, checkout, now),
            None => Ok(hold),
        }
    }

    /// What refuses lines whatever the stock.
    fn expect_reservable(
        &self,
        lines: &[(RequestedLine, Option<UnitSelection>)],
        ttl: Option<Seconds>,
        now: Instant,
    ) -> Result<(), Rejection> {
        let record_of = |key: &ItemKey| self.records.iter().find(|record| record.key == *key);
        let known: Vec<&Record> = lines.iter().filter_map(|(line, _)| record_of(&line.item)).collect();
        let max = known.iter().map(|s| self.max_hold(s)).min().unwrap_or(self.rules.max_hold);
        if ttl.is_some_and(|ttl| ttl > max) {
            return Err(Rejection::TtlTooLong { max });
        }
        for (line, selection) in lines {
            let counts = |record: &Record| record.mode == Mode::Counted;
            if selection.is_some() && record_of(&line.item).is_some_and(counts) {
                return Err(Rejection::ModeMismatch { item: line.item.clone(), mode: Mode::Counted });
            }
        }
        let unknown: Vec<ItemKey> =
            lines.iter().map(|(line, _)| line.item.clone()).filter(|key| record_of(key).is_none()).collect();
        if !unknown.is_empty() {
            return Err(Rejection::UnknownItem(unknown));
        }
        for record in &known {
            if let Some(refusal) = self.no_sale_of(&record.key, now) {
                return Err(refusal);
            }
        }
        for ((line, _), record) in lines.iter().zip(&known) {
            let limit = if record.mode == Mode::Units { bounds::LINE_UNITS } else { bounds::LINE_QUANTITY };
            if line.quantity > limit {
                let item = Some(line.item.clone());
                return Err(Rejection::QuantityLimit { item, requested: line.quantity, limit });
            }
        }
        let with_ids = lines.iter().zip(&known).filter(|(_, record)| record.mode == Mode::Units);
        let requested = with_ids.map(|((line, _), _)| line.quantity).sum();
        if requested > bounds::BASKET_UNITS {
            return Err(Rejection::QuantityLimit { item: None, requested, limit: bounds::BASKET_UNITS });
        }
        Ok(())
    }

    /// What each requested line gets now. For lines that do not get everything: the shortage and the units that are
    /// taken.
    fn grant_lines(
        &self,
        asked: &Reserve,
        wanted: &[limits::Wanted],
        limits_left: &mut Option<limits::LimitsLeft>,
    ) -> (Vec<Line>, Vec<Shortage>, Vec<UnavailableUnits>) {
        let mut lines = Vec::new();
        let (mut short, mut taken) = (Vec::new(), Vec::new());
        let pool = asked.terms.optional.as_ref().and_then(|optional| optional.pool.as_ref());
        for (n, requested_line) in asked.basket.lines().iter().enumerate() {
            let record = &self.known(&requested_line.item);
            let mut offered = self.offer(record, requested_line, asked.basket.selection(n), pool);
            let in_stock = offered.quantity;
            limits::clip(&mut offered, &wanted[n], 0, limits_left);
            if let Some(units) = offered.taken {
                taken.push(units);
            } else if in_stock < requested_line.quantity {
                short.push(Shortage {
                    item: requested_line.item.clone(),
                    requested: requested_line.quantity,
                    available: in_stock,
                    next_expiry_at: self.active(&requested_line.item).first().map(|(deadline, _)| *deadline),
                    unknown_sections: unknown_sections(record, asked.basket.selection(n)),
                    approximate: false,
                });
            }
            if offered.quantity > 0 {
                let units = offered.units.map(|ids| {
                    LineUnits::new(ids.into_iter().map(|id| units::granted(record, id)).collect()).into()
                });
                let quantity = u32::try_from(offered.quantity).expect("within the limit");
                lines.push(Line {
                    item: requested_line.item.clone(),
                    requested: u32::try_from(requested_line.quantity).expect("within the limit"),
                    quantity,
                    fulfilled: 0,
                    returned: 0,
                    sequence: 0,
                    units,
                    details: self.late_units(&requested_line.item, None, quantity, pool),
                });
                let line = lines.last_mut().expect("a line");
                limits::count_line(line, &[], 0, &wanted[n].keys);
                self.draw_line(line, None, pool);
            }
        }
        (lines, short, taken)
    }

    fn default_ttl(&self, record: &Record) -> Seconds {
        let mut nearest = self.rules.default_ttl;
        for (location, limits) in &self.rules.locations {
            if location.as_str() == record.key.location() {
                nearest = limits.default_ttl.unwrap_or(nearest);
            }
        }
        record.settings.default_ttl.unwrap_or(nearest)
    }

    fn max_hold(&self, record: &Record) -> Seconds {
        let mut nearest = self.rules.max_hold;
        for (location, limits) in &self.rules.locations {
            if location.as_str() == record.key.location() {
                nearest = limits.max_hold.unwrap_or(nearest);
            }
        }
        record.settings.max_hold.unwrap_or(nearest)
    }
}

/// The requested sections that no unit of the item is in.
fn unknown_sections(record: &Record, choice: Option<&UnitSelection>) -> Vec<Label> {
    let Some(UnitSelection::BestAvailable(best)) = choice else { return Vec::new() };
    let is_there = |name: &Label| record.seats.iter().any(|seat| seat.place.section.as_ref() == Some(name));
    best.sections.iter().filter(|name| !is_there(name)).cloned().collect()
}

/// The model makes no events, and [`same`] ignores their ids.
const NO_EVENT: EventId = EventId::from_u128(0);

fn invalid(pointer: &str) -> Rejection {
    Rejection::InvalidRequest(FieldError { pointer: pointer.into(), detail: String::new() })
}
