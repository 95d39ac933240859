//! Batches: `POST /v1/commands` and `POST /v1/availability`.
//!
//! A batch is read at once, directly into commands. If that fails, it is read again command by command. An error
//! inside one command then concerns only that command, and any other error concerns the whole batch.

use super::body;
use super::command::{CommandBody, command};
use super::field::{JsonObject, Text, given};
use super::{DEFAULT_LOCATION, Invalid, Keyed, both, path, source};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::collections::HashSet;
use std::fmt;
use std::marker::PhantomData;
use stockhold_domain::{ItemKey, Label};

/// Longest body of `POST /v1/commands` in bytes.
pub const COMMANDS_BODY_BYTES: usize = 8 * 1024 * 1024;
/// Most commands in one `POST /v1/commands`.
pub const COMMANDS: usize = 8_192;
/// Most items in one `POST /v1/availability`.
pub const ITEMS: usize = 1_000;
/// Most locations of one SKU in one `POST /v1/availability`.
pub const LOCATIONS: usize = 1_000;

/// `POST /v1/commands`: each command on its own, in order.
pub fn commands<'a>(query: Option<&str>, body: &'a [u8]) -> Result<Vec<Result<Keyed<'a>, Invalid>>, Invalid> {
    let ((), found) = both(path::no_query(query), read(body))?;
    let Many { all, found } = found;
    match found {
        1..=COMMANDS => Ok(all),
        _ => Err(count("/commands", "commands", COMMANDS, found)),
    }
}

/// What `POST /v1/availability` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AvailabilityQuery {
    /// Each of these items.
    Items(Vec<ItemKey>),
    /// A SKU at several locations, and all of them together.
    Locations {
        /// The SKU.
        sku: Label,
        /// It at each location, each once.
        items: Vec<ItemKey>,
    },
}

impl AvailabilityQuery {
    /// The items, in the order of the request.
    pub fn items(&self) -> &[ItemKey] {
        match self {
            Self::Items(items) | Self::Locations { items, .. } => items,
        }
    }
}

/// `POST /v1/availability`
pub fn availability(query: Option<&str>, body: &[u8]) -> Result<AvailabilityQuery, Invalid> {
    let ((), body) = both(path::no_query(query), body::read::<AvailabilityBody>(body))?;
    match body {
        AvailabilityBody { items: Some(_), sku: Some(_), .. } => {
            Err(Invalid::new("/sku", "can't be combined with items: send one of them"))
        }
        AvailabilityBody { items: Some(_), locations: Some(_), .. } => {
            Err(Invalid::new("/locations", "can't be combined with items: send one of them"))
        }
        AvailabilityBody { items: Some(Many { all, found }), .. } => match found {
            1..=ITEMS => Ok(AvailabilityQuery::Items(all)),
            _ => Err(count("/items", "items", ITEMS, found)),
        },
        AvailabilityBody { sku: Some(sku), locations: Some(Many { all, found }), .. } => match found {
            1..=LOCATIONS => at_locations(sku.0, &all),
            _ => Err(count("/locations", "locations", LOCATIONS, found)),
        },
        AvailabilityBody { sku: Some(_), .. } => Err(Invalid::new("/locations", "is required with sku")),
        AvailabilityBody { locations: Some(_), .. } => {
            Err(Invalid::new("/sku", "is required with locations"))
        }
        AvailabilityBody { .. } => Err(Invalid::new("/items", "is required, or sku and locations")),
    }
}

fn at_locations(sku: Label, locations: &[Label]) -> Result<AvailabilityQuery, Invalid> {
    let mut seen = HashSet::with_capacity(locations.len());
    match locations.iter().position(|location| !seen.insert(location)) {
        Some(number) => Err(source::twice(locations, number, "/locations")),
        None => {
            let items = locations.iter().map(|location| ItemKey::new(location, &sku)).collect();
            Ok(AvailabilityQuery::Locations { sku, items })
        }
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
struct AvailabilityBody {
    #[serde(default, deserialize_with = "given")]
    items: Option<Many<ItemKey>>,
    #[serde(default, deserialize_with = "given")]
    sku: Option<Text>,
    #[serde(default, deserialize_with = "given")]
    locations: Option<Many<Label>>,
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

impl Bounded<'_> for Label {
    type From = Text;
    const MOST: usize = LOCATIONS;

    fn made(text: Self::From) -> Self {
        text.0
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
