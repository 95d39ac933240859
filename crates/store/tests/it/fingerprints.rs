//! What is asked under a key: two requests that differ in anything have two fingerprints.

use std::collections::BTreeMap;
use stockhold_conformance::maker::{label, seconds};
use stockhold_domain::{
    AddUnits, AdjustStock, Amend, Attribute, Attributes, Basket, BasketLine, BestAvailable, ClosePayment,
    Command, Confirm, Currency, DeleteItem, Discount, Disposition, Extend, Fulfil, Fulfilment, IfExpired,
    Instant, ItemKey, Label, Merge, Mode, NewUnit, OpenPayment, OptionalTerms, Patch, Precondition, Price,
    RecordChange, RecordKey, RecordKind, RecordValue, Reduction, Release, RequestedLine, ReservationId,
    Reserve, ReserveTerms, RetireUnit, Return, ReturnFrom, SaleSelection, Scope, SetRecord, SetSale,
    SetStock, ShelfCount, Source, Split, Strategy, Supply, Transfer, UnitSelection,
};
use stockhold_store::digest::fingerprint;

/// What is another, and how.
type Change<'a, T> = (&'a str, &'a dyn Fn(&mut T));

/// Commands, each with what is particular about it.
#[derive(Default)]
struct Table(Vec<(String, Command)>);

impl Table {
    /// A command, and the same with one thing changed at a time.
    fn add<T: Clone>(
        &mut self,
        kind: &str,
        base: &T,
        wrap: impl Fn(T) -> Command,
        changes: &[Change<'_, T>],
    ) {
        self.0.push((kind.to_owned(), wrap(base.clone())));
        for (what, change) in changes {
            let mut other = base.clone();
            change(&mut other);
            self.0.push((format!("{kind}: {what}"), wrap(other)));
        }
    }
}

fn item(location: &str, sku: &str) -> ItemKey {
    ItemKey::new(&label(location), &label(sku))
}

fn labels(texts: &[&str]) -> Vec<Label> {
    texts.iter().map(|text| label(text)).collect()
}

fn flag(name: &str, yes: bool) -> Attributes {
    Attributes::new(vec![(label(name), Attribute::Flag(yes))])
}

fn want(sku: &str, quantity: u64) -> RequestedLine {
    RequestedLine { item: item("default", sku), quantity }
}

fn counted(wants: &[(&str, u64)]) -> Basket {
    Basket::new(wants.iter().map(|(sku, quantity)| want(sku, *quantity)).collect()).unwrap()
}

/// Two of a hall, and a tin.
fn with_selections(choice: Option<UnitSelection>) -> Basket {
    Basket::with_selections(vec![(want("hall", 2), choice), (want("tin", 1), None)]).unwrap()
}

fn best(change: impl Fn(&mut BestAvailable)) -> Basket {
    let mut best = BestAvailable { adjacent: true, ..BestAvailable::default() };
    change(&mut best);
    with_selections(Some(UnitSelection::BestAvailable(best)))
}

fn named(ids: &[&str]) -> Basket {
    with_selections(Some(UnitSelection::Named(labels(ids))))
}

/// Two of a hall from these locations, and a tin.
fn sourced(locations: &[&str], strategy: Strategy) -> Basket {
    let source = Source::new(&label("hall"), &labels(locations), strategy).unwrap();
    let hall = RequestedLine { item: source.items()[0].clone(), quantity: 2 };
    let lines = [(hall, Some(source)), (want("tin", 1), None)];
    let line = |(line, source)| BasketLine { line, selection: None, source };
    Basket::with_sources(lines.map(line).into()).unwrap()
}

fn optional(reserve: &mut Reserve) -> &mut OptionalTerms {
    reserve.terms.optional.get_or_insert_default()
}

fn reserves(table: &mut Table) {
    let base = Reserve {
        checkout: None,
        override_limits: false,
        basket: counted(&[("hall", 2), ("tin", 1)]),
        ttl: None,
        fulfilment: Fulfilment::All,
        terms: ReserveTerms { owner_id: label("o"), optional: None },
    };
    table.add(
        "reserve",
        &base,
        Command::Reserve,
        &[
            ("owner", &|asked| asked.terms.owner_id = label("p")),
            ("limits passed by", &|asked| asked.override_limits = true),
            ("ttl", &|asked| asked.ttl = Some(seconds(5))),
            ("another ttl", &|asked| asked.ttl = Some(seconds(6))),
            ("fulfilment", &|asked| asked.fulfilment = Fulfilment::Partial),
            ("channel", &|asked| optional(asked).channel = Some(label("a"))),
            ("pool", &|asked| optional(asked).pool = Some(label("a"))),
            ("another pool", &|asked| optional(asked).pool = Some(label("b"))),
            ("another channel", &|asked| optional(asked).channel = Some(label("b"))),
            ("customer", &|asked| optional(asked).customer_id = Some(label("a"))),
            ("another customer", &|asked| optional(asked).customer_id = Some(label("b"))),
            ("session", &|asked| optional(asked).session_id = Some(label("a"))),
            ("another session", &|asked| optional(asked).session_id = Some(label("b"))),
            ("metadata", &|asked| optional(asked).metadata = Some("{}".into())),
            ("other metadata", &|asked| optional(asked).metadata = Some("[]".into())),
            ("quantity", &|asked| asked.basket = counted(&[("hall", 3), ("tin", 1)])),
            ("another item", &|asked| asked.basket = counted(&[("hall", 2), ("ton", 1)])),
            ("one item less", &|asked| asked.basket = counted(&[("hall", 2)])),
            ("the other way round", &|asked| asked.basket = counted(&[("tin", 1), ("hall", 2)])),
            ("location", &|asked| {
                let tin = RequestedLine { item: item("hub", "tin"), quantity: 1 };
                asked.basket = Basket::new(vec![want("hall", 2), tin]).unwrap();
            }),
            ("named", &|asked| asked.basket = named(&["a", "b"])),
            ("others named", &|asked| asked.basket = named(&["a", "c"])),
            ("named in another order", &|asked| asked.basket = named(&["b", "a"])),
            ("named of the other item", &|asked| {
                let tins = Some(UnitSelection::Named(labels(&["a"])));
                asked.basket =
                    Basket::with_selections(vec![(want("hall", 2), None), (want("tin", 1), tins)]).unwrap();
            }),
            ("a source", &|asked| asked.basket = sourced(&["hub", "hill"], Strategy::Priority)),
            ("another order", &|asked| asked.basket = sourced(&["hill", "hub"], Strategy::Priority)),
            ("one location", &|asked| asked.basket = sourced(&["hub"], Strategy::Priority)),
            ("the location itself", &|asked| {
                let hall = RequestedLine { item: item("hub", "hall"), quantity: 2 };
                asked.basket = Basket::new(vec![hall, want("tin", 1)]).unwrap();
            }),
            ("the fullest", &|asked| asked.basket = sourced(&["hub", "hill"], Strategy::MostStock)),
            ("a single one", &|asked| asked.basket = sourced(&["hub", "hill"], Strategy::Single)),
            ("best", &|asked| asked.basket = best(|best| best.adjacent = false)),
            ("adjacent", &|asked| asked.basket = best(|_| ())),
            ("section", &|asked| asked.basket = best(|best| best.sections = labels(&["s"]))),
            ("sections", &|asked| asked.basket = best(|best| best.sections = labels(&["s", "t"]))),
            ("sections in another order", &|asked| {
                asked.basket = best(|best| best.sections = labels(&["t", "s"]));
            }),
            ("together", &|asked| asked.basket = best(|best| best.min_together = Some(1))),
            ("more together", &|asked| asked.basket = best(|best| best.min_together = Some(2))),
            ("attribute", &|asked| asked.basket = best(|best| best.attributes = flag("aisle", true))),
            ("attribute's value", &|asked| {
                asked.basket = best(|best| best.attributes = flag("aisle", false));
            }),
            ("attribute's name", &|asked| asked.basket = best(|best| best.attributes = flag("front", true))),
        ],
    );
}

fn holds(table: &mut Table) {
    let (id, other) = (ReservationId::from_u128(7), ReservationId::from_u128(8));
    table.add(
        "confirm",
        &Confirm {
            override_limits: false,
            id,
            order_id: None,
            payment_id: None,
            if_expired: IfExpired::Refuse,
        },
        Command::Confirm,
        &[
            ("id", &|asked| asked.id = other),
            ("order", &|asked| asked.order_id = Some(label("a"))),
            ("another order", &|asked| asked.order_id = Some(label("b"))),
            ("payment", &|asked| asked.payment_id = Some(label("a"))),
            ("late payer", &|asked| asked.if_expired = IfExpired::Reacquire),
            ("limits passed by", &|asked| asked.override_limits = true),
        ],
    );
    table.add(
        "release",
        &Release { id, reason: None },
        Command::Release,
        &[
            ("id", &|asked| asked.id = other),
            ("reason", &|asked| asked.reason = Some(label("a"))),
            ("another reason", &|asked| asked.reason = Some(label("b"))),
        ],
    );
    table.add(
        "extend",
        &Extend { id, ttl: seconds(5) },
        Command::Extend,
        &[("id", &|asked| asked.id = other), ("ttl", &|asked| asked.ttl = seconds(6))],
    );
    changes(table, id, other);
    payments(table, id, other);
    let base = Return {
        id,
        selection: SaleSelection::All,
        from: None,
        disposition: Disposition::Restock,
        reason: label("a"),
    };
    table.add(
        "return",
        &base,
        Command::Return,
        &[
            ("id", &|asked| asked.id = other),
            ("reason", &|asked| asked.reason = label("b")),
            ("from the shelf", &|asked| asked.from = Some(ReturnFrom::Unfulfilled)),
            ("from buyers", &|asked| asked.from = Some(ReturnFrom::Fulfilled)),
            ("write off", &|asked| asked.disposition = Disposition::WriteOff),
            ("lines", &|asked| asked.selection = SaleSelection::Lines(with_selections(None))),
            ("quantity", &|asked| {
                asked.selection = SaleSelection::Lines(counted(&[("hall", 1), ("tin", 1)]));
            }),
            ("units of a line", &|asked| asked.selection = SaleSelection::Lines(named(&["a", "b"]))),
            ("other units of a line", &|asked| asked.selection = SaleSelection::Lines(named(&["a", "c"]))),
            ("unit", &|asked| asked.selection = SaleSelection::Units(labels(&["a"]))),
            ("another unit", &|asked| asked.selection = SaleSelection::Units(labels(&["b"]))),
            ("units", &|asked| asked.selection = SaleSelection::Units(labels(&["a", "b"]))),
        ],
    );
}

fn changes(table: &mut Table, id: ReservationId, other: ReservationId) {
    let version = || Some(Precondition::version(1));
    let base = Amend {
        override_limits: false,
        id,
        basket: None,
        fulfilment: Fulfilment::All,
        ttl: None,
        metadata: Patch::Keep,
        expected: None,
    };
    table.add(
        "amend",
        &base,
        Command::Amend,
        &[
            ("id", &|asked| asked.id = other),
            ("lines", &|asked| asked.basket = Some(with_selections(None))),
            ("limits passed by", &|asked| asked.override_limits = true),
            ("quantity", &|asked| asked.basket = Some(counted(&[("hall", 1), ("tin", 1)]))),
            ("units", &|asked| asked.basket = Some(named(&["a", "b"]))),
            ("partial", &|asked| asked.fulfilment = Fulfilment::Partial),
            ("ttl", &|asked| asked.ttl = Some(seconds(5))),
            ("metadata", &|asked| asked.metadata = Patch::Set("{}".into())),
            ("no metadata", &|asked| asked.metadata = Patch::Clear),
            ("version", &|asked| asked.expected = version()),
        ],
    );
    let keep = Patch::Keep;
    let base = Transfer {
        override_limits: false,
        id,
        owner_id: None,
        customer_id: keep.clone(),
        session_id: keep,
        expected: None,
    };
    table.add(
        "transfer",
        &base,
        Command::Transfer,
        &[
            ("id", &|asked| asked.id = other),
            ("owner", &|asked| asked.owner_id = Some(label("a"))),
            ("limits passed by", &|asked| asked.override_limits = true),
            ("customer", &|asked| asked.customer_id = Patch::Set(label("a"))),
            ("no customer", &|asked| asked.customer_id = Patch::Clear),
            ("session", &|asked| asked.session_id = Patch::Set(label("a"))),
            ("no session", &|asked| asked.session_id = Patch::Clear),
            ("version", &|asked| asked.expected = version()),
        ],
    );
    table.add(
        "split",
        &Split { id, lines: counted(&[("hall", 1), ("tin", 1)]), expected: None },
        Command::Split,
        &[
            ("id", &|asked| asked.id = other),
            ("quantity", &|asked| asked.lines = counted(&[("hall", 1), ("tin", 2)])),
            ("units", &|asked| asked.lines = named(&["a", "b"])),
            ("version", &|asked| asked.expected = version()),
        ],
    );
    table.add(
        "merge",
        &Merge { override_limits: false, id, from: [other].into(), expected: None },
        Command::Merge,
        &[
            ("id", &|asked| asked.id = other),
            ("sources", &|asked| asked.from = [id].into()),
            ("limits passed by", &|asked| asked.override_limits = true),
            ("more sources", &|asked| asked.from = [other, id].into()),
            ("version", &|asked| asked.expected = version()),
        ],
    );
}

fn payments(table: &mut Table, id: ReservationId, other: ReservationId) {
    let version = || Some(Precondition::version(1));
    table.add(
        "open a payment",
        &OpenPayment { id, payment_id: label("a"), window: None, expected: None },
        Command::OpenPayment,
        &[
            ("id", &|asked| asked.id = other),
            ("payment", &|asked| asked.payment_id = label("b")),
            ("window", &|asked| asked.window = Some(seconds(5))),
            ("version", &|asked| asked.expected = version()),
        ],
    );
    table.add(
        "close a payment",
        &ClosePayment { id, payment_id: None, reason: None },
        Command::ClosePayment,
        &[
            ("id", &|asked| asked.id = other),
            ("payment", &|asked| asked.payment_id = Some(label("a"))),
            ("reason", &|asked| asked.reason = Some(label("a"))),
        ],
    );
    table.add(
        "fulfil",
        &Fulfil { id, selection: SaleSelection::All },
        Command::Fulfil,
        &[
            ("id", &|asked| asked.id = other),
            ("lines", &|asked| asked.selection = SaleSelection::Lines(with_selections(None))),
            ("units", &|asked| asked.selection = SaleSelection::Units(labels(&["a"]))),
        ],
    );
}

fn at(micros: i64) -> Instant {
    Instant::from_micros(micros)
}

fn price(unit_amount: u64, currency: &str, discounts: &[Discount]) -> Patch<Box<Price>> {
    let currency = Currency::new(currency).expect("three letters");
    Patch::Set(Box::new(Price { unit_amount, currency, discounts: discounts.into() }))
}

fn discount(reduction: Reduction) -> Discount {
    Discount { reduction, from: None, to: None, channels: [].into() }
}

fn supply(id: &str, quantity: u64, from: i64) -> Supply {
    Supply { id: label(id), quantity, available_from: at(from) }
}

#[expect(clippy::too_many_lines, reason = "one row for each field")]
fn stock(table: &mut Table) {
    let key = item("default", "a");
    let base = SetStock {
        item: key.clone(),
        total_units: None,
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
    };
    table.add(
        "set",
        &base,
        Command::SetStock,
        &[
            ("item", &|asked| asked.item = item("default", "b")),
            ("location", &|asked| asked.item = item("hub", "a")),
            ("total", &|asked| asked.total_units = Some(1)),
            ("another total", &|asked| asked.total_units = Some(2)),
            ("counted", &|asked| asked.mode = Some(Mode::Counted)),
            ("units", &|asked| asked.mode = Some(Mode::Units)),
            ("safety stock", &|asked| asked.safety_stock = Some(1)),
            ("allowance", &|asked| asked.oversell_allowance = Some(1)),
            ("gated", &|asked| asked.gated = Patch::Set(true)),
            ("not gated", &|asked| asked.gated = Patch::Set(false)),
            ("gated as a new item is", &|asked| asked.gated = Patch::Clear),
            ("start", &|asked| asked.sale_starts_at = Patch::Set(at(1))),
            ("no start", &|asked| asked.sale_starts_at = Patch::Clear),
            ("end", &|asked| asked.sale_ends_at = Patch::Set(at(1))),
            ("no end", &|asked| asked.sale_ends_at = Patch::Clear),
            ("no supplies", &|asked| asked.incoming = Some([].into())),
            ("a supply", &|asked| asked.incoming = Some([supply("a", 1, 1)].into())),
            ("another supply", &|asked| asked.incoming = Some([supply("b", 1, 1)].into())),
            ("a larger supply", &|asked| asked.incoming = Some([supply("a", 2, 1)].into())),
            ("a later supply", &|asked| asked.incoming = Some([supply("a", 1, 2)].into())),
            ("a price", &|asked| asked.price = price(1, "usd", &[])),
            ("another price", &|asked| asked.price = price(2, "usd", &[])),
            ("another currency", &|asked| asked.price = price(1, "eur", &[])),
            ("a discount", &|asked| asked.price = price(1, "usd", &[discount(Reduction::Percent(1))])),
            ("another discount", &|asked| {
                asked.price = price(1, "usd", &[discount(Reduction::AmountOff(1))]);
            }),
            ("a discount from", &|asked| {
                asked.price =
                    price(1, "usd", &[Discount { from: Some(at(1)), ..discount(Reduction::Percent(1)) }]);
            }),
            ("a discount to", &|asked| {
                asked.price =
                    price(1, "usd", &[Discount { to: Some(at(1)), ..discount(Reduction::Percent(1)) }]);
            }),
            ("a discount in a channel", &|asked| {
                asked.price = price(
                    1,
                    "usd",
                    &[Discount { channels: [label("a")].into(), ..discount(Reduction::Percent(1)) }],
                );
            }),
            ("no price", &|asked| asked.price = Patch::Clear),
            ("low stock", &|asked| asked.low_stock = Patch::Set(0)),
            ("no low stock", &|asked| asked.low_stock = Patch::Clear),
            ("stock master", &|asked| asked.stock_master = Patch::Set(label("a"))),
            ("no stock master", &|asked| asked.stock_master = Patch::Clear),
            ("an override", &|asked| asked.override_owner = true),
            ("default ttl", &|asked| asked.default_ttl = Patch::Set(seconds(1))),
            ("no default ttl", &|asked| asked.default_ttl = Patch::Clear),
            ("longest hold", &|asked| asked.max_hold = Patch::Set(seconds(1))),
            ("no longest hold", &|asked| asked.max_hold = Patch::Clear),
            ("longest payment", &|asked| asked.max_payment = Patch::Set(seconds(1))),
            ("no longest payment", &|asked| asked.max_payment = Patch::Clear),
            ("on hand", &|asked| asked.shelf = Some(ShelfCount { on_hand: 1, fulfilled_seen: None })),
            ("more on hand", &|asked| asked.shelf = Some(ShelfCount { on_hand: 2, fulfilled_seen: None })),
            ("seen", &|asked| asked.shelf = Some(ShelfCount { on_hand: 1, fulfilled_seen: Some(0) })),
            ("metadata", &|asked| asked.metadata = Patch::Set("{}".into())),
            ("no metadata", &|asked| asked.metadata = Patch::Clear),
            ("absent", &|asked| asked.expected = Some(Precondition::Absent)),
            ("there", &|asked| asked.expected = Some(Precondition::Exists)),
            ("version", &|asked| asked.expected = Some(Precondition::version(1))),
            ("another version", &|asked| asked.expected = Some(Precondition::version(2))),
            ("no version", &|asked| asked.expected = Some(Precondition::VersionIn([].into()))),
            ("versions", &|asked| asked.expected = Some(Precondition::VersionIn([1, 2].into()))),
        ],
    );
    let base = AdjustStock {
        item: key.clone(),
        delta: 1,
        reason: label("a"),
        supply_id: None,
        override_owner: false,
        expected: None,
    };
    table.add(
        "adjust",
        &base,
        Command::AdjustStock,
        &[
            ("item", &|asked| asked.item = item("default", "b")),
            ("delta", &|asked| asked.delta = 2),
            ("the other way", &|asked| asked.delta = -1),
            ("reason", &|asked| asked.reason = label("b")),
            ("supply", &|asked| asked.supply_id = Some(label("a"))),
            ("version", &|asked| asked.expected = Some(Precondition::version(1))),
        ],
    );
    table.add(
        "delete",
        &DeleteItem { item: key.clone(), expected: None },
        Command::DeleteItem,
        &[
            ("item", &|asked| asked.item = item("default", "b")),
            ("version", &|asked| asked.expected = Some(Precondition::version(1))),
        ],
    );
    let unit = NewUnit {
        id: label("u"),
        position: None,
        section: None,
        row: None,
        number: None,
        attributes: Attributes::default(),
    };
    let base = AddUnits { item: key.clone(), units: vec![unit.clone()] };
    table.add(
        "add units",
        &base,
        Command::AddUnits,
        &[
            ("item", &|asked| asked.item = item("default", "b")),
            ("id", &|asked| asked.units[0].id = label("v")),
            ("position", &|asked| asked.units[0].position = Some(0)),
            ("another position", &|asked| asked.units[0].position = Some(1)),
            ("section", &|asked| asked.units[0].section = Some(label("a"))),
            ("row", &|asked| asked.units[0].row = Some(label("a"))),
            ("number", &|asked| asked.units[0].number = Some(label("a"))),
            ("attribute", &|asked| asked.units[0].attributes = flag("aisle", true)),
            ("two", &|asked| asked.units.push(NewUnit { id: label("v"), ..unit.clone() })),
        ],
    );
    table.add(
        "retire",
        &RetireUnit { item: key.clone(), unit: label("u") },
        Command::RetireUnit,
        &[("item", &|asked| asked.item = item("default", "b")), ("unit", &|asked| asked.unit = label("v"))],
    );
    let base = SetSale { scope: Scope::Everything, paused: true, reason: None };
    table.add(
        "sale",
        &base,
        Command::SetSale,
        &[
            ("location", &|asked| asked.scope = Scope::Location(label("a"))),
            ("another location", &|asked| asked.scope = Scope::Location(label("b"))),
            ("item", &|asked| asked.scope = Scope::Item(key.clone())),
            ("another item", &|asked| asked.scope = Scope::Item(item("default", "b"))),
            ("open", &|asked| asked.paused = false),
            ("reason", &|asked| asked.reason = Some(label("a"))),
        ],
    );
    let base = SetRecord {
        key: RecordKey { kind: RecordKind::ApiKey, id: label("a") },
        expected_version: 1,
        value: RecordValue::new(b"one").ok(),
        change: RecordChange::Silent,
    };
    table.add(
        "record",
        &base,
        Command::SetRecord,
        &[
            ("kind", &|asked| asked.key.kind = RecordKind::SigningKey),
            ("id", &|asked| asked.key.id = label("b")),
            ("version", &|asked| asked.expected_version = 2),
            ("value", &|asked| asked.value = RecordValue::new(b"two").ok()),
            ("no bytes", &|asked| asked.value = RecordValue::new(b"").ok()),
            ("deleted", &|asked| asked.value = None),
            ("created", &|asked| asked.change = RecordChange::KeyCreated),
            ("rolled", &|asked| asked.change = RecordChange::KeyRolled),
            ("revoked", &|asked| asked.change = RecordChange::KeyRevoked),
        ],
    );
    table.0.push(("sweep".to_owned(), Command::Sweep));
}

#[test]
fn whatever_differs_between_two_requests_shows_in_their_fingerprints() {
    let mut table = Table::default();
    reserves(&mut table);
    holds(&mut table);
    stock(&mut table);
    let mut seen: BTreeMap<u128, &str> = BTreeMap::new();
    for (what, command) in &table.0 {
        assert_eq!(fingerprint(command), fingerprint(&command.clone()), "{what}");
        if let Some(other) = seen.insert(fingerprint(command).0, what) {
            panic!("one fingerprint for two requests: {other}, and {what}");
        }
    }
}
