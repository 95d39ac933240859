//! TLS of the API: the certificate in force, and the handshake of each connection. After it, hyper serves the connection: the
//! fast path is for plain TCP.

mod handshakes;
mod reload;

use super::admission::bounds::{HANDSHAKE_TIMEOUT, UNFINISHED_HANDSHAKES};
use super::admission::connections::Connection;
use super::closing::reject_connection;
use super::listeners::Peer;
use super::worker::{CountGuard, Worker};
use super::{general_path, http2_path};
use handshakes::Handshakes;
use std::io::{self, ErrorKind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use stockhold_api::problem::Problem;
use stockhold_config::{TlsFiles, TlsPaths};
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::server::TlsStream;

/// Handshakes that failed.
pub(super) const FAILED: &str = "stockhold_tls_handshakes_failed_total";
const PLAIN_HTTP: &str = "is plain HTTP, and this port speaks HTTPS only: write https:// in the address";
/// The name of HTTP/2 in the negotiation of protocols.
const HTTP2: &[u8] = b"h2";

/// The certificate in force, and the handshakes with it.
#[derive(Debug)]
pub(crate) struct Tls {
    paths: TlsPaths,
    /// For handshakes that begin from now on.
    config: watch::Sender<Arc<ServerConfig>>,
    handshakes: Handshakes,
    /// Somebody asks for the files to be read.
    reload: Notify,
}

/// How a connection begins.
enum Beginning {
    Tls(Box<TlsStream<TcpStream>>),
    PlainHttp(TcpStream),
    /// The client has closed it before it sent anything, as checks of load balancers do.
    Nothing,
}

impl Tls {
    /// Reads the files. They are those in force until [`Tls::watch_files`] finds others.
    pub(crate) fn load(paths: TlsPaths) -> Result<(Self, TlsFiles), String> {
        let files = paths.read()?;
        let config = watch::Sender::new(paths.server_config(&files)?);
        let most = UNFINISHED_HANDSHAKES.min(super::most_connections() / 2);
        Ok((Self { paths, config, handshakes: Handshakes::new(most), reload: Notify::new() }, files))
    }

    async fn begin(&self, stream: TcpStream) -> io::Result<Beginning> {
        let mut first = [0];
        // A handshake begins with a record of its own type, 22. A method is letters.
        match stream.peek(&mut first).await? {
            0 => return Ok(Beginning::Nothing),
            _ if first[0].is_ascii_alphabetic() => return Ok(Beginning::PlainHttp(stream)),
            _ => {}
        }
        let config = Arc::clone(&self.config.borrow());
        Ok(Beginning::Tls(Box::new(TlsAcceptor::from(config).accept(stream).await?)))
    }
}

/// Serves a connection until the client or the server ends it.
pub(super) async fn serve_connection(
    worker: Rc<Worker>,
    stream: TcpStream,
    peer: Peer,
    connection: Rc<Connection>,
    mut stop: watch::Receiver<bool>,
    slow: Arc<AtomicUsize>,
    tls: Arc<Tls>,
) {
    let mut handshake = tls.handshakes.begin();
    let begun = tokio::select! {
        begun = timeout(HANDSHAKE_TIMEOUT, Box::pin(tls.begin(stream))) => {
            begun.unwrap_or_else(|_| Err(io::Error::new(ErrorKind::TimedOut, "it took too long")))
        }
        () = handshake.closed() => Err(io::Error::other("too many have begun since and are not finished")),
        _ = stop.wait_for(|stop| *stop) => return,
    };
    drop(handshake);
    let stream = match begun {
        Ok(Beginning::Tls(stream)) => stream,
        Ok(Beginning::Nothing) => return,
        Ok(Beginning::PlainHttp(stream)) => {
            failed("the client speaks plain HTTP");
            return Box::pin(reject_connection(&worker, stream, peer, &Problem::unreadable(PLAIN_HTTP)))
                .await;
        }
        Err(error) => return failed(&error.to_string()),
    };
    let busy = CountGuard::new(&slow);
    if peer.is_grpc || stream.get_ref().1.alpn_protocol() == Some(HTTP2) {
        Box::pin(http2_path::serve_connection(worker, stream, peer, connection, stop)).await;
    } else {
        Box::pin(general_path::serve_connection(worker, Vec::new(), stream, peer, connection, stop)).await;
    }
    drop(busy);
}

fn failed(why: &str) {
    metrics::counter!(FAILED).increment(1);
    tracing::debug!(why, "a TLS handshake failed");
}
