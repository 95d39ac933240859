//! Magento's REST API, read only: the quantities of sources, and orders.

use super::json_source::quantity;
use super::source::{Caller, Figure, FiguresPage, MasterOrder, OrdersPage, SourceError};
use serde_json::Value;
use stockhold_api::decode;
use stockhold_api::encode::{instant_text, path_segment};
use stockhold_domain::{Instant, ItemKey, Label};

/// Entries of a page.
const PAGE: usize = 500;

/// A shop with Magento. Its address is that of the REST API, like `https://shop.example/rest`.
pub(super) struct MagentoSource(pub(super) Caller);

impl MagentoSource {
    /// The quantities of source items. The code of a source is the location.
    pub(super) async fn figures(&self, cursor: Option<&str>) -> Result<FiguresPage, SourceError> {
        let page = number(cursor);
        let answer = self.0.get(&format!("/V1/inventory/source-items?{}", of_page(page))).await?;
        let items = items(&answer)?;
        let mut figures = Vec::with_capacity(items.len());
        for item in items {
            let text = |name: &str| item[name].as_str().and_then(|text| Label::new(text).ok());
            let (Some(location), Some(sku)) = (text("source_code"), text("sku")) else {
                return Err(SourceError::Failed(format!(
                    "a source item has no sku or no source_code: {item}"
                )));
            };
            figures
                .push(Figure { item: ItemKey::new(&location, &sku), quantity: quantity(&item["quantity"]) });
        }
        Ok(FiguresPage { figures, next: next(page, items.len(), &answer), booked: None })
    }

    /// Orders by their increment ids.
    pub(super) async fn orders(
        &self,
        since: Instant,
        cursor: Option<&str>,
    ) -> Result<OrdersPage, SourceError> {
        let page = number(cursor);
        let filter = "searchCriteria[filterGroups][0][filters][0]";
        let path = format!(
            "/V1/orders?{filter}[field]=created_at&{filter}[conditionType]=gteq&{filter}[value]={}&{}",
            path_segment(&magento_time(since)),
            of_page(page)
        );
        let answer = self.0.get(&encoded_brackets(&path)).await?;
        let items = items(&answer)?;
        let mut orders = Vec::with_capacity(items.len());
        for item in items {
            let id = item["increment_id"].as_str();
            let placed_at = item["created_at"].as_str().and_then(instant_of);
            let (Some(id), Some(placed_at)) = (id, placed_at) else {
                return Err(SourceError::Failed(
                    "an order has no increment_id, or its created_at is no time".to_owned(),
                ));
            };
            orders.push(MasterOrder { id: id.to_owned(), placed_at });
        }
        Ok(OrdersPage { orders, next: next(page, items.len(), &answer) })
    }
}

fn of_page(page: usize) -> String {
    encoded_brackets(&format!("searchCriteria[pageSize]={PAGE}&searchCriteria[currentPage]={page}"))
}

/// Brackets are no characters of a URI.
fn encoded_brackets(path: &str) -> String {
    path.replace('[', "%5B").replace(']', "%5D")
}

/// The number of a page, from 1.
fn number(cursor: Option<&str>) -> usize {
    cursor.and_then(|cursor| cursor.parse().ok()).unwrap_or(1)
}

/// The cursor of the next page. Magento repeats the last page for every number behind it, so the total says when to stop.
fn next(page: usize, count: usize, answer: &Value) -> Option<String> {
    let total = answer["total_count"].as_u64().and_then(|total| usize::try_from(total).ok()).unwrap_or(0);
    (count == PAGE && page * PAGE < total).then(|| (page + 1).to_string())
}

fn items(answer: &Value) -> Result<&Vec<Value>, SourceError> {
    answer["items"].as_array().ok_or_else(|| SourceError::Failed("the answer has no items".to_owned()))
}

/// A time as Magento writes it, in UTC: `2026-11-24 09:30:00`.
fn magento_time(at: Instant) -> String {
    let text = instant_text(at);
    text.get(..19).unwrap_or(&text).replace('T', " ")
}

fn instant_of(text: &str) -> Option<Instant> {
    decode::instant(&format!("{}Z", text.replacen(' ', "T", 1))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn times_are_utc_without_an_offset() {
        let at = decode::instant("2026-11-24T09:30:07Z").unwrap();
        assert_eq!(magento_time(at), "2026-11-24 09:30:07");
        assert_eq!(instant_of("2026-11-24 09:30:07"), Some(at));
        assert_eq!(instant_of("yesterday"), None);
    }

    #[test]
    fn pages_end_with_the_total() {
        assert_eq!(next(1, PAGE, &json!({ "total_count": 501 })), Some("2".to_owned()));
        assert_eq!(next(2, PAGE, &json!({ "total_count": 1_000 })), None);
        assert_eq!(next(2, 1, &json!({ "total_count": 501 })), None);
    }
}
