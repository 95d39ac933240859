//! Finds the route of a request. Paths are matched by hand, without an allocation: this runs for every request.
//!
//! [`stockhold_api::routes`] describes the routes. This module only knows which segments lead to which of them, and the
//! tests compare it with every row.

use stockhold_api::profiles::Profile;
use stockhold_api::routes::{Body, RouteId};

/// A route with the path's parameters, still percent-encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Route<'a> {
    pub(super) id: RouteId,
    /// In the order of the path. A parameter that the path does not have is empty.
    pub(super) parameters: [&'a str; 2],
}

/// Why a request has no route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RouteError {
    /// There is no such path.
    UnknownPath,
    /// The path takes these methods.
    WrongMethod(&'static str),
}

/// Slots for a path's segments: one more than the longest path has, so that a longer path matches none.
const SEGMENTS: usize = 6;

impl<'a> Route<'a> {
    /// Finds the route on the API's listener.
    pub(super) fn find(method: &str, path: &'a str) -> Result<Self, RouteError> {
        let (id, parameters) = match_segments(method, segments(path)?)?;
        Ok(Self { id, parameters })
    }

    /// Finds the route on the listener that serves this profile alone, with or without the profile's first segment; `None` for the
    /// API's listener.
    pub(super) fn find_on(
        listener: Option<Profile>,
        method: &str,
        path: &'a str,
    ) -> Result<Self, RouteError> {
        let Some(profile) = listener else { return Self::find(method, path) };
        let [tail, first, second, "", "", ""] = segments(profile.below(path).unwrap_or(path))? else {
            return Err(RouteError::UnknownPath);
        };
        let (id, parameters) = on_profile(profile, method, [tail, first, second])?;
        Ok(Self { id, parameters })
    }

    /// The request's body.
    pub(super) fn body(self) -> Body {
        self.id.spec().body
    }

    /// The route's name in metrics and in the log.
    pub(super) fn name(self) -> &'static str {
        self.id.spec().metric
    }
}

/// The segments of a path. Unused slots are empty.
fn segments(path: &str) -> Result<[&str; SEGMENTS], RouteError> {
    // A path that ends with slashes would match a shorter one.
    if path.len() > 1 && path.ends_with('/') {
        return Err(RouteError::UnknownPath);
    }
    let mut segments = [""; SEGMENTS];
    let mut parts = path.strip_prefix('/').ok_or(RouteError::UnknownPath)?.split('/');
    for (slot, part) in segments.iter_mut().zip(&mut parts) {
        *slot = part;
    }
    if parts.next().is_some() { Err(RouteError::UnknownPath) } else { Ok(segments) }
}

/// The route of a profile, by the segments after the profile's own.
fn on_profile<'a>(
    profile: Profile,
    method: &str,
    segments: [&'a str; 3],
) -> Result<(RouteId, [&'a str; 2]), RouteError> {
    let id = match (profile, segments) {
        (Profile::Hub, ["stock", hub_id, sku]) if !hub_id.is_empty() && !sku.is_empty() => {
            if !matches!(method, "GET" | "HEAD") {
                return Err(RouteError::WrongMethod("GET, HEAD"));
            }
            return Ok((RouteId::HubStock, [hub_id, sku]));
        }
        (Profile::Hub, ["reserve", "", ""]) => RouteId::HubReserve,
        (Profile::Hub, ["confirm", "", ""]) => RouteId::HubConfirm,
        (Profile::Hub, ["release", "", ""]) => RouteId::HubRelease,
        (Profile::Storefront, ["reserve", "", ""]) => RouteId::StorefrontReserve,
        (Profile::Storefront, ["commit", "", ""]) => RouteId::StorefrontCommit,
        (Profile::Storefront, ["extend", "", ""]) => RouteId::StorefrontExtend,
        (Profile::Storefront, ["release", "", ""]) => RouteId::StorefrontRelease,
        (Profile::Hub | Profile::Storefront, _) => return Err(RouteError::UnknownPath),
    };
    if method == "POST" { Ok((id, ["", ""])) } else { Err(RouteError::WrongMethod("POST")) }
}

/// The route under a reservation.
fn on_reservation(method: &str, tail: &str) -> Result<RouteId, RouteError> {
    let (id, allowed) = match (tail, method) {
        ("events", _) if matches!(method, "GET" | "HEAD") => return Ok(RouteId::GetReservationEvents),
        ("events", _) => return Err(RouteError::WrongMethod("GET, HEAD")),
        ("payment", "DELETE") => return Ok(RouteId::ClosePayment),
        ("payment", _) => (RouteId::OpenPayment, "POST, DELETE"),
        ("extend", _) => (RouteId::Extend, "POST"),
        ("transfer", _) => (RouteId::Transfer, "POST"),
        ("split", _) => (RouteId::Split, "POST"),
        ("merge", _) => (RouteId::Merge, "POST"),
        ("checkout", "GET" | "HEAD") => return Ok(RouteId::GetCheckout),
        ("checkout", _) => (RouteId::StartCheckout, "GET, HEAD, POST"),
        ("refund", _) => (RouteId::Refund, "POST"),
        ("fulfil", _) => (RouteId::Fulfil, "POST"),
        ("return", _) => (RouteId::ReturnUnits, "POST"),
        _ => return Err(RouteError::UnknownPath),
    };
    if method == "POST" { Ok(id) } else { Err(RouteError::WrongMethod(allowed)) }
}

/// The route of the units or the pools of an item, or of one of them.
fn on_part_of_item(method: &str, part: &str, name: &str, tail: &str) -> Result<RouteId, RouteError> {
    let is_get = matches!(method, "GET" | "HEAD");
    let get = |id| if is_get { Ok(id) } else { Err(RouteError::WrongMethod("GET, HEAD")) };
    match (part, name, tail) {
        ("units", "", "") => match method {
            "POST" => Ok(RouteId::AddUnits),
            _ if is_get => Ok(RouteId::ListUnits),
            _ => Err(RouteError::WrongMethod("GET, HEAD, POST")),
        },
        ("units", _, "") => match method {
            "DELETE" => Ok(RouteId::RetireUnit),
            _ if is_get => Ok(RouteId::GetUnit),
            _ => Err(RouteError::WrongMethod("GET, HEAD, DELETE")),
        },
        ("units", _, "events") => get(RouteId::GetUnitEvents),
        ("pools", "", "") => get(RouteId::ListPools),
        ("pools", _, "") => match method {
            "PUT" => Ok(RouteId::SetPool),
            "DELETE" => Ok(RouteId::DeletePool),
            _ => Err(RouteError::WrongMethod("PUT, DELETE")),
        },
        ("pools", _, "units") => match method {
            "PUT" => Ok(RouteId::PutIntoPool),
            "DELETE" => Ok(RouteId::TakeOutOfPool),
            _ => Err(RouteError::WrongMethod("PUT, DELETE")),
        },
        _ => Err(RouteError::UnknownPath),
    }
}

/// The route of the stock masters, or of one of them.
fn on_reconciliation(method: &str, name: &str) -> Result<RouteId, RouteError> {
    match (name, method) {
        ("", "GET" | "HEAD") => Ok(RouteId::GetReconciliation),
        ("", "POST") => Ok(RouteId::Reconcile),
        ("", _) => Err(RouteError::WrongMethod("GET, HEAD, POST")),
        (_, "DELETE") => Ok(RouteId::ForgetStockMaster),
        _ => Err(RouteError::WrongMethod("DELETE")),
    }
}

/// The route of the sinks, or of one of them.
fn on_sink(method: &str, name: &str, tail: &str) -> Result<RouteId, RouteError> {
    let (id, allowed) = match (name, tail) {
        ("", "") if matches!(method, "GET" | "HEAD") => return Ok(RouteId::ListSinks),
        ("", "") => return Err(RouteError::WrongMethod("GET, HEAD")),
        (_, "") => (RouteId::ForgetSink, "DELETE"),
        (_, "skip") => (RouteId::SkipEvent, "POST"),
        (_, "replay") => (RouteId::ReplaySink, "POST"),
        (_, "init") => (RouteId::InitSink, "POST"),
        _ => return Err(RouteError::UnknownPath),
    };
    if method == allowed { Ok(id) } else { Err(RouteError::WrongMethod(allowed)) }
}

/// The route of the API keys, or of one of them.
fn on_key(method: &str, id: &str, tail: &str) -> Result<RouteId, RouteError> {
    let is_get = matches!(method, "GET" | "HEAD");
    match (id, tail, method) {
        ("", "", "POST") => Ok(RouteId::CreateKey),
        ("", "", _) if is_get => Ok(RouteId::ListKeys),
        ("", "", _) => Err(RouteError::WrongMethod("GET, HEAD, POST")),
        (_, "", "DELETE") => Ok(RouteId::RevokeKey),
        (_, "", _) if is_get => Ok(RouteId::GetKey),
        (_, "", _) => Err(RouteError::WrongMethod("GET, HEAD, DELETE")),
        (_, "roll", "POST") => Ok(RouteId::RollKey),
        (_, "roll", _) => Err(RouteError::WrongMethod("POST")),
        _ => Err(RouteError::UnknownPath),
    }
}

/// The route of the webhook endpoints, or of one of them.
fn on_webhook(method: &str, id: &str, tail: &str) -> Result<RouteId, RouteError> {
    let is_get = matches!(method, "GET" | "HEAD");
    match (id, tail, method) {
        ("", "", "POST") => Ok(RouteId::CreateWebhook),
        ("", "", _) if is_get => Ok(RouteId::ListWebhooks),
        ("", "", _) => Err(RouteError::WrongMethod("GET, HEAD, POST")),
        ("", ..) => Err(RouteError::UnknownPath),
        (_, "", "PATCH") => Ok(RouteId::UpdateWebhook),
        (_, "", "DELETE") => Ok(RouteId::DeleteWebhook),
        (_, "", _) if is_get => Ok(RouteId::GetWebhook),
        (_, "", _) => Err(RouteError::WrongMethod("GET, HEAD, PATCH, DELETE")),
        (_, "deliveries", _) if is_get => Ok(RouteId::ListDeliveries),
        (_, "deliveries", _) => Err(RouteError::WrongMethod("GET, HEAD")),
        (_, "test", "POST") => Ok(RouteId::TestWebhook),
        (_, "rotate", "POST") => Ok(RouteId::RotateWebhook),
        (_, "replay", "POST") => Ok(RouteId::ReplayWebhook),
        (_, "test" | "rotate" | "replay", _) => Err(RouteError::WrongMethod("POST")),
        _ => Err(RouteError::UnknownPath),
    }
}

/// The route of something that is put, deleted and read.
fn on_resource(method: &str, [put, delete, get]: [RouteId; 3]) -> Result<RouteId, RouteError> {
    match method {
        "PUT" => Ok(put),
        "DELETE" => Ok(delete),
        "GET" | "HEAD" => Ok(get),
        _ => Err(RouteError::WrongMethod("GET, HEAD, PUT, DELETE")),
    }
}

fn match_segments<'a>(
    method: &str,
    segments: [&'a str; SEGMENTS],
) -> Result<(RouteId, [&'a str; 2]), RouteError> {
    let is_get = matches!(method, "GET" | "HEAD");
    let get = |id| if is_get { Ok(id) } else { Err(RouteError::WrongMethod("GET, HEAD")) };
    let post = |id| if method == "POST" { Ok(id) } else { Err(RouteError::WrongMethod("POST")) };
    // Ordered by how often they are called.
    let (id, parameters) = match segments {
        ["v1", "inventory", sku, "reserve", "", ""] => (post(RouteId::Reserve), [sku, ""]),
        ["v1", "reservations", id, "confirm", "", ""] => (post(RouteId::Confirm), [id, ""]),
        ["v1", "inventory", sku, "available", "", ""] => (get(RouteId::GetAvailability), [sku, ""]),
        ["v1", "reservations", "", "", "", ""] => {
            let found = match method {
                "POST" => Ok(RouteId::ReserveBasket),
                _ if is_get => Ok(RouteId::ListReservations),
                _ => Err(RouteError::WrongMethod("GET, HEAD, POST")),
            };
            (found, ["", ""])
        }
        ["v1", "commands", "", "", "", ""] => (post(RouteId::RunCommands), ["", ""]),
        ["v1", "reservations", id, "", "", ""] => {
            let found = match method {
                "DELETE" => Ok(RouteId::Release),
                "PATCH" => Ok(RouteId::Amend),
                _ if is_get => Ok(RouteId::GetReservation),
                _ => Err(RouteError::WrongMethod("GET, HEAD, PATCH, DELETE")),
            };
            (found, [id, ""])
        }
        ["v1", "reservations", id, tail, "", ""] => (on_reservation(method, tail), [id, ""]),
        ["v1", "reservations", id, "checkout", "cancel", ""] => (post(RouteId::CancelCheckout), [id, ""]),
        ["v1", "reservations", id, "refund", "retry", ""] => (post(RouteId::RetryRefund), [id, ""]),
        ["v1", "orders", "", "", "", ""] => (get(RouteId::ListOrders), ["", ""]),
        ["v1", "orders", id, "", "", ""] => (get(RouteId::GetOrder), [id, ""]),
        ["v1", "providers", provider, "webhook", "", ""] if !provider.is_empty() => {
            (post(RouteId::ProviderWebhook), [provider, ""])
        }
        ["v1", "prices", "quote", "", "", ""] => (post(RouteId::QuotePrices), ["", ""]),
        ["v1", "availability", "", "", "", ""] => (post(RouteId::GetAvailabilities), ["", ""]),
        ["v1", "inventory", "", "", "", ""] => (get(RouteId::ListItems), ["", ""]),
        ["v1", "inventory", sku, "", "", ""] if !sku.is_empty() => {
            (on_resource(method, [RouteId::SetStock, RouteId::DeleteItem, RouteId::GetItem]), [sku, ""])
        }
        ["v1", "inventory", sku, "adjust", "", ""] => (post(RouteId::AdjustStock), [sku, ""]),
        ["v1", "inventory", sku, part @ ("units" | "pools"), name, tail] => {
            (on_part_of_item(method, part, name, tail), [sku, name])
        }
        ["v1", "inventory", sku, "seat-map", "", ""] => (get(RouteId::GetSeatMap), [sku, ""]),
        ["v1", "inventory", sku, "pause", "", ""] => (post(RouteId::PauseItem), [sku, ""]),
        ["v1", "inventory", sku, "resume", "", ""] => (post(RouteId::ResumeItem), [sku, ""]),
        ["v1", "sale", "", "", "", ""] => (get(RouteId::GetSale), ["", ""]),
        ["v1", "sale", "pause", "", "", ""] => (post(RouteId::PauseSale), ["", ""]),
        ["v1", "sale", "resume", "", "", ""] => (post(RouteId::ResumeSale), ["", ""]),
        ["v1", "events", "", "", "", ""] => (get(RouteId::ListEvents), ["", ""]),
        ["v1", "events", "stream", "", "", ""] => (get(RouteId::StreamEvents), ["", ""]),
        ["v1", "limits", "", "", "", ""] => (get(RouteId::ListLimits), ["", ""]),
        ["v1", "limits", id, "", "", ""] => {
            (on_resource(method, [RouteId::SetLimit, RouteId::DeleteLimit, RouteId::GetLimit]), [id, ""])
        }
        ["v1", "limits", id, "usage", "", ""] => (get(RouteId::GetLimitUsage), [id, ""]),
        ["v1", "customers", id, "", "", ""] if !id.is_empty() => (
            on_resource(method, [RouteId::PutCustomer, RouteId::DeleteCustomer, RouteId::GetCustomer]),
            [id, ""],
        ),
        ["v1", "customer-keys", "rewrap", "", "", ""] => (post(RouteId::RewrapCustomers), ["", ""]),
        ["v1", "reconciliation", name, "", "", ""] => (on_reconciliation(method, name), [name, ""]),
        ["v1", "sinks", name, tail, "", ""] => (on_sink(method, name, tail), [name, ""]),
        ["v1", "webhooks", id, "deliveries", delivery, "retry"] if !id.is_empty() && !delivery.is_empty() => {
            (post(RouteId::RetryDelivery), [id, delivery])
        }
        ["v1", "webhooks", id, tail, "", ""] => (on_webhook(method, id, tail), [id, ""]),
        ["v1", "archive", "", "", "", ""] => (post(RouteId::ArchiveEvents), ["", ""]),
        ["v1", "gate", "", "", "", ""] => (get(RouteId::GetGate), ["", ""]),
        ["v1", "gate", "reload", "", "", ""] => (post(RouteId::ReloadGate), ["", ""]),
        ["hub", tail, first, second, "", ""] => {
            return on_profile(Profile::Hub, method, [tail, first, second]);
        }
        ["storefront", tail, first, second, "", ""] => {
            return on_profile(Profile::Storefront, method, [tail, first, second]);
        }
        ["v1", "keys", id, tail, "", ""] => (on_key(method, id, tail), [id, ""]),
        ["openapi.json", "", "", "", "", ""] => (get(RouteId::GetOpenApi), ["", ""]),
        ["docs", "", "", "", "", ""] => (get(RouteId::GetDocs), ["", ""]),
        ["problems", reason, "", "", "", ""] if !reason.is_empty() => {
            (get(RouteId::GetProblem), [reason, ""])
        }
        ["", "", "", "", "", ""] => (get(RouteId::GetIndex), ["", ""]),
        _ => return Err(RouteError::UnknownPath),
    };
    Ok((id?, parameters))
}

#[cfg(test)]
mod tests {
    use super::*;
    use stockhold_api::routes::Method;

    /// The path of a route, with its parameters' names as their values.
    fn sample(id: RouteId) -> String {
        id.spec().path.replace(['{', '}'], "")
    }

    fn parameters(id: RouteId) -> Vec<&'static str> {
        let segments = id.spec().path.split('/');
        segments.filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}')).collect()
    }

    #[test]
    fn every_row_of_the_table_is_found() {
        for id in RouteId::ALL.iter().copied() {
            let path = sample(id);
            let method = id.spec().method;
            let route = Route::find(method.name(), &path).unwrap_or_else(|error| panic!("{id:?}: {error:?}"));
            assert_eq!(route.id, id);
            let mut expected = parameters(id);
            expected.resize(2, "");
            assert_eq!(route.parameters.as_slice(), expected, "{id:?}");
            if method == Method::Get {
                assert_eq!(Route::find("HEAD", &path), Ok(route));
            }
        }
    }

    #[test]
    fn a_path_takes_the_methods_of_its_rows_and_no_others() {
        for id in RouteId::ALL.iter().copied() {
            let rows = RouteId::ALL.iter().map(|other| other.spec());
            let methods: Vec<_> =
                rows.filter(|row| row.path == id.spec().path).map(|row| row.method).collect();
            let listed = |method: &str| methods.iter().any(|one| one.name() == method);
            for method in ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "get", ""] {
                let taken = listed(if method == "HEAD" { "GET" } else { method });
                match Route::find(method, &sample(id)) {
                    Ok(_) => assert!(taken, "{id:?} {method}"),
                    Err(RouteError::WrongMethod(allow)) => {
                        assert!(!taken, "{id:?} {method}");
                        let mut allow: Vec<_> = allow.split(", ").filter(|one| *one != "HEAD").collect();
                        let mut expected: Vec<_> = methods.iter().map(|one| one.name()).collect();
                        allow.sort_unstable();
                        expected.sort_unstable();
                        assert_eq!(allow, expected, "{id:?}");
                    }
                    Err(RouteError::UnknownPath) => panic!("{id:?} {method}"),
                }
            }
        }
    }

    #[test]
    fn paths_that_are_nearly_routes() {
        for path in [
            "/v1/inventory/",
            "/v1/inventory/a/b/c/d",
            "/v1/inventory/a/reserve/",
            "/v1/inventory/a/reserve/c/d",
            "/v1/inventory/a/units/",
            "/v1/inventory/a/pools/",
            "/v1/inventory/a/pools/x/y",
            "/v1/inventory/a/units/x/events/",
            "/v1/inventory/a/units/x/events/1",
            "/v1/reservations/",
            "/v1/events/",
            "/v1/events/streams",
            "/problems/",
            "/hub",
            "/hub/",
            "/hub/stock",
            "/hub/stock/a",
            "/hub/stock//b",
            "/hub/stock/a/b/c",
            "/hub/reserve/a",
            "/hub/commit",
            "/hubs/reserve",
            "/storefront/confirm",
            "/storefront/stock/a/b",
            "/reserve",
            "//",
            "*",
            "",
        ] {
            assert_eq!(Route::find("GET", path), Err(RouteError::UnknownPath), "{path}");
            assert_eq!(Route::find("POST", path), Err(RouteError::UnknownPath), "{path}");
        }
    }

    #[test]
    fn a_profile_s_listener_has_the_profile_s_routes_alone() {
        for id in RouteId::ALL.iter().copied() {
            let (path, method) = (sample(id), id.spec().method.name());
            for listener in Profile::ALL {
                let expected = Route::find(method, &path).map(|route| route.id);
                let is_own = id.spec().profile == Some(listener);
                let at_root = listener.below(&path).filter(|_| is_own);
                for path in [Some(&*path), at_root].into_iter().flatten() {
                    let found = Route::find_on(Some(listener), method, path).map(|route| route.id);
                    let expected = if is_own { expected } else { Err(RouteError::UnknownPath) };
                    assert_eq!(found, expected, "{listener:?} {path}");
                }
            }
            assert_eq!(Route::find_on(None, method, &path), Route::find(method, &path));
        }
    }

    #[test]
    fn parameters_stay_encoded() {
        let path = "/v1/inventory/a%2Fb/units/x%20y";
        assert_eq!(Route::find("DELETE", path).map(|route| route.parameters), Ok(["a%2Fb", "x%20y"]));
    }
}
