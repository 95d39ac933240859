//! Short functions that make commands and envelopes, for the suite and for tests of adapters. A seed always makes the
//! same: nothing here reads a clock or real randomness.

use crate::random::Random;
use stockhold_domain::{
    Access, AddUnits, AdjustStock, Amend, Attributes, Basket, BestAvailable, ClosePayment, Command, Confirm,
    DeleteItem, DeleteLimit, DeletePool, Disposition, Envelope, EventId, Extend, Fulfil, Fulfilment,
    GeneratedIds, IdempotencyKey, IfExpired, Instant, ItemKey, Label, LimitTarget, LimitTerms, LimitedUnits,
    Merge, Mode, NewUnit, OpenPayment, OptionalTerms, Origin, Patch, PoolSelection, PoolTerms, RecordChange,
    RecordKey, RecordKind, RecordValue, Release, RequestId, RequestedLine, ReservationId, Reserve,
    ReserveTerms, RetireUnit, Return, ReturnFrom, SaleSelection, Scope, Seconds, SetLimit, SetPool,
    SetRecord, SetSale, SetStock, SetUnitPool, ShelfCount, Split, SubjectKind, Transfer, UnitSelection,
    bucket_of, limits,
};
use stockhold_store::digest;

/// Where clocks of histories start: 2026-01-01.
pub const START: Instant = Instant::from_millis(1_767_225_600_000);

/// The principal of envelopes that name none.
pub const PRINCIPAL: &str = "suite";

/// Makes item keys and envelopes with ids of its own.
#[derive(Clone, Debug)]
pub struct Maker {
    prefix: String,
    random: Random,
    made: u128,
}

impl Maker {
    /// Two makers whose seeds differ share no id; items share none when the prefixes differ.
    pub fn new(seed: u64, prefix: &str) -> Self {
        Self { prefix: prefix.to_owned(), random: Random::new(seed), made: 0 }
    }

    /// The item of this name at the default location.
    pub fn item(&self, name: &str) -> ItemKey {
        self.item_at(Label::DEFAULT_LOCATION, name)
    }

    /// The item of this name at a location.
    pub fn item_at(&self, location: &str, name: &str) -> ItemKey {
        ItemKey::new(&label(location), &label(&format!("{}{name}", self.prefix)))
    }

    /// A location that no other prefix has.
    pub fn location(&self, name: &str) -> Label {
        label(&format!("{}{name}", self.prefix))
    }

    /// A limit whose id no other prefix has.
    pub fn limit(&self, name: &str) -> Label {
        self.location(name)
    }

    /// The record of this kind whose id no other prefix has.
    pub fn record(&self, kind: RecordKind, name: &str) -> RecordKey {
        RecordKey { kind, id: label(&format!("{}{name}", self.prefix)) }
    }

    /// Wraps a command, with new ids and no key.
    pub fn wrap(&mut self, command: Command) -> Envelope {
        let bucket = match &command {
            Command::Reserve(Reserve { basket, .. }) | Command::Split(Split { lines: basket, .. }) => {
                basket.lines().first().map_or(0, |line| bucket_of(&line.item))
            }
            Command::Confirm(confirm) => confirm.id.bucket(),
            _ => 0,
        };
        // Ids sort by this number. It is no clock time: later ids only have to sort after earlier ones.
        let made = Instant::from_millis(i64::try_from(self.made).unwrap_or(i64::MAX));
        self.made += 1;
        Envelope {
            command,
            key: None,
            fresh: GeneratedIds {
                reservation: ReservationId::new(made, self.random.wide_bits(), bucket),
                event: EventId::new(made, self.random.wide_bits()),
            },
            origin: Origin {
                actor: label(PRINCIPAL),
                key_id: Some(self.random.wide_bits()),
                request_id: RequestId::Made(self.random.wide_bits()),
                trace: None,
            },
            access: Access::Unrestricted,
        }
    }

    /// Wraps a command of a caller that may not do everything.
    pub fn wrap_as(&mut self, access: &Access, command: Command) -> Envelope {
        Envelope { access: access.clone(), ..self.wrap(command) }
    }

    /// Wraps a command, with an idempotency key of the usual principal.
    pub fn keyed(&mut self, key: &str, command: Command) -> Envelope {
        self.keyed_for(PRINCIPAL, key, command)
    }

    /// Wraps a command, with an idempotency key of a principal.
    pub fn keyed_for(&mut self, principal: &str, key: &str, command: Command) -> Envelope {
        let key = format!("{}{key}", self.prefix);
        let hash = digest::key_hash(principal, command.kind().name(), &key);
        let fingerprint = digest::fingerprint(&command);
        let mut envelope = self.wrap(command);
        envelope.origin.actor = label(principal);
        envelope.key = Some(IdempotencyKey { hash, fingerprint });
        envelope
    }

    /// The same request again, as a caller sends it that got no answer: with the same key and new ids.
    pub fn again(&mut self, envelope: &Envelope) -> Envelope {
        let Envelope { command, key, origin, access, .. } = envelope.clone();
        Envelope { key, origin, access, ..self.wrap(command) }
    }

    /// An id that no reservation has.
    pub fn no_reservation(&mut self) -> ReservationId {
        ReservationId::new(Instant::from_millis(0), self.random.wide_bits(), 0)
    }
}

/// A label from a text that is one.
pub fn label(text: &str) -> Label {
    Label::new(text).expect("a text that is a label")
}

/// Seconds from a number that is within the bounds.
pub fn seconds(number: u64) -> Seconds {
    Seconds::new(number).expect("a number of seconds within the bounds")
}

/// The quantity of a line of an op. The largest number stands for a value above the limit.
pub(super) fn quantity_of(number: u8) -> u64 {
    if number == u8::MAX { limits::LINE_QUANTITY + 1 } else { u64::from(number).max(1) }
}

fn basket(lines: &[(&ItemKey, u64)]) -> Basket {
    let lines =
        lines.iter().map(|(item, quantity)| RequestedLine { item: (*item).clone(), quantity: *quantity });
    Basket::new(lines.collect()).expect("wishes that are a basket")
}

/// What a limit for each customer says: this many units of these items together.
pub fn per_customer(items: &[&ItemKey], limit: u64) -> LimitTerms {
    LimitTerms {
        targets: items.iter().map(|item| LimitTarget::Item((*item).clone())).collect(),
        channels: [].into(),
        per: Some(SubjectKind::Customer),
        limit,
        counts: LimitedUnits::HeldAndSold,
    }
}

/// A set limit.
pub fn set_limit(id: &Label, terms: LimitTerms) -> Command {
    Command::SetLimit(SetLimit { id: id.clone(), terms, expected: None })
}

/// A deletion of a limit.
pub fn delete_limit(id: &Label) -> Command {
    Command::DeleteLimit(DeleteLimit { id: id.clone(), expected: None })
}

/// A pool of an item.
#[expect(clippy::needless_pass_by_value, reason = "callers make the terms where they pass them")]
pub fn set_pool(item: &ItemKey, pool: &str, terms: PoolTerms) -> Command {
    let PoolTerms { allocated, fallback, releases_at, idle_release } = terms;
    Command::SetPool(SetPool {
        item: item.clone(),
        pool: label(pool),
        allocated: Some(allocated),
        fallback,
        releases_at,
        idle_release,
        expected: None,
    })
}

/// A pool of an item whose units have ids. It keeps its units.
pub fn set_pool_of_units(item: &ItemKey, pool: &str, terms: PoolTerms) -> Command {
    match set_pool(item, pool, terms) {
        Command::SetPool(set) => Command::SetPool(SetPool { allocated: None, ..set }),
        other => other,
    }
}

/// Units that are put into a pool.
pub fn put_into_pool(item: &ItemKey, pool: &str, units: &[&str]) -> Command {
    let units = PoolSelection::Units(units.iter().map(|id| label(id)).collect());
    Command::SetUnitPool(SetUnitPool {
        item: item.clone(),
        pool: label(pool),
        puts_in: true,
        units,
        expected: None,
    })
}

/// Units that are taken out of a pool.
pub fn take_out_of_pool(item: &ItemKey, pool: &str, units: &[&str]) -> Command {
    match put_into_pool(item, pool, units) {
        Command::SetUnitPool(set) => Command::SetUnitPool(SetUnitPool { puts_in: false, ..set }),
        other => other,
    }
}

/// The same command for all units of sections.
pub fn by_sections(command: Command, sections: &[&str]) -> Command {
    let sections = PoolSelection::Sections(sections.iter().map(|name| label(name)).collect());
    match command {
        Command::SetUnitPool(set) => Command::SetUnitPool(SetUnitPool { units: sections, ..set }),
        other => other,
    }
}

/// What a pool of this many units says that falls back to general stock and is not released by itself.
pub fn pool_of(allocated: u64) -> PoolTerms {
    PoolTerms { allocated, fallback: true, releases_at: None, idle_release: None }
}

/// A deletion of a pool.
pub fn delete_pool(item: &ItemKey, pool: &str) -> Command {
    Command::DeletePool(DeletePool { item: item.clone(), pool: label(pool), expected: None })
}

/// A reserve of these lines in full that draws from a pool.
pub fn reserve_from(pool: &str, ttl: u64, lines: &[(&ItemKey, u64)]) -> Reserve {
    let optional = OptionalTerms { pool: Some(label(pool)), ..OptionalTerms::default() };
    let terms = ReserveTerms::new(label("owner"), optional);
    Reserve { terms, ttl: Some(seconds(ttl)), ..reserve_of(lines) }
}

/// A reserve of these lines in full for a customer, for this many seconds.
pub fn reserve_by(customer: &str, ttl: u64, lines: &[(&ItemKey, u64)]) -> Reserve {
    let optional = OptionalTerms { customer_id: Some(label(customer)), ..OptionalTerms::default() };
    let terms = ReserveTerms::new(label("owner"), optional);
    Reserve { terms, ttl: Some(seconds(ttl)), ..reserve_of(lines) }
}

/// A reserve of these lines in full, without optional fields.
pub fn reserve_of(lines: &[(&ItemKey, u64)]) -> Reserve {
    Reserve {
        checkout: None,
        override_limits: false,
        basket: basket(lines),
        ttl: None,
        fulfilment: Fulfilment::All,
        terms: ReserveTerms { owner_id: label("owner"), optional: None },
    }
}

/// A reserve of these lines in full, with the default time to live.
pub fn reserve(lines: &[(&ItemKey, u64)]) -> Command {
    Command::Reserve(reserve_of(lines))
}

/// A reserve of these lines in full, for this many seconds.
pub fn reserve_for(ttl: u64, lines: &[(&ItemKey, u64)]) -> Command {
    Command::Reserve(Reserve { ttl: Some(seconds(ttl)), ..reserve_of(lines) })
}

/// A reserve of these lines as far as available, for this many seconds.
pub fn reserve_partial(ttl: u64, lines: &[(&ItemKey, u64)]) -> Command {
    let fulfilment = Fulfilment::Partial;
    Command::Reserve(Reserve { ttl: Some(seconds(ttl)), fulfilment, ..reserve_of(lines) })
}

/// A confirm that names no order.
pub fn confirm(id: ReservationId) -> Command {
    Command::Confirm(Confirm {
        override_limits: false,
        id,
        order_id: None,
        payment_id: None,
        if_expired: IfExpired::Refuse,
    })
}

/// A confirm for an order.
pub fn confirm_as(id: ReservationId, order: &str) -> Command {
    let order_id = Some(label(order));
    Command::Confirm(Confirm {
        override_limits: false,
        id,
        order_id,
        payment_id: None,
        if_expired: IfExpired::Refuse,
    })
}

/// A release that gives no reason.
pub fn release(id: ReservationId) -> Command {
    Command::Release(Release { id, reason: None })
}

/// An extension to this many seconds from now.
pub fn extend(id: ReservationId, ttl: u64) -> Command {
    Command::Extend(Extend { id, ttl: seconds(ttl) })
}

/// A return of these units to stock.
pub fn return_selected(id: ReservationId, selection: SaleSelection) -> Return {
    Return { id, selection, from: None, disposition: Disposition::Restock, reason: label("unwanted") }
}

/// A return of all units that were not returned.
pub fn return_all(id: ReservationId) -> Command {
    Command::Return(return_selected(id, SaleSelection::All))
}

/// A return of quantities of these items.
pub fn return_of(id: ReservationId, lines: &[(&ItemKey, u64)]) -> Command {
    Command::Return(return_selected(id, SaleSelection::Lines(basket(lines))))
}

/// An amend to these lines in full, which keeps the deadline and the metadata.
pub fn amend_of(id: ReservationId, lines: &[(&ItemKey, u64)]) -> Amend {
    amend_to(id, basket(lines))
}

/// An amend to a basket in full, which keeps the deadline and the metadata.
pub fn amend_to(id: ReservationId, basket: Basket) -> Amend {
    let basket = Some(basket);
    Amend {
        override_limits: false,
        id,
        basket,
        fulfilment: Fulfilment::All,
        ttl: None,
        metadata: Patch::Keep,
        expected: None,
    }
}

/// An amend to these lines in full, as a command.
pub fn amend(id: ReservationId, lines: &[(&ItemKey, u64)]) -> Command {
    Command::Amend(amend_of(id, lines))
}

/// An amend to lines that may select units, in full, as a command.
pub fn amend_choosing(id: ReservationId, lines: Vec<(&ItemKey, u64, Option<UnitSelection>)>) -> Command {
    Command::Amend(amend_to(id, basket_choosing(lines)))
}

/// A transfer to another owner, which keeps the customer and the session.
pub fn transfer(id: ReservationId, owner: &Label) -> Command {
    let owner_id = Some(owner.clone());
    let (customer_id, session_id) = (Patch::Keep, Patch::Keep);
    Command::Transfer(Transfer {
        override_limits: false,
        id,
        owner_id,
        customer_id,
        session_id,
        expected: None,
    })
}

/// A split of these lines.
pub fn split(id: ReservationId, lines: &[(&ItemKey, u64)]) -> Command {
    Command::Split(Split { id, lines: basket(lines), expected: None })
}

/// A split of these units of one item.
pub fn split_named(id: ReservationId, item: &ItemKey, ids: &[&str]) -> Command {
    let lines = basket_choosing(vec![(item, 1, Some(named(ids)))]);
    Command::Split(Split { id, lines, expected: None })
}

/// A merge of other reservations into one.
pub fn merge(id: ReservationId, from: &[ReservationId]) -> Command {
    Command::Merge(Merge { override_limits: false, id, from: from.into(), expected: None })
}

/// The opening of a payment window of this many seconds.
pub fn open_payment(id: ReservationId, payment: &str, window: u64) -> Command {
    let (payment_id, window) = (label(payment), Some(seconds(window)));
    Command::OpenPayment(OpenPayment { id, payment_id, window, expected: None })
}

/// The end of a payment window.
pub fn close_payment(id: ReservationId) -> Command {
    Command::ClosePayment(ClosePayment { id, payment_id: None, reason: None })
}

/// A confirm that names a payment and no order.
pub fn confirm_paid(id: ReservationId, payment: &str) -> Command {
    let payment_id = Some(label(payment));
    Command::Confirm(Confirm {
        override_limits: false,
        id,
        order_id: None,
        payment_id,
        if_expired: IfExpired::Refuse,
    })
}

/// A confirm that takes the units again when the reservation has expired.
pub fn confirm_late(id: ReservationId, order: &str) -> Command {
    let order_id = Some(label(order));
    Command::Confirm(Confirm {
        override_limits: false,
        id,
        order_id,
        payment_id: None,
        if_expired: IfExpired::Reacquire,
    })
}

/// The fulfilment of quantities of these items.
pub fn fulfil(id: ReservationId, lines: &[(&ItemKey, u64)]) -> Command {
    Command::Fulfil(Fulfil { id, selection: SaleSelection::Lines(basket(lines)) })
}

/// The fulfilment of all that is sold, not fulfilled and not returned.
pub fn fulfil_all(id: ReservationId) -> Command {
    Command::Fulfil(Fulfil { id, selection: SaleSelection::All })
}

/// The fulfilment of these units.
pub fn fulfil_units(id: ReservationId, ids: &[&str]) -> Command {
    let selection = SaleSelection::Units(ids.iter().map(|id| label(id)).collect());
    Command::Fulfil(Fulfil { id, selection })
}

/// A return of quantities of these items from the shelf or from buyers.
pub fn return_from(id: ReservationId, lines: &[(&ItemKey, u64)], from: ReturnFrom) -> Command {
    let from = Some(from);
    Command::Return(Return { from, ..return_selected(id, SaleSelection::Lines(basket(lines))) })
}

/// A return of quantities of these items, which are lost.
pub fn write_off(id: ReservationId, lines: &[(&ItemKey, u64)]) -> Command {
    let disposition = Disposition::WriteOff;
    Command::Return(Return { disposition, ..return_selected(id, SaleSelection::Lines(basket(lines))) })
}

/// A count of the shelf, with the fulfilled units that it knows of.
pub fn count_shelf(item: &ItemKey, on_hand: u64, fulfilled_seen: Option<u64>) -> SetStock {
    let shelf = Some(ShelfCount { on_hand, fulfilled_seen });
    SetStock { total_units: None, shelf, ..stock_of(item, 0) }
}

/// A set stock that names the total only.
pub fn stock_of(item: &ItemKey, total_units: u64) -> SetStock {
    SetStock {
        item: item.clone(),
        total_units: Some(total_units),
        shelf: None,
        mode: None,
        safety_stock: None,
        oversell_allowance: None,
        gated: Patch::Keep,
        sale_starts_at: Patch::Keep,
        sale_ends_at: Patch::Keep,
        incoming: None,
        price: Patch::Keep,
        low_stock: Patch::Keep,
        stock_master: Patch::Keep,
        override_owner: false,
        default_ttl: Patch::Keep,
        max_hold: Patch::Keep,
        max_payment: Patch::Keep,
        metadata: Patch::Keep,
        expected: None,
    }
}

/// A set stock that names the total only, as a command.
pub fn set_stock(item: &ItemKey, total_units: u64) -> Command {
    Command::SetStock(stock_of(item, total_units))
}

/// An item whose units have ids, with none yet.
pub fn create_unit_item(item: &ItemKey) -> Command {
    Command::SetStock(SetStock { total_units: None, mode: Some(Mode::Units), ..stock_of(item, 0) })
}

/// Units that follow each other in one row of a section.
pub fn row(section: &str, row: &str, ids: &[&str]) -> Vec<NewUnit> {
    let unit = |id: &&str| NewUnit {
        id: label(id),
        position: None,
        section: Some(label(section)),
        row: Some(label(row)),
        number: None,
        attributes: Attributes::default(),
    };
    ids.iter().map(unit).collect()
}

/// Adds units.
pub fn add_units(item: &ItemKey, units: Vec<NewUnit>) -> Command {
    Command::AddUnits(AddUnits { item: item.clone(), units })
}

/// Retires a unit.
pub fn retire(item: &ItemKey, unit: &str) -> Command {
    Command::RetireUnit(RetireUnit { item: item.clone(), unit: label(unit) })
}

/// Units by their ids.
pub fn named(ids: &[&str]) -> UnitSelection {
    UnitSelection::Named(ids.iter().map(|id| label(id)).collect())
}

/// Lines that may select units.
pub fn basket_choosing(lines: Vec<(&ItemKey, u64, Option<UnitSelection>)>) -> Basket {
    let line = |(item, quantity, choice): (&ItemKey, u64, _)| {
        (RequestedLine { item: item.clone(), quantity }, choice)
    };
    let basket = Basket::with_selections(lines.into_iter().map(line).collect());
    basket.expect("lines that are a basket")
}

/// A reserve of lines that may select units, in full, for this many seconds.
pub fn reserve_choosing(ttl: u64, lines: Vec<(&ItemKey, u64, Option<UnitSelection>)>) -> Reserve {
    let basket = basket_choosing(lines);
    Reserve { ttl: Some(seconds(ttl)), basket, ..reserve_of(&[(&Maker::new(0, "").item("x"), 1)]) }
}

/// A reserve of these units in full, for this many seconds.
pub fn reserve_named(ttl: u64, item: &ItemKey, ids: &[&str]) -> Command {
    Command::Reserve(reserve_choosing(ttl, vec![(item, 1, Some(named(ids)))]))
}

/// A reserve of the best available units in full, for this many seconds.
pub fn reserve_best(ttl: u64, item: &ItemKey, quantity: u64, best: BestAvailable) -> Command {
    Command::Reserve(reserve_choosing(ttl, vec![(item, quantity, Some(UnitSelection::BestAvailable(best)))]))
}

/// A return of these units.
pub fn return_units(id: ReservationId, ids: &[&str]) -> Command {
    let selection = SaleSelection::Units(ids.iter().map(|id| label(id)).collect());
    Command::Return(return_selected(id, selection))
}

/// An adjustment of the total.
pub fn adjust(item: &ItemKey, delta: i64) -> Command {
    let reason = label("count");
    Command::AdjustStock(AdjustStock {
        item: item.clone(),
        delta,
        reason,
        supply_id: None,
        override_owner: false,
        expected: None,
    })
}

/// The deletion of an item.
pub fn delete(item: &ItemKey) -> Command {
    Command::DeleteItem(DeleteItem { item: item.clone(), expected: None })
}

/// A pause.
pub fn pause(scope: &Scope) -> Command {
    Command::SetSale(SetSale { scope: scope.clone(), paused: true, reason: None })
}

/// The end of a pause.
pub fn resume(scope: &Scope) -> Command {
    Command::SetSale(SetSale { scope: scope.clone(), paused: false, reason: None })
}

/// A put of a record that has this version, or does not exist if the version is 0.
pub fn put_record(key: &RecordKey, expected_version: u64, value: &[u8]) -> Command {
    let value = Some(RecordValue::new(value).expect("a value within the limit"));
    Command::SetRecord(SetRecord { key: key.clone(), expected_version, value, change: RecordChange::Silent })
}

/// A deletion of a record that has this version.
pub fn delete_record(key: &RecordKey, expected_version: u64) -> Command {
    Command::SetRecord(SetRecord {
        key: key.clone(),
        expected_version,
        value: None,
        change: RecordChange::Silent,
    })
}
