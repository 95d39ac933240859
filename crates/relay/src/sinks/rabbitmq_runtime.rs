//! What the client of `RabbitMQ` runs on: tokio, with sockets that may have TLS. The client's own TLS trusts the system's certificates
//! besides those of the file.

use async_rs::traits::Reactor;
use async_rs::util::RuntimeParts;
use async_rs::{Runtime, Tokio};
use futures_core::Stream;
use futures_io::{AsyncRead, AsyncWrite};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};
use tokio::net::{TcpStream, ToSocketAddrs};
use tokio_rustls::client::TlsStream;
use tokio_util::compat::{Compat, TokioAsyncReadCompatExt};
use tokio_util::either::Either;

/// The runtime of the caller.
pub(super) fn runtime() -> Runtime<RuntimeParts<Tokio, TlsReactor>> {
    Runtime::new(RuntimeParts::new(Tokio::current(), TlsReactor(Tokio::current())))
}

/// A connected socket.
pub(super) async fn connect(address: impl ToSocketAddrs) -> io::Result<TcpStream> {
    let socket = TcpStream::connect(address).await?;
    socket.set_nodelay(true)?;
    Ok(socket)
}

/// That of tokio, but for the type of a stream, which may have TLS.
#[derive(Clone, Debug)]
pub(super) struct TlsReactor(Tokio);

impl Reactor for TlsReactor {
    type TcpStream = Compat<Either<TcpStream, Box<TlsStream<TcpStream>>>>;
    type Sleep = <Tokio as Reactor>::Sleep;

    fn register<H: Read + Write + AsFd + AsRawFd + Send + 'static>(
        &self,
        socket: H,
    ) -> io::Result<impl AsyncRead + AsyncWrite + Send + Unpin + 'static> {
        self.0.register(socket)
    }

    fn sleep(&self, duration: Duration) -> Self::Sleep {
        self.0.sleep(duration)
    }

    fn interval(&self, duration: Duration) -> impl Stream<Item = Instant> + Send + 'static {
        self.0.interval(duration)
    }

    #[expect(
        clippy::manual_async_fn,
        reason = "an async fn would borrow the reactor, and the future may not"
    )]
    fn tcp_connect_addr(
        &self,
        address: SocketAddr,
    ) -> impl Future<Output = io::Result<Self::TcpStream>> + Send + 'static {
        async move { Ok(Either::Left(connect(address).await?).compat()) }
    }
}
