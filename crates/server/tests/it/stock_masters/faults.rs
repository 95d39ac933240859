//! What a stock master and a server do wrong, and what is left afterwards.

use super::master::{Fault, Master};
use super::{check_totals, count, owned, reconcile, sell, shown, start};
use crate::ctl::{done, json, refused};
use crate::support::wait_for;
use stockhold_api::wire::{Command, Patch, RequestedLine, Stock, Terms};

#[test]
fn lost_answers_and_kills_book_every_sale_once() {
    let (dir, master) = (tempfile::tempdir().unwrap(), Master::start(&[("tee", 1_000)]));
    let mut server = start(dir.path(), &master, &[]);
    owned(&server, "tee", 1_000);
    let mut sold = 0;
    for round in 0..4 {
        master.set_fault(if round % 2 == 0 { Fault::LosesAnswers } else { Fault::IsDown });
        for _ in 0..10 {
            sell(&server, "tee", &format!("o{sold}"));
            sold += 1;
        }
        if round % 2 == 0 {
            // The batch that is lost was booked there before the kill.
            wait_for("a batch", || shown(&server).get("batch").cloned());
        }
        server.kill();
        master.set_fault(Fault::None);
        server.restart();
        server.wait_until_ready();
        master.wait_for_units("tee", 1_000 - sold);
    }
    wait_for("all batches to be booked", || shown(&server).get("batch").is_none().then_some(()));
    assert!(master.books().repeated > 0, "a batch whose answer was lost came again");
    let report = reconcile(&server);
    assert_eq!(count(&report, "total_corrected"), 0, "{report}");
    check_totals(&server, &master, &["tee"]);
}

#[test]
fn figures_do_not_count_while_a_batch_has_no_answer() {
    let (dir, master) = (tempfile::tempdir().unwrap(), Master::start(&[("tee", 10)]));
    let server = start(dir.path(), &master, &[]);
    owned(&server, "tee", 10);
    master.set_fault(Fault::LosesAnswers);
    sell(&server, "tee", "1");
    master.wait_for_units("tee", 9);
    let report = reconcile(&server);
    assert!(report["incomplete"].as_str().unwrap().contains("no answer"), "{report}");
    assert_eq!(server.item("tee").unwrap().total_units, 10, "the unit may be in the figure or not");
    master.set_fault(Fault::None);
    wait_for("the batch", || shown(&server).get("batch").is_none().then_some(()));
    assert_eq!(count(&reconcile(&server), "total_corrected"), 0);
    check_totals(&server, &master, &["tee"]);
}

#[test]
fn a_stock_master_that_lags_is_not_believed() {
    let (dir, master) = (tempfile::tempdir().unwrap(), Master::start(&[("tee", 10)]));
    let server = start(dir.path(), &master, &[]);
    owned(&server, "tee", 10);
    for order in ["1", "2"] {
        sell(&server, "tee", order);
    }
    master.wait_for_units("tee", 8);
    wait_for("the batch", || shown(&server).get("batch").is_none().then_some(()));
    master.set_fault(Fault::Lags);
    let report = reconcile(&server);
    assert!(report["incomplete"].as_str().unwrap().contains("do not contain the last batch"), "{report}");
    assert_eq!(server.item("tee").unwrap().total_units, 10, "two units would have been sold twice");
    master.set_fault(Fault::None);
    assert_eq!(count(&reconcile(&server), "total_corrected"), 0);
    check_totals(&server, &master, &["tee"]);
}

#[test]
fn a_stock_master_that_loses_a_batch_is_believed_and_its_orders_are_missed() {
    let (dir, master) = (tempfile::tempdir().unwrap(), Master::start(&[("tee", 10)]));
    let server = start(dir.path(), &master, &[]);
    owned(&server, "tee", 10);
    master.set_fault(Fault::ForgetsBatches);
    sell(&server, "tee", "1");
    wait_for("the batch", || {
        let shown = shown(&server);
        let position = shown["position"].as_u64().unwrap();
        (shown.get("batch").is_none() && position >= 3).then_some(())
    });
    master.set_fault(Fault::None);
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    // One that says which batches it has is not believed.
    let report = json(&server, &["reconcile", "erp", "--dry-run"]);
    assert!(report["incomplete"].as_str().unwrap().contains("do not contain the last batch"), "{report}");
    assert_eq!((count(&report, "total_corrected"), count(&report, "sale_missing")), (0, 1), "{report}");
    master.books().is_silent = true;
    let report = reconcile(&server);
    // It owns the total. So the unit is back, and a person has to look at the sale.
    assert_eq!((count(&report, "total_corrected"), count(&report, "sale_missing")), (1, 1), "{report}");
    check_totals(&server, &master, &["tee"]);
    assert_eq!(count(&reconcile(&server), "sale_missing"), 0, "a sale is reported once");
}

#[test]
fn figures_that_contradict_or_can_t_be_are_not_used() {
    let (dir, master) = (tempfile::tempdir().unwrap(), Master::start(&[("cap", 5), ("tee", 10)]));
    let server = start(dir.path(), &master, &[]);
    owned(&server, "cap", 5);
    owned(&server, "tee", 10);
    for (fault, kind) in [(Fault::Contradicts, "figure_contradictory"), (Fault::IsNegative, "figure_invalid")]
    {
        master.set_fault(fault);
        master.receive("tee", 1);
        let report = reconcile(&server);
        assert_eq!((count(&report, kind), count(&report, "total_corrected")), (1, 1), "{report}");
        assert_eq!(server.item("cap").unwrap().total_units, 5);
    }
    for (fault, what) in [(Fault::RepeatsPages, "came twice"), (Fault::IsDown, "figures: ")] {
        master.set_fault(fault);
        let report = reconcile(&server);
        assert!(report["incomplete"].as_str().unwrap().contains(what), "{report}");
        assert!(shown(&server)["last_error"]["message"].as_str().is_some());
    }
    master.set_fault(Fault::None);
    let report = reconcile(&server);
    assert_eq!(report.get("incomplete"), None, "{report}");
    check_totals(&server, &master, &["cap", "tee"]);
    // Items that one of the two does not have.
    master.books().stock.insert("sock".to_owned(), 1);
    master.books().stock.remove("cap");
    let report = reconcile(&server);
    assert_eq!((count(&report, "item_unknown"), count(&report, "item_missing")), (1, 1), "{report}");
    assert_eq!(server.item("cap").unwrap().total_units, 5, "a missing figure is not 0");
}

#[test]
fn a_batch_is_booked_by_an_answer_that_repeats_its_id_and_by_no_other() {
    let (dir, master) = (tempfile::tempdir().unwrap(), Master::start(&[("tee", 10)]));
    let server = start(dir.path(), &master, &[]);
    owned(&server, "tee", 10);
    master.set_fault(Fault::IsBehindAPage);
    sell(&server, "tee", "1");
    let failing =
        wait_for("the failure", || Some(shown(&server)).filter(|shown| shown["state"] == "retrying"));
    let error = &failing["last_error"];
    assert!(error["message"].as_str().unwrap().contains("HTTP 200: \"back soon\""), "{failing}");
    assert!(error["next_attempt_at"].is_string() && error.get("action").is_none(), "{failing}");
    assert_eq!(master.units("tee"), 10);

    master.set_fault(Fault::NeverEnds);
    master.wait_for_units("tee", 9);
    wait_for("the batch", || shown(&server).get("batch").is_none().then_some(()));
    assert_eq!((master.books().repeated, &shown(&server)["state"]), (0, &serde_json::json!("running")));
    master.set_fault(Fault::None);
    check_totals(&server, &master, &["tee"]);
}

#[test]
fn a_stock_master_that_refuses_the_token_is_blocked_until_somebody_acts() {
    let (dir, master) = (tempfile::tempdir().unwrap(), Master::start(&[("tee", 10)]));
    let server = start(dir.path(), &master, &[]);
    owned(&server, "tee", 10);
    master.set_fault(Fault::RefusesToken);
    sell(&server, "tee", "1");
    let blocked =
        wait_for("the refusal", || Some(shown(&server)).filter(|shown| shown["state"] == "blocked"));
    assert!(blocked["last_error"]["message"].as_str().unwrap().contains("HTTP 401"), "{blocked}");
    assert!(blocked["last_error"]["action"].as_str().unwrap().contains("token"), "{blocked}");
    master.set_fault(Fault::None);
    master.wait_for_units("tee", 9);
    wait_for("it to run", || (shown(&server)["state"] == "running").then_some(()));
}

#[test]
fn a_refused_batch_blocks_until_it_is_taken_or_accepted() {
    let (dir, master) = (tempfile::tempdir().unwrap(), Master::start(&[("tee", 10)]));
    let server = start(dir.path(), &master, &[]);
    owned(&server, "tee", 10);
    master.set_fault(Fault::RefusesBatches);
    sell(&server, "tee", "1");
    let batch = wait_for("a refusal", || {
        let batch = shown(&server)["batch"].clone();
        batch["refused"].as_str().is_some().then_some(batch)
    });
    assert!(batch["refused"].as_str().unwrap().contains("no such SKU here"), "{batch}");
    // Its units are known not to be booked, so figures count.
    let report = reconcile(&server);
    assert_eq!((count(&report, "total_corrected"), &report["pending_units"]), (0, &1.into()), "{report}");
    assert_eq!(count(&report, "decrement_refused"), 1, "{report}");
    let item = server.item("tee").unwrap();
    assert_eq!((item.total_units, item.available), (10, 9), "the sold unit is not sold again");
    let id = batch["batch_id"].as_str().unwrap();
    refused(&server, &["reconcile", "erp", "--accept-batch", "other"], &["/accept_batch"]);
    // An operator books it by hand.
    master.receive("tee", -1);
    done(&server, &["reconcile", "erp", "--accept-batch", id]);
    master.set_fault(Fault::None);
    assert_eq!(shown(&server).get("batch"), None);
    sell(&server, "tee", "2");
    master.wait_for_units("tee", 8);
    assert_eq!(count(&reconcile(&server), "total_corrected"), 0);
    check_totals(&server, &master, &["tee"]);
}

#[test]
fn sales_go_on_while_figures_are_compared() {
    let (dir, master) = (tempfile::tempdir().unwrap(), Master::start(&[("tee", 10_000)]));
    let server = start(dir.path(), &master, &[("STOCKHOLD_STOCK_MASTERS__ERP__PUSH_MS", "5")]);
    owned(&server, "tee", 10_000);
    let mut orders = 0;
    std::thread::scope(|scope| {
        let comparing = scope.spawn(|| {
            for round in 0..20_i64 {
                master.receive("tee", round - 5);
                reconcile(&server);
            }
        });
        while !comparing.is_finished() {
            sell(&server, "tee", &format!("o{orders}"));
            orders += 1;
        }
    });
    let received: i64 = (0..20).map(|round| round - 5).sum();
    master.wait_for_units("tee", 10_000 + received - orders);
    wait_for("the batch", || shown(&server).get("batch").is_none().then_some(()));
    let report = reconcile(&server);
    assert_eq!(report.get("incomplete"), None, "{report}");
    check_totals(&server, &master, &["tee"]);
    let item = server.item("tee").unwrap();
    assert_eq!(i64::try_from(item.total_units).unwrap(), 10_000 + received, "every correction was exact");
}

#[test]
fn a_basket_with_more_lines_than_a_batch_is_booked_in_parts() {
    let skus: Vec<_> = (0..450).map(|n| format!("s{n:03}")).collect();
    let stock: Vec<_> = skus.iter().map(|sku| (sku.as_str(), 10)).collect();
    let (dir, master) = (tempfile::tempdir().unwrap(), Master::start(&stock));
    let mut server = start(dir.path(), &master, &[]);
    let set = |sku: &String| Command::SetStock {
        sku: sku.clone(),
        location: None,
        stock: Stock {
            total_units: Some(10),
            stock_master: Patch::Set("erp".to_owned()),
            ..Stock::default()
        },
    };
    let commands: Vec<_> = skus.iter().map(set).collect();
    server.ask(async |client| client.commands(commands).await).unwrap();
    master.set_fault(Fault::LosesAnswers);
    let line = |sku: &String| RequestedLine { sku: sku.clone(), location: None, quantity: 1 };
    let lines: Vec<_> = skus.iter().map(line).collect();
    let terms = Terms { owner_id: "wholesaler".to_owned(), ..Terms::default() };
    server.ask(async |client| {
        let hold = client.reserve_basket(&lines, &terms, None).await.unwrap();
        client.confirm(hold.reservation_id, Some("big"), None).await.unwrap();
    });
    let booked = || skus.iter().filter(|sku| master.units(sku) == 9).count();
    wait_for("the first part", || (booked() == 200).then_some(()));
    // After a kill, the batch comes again, and then the rest.
    server.kill();
    server.restart();
    server.wait_until_ready();
    wait_for("the first part again", || (master.books().repeated > 0).then_some(()));
    assert_eq!(booked(), 200, "a batch has at most 200 lines");
    master.set_fault(Fault::None);
    wait_for("the rest", || (booked() == 450).then_some(()));
    wait_for("the batch", || shown(&server).get("batch").is_none().then_some(()));
    let report = reconcile(&server);
    assert_eq!(
        (count(&report, "total_corrected"), &report["figures_compared"]),
        (0, &450.into()),
        "{report}"
    );
    check_totals(&server, &master, &skus.iter().map(String::as_str).collect::<Vec<_>>());
}
