//! A proxy that speaks TLS, and asks Kafka's clients who they are, in front of a server that does neither. What passes it is the real
//! protocol of the server.

use super::sasl::{self, Mechanism};
use rustls::ServerConfig;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

/// A proxy in front of a port of this machine.
pub(super) struct TlsProxy {
    pub(super) port: u16,
}

/// What a proxy does with each connection.
#[derive(Clone)]
pub(super) struct Checks {
    /// The server's side of TLS, if it is spoken.
    pub(super) tls: Option<Arc<ServerConfig>>,
    /// How clients of Kafka say who they are, if they have to.
    pub(super) mechanism: Option<Mechanism>,
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

impl TlsProxy {
    pub(super) fn to(target: u16, checks: Checks) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                while let Ok((client, _)) = listener.accept().await {
                    // A connection that is refused, or ends, is the client's affair.
                    tokio::spawn(pass(client, target, checks.clone()));
                }
            });
        });
        Self { port }
    }
}

async fn pass(client: TcpStream, target: u16, checks: Checks) -> io::Result<()> {
    let mut client: Box<dyn Stream> = match checks.tls {
        Some(tls) => Box::new(TlsAcceptor::from(tls).accept(client).await?),
        None => Box::new(client),
    };
    let mut server = TcpStream::connect((Ipv4Addr::LOCALHOST, target)).await?;
    if let Some(mechanism) = checks.mechanism {
        sasl::authenticate(&mut client, &mut server, mechanism).await?;
    }
    copy_bidirectional(&mut client, &mut server).await.map(drop)
}
