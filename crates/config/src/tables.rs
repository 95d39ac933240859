//! The tables of the configuration file: `[locations.NAME]`, `[[issuers]]`, `[rate_limits]`, the principals of listeners and `[sinks.NAME]`.

use crate::access::{IssuerSettings, PrincipalSettings, Rate};
use crate::archive::ARCHIVE_KEYS;
use crate::customers::CUSTOMER_KEYS;
use crate::notifications::{NOTIFICATION_KEYS, PUSH_KEYS, SMTP_KEYS};
use crate::providers::{CHECKOUT_KEYS, PROVIDERS, STRIPE_KEYS, TEST_KEYS};
use crate::secret::SecretText;
use crate::settings::{Config, LocationTimes};
use crate::sinks::{SINK_KEYS, SinkSettings};
use crate::stock_masters::{STOCK_MASTER_KEYS, StockMasterSettings};
use crate::values::{span_of, unknown, value_of};
use toml_edit::{Item, TableLike};

/// Where a byte of the file stands, for an error.
pub(crate) type Place<'a> = &'a dyn Fn(usize) -> String;

const LOCATION_KEYS: [&str; 3] = ["default_ttl_seconds", "max_hold_seconds", "max_payment_seconds"];
const ISSUER_KEYS: [&str; 9] = [
    "issuer",
    "audience",
    "algorithms",
    "jwks_url",
    "jwks_file",
    "public_key_file",
    "scopes_claim",
    "principal_claim",
    "locations_claim",
];
const LIMIT_KEYS: [&str; 4] = ["principal", "address", "redis", "redis_timeout_ms"];
const PRINCIPAL_KEYS: [&str; 4] = ["name", "scopes", "locations", "allowed_cidrs"];
const RATE_KEYS: [&str; 2] = ["per_second", "burst"];

/// Reads the table of a key that is a table. Adds the errors of its members.
pub(crate) fn read(
    errors: &mut Vec<String>,
    config: &mut Config,
    key: &str,
    item: &Item,
    place: Place<'_>,
) -> Result<(), String> {
    match (key, item.as_table_like(), item.as_array_of_tables()) {
        ("locations", Some(table), _) => read_locations(errors, config, table, place),
        ("locations", None, _) => return Err("must be tables like [locations.hub]".to_owned()),
        ("rate_limits", Some(table), _) => read_limits(errors, config, table, place),
        ("rate_limits", None, _) => return Err("must be a table, [rate_limits]".to_owned()),
        ("sinks", Some(table), _) => read_sinks(errors, config, table, place),
        ("stock_masters", Some(table), _) => read_stock_masters(errors, config, table, place),
        ("stock_masters", None, _) => return Err("must be tables like [stock_masters.erp]".to_owned()),
        ("providers", Some(table), _) => read_providers(errors, config, table, place),
        ("providers", None, _) => return Err("must be tables like [providers.stripe]".to_owned()),
        ("checkout", Some(table), _) => {
            members(errors, table, (key, &CHECKOUT_KEYS), place, |member, item| {
                let number = value_of(item).number(true)?;
                match member {
                    "retry_base_ms" => config.checkout.retry_base_ms = number,
                    _ => config.checkout.retry_max_ms = number,
                }
                Ok(())
            });
        }
        ("notifications", Some(table), _) => read_notifications(errors, config, table, place),
        ("notifications", None, _) => return Err("must be a table, [notifications]".to_owned()),
        ("customers", Some(table), _) => {
            members(errors, table, (key, &CUSTOMER_KEYS), place, |_, item| {
                config.customers.set(&value_of(item), true)
            });
        }
        ("archive", Some(table), _) => {
            members(errors, table, (key, &ARCHIVE_KEYS), place, |member, item| {
                config.archive.set(member, &value_of(item), true)
            });
        }
        ("archive", None, _) => return Err("must be a table, [archive]".to_owned()),
        ("customers", None, _) => return Err("must be a table, [customers]".to_owned()),
        ("checkout", None, _) => return Err("must be a table, [checkout]".to_owned()),
        ("sinks", None, _) => return Err("must be tables like [sinks.ledger]".to_owned()),
        ("hub_principal", Some(table), _) => {
            config.hub_principal = Some(read_principal(errors, key, table, place));
        }
        ("storefront_principal", Some(table), _) => {
            config.storefront_principal = Some(read_principal(errors, key, table, place));
        }
        ("hub_principal" | "storefront_principal", None, _) => {
            return Err(format!("must be a table, [{key}]"));
        }
        (_, _, Some(tables)) => {
            for table in tables {
                read_issuer(errors, config, table, place);
            }
        }
        (_, _, None) => return Err("must be tables, each with the heading [[issuers]]".to_owned()),
    }
    Ok(())
}

/// Calls `set` with each member of a table. Adds an error for each unknown member and each error of `set`.
fn members(
    errors: &mut Vec<String>,
    table: &dyn TableLike,
    (name, known): (&str, &[&str]),
    place: Place<'_>,
    mut set: impl FnMut(&str, &Item) -> Result<(), String>,
) {
    for (member, item) in table.iter() {
        let at = place(span_of(table, member));
        if !known.contains(&member) {
            errors.push(format!("{at}: {name}: {}", unknown(member, known)));
        } else if let Err(what) = set(member, item) {
            errors.push(format!("{at}: {name}.{member}: {what}"));
        }
    }
}

fn read_locations(
    errors: &mut Vec<String>,
    config: &mut Config,
    locations: &dyn TableLike,
    place: Place<'_>,
) {
    for (location, item) in locations.iter() {
        let name = format!("locations.{location}");
        let Some(table) = item.as_table_like() else {
            let at = place(span_of(locations, location));
            errors.push(format!("{at}: {name}: must be a table"));
            continue;
        };
        let mut times = LocationTimes::default();
        members(errors, table, (&name, &LOCATION_KEYS), place, |member, item| {
            let seconds = Some(value_of(item).number(true)?);
            match member {
                "default_ttl_seconds" => times.default_ttl_seconds = seconds,
                "max_hold_seconds" => times.max_hold_seconds = seconds,
                _ => times.max_payment_seconds = seconds,
            }
            Ok(())
        });
        config.locations.insert(location.to_owned(), times);
    }
}

fn read_issuer(errors: &mut Vec<String>, config: &mut Config, table: &dyn TableLike, place: Place<'_>) {
    let mut issuer = IssuerSettings {
        scopes_claim: IssuerSettings::SCOPES_CLAIM.to_owned(),
        principal_claim: IssuerSettings::PRINCIPAL_CLAIM.to_owned(),
        ..IssuerSettings::default()
    };
    members(errors, table, ("issuers", &ISSUER_KEYS), place, |member, item| {
        let value = value_of(item);
        match member {
            "issuer" => issuer.issuer = value.text()?,
            "audience" => issuer.audience = value.text()?,
            "algorithms" => issuer.algorithms = value.list()?,
            "jwks_url" => issuer.jwks_url = Some(value.text()?),
            "jwks_file" => issuer.jwks_file = Some(value.text()?.into()),
            "public_key_file" => issuer.public_key_file = Some(value.text()?.into()),
            "scopes_claim" => issuer.scopes_claim = value.text()?,
            "principal_claim" => issuer.principal_claim = value.text()?,
            _ => issuer.locations_claim = Some(value.text()?),
        }
        Ok(())
    });
    config.access.issuers.push(issuer);
}

fn read_principal(
    errors: &mut Vec<String>,
    key: &str,
    table: &dyn TableLike,
    place: Place<'_>,
) -> PrincipalSettings {
    let mut principal = PrincipalSettings::default();
    members(errors, table, (key, &PRINCIPAL_KEYS), place, |member, item| {
        let value = value_of(item);
        match member {
            "name" => principal.name = value.text()?,
            "scopes" => principal.scopes = value.list()?,
            "locations" => principal.locations = Some(value.list()?),
            _ => principal.allowed_cidrs = Some(value.list()?),
        }
        Ok(())
    });
    principal
}

fn read_sinks(errors: &mut Vec<String>, config: &mut Config, sinks: &dyn TableLike, place: Place<'_>) {
    for (sink, item) in sinks.iter() {
        let name = format!("sinks.{sink}");
        let Some(table) = item.as_table_like() else {
            let at = place(span_of(sinks, sink));
            errors.push(format!("{at}: {name}: must be a table"));
            continue;
        };
        let mut settings = SinkSettings::default();
        members(errors, table, (&name, &SINK_KEYS), place, |member, item| {
            settings.set(member, &value_of(item), true)
        });
        config.sinks.insert(sink.to_owned(), settings);
    }
}

fn read_stock_masters(
    errors: &mut Vec<String>,
    config: &mut Config,
    stock_masters: &dyn TableLike,
    place: Place<'_>,
) {
    for (stock_master, item) in stock_masters.iter() {
        let name = format!("stock_masters.{stock_master}");
        let Some(table) = item.as_table_like() else {
            let at = place(span_of(stock_masters, stock_master));
            errors.push(format!("{at}: {name}: must be a table"));
            continue;
        };
        let mut settings = StockMasterSettings::default();
        members(errors, table, (&name, &STOCK_MASTER_KEYS), place, |member, item| {
            settings.set(member, &value_of(item), true)
        });
        config.stock_masters.insert(stock_master.to_owned(), settings);
    }
}

fn read_providers(errors: &mut Vec<String>, config: &mut Config, table: &dyn TableLike, place: Place<'_>) {
    for (provider, item) in table.iter() {
        let name = format!("providers.{provider}");
        let at = place(span_of(table, provider));
        let Some(known) = item.as_table_like() else {
            errors.push(format!("{at}: {name}: must be a table"));
            continue;
        };
        match provider {
            "stripe" => members(errors, known, (&name, &STRIPE_KEYS), place, |member, item| {
                config.providers.set_stripe(member, &value_of(item), true)
            }),
            "test" => members(errors, known, (&name, &TEST_KEYS), place, |member, item| {
                config.providers.set_test(member, &value_of(item), true)
            }),
            _ => errors.push(format!("{at}: providers: {}", unknown(provider, &PROVIDERS))),
        }
    }
}

fn read_limits(errors: &mut Vec<String>, config: &mut Config, table: &dyn TableLike, place: Place<'_>) {
    let limits = &mut config.access.rate_limits;
    members(errors, table, ("rate_limits", &LIMIT_KEYS), place, |member, item| {
        if member == "redis" {
            limits.redis = Some(SecretText::new(value_of(item).secret()?));
            return Ok(());
        }
        if member == "redis_timeout_ms" {
            limits.redis_timeout_ms = value_of(item).number(true)?;
            return Ok(());
        }
        let rate = item.as_table_like().ok_or("must be a table like { per_second = 10, burst = 20 }")?;
        match member {
            "principal" => limits.principal = Some(read_rate(rate)?),
            _ => limits.address = read_rate(rate)?,
        }
        Ok(())
    });
}

fn read_rate(table: &dyn TableLike) -> Result<Rate, String> {
    if let Some((other, _)) = table.iter().find(|(name, _)| !RATE_KEYS.contains(name)) {
        return Err(unknown(other, &RATE_KEYS));
    }
    let number = |name: &str| -> Result<u32, String> {
        let item = table.get(name).ok_or_else(|| format!("needs {name}"))?;
        value_of(item).number(true).map_err(|what| format!("{name} {what}"))
    };
    Ok(Rate { per_second: number("per_second")?, burst: number("burst")? })
}

fn read_notifications(
    errors: &mut Vec<String>,
    config: &mut Config,
    table: &dyn TableLike,
    place: Place<'_>,
) {
    let settings = &mut config.notifications;
    let mut inner = Vec::new();
    members(errors, table, ("notifications", &NOTIFICATION_KEYS), place, |member, item| {
        if !["smtp", "push"].contains(&member) {
            return settings.set(member, &value_of(item));
        }
        let Some(table) = item.as_table_like() else {
            return Err(format!("must be a table, [notifications.{member}]"));
        };
        // An empty table is one that lacks what it needs.
        match member {
            "smtp" => {
                settings.smtp.get_or_insert_default();
                members(&mut inner, table, ("notifications.smtp", &SMTP_KEYS), place, |member, item| {
                    settings.set_smtp(member, &value_of(item))
                });
            }
            _ => {
                settings.push.get_or_insert_default();
                members(&mut inner, table, ("notifications.push", &PUSH_KEYS), place, |member, item| {
                    settings.set_push(member, &value_of(item))
                });
            }
        }
        Ok(())
    });
    errors.append(&mut inner);
}
