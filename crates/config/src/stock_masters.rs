//! External systems that own the totals of items: the tables `[stock_masters.NAME]`, and the variables
//! `STOCKHOLD_STOCK_MASTERS__NAME__KEY`.

use crate::secret::SecretText;
use crate::sinks::is_name;
use crate::values::{Value, unknown};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;
use stockhold_relay::{DecrementAt, StockMasterKind, StockMasterOptions};

/// The members of a stock master.
pub(crate) const STOCK_MASTER_KEYS: [&str; 9] = [
    "kind",
    "url",
    "token",
    "pull_seconds",
    "push_ms",
    "reconcile_seconds",
    "release_orphans",
    "orphan_after_seconds",
    "decrement_at",
];
/// The kinds, as the configuration has them.
const KINDS: [StockMasterKind; 2] = [StockMasterKind::Json, StockMasterKind::Magento];
/// What is between the parts of a variable that sets a member of a table.
const LEVEL: &str = "__";
/// What the variables of stock masters begin with, without the prefix of the service.
const VARIABLES: &str = "STOCK_MASTERS__";
/// Least and most seconds between two pulls or two reports.
const SECONDS: std::ops::RangeInclusive<u64> = 1..=86_400;
/// Least and most milliseconds for which sales are gathered.
const PUSH_MS: std::ops::RangeInclusive<u64> = 1..=60_000;

/// A stock master, as it is configured.
#[derive(Clone, Debug, Serialize)]
pub struct StockMasterSettings {
    /// `json` or `magento`.
    pub kind: String,
    /// The address of its API.
    pub url: String,
    /// The bearer token for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<SecretText>,
    /// Seconds between two pulls of its figures.
    pub pull_seconds: u64,
    /// Milliseconds for which sales are gathered before they are sent.
    pub push_ms: u64,
    /// Seconds between two comparisons of orders, each with a report.
    pub reconcile_seconds: u64,
    /// Whether old reservations without an order are released.
    pub release_orphans: bool,
    /// The age from which a reservation without an order is an orphan, in seconds.
    pub orphan_after_seconds: u64,
    /// `sale` or `shipment`: when it subtracts units.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decrement_at: Option<String>,
}

impl Default for StockMasterSettings {
    fn default() -> Self {
        Self {
            kind: String::new(),
            url: String::new(),
            token: None,
            pull_seconds: 60,
            push_ms: 300,
            reconcile_seconds: 60,
            release_orphans: false,
            orphan_after_seconds: 900,
            decrement_at: None,
        }
    }
}

impl StockMasterSettings {
    /// Sets a member that is one of [`STOCK_MASTER_KEYS`].
    pub(crate) fn set(&mut self, member: &str, value: &Value, from_file: bool) -> Result<(), String> {
        match member {
            "kind" => self.kind = value.text()?,
            "url" => self.url = value.text()?,
            "token" => self.token = Some(SecretText::new(value.secret()?)),
            "pull_seconds" => self.pull_seconds = value.number(from_file)?,
            "push_ms" => self.push_ms = value.number(from_file)?,
            "reconcile_seconds" => self.reconcile_seconds = value.number(from_file)?,
            "release_orphans" => self.release_orphans = value.flag()?,
            "orphan_after_seconds" => self.orphan_after_seconds = value.number(from_file)?,
            _ => self.decrement_at = Some(value.text()?),
        }
        Ok(())
    }

    /// The stock master for the relay. An error begins with the member that it is about.
    fn to_options(&self, name: &str) -> Result<StockMasterOptions, String> {
        if !is_name(name) {
            return Err(
                "the name must begin with a letter a to z, followed by up to 31 letters a to z, digits and _"
                    .to_owned(),
            );
        }
        let known = KINDS.map(StockMasterKind::name);
        let kind = KINDS.into_iter().find(|kind| kind.name() == self.kind).ok_or_else(|| {
            let known = known.join(", ");
            match self.kind.as_str() {
                "" => format!("kind: must be one of {known}"),
                other => format!("kind: {other:?} is no kind of stock master; there are {known}"),
            }
        })?;
        let decrement_at = match (self.decrement_at.as_deref(), kind) {
            (None | Some("sale"), StockMasterKind::Json) => DecrementAt::Sale,
            (Some("shipment"), StockMasterKind::Json) | (None, StockMasterKind::Magento) => {
                DecrementAt::Shipment
            }
            (Some(_), StockMasterKind::Magento) => {
                return Err(
                    "decrement_at: must be left out, because Magento subtracts units at the shipment"
                        .to_owned(),
                );
            }
            (Some(other), _) => {
                return Err(format!("decrement_at: must be \"sale\" or \"shipment\", found {other:?}"));
            }
        };
        let is_address = |scheme: &str| self.url.strip_prefix(scheme).is_some_and(|host| !host.is_empty());
        if !is_address("http://") && !is_address("https://") {
            return Err("url: must be the address of its API, like https://erp.example/stockhold".to_owned());
        }
        let is_token = |token: &str| !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
        if self.token.as_ref().is_some_and(|token| !is_token(token.expose())) {
            return Err("token: must be one word of visible ASCII characters".to_owned());
        }
        let seconds = [
            ("pull_seconds", self.pull_seconds),
            ("reconcile_seconds", self.reconcile_seconds),
            ("orphan_after_seconds", self.orphan_after_seconds),
        ];
        for (member, value) in seconds {
            if !SECONDS.contains(&value) {
                return Err(format!("{member}: {value} must be {} to {}", SECONDS.start(), SECONDS.end()));
            }
        }
        if !PUSH_MS.contains(&self.push_ms) {
            let (value, least, most) = (self.push_ms, PUSH_MS.start(), PUSH_MS.end());
            return Err(format!("push_ms: {value} must be {least} to {most}"));
        }
        Ok(StockMasterOptions {
            name: name.to_owned(),
            kind,
            url: self.url.clone(),
            token: self.token.as_ref().map(|token| token.expose().to_owned()),
            pull: Duration::from_secs(self.pull_seconds),
            push: Duration::from_millis(self.push_ms),
            reconcile: Duration::from_secs(self.reconcile_seconds),
            release_orphans: self.release_orphans,
            orphan_after: Duration::from_secs(self.orphan_after_seconds),
            decrement_at,
        })
    }
}

/// Sets a member by a variable: `STOCK_MASTERS__ERP__TOKEN` without the prefix of the service.
pub(crate) fn set_variable(
    stock_masters: &mut BTreeMap<String, StockMasterSettings>,
    rest: &str,
    value: &str,
) -> Result<(), String> {
    let parts = rest.strip_prefix(VARIABLES).and_then(|rest| rest.split_once(LEVEL));
    let (name, member) = parts.ok_or("must be named like STOCKHOLD_STOCK_MASTERS__NAME__TOKEN")?;
    let (name, member) = (name.to_lowercase(), member.to_lowercase());
    if !STOCK_MASTER_KEYS.contains(&member.as_str()) {
        return Err(format!("stock_masters.{name}: {}", unknown(&member, &STOCK_MASTER_KEYS)));
    }
    let settings = stock_masters.entry(name.clone()).or_default();
    settings
        .set(&member, &Value::Text(value.to_owned()), false)
        .map_err(|what| format!("stock_masters.{name}.{member}: {what}"))
}

/// The stock masters for the relay. An error names the stock master and the key.
pub(crate) fn options_of(
    stock_masters: &BTreeMap<String, StockMasterSettings>,
) -> Result<Vec<StockMasterOptions>, String> {
    let options = |(name, settings): (&String, &StockMasterSettings)| {
        settings.to_options(name).map_err(|what| match what.split_once(": ") {
            Some((member, what)) if STOCK_MASTER_KEYS.contains(&member) => {
                format!("stock_masters.{name}.{member}: {what}")
            }
            _ => format!("stock_masters.{name}: {what}"),
        })
    };
    stock_masters.iter().map(options).collect()
}

/// Whether variables of this name set members of stock masters.
pub(crate) fn is_variable(rest: &str) -> bool {
    rest.starts_with(VARIABLES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(variables: &[(&str, &str)]) -> Result<Vec<StockMasterOptions>, String> {
        let mut stock_masters = BTreeMap::new();
        for (name, value) in variables {
            set_variable(&mut stock_masters, &format!("{VARIABLES}{name}"), value)?;
        }
        options_of(&stock_masters)
    }

    #[test]
    fn an_error_names_the_stock_master_and_the_key() {
        let erp = [("ERP__KIND", "json"), ("ERP__URL", "http://h")];
        for (variables, what) in [
            (&[("ERP__KIND", "paper")][..], "stock_masters.erp.kind: \"paper\" is no kind"),
            (&[("ERP__URL", "http://h")], "stock_masters.erp.kind: must be one of"),
            (&[("ERP__KIND", "json")], "stock_masters.erp.url: "),
            (&[("ERP__KIND", "json"), ("ERP__URL", "ftp://h")], "stock_masters.erp.url: "),
            (&[erp[0], erp[1], ("ERP__PULL_SECONDS", "0")], "stock_masters.erp.pull_seconds: 0 must be 1 to"),
            (&[erp[0], erp[1], ("ERP__PUSH_MS", "60001")], "stock_masters.erp.push_ms: "),
            (&[erp[0], erp[1], ("ERP__DECREMENT_AT", "never")], "stock_masters.erp.decrement_at: "),
            (&[erp[0], erp[1], ("ERP__TOKEN", "two words")], "stock_masters.erp.token: must be one word"),
            (
                &[("M__KIND", "magento"), ("M__URL", "http://h"), ("M__DECREMENT_AT", "sale")],
                "stock_masters.m.decrement_at: must be left out",
            ),
            (&[("ERP__URI", "x")], "did you mean url?"),
            (&[("1__KIND", "json"), ("1__URL", "http://h")], "stock_masters.1: the name"),
            (&[("ERP", "x")], "must be named like"),
        ] {
            let error = with(variables).unwrap_err();
            assert!(error.contains(what) && !error.contains("two words"), "{variables:?}: {error}");
        }
    }

    #[test]
    fn a_stock_master_from_variables() {
        let all = with(&[
            ("ERP__KIND", "json"),
            ("ERP__URL", "https://erp.example/stockhold"),
            ("ERP__TOKEN", "secret"),
            ("ERP__RELEASE_ORPHANS", "true"),
        ])
        .unwrap();
        let [erp] = &all[..] else { panic!("one stock master") };
        assert_eq!((erp.name.as_str(), erp.kind, erp.release_orphans), ("erp", StockMasterKind::Json, true));
        assert_eq!((erp.pull, erp.push), (Duration::from_secs(60), Duration::from_millis(300)));
        assert_eq!(erp.decrement_at, DecrementAt::Sale);
        assert!(!format!("{all:?}").contains("secret"));
    }
}
