//! That the routes are those of the API's document, both ways. The match is exhaustive: a new route does not compile here
//! until it has the name of its operation.

use super::route::Route;
use std::collections::BTreeSet;
use stockhold_api::openapi::document;

macro_rules! operations {
    ($($route:pat => $id:literal)+) => {
        fn operation_of(route: Route<'_>) -> &'static str {
            match route { $($route => $id),+ }
        }

        const OPERATIONS: &[&str] = &[$($id),+];
    };
}

operations! {
    Route::ReserveSingle(_) => "reserve"
    Route::ReserveBasket => "reserve_basket"
    Route::Reservation(_) => "get_reservation"
    Route::Confirm(_) => "confirm"
    Route::Extend(_) => "extend"
    Route::Release(_) => "release"
    Route::Return(_) => "return_units"
    Route::Available(_) => "get_availability"
    Route::Item(_) => "get_item"
    Route::SetStock(_) => "set_stock"
    Route::Adjust(_) => "adjust_stock"
    Route::AddUnits(_) => "add_units"
    Route::Units(_) => "list_units"
    Route::Unit(..) => "get_unit"
    Route::UnitHistory(..) => "get_unit_events"
    Route::RetireUnit(..) => "retire_unit"
    Route::SeatMap(_) => "get_seat_map"
    Route::ItemSale(_, true) => "pause_item"
    Route::ItemSale(_, false) => "resume_item"
    Route::Sale(true) => "pause_sale"
    Route::Sale(false) => "resume_sale"
    Route::Paused => "get_sale"
    Route::Commands => "run_commands"
    Route::Availability => "get_availabilities"
    Route::Reservations => "list_reservations"
    Route::History(_) => "get_reservation_events"
    Route::Inventory => "list_items"
    Route::Events => "list_events"
    Route::EventStream => "stream_events"
    Route::ProblemPage(_) => "get_problem"
    Route::OpenApi => "get_openapi"
    Route::Docs => "get_docs"
    Route::Index => "get_index"
}

#[test]
fn every_route_is_in_the_document_and_every_operation_is_a_route() {
    let mut described = BTreeSet::new();
    for (path, item) in document()["paths"].as_object().unwrap() {
        // The admin listener has its own few.
        if !item["servers"].is_null() {
            continue;
        }
        for (method, operation) in item.as_object().unwrap() {
            let id = operation["operationId"].as_str().unwrap();
            let path = path.replace(['{', '}'], "");
            let route = Route::find(&method.to_uppercase(), &path);
            let route = route.unwrap_or_else(|miss| panic!("{method} {path} is no route: {miss:?}"));
            assert_eq!(operation_of(route), id, "{method} {path}");
            described.insert(id);

            assert_eq!(route.takes_body(), !operation["requestBody"].is_null(), "{id}");
            let Some(body) = operation["requestBody"]["description"].as_str() else { continue };
            let digits: String = body.chars().filter(char::is_ascii_digit).collect();
            assert!(digits.ends_with(&route.body_limit().to_string()), "{id}: {body}");
        }
    }
    assert_eq!(described, OPERATIONS.iter().copied().collect());
}

/// The page at `/` names those routes that take an idempotency key, and no others.
#[test]
fn the_index_says_which_routes_take_a_key() {
    const KEY: &str = "#/components/parameters/IdempotencyKey";
    let index = include_str!("index.txt");
    let (_, rest) = index.split_once("Idempotency-Key:").unwrap();
    let mut named = BTreeSet::new();
    for line in rest.lines().filter(|line| line.starts_with("POST ") || line.starts_with("DELETE ")) {
        let (method, paths) = line.split_once(' ').unwrap();
        let paths = paths.trim().replace(['{', '}'], "");
        let (first, others) = paths.split_once(", ").unwrap_or((&paths, ""));
        let (above, _) = first.rsplit_once('/').unwrap();
        let others = others.split(", ").filter(|tail| !tail.is_empty()).map(|tail| format!("{above}{tail}"));
        for path in std::iter::once(first.to_owned()).chain(others) {
            named.insert(operation_of(Route::find(method, &path).unwrap()));
        }
    }
    let document = document();
    let operations =
        document["paths"].as_object().unwrap().values().flat_map(|item| item.as_object().unwrap().values());
    let keyed = operations.filter(|operation| {
        let parameters = operation["parameters"].as_array();
        parameters.is_some_and(|all| all.iter().any(|parameter| parameter["$ref"] == KEY))
    });
    let keyed: BTreeSet<_> = keyed.map(|operation| operation["operationId"].as_str().unwrap()).collect();
    assert_eq!(named, keyed);
}
