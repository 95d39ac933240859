//! The baseline: a Redis server of its own on a private port, started fresh for each run.

use super::base::{self, Contents};
use super::lab::Lab;
use crate::clock::wall_millis;
use crate::load::resp::{BARE, Calls, DUE_KEY, KEYED, STOCK_KEY, command};
use crate::load::{Plan, Run, SERVER_CPU, closed};
use crate::rng::Rng;
use crate::spawn::{Process, START_TIMEOUT, free_address, pinned};
use crate::{Outcome, fail};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

/// Connections that the baseline is driven with.
const CONNECTIONS: usize = 50;

/// The file that Redis reads at its start.
const DUMP: &str = "dump.rdb";
/// What Redis says when nothing of the log's beginning is left to do.
const LOG_IS_BEGUN: &str = "aof_rewrite_in_progress:0\r\naof_rewrite_scheduled:0";
/// Holds or keys that one call makes.
const FILLED_TOGETHER: usize = 10_000;
/// Holds `ARGV[1]` to `ARGV[2]`, those with even numbers on the hot SKU.
const FILL_HOLDS: &str = "\
for n = ARGV[1], ARGV[2] - 1 do
  local id = string.format('%08x-%04x-4000-8000-%012x', n * 40503 % 4294967296, n % 65536, n)
  local due = KEYS[1]
  if n % 2 == 1 then due = 'due:cold-' .. n % ARGV[5] end
  redis.call('HSET', 'hold:' .. id, 'owner', id, 'quantity', 1, 'status', 'active')
  redis.call('PEXPIRE', 'hold:' .. id, ARGV[3])
  redis.call('ZADD', due, ARGV[4], 'hold:' .. id)
end
return 0";
/// Keys `ARGV[1]` to `ARGV[2]`.
const FILL_KEYS: &str = "\
for n = ARGV[1], ARGV[2] - 1 do
  local id = string.format('%08x-%04x-4000-8000-%012x', n * 40503 % 4294967296, n % 65536, n)
  redis.call('SET', 'key:' .. id, 'hold:' .. id, 'PX', ARGV[3])
end
return 0";

/// Whether the baseline survives a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Persistence {
    Off,
    Always,
}

/// What the baseline does, and on what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RedisScript {
    /// With an idempotency key, on as many holds and keys as the server under measurement has.
    Keyed(Contents),
    /// Without keys, on an empty server.
    Bare,
}

/// Measures a reserve script on a fresh server and audits it.
pub(super) fn measure(
    lab: &Lab,
    (persistence, script): (Persistence, RedisScript),
    ttl: u64,
    plan: Plan,
    seed: u64,
) -> Outcome<Run> {
    let folder = tempfile::tempdir_in(&lab.folder)?;
    let (keyed, text, held) = match script {
        RedisScript::Keyed(contents) => {
            let data = lab.bases.redis(contents, |folder| fill(folder, contents))?;
            std::fs::copy(data.join(DUMP), folder.path().join(DUMP))?;
            (true, KEYED, contents.active.div_ceil(2))
        }
        RedisScript::Bare => (false, BARE, 0),
    };
    let server = Redis::start(folder.path())?;
    let mut client = server.client()?;
    if persistence == Persistence::Always {
        client.call(&["CONFIG", "SET", "appendonly", "yes"])?;
        // The log begins with all existing data.
        while !client.call(&["INFO", "persistence"])?.contains(LOG_IS_BEGUN) {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    client.call(&["SET", STOCK_KEY, &base::STOCK.to_string()])?;
    let sha = client.call(&["SCRIPT", "LOAD", text])?;
    let mut calls = Calls::new(&sha, keyed, ttl, wall_millis(), Rng::new(seed));
    let run = closed(server.address, CONNECTIONS, plan, Some(server.process.pid()), &mut calls)?;

    let left = client.call(&["GET", STOCK_KEY])?;
    let holds = client.call(&["ZCARD", DUE_KEY])?;
    let answered = run.answered;
    if left != (base::STOCK - answered).to_string() || holds != (held + answered).to_string() {
        return fail(format!("Redis: {answered} answers, but {left} of {} left, {holds} holds", base::STOCK));
    }
    Ok(run)
}

/// Makes the holds and keys that a server has before anything is measured, half of the holds on the hot SKU, and writes
/// them into a file.
fn fill(folder: &Path, contents: Contents) -> Outcome<()> {
    let server = Redis::start(folder)?;
    let mut client = server.client()?;
    let ttl = (base::PREPARED_TTL_SECONDS * 1_000).to_string();
    let due = (wall_millis() + base::PREPARED_TTL_SECONDS * 1_000).to_string();
    let items = contents.items.to_string();
    for (script, count) in [(FILL_HOLDS, contents.active), (FILL_KEYS, contents.keys)] {
        for from in (0..count).step_by(FILLED_TOGETHER) {
            let to = count.min(from + FILLED_TOGETHER as u64);
            let (from, to) = (from.to_string(), to.to_string());
            client.call(&["EVAL", script, "1", DUE_KEY, &from, &to, &ttl, &due, &items])?;
        }
    }
    client.call(&["SAVE"])?;
    Ok(())
}

/// The version of the server, as it says it.
pub(super) fn version() -> Outcome<String> {
    let output = std::process::Command::new("redis-server").arg("--version").output();
    let output = output.map_err(|error| format!("the baseline needs redis-server: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text.split_whitespace().find_map(|word| word.strip_prefix("v="));
    Ok(version.unwrap_or("of unknown version").to_owned())
}

/// A Redis server.
pub(super) struct Redis {
    process: Process,
    pub(super) address: SocketAddr,
}

impl Redis {
    pub(super) fn start(folder: &Path) -> Outcome<Self> {
        let address = free_address()?;
        let mut command = pinned(Path::new("redis-server"), Some(SERVER_CPU));
        command.args(["--bind", "127.0.0.1", "--port", &address.port().to_string()]);
        command.arg("--dir").arg(folder);
        // No snapshots, and no rewriting of the log in the middle of a measurement: both would only slow it down.
        command.args(["--save", "", "--auto-aof-rewrite-percentage", "0"]);
        // The existing data is read from a dump; the log begins after it.
        command.args(["--appendonly", "no", "--appendfsync", "always", "--dbfilename", DUMP]);
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

    /// The newest call of a script that it saw while `act` ran, with all of its arguments.
    pub(super) fn slow_script(&self, act: impl FnOnce() -> Outcome<()>) -> Outcome<Vec<String>> {
        let mut client = self.client()?;
        client.call(&["CONFIG", "SET", "slowlog-log-slower-than", "0"])?;
        client.call(&["SLOWLOG", "RESET"])?;
        act()?;
        client.0.get_mut().write_all(&command(&["SLOWLOG", "GET", "100"]))?;
        let found = client.value()?;
        client.call(&["CONFIG", "SET", "slowlog-log-slower-than", "-1"])?;
        let entries = found.as_array().into_iter().flatten();
        let calls = entries.filter_map(|entry| entry[3].as_array());
        let texts =
            calls.map(|call| call.iter().filter_map(|part| part.as_str().map(str::to_owned)).collect());
        let mut scripts = texts.filter(|call: &Vec<String>| call[0].eq_ignore_ascii_case("EVALSHA"));
        scripts.next().ok_or_else(|| format!("no script was called: {found}").into())
    }

    fn client(&self) -> Outcome<Client> {
        Ok(Client(BufReader::new(TcpStream::connect(self.address)?)))
    }
}

/// A connection for what is not measured.
struct Client(BufReader<TcpStream>);

impl Client {
    /// An answer of any shape.
    fn value(&mut self) -> Outcome<Value> {
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        let line = line.trim_end();
        Ok(match line.split_at_checked(1) {
            Some(("+", rest)) => rest.into(),
            Some((":", rest)) => rest.parse::<i64>()?.into(),
            Some(("$", length)) => {
                let mut text = vec![0; length.parse::<usize>()? + 2];
                self.0.read_exact(&mut text)?;
                String::from_utf8_lossy(&text[..text.len() - 2]).into()
            }
            Some(("*", count)) => {
                (0..count.parse::<usize>()?).map(|_| self.value()).collect::<Outcome<Vec<_>>>()?.into()
            }
            _ => return fail(format!("Redis said {line:?}")),
        })
    }

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
