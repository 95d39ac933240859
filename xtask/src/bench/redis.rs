//! The baseline: a Redis server of its own on a private port, started fresh for each run.

use crate::clock::wall_millis;
use crate::load::resp::{Calls, DUE_KEY, SCRIPT, STOCK_KEY, command};
use crate::load::{Plan, Run, SERVER_CPU, closed};
use crate::rng::Rng;
use crate::spawn::{Process, START_TIMEOUT, free_address, pinned};
use crate::{Outcome, fail};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

/// Connections that the baseline is driven with.
const CONNECTIONS: usize = 50;

/// Whether the baseline survives a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Persistence {
    Off,
    Always,
}

/// Measures the reserve script on a fresh server and audits it.
pub(super) fn measure(
    folder: &Path,
    persistence: Persistence,
    stock: u64,
    ttl: u64,
    plan: Plan,
    seed: u64,
) -> Outcome<Run> {
    let folder = tempfile::tempdir_in(folder)?;
    let server = Redis::start(folder.path(), persistence)?;
    let mut client = server.client()?;
    client.call(&["SET", STOCK_KEY, &stock.to_string()])?;
    let sha = client.call(&["SCRIPT", "LOAD", SCRIPT])?;
    let mut calls = Calls::new(&sha, ttl, wall_millis(), Rng::new(seed));
    let run = closed(server.address, CONNECTIONS, plan, Some(server.process.pid()), &mut calls)?;

    let left = client.call(&["GET", STOCK_KEY])?;
    let holds = client.call(&["ZCARD", DUE_KEY])?;
    if left != (stock - run.answered).to_string() || holds != run.answered.to_string() {
        return fail(format!("Redis: {} answers, but {left} of {stock} left, {holds} holds", run.answered));
    }
    Ok(run)
}

/// The version of the server, as it says it.
pub(super) fn version() -> Outcome<String> {
    let output = std::process::Command::new("redis-server").arg("--version").output();
    let output = output.map_err(|error| format!("the baseline needs redis-server: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text.split_whitespace().find_map(|word| word.strip_prefix("v="));
    Ok(version.unwrap_or("of unknown version").to_owned())
}

struct Redis {
    process: Process,
    address: SocketAddr,
}

impl Redis {
    fn start(folder: &Path, persistence: Persistence) -> Outcome<Self> {
        let address = free_address()?;
        let mut command = pinned(Path::new("redis-server"), Some(SERVER_CPU));
        command.args(["--bind", "127.0.0.1", "--port", &address.port().to_string()]);
        command.arg("--dir").arg(folder);
        // No snapshots, and no rewriting of the log in the middle of a measurement: both would only slow it down.
        command.args(["--save", "", "--auto-aof-rewrite-percentage", "0"]);
        match persistence {
            Persistence::Off => command.args(["--appendonly", "no"]),
            Persistence::Always => command.args(["--appendonly", "yes", "--appendfsync", "always"]),
        };
        let process = Process::start(command, &folder.join("redis.log"))?;
        let mut redis = Self { process, address };
        let deadline = Instant::now() + START_TIMEOUT;
        while Instant::now() < deadline {
            if redis.client().and_then(|mut client| client.call(&["PING"])).is_ok_and(|pong| pong == "PONG") {
                return Ok(redis);
            }
            if let Some(status) = redis.process.ended()? {
                return fail(format!("redis-server ended: {status}\n{}", redis.process.log_tail()));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        fail("redis-server does not answer")
    }

    fn client(&self) -> Outcome<Client> {
        Ok(Client(BufReader::new(TcpStream::connect(self.address)?)))
    }
}

/// A connection for what is not measured.
struct Client(BufReader<TcpStream>);

impl Client {
    fn call(&mut self, parts: &[&str]) -> Outcome<String> {
        self.0.get_mut().write_all(&command(parts))?;
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        let line = line.trim_end();
        match line.split_at_checked(1) {
            Some(("+" | ":", rest)) => Ok(rest.to_owned()),
            Some(("$", length)) => {
                let mut text = vec![0; length.parse::<usize>()? + 2];
                self.0.read_exact(&mut text)?;
                Ok(String::from_utf8_lossy(&text).trim_end().to_owned())
            }
            _ => fail(format!("Redis said {line:?}")),
        }
    }
}
