//! Commands in small numbers. A generator makes and shrinks [`Op`]s without knowing what exists; a [`Cast`] turns them
//! into envelopes about the few items and the reservations that there are, so that contention is constant.

use super::maker::{self, Maker, label, seconds};
use super::random::Random;
use stockhold_domain::{
    AdjustStock, Command, Confirm, Envelope, Extend, Fulfilment, ItemKey, Release, ReservationId, Reserve,
    Return, Scope, SetSale, SetStock, limits,
};

/// One command to be. Small numbers choose among what exists; see [`Cast::envelope`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Reserve: items and quantities, the same item twice too.
    Reserve {
        /// (item, quantity).
        wants: Vec<(u8, u8)>,
        /// Seconds.
        ttl: Option<u32>,
        /// What there is, or all.
        partial: bool,
        /// Which of a few keys.
        key: Option<u8>,
    },
    /// Confirm.
    Confirm {
        /// How many reservations ago.
        hold: u8,
        /// Which of two orders.
        order: Option<u8>,
        /// Which of a few keys.
        key: Option<u8>,
    },
    /// Release.
    Release {
        /// How many reservations ago.
        hold: u8,
        /// Which of a few keys.
        key: Option<u8>,
    },
    /// Extend.
    Extend {
        /// How many reservations ago.
        hold: u8,
        /// Seconds.
        ttl: u32,
        /// Which of a few keys.
        key: Option<u8>,
    },
    /// Return: everything, or items and quantities.
    Return {
        /// How many reservations ago.
        hold: u8,
        /// (item, quantity).
        wants: Option<Vec<(u8, u8)>>,
        /// Which of a few keys.
        key: Option<u8>,
    },
    /// Set stock.
    SetStock {
        /// Which item.
        item: u8,
        /// Units.
        total: u8,
        /// Units kept from sale.
        safety_stock: Option<u8>,
        /// Seconds.
        default_ttl: Option<u32>,
        /// Seconds.
        max_hold: Option<u32>,
        /// The version expected.
        version: Option<u8>,
    },
    /// Adjust stock.
    Adjust {
        /// Which item.
        item: u8,
        /// By how much; 0 stands for 1.
        delta: i8,
        /// The version expected.
        version: Option<u8>,
        /// Which of a few keys.
        key: Option<u8>,
    },
    /// Pause or resume.
    Sale {
        /// 0 everything, 1 and 2 a location, the rest an item.
        scope: u8,
        /// Pause.
        paused: bool,
    },
    /// Sweep.
    Sweep,
    /// A request with a key, sent once more.
    Again {
        /// How many such requests ago.
        sent: u8,
    },
}

/// Items that exist or may come to.
const ITEMS: usize = 4;
/// Reservations that commands are about: the newest so many.
const RECENT: usize = 12;
/// Keys in use: so few that they meet.
const KEYS: u8 = 6;
/// One command in so many names a reservation that never was.
const UNKNOWN: u8 = 31;

/// What a history is about.
#[derive(Clone, Debug)]
pub struct Cast {
    maker: Maker,
    items: Vec<ItemKey>,
    holds: Vec<ReservationId>,
    sent: Vec<Envelope>,
}

impl Cast {
    /// Four items at two locations; the last never exists until something sets it.
    pub fn new(seed: u64, prefix: &str) -> Self {
        let maker = Maker::new(seed, prefix);
        let hub = maker.location("hub");
        let items = vec![
            maker.item("a"),
            maker.item("A"),
            maker.item_at(hub.as_str(), "a"),
            maker.item_at(hub.as_str(), "b "),
        ];
        Self { maker, items, holds: Vec::new(), sent: Vec::new() }
    }

    /// Its items, those that do not exist included.
    pub fn items(&self) -> &[ItemKey] {
        &self.items
    }

    /// Ids that reserves were sent with, whatever became of them.
    pub fn holds(&self) -> &[ReservationId] {
        &self.holds
    }

    /// Turns an op into an envelope.
    pub fn envelope(&mut self, op: &Op) -> Envelope {
        if let Op::Again { sent } = op {
            if let Some(before) = recent(&self.sent, *sent).cloned() {
                let envelope = self.maker.again(&before);
                self.note(&envelope);
                return envelope;
            }
            return self.maker.wrap(Command::Sweep);
        }
        let (command, key) = self.command(op);
        let envelope = match key {
            Some(key) => self.maker.keyed(&format!("key-{}", key % KEYS), command),
            None => self.maker.wrap(command),
        };
        self.note(&envelope);
        if envelope.key.is_some() {
            self.sent.push(envelope.clone());
        }
        envelope
    }

    fn note(&mut self, envelope: &Envelope) {
        if matches!(envelope.command, Command::Reserve(_)) {
            self.holds.push(envelope.fresh.reservation);
        }
    }

    fn command(&mut self, op: &Op) -> (Command, Option<u8>) {
        match op {
            Op::Reserve { wants, ttl, partial, key } => {
                let fulfilment = if *partial { Fulfilment::Partial } else { Fulfilment::All };
                let ttl = ttl.map(|ttl| seconds(u64::from(ttl)));
                let reserve = Reserve { ttl, fulfilment, ..maker::reserve_of(&self.wants(wants)) };
                (Command::Reserve(reserve), *key)
            }
            Op::Confirm { hold, order, key } => {
                let order_id = order.map(|order| label(&format!("order-{}", order % 2)));
                (Command::Confirm(Confirm { id: self.hold(*hold), order_id }), *key)
            }
            Op::Release { hold, key } => {
                let reason = (hold % 2 == 0).then(|| label("changed my mind"));
                (Command::Release(Release { id: self.hold(*hold), reason }), *key)
            }
            Op::Extend { hold, ttl, key } => {
                let ttl = seconds(u64::from(*ttl));
                (Command::Extend(Extend { id: self.hold(*hold), ttl }), *key)
            }
            Op::Return { hold, wants, key } => {
                let id = self.hold(*hold);
                let command = match wants {
                    None => maker::return_all(id),
                    Some(wants) => maker::return_of(id, &self.wants(wants)),
                };
                let Command::Return(returned) = command else { unreachable!("a return") };
                (Command::Return(Return { reason: label("came back"), ..returned }), *key)
            }
            Op::SetStock { item, total, safety_stock, default_ttl, max_hold, version } => {
                let set = SetStock {
                    safety_stock: safety_stock.map(u64::from),
                    default_ttl: default_ttl.map(|ttl| seconds(u64::from(ttl))),
                    max_hold: max_hold.map(|max| seconds(u64::from(max))),
                    expected_version: version.map(u64::from),
                    ..maker::stock_of(self.item(*item), u64::from(*total))
                };
                (Command::SetStock(set), None)
            }
            Op::Adjust { item, delta, version, key } => {
                let adjust = AdjustStock {
                    item: self.item(*item).clone(),
                    delta: if *delta == 0 { 1 } else { i64::from(*delta) },
                    reason: label("count"),
                    expected_version: version.map(u64::from),
                };
                (Command::AdjustStock(adjust), *key)
            }
            Op::Sale { scope, paused } => {
                let scope = match scope % 6 {
                    0 => Scope::Everything,
                    1 => Scope::Location(label(self.item(0).location())),
                    2 => Scope::Location(label(self.item(2).location())),
                    item => Scope::Item(self.item(item).clone()),
                };
                (Command::SetSale(SetSale { scope, paused: *paused, reason: None }), None)
            }
            Op::Sweep | Op::Again { .. } => (Command::Sweep, None),
        }
    }

    fn wants(&self, wants: &[(u8, u8)]) -> Vec<(&ItemKey, u64)> {
        let wish = |(item, quantity): &(u8, u8)| {
            // The largest number stands for one past the limit.
            let past = limits::LINE_QUANTITY + 1;
            let quantity = if *quantity == u8::MAX { past } else { u64::from(*quantity).max(1) };
            (self.item(*item), quantity)
        };
        if wants.is_empty() { vec![(self.item(0), 1)] } else { wants.iter().map(wish).collect() }
    }

    fn item(&self, item: u8) -> &ItemKey {
        &self.items[usize::from(item) % ITEMS]
    }

    fn hold(&mut self, hold: u8) -> ReservationId {
        match recent(&self.holds, hold) {
            Some(id) if hold % (UNKNOWN + 1) != UNKNOWN => *id,
            _ => self.maker.no_reservation(),
        }
    }
}

/// One of the newest, counted from the end.
fn recent<T>(all: &[T], ago: u8) -> Option<&T> {
    let span = all.len().min(RECENT);
    all.iter().rev().nth(usize::from(ago).checked_rem(span)?)
}

/// Times to live that matter: short ones that fall due within a history, the defaults, and one past them.
pub const TTLS: [u32; 8] = [1, 2, 3, 10, 60, 600, 1_800, 1_801];

impl Op {
    /// Any op; of a thin store (see [`super::World::complete`]) only those that it knows.
    pub fn random(random: &mut Random, complete: bool) -> Self {
        let key = random.one_in(3).then(|| random.byte());
        let hold = random.byte();
        let ttl = random.pick(&TTLS);
        match random.below(if complete { 24 } else { 18 }) {
            0..=7 => Self::Reserve {
                wants: wants(random),
                ttl: (!random.one_in(4)).then_some(ttl),
                partial: random.one_in(3),
                key,
            },
            8..=10 => Self::Confirm { hold, order: random.one_in(2).then(|| random.byte()), key },
            11..=13 => Self::Release { hold, key },
            14 => Self::Sweep,
            15 => Self::Again { sent: random.byte() },
            16..=17 => Self::SetStock {
                item: random.byte(),
                total: random.byte() % 16,
                safety_stock: random.one_in(3).then(|| random.byte() % 4),
                default_ttl: random.one_in(3).then_some(ttl),
                max_hold: random.one_in(3).then(|| random.pick(&TTLS)),
                version: random.one_in(4).then(|| random.byte() % 8),
            },
            18..=19 => Self::Extend { hold, ttl, key },
            20..=21 => Self::Return { hold, wants: random.one_in(2).then(|| wants(random)), key },
            22 => Self::Adjust {
                item: random.byte(),
                delta: random.byte().cast_signed() % 6,
                version: random.one_in(4).then(|| random.byte() % 8),
                key,
            },
            _ => Self::Sale { scope: random.byte(), paused: random.one_in(3) },
        }
    }
}

fn wants(random: &mut Random) -> Vec<(u8, u8)> {
    let lines = 1 + random.below(4);
    let quantity = |random: &mut Random| if random.one_in(60) { u8::MAX } else { 1 + random.byte() % 5 };
    (0..lines).map(|_| (random.byte() % 3 + u8::from(random.one_in(20)), quantity(random))).collect()
}
