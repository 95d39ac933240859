//! Amounts as people read them.

/// The currencies of ISO 4217 that have no smaller unit.
const WITHOUT_DECIMALS: [&str; 16] = [
    "bif", "clp", "djf", "gnf", "jpy", "kmf", "krw", "mga", "pyg", "rwf", "ugx", "vnd", "vuv", "xaf", "xof",
    "xpf",
];
/// Those whose smallest unit is a thousandth.
const WITH_THREE_DECIMALS: [&str; 7] = ["bhd", "iqd", "jod", "kwd", "lyd", "omr", "tnd"];

/// An amount in the smallest unit of a currency, as `19.90 EUR`.
pub(crate) fn money(amount: u64, currency: &str) -> String {
    let currency = currency.to_ascii_lowercase();
    let name = currency.to_ascii_uppercase();
    let decimals: u32 = if WITHOUT_DECIMALS.contains(&currency.as_str()) {
        0
    } else if WITH_THREE_DECIMALS.contains(&currency.as_str()) {
        3
    } else {
        2
    };
    let unit = 10_u64.pow(decimals);
    if decimals == 0 {
        return format!("{amount} {name}");
    }
    let width = usize::try_from(decimals).unwrap_or(0);
    format!("{}.{:0width$} {name}", amount / unit, amount % unit)
}

#[cfg(test)]
mod tests {
    use super::money;

    #[test]
    fn amounts_have_the_decimals_of_their_currency() {
        assert_eq!(money(1_990, "eur"), "19.90 EUR");
        assert_eq!(money(5, "USD"), "0.05 USD");
        assert_eq!(money(1_990, "jpy"), "1990 JPY");
        assert_eq!(money(1_005, "kwd"), "1.005 KWD");
        assert_eq!(money(0, "eur"), "0.00 EUR");
    }
}
