//! MariaDB, and mariadb-slap as the rival: a client in C. It counts statements, so where a request takes several of them its rate
//! is theirs divided. It can't send several at once, as pgbench can; a call of a procedure takes one round trip for the whole
//! transaction, and the decisions of a program are in SQL.

use super::{LONG_WAIT_MILLIS, Rivals, SLOW_CLAIM_MILLIS, Watched, three};
use crate::database::{Account, done, program, until};
use crate::spawn::{Process, free_address};
use crate::{Outcome, fail};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

const USER: &str = "stockhold";
/// Who may set how it logs.
const OPERATOR: &str = "operator";
const SETTINGS: [&str; 12] = [
    "--bind-address=127.0.0.1",
    "--socket=server.sock",
    "--pid-file=server.pid",
    "--skip-name-resolve",
    "--max-connections=200",
    "--innodb-flush-log-at-trx-commit=1",
    "--innodb-buffer-pool-size=512M",
    "--innodb-log-file-size=1G",
    "--innodb-buffer-pool-load-at-startup=0",
    // Whether slow statements are logged, and which are slow, is settled when a session begins; where to, at any time.
    "--slow-query-log",
    "--slow-query-log-file=slow.log",
    "--log-output=NONE",
];

const FORMS: [&str; 2] = ["UPDATE … WHERE", "FOR UPDATE"];
const PROCEDURES: [&str; 2] = ["UPDATE … WHERE in a procedure", "FOR UPDATE in a procedure"];

/// The first measurement of a form finds out how many requests take a second.
const FIRST_REQUESTS: u64 = 2_000;

const TAKE: &str = "UPDATE rival_stock SET held = held + 1 WHERE sku = 'hot' AND held < total";
const LOOK: &str = "SELECT held, total FROM rival_stock WHERE sku = 'hot' FOR UPDATE";
const INSERTS: [&str; 2] = [
    "INSERT INTO rival_reservations VALUES (@id := UNHEX(REPLACE(UUID(), '-', '')), 'hot', UUID(), SYSDATE(6) + INTERVAL 1800 SECOND)",
    "INSERT INTO rival_keys VALUES (UUID(), @id)",
];

/// Its counters of waits for row locks, since it was started.
#[derive(Clone, Copy, Debug, Default)]
struct Waits {
    count: u64,
    millis: u64,
    longest_millis: u64,
}

impl Waits {
    /// How many of those since `before` may have been longer than the limit: it keeps no more than their sum.
    fn long(self, before: Self) -> u64 {
        if self.longest_millis <= LONG_WAIT_MILLIS {
            return 0;
        }
        let most = (self.millis - before.millis) / (LONG_WAIT_MILLIS + 1);
        most.min(self.count - before.count)
    }
}

/// A MariaDB server under measurement.
pub(crate) struct MariaDb {
    account: Account,
    clients: BTreeMap<&'static str, PathBuf>,
    port: u16,
    process: Process,
    name: String,
    before: Cell<u64>,
    waits: Cell<Waits>,
    /// Where it logs slow statements, and how many slow claims that had when it was last looked at.
    slow_log: PathBuf,
    slow_claims: Cell<u64>,
    /// Requests a second as last measured, by form and connections.
    rates: RefCell<BTreeMap<(String, usize), f64>>,
}

impl MariaDb {
    pub(crate) fn start(folder: &Path) -> Outcome<Self> {
        let packaged = ["/usr/sbin", "/usr/bin", "/usr/libexec"].map(PathBuf::from);
        let server = program("mariadbd", &packaged)?;
        let account = Account::named("mysql")?;
        let folder = folder.join("mariadb");
        account.folder(&folder)?;
        let data = folder.join("data");
        let mut make = account.command(&program("mariadb-install-db", &packaged)?);
        make.args(["--no-defaults", "--skip-test-db", "--skip-name-resolve", "--innodb-log-file-size=1G"]);
        done(make.arg(format!("--datadir={}", data.display())))?;
        let users = folder.join("users.sql");
        std::fs::write(
            &users,
            format!(
                "CREATE DATABASE {USER};\nCREATE USER '{USER}'@'127.0.0.1';\nGRANT ALL ON {USER}.* TO '{USER}'@'127.0.0.1';\n\
                 CREATE USER '{OPERATOR}'@'127.0.0.1';\nGRANT ALL ON *.* TO '{OPERATOR}'@'127.0.0.1';\n"
            ),
        )?;
        let port = free_address()?.port();
        let mut command = account.command(&server);
        command
            .arg("--no-defaults")
            .arg(format!("--datadir={}", data.display()))
            // A server that starts sweeps this for temporary tables, also those of other servers.
            .arg(format!("--tmpdir={}", folder.display()))
            .arg(format!("--port={port}"));
        command.args(SETTINGS).arg(format!("--init-file={}", users.display()));
        command.arg(format!("--long-query-time=0.{SLOW_CLAIM_MILLIS:03}"));
        let process = Process::start(command, &folder.join("log"))?;
        let name = done(account.command(&server).arg("--version"))?;
        let mut clients = BTreeMap::new();
        for client in ["mariadb", "mariadb-slap"] {
            clients.insert(client, program(client, &packaged)?);
        }
        let slow_log = data.join("slow.log");
        let (before, waits, slow_claims, rates) =
            (Cell::default(), Cell::default(), Cell::default(), RefCell::default());
        let this =
            Self { account, clients, port, process, name, before, waits, slow_log, slow_claims, rates };
        until("MariaDB takes connections", || this.ask("SELECT 1").map(|_| true))?;
        Ok(this)
    }

    /// Where clients find its database.
    pub(crate) fn client_url(&self) -> String {
        format!("mysql://{USER}@127.0.0.1:{}/{USER}?sslmode=disable", self.port)
    }

    fn client(&self, program: &str) -> Outcome<Command> {
        self.client_of(program, USER)
    }

    fn client_of(&self, program: &str, user: &str) -> Outcome<Command> {
        let program = self.clients.get(program).ok_or("no such client")?;
        let mut command = self.account.command(program);
        command.args(["--no-defaults", "-h", "127.0.0.1", "-u", user, "-P", &self.port.to_string()]);
        Ok(command)
    }

    /// Has slow statements go to a file, or nowhere.
    fn log_to(&self, output: &str) -> Outcome<()> {
        let statement = format!("SET GLOBAL log_output = '{output}'");
        done(self.client_of("mariadb", OPERATOR)?.args(["-e", &statement])).map(drop)
    }

    fn logged_slow_claims(&self) -> Outcome<u64> {
        let log = std::fs::read(&self.slow_log)?;
        Ok(String::from_utf8_lossy(&log).lines().filter(|line| is_claim(line)).count() as u64)
    }

    fn ask(&self, query: &str) -> Outcome<String> {
        done(self.client("mariadb")?.args(["-N", "-B", USER, "-e", query]))
    }

    fn counted_waits(&self) -> Outcome<Waits> {
        let figures = ["WAITS", "TIME", "TIME_MAX"].map(|name| {
            format!("(SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'INNODB_ROW_LOCK_{name}')")
        });
        let [count, millis, longest_millis] = three(&self.ask(&format!("SELECT {}", figures.join(", ")))?)?;
        Ok(Waits { count, millis, longest_millis })
    }

    /// Seconds that so many statements took.
    fn slap(&self, statements: &[String], connections: usize, count: u64) -> Outcome<f64> {
        let mut slap = self.client("mariadb-slap")?;
        slap.args(["--no-drop", "--create-schema", USER, "--csv", "--iterations=1", "--delimiter=;"]);
        slap.arg(format!("--concurrency={connections}")).arg(format!("--number-of-queries={count}"));
        let said = done(slap.arg(format!("--query={}", statements.join(";"))))?;
        let seconds = said.lines().last().and_then(|line| line.split(',').nth(2)?.parse::<f64>().ok());
        seconds.ok_or_else(|| format!("mariadb-slap says no time: {said}").into())
    }
}

impl Drop for MariaDb {
    fn drop(&mut self) {
        self.process.terminate().ok();
        self.process.wait(std::time::Duration::from_secs(30)).ok();
    }
}

fn statements(form: &str) -> Outcome<Vec<String>> {
    let transaction = |first: &[&str]| {
        let all =
            ["START TRANSACTION"].into_iter().chain(first.iter().copied()).chain(INSERTS).chain(["COMMIT"]);
        all.map(str::to_owned).collect()
    };
    match FORMS.iter().chain(&PROCEDURES).position(|known| *known == form) {
        Some(0) => Ok(transaction(&[TAKE])),
        Some(1) => Ok(transaction(&[LOOK, TAKE])),
        Some(2) => Ok(vec!["CALL rival_update_where()".to_owned()]),
        Some(3) => Ok(vec!["CALL rival_for_update()".to_owned()]),
        _ => fail(format!("no such form: {form}")),
    }
}

impl Rivals for MariaDb {
    fn name(&self) -> &str {
        &self.name
    }

    fn url(&self) -> String {
        self.client_url()
    }

    fn prepare(&self, closed: u64) -> Outcome<()> {
        self.before.set(closed);
        let [reservation, key] = INSERTS;
        self.ask(&format!(
            "CREATE TABLE rival_stock (sku VARBINARY(128) PRIMARY KEY, total BIGINT NOT NULL, held BIGINT NOT NULL);
             INSERT INTO rival_stock VALUES ('hot', 1000000000, 0);
             CREATE TABLE rival_reservations
                 (id BINARY(16) PRIMARY KEY, sku VARBINARY(128), owner VARBINARY(128), expires_at DATETIME(6));
             CREATE TABLE rival_keys (hash VARBINARY(36) PRIMARY KEY, id BINARY(16));
             INSERT INTO rival_reservations SELECT UNHEX(MD5(seq)), 'old', MD5(seq), SYSDATE(6) FROM seq_1_to_{closed};
             INSERT INTO rival_keys SELECT MD5(seq), UNHEX(MD5(seq)) FROM seq_1_to_{closed}"
        ))?;
        for (name, takes) in [
            ("update_where", format!("{TAKE}; IF ROW_COUNT() = 1 THEN {reservation}; {key}; END IF")),
            (
                "for_update",
                format!(
                    "SELECT held, total INTO @held, @total FROM rival_stock WHERE sku = 'hot' FOR UPDATE;
                     IF @held < @total THEN UPDATE rival_stock SET held = held + 1 WHERE sku = 'hot'; {reservation}; {key}; END IF"
                ),
            ),
        ] {
            let body = format!("BEGIN START TRANSACTION; {takes}; COMMIT; END");
            let made = format!("DELIMITER //\nCREATE PROCEDURE rival_{name}() {body}//\n");
            done(self.client("mariadb")?.args([USER, "-e", &made]))?;
        }
        Ok(())
    }

    fn forms(&self) -> &'static [&'static str] {
        &FORMS
    }

    fn procedures(&self) -> &'static [&'static str] {
        &PROCEDURES
    }

    fn measure(&self, form: &str, connections: usize, seconds: u64) -> Outcome<f64> {
        let statements = statements(form)?;
        let (each, callers) = (statements.len() as u64, connections as u64);
        let run = |requests: u64| -> Outcome<f64> {
            // Every connection does whole requests, and all the same number.
            let of_each = requests.div_ceil(callers).max(1);
            let took = self.slap(&statements, connections, of_each * callers * each)?;
            Ok((of_each * callers) as f64 / took)
        };
        let key = (form.to_owned(), connections);
        let known = self.rates.borrow().get(&key).copied();
        let guess = known.map_or_else(|| run(FIRST_REQUESTS), Ok)?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "some ten thousand requests"
        )]
        let rate = run((guess * seconds as f64) as u64)?;
        self.rates.borrow_mut().insert(key, rate);
        Ok(rate)
    }

    fn made(&self) -> Outcome<[u64; 3]> {
        let query = "SELECT (SELECT held FROM rival_stock), (SELECT COUNT(*) FROM rival_reservations), \
                     (SELECT COUNT(*) FROM rival_keys)";
        let [held, reservations, keys] = three(&self.ask(query)?)?;
        Ok([held, reservations - self.before.get(), keys - self.before.get()])
    }

    fn settle(&self) -> Outcome<()> {
        // It counts anew by itself once a tenth of a table has changed.
        Ok(())
    }

    fn watch(&self) -> Outcome<()> {
        self.waits.set(self.counted_waits()?);
        self.slow_claims.set(self.logged_slow_claims()?);
        self.log_to("FILE")
    }

    fn watched(&self) -> Outcome<Watched> {
        self.log_to("NONE")?;
        Ok(Watched {
            long_waits: self.counted_waits()?.long(self.waits.get()),
            slow_claims: self.logged_slow_claims()? - self.slow_claims.get(),
        })
    }
}

/// Whether a line of the log of slow statements is one that claims units, or looks for where to claim them.
fn is_claim(line: &str) -> bool {
    line.contains(" FROM stockhold_units ") && [" SKIP LOCKED", ") INTO @"].iter().any(|of| line.contains(of))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_told_from_other_statements_in_the_log() {
        let from =
            "id FROM stockhold_units FORCE INDEX (units_in_order) WHERE status=0 ORDER BY position,id LIMIT";
        assert!(is_claim(&format!("SELECT {from} 9 FOR UPDATE SKIP LOCKED;")));
        assert!(is_claim(&format!("SELECT IF(9>8,(SELECT {from} 1),NULL) INTO @stockhold_free_from;")));
        for other in [format!("SELECT {from} 9;"), "SET timestamp=1;".to_owned(), "COMMIT;".to_owned()] {
            assert!(!is_claim(&other), "{other}");
        }
    }

    #[test]
    fn so_many_waits_may_have_been_long_as_their_sum_has_room_for() {
        let of = |count, millis, longest_millis| Waits { count, millis, longest_millis };
        assert_eq!(of(12, 105, 50).long(of(10, 100, 50)), 0);
        assert_eq!(of(30, 40, 3).long(of(10, 10, 3)), 0);
        assert_eq!(of(19, 113, 50).long(of(10, 100, 50)), 2);
        assert_eq!(of(13, 190, 50).long(of(10, 100, 50)), 3);
    }
}
