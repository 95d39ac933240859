//! The source of a requested line: the locations that may give its units.

use super::body::LineBody;
use super::explain::clip;
use super::field::{JsonObject, StrategyWord, Text, given};
use super::units::{self, LineUnits};
use super::{Invalid, basket_error, key_at};
use serde::Deserialize;
use stockhold_domain::limits::SOURCE_LOCATIONS;
use stockhold_domain::{Basket, BasketLine, Label, RequestedLine, Source, SourceError};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SourceBody {
    locations: Vec<Text>,
    #[serde(default, deserialize_with = "given")]
    strategy: Option<StrategyWord>,
}

/// Where the units of a line come from: one location, or a source.
pub(super) struct LineOrigin {
    pub(super) sku: Label,
    pub(super) location: Option<Label>,
    pub(super) source: Option<SourceBody>,
}

/// The lines of a reserve.
pub(super) fn basket(lines: Vec<JsonObject<LineBody>>) -> Result<Basket, Invalid> {
    let mut all = Vec::with_capacity(lines.len());
    for (number, JsonObject(body)) in lines.into_iter().enumerate() {
        let LineBody { sku, location, source, quantity, units, adjacent, sections, min_together, attributes } =
            body;
        let location = location.map(|text| text.0);
        let place = LineOrigin { sku: sku.0, location, source: source.map(|JsonObject(source)| source) };
        let wish = LineUnits { quantity, units, adjacent, sections, min_together, attributes };
        all.push(line(place, wish, || format!("/lines/{number}"))?);
    }
    Basket::with_sources(all).map_err(|error| basket_error(error, "/lines"))
}

/// The basket of a reserve of one line.
pub(super) fn single(place: LineOrigin, wish: LineUnits) -> Result<Basket, Invalid> {
    let line = line(place, wish, String::new)?;
    Basket::with_sources(vec![line]).map_err(|error| basket_error(error, "/quantity"))
}

/// `prefix` makes the pointer of the line's object.
fn line(place: LineOrigin, wish: LineUnits, prefix: impl Fn() -> String) -> Result<BasketLine, Invalid> {
    let LineOrigin { sku, location, source } = place;
    let Some(source) = source else {
        let (quantity, selection) = if wish.is_plain() {
            (wish.quantity.map_or(1, |quantity| quantity.0), None)
        } else {
            units::wish(wish, &prefix())?
        };
        let item = key_at(location.as_ref(), &sku);
        return Ok(BasketLine { line: RequestedLine { item, quantity }, selection, source: None });
    };
    let prefix = prefix();
    if location.is_some() {
        let detail = "can't be combined with location: send one of them";
        return Err(Invalid::new(format!("{prefix}/source"), detail));
    }
    if let Some((name, _)) = wish.given().find(|(name, given)| *given && *name != "quantity") {
        let detail = "can't be combined with source: only counted stock is taken from several locations";
        return Err(Invalid::new(format!("{prefix}/{name}"), detail));
    }
    let locations: Vec<Label> = source.locations.into_iter().map(|text| text.0).collect();
    let strategy = source.strategy.unwrap_or_default().0;
    let source = Source::new(&sku, &locations, strategy)
        .map_err(|error| source_error(error, &locations, &format!("{prefix}/source/locations")))?;
    let item = source.items().first().cloned().unwrap_or_else(|| key_at(None, &sku));
    let quantity = wish.quantity.map_or(1, |quantity| quantity.0);
    Ok(BasketLine { line: RequestedLine { item, quantity }, selection: None, source: Some(source) })
}

fn source_error(error: SourceError, locations: &[Label], pointer: &str) -> Invalid {
    match error {
        SourceError::Empty => {
            Invalid::new(pointer, format!("must name 1 to {SOURCE_LOCATIONS} locations, found none"))
        }
        SourceError::TooMany(found) => {
            Invalid::new(pointer, format!("must name 1 to {SOURCE_LOCATIONS} locations, found {found}"))
        }
        SourceError::Twice(number) => twice(locations, number, pointer),
    }
}

/// A location that is named before.
pub(super) fn twice(locations: &[Label], number: usize, pointer: &str) -> Invalid {
    let name = locations.get(number).map_or("", Label::as_str);
    Invalid::new(format!("{pointer}/{number}"), format!("names \"{}\" twice", clip(name)))
}

/// Refuses lines with a source, for commands that change what a reservation has already.
pub(super) fn refuse_sources(lines: &[JsonObject<LineBody>], command: &str) -> Result<(), Invalid> {
    let Some(number) = lines.iter().position(|JsonObject(line)| line.source.is_some()) else { return Ok(()) };
    let detail = format!("is not a field of {command}: name the location");
    Err(Invalid::new(format!("/lines/{number}/source"), detail))
}
