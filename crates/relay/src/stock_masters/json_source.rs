//! A stock master that speaks the JSON form. `docs/how-to/stock-master.md` has the form.

use super::source::{
    BookedBatch, BookingResult, Caller, Figure, FiguresPage, MasterOrder, OrdersPage, SourceError,
};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use stockhold_api::decode;
use stockhold_api::encode::{instant_text, path_segment};
use stockhold_api::stock_master_record::DecrementBatch;
use stockhold_domain::limits::TOTAL_UNITS;
use stockhold_domain::{Instant, ItemKey, Label};

/// A stock master that speaks the JSON form.
pub(super) struct JsonSource(pub(super) Caller);

#[derive(Deserialize)]
struct StockAnswer {
    items: Vec<StockEntry>,
    next_cursor: Option<String>,
    #[serde(default, deserialize_with = "booked")]
    booked_batch: BookedBatch,
}

#[derive(Deserialize)]
struct StockEntry {
    sku: String,
    location: Option<String>,
    quantity: Value,
}

#[derive(Deserialize)]
struct OrdersAnswer {
    orders: Vec<OrderEntry>,
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
struct OrderEntry {
    order_id: String,
    placed_at: String,
}

impl JsonSource {
    pub(super) async fn figures(&self, cursor: Option<&str>) -> Result<FiguresPage, SourceError> {
        let path = match cursor {
            Some(cursor) => format!("/stock?cursor={}", path_segment(cursor)),
            None => "/stock".to_owned(),
        };
        let answer: StockAnswer = read(self.0.get(&path).await?)?;
        let mut page =
            FiguresPage { next: answer.next_cursor, booked: answer.booked_batch, ..FiguresPage::default() };
        for entry in answer.items {
            let location = entry.location.as_deref().unwrap_or(Label::DEFAULT_LOCATION);
            let (Ok(location), Ok(sku)) = (Label::new(location), Label::new(&entry.sku)) else {
                let what = format!("{:?} at {location:?} can be the name of no item", entry.sku);
                return Err(SourceError::Failed(what));
            };
            page.figures
                .push(Figure { item: ItemKey::new(&location, &sku), quantity: quantity(&entry.quantity) });
        }
        Ok(page)
    }

    pub(super) async fn book(&self, batch: &DecrementBatch) -> BookingResult {
        let body = json!({ "batch_id": batch.batch_id, "lines": batch.lines });
        self.0.book("/decrements", &batch.batch_id, body.to_string().as_bytes()).await
    }

    pub(super) async fn orders(
        &self,
        since: Instant,
        cursor: Option<&str>,
    ) -> Result<OrdersPage, SourceError> {
        let mut path = format!("/orders?since={}", path_segment(&instant_text(since)));
        if let Some(cursor) = cursor {
            path.push_str("&cursor=");
            path.push_str(&path_segment(cursor));
        }
        let answer: OrdersAnswer = read(self.0.get(&path).await?)?;
        let order = |entry: OrderEntry| {
            let placed_at = decode::instant(&in_microseconds(&entry.placed_at)).map_err(|what| {
                SourceError::Failed(format!("placed_at of order {:?} {what}", entry.order_id))
            })?;
            Ok(MasterOrder { id: entry.order_id, placed_at })
        };
        let orders: Result<_, _> = answer.orders.into_iter().map(order).collect();
        Ok(OrdersPage { orders: orders?, next: answer.next_cursor })
    }
}

fn read<T: for<'a> Deserialize<'a>>(value: Value) -> Result<T, SourceError> {
    serde_json::from_value(value)
        .map_err(|error| SourceError::Failed(format!("the answer has another form: {error}")))
}

/// `null` means that no batch is booked, and an absent member that the stock master does not say.
fn booked<'de, D: Deserializer<'de>>(from: D) -> Result<BookedBatch, D::Error> {
    Ok(Option::<String>::deserialize(from)?.map_or(BookedBatch::None, BookedBatch::Id))
}

/// A time without the digits below a microsecond, which some systems have.
fn in_microseconds(text: &str) -> String {
    let Some((seconds, rest)) = text.split_once('.') else { return text.to_owned() };
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (fraction, offset) = rest.split_at(digits);
    format!("{seconds}.{}{offset}", fraction.get(..6).unwrap_or(fraction))
}

/// The units of a figure: a whole number that a total can be.
pub(super) fn quantity(value: &Value) -> Result<u64, String> {
    // Some systems write every number with a fraction.
    let whole = value.as_u64().or_else(|| {
        let number = value.as_f64().filter(|number| number.fract() == 0.0 && *number >= 0.0)?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a whole number above 0; larger ones saturate"
        )]
        Some(number as u64)
    });
    match whole {
        Some(units) if units <= TOTAL_UNITS => Ok(units),
        _ => Err(format!("{value} is no whole number from 0 to {TOTAL_UNITS}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_below_a_microsecond_are_cut() {
        for (text, expected) in [
            ("2026-11-24T09:30:00Z", "2026-11-24T09:30:00Z"),
            ("2026-11-24T09:30:00.5+01:00", "2026-11-24T09:30:00.5+01:00"),
            ("2026-11-24T09:30:00.123456789Z", "2026-11-24T09:30:00.123456Z"),
        ] {
            assert_eq!(in_microseconds(text), expected);
        }
    }

    #[test]
    fn figures_say_which_batch_they_contain() {
        let lacks = |booked: &str| {
            let answer = format!(r#"{{"items":[],"next_cursor":null{booked}}}"#);
            let answer: StockAnswer = serde_json::from_str(&answer).unwrap();
            [None, Some(&"b".to_owned())].map(|newest| answer.booked_batch.lacks(newest))
        };
        assert_eq!(lacks(""), [false, false], "the stock master does not say");
        assert_eq!(lacks(r#","booked_batch":null"#), [false, true]);
        assert_eq!(lacks(r#","booked_batch":"a""#), [false, true]);
        assert_eq!(lacks(r#","booked_batch":"b""#), [false, false]);
    }

    #[test]
    fn a_figure_is_a_whole_number_that_a_total_can_be() {
        for (value, expected) in [
            (json!(0), Some(0)),
            (json!(12), Some(12)),
            (json!(12.0), Some(12)),
            (json!(1_000_000_000_000_u64), Some(TOTAL_UNITS)),
        ] {
            assert_eq!(quantity(&value).ok(), expected, "{value}");
        }
        for value in
            [json!(-1), json!(1.5), json!("12"), json!(null), json!(1_000_000_000_001_u64), json!(1e300)]
        {
            assert!(quantity(&value).unwrap_err().contains("no whole number"), "{value}");
        }
    }
}
