//! The listeners of a server: that of the API, and those that serve one profile or gRPC alone.

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
    /// Whether the listener serves gRPC alone.
    pub(super) is_grpc: bool,
}

/// What a listener serves.
#[derive(Clone, Copy, Debug)]
enum Service {
    /// All of the API.
    Api,
    /// One profile alone.
    Profile(Profile),
    /// gRPC alone.
    Grpc,
}

/// The listeners.
pub(crate) struct Listeners {
    all: Vec<(Service, TcpListener)>,
    /// The listener that is asked first next time, so that a busy one does not keep the others waiting.
    turn: Cell<usize>,
}

impl Listeners {
    /// The API's listener, those of profiles, and that of gRPC.
    pub(crate) fn new(
        api: TcpListener,
        profiles: Vec<(Profile, TcpListener)>,
        grpc: Option<TcpListener>,
    ) -> Self {
        let profiles = profiles.into_iter().map(|(profile, listener)| (Service::Profile(profile), listener));
        let grpc = grpc.map(|listener| (Service::Grpc, listener));
        let all = std::iter::once((Service::Api, api)).chain(profiles).chain(grpc).collect();
        Self { all, turn: Cell::new(0) }
    }

    /// Waits for a connection. It leaves this runtime, so that its readiness is reported on its worker's thread.
    pub(super) async fn accept(&self) -> io::Result<(net::TcpStream, Peer)> {
        let turn = self.turn.get();
        let (accepted, service) = poll_fn(|context| {
            for number in 0..self.all.len() {
                let place = (turn + number) % self.all.len();
                let Some((service, socket)) = self.all.get(place) else { continue };
                if let Poll::Ready(accepted) = socket.poll_accept(context) {
                    self.turn.set((place + 1) % self.all.len());
                    return Poll::Ready((accepted, *service));
                }
            }
            Poll::Pending
        })
        .await;
        let (stream, address) = accepted?;
        let (listener, is_grpc) = match service {
            Service::Api => (None, false),
            Service::Profile(profile) => (Some(profile), false),
            Service::Grpc => (None, true),
        };
        Ok((stream.into_std()?, Peer { address: address.ip(), listener, is_grpc }))
    }
}
