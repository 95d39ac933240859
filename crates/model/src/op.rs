//! Commands in small numbers. A generator makes and shrinks [`Op`]s without knowing what exists. An [`OpContext`]
//! turns them into envelopes about few items and existing reservations, so that commands conflict often.

mod change_op;
mod random_op;
mod source_op;
mod terms_op;

pub use change_op::{ChangeKind, ChangeOp};
pub use random_op::TTLS;
pub use source_op::SourceOp;
pub use terms_op::TermsOp;

use crate::checkout_maker;
use crate::maker::{self, Maker, label, quantity_of, seconds};

use self::terms_op::pool_name;
use stockhold_domain::{
    Access, AdjustStock, Attribute, Attributes, BestAvailable, Command, Confirm, DeleteItem, Envelope,
    Extend, Fulfilment, IfExpired, ItemKey, Label, NewUnit, OptionalTerms, Patch, Precondition, RecordChange,
    RecordKey, RecordKind, RecordValue, Release, ReservationId, Reserve, ReserveTerms, Restrictions, Return,
    Scope, SetRecord, SetSale, SetStock, UnitSelection,
};

/// A command in small numbers, which select among what exists. See [`OpContext::envelope`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Reserve: items and quantities, the same item twice too.
    Reserve {
        /// (item, quantity).
        lines: Vec<(u8, u8)>,
        /// Seconds.
        ttl: Option<u32>,
        /// Partial fulfilment.
        partial: bool,
        /// The key, one of a few.
        key: Option<u8>,
    },
    /// Confirm.
    Confirm {
        /// The reservation: how many before the newest.
        hold: u8,
        /// Which of two orders.
        order: Option<u8>,
        /// The key, one of a few.
        key: Option<u8>,
    },
    /// Release.
    Release {
        /// The reservation: how many before the newest.
        hold: u8,
        /// The key, one of a few.
        key: Option<u8>,
    },
    /// Extend.
    Extend {
        /// The reservation: how many before the newest.
        hold: u8,
        /// Seconds.
        ttl: u32,
        /// The key, one of a few.
        key: Option<u8>,
    },
    /// Return: everything, or items and quantities.
    Return {
        /// The reservation: how many before the newest.
        hold: u8,
        /// (item, quantity).
        lines: Option<Vec<(u8, u8)>>,
        /// The key, one of a few.
        key: Option<u8>,
    },
    /// Set stock.
    SetStock {
        /// Which item.
        item: u8,
        /// Units. Without it, the total stays.
        total: Option<u8>,
        /// Units that are kept back.
        safety_stock: Option<u8>,
        /// Seconds. 0 clears the setting.
        default_ttl: Option<u32>,
        /// Seconds. 0 clears the setting.
        max_hold: Option<u32>,
        /// What is expected of it.
        expected: Option<u8>,
    },
    /// Adjust stock.
    AdjustStock {
        /// Which item.
        item: u8,
        /// The difference. 0 stands for 1.
        delta: i8,
        /// What is expected of it.
        expected: Option<u8>,
        /// The key, one of a few.
        key: Option<u8>,
    },
    /// Delete an item.
    DeleteItem {
        /// Which item.
        item: u8,
        /// What is expected of it.
        expected: Option<u8>,
        /// The key, one of a few.
        key: Option<u8>,
    },
    /// Pause or resume.
    SetSale {
        /// 0 is everything, 1 and 2 are locations, and the rest are items.
        scope: u8,
        /// Pause.
        paused: bool,
    },
    /// Reserve units of the item whose units have ids, with or without a counted line.
    ReserveUnits {
        /// How many.
        count: u8,
        /// How they are chosen.
        how: u8,
        /// Selects sections, ids and other parts.
        which: u8,
        /// Whether there is a line of the first item.
        counted: bool,
        /// Seconds.
        ttl: u32,
        /// Partial fulfilment.
        partial: bool,
        /// The key, one of a few.
        key: Option<u8>,
    },
    /// Create the item whose units have ids, without units.
    CreateUnitItem,
    /// Add units to the item whose units have ids.
    AddUnits {
        /// The row, which decides the section.
        row: u8,
        /// The first seat.
        first: u8,
        /// How many.
        count: u8,
        /// Whether they are given positions.
        placed: bool,
    },
    /// Retire a unit.
    RetireUnit {
        /// Which row.
        row: u8,
        /// Which seat.
        seat: u8,
    },
    /// Return units by their ids.
    ReturnUnits {
        /// The reservation: how many before the newest.
        hold: u8,
        /// Which.
        which: u8,
        /// The key, one of a few.
        key: Option<u8>,
    },
    /// Another change of an existing reservation.
    Change(ChangeOp),
    /// Reserve lines of which some have a source.
    Source(SourceOp),
    /// A command of operators about the terms on which an item is sold.
    Terms(TermsOp),
    /// Sweep.
    Sweep,
    /// A repeated request with a key.
    Retry {
        /// How many such requests before the newest.
        sent: u8,
    },
    /// Put or delete a record.
    SetRecord {
        /// Which of a few records.
        record: u8,
        /// The version expected.
        version: u8,
        /// What its value begins with; deleted when left out.
        value: Option<u8>,
        /// Which change the event shows.
        change: u8,
        /// Which of a few keys.
        key: Option<u8>,
    },
}

/// Rows, and most seats of a row. Both are small, so that requests conflict.
const ROWS: u8 = 3;
const SEATS: u8 = 6;
/// Counted items of a history. The item whose units have ids follows them.
const COUNTED_ITEMS: usize = 5;
/// Reservations that commands name: this many newest ones.
const RECENT: usize = 12;
/// Orders that reservations are confirmed for.
/// The order ids that commands name.
pub const ORDERS: [&str; 2] = ["order-0", "order-1"];
/// Number of keys. It is small, so that keys are used again.
const KEYS: u8 = 6;
/// Records of a history: so few that requests conflict.
const RECORDS: u8 = 4;
/// Commands after which other records are used. It is small, so that most versions stay below [`RECORD_VERSIONS`].
const RECORD_COMMANDS: usize = 16;
/// Versions that a change of a record may expect: 0 to this less 1.
const RECORD_VERSIONS: u8 = 4;
/// One of this many commands names a reservation that never existed.
const UNKNOWN: u8 = 31;
/// Of this many commands, each with another access, six have callers that may not do everything.
const RESTRICTED_EVERY: usize = 64;
/// Limits of a history.
const LIMITS: u8 = 3;

/// The items and reservations of a history.
#[derive(Clone, Debug)]
pub struct OpContext {
    maker: Maker,
    items: Vec<ItemKey>,
    holds: Vec<ReservationId>,
    sent: Vec<Envelope>,
    /// Commands so far that were about records.
    record_commands: usize,
    /// Commands so far.
    commands: usize,
}

impl OpContext {
    /// Five items at three locations. The last two do not exist until a command creates them. The first, the third and the last are
    /// of one SKU.
    pub fn new(seed: u64, prefix: &str) -> Self {
        let maker = Maker::new(seed, prefix);
        let hub = maker.location("hub");
        let items = vec![
            maker.item("a"),
            maker.item("A"),
            maker.item_at(hub.as_str(), "a"),
            maker.item_at(hub.as_str(), "b "),
            maker.item_at(maker.location("hill").as_str(), "a"),
        ];
        Self { maker, items, holds: Vec::new(), sent: Vec::new(), record_commands: 0, commands: 0 }
    }

    /// The same, and the last item has units with ids.
    pub fn with_unit_item(seed: u64, prefix: &str) -> Self {
        let mut context = Self::new(seed, prefix);
        context.items.push(context.maker.item("hall"));
        context
    }

    /// Its items, including those that do not exist.
    pub fn items(&self) -> &[ItemKey] {
        &self.items
    }

    /// Ids of all reserves, whether they succeeded or not.
    pub fn holds(&self) -> &[ReservationId] {
        &self.holds
    }

    /// Its records, those that do not exist included.
    pub fn records(&self) -> Vec<RecordKey> {
        let groups = 0..=self.record_commands / RECORD_COMMANDS;
        groups.flat_map(|group| (0..RECORDS).map(move |record| self.record(group, record))).collect()
    }

    fn record(&self, group: usize, record: u8) -> RecordKey {
        let kind = if record.is_multiple_of(2) { RecordKind::ApiKey } else { RecordKind::SigningKey };
        self.maker.record(kind, &format!("record-{group}-{}", record / 2))
    }

    /// Wraps another command.
    pub fn wrap(&mut self, command: Command) -> Envelope {
        self.maker.wrap(command)
    }

    /// Turns an op into an envelope.
    pub fn envelope(&mut self, op: &Op) -> Envelope {
        if let Op::Retry { sent } = op {
            if let Some(before) = recent(&self.sent, *sent).cloned() {
                let envelope = self.maker.again(&before);
                self.note(&envelope);
                return envelope;
            }
            return self.maker.wrap(Command::Sweep);
        }
        let (command, key) = self.command(op);
        let access = self.access(&command);
        let envelope = match key {
            Some(key) => self.maker.keyed(&format!("key-{}", key % KEYS), command),
            None => self.maker.wrap(command),
        };
        let envelope = Envelope { access, ..envelope };
        self.note(&envelope);
        if envelope.key.is_some() {
            self.sent.push(envelope.clone());
        }
        envelope
    }

    /// What the caller of the next command may see: mostly everything.
    fn access(&mut self, command: &Command) -> Access {
        self.commands += 1;
        // Only the service itself sends it.
        if matches!(command, Command::Sweep) {
            return Access::Unrestricted;
        }
        let restricted = |restrictions| Access::Restricted(Box::new(restrictions));
        let at = |items: &[u8]| items.iter().map(|item| label(self.item(*item).location())).collect();
        match (self.commands % RESTRICTED_EVERY, command.reservation()) {
            (0, _) => restricted(Restrictions { locations: Some(at(&[0])), ..Restrictions::default() }),
            (1, _) => restricted(Restrictions { locations: Some(at(&[0, 2])), ..Restrictions::default() }),
            (2, _) => {
                restricted(Restrictions { channels: Some([label("web")].into()), ..Restrictions::default() })
            }
            (3 | 4, Some(id)) => Access::Holder { id, transfers: 0 },
            (5, Some(id)) => Access::Holder { id, transfers: 1 },
            _ => Access::Unrestricted,
        }
    }

    fn note(&mut self, envelope: &Envelope) {
        let creates = match &envelope.command {
            Command::Reserve(_) | Command::Split(_) => true,
            Command::Confirm(confirm) => confirm.if_expired == IfExpired::Reacquire,
            _ => false,
        };
        if creates {
            self.holds.push(envelope.fresh.reservation);
        }
    }

    fn command(&mut self, op: &Op) -> (Command, Option<u8>) {
        match op {
            Op::Reserve { lines, ttl, partial, key } => {
                let mut reserve = self.reserve(lines, *ttl, *partial);
                // Some pay at once.
                let which = ttl.filter(|ttl| ttl % 4 == 1).and_then(|ttl| u8::try_from(ttl % 250).ok());
                reserve.checkout = which.map(|which| checkout_maker::random_checkout(which).into());
                (Command::Reserve(reserve), *key)
            }
            Op::Confirm { hold, order, key } => {
                let order_id = order.map(|order| label(ORDERS[usize::from(order % 2)]));
                let Command::Confirm(confirm) = maker::confirm(self.hold(*hold)) else { unreachable!() };
                (Command::Confirm(Confirm { order_id, ..confirm }), *key)
            }
            Op::Release { hold, key } => {
                let reason = (hold % 2 == 0).then(|| label("changed my mind"));
                (Command::Release(Release { id: self.hold(*hold), reason }), *key)
            }
            Op::Extend { hold, ttl, key } => {
                let ttl = seconds(u64::from(*ttl));
                (Command::Extend(Extend { id: self.hold(*hold), ttl }), *key)
            }
            Op::Return { hold, lines, key } => {
                let id = self.hold(*hold);
                let command = match lines {
                    None => maker::return_all(id),
                    Some(lines) => maker::return_of(id, &self.lines(lines)),
                };
                let Command::Return(returned) = command else { unreachable!("a return") };
                (Command::Return(Return { reason: label("came back"), ..returned }), *key)
            }
            Op::SetStock { item, total, safety_stock, default_ttl, max_hold, expected } => {
                let setting = |asked: &Option<u32>| match *asked {
                    None => Patch::Keep,
                    Some(0) => Patch::Clear,
                    Some(time) => Patch::Set(seconds(u64::from(time))),
                };
                let set = SetStock {
                    total_units: total.map(u64::from),
                    safety_stock: safety_stock.map(u64::from),
                    default_ttl: setting(default_ttl),
                    max_hold: setting(max_hold),
                    override_owner: total.is_some_and(|total| total.is_multiple_of(2)),
                    expected: expected.map(precondition),
                    ..maker::stock_of(self.item(*item), 0)
                };
                (Command::SetStock(set), None)
            }
            Op::AdjustStock { item, delta, expected, key } => {
                (Command::AdjustStock(adjustment(self.item(*item), *delta, *expected)), *key)
            }
            Op::DeleteItem { item, expected, key } => {
                let item = self.item(*item).clone();
                (Command::DeleteItem(DeleteItem { item, expected: expected.map(precondition) }), *key)
            }
            Op::SetSale { scope, paused } => {
                let scope = match scope % 6 {
                    0 => Scope::Everything,
                    1 => Scope::Location(label(self.item(0).location())),
                    2 => Scope::Location(label(self.item(2).location())),
                    item => Scope::Item(self.item(item).clone()),
                };
                (Command::SetSale(SetSale { scope, paused: *paused, reason: None }), None)
            }
            Op::ReserveUnits { count, how, which, counted, ttl, partial, key } => {
                let (choice, count) = chosen(*how, *which, *count);
                let mut lines = vec![(self.hall(), count, choice)];
                if *counted {
                    lines.push((self.item(0), 1, None));
                }
                let fulfilment = if *partial { Fulfilment::Partial } else { Fulfilment::All };
                let reserve = maker::reserve_choosing(u64::from(*ttl), lines);
                let pool = how.wrapping_add(*which).is_multiple_of(3).then(|| pool_name(*which / 3));
                let optional = OptionalTerms { pool, ..OptionalTerms::default() };
                let terms = ReserveTerms::new(reserve.terms.owner_id.clone(), optional);
                (Command::Reserve(Reserve { fulfilment, terms, ..reserve }), *key)
            }
            Op::CreateUnitItem => (maker::create_unit_item(self.hall()), None),
            Op::AddUnits { row, first, count, placed } => {
                let units = (0..=count % SEATS).map(|n| new_seat(*row, first.wrapping_add(n), *placed));
                (maker::add_units(self.hall(), units.collect()), None)
            }
            Op::RetireUnit { row, seat } => (maker::retire(self.hall(), seat_id(*row, *seat).as_str()), None),
            Op::ReturnUnits { hold, which, key } => {
                let ids = some_ids(*which, 1 + which % 2);
                let ids: Vec<&str> = ids.iter().map(Label::as_str).collect();
                (maker::return_units(self.hold(*hold), &ids), *key)
            }
            Op::SetRecord { record, version, value, change, key } => {
                (Command::SetRecord(self.set_record(*record, *version, *value, *change)), *key)
            }
            Op::Change(change) => (change.command(self), change.key),
            Op::Terms(terms) => (terms.command(self), terms.key()),
            Op::Source(source) => (source.command(self), source.key),
            Op::Sweep | Op::Retry { .. } => (Command::Sweep, None),
        }
    }

    fn reserve(&self, lines: &[(u8, u8)], ttl: Option<u32>, partial: bool) -> Reserve {
        let units: u32 = lines.iter().map(|(_, units)| u32::from(*units)).sum();
        Reserve {
            ttl: ttl.map(|ttl| seconds(u64::from(ttl))),
            fulfilment: if partial { Fulfilment::Partial } else { Fulfilment::All },
            terms: buyer(units),
            override_limits: units.is_multiple_of(7),
            ..maker::reserve_of(&self.lines(lines))
        }
    }

    fn set_record(&mut self, record: u8, version: u8, value: Option<u8>, change: u8) -> SetRecord {
        let bytes = |value: u8| vec![value; usize::from(value)];
        let group = self.record_commands / RECORD_COMMANDS;
        self.record_commands += 1;
        SetRecord {
            key: self.record(group, record % RECORDS),
            expected_version: u64::from(version % RECORD_VERSIONS),
            value: value.map(|value| RecordValue::new(&bytes(value)).expect("a short value")),
            change: match change % 6 {
                0 => RecordChange::Silent,
                1 => RecordChange::KeyCreated,
                2 => RecordChange::KeyRolled,
                3 => RecordChange::KeyRevoked,
                4 => RecordChange::SinkEventSkipped,
                _ => RecordChange::EndpointChanged,
            },
        }
    }

    /// The item whose units have ids, if the history has one.
    pub(super) fn unit_item(&self) -> Option<&ItemKey> {
        self.items.get(COUNTED_ITEMS)
    }

    /// The locations of the SKU that is stocked at several, and one that stocks nothing.
    pub(super) fn source_locations(&self) -> [Label; 4] {
        let [here, hub, hill] = [0, 2, 4].map(|item| label(self.item(item).location()));
        [here, hub, hill, self.maker.location("nowhere")]
    }

    fn hall(&self) -> &ItemKey {
        self.items.last().expect("items")
    }

    pub(super) fn lines(&self, lines: &[(u8, u8)]) -> Vec<(&ItemKey, u64)> {
        let wish = |(item, quantity): &(u8, u8)| (self.item(*item), quantity_of(*quantity));
        if lines.is_empty() { vec![(self.item(0), 1)] } else { lines.iter().map(wish).collect() }
    }

    /// One of a few limits.
    pub(super) fn limit(&self, limit: u8) -> Label {
        self.maker.limit(&(limit % LIMITS).to_string())
    }

    pub(super) fn item(&self, item: u8) -> &ItemKey {
        &self.items[usize::from(item) % self.items.len()]
    }

    pub(super) fn hold(&mut self, hold: u8) -> ReservationId {
        match recent(&self.holds, hold) {
            Some(id) if hold % (UNKNOWN + 1) != UNKNOWN => *id,
            _ => self.maker.no_reservation(),
        }
    }
}

/// Who reserves: one of two customers or none, through a channel or none.
pub(super) fn buyer(which: u32) -> ReserveTerms {
    let customer = match which % 4 {
        0 => None,
        1 | 2 => Some(label("ann")),
        _ => Some(label("bob")),
    };
    let channel = (which % 3 == 1).then(|| label("web"));
    let pool = (which % 4 == 3).then(|| pool_name(u8::from(which % 8 == 3)));
    ReserveTerms::new(
        label("owner"),
        OptionalTerms { customer_id: customer, channel, pool, ..OptionalTerms::default() },
    )
}

/// What a change may expect of its item. No item has this version: conformance cases have those that they were told.
fn precondition(number: u8) -> Precondition {
    match number % 4 {
        0 | 1 => Precondition::Exists,
        2 => Precondition::Absent,
        _ => Precondition::version(number.into()),
    }
}

pub(super) fn seat_id(row: u8, seat: u8) -> Label {
    label(&format!("{}{}", char::from(b'A' + row % ROWS), 1 + seat % SEATS))
}

/// A seat. Rows A and B are one section and C is another. Every third seat is wide.
fn new_seat(row: u8, seat: u8, placed: bool) -> NewUnit {
    let (row, seat) = (row % ROWS, seat % SEATS);
    let wide = (label("wide"), Attribute::Flag(true));
    NewUnit {
        id: seat_id(row, seat),
        position: placed.then(|| u64::from(row) * 10 + u64::from(seat)),
        section: Some(label(if row < 2 { "stalls" } else { "balcony" })),
        row: Some(label(if row == 0 { "one" } else { "other" })),
        number: None,
        attributes: Attributes::new(if seat % 3 == 2 { vec![wide] } else { Vec::new() }),
    }
}

/// A few different ids, some of which may not exist.
pub(super) fn some_ids(which: u8, count: u8) -> Vec<Label> {
    let mut ids: Vec<Label> =
        (0..count).map(|n| seat_id(which.wrapping_add(n / 2), (which / 3).wrapping_add(n))).collect();
    ids.sort_unstable();
    ids.dedup();
    if which.is_multiple_of(2) {
        ids.reverse();
    }
    ids
}

pub(super) fn chosen(how: u8, which: u8, count: u8) -> (Option<UnitSelection>, u64) {
    let count = 1 + count % 8;
    let sections = match which % 4 {
        0 => vec![label("balcony"), label("stalls")],
        1 => vec![label("stalls")],
        _ => Vec::new(),
    };
    let wide = Attributes::new(vec![(label("wide"), Attribute::Flag(true))]);
    let attributes = if which.is_multiple_of(5) { wide } else { Attributes::default() };
    let best = match how % 6 {
        0 => None,
        1 => return (Some(UnitSelection::Named(some_ids(which, 1 + count % 4))), 1),
        2 => Some(BestAvailable { adjacent: true, ..BestAvailable::default() }),
        3 => Some(BestAvailable { adjacent: true, sections, attributes, min_together: None }),
        4 => Some(BestAvailable {
            adjacent: which.is_multiple_of(2),
            sections,
            min_together: Some(u32::from(which % 4)),
            attributes,
        }),
        _ => Some(BestAvailable { sections, attributes, ..BestAvailable::default() }),
    };
    (best.map(UnitSelection::BestAvailable), u64::from(count))
}

/// One of the newest, counted from the end.
fn recent<T>(all: &[T], ago: u8) -> Option<&T> {
    let span = all.len().min(RECENT);
    all.iter().rev().nth(usize::from(ago).checked_rem(span)?)
}

fn adjustment(item: &ItemKey, delta: i8, expected: Option<u8>) -> AdjustStock {
    AdjustStock {
        item: item.clone(),
        delta: if delta == 0 { 1 } else { i64::from(delta) },
        reason: label("count"),
        supply_id: None,
        override_owner: delta % 2 == 0,
        expected: expected.map(precondition),
    }
}
