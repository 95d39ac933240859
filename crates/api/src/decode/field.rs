//! Types of fields. Each reads one JSON value, checks it, and describes what would be right.
//!
//! An expectation must not contain `, expected `, because [`super::explain`] splits the parser's messages there.

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Unexpected, Visitor};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use stockhold_domain::{
    CaptureMethod, Currency, Disposition, Fulfilment, IfExpired, Instant, Label, Mode, OnDecline, Patch,
    ProviderRef, ReservationId, ReturnFrom, Seconds, Strategy,
};

/// The highest version that a request may name: numbers up to it are exact in every JSON reader. An item's version is about the time in
/// microseconds, which is less for centuries.
pub(crate) const MAX_VERSION: u64 = (1 << 53) - 1;

/// A given field. `null` does not count as left out.
pub(super) fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

/// A setting of an item. `null` clears it.
pub(super) fn setting<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Patch<T>, D::Error> {
    Ok(Option::deserialize(from)?.map_or(Patch::Clear, Patch::Set))
}

/// A JSON object. (Derived structs read arrays too, by position.)
pub(super) struct JsonObject<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for JsonObject<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Members<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Members<T> {
            type Value = JsonObject<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<JsonObject<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(JsonObject)
            }
        }
        from.deserialize_map(Members(PhantomData))
    }
}

/// Declares a type that reads one JSON value: its expectation and the visits it accepts.
macro_rules! field {
    ($(#[$doc:meta])* $name:ident($inner:ty), $method:ident, $expects:literal, $($visit:item)+) => {
        $(#[$doc])*
        pub(crate) struct $name(pub(crate) $inner);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                struct Value;
                impl Visitor<'_> for Value {
                    type Value = $name;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($expects)
                    }

                    $($visit)+
                }
                from.$method(Value)
            }
        }
    };
}

field! {
    /// A label: a SKU, a location, an owner, …
    Text(Label), deserialize_str, "a string of 1 to 128 bytes without control characters",
    fn visit_str<E: Error>(self, text: &str) -> Result<Text, E> {
        Label::new(text).map(Text).map_err(E::custom)
    }
}

field! {
    /// Requested units. The rules check the upper limit.
    Quantity(u64), deserialize_u64, "a whole number from 1 to 1,000,000",
    fn visit_u64<E: Error>(self, number: u64) -> Result<Quantity, E> {
        if number == 0 {
            return Err(E::invalid_value(Unexpected::Unsigned(number), &self));
        }
        Ok(Quantity(number))
    }
    fn visit_f64<E: Error>(self, number: f64) -> Result<Quantity, E> {
        Err(E::invalid_type(Unexpected::Float(number), &self))
    }
}

field! {
    /// Units that exist or are kept back.
    Stock(u64), deserialize_u64, "a whole number from 0 to 1,000,000,000,000",
    fn visit_u64<E: Error>(self, number: u64) -> Result<Stock, E> {
        if number > stockhold_domain::limits::TOTAL_UNITS {
            return Err(E::invalid_value(Unexpected::Unsigned(number), &self));
        }
        Ok(Stock(number))
    }
}

field! {
    /// Units that a delivery brings.
    SupplyQuantity(u64), deserialize_u64, "a whole number from 1 to 1,000,000,000,000",
    fn visit_u64<E: Error>(self, number: u64) -> Result<SupplyQuantity, E> {
        if !(1..=stockhold_domain::limits::TOTAL_UNITS).contains(&number) {
            return Err(E::invalid_value(Unexpected::Unsigned(number), &self));
        }
        Ok(SupplyQuantity(number))
    }
}

field! {
    /// Amount of one unit, in the smallest unit of its currency.
    UnitAmount(u64), deserialize_u64, "a whole number from 0 to 1,000,000,000,000",
    fn visit_u64<E: Error>(self, number: u64) -> Result<UnitAmount, E> {
        if number > stockhold_domain::limits::UNIT_AMOUNT {
            return Err(E::invalid_value(Unexpected::Unsigned(number), &self));
        }
        Ok(UnitAmount(number))
    }
}

field! {
    /// What a discount takes off one unit.
    AmountOff(u64), deserialize_u64, "a whole number from 1 to 1,000,000,000,000",
    fn visit_u64<E: Error>(self, number: u64) -> Result<AmountOff, E> {
        if !(1..=stockhold_domain::limits::UNIT_AMOUNT).contains(&number) {
            return Err(E::invalid_value(Unexpected::Unsigned(number), &self));
        }
        Ok(AmountOff(number))
    }
}

field! {
    /// What a discount takes off a line, in hundredths.
    Percent(u8), deserialize_u64, "a whole number from 1 to 100",
    fn visit_u64<E: Error>(self, number: u64) -> Result<Percent, E> {
        match u8::try_from(number) {
            Ok(percent @ 1..=100) => Ok(Percent(percent)),
            _ => Err(E::invalid_value(Unexpected::Unsigned(number), &self)),
        }
    }
}

field! {
    /// A currency.
    CurrencyCode(Currency), deserialize_str, "the three letters of a currency, such as usd",
    fn visit_str<E: Error>(self, text: &str) -> Result<CurrencyCode, E> {
        Currency::new(text).map(CurrencyCode).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }
}

field! {
    /// Units that arrived or left.
    Delta(i64), deserialize_i64, "a whole number of at most 64 bits other than 0, negative for units that left",
    fn visit_i64<E: Error>(self, number: i64) -> Result<Delta, E> {
        if number == 0 {
            return Err(E::invalid_value(Unexpected::Signed(number), &self));
        }
        Ok(Delta(number))
    }
    fn visit_u64<E: Error>(self, number: u64) -> Result<Delta, E> {
        match i64::try_from(number) {
            Ok(signed) => self.visit_i64(signed),
            Err(_) => Err(E::invalid_value(Unexpected::Unsigned(number), &self)),
        }
    }
}

field! {
    /// A time to live or a longest hold.
    Ttl(Seconds), deserialize_u64, "a whole number of seconds from 1 to 2,592,000",
    fn visit_u64<E: Error>(self, number: u64) -> Result<Ttl, E> {
        Seconds::new(number).map(Ttl).map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))
    }
}

field! {
    /// The length of a payment window, or the longest one.
    PaymentTtl(Seconds), deserialize_u64, "a whole number of seconds from 1 to 604,800",
    fn visit_u64<E: Error>(self, number: u64) -> Result<PaymentTtl, E> {
        let most = u64::from(stockhold_domain::limits::PAYMENT_CEILING_SECONDS);
        let seconds = Seconds::new(number).ok().filter(|_| number <= most);
        seconds.map(PaymentTtl).ok_or_else(|| E::invalid_value(Unexpected::Unsigned(number), &self))
    }
}

field! {
    /// Yes or no.
    Flag(bool), deserialize_bool, "true or false",
    fn visit_bool<E: Error>(self, yes: bool) -> Result<Flag, E> {
        Ok(Flag(yes))
    }
}

field! {
    /// A unit's position in the order of claims.
    Position(u64), deserialize_u64, "a whole number from 0 to 9,007,199,254,740,991",
    fn visit_u64<E: Error>(self, number: u64) -> Result<Position, E> {
        if number > stockhold_domain::limits::POSITION {
            return Err(E::invalid_value(Unexpected::Unsigned(number), &self));
        }
        Ok(Position(number))
    }
}

field! {
    /// Smallest group of adjacent units.
    Together(u32), deserialize_u64, "a whole number from 1 to 10,000",
    fn visit_u64<E: Error>(self, number: u64) -> Result<Together, E> {
        let within = u32::try_from(number).ok().filter(|_| (1..=stockhold_domain::limits::LINE_UNITS).contains(&number));
        within.map(Together).ok_or_else(|| E::invalid_value(Unexpected::Unsigned(number), &self))
    }
}

field! {
    /// The mode of an item.
    ModeWord(Mode), deserialize_str, "\"counted\" or \"units\"",
    fn visit_str<E: Error>(self, word: &str) -> Result<ModeWord, E> {
        match word {
            "counted" => Ok(ModeWord(Mode::Counted)),
            "units" => Ok(ModeWord(Mode::Units)),
            _ => Err(E::invalid_value(Unexpected::Str(word), &self)),
        }
    }
}

field! {
    /// What happens to a line for which too little is available.
    #[derive(Default)]
    FulfilmentWord(Fulfilment), deserialize_str, "\"all\" or \"partial\"",
    fn visit_str<E: Error>(self, word: &str) -> Result<FulfilmentWord, E> {
        match word {
            "all" => Ok(FulfilmentWord(Fulfilment::All)),
            "partial" => Ok(FulfilmentWord(Fulfilment::Partial)),
            _ => Err(E::invalid_value(Unexpected::Str(word), &self)),
        }
    }
}

field! {
    /// Which location of a source gives first.
    #[derive(Default)]
    StrategyWord(Strategy), deserialize_str, "\"priority\", \"most_stock\" or \"single\"",
    fn visit_str<E: Error>(self, word: &str) -> Result<StrategyWord, E> {
        match word {
            "priority" => Ok(StrategyWord(Strategy::Priority)),
            "most_stock" => Ok(StrategyWord(Strategy::MostStock)),
            "single" => Ok(StrategyWord(Strategy::Single)),
            _ => Err(E::invalid_value(Unexpected::Str(word), &self)),
        }
    }
}

field! {
    /// An instant, in any offset from UTC. Fractions of a microsecond are cut.
    Time(Instant), deserialize_str, "a time like 2027-01-31T12:00:00Z (RFC 3339), from 1970 on",
    fn visit_str<E: Error>(self, text: &str) -> Result<Time, E> {
        let micros = text.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_microsecond);
        micros
            .filter(|micros| *micros >= 0)
            .map(|micros| Time(Instant::from_micros(micros)))
            .ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }
}

field! {
    /// What a confirm does when the reservation has expired.
    #[derive(Default)]
    IfExpiredWord(IfExpired), deserialize_str, "\"refuse\" or \"reacquire\"",
    fn visit_str<E: Error>(self, word: &str) -> Result<IfExpiredWord, E> {
        match word {
            "refuse" => Ok(IfExpiredWord(IfExpired::Refuse)),
            "reacquire" => Ok(IfExpiredWord(IfExpired::Reacquire)),
            _ => Err(E::invalid_value(Unexpected::Str(word), &self)),
        }
    }
}

field! {
    /// The sold units that a return takes.
    ReturnFromWord(ReturnFrom), deserialize_str, "\"unfulfilled\" or \"fulfilled\"",
    fn visit_str<E: Error>(self, word: &str) -> Result<ReturnFromWord, E> {
        ReturnFromWord::of(word).ok_or_else(|| E::invalid_value(Unexpected::Str(word), &self))
    }
}

impl ReturnFromWord {
    /// By its word.
    pub(super) fn of(word: &str) -> Option<Self> {
        match word {
            "unfulfilled" => Some(Self(ReturnFrom::Unfulfilled)),
            "fulfilled" => Some(Self(ReturnFrom::Fulfilled)),
            _ => None,
        }
    }
}

field! {
    /// What becomes of returned units.
    #[derive(Default)]
    DispositionWord(Disposition), deserialize_str, "\"restock\" or \"write_off\"",
    fn visit_str<E: Error>(self, word: &str) -> Result<DispositionWord, E> {
        match word {
            "restock" => Ok(DispositionWord(Disposition::Restock)),
            "write_off" => Ok(DispositionWord(Disposition::WriteOff)),
            _ => Err(E::invalid_value(Unexpected::Str(word), &self)),
        }
    }
}

field! {
    /// A sum of money in the smallest unit of its currency.
    MoneyAmount(u64), deserialize_u64, "a whole number from 0 to 9,007,199,254,740,991",
    fn visit_u64<E: Error>(self, number: u64) -> Result<MoneyAmount, E> {
        if number > stockhold_domain::limits::AMOUNT {
            return Err(E::invalid_value(Unexpected::Unsigned(number), &self));
        }
        Ok(MoneyAmount(number))
    }
}

field! {
    /// The name that a payment provider gave to something.
    ProviderName(ProviderRef), deserialize_str, "a string of 1 to 255 visible ASCII characters",
    fn visit_str<E: Error>(self, text: &str) -> Result<ProviderName, E> {
        ProviderRef::new(text).map(ProviderName).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }
}

field! {
    /// When the provider moves the money.
    #[derive(Default)]
    CaptureWord(CaptureMethod), deserialize_str, "\"after_confirm\" or \"charge_then_confirm\"",
    fn visit_str<E: Error>(self, word: &str) -> Result<CaptureWord, E> {
        match word {
            "after_confirm" => Ok(CaptureWord(CaptureMethod::AfterConfirm)),
            "charge_then_confirm" => Ok(CaptureWord(CaptureMethod::ChargeThenConfirm)),
            _ => Err(E::invalid_value(Unexpected::Str(word), &self)),
        }
    }
}

field! {
    /// What becomes of the hold when the payment is declined.
    #[derive(Default)]
    OnDeclineWord(OnDecline), deserialize_str, "\"release\" or \"keep\"",
    fn visit_str<E: Error>(self, word: &str) -> Result<OnDeclineWord, E> {
        match word {
            "release" => Ok(OnDeclineWord(OnDecline::Release)),
            "keep" => Ok(OnDeclineWord(OnDecline::Keep)),
            _ => Err(E::invalid_value(Unexpected::Str(word), &self)),
        }
    }
}

field! {
    /// The version that an item or a reservation must have.
    Version(u64), deserialize_u64, "the version as it was read, a whole number from 1 to 9,007,199,254,740,991",
    fn visit_u64<E: Error>(self, number: u64) -> Result<Version, E> {
        if (1..=MAX_VERSION).contains(&number) {
            return Ok(Version(number));
        }
        Err(E::invalid_value(Unexpected::Unsigned(number), &self))
    }
}

field! {
    /// A reservation's id.
    Id(ReservationId), deserialize_str, "a UUID like 018bcfe5-6800-7fff-bfff-ffffffffffff",
    fn visit_str<E: Error>(self, text: &str) -> Result<Id, E> {
        text.parse().map(Id).map_err(|_| E::invalid_value(Unexpected::Str(text), &self))
    }
}

// The texts above contain limits. These assertions keep them correct.
const _: () = assert!(stockhold_domain::limits::LABEL_BYTES == 128);
const _: () = assert!(stockhold_domain::limits::LINE_QUANTITY == 1_000_000);
const _: () = assert!(stockhold_domain::limits::TOTAL_UNITS == 1_000_000_000_000);
const _: () = assert!(stockhold_domain::limits::POSITION == 9_007_199_254_740_991);
const _: () = assert!(stockhold_domain::limits::LINE_UNITS == 10_000);
const _: () = assert!(stockhold_domain::limits::TTL_MIN_SECONDS == 1);
const _: () = assert!(stockhold_domain::limits::TTL_CEILING_SECONDS == 2_592_000);
const _: () = assert!(stockhold_domain::limits::PAYMENT_CEILING_SECONDS == 604_800);

/// An idempotency key. It is checked together with the header's.
pub(super) struct Key<'a>(pub(super) Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Key<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Value;
        impl<'de> Visitor<'de> for Value {
            type Value = Key<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string of 1 to 255 bytes without control characters")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Key<'de>, E> {
                super::header::check_key(text).map_err(E::custom)?;
                Ok(Key(Cow::Borrowed(text)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Key<'de>, E> {
                super::header::check_key(text).map_err(E::custom)?;
                Ok(Key(Cow::Owned(text.to_owned())))
            }
        }
        from.deserialize_str(Value)
    }
}
