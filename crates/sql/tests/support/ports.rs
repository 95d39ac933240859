//! Ports of servers of the tests.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// The first port, and how many there are.
const FIRST_PORT: u16 = 20_000;
const PORTS: u16 = 8_000;

/// A port that nobody listens on and that no other test of this process is given. It is below the ports that systems
/// give to outgoing connections, so no connection takes it before the server listens.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let begin = std::process::id().wrapping_mul(7_919) % u32::from(PORTS);
    for _ in 0..PORTS {
        let number = u32::from(NEXT.fetch_add(1, Ordering::Relaxed)) + begin;
        let port = FIRST_PORT + u16::try_from(number % u32::from(PORTS)).expect("below the number of ports");
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
    panic!("all ports from {FIRST_PORT} on are in use");
}
