//! Where settings come from: a file with strict keys, and `STOCKHOLD_*` variables, of which those that are not settings are ignored
//! with a warning, because other programs set them too (Kubernetes does for a Service named `stockhold`).
//!
//! It knows names, places and types. Which values are allowed is decided in [`crate::settings`].

use crate::archive::ARCHIVE_VARIABLES;
use crate::customers::ENCRYPTION_KEYS_VARIABLE;
use crate::notifications::SMTP_URL_VARIABLE;
use crate::providers::STRIPE_VARIABLES;
use crate::secret::SecretText;
use crate::settings::{Config, KEYS, LogFormat, TABLES};
use crate::sinks;
use crate::stock_masters;
use crate::tables;
use crate::values::{self, Value, closest, span_of, unknown, value_of};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use toml_edit::ImDocument;

/// Beginning of the variables that set a key.
pub const PREFIX: &str = "STOCKHOLD_";
/// Variables with this beginning that are read elsewhere: the file, the target of a copy, and of tools the server that they talk to,
/// the certificates that they trust and their API key.
const OTHER_VARIABLES: [&str; 6] = ["CONFIG", "SERVER", "COPY_TO", "CA_FILE", "API_KEY", "API_KEY_FILE"];
/// The variable of a member of the table `rate_limits`, which is a secret.
const RATE_LIMITS_REDIS: &str = "RATE_LIMITS_REDIS";
/// What Kubernetes appends to the name of a Service, in the variables that it sets for every container.
const KUBERNETES_SUFFIXES: [&str; 4] = ["SERVICE_HOST", "SERVICE_PORT", "PORT", "PORT_"];
/// Reads an address to listen on. A name is not resolved, except `localhost`.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    if let Some(Ok(port)) = text.strip_prefix("localhost:").map(str::parse) {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    let example = match text.trim_start_matches(':').parse::<u16>() {
        Ok(port) => format!("127.0.0.1:{port}"),
        Err(_) => "127.0.0.1:8101".to_owned(),
    };
    Err(format!("must be an IP address and a port like {example}, found {text:?}"))
}

/// Sets one key.
pub(crate) fn set(config: &mut Config, key: &str, value: &Value, from_file: bool) -> Result<(), String> {
    match key {
        "listen" => config.listen = address(&value.text()?)?,
        "admin_listen" => config.admin_listen = address(&value.text()?)?,
        "grpc_listen" => config.grpc_listen = Some(address(&value.text()?)?),
        "grpc_reflection" => config.grpc_reflection = value.flag()?,
        "max_connection_age" => config.max_connection_age = value.text()?.parse()?,
        "hub_listen" => config.hub_listen = Some(address(&value.text()?)?),
        "storefront_listen" => config.storefront_listen = Some(address(&value.text()?)?),
        "tls_cert" => config.tls_cert = Some(value.text()?.into()),
        "tls_key" => config.tls_key = Some(value.text()?.into()),
        "tls_client_ca" => config.tls_client_ca = Some(value.text()?.into()),
        "plain_http" => config.plain_http = value.flag()?,
        "store" => config.store = value.text()?.into(),
        "replica" => config.replica = Some(value.text()?.into()),
        "gate" => config.gate = Some(SecretText::new(value.secret()?)),
        "gate_timeout_ms" => config.gate_timeout_ms = value.number(from_file)?,
        "gate_reconcile_seconds" => config.gate_reconcile_seconds = value.number(from_file)?,
        "store_batch" => config.store_batch = value.number(from_file)?,
        "source" => config.source = value.text()?,
        "data_dir" => config.data_dir = value.text()?.into(),
        "threads" => config.threads = value.number(from_file)?,
        "default_ttl_seconds" => config.default_ttl_seconds = value.number(from_file)?,
        "max_hold_seconds" => config.max_hold_seconds = value.number(from_file)?,
        "max_payment_seconds" => config.max_payment_seconds = value.number(from_file)?,
        "key_retention_hours" => config.key_retention_hours = value.number(from_file)?,
        "free_space_floor_mib" => config.free_space_floor_mib = value.number(from_file)?,
        "log_level" => config.log_level = value.text()?,
        "log_format" => {
            config.log_format = match value.text()?.as_str() {
                "text" => LogFormat::Text,
                "json" => LogFormat::Json,
                other => return Err(format!("must be text or json, found {other:?}")),
            };
        }
        "root_key" => config.access.root_key = Some(SecretText::new(value.secret()?)),
        "root_key_file" => config.access.root_key_file = Some(value.text()?.into()),
        "allowed_origins" => config.access.allowed_origins = list(value, from_file)?,
        "allowed_hosts" => config.access.allowed_hosts = list(value, from_file)?,
        "webhook_allowed_networks" => config.webhook_allowed_networks = list(value, from_file)?,
        "webhook_ca_file" => config.webhook_ca_file = Some(value.text()?.into()),
        "trusted_proxies" => config.access.trusted_proxies = list(value, from_file)?,
        "forwarded_header" => config.access.forwarded_header = value.text()?.to_ascii_lowercase(),
        key if TABLES.contains(&key) => return Err("can only be set in the configuration file".to_owned()),
        _ => return Err("is not a setting".to_owned()),
    }
    Ok(())
}

/// A list of a file, or one of a variable, which has commas between its elements.
fn list(value: &Value, from_file: bool) -> Result<Vec<String>, String> {
    match value {
        Value::Text(text) if !from_file => values::split_list(text).list(),
        value => value.list(),
    }
}

/// What reading sources has come to: where each key was set, and what is wrong.
#[derive(Default)]
pub(crate) struct Sources {
    /// The source of each key that has one.
    pub(crate) origins: BTreeMap<&'static str, String>,
    pub(crate) errors: Vec<String>,
    pub(crate) warnings: Vec<String>,
}

impl Sources {
    /// Reads the file into the configuration.
    pub(crate) fn read_file(&mut self, config: &mut Config, path: &Path) {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) => return self.errors.push(format!("{}: {error}", path.display())),
        };
        let place = |at: usize| format!("{}:{}", path.display(), line_of(&text, at));
        let document = match ImDocument::parse(text.as_str()) {
            Ok(document) => document,
            Err(error) => {
                let at = error.span().map_or(0, |span| span.start);
                let what = error.message().lines().collect::<Vec<_>>().join(": ");
                return self.errors.push(format!("{}: {what}", place(at)));
            }
        };
        for (name, item) in document.iter() {
            let at = span_of(document.as_table(), name);
            let Some(key) = KEYS.into_iter().find(|key| *key == name) else {
                self.errors.push(format!("{}: {}", place(at), unknown(name, &KEYS)));
                continue;
            };
            let read = if TABLES.contains(&key) {
                tables::read(&mut self.errors, config, key, item, &place)
            } else {
                set(config, key, &value_of(item), true)
            };
            match read {
                Ok(()) => drop(self.origins.insert(key, place(at))),
                Err(what) => self.errors.push(format!("{}: {key}: {what}", place(at))),
            }
        }
    }

    /// Reads the process's variables. An empty one counts as not set.
    pub(crate) fn read_variables(&mut self, config: &mut Config) {
        let mut of_kubernetes = Vec::new();
        let mut variables: Vec<_> = std::env::vars_os().collect();
        variables.sort();
        for (name, value) in variables {
            let Some(name) = name.to_str() else { continue };
            let Some(rest) = name.strip_prefix(PREFIX) else { continue };
            if OTHER_VARIABLES.contains(&rest) {
                continue;
            }
            // An empty root key is a mistake in a deployment. Without it, the server would be open.
            if value.is_empty() && rest != "ROOT_KEY" {
                continue;
            }
            if rest == RATE_LIMITS_REDIS {
                self.read_redis(config, name, value.to_str());
                continue;
            }
            if let Some((_, member)) = STRIPE_VARIABLES.iter().find(|(variable, _)| *variable == rest) {
                self.read_stripe(config, name, member, value.to_str());
                continue;
            }
            if rest == SMTP_URL_VARIABLE {
                self.read_smtp_url(config, name, value.to_str());
                continue;
            }
            if rest == ENCRYPTION_KEYS_VARIABLE {
                self.read_encryption_keys(config, name, value.to_str());
                continue;
            }
            if let Some((_, member)) = ARCHIVE_VARIABLES.iter().find(|(variable, _)| *variable == rest) {
                self.read_archive(config, name, member, value.to_str());
                continue;
            }
            if sinks::is_variable(rest) {
                self.read_sink(config, name, rest, value.to_str());
                continue;
            }
            if stock_masters::is_variable(rest) {
                self.read_stock_master(config, name, rest, value.to_str());
                continue;
            }
            let Some(key) = KEYS.into_iter().find(|key| key.to_uppercase() == rest) else {
                if is_of_kubernetes(rest) {
                    of_kubernetes.push(name.to_owned());
                } else {
                    let names = KEYS.map(str::to_uppercase);
                    let hint = closest(rest, &names.each_ref().map(String::as_str));
                    let hint = hint.map(|name| format!("; did you mean {PREFIX}{name}?")).unwrap_or_default();
                    self.warnings
                        .push(format!("{name} in the environment is not a setting: it is ignored{hint}"));
                }
                continue;
            };
            let Some(text) = value.to_str() else {
                self.errors.push(format!("{name} in the environment: must be UTF-8"));
                continue;
            };
            match set(config, key, &Value::Text(text.to_owned()), false) {
                Ok(()) => drop(self.origins.insert(key, format!("{name} in the environment"))),
                Err(what) => self.errors.push(format!("{name} in the environment: {key}: {what}")),
            }
        }
        if !of_kubernetes.is_empty() {
            self.warnings.push(format!(
                "{} in the environment are ignored: Kubernetes sets them for a Service (enableServiceLinks: false turns them off)",
                of_kubernetes.join(", ")
            ));
        }
    }

    /// Sets the address of the Redis server for rate limits. The other members of its table stay as the file has them.
    fn read_redis(&mut self, config: &mut Config, name: &str, value: Option<&str>) {
        let Some(url) = value else {
            return self.errors.push(format!("{name} in the environment: must be UTF-8"));
        };
        config.access.rate_limits.redis = Some(SecretText::new(url.to_owned()));
        self.add_origin("rate_limits", name);
    }

    /// Sets a secret of Stripe.
    fn read_stripe(&mut self, config: &mut Config, name: &str, member: &str, value: Option<&str>) {
        let set = value.ok_or_else(|| "must be UTF-8".to_owned());
        let value = set.map(|text| Value::Text(text.to_owned()));
        match value.and_then(|value| config.providers.set_stripe(member, &value, false)) {
            Ok(()) => self.add_origin("providers", name),
            Err(what) => self.errors.push(format!("{name} in the environment: {what}")),
        }
    }

    /// Sets the address of the SMTP server.
    fn read_smtp_url(&mut self, config: &mut Config, name: &str, value: Option<&str>) {
        let Some(url) = value else {
            return self.errors.push(format!("{name} in the environment: must be UTF-8"));
        };
        config.notifications.smtp.get_or_insert_default().url = Some(SecretText::new(url.to_owned()));
        self.add_origin("notifications", name);
    }

    /// Sets the keys of customers.
    fn read_encryption_keys(&mut self, config: &mut Config, name: &str, value: Option<&str>) {
        let set = value.ok_or_else(|| "must be UTF-8".to_owned());
        match set.and_then(|text| config.customers.set(&Value::Text(text.to_owned()), false)) {
            Ok(()) => self.add_origin("customers", name),
            Err(what) => self.errors.push(format!("{name} in the environment: {what}")),
        }
    }

    /// Sets a member of the archive.
    fn read_archive(&mut self, config: &mut Config, name: &str, member: &str, value: Option<&str>) {
        let set = value.ok_or_else(|| "must be UTF-8".to_owned());
        match set.and_then(|text| config.archive.set(member, &Value::Text(text.to_owned()), false)) {
            Ok(()) => self.add_origin("archive", name),
            Err(what) => self.errors.push(format!("{name} in the environment: archive.{member}: {what}")),
        }
    }

    /// Sets a member of a sink.
    fn read_sink(&mut self, config: &mut Config, name: &str, rest: &str, value: Option<&str>) {
        let set = value.ok_or_else(|| "must be UTF-8".to_owned());
        match set.and_then(|value| sinks::set_variable(&mut config.sinks, rest, value)) {
            Ok(()) => self.add_origin("sinks", name),
            Err(what) => self.errors.push(format!("{name} in the environment: {what}")),
        }
    }

    /// Sets a member of a stock master.
    fn read_stock_master(&mut self, config: &mut Config, name: &str, rest: &str, value: Option<&str>) {
        let set = value.ok_or_else(|| "must be UTF-8".to_owned());
        match set.and_then(|value| stock_masters::set_variable(&mut config.stock_masters, rest, value)) {
            Ok(()) => self.add_origin("stock_masters", name),
            Err(what) => self.errors.push(format!("{name} in the environment: {what}")),
        }
    }

    /// Adds a variable to the sources of a table.
    fn add_origin(&mut self, key: &'static str, name: &str) {
        let origin = format!("{name} in the environment");
        self.origins
            .entry(key)
            .and_modify(|others| *others = format!("{others} and {origin}"))
            .or_insert(origin);
    }
}

fn is_of_kubernetes(rest: &str) -> bool {
    KUBERNETES_SUFFIXES.iter().any(|suffix| match suffix.strip_suffix('_') {
        Some(_) => rest.starts_with(suffix) || rest.contains(&format!("_{suffix}")),
        None => {
            rest == *suffix
                || rest.ends_with(&format!("_{suffix}"))
                || rest.starts_with("SERVICE_PORT_")
                || rest.contains("_SERVICE_PORT_")
        }
    })
}

fn line_of(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (text, expected) in [
            ("127.0.0.1:9301", Ok("127.0.0.1:9301".to_owned())),
            ("[::1]:9301", Ok("[::1]:9301".to_owned())),
            ("localhost:9301", Ok("127.0.0.1:9301".to_owned())),
            ("9301", Err("127.0.0.1:9301")),
            (":9301", Err("127.0.0.1:9301")),
            ("shop:9301", Err("127.0.0.1:8101")),
            ("localhost", Err("127.0.0.1:8101")),
        ] {
            match (address(text), expected) {
                (Ok(address), Ok(expected)) => assert_eq!(address.to_string(), expected),
                (Err(what), Err(example)) => assert!(what.contains(example), "{what}"),
                (found, _) => panic!("{text}: {found:?}"),
            }
        }
    }

    #[test]
    fn variables_of_kubernetes_services() {
        for name in [
            "PORT",
            "SERVICE_HOST",
            "SERVICE_PORT",
            "SERVICE_PORT_API",
            "PORT_8101_TCP",
            "PORT_8101_TCP_ADDR",
            "ADMIN_SERVICE_HOST",
            "ADMIN_PORT_8102_TCP_PROTO",
        ] {
            assert!(is_of_kubernetes(name), "{name}");
        }
        for name in ["LISTE", "STORE_URL", "REPORTS", "EXPORT"] {
            assert!(!is_of_kubernetes(name), "{name}");
        }
    }

    #[test]
    fn a_similar_name_is_suggested() {
        assert_eq!(closest("liste", &KEYS), Some("listen"));
        assert_eq!(closest("thread", &KEYS), Some("threads"));
        assert_eq!(closest("ttl_default", &KEYS), None);
    }
}
