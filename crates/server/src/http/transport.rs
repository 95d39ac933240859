//! What a connection runs over: TCP, or TLS over TCP.

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// A stream of bytes to a client.
pub(super) trait Transport: AsyncRead + AsyncWrite + Unpin {
    /// The TCP connection below. What TLS has not sent is lost.
    fn into_tcp(self) -> TcpStream;
}

impl Transport for TcpStream {
    fn into_tcp(self) -> TcpStream {
        self
    }
}

impl Transport for Box<TlsStream<TcpStream>> {
    fn into_tcp(self) -> TcpStream {
        self.into_inner().0
    }
}
