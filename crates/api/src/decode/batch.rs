//! Batches: `POST /v1/commands` and `POST /v1/availability`.
//!
//! A batch is read at once, directly into commands. If that fails, it is read again command by command. An error
//! inside one command then concerns only that command, and any other error concerns the whole batch.

use super::body::{self, LineBody};
use super::field::FulfilmentWord;
use super::field::{
    Delta, Flag, Id, JsonObject, Key, ModeWord, Op, Quantity, Stock, Text, Together, Ttl, given, setting,
};
use super::terms::{self, body_with_terms};
use super::units::{AttributesField, LineUnits};
use super::{DEFAULT_LOCATION, Invalid, Keyed, basket, both, path, single};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;
use std::marker::PhantomData;
use stockhold_domain::{
    AdjustStock, Command, Confirm, Extend, ItemKey, OptionalTerms, Patch, Release, Reserve, ReserveTerms,
    SetStock,
};

/// Longest body of `POST /v1/commands` in bytes.
pub const COMMANDS_BODY_BYTES: usize = 8 * 1024 * 1024;
/// Most commands in one `POST /v1/commands`.
pub const COMMANDS: usize = 8_192;
/// Most items in one `POST /v1/availability`.
pub const ITEMS: usize = 1_000;

/// `POST /v1/commands`: each command on its own, in order.
pub fn commands<'a>(query: Option<&str>, body: &'a [u8]) -> Result<Vec<Result<Keyed<'a>, Invalid>>, Invalid> {
    let ((), found) = both(path::no_query(query), read(body))?;
    let Many { all, found } = found;
    match found {
        1..=COMMANDS => Ok(all),
        _ => Err(count("/commands", "commands", COMMANDS, found)),
    }
}

/// `POST /v1/availability`
pub fn availability(query: Option<&str>, body: &[u8]) -> Result<Vec<ItemKey>, Invalid> {
    let ((), body) = both(path::no_query(query), body::read::<ItemsBody>(body))?;
    let Many { all, found } = body.items;
    match found {
        1..=ITEMS => Ok(all),
        _ => Err(count("/items", "items", ITEMS, found)),
    }
}

fn count(pointer: &str, what: &str, most: usize, found: usize) -> Invalid {
    let grouped = |number: usize| crate::problem::grouped(number as u64);
    let found = if found == 0 { "none".to_owned() } else { grouped(found) };
    Invalid::new(pointer, format!("must have 1 to {} {what}, found {found}", grouped(most)))
}

fn read(body: &[u8]) -> Result<Many<Result<Keyed<'_>, Invalid>>, Invalid> {
    if let Ok(JsonObject(BatchBody { commands })) =
        serde_json::from_slice::<JsonObject<BatchBody<Ready<'_>>>>(body)
    {
        return Ok(Many {
            all: commands.all.into_iter().map(|ready| ready.0).collect(),
            found: commands.found,
        });
    }
    let Many { all, found } = body::read::<BatchBody<&RawValue>>(body)?.commands;
    let each = all.into_iter().map(|raw| command(body::read(raw.get().as_bytes())?));
    Ok(Many { all: each.collect(), found })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "C: Bounded<'de>"))]
struct BatchBody<C> {
    commands: Many<C>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ItemsBody {
    items: Many<ItemKey>,
}

/// The first elements of a list, at most the limit, and the number of all elements.
struct Many<T> {
    all: Vec<T>,
    found: usize,
}

/// The elements of a [`Many`].
trait Bounded<'de>: Sized {
    /// What it is read from.
    type From: Deserialize<'de>;
    /// The limit.
    const MOST: usize;

    fn made(from: Self::From) -> Self;
}

/// A command whose fields were read one by one. Errors of their combination are found later.
struct Ready<'a>(Result<Keyed<'a>, Invalid>);

impl<'de: 'a, 'a> Bounded<'de> for Ready<'a> {
    type From = JsonObject<CommandBody<'a>>;
    const MOST: usize = COMMANDS;

    fn made(JsonObject(body): Self::From) -> Self {
        Self(command(body))
    }
}

impl<'de: 'a, 'a> Bounded<'de> for &'a RawValue {
    type From = &'a RawValue;
    const MOST: usize = COMMANDS;

    fn made(raw: Self::From) -> Self {
        raw
    }
}

impl Bounded<'_> for ItemKey {
    type From = JsonObject<ItemBody>;
    const MOST: usize = ITEMS;

    fn made(JsonObject(body): Self::From) -> Self {
        Self::new(body.location.as_ref().map_or(&*DEFAULT_LOCATION, |text| &text.0), &body.sku.0)
    }
}

impl<'de, T: Bounded<'de>> Deserialize<'de> for Many<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Elements<T>(PhantomData<T>);
        impl<'de, T: Bounded<'de>> Visitor<'de> for Elements<T> {
            type Value = Many<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Many<T>, A::Error> {
                let mut all = Vec::new();
                while all.len() < T::MOST {
                    let Some(element) = elements.next_element()? else {
                        return Ok(Many { found: all.len(), all });
                    };
                    all.push(T::made(element));
                }
                let mut found = all.len();
                while elements.next_element::<IgnoredAny>()?.is_some() {
                    found += 1;
                }
                Ok(Many { all, found })
            }
        }
        from.deserialize_seq(Elements(PhantomData))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ItemBody {
    sku: Text,
    #[serde(default, deserialize_with = "given")]
    location: Option<Text>,
}

// The fields of all commands. `op` decides which of them a command may have.
body_with_terms! {
struct CommandBody<'a> {
    op: Op,
    #[serde(default, deserialize_with = "given")]
    owner_id: Option<Text>,
    #[serde(default, deserialize_with = "given")]
    lines: Option<Vec<JsonObject<LineBody>>>,
    #[serde(default, deserialize_with = "given")]
    sku: Option<Text>,
    #[serde(default, deserialize_with = "given")]
    location: Option<Text>,
    #[serde(default, deserialize_with = "given")]
    quantity: Option<Quantity>,
    #[serde(default, deserialize_with = "given")]
    reservation_id: Option<Id>,
    #[serde(default, deserialize_with = "given")]
    ttl_seconds: Option<Ttl>,
    #[serde(borrow, default, deserialize_with = "given")]
    idempotency_key: Option<Key<'a>>,
    #[serde(default, deserialize_with = "given")]
    fulfilment: Option<FulfilmentWord>,
    #[serde(default, deserialize_with = "given")]
    hold_token: Option<Flag>,
    #[serde(default, deserialize_with = "given")]
    units: Option<Vec<Text>>,
    #[serde(default, deserialize_with = "given")]
    adjacent: Option<Flag>,
    #[serde(default, deserialize_with = "given")]
    sections: Option<Vec<Text>>,
    #[serde(default, deserialize_with = "given")]
    min_together: Option<Together>,
    #[serde(default, deserialize_with = "given")]
    attributes: Option<AttributesField>,
    #[serde(default, deserialize_with = "given")]
    order_id: Option<Text>,
    #[serde(default, deserialize_with = "given")]
    reason: Option<Text>,
    #[serde(default, deserialize_with = "given")]
    total_units: Option<Stock>,
    #[serde(default, deserialize_with = "given")]
    mode: Option<ModeWord>,
    #[serde(default, deserialize_with = "given")]
    safety_stock: Option<Stock>,
    #[serde(default, deserialize_with = "setting")]
    default_ttl_seconds: Patch<Ttl>,
    #[serde(default, deserialize_with = "setting")]
    max_hold_seconds: Patch<Ttl>,
    #[serde(default, deserialize_with = "given")]
    delta: Option<Delta>,
}
}

impl CommandBody<'_> {
    /// What it says of units, which it says no longer.
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
}

fn command(mut body: CommandBody<'_>) -> Result<Keyed<'_>, Invalid> {
    let op = body.op;
    let wish = body.take_wish();
    let is_reserve = op == Op::Reserve;
    let names_item = matches!(op, Op::Reserve | Op::SetStock | Op::AdjustStock);
    let sets_stock = op == Op::SetStock;
    let terms = body.take_terms();
    let selection = wish.given().map(|(name, given)| (name, given, is_reserve));
    // Each field, whether it was given, and whether this command has it.
    let fields = [
        ("owner_id", body.owner_id.is_some(), is_reserve),
        ("lines", body.lines.is_some(), is_reserve),
        ("sku", body.sku.is_some(), names_item),
        ("location", body.location.is_some(), names_item),
    ];
    let terms_given = terms::present(&terms)
        .map(|(name, given)| (name, given, is_reserve || (sets_stock && name == "metadata")));
    let fields = fields.into_iter().chain(selection).chain(terms_given).chain([
        ("fulfilment", body.fulfilment.is_some(), is_reserve),
        ("hold_token", body.hold_token.is_some(), is_reserve),
        ("reservation_id", body.reservation_id.is_some(), !names_item),
        ("ttl_seconds", body.ttl_seconds.is_some(), matches!(op, Op::Reserve | Op::Extend)),
        ("order_id", body.order_id.is_some(), op == Op::Confirm),
        ("reason", body.reason.is_some(), matches!(op, Op::Release | Op::AdjustStock)),
        ("total_units", body.total_units.is_some(), sets_stock),
        ("mode", body.mode.is_some(), sets_stock),
        ("safety_stock", body.safety_stock.is_some(), sets_stock),
        ("default_ttl_seconds", is_given(&body.default_ttl_seconds), sets_stock),
        ("max_hold_seconds", is_given(&body.max_hold_seconds), sets_stock),
        ("delta", body.delta.is_some(), op == Op::AdjustStock),
        ("idempotency_key", body.idempotency_key.is_some(), !sets_stock),
    ]);
    let stranger =
        fields.map(|(name, given, has)| (name, given && !has)).find(|(_, is_stranger)| *is_stranger);
    if let Some((name, _)) = stranger {
        let (word, fields) = (op.word(), op.fields());
        return Err(Invalid::new(
            format!("/{name}"),
            format!("is not a field of \"{word}\"; the fields are {fields}"),
        ));
    }
    let command = match op {
        Op::Reserve => return reserve(body, wish, terms),
        Op::Confirm => {
            let order_id = body.order_id.map(|text| text.0);
            Command::Confirm(Confirm { id: required(body.reservation_id, "/reservation_id")?.0, order_id })
        }
        Op::Release => {
            let reason = body.reason.map(|text| text.0);
            Command::Release(Release { id: required(body.reservation_id, "/reservation_id")?.0, reason })
        }
        Op::Extend => {
            let id = required(body.reservation_id, "/reservation_id")?.0;
            Command::Extend(Extend { id, ttl: required(body.ttl_seconds, "/ttl_seconds")?.0 })
        }
        Op::SetStock => Command::SetStock(SetStock {
            item: item(body.sku, body.location.as_ref())?,
            total_units: body.total_units.map(|units| units.0),
            mode: body.mode.map(|mode| mode.0),
            safety_stock: body.safety_stock.map(|units| units.0),
            default_ttl: body.default_ttl_seconds.map(|ttl| ttl.0),
            max_hold: body.max_hold_seconds.map(|ttl| ttl.0),
            // `null` is refused here: only the single route clears the metadata of an item.
            metadata: terms.metadata.map_or(Patch::Keep, Patch::Set),
            expected: None,
        }),
        Op::AdjustStock => Command::AdjustStock(AdjustStock {
            item: item(body.sku, body.location.as_ref())?,
            delta: required(body.delta, "/delta")?.0,
            reason: required(body.reason, "/reason")?.0,
            expected: None,
        }),
    };
    Ok(super::keyed(command, body.idempotency_key))
}

fn is_given<T>(field: &Patch<T>) -> bool {
    !matches!(field, Patch::Keep)
}

fn item(sku: Option<Text>, location: Option<&Text>) -> Result<ItemKey, Invalid> {
    Ok(super::key_at(location.map(|text| &text.0), &required(sku, "/sku")?.0))
}

fn reserve(body: CommandBody<'_>, wish: LineUnits, terms: OptionalTerms) -> Result<Keyed<'_>, Invalid> {
    let owner_id = required(body.owner_id, "/owner_id")?.0;
    let basket = match (body.lines, body.sku) {
        (Some(_), Some(_)) => {
            return Err(Invalid::new("/sku", "can't be combined with lines: send one of them"));
        }
        (None, None) => return Err(Invalid::new("/lines", "is required, or sku for a single line")),
        (Some(lines), None) => {
            let location = [("location", body.location.is_some())];
            if let Some((name, _)) = location.into_iter().chain(wish.given()).find(|(_, given)| *given) {
                let detail = "belongs into the lines, since there are lines";
                return Err(Invalid::new(format!("/{name}"), detail));
            }
            basket(lines)?
        }
        (None, Some(sku)) => single(super::key_at(body.location.as_ref().map(|text| &text.0), &sku.0), wish)?,
    };
    let command = Command::Reserve(Reserve {
        basket,
        ttl: body.ttl_seconds.map(|ttl| ttl.0),
        fulfilment: body.fulfilment.unwrap_or_default().0,
        terms: ReserveTerms::new(owner_id, terms),
    });
    Ok(Keyed { hold_token: super::is_set(body.hold_token), ..super::keyed(command, body.idempotency_key) })
}

fn required<T>(field: Option<T>, pointer: &'static str) -> Result<T, Invalid> {
    field.ok_or_else(|| Invalid::new(pointer, "is required"))
}
