//! One command of `POST /v1/commands`: the fields of all commands, and which of them each command has.

use super::body::{CheckoutBody, LineBody, PriceBody, SupplyBody};
use super::field::{
    Delta, DispositionWord, Flag, FulfilmentWord, Id, IfExpiredWord, JsonObject, Key, ModeWord, PaymentTtl,
    Quantity, ReturnFromWord, Stock, Text, Time, Together, Ttl, Version, given, setting,
};
use super::metadata::Metadata;
use super::reservation::{self, SaleLines};
use super::source::{self, LineOrigin, SourceBody};
use super::units::{AttributesField, LineUnits};
use super::{Invalid, Keyed};
use serde::Deserialize;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use std::fmt;
use stockhold_domain::{
    AdjustStock, Amend, ClosePayment, Command, Confirm, Extend, Fulfil, ItemKey, Merge, OpenPayment,
    OptionalTerms, Patch, Precondition, Release, ReservationId, Reserve, ReserveTerms, Return, SetStock,
    Split, Transfer,
};

/// Declares the commands in one table: the word of each, and its fields.
macro_rules! ops {
    ($($op:ident $word:literal [$($field:literal)+])+) => {
        /// What a command of a batch does.
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub(super) enum Op {
            $($op,)+
        }

        impl Op {
            const WORDS: &[&str] = &[$($word),+];

            /// How it is written.
            fn word(self) -> &'static str {
                match self { $(Self::$op => $word),+ }
            }

            fn from_word(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$op),)+ _ => None }
            }

            /// Its fields beside `op`.
            fn fields(self) -> &'static [&'static str] {
                match self { $(Self::$op => &[$($field),+]),+ }
            }
        }
    };
}

ops! {
    Reserve "reserve" [
        "owner_id" "lines" "sku" "location" "source" "quantity" "units" "adjacent" "sections" "min_together" "attributes"
        "ttl_seconds" "fulfilment" "hold_token" "override_limits" "auto_checkout" "channel" "pool" "customer_id" "session_id" "metadata" "idempotency_key"
    ]
    Confirm "confirm" ["reservation_id" "order_id" "payment_id" "if_expired" "override_limits" "idempotency_key"]
    Release "release" ["reservation_id" "reason" "idempotency_key"]
    Extend "extend" ["reservation_id" "ttl_seconds" "idempotency_key"]
    Amend "amend" [
        "reservation_id" "lines" "fulfilment" "ttl_seconds" "metadata" "override_limits" "if_version" "idempotency_key"
    ]
    Transfer "transfer" [
        "reservation_id" "owner_id" "customer_id" "session_id" "override_limits" "if_version" "idempotency_key"
    ]
    Split "split" ["reservation_id" "lines" "if_version" "idempotency_key"]
    Merge "merge" ["reservation_id" "from" "override_limits" "if_version" "idempotency_key"]
    OpenPayment "open_payment" ["reservation_id" "payment_id" "window_seconds" "if_version" "idempotency_key"]
    ClosePayment "close_payment" ["reservation_id" "payment_id" "reason" "idempotency_key"]
    Fulfil "fulfil" ["reservation_id" "lines" "units" "idempotency_key"]
    Return "return" ["reservation_id" "lines" "units" "from" "disposition" "reason" "idempotency_key"]
    SetStock "set_stock" [
        "sku" "location" "total_units" "on_hand" "fulfilled_units_seen" "mode" "safety_stock" "oversell_allowance"
        "gated" "sale_starts_at" "sale_ends_at" "incoming" "default_ttl_seconds" "max_hold_seconds" "max_payment_seconds" "price" "low_stock"
        "stock_master" "override" "metadata" "if_version"
    ]
    AdjustStock "adjust_stock" ["sku" "location" "delta" "reason" "supply_id" "override" "if_version" "idempotency_key"]
}

impl<'de> Deserialize<'de> for Op {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Value;
        impl Visitor<'_> for Value {
            type Value = Op;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let words: Vec<_> = Op::WORDS.iter().map(|word| format!("\"{word}\"")).collect();
                let (last, others) = words.split_last().ok_or(fmt::Error)?;
                write!(f, "{} or {last}", others.join(", "))
            }

            fn visit_str<E: Error>(self, word: &str) -> Result<Op, E> {
                let invalid = || E::invalid_value(serde::de::Unexpected::Str(word), &self);
                Op::from_word(word).ok_or_else(invalid)
            }
        }
        from.deserialize_str(Value)
    }
}

/// `from` of a merge is a list of reservations, and `from` of a return is a word.
enum From {
    Reservations(Vec<Id>),
    Sold(ReturnFromWord),
}

impl<'de> Deserialize<'de> for From {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Value;
        impl<'de> Visitor<'de> for Value {
            type Value = From;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "an array of reservation ids (merge), or \"unfulfilled\" or \"fulfilled\" (return)",
                )
            }

            fn visit_str<E: Error>(self, word: &str) -> Result<From, E> {
                let invalid = || E::invalid_value(serde::de::Unexpected::Str(word), &self);
                ReturnFromWord::of(word).map(From::Sold).ok_or_else(invalid)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, ids: A) -> Result<From, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(ids)).map(From::Reservations)
            }
        }
        from.deserialize_any(Value)
    }
}

/// Declares the body of a command. Each field is optional and has the name of its member.
macro_rules! command_body {
    ($($field:ident: $type:ty,)+ ; $($patch:ident: $patched:ty,)+) => {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(super) struct CommandBody<'a> {
            op: Op,
            #[serde(borrow, default, deserialize_with = "given")]
            idempotency_key: Option<Key<'a>>,
            #[serde(default, rename = "override", deserialize_with = "given")]
            override_owner: Option<Flag>,
            $(#[serde(default, deserialize_with = "given")] $field: Option<$type>,)+
            $(#[serde(default, deserialize_with = "setting")] $patch: Patch<$patched>,)+
        }

        impl CommandBody<'_> {
            /// The names of the members, and whether each is given.
            fn given(&self) -> impl Iterator<Item = (&'static str, bool)> {
                [
                    ("idempotency_key", self.idempotency_key.is_some()),
                    ("override", self.override_owner.is_some()),
                    $((stringify!($field), self.$field.is_some()),)+
                    $((stringify!($patch), !matches!(self.$patch, Patch::Keep)),)+
                ]
                .into_iter()
            }
        }
    };
}

command_body! {
    owner_id: Text,
    lines: Vec<JsonObject<LineBody>>,
    sku: Text,
    location: Text,
    source: JsonObject<SourceBody>,
    quantity: Quantity,
    units: Vec<Text>,
    adjacent: Flag,
    sections: Vec<Text>,
    min_together: Together,
    attributes: AttributesField,
    reservation_id: Id,
    ttl_seconds: Ttl,
    fulfilment: FulfilmentWord,
    hold_token: Flag,
    override_limits: Flag,
    auto_checkout: JsonObject<CheckoutBody<'a>>,
    channel: Text,
    pool: Text,
    order_id: Text,
    payment_id: Text,
    if_expired: IfExpiredWord,
    window_seconds: PaymentTtl,
    from: From,
    disposition: DispositionWord,
    reason: Text,
    if_version: Version,
    total_units: Stock,
    on_hand: Stock,
    fulfilled_units_seen: Stock,
    mode: ModeWord,
    safety_stock: Stock,
    oversell_allowance: Stock,
    delta: Delta,
    supply_id: Text,
    ;
    customer_id: Text,
    session_id: Text,
    metadata: Metadata,
    gated: Flag,
    default_ttl_seconds: Ttl,
    max_hold_seconds: Ttl,
    max_payment_seconds: PaymentTtl,
    sale_starts_at: Time,
    sale_ends_at: Time,
    incoming: Vec<JsonObject<SupplyBody>>,
    price: JsonObject<PriceBody>,
    low_stock: Stock,
    stock_master: Text,
}

impl CommandBody<'_> {
    fn take_wish(&mut self) -> LineUnits {
        LineUnits {
            quantity: self.quantity.take(),
            units: self.units.take(),
            adjacent: self.adjacent.take(),
            sections: self.sections.take(),
            min_together: self.min_together.take(),
            attributes: self.attributes.take(),
        }
    }

    fn reservation(&self) -> Result<ReservationId, Invalid> {
        self.reservation_id.as_ref().map(|id| id.0).ok_or_else(|| missing("/reservation_id"))
    }

    fn item(&self) -> Result<ItemKey, Invalid> {
        let sku = self.sku.as_ref().ok_or_else(|| missing("/sku"))?;
        Ok(super::key_at(self.location.as_ref().map(|text| &text.0), &sku.0))
    }

    fn expected(&self) -> Option<Precondition> {
        self.if_version.as_ref().map(|version| Precondition::version(version.0))
    }
}

/// The command of a body.
pub(super) fn command(mut body: CommandBody<'_>) -> Result<Keyed<'_>, Invalid> {
    let op = body.op;
    let stranger = body.given().find(|(name, given)| *given && !op.fields().contains(name));
    if let Some((name, _)) = stranger {
        let fields = op.fields().join("`, `");
        let detail = format!("is not a field of \"{}\"; the fields are `{fields}`", op.word());
        return Err(Invalid::new(format!("/{name}"), detail));
    }
    if op == Op::Reserve {
        return reserve(body);
    }
    let key = body.idempotency_key.take();
    let command = match op {
        Op::SetStock => set_stock(body)?,
        Op::AdjustStock => {
            let (item, expected) = (body.item()?, body.expected());
            let delta = required(body.delta, "/delta")?.0;
            let adjust = super::adjust_stock(item, expected, delta, body.reason, body.supply_id)?;
            let override_owner = super::is_set(body.override_owner);
            Command::AdjustStock(AdjustStock { override_owner, ..adjust })
        }
        _ => on_reservation(body)?,
    };
    Ok(super::keyed(command, key))
}

fn reserve(mut body: CommandBody<'_>) -> Result<Keyed<'_>, Invalid> {
    let wish = body.take_wish();
    let owner_id = required(body.owner_id, "/owner_id")?.0;
    let basket = match (body.lines, body.sku) {
        (Some(_), Some(_)) => {
            return Err(Invalid::new("/sku", "can't be combined with lines: send one of them"));
        }
        (None, None) => return Err(Invalid::new("/lines", "is required, or sku for a single line")),
        (Some(lines), None) => {
            let place = [("location", body.location.is_some()), ("source", body.source.is_some())];
            if let Some((name, _)) = place.into_iter().chain(wish.given()).find(|(_, given)| *given) {
                let detail = "belongs into the lines, since there are lines";
                return Err(Invalid::new(format!("/{name}"), detail));
            }
            source::basket(lines)?
        }
        (None, Some(sku)) => {
            let location = body.location.map(|text| text.0);
            let source = body.source.map(|JsonObject(source)| source);
            source::single(LineOrigin { sku: sku.0, location, source }, wish)?
        }
    };
    let terms = OptionalTerms {
        channel: body.channel.map(|text| text.0),
        pool: body.pool.map(|text| text.0),
        customer_id: not_null(body.customer_id, "/customer_id")?.map(|text| text.0),
        session_id: not_null(body.session_id, "/session_id")?.map(|text| text.0),
        metadata: not_null(body.metadata, "/metadata")?.map(|metadata| metadata.0),
    };
    let command = Command::Reserve(Reserve {
        override_limits: super::is_set(body.override_limits),
        basket,
        ttl: body.ttl_seconds.map(|ttl| ttl.0),
        fulfilment: body.fulfilment.unwrap_or_default().0,
        terms: ReserveTerms::new(owner_id, terms),
        checkout: super::checkout::auto_checkout(body.auto_checkout)?,
    });
    Ok(Keyed { hold_token: super::is_set(body.hold_token), ..super::keyed(command, body.idempotency_key) })
}

fn set_stock(body: CommandBody<'_>) -> Result<Command, Invalid> {
    Ok(Command::SetStock(SetStock {
        item: body.item()?,
        expected: body.expected(),
        shelf: super::shelf_count(body.on_hand, body.fulfilled_units_seen)?,
        total_units: body.total_units.map(|units| units.0),
        mode: body.mode.map(|mode| mode.0),
        safety_stock: body.safety_stock.map(|units| units.0),
        oversell_allowance: body.oversell_allowance.map(|units| units.0),
        gated: body.gated.map(|gated| gated.0),
        sale_starts_at: body.sale_starts_at.map(|time| time.0),
        sale_ends_at: body.sale_ends_at.map(|time| time.0),
        incoming: super::supplies(body.incoming)?,
        default_ttl: body.default_ttl_seconds.map(|ttl| ttl.0),
        max_hold: body.max_hold_seconds.map(|ttl| ttl.0),
        max_payment: body.max_payment_seconds.map(|ttl| ttl.0),
        price: super::prices::price(body.price)?,
        low_stock: body.low_stock.map(|units| units.0),
        stock_master: body.stock_master.map(|name| name.0),
        override_owner: super::is_set(body.override_owner),
        metadata: body.metadata.map(|metadata| metadata.0),
    }))
}

fn on_reservation(body: CommandBody<'_>) -> Result<Command, Invalid> {
    let (id, expected) = (body.reservation()?, body.expected());
    let payment_id = body.payment_id.map(|text| text.0);
    Ok(match body.op {
        Op::Reserve | Op::SetStock | Op::AdjustStock => unreachable!("a command on no reservation"),
        Op::Confirm => Command::Confirm(Confirm {
            override_limits: super::is_set(body.override_limits),
            id,
            order_id: body.order_id.map(|text| text.0),
            payment_id,
            if_expired: body.if_expired.unwrap_or_default().0,
        }),
        Op::Release => Command::Release(Release { id, reason: body.reason.map(|text| text.0) }),
        Op::Extend => Command::Extend(Extend { id, ttl: required(body.ttl_seconds, "/ttl_seconds")?.0 }),
        Op::Amend => Command::Amend(Amend {
            override_limits: super::is_set(body.override_limits),
            id,
            basket: body.lines.map(reservation::amended_lines).transpose()?,
            fulfilment: body.fulfilment.unwrap_or_default().0,
            ttl: body.ttl_seconds.map(|ttl| ttl.0),
            metadata: reservation::metadata(not_null(body.metadata, "/metadata")?),
            expected,
        }),
        Op::Transfer => Command::Transfer(Transfer {
            override_limits: super::is_set(body.override_limits),
            id,
            owner_id: body.owner_id.map(|text| text.0),
            customer_id: body.customer_id.map(|text| text.0),
            session_id: body.session_id.map(|text| text.0),
            expected,
        }),
        Op::Split => {
            let lines = reservation::lines_of(required(body.lines, "/lines")?, SaleLines::Split)?;
            Command::Split(Split { id, lines, expected })
        }
        Op::Merge => {
            let From::Reservations(from) = required(body.from, "/from")? else {
                return Err(Invalid::new("/from", "must be an array of reservation ids"));
            };
            Command::Merge(Merge {
                override_limits: super::is_set(body.override_limits),
                id,
                from: reservation::sources(&from)?,
                expected,
            })
        }
        Op::OpenPayment => Command::OpenPayment(OpenPayment {
            id,
            payment_id: required(payment_id, "/payment_id")?,
            window: body.window_seconds.map(|ttl| ttl.0),
            expected,
        }),
        Op::ClosePayment => {
            Command::ClosePayment(ClosePayment { id, payment_id, reason: body.reason.map(|text| text.0) })
        }
        Op::Fulfil => {
            let selection = reservation::selection(body.lines, body.units, SaleLines::Fulfil)?;
            Command::Fulfil(Fulfil { id, selection })
        }
        Op::Return => {
            let from = match body.from {
                None => None,
                Some(From::Sold(word)) => Some(word.0),
                Some(From::Reservations(_)) => {
                    return Err(Invalid::new("/from", "must be \"unfulfilled\" or \"fulfilled\""));
                }
            };
            Command::Return(Return {
                id,
                selection: reservation::selection(body.lines, body.units, SaleLines::Return)?,
                from,
                disposition: body.disposition.unwrap_or_default().0,
                reason: required(body.reason, "/reason")?.0,
            })
        }
    })
}

fn required<T>(field: Option<T>, pointer: &'static str) -> Result<T, Invalid> {
    field.ok_or_else(|| missing(pointer))
}

fn missing(pointer: &'static str) -> Invalid {
    Invalid::new(pointer, "is required")
}

/// The value of a member that only other commands clear with `null`.
fn not_null<T>(field: Patch<T>, pointer: &'static str) -> Result<Option<T>, Invalid> {
    match field {
        Patch::Keep => Ok(None),
        Patch::Set(value) => Ok(Some(value)),
        Patch::Clear => Err(Invalid::new(pointer, "can't be null: leave it out")),
    }
}
