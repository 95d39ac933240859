//! Checks the two addresses: whether they are free, and which server answers.

use super::{Finding, look, ok, wrong};
use crate::admin::{AdminClient, ServerInfo};
use crate::credentials;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroU32;
use std::time::Duration;
use stockhold_api::client::{Client, Error};
use stockhold_config::Config;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// What a server says that is ready, and has nothing to add.
const READY: &str = "ready";
/// Beginning of the API's index page.
const OURS: &str = "Stockhold";

pub(super) async fn check(config: &Config) -> Vec<Finding> {
    let (api, admin) = (state(config.listen), state(config.admin_listen));
    let mut findings = Vec::new();
    match &api {
        PortState::Free => {
            findings.push(ok("api port", format!("{} is free: no server is running there", config.listen)));
        }
        PortState::Taken => findings.push(api_port(config).await),
        PortState::Impossible(why) => findings.push(impossible("api port", config.listen, why)),
    }
    match &admin {
        PortState::Free if matches!(api, PortState::Free) => {
            findings.push(ok("admin port", format!("{} is free", config.admin_listen)));
        }
        PortState::Free => findings.push(look(
            "admin port",
            format!("nothing listens on {}, but the API's port is in use", config.admin_listen),
            "if the server has another --admin-listen, give it here too",
        )),
        PortState::Taken => findings.extend(running(config).await),
        PortState::Impossible(why) => findings.push(impossible("admin port", config.admin_listen, why)),
    }
    findings
}

/// Whether an address can be listened on.
enum PortState {
    Free,
    Taken,
    Impossible(String),
}

fn state(address: SocketAddr) -> PortState {
    match TcpListener::bind(address) {
        Ok(_) => PortState::Free,
        Err(error) if error.kind() == ErrorKind::AddrInUse => PortState::Taken,
        Err(error) => PortState::Impossible(error.to_string()),
    }
}

fn impossible(check: &'static str, address: SocketAddr, why: &str) -> Finding {
    wrong(
        check,
        format!("{address} can't be listened on: {why}"),
        "choose an address of this machine and a port above 1023",
    )
}

async fn get(url: &str, path: &str) -> Result<(u16, String), Error> {
    let client = Client::with_access(url, &credentials::certificates())?;
    let raw = client.with_patience(NonZeroU32::MIN, PATIENCE).send_raw("GET", path, b"").await?;
    Ok((raw.status, String::from_utf8_lossy(&raw.body).trim().to_owned()))
}

/// Checks who answers where the API should be.
async fn api_port(config: &Config) -> Finding {
    let address = config.listen;
    match get(&format!("{}://{address}", config.scheme()), "/").await {
        Ok((200, page)) if page.starts_with(OURS) => {
            ok("api port", format!("a Stockhold answers on {address}"))
        }
        Err(Error::Tls(why)) => look(
            "api port",
            format!("a program listens on {address}, and there is no connection with TLS: {why}"),
            format!("a certificate that is for a name only is refused here; {}", credentials::TLS_ADVICE),
        ),
        _ => wrong(
            "api port",
            format!("another program listens on {address}"),
            format!("find it with `ss -ltnp 'sport = :{}'`, or choose another --listen", address.port()),
        ),
    }
}

/// Checks the files of TLS, if there are any.
pub(super) fn certificate(config: &Config) -> Option<Finding> {
    let paths = config.tls()?;
    Some(match paths.read().and_then(|files| paths.server_config(&files)) {
        Ok(_) => ok("tls", "the certificate and the key can be used"),
        Err(why) => {
            wrong("tls", why, "correct the file: a server that runs keeps the last good one, and none starts")
        }
    })
}

/// Checks the server behind the admin listener.
async fn running(config: &Config) -> Vec<Finding> {
    let address = config.admin_listen;
    let mut findings = Vec::new();
    match get(&format!("http://{address}"), "/readyz").await {
        Ok((200, text)) if text == READY => {
            findings.push(ok("ready", format!("the server on {address} is ready")));
        }
        Ok((200, text)) => findings.push(look("ready", text, "docs/operating.md says what it means")),
        Ok((503, why)) => {
            let advice = "its log says more; a restart recovers a store that failed";
            findings.push(wrong("ready", why, advice));
        }
        _ => {
            let says = format!("another program listens on {address}, or the server does not answer");
            let advice = format!(
                "find it with `ss -ltnp 'sport = :{}'`, or choose another --admin-listen",
                address.port()
            );
            findings.push(wrong("admin port", says, advice));
            return findings;
        }
    }
    let info = match AdminClient::new(&format!("http://{address}")) {
        Some(side) => side.scrape().await.and_then(|scrape| scrape.info()),
        None => None,
    };
    let own = env!("CARGO_PKG_VERSION");
    match info {
        Some(ServerInfo { version, .. }) if version != own => findings.push(look(
            "running",
            format!("the server is version {version}, this is {own}"),
            "restart it to run the new version",
        )),
        Some(ServerInfo { version, store, durability, .. }) => {
            findings
                .push(ok("running", format!("version {version}, store {store}, durability {durability}")));
        }
        None => {
            findings.push(look(
                "running",
                "the server does not report its version",
                "is it an older version?",
            ));
        }
    }
    findings
}
