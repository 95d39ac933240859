//! Methods with one request and one answer: every one is called, and refusals have their details.

use super::caller::{Caller, problem};
use super::{GrpcServer, block_on};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::BTreeSet;
use stockhold_grpc_client::v1::reservations_client::ReservationsClient;
use stockhold_grpc_client::v1::{LineRequest, ReserveRequest};
use tonic::Code;
use tonic_types::StatusExt;

/// Calls methods and notes which.
struct Noted {
    caller: Caller,
    called: RefCell<BTreeSet<String>>,
}

impl Noted {
    async fn call(&self, method: &str, request: Value) -> Value {
        self.called.borrow_mut().insert(method.to_owned());
        let answer = self.caller.call(method, request.clone()).await;
        answer.unwrap_or_else(|status| panic!("{method} {request}: {status:?}"))
    }

    async fn refused(&self, method: &str, request: Value, reason: &str) {
        self.called.borrow_mut().insert(method.to_owned());
        let status = self.caller.call(method, request).await.unwrap_err();
        assert_eq!(problem(&self.caller, &status)["reason"], reason, "{method}: {status:?}");
    }

    async fn reserve(&self, sku: &str, quantity: u64) -> Value {
        let lines = json!([{ "sku": sku, "quantity": quantity }]);
        self.call("Reserve", json!({ "owner_id": "cart", "ttl_seconds": 60, "lines": lines })).await
    }
}

#[test]
fn every_method_with_one_answer_can_be_called() {
    let server = GrpcServer::start();
    block_on(async {
        let noted = Noted { caller: Caller::new(&server.address), called: RefCell::default() };
        inventory(&noted).await;
        units_and_pools(&noted).await;
        reservations(&noted).await;
        sale_and_limits(&noted).await;
        events(&noted).await;
        let methods = noted.caller.methods().into_iter();
        let unary = methods.filter(|method| !method.is_client_streaming() && !method.is_server_streaming());
        let all: BTreeSet<_> = unary.map(|method| method.name().to_owned()).collect();
        assert_eq!(*noted.called.borrow(), all);
    });
}

async fn inventory(noted: &Noted) {
    let stock = json!({
        "sku": "tea & co/1", "location": "a b", "total_units": 9, "metadata": { "n": 1, "x": 1.5, "deep": [true, null] },
        "low_stock": 2,
    });
    let item = noted.call("SetStock", stock).await;
    assert_eq!((&item["total_units"], &item["metadata"]["n"]), (&json!(9), &json!(1.0)), "{item}");
    let place = json!({ "sku": "tea & co/1", "location": "a b" });
    let cleared = json!({ "sku": "tea & co/1", "location": "a b", "clear": ["low_stock"] });
    assert_eq!(noted.call("SetStock", cleared).await.get("low_stock"), None);
    let adjusted = json!({
        "sku": "tea & co/1", "location": "a b", "delta": -2, "reason": "broken",
        "expected_version": noted.call("GetItem", place.clone()).await["version"],
    });
    assert_eq!(noted.call("AdjustStock", adjusted.clone()).await["total_units"], 7);
    noted.refused("AdjustStock", adjusted, "precondition_failed").await;
    assert_eq!(noted.call("GetAvailability", place.clone()).await["available"], 7);
    let many = noted.call("GetAvailabilities", json!({ "items": [place] })).await;
    assert_eq!(many["items"][0]["available"], 7, "{many}");
    let many = json!({ "sku": "tea & co/1", "locations": ["a b"] });
    assert_eq!(noted.call("GetAvailabilities", many).await["locations"][0]["available"], 7);
    assert_eq!(noted.call("ListItems", json!({ "location": "a b" })).await["data"][0]["sku"], "tea & co/1");
    noted.call("DeleteItem", place.clone()).await;
    noted.refused("GetItem", place, "unknown_item").await;
    let taken = json!({ "sku": "cup", "total_units": 5, "price": { "unit_amount": 0, "currency": "usd" } });
    noted.call("SetStock", taken).await;
    noted
        .refused(
            "SetStock",
            json!({ "sku": "cup", "total_units": 6, "create_only": true }),
            "precondition_failed",
        )
        .await;
    let quote = noted.call("QuotePrices", json!({ "lines": [{ "sku": "cup", "quantity": 2 }] })).await;
    assert_eq!(quote["lines"][0]["quantity"], 2, "{quote}");
}

async fn units_and_pools(noted: &Noted) {
    noted.call("SetStock", json!({ "sku": "hall", "mode": "units" })).await;
    let units = json!([
        { "unit_id": "A-1", "row": "A", "number": "1", "attributes": { "aisle": true, "floor": 2 } },
        { "unit_id": "A-2", "row": "A", "number": "2" },
    ]);
    assert_eq!(noted.call("AddUnits", json!({ "sku": "hall", "units": units })).await["added"], 2);
    let map = noted.call("GetSeatMap", json!({ "sku": "hall", "layout": true })).await;
    assert_eq!(map["layout"]["numbers"], json!(["1", "2"]), "{map}");
    assert_eq!(map["layout"]["attributes"][0]["attributes"], json!({ "aisle": true, "floor": 2.0 }));
    assert_eq!(noted.call("ListUnits", json!({ "sku": "hall", "limit": 1 })).await["has_more"], true);
    let unit = json!({ "sku": "hall", "unit_id": "A-1" });
    assert_eq!(noted.call("GetUnit", unit.clone()).await["status"], "available");
    assert_ne!(noted.call("GetUnitEvents", unit).await["data"], json!(null));
    let pool = json!({ "sku": "hall", "pool": "vip", "units": ["A-2"] });
    assert_eq!(noted.call("PutIntoPool", pool.clone()).await["allocated"], 1);
    noted.call("TakeOutOfPool", pool).await;
    noted.call("RetireUnit", json!({ "sku": "hall", "unit_id": "A-2" })).await;
    let set = json!({ "sku": "cup", "pool": "web", "allocated": 1 });
    assert_eq!(noted.call("SetPool", set).await["allocated"], 1);
    assert_eq!(noted.call("ListPools", json!({ "sku": "cup" })).await["data"][0]["pool"], "web");
    noted.call("DeletePool", json!({ "sku": "cup", "pool": "web" })).await;
}

async fn reservations(noted: &Noted) {
    noted.call("SetStock", json!({ "sku": "hat", "total_units": 100 })).await;
    let hold = noted.reserve("hat", 4).await;
    let id = &hold["reservation_id"];
    assert_eq!((&hold["status"], &hold["quantity"]), (&json!("active"), &json!(4)), "{hold}");
    let read = noted.call("GetReservation", json!({ "reservation_id": id })).await;
    assert_eq!(read["expires_at"], hold["expires_at"]);
    let line = |quantity: u64| json!([{ "sku": "hat", "quantity": quantity }]);
    let amend =
        json!({ "reservation_id": id, "expected_version": 1, "lines": line(5), "metadata": { "a": "b" } });
    assert_eq!(noted.call("Amend", amend).await["quantity"], 5);
    assert_eq!(noted.call("Extend", json!({ "reservation_id": id, "ttl_seconds": 90 })).await["version"], 3);
    let to = json!({ "reservation_id": id, "owner_id": "other", "customer_id": "c" });
    assert_eq!(noted.call("Transfer", to).await["owner_id"], "other");
    let uncustomed = json!({ "reservation_id": id, "clear": ["customer_id"] });
    assert_eq!(noted.call("Transfer", uncustomed).await.get("customer_id"), None);
    let split = noted.call("Split", json!({ "reservation_id": id, "lines": line(2) })).await;
    let from = json!([split["reservation_id"]]);
    assert_eq!(noted.call("Merge", json!({ "reservation_id": id, "from": from })).await["quantity"], 5);
    let opened = noted.call("OpenPayment", json!({ "reservation_id": id, "payment_id": "p" })).await;
    assert_eq!(opened["payment"]["state"], "open");
    noted.call("ClosePayment", json!({ "reservation_id": id, "payment_id": "p" })).await;
    let confirmed = noted.call("Confirm", json!({ "reservation_id": id, "order_id": "o-1" })).await;
    assert_eq!(confirmed["status"], "confirmed");
    let fulfilled = noted.call("Fulfil", json!({ "reservation_id": id, "lines": line(2) })).await;
    assert_eq!(fulfilled["lines"][0]["fulfilled_quantity"], 2);
    let back = json!({ "reservation_id": id, "lines": line(1), "reason": "broken", "from": "fulfilled" });
    assert_eq!(noted.call("ReturnUnits", back).await["lines"][0]["returned_quantity"], 1);
    let released = noted.reserve("hat", 1).await;
    let release =
        json!({ "reservation_id": released["reservation_id"], "reason": "a & b", "idempotency_key": "r" });
    noted.call("Release", release).await;
    let listed = noted.call("ListReservations", json!({ "sku": "hat", "status": "cancelled" })).await;
    assert_eq!(listed["data"][0]["close_reason"], "a & b", "{listed}");
    // Nothing is configured that takes payments.
    let unpaid = noted.reserve("hat", 1).await;
    let unpaid = json!({ "reservation_id": unpaid["reservation_id"] });
    for method in ["CancelCheckout", "RetryRefund"] {
        noted.call("GetCheckout", unpaid.clone()).await;
        let status = noted.caller.call(method, unpaid.clone()).await;
        noted.called.borrow_mut().insert(method.to_owned());
        assert!(status.is_ok() || status.unwrap_err().code() == Code::FailedPrecondition, "{method}");
    }
    let checkout = json!({
        "reservation_id": unpaid["reservation_id"], "payment_method": { "provider": "none", "method_ref": "m" },
    });
    noted.refused("StartCheckout", checkout, "invalid_request").await;
    let refund = json!({ "reservation_id": id, "amount": 1, "reason": "r" });
    noted.refused("Refund", refund, "payment_not_captured").await;
    assert_eq!(noted.call("ListOrders", json!({})).await["has_more"], false);
    noted.refused("GetOrder", json!({ "order_id": "none" }), "unknown_order").await;
}

async fn sale_and_limits(noted: &Noted) {
    assert_eq!(noted.call("GetSale", json!({})).await["paused"], false);
    assert_eq!(noted.call("PauseItem", json!({ "sku": "hat", "reason": "count" })).await["paused"], true);
    let lines = json!([{ "sku": "hat" }]);
    noted.refused("Reserve", json!({ "owner_id": "cart", "lines": lines }), "sale_paused").await;
    assert_eq!(noted.call("ResumeItem", json!({ "sku": "hat" })).await["paused"], false);
    assert_eq!(noted.call("PauseSale", json!({ "location": "here" })).await["paused"], true);
    assert_eq!(noted.call("ResumeSale", json!({ "location": "here" })).await["paused"], false);
    let limit = json!({ "limit_id": "two", "items": [{ "sku": "hat" }], "per": "customer", "limit": 2 });
    assert_eq!(noted.call("SetLimit", limit).await["limit"], 2);
    assert_eq!(noted.call("GetLimit", json!({ "limit_id": "two" })).await["limit_id"], "two");
    assert_eq!(noted.call("ListLimits", json!({})).await["data"][0]["limit_id"], "two");
    noted.call("GetLimitUsage", json!({ "limit_id": "two", "subject": "c" })).await;
    noted.call("DeleteLimit", json!({ "limit_id": "two" })).await;
}

async fn events(noted: &Noted) {
    let page = noted.call("ListEvents", json!({ "limit": 1000 })).await;
    let data = page["data"].as_array().unwrap();
    let of =
        |kind: &str| data.iter().find(|event| event["type"] == kind).unwrap_or_else(|| panic!("no {kind}"));
    assert_eq!(of("pool.set")["pool_state"]["pool"], "vip", "{}", of("pool.set"));
    assert_eq!(of("pool.set").get("pool"), None);
    assert_eq!(of("reservation.created")["owner_id"], "cart");
    let id = &of("reservation.confirmed")["reservation_id"];
    let history = noted.call("GetReservationEvents", json!({ "reservation_id": id })).await;
    assert_eq!(history["data"][0]["type"], "reservation.created", "{history}");
    let some = json!({ "type": ["stock.set", "stock.deleted"], "after": 0 });
    let some = noted.call("ListEvents", some).await;
    assert!(
        some["data"]
            .as_array()
            .unwrap()
            .iter()
            .all(|event| event["type"].as_str().unwrap().starts_with("stock."))
    );
}

#[test]
fn a_refusal_has_the_reason_and_typed_details() {
    let server = GrpcServer::start();
    block_on(async {
        let caller = Caller::new(&server.address).with("x-request-id", "r-1");
        caller.call("SetStock", json!({ "sku": "tea", "total_units": 1 })).await.unwrap();
        let reserve = json!({ "owner_id": "cart", "lines": [{ "sku": "tea", "quantity": 2 }] });
        let status = caller.call("Reserve", reserve).await.unwrap_err();
        assert_eq!(status.code(), Code::FailedPrecondition);
        let info = status.get_details_error_info().unwrap();
        assert_eq!((&*info.reason, &*info.domain), ("insufficient_inventory", "stockhold"));
        assert_eq!((&*info.metadata["retryable"], &*info.metadata["request_id"]), ("false", "r-1"));
        let problem = problem(&caller, &status);
        assert_eq!(problem["lines"][0]["available"], 1, "{problem}");
        assert_eq!(status.message(), problem["detail"]);

        let wrong = json!({ "owner_id": "", "lines": [{ "sku": "tea", "quantity": 0 }], "ttl_seconds": 0 });
        let status = caller.call("Reserve", wrong).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        let bad = status.get_details_bad_request().unwrap();
        let fields: Vec<_> = bad.field_violations.iter().map(|violation| &*violation.field).collect();
        assert!(
            ["owner_id", "lines/0/quantity", "ttl_seconds"].iter().all(|name| fields.contains(name)),
            "{fields:?}"
        );

        for (method, request, code) in [
            ("GetItem", json!({ "sku": "none" }), Code::NotFound),
            ("GetItem", json!({}), Code::InvalidArgument),
            ("DeleteItem", json!({ "sku": "" }), Code::InvalidArgument),
            ("GetReservation", json!({ "reservation_id": "../items" }), Code::InvalidArgument),
            ("ListEvents", json!({ "after": 9_999 }), Code::OutOfRange),
        ] {
            assert_eq!(caller.call(method, request).await.unwrap_err().code(), code, "{method}");
        }
    });
}

#[test]
fn a_key_in_the_metadata_takes_effect_once_and_the_typed_client_works() {
    let server = GrpcServer::start();
    block_on(async {
        let caller = Caller::new(&server.address);
        caller.call("SetStock", json!({ "sku": "tea", "total_units": 9 })).await.unwrap();
        let keyed = caller.with("idempotency-key", "k-1");
        let reserve =
            |quantity: u64| json!({ "owner_id": "cart", "lines": [{ "sku": "tea", "quantity": quantity }] });
        let (first, metadata) = keyed.call_for_metadata("Reserve", reserve(2)).await.unwrap();
        assert_eq!(metadata.get("idempotent-replayed"), None);
        let (again, metadata) = keyed.call_for_metadata("Reserve", reserve(2)).await.unwrap();
        assert_eq!(first["reservation_id"], again["reservation_id"]);
        assert_eq!(metadata.get("idempotent-replayed").unwrap(), "true");
        let other = keyed.call("Reserve", reserve(3)).await.unwrap_err();
        assert_eq!(problem(&keyed, &other)["reason"], "idempotency_mismatch");
        assert_eq!(other.code(), Code::InvalidArgument);

        let mut client = ReservationsClient::new(caller.channel());
        let line = LineRequest { sku: "tea".to_owned(), quantity: Some(1), ..LineRequest::default() };
        let request =
            ReserveRequest { owner_id: "cart".to_owned(), lines: vec![line], ..ReserveRequest::default() };
        let hold = client.reserve(request).await.unwrap().into_inner();
        assert_eq!((hold.status.as_str(), hold.quantity), ("active", 1));
        assert!(hold.expires_at.unwrap().seconds > hold.created_at.unwrap().seconds);
    });
}
