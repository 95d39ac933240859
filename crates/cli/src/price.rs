//! Prices as people write them.

use serde_json::{Value, json};

/// Reads `1999 usd`: the amount of one unit in the smallest unit of the currency, and the currency. Or the JSON object that the API takes,
/// which may have discounts.
pub(crate) fn price(text: &str) -> Result<Value, String> {
    let text = text.trim();
    if text.starts_with('{') {
        return serde_json::from_str(text).map_err(|error| format!("must be a JSON object: {error}"));
    }
    let parts: Vec<&str> = text.split_whitespace().collect();
    let (amount, currency) = match *parts {
        [amount, currency] => (amount.parse::<u64>().ok(), currency),
        _ => (None, ""),
    };
    match amount {
        Some(amount) => Ok(json!({ "unit_amount": amount, "currency": currency })),
        None => Err(format!("must be an amount and a currency, such as \"1999 usd\", found {text:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::price;
    use serde_json::json;

    #[test]
    fn a_price_is_an_amount_and_a_currency_or_an_object() {
        let simple = json!({ "unit_amount": 1_999, "currency": "usd" });
        assert_eq!(price(" 1999  usd").unwrap(), simple);
        assert_eq!(price(&simple.to_string()).unwrap(), simple);
        for wrong in ["", "1999", "19.99 usd", "usd 1999", "-1 usd", "1999 usd eur", "{"] {
            let error = price(wrong).unwrap_err();
            assert!(error.starts_with("must be"), "{wrong:?}: {error}");
        }
    }
}
