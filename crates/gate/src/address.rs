//! Addresses of Redis: one server, the primary that sentinels name, or a cluster. They may have a password, so no error quotes them.

use crate::connection::RedisConnection;
use percent_encoding::percent_decode_str;
use redis::cluster::ClusterClient;
use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{AsyncConnectionConfig, Client, ConnectionAddr, RedisError, TlsMode};
use std::time::Duration;
use tokio::sync::Mutex;

/// The forms that an address may have.
const FORMS: &str = "it has to be redis://[user:password@]host[:port][/db], redis+sentinel://host:port,host:port/service[/db] or \
                     redis+cluster://host:port,host:port; with rediss in place of redis it uses TLS";
const REDIS_PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

/// Where the gate's Redis is.
pub struct GateAddress(Kind);

enum Kind {
    Single(Client),
    Sentinel(Mutex<SentinelClient>),
    Cluster(ClusterClient),
}

/// What stands between the scheme and the path.
struct Authority<'a> {
    username: Option<String>,
    password: Option<String>,
    hosts: Vec<(&'a str, u16)>,
}

impl GateAddress {
    /// Reads an address. It connects to nothing. The error says what is wrong without the address, which may have a password.
    pub fn parse(url: &str) -> Result<Self, String> {
        let (scheme, rest) = url.split_once("://").ok_or(FORMS)?;
        let (is_tls, kind) = match scheme {
            "redis" | "rediss" => {
                let client = Client::open(url).map_err(|_| FORMS.to_owned())?;
                return Ok(Self(Kind::Single(client)));
            }
            "redis+sentinel" => (false, "sentinel"),
            "rediss+sentinel" => (true, "sentinel"),
            "redis+cluster" => (false, "cluster"),
            "rediss+cluster" => (true, "cluster"),
            _ => return Err(FORMS.to_owned()),
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if kind == "cluster" {
            if !path.is_empty() {
                return Err("a Redis cluster has one database, so the address ends with the nodes".to_owned());
            }
            let authority = Authority::parse(authority, REDIS_PORT)?;
            return Ok(Self(Kind::Cluster(authority.cluster(is_tls)?)));
        }
        let (service, db) = path.split_once('/').unwrap_or((path, "0"));
        if service.is_empty() {
            return Err("the address of sentinels ends with the name of the service".to_owned());
        }
        let db = db.parse().map_err(|_| "the database of a Redis address is a number".to_owned())?;
        let client = Authority::parse(authority, SENTINEL_PORT)?.sentinel(service, db, is_tls)?;
        Ok(Self(Kind::Sentinel(Mutex::new(client))))
    }

    /// Opens a connection.
    pub(crate) async fn connect(&self, response_timeout: Duration) -> Result<RedisConnection, RedisError> {
        // A request that waits longer is given up by its caller. This bounds what a connection keeps of such requests.
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(response_timeout));
        match &self.0 {
            Kind::Single(client) => {
                let connection = client.get_multiplexed_async_connection_with_config(&config).await?;
                Ok(RedisConnection::Server(connection))
            }
            Kind::Sentinel(client) => {
                let connection = client.lock().await.get_async_connection_with_config(&config).await?;
                Ok(RedisConnection::Server(connection))
            }
            Kind::Cluster(client) => Ok(RedisConnection::Cluster(client.get_async_connection().await?)),
        }
    }
}

impl<'a> Authority<'a> {
    fn parse(text: &'a str, default_port: u16) -> Result<Self, String> {
        let (credentials, hosts) = match text.rsplit_once('@') {
            Some((credentials, hosts)) => (Some(credentials), hosts),
            None => (None, text),
        };
        let (username, password) = match credentials.map(|text| text.split_once(':').unwrap_or(("", text))) {
            Some(("", password)) => (None, Some(decoded(password)?)),
            Some((username, password)) => (Some(decoded(username)?), Some(decoded(password)?)),
            None => (None, None),
        };
        let hosts = hosts.split(',').map(|host| host_and_port(host, default_port));
        Ok(Self { username, password, hosts: hosts.collect::<Result<_, _>>()? })
    }

    fn cluster(&self, is_tls: bool) -> Result<ClusterClient, String> {
        let scheme = if is_tls { "rediss" } else { "redis" };
        let nodes: Vec<_> =
            self.hosts.iter().map(|(host, port)| format!("{scheme}://{host}:{port}")).collect();
        let mut builder = ClusterClient::builder(nodes);
        if let Some(username) = &self.username {
            builder = builder.username(username.clone());
        }
        if let Some(password) = &self.password {
            builder = builder.password(password.clone());
        }
        builder.build().map_err(|_| FORMS.to_owned())
    }

    fn sentinel(&self, service: &str, db: i64, is_tls: bool) -> Result<SentinelClient, String> {
        let address = |(host, port): &(&str, u16)| {
            // The brackets of an IPv6 address belong to the form of an address.
            let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
            if is_tls {
                ConnectionAddr::TcpTls { host, port: *port, insecure: false, tls_params: None }
            } else {
                ConnectionAddr::Tcp(host, *port)
            }
        };
        let sentinels = self.hosts.iter().map(address);
        let mut builder = SentinelClientBuilder::new(sentinels, service, SentinelServerType::Master)
            .map_err(|_| FORMS.to_owned())?
            .set_client_to_redis_db(db);
        if is_tls {
            builder = builder.set_client_to_redis_tls_mode(TlsMode::Secure);
        }
        if let Some(username) = &self.username {
            builder = builder.set_client_to_redis_username(username);
        }
        if let Some(password) = &self.password {
            builder = builder.set_client_to_redis_password(password);
        }
        builder.build().map_err(|_| FORMS.to_owned())
    }
}

/// A percent-encoded user or password.
fn decoded(text: &str) -> Result<String, String> {
    let decoded = percent_decode_str(text).decode_utf8();
    Ok(decoded.map_err(|_| "the user and the password of a Redis address are UTF-8".to_owned())?.into_owned())
}

fn host_and_port(text: &str, default_port: u16) -> Result<(&str, u16), String> {
    let (host, port) = match text.rsplit_once(':') {
        // An IPv6 address in brackets without a port.
        Some(_) if text.ends_with(']') => (text, None),
        Some((host, port)) => (host, Some(port)),
        None => (text, None),
    };
    let port = port
        .map_or(Ok(default_port), str::parse)
        .map_err(|_| "a port of a Redis address is no number".to_owned())?;
    if host.is_empty() {
        return Err("a Redis address lacks a host".to_owned());
    }
    Ok((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_forms_of_an_address_are_read() {
        for url in [
            "redis://localhost",
            "redis://user:secret@localhost:7000/3",
            "rediss://localhost",
            "redis+sentinel://a:1,b/shop",
            "redis+sentinel://user:secret@a:1,[::1]:2/shop/4",
            "rediss+sentinel://a/shop",
            "redis+cluster://a:1,b:2,c",
            "rediss+cluster://:secret@a",
        ] {
            assert!(GateAddress::parse(url).is_ok(), "{url}");
        }
    }

    #[test]
    fn a_wrong_address_is_explained_without_its_password() {
        for url in [
            "localhost:6379",
            "postgres://user:secret@localhost",
            "redis+sentinel://user:secret@a:1",
            "redis+sentinel://user:secret@a:1/shop/first",
            "redis+sentinel://user:secret@a:port/shop",
            "redis+cluster://user:secret@a:1/0",
            "redis+cluster://user:secret@",
            "redis://user:secret@host:port",
        ] {
            let error = GateAddress::parse(url).err().unwrap_or_else(|| panic!("{url} is an address"));
            assert!(
                !error.contains("secret") && (error.contains("address") || error.contains("cluster")),
                "{url}: {error}"
            );
        }
    }
}
