//! Records of every shape, made at random from a seed.

use std::sync::Arc;
use stockhold_domain::{
    Attribute, Attributes, CaptureMethod, Charge, ChargeState, CheckoutTerms, Closing, Currency, Discount,
    Disposition, Event, EventId, ExtraAmount, Fingerprint, Hold, HoldChange, HoldDetails, HoldTerms, Instant,
    Item, ItemKey, KeyHash, KeyRecord, KeyTarget, Label, LimitEffects, Line, LineChange, LineDetails,
    LinePrice, LineUnit, LineUnits, Mode, MovedUnits, OnDecline, OptionalTerms, Origin, Parties, Payment,
    PaymentMethod, PaymentState, PendingRefund, Place, Pool, PoolDraw, PoolTerms, PooledUnit, Pools,
    PoolsAfter, Price, ProviderRef, Record, RecordChange, RecordKey, RecordKind, RecordValue, Reduction,
    RequestId, ReservationId, ReserveTerms, Scope, SealedRefs, Seconds, Settings, Status, StockChange,
    StockCounters, Supply, Trace, Transition, Unit, UnitStatus, limits,
};
use stockhold_model::Random;

/// Makes records.
pub(super) struct Any(pub(super) Random);

impl Any {
    pub(super) fn maybe<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.0.one_in(2).then(|| make(self))
    }

    /// Numbers of every length, both ends among them.
    pub(super) fn number(&mut self) -> u64 {
        match self.0.below(8) {
            0 => 0,
            1 => u64::MAX,
            _ => self.0.bits() >> self.0.below(64),
        }
    }

    pub(super) fn small(&mut self) -> u32 {
        u32::try_from(self.number() >> 32).unwrap()
    }

    pub(super) fn instant(&mut self) -> Instant {
        Instant::from_micros(self.number().cast_signed())
    }

    pub(super) fn text(&mut self, longest: u64) -> String {
        let letters = ['a', 'Z', ' ', '0', 'é', '🦀', '\u{301}', '"'];
        let len = usize::try_from(self.0.below(longest)).unwrap();
        let mut text: String = (0..=len).map(|_| self.0.pick(&letters)).collect();
        while text.len() > len + 1 {
            text.pop();
        }
        if text.is_empty() { "x".to_owned() } else { text }
    }

    pub(super) fn label(&mut self) -> Label {
        let longest = if self.0.one_in(8) { limits::LABEL_BYTES as u64 } else { 12 };
        Label::new(&self.text(longest)).unwrap()
    }

    pub(super) fn item_key(&mut self) -> ItemKey {
        ItemKey::new(&self.label(), &self.label())
    }

    pub(super) fn seconds(&mut self) -> Seconds {
        Seconds::new(1 + self.0.below(u64::from(limits::TTL_CEILING_SECONDS))).unwrap()
    }

    pub(super) fn metadata(&mut self) -> Arc<str> {
        self.text(100).into()
    }

    pub(super) fn figures(&mut self) -> StockCounters {
        StockCounters {
            total_units: self.number(),
            confirmed_sold: self.number(),
            fulfilled: self.number(),
            held: self.number(),
            held_under_payment: self.number(),
            active: self.number(),
            sequence: self.number(),
            at: self.instant(),
        }
    }

    pub(super) fn item(&mut self) -> Item {
        Item {
            key: self.item_key(),
            mode: self.0.pick(&[Mode::Counted, Mode::Units]),
            figures: self.figures(),
            settings: Arc::new(Settings {
                safety_stock: self.number(),
                oversell_allowance: self.number(),
                gated: self.0.one_in(2),
                sale_starts_at: self.maybe(Self::instant),
                sale_ends_at: self.maybe(Self::instant),
                incoming: (0..self.0.below(3)).map(|_| self.supply()).collect(),
                default_ttl: self.maybe(Self::seconds),
                max_hold: self.maybe(Self::seconds),
                max_payment: self.maybe(Self::seconds),
                price: self.maybe(Self::price).map(Box::new),
                low_stock: self.maybe(Self::number),
                stock_master: self.maybe(Self::label),
                metadata: self.maybe(Self::metadata),
            }),
            pools: Pools::new((0..self.0.below(3)).map(|number| self.pool(number)).collect()),
            version: self.number(),
            paused: self.0.one_in(2),
            created_at: self.instant(),
        }
    }

    pub(super) fn line(&mut self) -> Line {
        Line {
            item: self.item_key(),
            requested: self.small(),
            quantity: self.small(),
            fulfilled: if self.0.one_in(2) { 0 } else { self.small() },
            returned: self.small(),
            sequence: self.number(),
            units: None,
            details: self.maybe(Self::line_details).and_then(LineDetails::some),
        }
    }

    fn currency(&mut self) -> Currency {
        self.0.pick(&["usd", "eur", "jpy"].map(|code| Currency::new(code).unwrap()))
    }

    fn price(&mut self) -> Price {
        let discount = |any: &mut Self| Discount {
            reduction: if any.0.one_in(2) {
                Reduction::Percent(1 + u8::try_from(any.0.below(100)).unwrap())
            } else {
                Reduction::AmountOff(any.number().max(1))
            },
            from: any.maybe(Self::instant),
            to: any.maybe(Self::instant),
            channels: (0..any.0.below(3)).map(|_| any.label()).collect(),
        };
        Price {
            unit_amount: self.number(),
            currency: self.currency(),
            discounts: (0..self.0.below(3)).map(|_| discount(self)).collect(),
        }
    }

    fn line_price(&mut self) -> LinePrice {
        LinePrice {
            unit_amount: self.maybe(Self::number),
            discount: self.number(),
            amount: self.number(),
            currency: self.currency(),
        }
    }

    pub(super) fn line_details(&mut self) -> LineDetails {
        let draw = |any: &mut Self| PoolDraw { pool: any.label(), units: any.small().max(1) };
        LineDetails {
            counted: Vec::new(),
            backordered: self.small(),
            promised_at: self.maybe(Self::instant),
            draws: (0..self.0.below(3)).map(|_| draw(self)).collect(),
            price: self.maybe(Self::line_price),
            refunded: if self.0.one_in(2) { 0 } else { self.number() },
        }
    }

    /// A pool. Each number has a name of its own.
    pub(super) fn pool(&mut self, number: u64) -> Pool {
        Pool {
            name: Label::new(&format!("{number}{}", self.text(12))).unwrap(),
            terms: PoolTerms {
                allocated: self.number(),
                fallback: self.0.one_in(2),
                releases_at: self.maybe(Self::instant),
                idle_release: self.maybe(Self::seconds),
            },
            held: self.number(),
            sold: self.number(),
            used_at: self.instant(),
            released_at: self.maybe(Self::instant),
        }
    }

    pub(super) fn supply(&mut self) -> Supply {
        Supply { id: self.label(), quantity: self.number(), available_from: self.instant() }
    }

    pub(super) fn line_units(&mut self) -> LineUnits {
        LineUnits::new((0..=self.0.below(5)).map(|_| self.line_unit()).collect())
    }

    pub(super) fn line_unit(&mut self) -> LineUnit {
        LineUnit {
            id: self.label(),
            version: self.number(),
            fulfilled: self.0.one_in(3),
            returned: self.0.one_in(3),
            pool: self.maybe(Self::label),
        }
    }

    pub(super) fn reservation(&mut self) -> ReservationId {
        ReservationId::from_u128(self.0.wide_bits())
    }

    pub(super) fn details(&mut self) -> HoldDetails {
        let list = |any: &mut Self| (0..any.0.below(3)).map(|_| any.reservation()).collect();
        HoldDetails {
            payment: self.maybe(|any| Payment {
                id: any.label(),
                state: any.0.pick(&[
                    PaymentState::Open,
                    PaymentState::Closed,
                    PaymentState::Lapsed,
                    PaymentState::Completed,
                ]),
                until: any.instant(),
                deadline_before: any.instant(),
                charge: any.maybe(Self::charge).map(Box::new),
            }),
            first_payment_at: self.maybe(Self::instant),
            split_from: self.maybe(Self::reservation),
            split_into: list(self),
            merged_from: list(self),
            merged_into: self.maybe(Self::reservation),
            replaces: self.maybe(Self::reservation),
            replaced_by: self.maybe(Self::reservation),
            transfers: u32::try_from(self.0.below(3)).unwrap(),
            authorizations: u32::try_from(self.0.below(3)).unwrap(),
        }
    }

    fn provider_ref(&mut self) -> ProviderRef {
        ProviderRef::new(&format!("pi_{}", self.number())).unwrap()
    }

    fn payment_method(&mut self) -> PaymentMethod {
        if self.0.one_in(2) {
            let customer_ref = self.maybe(Self::provider_ref);
            return PaymentMethod::Named { customer_ref, method_ref: self.provider_ref() };
        }
        let most = if self.0.one_in(8) { limits::SEALED_METHOD_BYTES as u64 } else { 12 };
        let count = usize::try_from(1 + self.0.below(most)).unwrap();
        let byte = u8::try_from(self.0.below(256)).unwrap();
        PaymentMethod::Customer { customer_id: self.label(), sealed: SealedRefs::new(&vec![byte; count]) }
    }

    fn charge(&mut self) -> Charge {
        let count = usize::try_from(self.0.below(3)).unwrap();
        Charge {
            state: self.0.pick(&[ChargeState::Pending, ChargeState::Captured, ChargeState::RefundFailed]),
            terms: Arc::new(CheckoutTerms {
                provider: self.label(),
                method: self.payment_method(),
                capture: self.0.pick(&[CaptureMethod::AfterConfirm, CaptureMethod::ChargeThenConfirm]),
                on_decline: self.0.pick(&[OnDecline::Release, OnDecline::Keep]),
                return_url: self.maybe(Self::metadata),
                description: self.maybe(Self::metadata),
                extra: (0..count)
                    .map(|_| ExtraAmount { name: self.label(), amount: self.number() })
                    .collect(),
                notify: self.0.one_in(2),
            }),
            order_id: self.label(),
            amount: self.number(),
            currency: self.currency(),
            provider_ref: self.maybe(Self::provider_ref),
            reacquires: self.0.one_in(2),
            captured: if self.0.one_in(2) { 0 } else { self.number() },
            refunded: if self.0.one_in(2) { 0 } else { self.number() },
            capture_attempts: self.small(),
            refund_attempts: self.small(),
            attempted_at: self.instant(),
            refunds: (0..count)
                .map(|_| PendingRefund { amount: self.number(), reason: self.label() })
                .collect(),
            tries: self.small(),
            refusals: self.small(),
            error: self.maybe(Self::label),
            due_at: self.maybe(Self::instant),
        }
    }

    pub(super) fn line_changes(&mut self, hold: &Hold) -> Box<[LineChange]> {
        let change = |any: &mut Self| LineChange {
            quantity_before: any.small(),
            kept: any.small(),
            released: (0..any.0.below(3)).map(|_| any.line_unit()).collect(),
        };
        hold.lines.iter().map(|_| change(self)).collect()
    }

    pub(super) fn moved(&mut self, hold: &Hold) -> Box<[MovedUnits]> {
        let moved = |any: &mut Self| MovedUnits {
            quantity: any.small(),
            places: (0..any.0.below(3)).map(|_| any.small()).collect(),
        };
        hold.lines.iter().map(|_| moved(self)).collect()
    }

    pub(super) fn hold_change(&mut self, hold: &Hold) -> HoldChange {
        match self.0.below(17) {
            0 => HoldChange::Created,
            1 => HoldChange::Extended,
            2 => HoldChange::Confirmed,
            3 => HoldChange::Cancelled,
            4 => HoldChange::Expired,
            5 => HoldChange::CreatedBySplit,
            6 => HoldChange::MergedAway,
            7 => HoldChange::Replaced,
            8 => HoldChange::Amended { lines: self.line_changes(hold) },
            9 => HoldChange::Split { lines: self.line_changes(hold), into: self.reservation() },
            10 => HoldChange::Merged {
                lines: self.line_changes(hold),
                from: (0..self.0.below(4)).map(|_| self.reservation()).collect(),
            },
            11 => HoldChange::Transferred {
                from: Box::new(Parties {
                    owner_id: self.label(),
                    customer_id: self.maybe(Self::label),
                    session_id: self.maybe(Self::label),
                }),
            },
            12 => HoldChange::PaymentOpened { prolonged: self.0.one_in(2) },
            13 => HoldChange::PaymentClosed { reason: self.maybe(Self::label) },
            15 => HoldChange::PaymentAdvanced { status: hold.status, state_changed: self.0.one_in(2) },
            14 => HoldChange::Fulfilled { lines: self.moved(hold) },
            _ => HoldChange::Returned {
                lines: self.moved(hold),
                fulfilled: hold.lines.iter().map(|_| self.small()).collect(),
                disposition: self.0.pick(&[Disposition::Restock, Disposition::WriteOff]),
                reason: self.label(),
            },
        }
    }

    pub(super) fn place(&mut self) -> Place {
        let count = if self.0.one_in(2) { 0 } else { self.0.below(4) };
        let named = (0..count).map(|_| {
            let value = match self.0.below(3) {
                0 => Attribute::Flag(self.0.one_in(2)),
                1 => Attribute::Number(self.number().cast_signed()),
                _ => Attribute::Text(self.label()),
            };
            (self.label(), value)
        });
        Place {
            attributes: Attributes::new(named.collect()),
            position: self.number(),
            section: self.maybe(Self::label),
            row: self.maybe(Self::label),
            number: self.maybe(Self::label),
        }
    }

    pub(super) fn unit(&mut self) -> Unit {
        let id = ReservationId::from_u128(self.0.wide_bits());
        Unit {
            id: self.label(),
            place: self.place(),
            status: self.0.pick(&[
                UnitStatus::Available,
                UnitStatus::Held(id),
                UnitStatus::Sold(id),
                UnitStatus::Fulfilled(id),
            ]),
            version: self.number(),
            pool: self.maybe(Self::label),
        }
    }

    fn pooled(&mut self) -> PooledUnit {
        PooledUnit { id: self.label(), version: self.number() }
    }

    pub(super) fn added(&mut self) -> Unit {
        Unit { status: UnitStatus::Available, version: 1, pool: None, ..self.unit() }
    }

    pub(super) fn hold(&mut self) -> Hold {
        let lines = if self.0.one_in(50) { 40 } else { self.0.below(4) };
        Hold {
            id: ReservationId::from_u128(self.0.wide_bits()),
            status: self.0.pick(&[Status::Active, Status::Confirmed, Status::Cancelled, Status::Expired]),
            expires_at: self.instant(),
            terms: Arc::new(HoldTerms {
                reserve: ReserveTerms::new(
                    self.label(),
                    OptionalTerms {
                        channel: self.maybe(Self::label),
                        pool: self.maybe(Self::label),
                        customer_id: self.maybe(Self::label),
                        session_id: self.maybe(Self::label),
                        metadata: self.maybe(Self::metadata),
                    },
                ),
                created_at: self.instant(),
                max_expires_at: self.instant(),
            }),
            lines: {
                // Most have counted lines alone, some are mixed.
                let named = self.0.one_in(3);
                let line = |any: &mut Self| {
                    let units = if named && any.0.one_in(2) { Some(any.line_units()) } else { None };
                    Line { units: units.map(Arc::new), ..any.line() }
                };
                (0..lines).map(|_| line(self)).collect()
            },
            closing: self.maybe(|any| {
                let (reason, order_id) = (any.maybe(Self::label), any.maybe(Self::label));
                Box::new(Closing { at: any.instant(), reason, order_id })
            }),
            details: self.maybe(|any| Box::new(any.details())),
            version: self.number(),
            last_event: EventId::from_u128(self.0.wide_bits()),
        }
    }

    pub(super) fn record_key(&mut self) -> RecordKey {
        RecordKey { kind: self.0.pick(&RecordKind::ALL), id: self.label() }
    }

    pub(super) fn record(&mut self) -> Record {
        let longest = if self.0.one_in(8) { limits::RECORD_BYTES as u64 + 1 } else { 40 };
        let value = self.maybe(|any| {
            let bytes: Vec<u8> = (0..any.0.below(longest)).map(|_| any.0.byte()).collect();
            RecordValue::new(&bytes).unwrap()
        });
        Record { key: self.record_key(), version: self.number(), value }
    }

    pub(super) fn transition(&mut self) -> Transition {
        match self.0.below(5) {
            4 => {
                let change = self.0.pick(&[
                    RecordChange::Silent,
                    RecordChange::KeyCreated,
                    RecordChange::KeyRolled,
                    RecordChange::KeyRevoked,
                    RecordChange::SinkEventSkipped,
                    RecordChange::EndpointCreated,
                    RecordChange::EndpointChanged,
                    RecordChange::EndpointDeleted,
                    RecordChange::EndpointDisabled,
                    RecordChange::EndpointSecretRotated,
                    RecordChange::StockReconciled,
                ]);
                Transition::Record { change, record: self.record() }
            }
            0 => {
                let change = match self.0.below(9) {
                    8 => StockChange::UnitsPooled {
                        pool: self.maybe(Self::label),
                        units: (0..self.0.below(4)).map(|_| self.pooled()).collect(),
                    },
                    5 => StockChange::PoolSet { pool: self.label() },
                    6 => StockChange::PoolDeleted { pool: self.label() },
                    7 => StockChange::PoolReleased { pool: self.label() },
                    0 => StockChange::Set,
                    3 => StockChange::Deleted,
                    1 => StockChange::UnitsAdded((0..self.0.below(5)).map(|_| self.added()).collect()),
                    2 => StockChange::UnitsRetired((0..self.0.below(4)).map(|_| self.label()).collect()),
                    _ => StockChange::Adjusted {
                        delta: self.number().cast_signed(),
                        reason: self.label(),
                        supply_id: self.maybe(Self::label),
                    },
                };
                Transition::Stock { change, item: self.item() }
            }
            1 => Transition::Sale {
                scope: match self.0.below(3) {
                    0 => Scope::Everything,
                    1 => Scope::Location(self.label()),
                    _ => Scope::Item(self.item_key()),
                },
                paused: self.0.one_in(2),
                reason: self.maybe(Self::label),
            },
            _ => {
                let hold = self.hold();
                let change = self.hold_change(&hold);
                let figures = hold.lines.iter().map(|_| self.figures()).collect();
                let limits = self.maybe(|any| {
                    let after = |any: &mut Self| PoolsAfter {
                        line: any.small(),
                        pools: Pools::new(vec![any.pool(0)]),
                    };
                    let pools = (0..any.0.below(3)).map(|_| after(any)).collect();
                    Box::new(LimitEffects { pools, ..LimitEffects::default() })
                });
                Transition::Hold { limits, change, hold, figures }
            }
        }
    }

    pub(super) fn event(&mut self) -> Event {
        let request_id = match self.0.below(2) {
            0 => RequestId::Made(self.0.wide_bits()),
            _ => RequestId::Given(self.label()),
        };
        let trace = self.maybe(|any| Trace {
            trace_id: any.0.wide_bits(),
            span_id: any.number(),
            flags: any.0.byte(),
        });
        Event {
            id: EventId::from_u128(self.0.wide_bits()),
            at: self.instant(),
            origin: Origin {
                actor: self.label(),
                key_id: self.maybe(|any| any.0.wide_bits()),
                request_id,
                trace,
            },
            previous: self.maybe(|any| EventId::from_u128(any.0.wide_bits())),
            transition: self.transition(),
        }
    }

    pub(super) fn key_record(&mut self) -> KeyRecord {
        KeyRecord {
            hash: KeyHash(self.0.wide_bits()),
            fingerprint: Fingerprint(self.0.wide_bits()),
            target: match self.0.below(3) {
                2 => KeyTarget::Record(self.record_key()),
                0 => KeyTarget::Reservation(ReservationId::from_u128(self.0.wide_bits())),
                _ => KeyTarget::Item(self.item_key()),
            },
            at: self.instant(),
        }
    }
}
