//! Tests as tables, through one [`check`].
//!
//! A line is `instant command -> outcome`. Instants are milliseconds since the start, with decimals for microseconds.
//! Commands, with optional words in brackets, `SKU` standing for `[location/]name` and `BASKET` for `SKU=units,…`:
//!
//! ```text
//! stock SKU total|- [safety=n] [gated=true|false|none] [ttl=s|none] [max=s|none] [version=n] [units|counted]     adjust SKU delta [version=n]     delete SKU [version=n]
//! add SKU id[@section[/row]][:position][+attribute]…,…               retire SKU id
//! reserve ID BASKET [ttl=s] [partial] [pool=name] [channel|customer|session|metadata=text]     confirm ID [order=name]
//! release ID        extend ID s        return ID all|BASKET|units=id+id   sweep
//! pause everything|at=location|SKU     resume …                      crowd n SKU ttl=s: n reserves of one unit
//! into SKU NAME id+id|sections=a+b     out SKU NAME id+id|sections=a+b: units with ids go into a pool or out of it
//! pool SKU NAME units|- [strict] [at=ms] [idle=s] [version=n]     unpool SKU NAME     pools SKU: `name=allocated:held+sold[@released]`
//! books SKU: the item's figures        hold ID: a reservation        key=name on any command
//! record KIND/ID value|- expect=version [silent|created|rolled|revoked]
//! map SKU: units in the order of their claims, `.` available, `h` held, `s` sold, with their versions and `^` their pools
//! ```
//!
//! In a basket `SKU=[id+id]` names units; `adjacent`, `sections=a+b`, `together=k` and `with=attribute` on a reserve choose the
//! best of all its lines that name none. `[most:|single:]hub+hill/SKU=units` has a source: these locations may give.

use crate::said::{said, said_hold};
use crate::shop::Shop;
use std::hash::{DefaultHasher, Hash, Hasher};
use stockhold_domain::{
    Access, AddUnits, AdjustStock, Amend, Attribute, Attributes, Basket, BasketLine, BestAvailable,
    ClosePayment, Command, Confirm, DeleteItem, DeleteLimit, DeletePool, Disposition, Effects, Envelope,
    Event, EventId, Extend, Fingerprint, Fulfil, Fulfilment, GeneratedIds, HoldLimits, IdempotencyKey,
    IfExpired, Instant, Item, ItemKey, KeyHash, Label, LimitTarget, LimitTerms, LimitedUnits, Merge, Mode,
    NewUnit, OpenPayment, OptionalTerms, Origin, Outcome, Patch, PoolSelection, Precondition, RecordChange,
    RecordKey, RecordKind, RecordValue, Release, RequestId, RequestedLine, ReservationId, Reserve,
    ReserveTerms, RetireUnit, Return, ReturnFrom, SaleSelection, Scope, Seconds, SetLimit, SetPool,
    SetRecord, SetSale, SetStock, SetUnitPool, ShelfCount, Source, Split, Strategy, SubjectKind, Supply,
    Transfer, UnitSelection, UnitStatus, decide,
};

/// Runs a table from an empty shop under the default rules. Lines with `#` in front are left out.
pub(crate) fn check(table: &str) -> Played {
    check_under(HoldLimits::default(), table)
}

/// Runs a table under rules of its own.
pub(crate) fn check_under(rules: HoldLimits, table: &str) -> Played {
    let mut played = Played { shop: Shop::default(), rules, events: Vec::new(), made: 0 };
    for line in table.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        played.line(line);
    }
    let mut folded = Shop { keys: played.shop.keys.clone(), ..Shop::default() };
    played.events.iter().for_each(|event| stockhold_domain::State::apply(&mut folded, event));
    assert_eq!(folded, played.shop, "the state is the fold of its events");
    played
}

/// What a table led to.
pub(crate) struct Played {
    pub(crate) shop: Shop,
    pub(crate) rules: HoldLimits,
    pub(crate) events: Vec<Event>,
    made: u128,
}

impl Played {
    fn line(&mut self, line: &str) {
        let (left, expected) = line.split_once("->").unwrap_or_else(|| panic!("no arrow: {line}"));
        let (at, command) = left.trim().split_once(' ').unwrap_or_else(|| panic!("no command: {line}"));
        let (at, command) = (instant(at), command.trim());
        let words: Vec<&str> = command.split_whitespace().collect();
        let got = match words[0] {
            "books" => self.books(&item(words[1])),
            "pools" => self.pools(&item(words[1])),
            "map" => self.map(&item(words[1])),
            "hold" => self.shop.holds.get(&id(words[1])).map_or("none".to_owned(), said_hold),
            "crowd" => self.crowd(&words, at),
            _ => said(&self.run(command, at)),
        };
        assert_eq!(got, expected.trim(), "{line}");
    }

    /// Runs one command in a batch of its own.
    pub(crate) fn run(&mut self, command: &str, at: Instant) -> Outcome {
        let mut effects = Effects::default();
        let outcome = self.run_in(command, at, &mut effects);
        self.events.append(&mut effects.events);
        outcome
    }

    /// Runs one command in a batch.
    pub(crate) fn run_in(&mut self, command: &str, at: Instant, effects: &mut Effects) -> Outcome {
        let envelope = self.envelope(command);
        decide(&mut self.shop, &self.rules, &envelope, at, effects)
            .unwrap_or_else(|halt| panic!("{command}: {halt:?}"))
    }

    pub(crate) fn envelope(&mut self, line: &str) -> Envelope {
        self.made += 1;
        let command = command(line);
        let words: Vec<&str> = line.split_whitespace().collect();
        let digest = |text: &str| {
            let mut hasher = DefaultHasher::new();
            text.hash(&mut hasher);
            u128::from(hasher.finish())
        };
        let key = named(&words, "key").map(|key| IdempotencyKey {
            hash: KeyHash(digest(key)),
            fingerprint: Fingerprint(digest(&format!("{command:?}"))),
        });
        let reservation = match (words[0], named(&words, "into")) {
            ("reserve", _) => id(words[1]),
            (_, Some(into)) => id(into),
            _ => ReservationId::from_u128(0),
        };
        Envelope {
            access: Access::Unrestricted,
            command,
            key,
            fresh: GeneratedIds { reservation, event: EventId::from_u128(self.made << 12) },
            origin: Origin {
                actor: label("test"),
                key_id: None,
                request_id: RequestId::Made(self.made),
                trace: None,
            },
        }
    }

    fn crowd(&mut self, words: &[&str], at: Instant) -> String {
        let count: u32 = words[1].parse().unwrap();
        for n in 0..count {
            let outcome = self.run(&format!("reserve crowd{n} {}=1 {}", words[2], words[3]), at);
            assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
        }
        "ok".to_owned()
    }

    fn pools(&self, key: &ItemKey) -> String {
        let pools = self.shop.items[key].pools.all().iter().map(|pool| {
            let released = pool.released_at.map(|at| format!("@{}", since_start(at))).unwrap_or_default();
            format!("{}={}:{}+{}{released}", pool.name, pool.terms.allocated, pool.held, pool.sold)
        });
        pools.collect::<Vec<_>>().join(" ")
    }

    fn map(&self, key: &ItemKey) -> String {
        let Some(unit_index) = self.shop.unit_indexes.get(key) else { return "none".to_owned() };
        let units = unit_index.iter().map(|unit| {
            let mark = match unit.status {
                UnitStatus::Available => '.',
                UnitStatus::Held(_) => 'h',
                UnitStatus::Sold(_) => 's',
                UnitStatus::Fulfilled(_) => 'f',
            };
            let pool = unit.pool.as_ref().map(|pool| format!("^{pool}")).unwrap_or_default();
            format!("{mark}{}{pool}", unit.version)
        });
        units.collect::<Vec<_>>().join(" ")
    }

    fn books(&self, key: &ItemKey) -> String {
        let Some(item) = self.shop.items.get(key) else { return "none".to_owned() };
        let f = item.figures;
        let at = since_start(f.at);
        let some = |name: &str, count| if count > 0 { format!(" {name}={count}") } else { String::new() };
        let more = some("fulfilled", f.fulfilled) + &some("paying", f.held_under_payment);
        format!(
            "total={} sold={} held={} active={} seq={} v={}{more} at={at}",
            f.total_units,
            f.confirmed_sold,
            f.held,
            f.active,
            f.sequence,
            changes(item)
        )
    }
}

/// Milliseconds since the start, as an instant. The start is not zero, so that a forgotten instant shows.
pub(crate) fn instant(text: &str) -> Instant {
    let (millis, micros) = text.split_once('.').unwrap_or((text, "0"));
    let micros: i64 = format!("{micros:0<3}").parse().unwrap();
    Instant::from_micros(START + millis.parse::<i64>().unwrap() * 1_000 + micros)
}

const START: i64 = 1_000_000_000_000;

pub(crate) fn since_start(at: Instant) -> String {
    let micros = at.micros() - START;
    if micros % 1_000 == 0 {
        (micros / 1_000).to_string()
    } else {
        format!("{}.{:03}", micros / 1_000, micros % 1_000)
    }
}

pub(crate) fn label(text: &str) -> Label {
    Label::new(text).unwrap()
}

/// `[location/]name`.
pub(crate) fn item(text: &str) -> ItemKey {
    let (location, sku) = text.split_once('/').unwrap_or((Label::DEFAULT_LOCATION, text));
    ItemKey::new(&label(location), &label(sku))
}

/// The id that a name stands for; names sort as their ids do.
pub(crate) fn id(name: &str) -> ReservationId {
    let bytes = name.bytes().chain(std::iter::repeat(0)).take(16);
    ReservationId::from_u128(bytes.fold(0, |id, byte| (id << 8) | u128::from(byte)))
}

pub(crate) fn id_name(id: ReservationId) -> String {
    let name: Vec<u8> = id.as_u128().to_be_bytes().into_iter().filter(|byte| *byte > 0).collect();
    String::from_utf8(name).unwrap()
}

fn named<'a>(words: &[&'a str], name: &str) -> Option<&'a str> {
    words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

fn number<T: std::str::FromStr>(words: &[&str], name: &str) -> Option<T> {
    named(words, name).map(|text| text.parse().unwrap_or_else(|_| panic!("no number: {text}")))
}

fn seconds(words: &[&str], name: &str) -> Option<Seconds> {
    number(words, name).map(|seconds: u64| Seconds::new(seconds).unwrap())
}

fn setting(words: &[&str], name: &str) -> Patch<Seconds> {
    match named(words, name) {
        Some("none") => Patch::Clear,
        _ => seconds(words, name).map_or(Patch::Keep, Patch::Set),
    }
}

/// `900` is an instant in milliseconds, and `none` clears it.
fn edge(words: &[&str], name: &str) -> Patch<Instant> {
    match named(words, name) {
        None => Patch::Keep,
        Some("none") => Patch::Clear,
        Some(text) => Patch::Set(instant(text)),
    }
}

/// `boat:5@900+truck:2@400`: deliveries with their units and instants.
fn supplies(text: &str) -> Box<[Supply]> {
    let supply = |text: &str| {
        let (id, rest) = text.split_once(':').unwrap();
        let (quantity, millis) = rest.split_once('@').unwrap();
        Supply { id: label(id), quantity: quantity.parse().unwrap(), available_from: instant(millis) }
    };
    text.split('+').filter(|text| *text != "none").map(supply).collect()
}

fn labels(text: &str) -> Vec<Label> {
    text.split('+').map(label).collect()
}

fn basket(text: &str, best: Option<&BestAvailable>) -> Basket {
    let want = |text: &str| {
        let (name, quantity) = text.rsplit_once('=').unwrap();
        let named = quantity.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let choice = match named {
            Some(ids) => Some(UnitSelection::Named(labels(ids))),
            None => best.cloned().map(UnitSelection::BestAvailable),
        };
        let quantity = if named.is_some() { 1 } else { quantity.parse().unwrap() };
        match source(name) {
            Some(source) => {
                let line = RequestedLine { item: source.items()[0].clone(), quantity };
                BasketLine { line, selection: None, source: Some(source) }
            }
            None => {
                let line = RequestedLine { item: item(name), quantity };
                BasketLine { line, selection: choice, source: None }
            }
        }
    };
    Basket::with_sources(text.split(',').map(want).collect()).unwrap()
}

/// `[most:|single:]hub+hill/SKU`.
fn source(name: &str) -> Option<Source> {
    let (strategy, places) = match name.split_once(':') {
        Some(("most", places)) => (Strategy::MostStock, places),
        Some(("single", places)) => (Strategy::Single, places),
        _ => (Strategy::Priority, name),
    };
    let (locations, sku) = places.split_once('/').filter(|(locations, _)| locations.contains('+'))?;
    Some(Source::new(&label(sku), &labels(locations), strategy).unwrap())
}

fn best(words: &[&str]) -> Option<BestAvailable> {
    let best = BestAvailable {
        adjacent: words.contains(&"adjacent"),
        sections: named(words, "sections").map(labels).unwrap_or_default(),
        min_together: number(words, "together"),
        attributes: attributes(named(words, "with").into_iter()),
    };
    (best != BestAvailable::default()).then_some(best)
}

fn attributes<'a>(names: impl Iterator<Item = &'a str>) -> Attributes {
    Attributes::new(names.map(|name| (label(name), Attribute::Flag(true))).collect())
}

/// `id[@section[/row]][:position][+attribute]…`.
fn unit(text: &str) -> NewUnit {
    let mut parts = text.split('+');
    let (head, names) = (parts.next().unwrap(), parts);
    let (head, position) = head.split_once(':').map_or((head, None), |(head, at)| (head, Some(at)));
    let (id, place) = head.split_once('@').map_or((head, None), |(id, place)| (id, Some(place)));
    let (section, row) = place.map_or((None, None), |place| match place.split_once('/') {
        Some((section, row)) => (Some(label(section)), Some(label(row))),
        None => (Some(label(place)), None),
    });
    let position = position.map(|at| at.parse().unwrap());
    NewUnit { id: label(id), position, section, row, number: None, attributes: attributes(names) }
}

fn selection(words: &[&str]) -> SaleSelection {
    match (words[2], named(words, "units")) {
        ("all", _) => SaleSelection::All,
        (_, Some(ids)) => SaleSelection::Units(labels(ids)),
        (lines, None) => SaleSelection::Lines(basket(lines, None)),
    }
}

/// The precondition on the version of a reservation.
fn expected(words: &[&str]) -> Option<Precondition> {
    number(words, "version").map(Precondition::version)
}

fn party(words: &[&str], name: &str) -> Patch<Label> {
    match named(words, name) {
        None => Patch::Keep,
        Some("-") => Patch::Clear,
        Some(text) => Patch::Set(label(text)),
    }
}

/// A command on an existing reservation.
fn of_reservation(words: &[&str]) -> Command {
    match words[0] {
        "confirm" => Command::Confirm(Confirm {
            id: id(words[1]),
            order_id: named(words, "order").map(label),
            payment_id: named(words, "payment").map(label),
            if_expired: if words.contains(&"reacquire") { IfExpired::Reacquire } else { IfExpired::Refuse },
            override_limits: words.contains(&"override"),
        }),
        "release" => {
            Command::Release(Release { id: id(words[1]), reason: named(words, "reason").map(label) })
        }
        "extend" => {
            let ttl = Seconds::new(words[2].parse().unwrap()).unwrap();
            Command::Extend(Extend { id: id(words[1]), ttl })
        }
        "return" => {
            let from = named(words, "from").map(|from| match from {
                "shelf" => ReturnFrom::Unfulfilled,
                _ => ReturnFrom::Fulfilled,
            });
            let write_off = words.contains(&"write-off");
            Command::Return(Return {
                id: id(words[1]),
                selection: selection(words),
                from,
                disposition: if write_off { Disposition::WriteOff } else { Disposition::Restock },
                reason: label("unwanted"),
            })
        }
        "fulfil" => Command::Fulfil(Fulfil { id: id(words[1]), selection: selection(words) }),
        "amend" => Command::Amend(Amend {
            id: id(words[1]),
            basket: (words[2] != "-").then(|| basket(words[2], best(words).as_ref())),
            fulfilment: if words.contains(&"partial") { Fulfilment::Partial } else { Fulfilment::All },
            ttl: seconds(words, "ttl"),
            metadata: match named(words, "metadata") {
                None => Patch::Keep,
                Some("-") => Patch::Clear,
                Some(text) => Patch::Set(text.into()),
            },
            override_limits: words.contains(&"override"),
            expected: expected(words),
        }),
        "transfer" => Command::Transfer(Transfer {
            id: id(words[1]),
            owner_id: named(words, "owner").map(label),
            customer_id: party(words, "customer"),
            session_id: party(words, "session"),
            override_limits: words.contains(&"override"),
            expected: expected(words),
        }),
        "split" => Command::Split(Split {
            id: id(words[1]),
            lines: basket(words[2], None),
            expected: expected(words),
        }),
        "merge" => Command::Merge(Merge {
            id: id(words[1]),
            from: words[2].split(',').map(id).collect(),
            override_limits: words.contains(&"override"),
            expected: expected(words),
        }),
        "pay" => Command::OpenPayment(OpenPayment {
            id: id(words[1]),
            payment_id: label(words[2]),
            window: seconds(words, "window"),
            expected: expected(words),
        }),
        "unpay" => Command::ClosePayment(ClosePayment {
            id: id(words[1]),
            payment_id: named(words, "payment").map(label),
            reason: named(words, "reason").map(label),
        }),
        other => panic!("no such command: {other}"),
    }
}

fn flag(words: &[&str], name: &str) -> Patch<bool> {
    match named(words, name) {
        Some("none") => Patch::Clear,
        Some(word) => Patch::Set(word.parse().unwrap()),
        None => Patch::Keep,
    }
}

fn reserve(words: &[&str]) -> Reserve {
    Reserve {
        checkout: None,
        basket: basket(words[2], best(words).as_ref()),
        ttl: seconds(words, "ttl"),
        fulfilment: if words.contains(&"partial") { Fulfilment::Partial } else { Fulfilment::All },
        terms: ReserveTerms::new(
            label(named(words, "owner").unwrap_or("owner")),
            OptionalTerms {
                channel: named(words, "channel").map(label),
                pool: named(words, "pool").map(label),
                customer_id: named(words, "customer").map(label),
                session_id: named(words, "session").map(label),
                metadata: named(words, "metadata").map(Into::into),
            },
        ),
        override_limits: words.contains(&"override"),
    }
}

fn command(line: &str) -> Command {
    let words: Vec<&str> = line.split_whitespace().collect();
    let words = words.as_slice();
    match words[0] {
        "reserve" => Command::Reserve(reserve(words)),
        "stock" => Command::SetStock(SetStock {
            item: item(words[1]),
            total_units: words[2].parse().ok(),
            shelf: number(words, "hand")
                .map(|on_hand| ShelfCount { on_hand, fulfilled_seen: number(words, "seen") }),
            mode: match (words.contains(&"units"), words.contains(&"counted")) {
                (true, _) => Some(Mode::Units),
                (_, true) => Some(Mode::Counted),
                _ => None,
            },
            safety_stock: number(words, "safety"),
            oversell_allowance: number(words, "allow"),
            gated: flag(words, "gated"),
            sale_starts_at: edge(words, "starts"),
            sale_ends_at: edge(words, "ends"),
            incoming: named(words, "incoming").map(supplies),
            price: Patch::Keep,
            low_stock: Patch::Keep,
            stock_master: match named(words, "master") {
                None => Patch::Keep,
                Some("none") => Patch::Clear,
                Some(name) => Patch::Set(label(name)),
            },
            override_owner: words.contains(&"override"),
            default_ttl: setting(words, "ttl"),
            max_hold: setting(words, "max"),
            max_payment: setting(words, "max-payment"),
            metadata: Patch::Keep,
            expected: number(words, "version").map(|number| Precondition::version(version(number))),
        }),
        "adjust" => Command::AdjustStock(AdjustStock {
            item: item(words[1]),
            delta: words[2].parse().unwrap(),
            reason: label("count"),
            supply_id: named(words, "supply").map(label),
            override_owner: words.contains(&"override"),
            expected: number(words, "version").map(|number| Precondition::version(version(number))),
        }),
        "delete" => Command::DeleteItem(DeleteItem {
            item: item(words[1]),
            expected: number(words, "version").map(|number| Precondition::version(version(number))),
        }),
        "pause" | "resume" => {
            let scope = match (words[1], named(words, "at")) {
                ("everything", _) => Scope::Everything,
                (_, Some(location)) => Scope::Location(label(location)),
                (name, None) => Scope::Item(item(name)),
            };
            Command::SetSale(SetSale { scope, paused: words[0] == "pause", reason: None })
        }
        "add" => {
            let units = words[2].split(',').map(unit).collect();
            Command::AddUnits(AddUnits { item: item(words[1]), units })
        }
        "retire" => Command::RetireUnit(RetireUnit { item: item(words[1]), unit: label(words[2]) }),
        "sweep" => Command::Sweep,
        "record" => Command::SetRecord(SetRecord {
            key: record_key(words[1]),
            expected_version: number(words, "expect").unwrap(),
            value: (words[2] != "-").then(|| RecordValue::new(words[2].as_bytes()).unwrap()),
            change: match words.get(4).copied() {
                Some("created") => RecordChange::KeyCreated,
                Some("rolled") => RecordChange::KeyRolled,
                Some("revoked") => RecordChange::KeyRevoked,
                _ => RecordChange::Silent,
            },
        }),
        "pool" => Command::SetPool(SetPool {
            item: item(words[1]),
            pool: label(words[2]),
            allocated: words[3].parse().ok(),
            fallback: !words.contains(&"strict"),
            releases_at: named(words, "at").map(instant),
            idle_release: seconds(words, "idle"),
            expected: number(words, "version").map(|number| Precondition::version(version(number))),
        }),
        "unpool" => Command::DeletePool(DeletePool {
            item: item(words[1]),
            pool: label(words[2]),
            expected: number(words, "version").map(|number| Precondition::version(version(number))),
        }),
        "into" | "out" => Command::SetUnitPool(SetUnitPool {
            item: item(words[1]),
            pool: label(words[2]),
            puts_in: words[0] == "into",
            units: match named(words, "sections") {
                Some(names) => PoolSelection::Sections(labels(names)),
                None => PoolSelection::Units(labels(words[3])),
            },
            expected: number(words, "version").map(|number| Precondition::version(version(number))),
        }),
        "limit" => set_limit(words),
        "unlimit" => Command::DeleteLimit(DeleteLimit { id: label(words[1]), expected: expected(words) }),
        _ => of_reservation(words),
    }
}

/// `limit ID MOST [a,@hub,hub/b] [per=customer|owner] [channels=web+app] [held]`: `a` is a SKU, `@hub` a location, `hub/b` an item.
fn set_limit(words: &[&str]) -> Command {
    let target = |text: &str| match (text.strip_prefix('@'), text.contains('/')) {
        (Some(location), _) => LimitTarget::Location(label(location)),
        (None, true) => LimitTarget::Item(item(text)),
        (None, false) => LimitTarget::Sku(label(text)),
    };
    let terms = LimitTerms {
        targets: words[3].split(',').map(target).collect(),
        channels: named(words, "channels").map(labels).unwrap_or_default().into(),
        per: named(words, "per").map(|per| match per {
            "customer" => SubjectKind::Customer,
            _ => SubjectKind::Owner,
        }),
        limit: words[2].parse().unwrap(),
        counts: if words.contains(&"held") { LimitedUnits::Held } else { LimitedUnits::HeldAndSold },
    };
    Command::SetLimit(SetLimit { id: label(words[1]), terms, expected: expected(words) })
}

/// A record by its name.
pub(crate) fn record_key(name: &str) -> RecordKey {
    let (kind, id) = name.split_once('/').unwrap();
    RecordKey { kind: RecordKind::from_name(kind).unwrap(), id: label(id) }
}

/// The version with this number of an item that was created at 0: its first is 1.
pub(crate) fn version(number: u64) -> u64 {
    Item::first_version(Instant::from_micros(START)) + number - 1
}

/// The number of an item's version: 1 for its first.
pub(crate) fn changes(item: &Item) -> u64 {
    item.version - Item::first_version(item.created_at) + 1
}
