//! The server that is measured, and connections to it.

use crate::client::CallError;
use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::HeaderValue;
use hyper_util::rt::TokioIo;
use stockhold_api::client::ClientAccess;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

/// A connection that requests are sent on.
pub(super) type Connection = SendRequest<Full<Bytes>>;

/// The server that is measured.
#[derive(Clone)]
pub(super) struct BenchTarget {
    /// Host and port.
    pub(super) authority: String,
    /// Beginning of all paths.
    pub(super) prefix: String,
    pub(super) authorization: Option<HeaderValue>,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl BenchTarget {
    pub(super) fn new(url: &str, access: &ClientAccess) -> Result<Self, CallError> {
        let wrong = |what: String| CallError::Unexpected(format!("{url}: {what}"));
        let uri: hyper::Uri = url.parse().map_err(|error| wrong(format!("{error}")))?;
        let host = uri.host().unwrap_or_default();
        let tls = if uri.scheme_str() == Some("https") {
            let name = host.trim_start_matches('[').trim_end_matches(']').to_owned();
            let name = ServerName::try_from(name).map_err(|error| wrong(error.to_string()))?;
            Some((TlsConnector::from(access.tls()?), name))
        } else {
            None
        };
        let port = uri.port_u16().unwrap_or(if tls.is_some() { 443 } else { 80 });
        Ok(Self {
            authority: format!("{host}:{port}"),
            prefix: uri.path().trim_end_matches('/').to_owned(),
            authorization: access.authorization().cloned(),
            tls,
        })
    }

    /// Opens a connection. Its other half is a task of this thread.
    pub(super) async fn connect(&self) -> Result<Connection, String> {
        let stream = TcpStream::connect(&self.authority).await.map_err(|error| error.to_string())?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        match &self.tls {
            None => begin(stream).await,
            Some((tls, name)) => {
                let stream = Box::pin(tls.connect(name.clone(), stream)).await;
                begin(Box::new(stream.map_err(|error| error.to_string())?)).await
            }
        }
    }
}

async fn begin(stream: impl AsyncRead + AsyncWrite + Unpin + 'static) -> Result<Connection, String> {
    let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    tokio::task::spawn_local(async move {
        // The sender gets the error.
        let _ = connection.await;
    });
    Ok(sender)
}
