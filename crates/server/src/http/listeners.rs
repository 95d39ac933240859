//! The listeners of a server: that of the API, and those that serve one profile alone.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::net::{self, IpAddr};
use std::task::Poll;
use stockhold_api::profiles::Profile;
use tokio::net::TcpListener;

/// The other end of a connection, and the listener that accepted it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer {
    pub(super) address: IpAddr,
    /// The profile that the listener serves alone; `None` for the API's listener.
    pub(super) listener: Option<Profile>,
}

/// The listeners.
pub(crate) struct Listeners {
    all: Vec<(Option<Profile>, TcpListener)>,
    /// The listener that is asked first next time, so that a busy one does not keep the others waiting.
    turn: Cell<usize>,
}

impl Listeners {
    /// The API's listener, and those of profiles.
    pub(crate) fn new(api: TcpListener, profiles: Vec<(Profile, TcpListener)>) -> Self {
        let profiles = profiles.into_iter().map(|(profile, listener)| (Some(profile), listener));
        Self { all: std::iter::once((None, api)).chain(profiles).collect(), turn: Cell::new(0) }
    }

    /// Waits for a connection. It leaves this runtime, so that its readiness is reported on its worker's thread.
    pub(super) async fn accept(&self) -> io::Result<(net::TcpStream, Peer)> {
        let turn = self.turn.get();
        let (accepted, listener) = poll_fn(|context| {
            for number in 0..self.all.len() {
                let place = (turn + number) % self.all.len();
                let Some((listener, socket)) = self.all.get(place) else { continue };
                if let Poll::Ready(accepted) = socket.poll_accept(context) {
                    self.turn.set((place + 1) % self.all.len());
                    return Poll::Ready((accepted, *listener));
                }
            }
            Poll::Pending
        })
        .await;
        let (stream, address) = accepted?;
        Ok((stream.into_std()?, Peer { address: address.ip(), listener }))
    }
}
