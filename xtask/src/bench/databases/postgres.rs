//! PostgreSQL, and pgbench as the rival: prepared statements, pipelined where there are several, by a client in C.

use super::{LONG_WAIT_MILLIS, Rivals, SLOW_CLAIM_MILLIS, Watched, three};
use crate::database::{Account, done, program, until};
use crate::spawn::{Process, free_address};
use crate::{Outcome, fail};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const USER: &str = "stockhold";
/// As it comes, but for memory, and for a checkpoint that would fall into one measurement and not into another.
const SETTINGS: [&str; 6] = [
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "fsync=on",
    "synchronous_commit=on",
    "shared_buffers=256MB",
    "max_wal_size=8GB",
];

const FORMS: [&str; 3] = ["UPDATE … WHERE", "FOR UPDATE", "one statement (CTE)"];

const TABLES: &str = "
CREATE SCHEMA rival;
CREATE TABLE rival.stock (sku text PRIMARY KEY, total bigint NOT NULL, held bigint NOT NULL) WITH (fillfactor = 50);
INSERT INTO rival.stock VALUES ('hot', 1000000000, 0);
CREATE TABLE rival.reservations (id uuid PRIMARY KEY, sku text NOT NULL, owner text NOT NULL, expires_at timestamptz NOT NULL);
CREATE TABLE rival.keys (key text PRIMARY KEY, id uuid NOT NULL)";

/// What a request inserts beside taking its unit. The id is drawn by the server, so that the client has nothing to make up.
const INSERTS: &str = "
INSERT INTO rival.reservations VALUES (md5(:client_id || '-' || :n || '-' || :run)::uuid, 'hot', md5('o' || :n), now() + interval '1800 s');
INSERT INTO rival.keys VALUES (:client_id || '-' || :n || '-' || :run, md5(:client_id || '-' || :n || '-' || :run)::uuid);
";

/// What its log says of a lock that is waited for longer than its limit.
const LONG_WAIT: &str = " still waiting for ";
/// What it says there of a statement that claims units: a line of it that no other has.
const SLOW_CLAIM: &str = "SKIP LOCKED) AS free";

/// A PostgreSQL server under measurement.
pub(crate) struct Postgres {
    binaries: PathBuf,
    account: Account,
    folder: PathBuf,
    port: u16,
    process: Process,
    name: String,
    runs: std::cell::Cell<u64>,
    before: std::cell::Cell<u64>,
    /// What its log had when it was last looked at.
    logged: std::cell::Cell<Watched>,
}

impl Postgres {
    /// That of the machine.
    pub(crate) fn start(folder: &Path) -> Outcome<Self> {
        let packaged = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let mut packaged: Vec<PathBuf> = packaged.map(|entry| entry.path().join("bin")).collect();
        packaged.sort_unstable();
        packaged.reverse();
        let postgres = program("postgres", &packaged)?;
        Self::start_as(&folder.join("postgres"), postgres.parent().unwrap_or(Path::new("/")), &[])
    }

    /// One whose data is in this folder and whose programs are in that directory, with these settings besides.
    pub(super) fn start_as(folder: &Path, binaries: &Path, settings: &[&str]) -> Outcome<Self> {
        let (folder, binaries) = (folder.to_owned(), binaries.to_owned());
        let postgres = binaries.join("postgres");
        let account = Account::named("postgres")?;
        account.folder(&folder)?;
        let data = folder.join("data");
        let mut make = account.command(&binaries.join("initdb"));
        make.args(["--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C"]);
        done(make.arg(format!("--username={USER}")).arg("-D").arg(&data))?;
        let port = free_address()?.port();
        let mut command = account.command(&postgres);
        command.arg("-D").arg(&data).arg("-p").arg(port.to_string());
        for setting in SETTINGS.iter().chain(settings) {
            command.arg("-c").arg(setting);
        }
        let process = Process::start(command, &folder.join("log"))?;
        let name = done(account.command(&postgres).arg("--version"))?;
        let [runs, before] = [0; 2].map(std::cell::Cell::new);
        let logged = std::cell::Cell::default();
        let this = Self { binaries, account, folder, port, process, name, runs, before, logged };
        until("PostgreSQL takes connections", || this.ask("postgres", "SELECT 1").map(|_| true))?;
        this.ask("postgres", &format!("CREATE DATABASE {USER}"))?;
        Ok(this)
    }

    fn client(&self, program: &str, database: &str) -> Command {
        let mut command = self.account.command(&self.binaries.join(program));
        command.args(["-h", "127.0.0.1", "-U", USER, "-p", &self.port.to_string()]);
        if program == "psql" {
            command.args(["-X", "-A", "-t", "-q", "-F", " ", "-v", "ON_ERROR_STOP=1", "-d", database]);
        }
        command
    }

    fn ask(&self, database: &str, query: &str) -> Outcome<String> {
        done(self.client("psql", database).args(["-c", query]))
    }

    /// Statements that can't stand in one transaction.
    fn each(&self, statements: &[&str]) -> Outcome<()> {
        let commands = statements.iter().flat_map(|statement| ["-c", statement]);
        done(self.client("psql", USER).args(commands)).map(drop)
    }

    /// Its port of the loopback interface.
    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Where clients find its database.
    pub(crate) fn client_url(&self) -> String {
        format!("postgres://{USER}@127.0.0.1:{}/{USER}?sslmode=disable", self.port)
    }

    /// Runs statements, and returns what the last one says.
    pub(crate) fn run(&self, statements: &str) -> Outcome<String> {
        self.ask(USER, statements)
    }

    /// Transactions that were committed so far.
    pub(crate) fn transactions(&self) -> Outcome<u64> {
        let query = format!("SELECT xact_commit FROM pg_stat_database WHERE datname = '{USER}'");
        Ok(self.ask("postgres", &query)?.parse()?)
    }

    /// Time that its processes have had of the processors. The time of those that have ended is in that of their parent.
    pub(crate) fn processor_time(&self) -> Outcome<Duration> {
        let parent = self.process.pid();
        let mut ticks = 0;
        for entry in std::fs::read_dir("/proc")?.flatten() {
            // A process may end while it is looked at.
            let Ok(line) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
            let Some((named, rest)) = line.rsplit_once(") ") else { continue };
            let number = |text: &str| text.parse::<u64>().unwrap_or(0);
            let fields: Vec<&str> = rest.split(' ').collect();
            let [_, of, ..] = *fields else { continue };
            let is_parent = named.split(' ').next().is_some_and(|pid| number(pid) == u64::from(parent));
            if is_parent || number(of) == u64::from(parent) {
                // Fields 14 to 17 of proc(5), counted from the state, which is field 3.
                let own = 11..if is_parent { 15 } else { 13 };
                ticks += fields.get(own).unwrap_or_default().iter().map(|text| number(text)).sum::<u64>();
            }
        }
        Ok(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
    }

    fn logged(&self) -> Watched {
        let log = self.process.log();
        let count = |what| log.matches(what).count() as u64;
        Watched { long_waits: count(LONG_WAIT), slow_claims: count(SLOW_CLAIM) }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // It stops what it has started; what is left of it is a temporary folder.
        self.process.terminate().ok();
        self.process.wait(Duration::from_secs(30)).ok();
    }
}

fn script(form: &str) -> Outcome<String> {
    let counted = "\\set n random(1, 9000000000000000)\n";
    let pipelined = |statements: &str| {
        format!("{counted}\\startpipeline\nBEGIN;\n{statements}{INSERTS}COMMIT;\n\\endpipeline\n")
    };
    let take = "UPDATE rival.stock SET held = held + 1 WHERE sku = 'hot' AND held < total;";
    if form == FORMS[0] {
        return Ok(pipelined(take));
    }
    if form == FORMS[1] {
        return Ok(pipelined(&format!(
            "SELECT held, total FROM rival.stock WHERE sku = 'hot' FOR UPDATE;\n{take}"
        )));
    }
    if form == FORMS[2] {
        return Ok(format!(
            "{counted}WITH taken AS (
                UPDATE rival.stock SET held = held + 1 WHERE sku = 'hot' AND held < total RETURNING sku
            ), made AS (
                INSERT INTO rival.reservations
                SELECT md5(:client_id || '-' || :n || '-' || :run)::uuid, sku, md5('o' || :n), now() + interval '1800 s' FROM taken
                RETURNING id
            ) INSERT INTO rival.keys SELECT :client_id || '-' || :n || '-' || :run, id FROM made;\n"
        ));
    }
    fail(format!("no such form: {form}"))
}

impl Rivals for Postgres {
    fn name(&self) -> &str {
        &self.name
    }

    fn url(&self) -> String {
        self.client_url()
    }

    fn prepare(&self, closed: u64) -> Outcome<()> {
        self.before.set(closed);
        self.ask(
            USER,
            &format!(
                "{TABLES};
                 INSERT INTO rival.reservations SELECT md5('c' || n)::uuid, 'old', md5('o' || n), now() FROM generate_series(1, {closed}) n;
                 INSERT INTO rival.keys SELECT 'c' || n, md5('c' || n)::uuid FROM generate_series(1, {closed}) n;
                 ANALYZE"
            ),
        )
        .map(drop)
    }

    fn forms(&self) -> &'static [&'static str] {
        &FORMS
    }

    fn procedures(&self) -> &'static [&'static str] {
        &[]
    }

    fn measure(&self, form: &str, connections: usize, seconds: u64) -> Outcome<f64> {
        let run = self.runs.get() + 1;
        self.runs.set(run);
        let file = self.folder.join(format!("rival-{run}.sql"));
        std::fs::write(&file, script(form)?)?;
        let mut bench = self.client("pgbench", USER);
        bench.args(["-n", "-M", "prepared", "-c", &connections.to_string(), "-j", "1"]);
        bench.args(["-T", &seconds.to_string(), "-D", &format!("run={run}"), "-f"]).arg(&file).arg(USER);
        let said = done(&mut bench)?;
        let failed = said.lines().find_map(|line| line.strip_prefix("number of failed transactions: "));
        if failed.is_some_and(|failed| !failed.starts_with("0 ")) {
            return fail(format!("void: {said}"));
        }
        let rate = said.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok());
        rate.ok_or_else(|| format!("pgbench says no rate: {said}").into())
    }

    fn made(&self) -> Outcome<[u64; 3]> {
        let query = "SELECT (SELECT held FROM rival.stock), (SELECT count(*) FROM rival.reservations), \
                     (SELECT count(*) FROM rival.keys)";
        let [held, reservations, keys] = three(&self.ask(USER, query)?)?;
        Ok([held, reservations - self.before.get(), keys - self.before.get()])
    }

    fn settle(&self) -> Outcome<()> {
        self.each(&["VACUUM ANALYZE"])
    }

    fn watch(&self) -> Outcome<()> {
        self.logged.set(self.logged());
        self.each(&[
            "ALTER SYSTEM SET log_lock_waits = on",
            &format!("ALTER SYSTEM SET deadlock_timeout = '{LONG_WAIT_MILLIS}ms'"),
            &format!("ALTER SYSTEM SET log_min_duration_statement = '{SLOW_CLAIM_MILLIS}ms'"),
            "ALTER SYSTEM SET log_parameter_max_length = 0",
            "SELECT pg_reload_conf()",
        ])
    }

    fn watched(&self) -> Outcome<Watched> {
        self.each(&["ALTER SYSTEM RESET ALL", "SELECT pg_reload_conf()"])?;
        let (before, now) = (self.logged.get(), self.logged());
        Ok(Watched {
            long_waits: now.long_waits - before.long_waits,
            slow_claims: now.slow_claims - before.slow_claims,
        })
    }
}
