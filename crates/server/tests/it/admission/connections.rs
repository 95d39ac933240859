//! More connections than there may be.

use crate::api::wire::{Call, Wire};
use crate::support::{free_port, stockhold, wait_for};
use crate::tls_support::TlsServer;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Open files of the server, and the connections that are left of them.
const FILES: usize = 256;
const CONNECTIONS: usize = 128;
const ADMIN_CONNECTIONS: usize = 64;

/// A server that may open few files, killed when dropped.
struct Cramped {
    child: Child,
    ports: [u16; 2],
    _dir: TempDir,
}

impl Cramped {
    fn start() -> Self {
        let dir = TempDir::new().unwrap();
        let ports = [free_port(), free_port()];
        let serve = stockhold(dir.path());
        let program = serve.get_program().to_str().unwrap();
        let run = format!(
            "ulimit -n {FILES}; exec {program} serve --listen=127.0.0.1:{} --admin-listen=127.0.0.1:{} --data-dir=data",
            ports[0], ports[1]
        );
        let mut shell = Command::new("sh");
        shell.args(["-c", &run]).current_dir(dir.path()).env_clear().stderr(std::process::Stdio::null());
        let server = Self { child: shell.spawn().unwrap(), ports, _dir: dir };
        wait_for("the server to be ready", || {
            std::net::TcpStream::connect(server.at(1)).ok()?;
            (Wire::connect(server.at(1)).ask_elsewhere(&Call::get("/readyz")).status == 200).then_some(())
        });
        server
    }

    fn at(&self, listener: usize) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.ports[listener]))
    }

    fn connect(&self) -> Wire {
        Wire::connect(self.at(0))
    }

    fn ask_admin(&self, path: &str) -> u16 {
        Wire::connect(self.at(1)).ask_elsewhere(&Call::get(path)).status
    }
}

impl Drop for Cramped {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn idle_connections_do_not_silence_the_admin_listener() {
    let server = Cramped::start();
    let mut idle: Vec<_> = (0..ADMIN_CONNECTIONS).map(|_| Wire::connect(server.at(1))).collect();
    for path in ["/livez", "/readyz", "/metrics"].repeat(4) {
        assert_eq!(server.ask_admin(path), 200, "{path}");
    }
    assert!(idle[0].is_closed(), "the oldest gave way");
    // One that is used is younger than one that is not.
    let mut used = Wire::connect(server.at(1));
    for _ in 0..2 * ADMIN_CONNECTIONS {
        idle.push(Wire::connect(server.at(1)));
        assert_eq!(used.ask_elsewhere(&Call::get("/livez")).status, 200);
    }
}

/// Over TLS, where another part of the server reads, and also behind a request that was answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_that_has_begun_has_to_end() {
    let tls = TlsServer::start();
    let config = tls.client_config(rustls::ALL_VERSIONS, None, &["http/1.1"]);
    let mut late = Vec::new();
    for before in ["", "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n"] {
        let mut stream = tls.handshake(&config).await.unwrap();
        stream.write_all(before.as_bytes()).await.unwrap();
        let mut read = Vec::new();
        while !before.is_empty() && !read.ends_with(b"\r\n\r\n") {
            stream.read_buf(&mut read).await.unwrap();
        }
        stream.write_all(b"GET / HTTP/1.1\r\nHost: ").await.unwrap();
        late.push(stream);
    }
    for mut stream in late {
        let mut answer = Vec::new();
        // The connection may end without TLS's own message of its end.
        let _ = stream.read_to_end(&mut answer).await;
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.contains("408 Request Timeout") && answer.contains("request_timeout"), "{answer}");
    }
}

#[test]
fn the_oldest_idle_connection_gives_way() {
    let server = Cramped::start();
    let mut idle: Vec<_> = (0..CONNECTIONS).map(|_| server.connect()).collect();
    // Half of a head is no request.
    for wire in &mut idle[1..40] {
        wire.send(b"GET / HTTP/1.1\r\n");
    }
    let mut used = server.connect();
    assert_eq!(used.ask(&Call::get("/")).status, 200);
    assert!(idle[0].is_closed(), "the oldest gave way");
    for _ in 0..3 * CONNECTIONS {
        idle.push(server.connect());
        assert_eq!(used.ask(&Call::get("/v1/inventory")).status, 200);
    }
    assert_eq!(server.ask_admin("/readyz"), 200);
}
