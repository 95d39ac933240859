//! `stockhold backup` while the server is under load, and what a server on the copy answers.

use crate::support::{Server, said, stockhold, text, wait_for};
use serde_json::Value;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Output;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use stockhold_api::client::{At, Client};
use stockhold_api::wire::{Status, Stock, Terms};
use stockhold_domain::ReservationId;

/// Reservations that are answered before the second backup begins.
const BEFORE: usize = 100;

fn backup(dir: &Path, to: &str, more: &[&str]) -> Output {
    stockhold(dir).args(["backup", "--data-dir", "data", "--to", to]).args(more).output().unwrap()
}

#[track_caller]
fn copied(dir: &Path, to: &str) -> Value {
    let output = backup(dir, to, &["--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Puts a backup into an empty directory, as the documentation says.
fn restore(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

/// Holds and sells as long as it is told to: every reservation that was answered, and whether it was confirmed.
fn load(url: &str, go_on: impl Fn(usize) -> bool) -> Vec<(ReservationId, bool)> {
    let client = Client::new(url).unwrap();
    let terms = Terms { owner_id: "o".to_owned(), ttl_seconds: Some(1_800), ..Terms::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut answered = Vec::new();
        while go_on(answered.len()) {
            let at = At { sku: "shirt", location: None };
            let id = client.reserve(at, 1, &terms, None).await.unwrap().reservation_id;
            let confirmed = answered.len() % 2 == 0;
            if confirmed {
                client.confirm(id, None, None).await.unwrap();
            }
            answered.push((id, confirmed));
        }
        answered
    })
}

#[test]
fn a_backup_under_load_has_every_answer_that_came_before_it() {
    let mut server = Server::start();
    let dir = server.dir().to_owned();
    let stock = Stock { total_units: Some(1_000_000), ..Stock::default() };
    server
        .ask(async |client| client.put_stock(At { sku: "shirt", location: None }, &stock, None).await)
        .unwrap();
    let url = server.url();
    let (stop, others) = (&AtomicBool::new(false), &AtomicUsize::new(0));
    let url = url.as_str();
    let before = std::thread::scope(|scope| {
        // Others go on all the time; what they are answered may come after a backup begins.
        let going_on = move |answered: usize| {
            others.store(answered, Ordering::Relaxed);
            !stop.load(Ordering::Relaxed)
        };
        let others_load = scope.spawn(move || load(url, going_on));
        wait_for("the load", || (others.load(Ordering::Relaxed) > 10).then_some(()));
        let full = copied(&dir, "copy");
        assert_eq!((&full["begun_at_batch"], &full["verified"]), (&0.into(), &true.into()), "{full}");
        let before = load(url, |answered| answered < BEFORE);
        let more = copied(&dir, "copy");
        assert_eq!(more["begun_at_batch"], full["batch"], "gone on where the first ended");
        assert!(more["batches_copied"].as_u64().unwrap() > 0, "{more}");
        let so_far = others.load(Ordering::Relaxed);
        wait_for("the load after it", || (others.load(Ordering::Relaxed) > so_far).then_some(()));
        stop.store(true, Ordering::Relaxed);
        others_load.join().unwrap();
        before
    });
    assert_eq!(before.len(), BEFORE);
    server.kill();
    restore(&dir.join("copy"), &dir.join("restored"));
    let restored = Server::on(&dir, "restored");
    restored.ask(async |client| {
        for (id, confirmed) in &before {
            let found = client.reservation(*id).await.unwrap();
            let expected = if *confirmed { Status::Confirmed } else { Status::Active };
            assert_eq!(found.status, expected, "{id}");
        }
    });
    drop(restored);
    let verify = stockhold(&dir).args(["verify", "--data-dir", "restored"]).output().unwrap();
    assert_eq!(verify.status.code(), Some(0), "{}", said(&verify));
}

#[test]
fn a_copy_that_is_no_copy_is_refused() {
    let mut server = Server::start();
    let dir = server.dir().to_owned();
    let set = |server: &Server, sku: &str| {
        let stock = Stock { total_units: Some(1), ..Stock::default() };
        server.ask(async |client| client.put_stock(At { sku, location: None }, &stock, None).await).unwrap();
    };
    set(&server, "a");
    copied(&dir, "copy");
    let nothing_new = copied(&dir, "copy");
    assert_eq!(nothing_new["batches_copied"], 0);
    let same = backup(&dir, "data", &[]);
    assert_eq!(same.status.code(), Some(1), "{}", said(&same));
    assert!(text(&same.stderr).contains("data directory itself"), "{}", said(&same));

    // A server has gone its own way on the copy.
    let other = Server::on(&dir, "copy");
    let in_use = backup(&dir, "copy", &[]);
    assert_eq!(in_use.status.code(), Some(3), "{}", said(&in_use));
    set(&other, "b");
    drop(other);
    let longer = backup(&dir, "copy", &[]);
    assert_eq!(longer.status.code(), Some(1), "{}", said(&longer));
    set(&server, "c");
    let apart = backup(&dir, "copy", &[]);
    assert_eq!(apart.status.code(), Some(1), "{}", said(&apart));
    assert!(text(&apart.stderr).contains("name another directory"), "{}", said(&apart));

    server.kill();
    let at_rest = copied(&dir, "second");
    assert_eq!((&at_rest["batch"], &at_rest["verified"]), (&2.into(), &true.into()));
    let nowhere = stockhold(&dir).args(["backup", "--data-dir", "none", "--to", "third"]).output().unwrap();
    assert_eq!(nowhere.status.code(), Some(1), "{}", said(&nowhere));
    assert!(text(&nowhere.stderr).contains("no stockhold data"), "{}", said(&nowhere));
}

/// Who has moved to a database and left the directory where it was has no use for copies of that.
#[test]
fn a_database_is_not_backed_up_by_copying_a_directory_that_is_still_there() {
    let mut server = Server::start();
    let dir = server.dir().to_owned();
    server.kill();
    std::fs::rename(dir.join("data"), dir.join("stockhold-data")).unwrap();
    let over_a_database = |arguments: &[&str]| {
        let mut command = stockhold(&dir);
        command.args(arguments).env("STOCKHOLD_STORE", "postgres://shop:hunter2@db/shop").output().unwrap()
    };
    let refused = over_a_database(&["backup", "--to", "copy"]);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    let why = text(&refused.stderr);
    assert!(why.contains("postgres://shop:***@db/shop") && why.contains("--data-dir"), "{why}");
    assert!(!dir.join("copy").exists());
    let named = over_a_database(&["backup", "--to", "copy", "--data-dir", "stockhold-data"]);
    assert_eq!(named.status.code(), Some(0), "{}", said(&named));
}

/// Who may not look into a directory is told so, and not that nothing is there.
#[test]
fn data_that_is_another_users_is_not_taken_for_none() {
    const NOBODY: u32 = 65_534;
    let dir = tempfile::tempdir().unwrap();
    let shut = |mode| std::fs::set_permissions(dir.path(), Permissions::from_mode(mode)).unwrap();
    shut(0o000);
    for arguments in [["verify"].as_slice(), &["backup", "--to", "/nowhere/copy"]] {
        let mut command = stockhold(Path::new("/"));
        command.args(arguments).arg("--data-dir").arg(dir.path());
        // To the system's administrator no directory is shut.
        if rustix::process::geteuid().is_root() {
            command.uid(NOBODY);
        }
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        let why = text(&output.stderr);
        assert!(why.contains("Permission denied") && why.contains("log.db"), "{why}");
    }
    shut(0o700);
}
