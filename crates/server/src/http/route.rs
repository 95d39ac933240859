//! Which route a request is for. Paths are matched by hand: there are few, and a miss says what the path takes.

use stockhold_api::decode::{BASKET_BODY_BYTES, BODY_BYTES, COMMANDS_BODY_BYTES, UNITS_BODY_BYTES};

/// A route with the path's parameters, still percent-encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route<'a> {
    ReserveSingle(&'a str),
    ReserveBasket,
    Reservation(&'a str),
    Confirm(&'a str),
    Extend(&'a str),
    Release(&'a str),
    Return(&'a str),
    Available(&'a str),
    Item(&'a str),
    SetStock(&'a str),
    Adjust(&'a str),
    AddUnits(&'a str),
    Units(&'a str),
    Unit(&'a str, &'a str),
    UnitHistory(&'a str, &'a str),
    RetireUnit(&'a str, &'a str),
    SeatMap(&'a str),
    ItemSale(&'a str, bool),
    Sale(bool),
    Paused,
    Commands,
    Availability,
    Reservations,
    History(&'a str),
    Inventory,
    Events,
    EventStream,
    ProblemPage(&'a str),
    OpenApi,
    Docs,
    Index,
}

/// Why a request is for no route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Miss {
    /// There is no such path.
    Path,
    /// The path takes these methods.
    Method(&'static str),
}

impl<'a> Route<'a> {
    /// Finds the route.
    pub(super) fn find(method: &str, path: &'a str) -> Result<Self, Miss> {
        // Unused segments are empty below, so that a path with more slashes at its end would be taken for another.
        if path.len() > 1 && path.ends_with('/') {
            return Err(Miss::Path);
        }
        let mut segments = [""; 6];
        let mut parts = path.strip_prefix('/').ok_or(Miss::Path)?.split('/');
        for (slot, part) in segments.iter_mut().zip(&mut parts) {
            *slot = part;
        }
        if parts.next().is_some() {
            return Err(Miss::Path);
        }
        let get = matches!(method, "GET" | "HEAD");
        let post = |route| if method == "POST" { Ok(route) } else { Err(Miss::Method("POST")) };
        let read = |route| if get { Ok(route) } else { Err(Miss::Method("GET, HEAD")) };
        match segments {
            ["v1", "inventory", sku, "reserve", "", ""] => post(Self::ReserveSingle(sku)),
            ["v1", "reservations", id, "confirm", "", ""] => post(Self::Confirm(id)),
            ["v1", "inventory", sku, "available", "", ""] => read(Self::Available(sku)),
            ["v1", "reservations", "", "", "", ""] => match method {
                "POST" => Ok(Self::ReserveBasket),
                _ if get => Ok(Self::Reservations),
                _ => Err(Miss::Method("GET, HEAD, POST")),
            },
            ["v1", "commands", "", "", "", ""] => post(Self::Commands),
            ["v1", "reservations", id, "", "", ""] => match method {
                "DELETE" => Ok(Self::Release(id)),
                _ if get => Ok(Self::Reservation(id)),
                _ => Err(Miss::Method("GET, HEAD, DELETE")),
            },
            ["v1", "reservations", id, "extend", "", ""] => post(Self::Extend(id)),
            ["v1", "reservations", id, "return", "", ""] => post(Self::Return(id)),
            ["v1", "reservations", id, "events", "", ""] => read(Self::History(id)),
            ["v1", "availability", "", "", "", ""] => post(Self::Availability),
            ["v1", "inventory", "", "", "", ""] => read(Self::Inventory),
            ["v1", "inventory", sku, "", "", ""] if !sku.is_empty() => match method {
                "PUT" => Ok(Self::SetStock(sku)),
                _ if get => Ok(Self::Item(sku)),
                _ => Err(Miss::Method("GET, HEAD, PUT")),
            },
            ["v1", "inventory", sku, "adjust", "", ""] => post(Self::Adjust(sku)),
            ["v1", "inventory", sku, "units", "", ""] => match method {
                "POST" => Ok(Self::AddUnits(sku)),
                _ if get => Ok(Self::Units(sku)),
                _ => Err(Miss::Method("GET, HEAD, POST")),
            },
            ["v1", "inventory", sku, "units", unit, ""] => match method {
                "DELETE" => Ok(Self::RetireUnit(sku, unit)),
                _ if get => Ok(Self::Unit(sku, unit)),
                _ => Err(Miss::Method("GET, HEAD, DELETE")),
            },
            ["v1", "inventory", sku, "units", unit, "events"] => read(Self::UnitHistory(sku, unit)),
            ["v1", "inventory", sku, "seat-map", "", ""] => read(Self::SeatMap(sku)),
            ["v1", "inventory", sku, "pause", "", ""] => post(Self::ItemSale(sku, true)),
            ["v1", "inventory", sku, "resume", "", ""] => post(Self::ItemSale(sku, false)),
            ["v1", "sale", "", "", "", ""] => read(Self::Paused),
            ["v1", "sale", "pause", "", "", ""] => post(Self::Sale(true)),
            ["v1", "sale", "resume", "", "", ""] => post(Self::Sale(false)),
            ["v1", "events", "", "", "", ""] => read(Self::Events),
            ["v1", "events", "stream", "", "", ""] => read(Self::EventStream),
            ["openapi.json", "", "", "", "", ""] => read(Self::OpenApi),
            ["docs", "", "", "", "", ""] => read(Self::Docs),
            ["problems", reason, "", "", "", ""] if !reason.is_empty() => read(Self::ProblemPage(reason)),
            ["", "", "", "", "", ""] => read(Self::Index),
            _ => Err(Miss::Path),
        }
    }

    /// Longest body that it takes, in bytes.
    pub(super) fn body_limit(self) -> usize {
        match self {
            Self::Commands => COMMANDS_BODY_BYTES,
            Self::AddUnits(_) => UNITS_BODY_BYTES,
            Self::ReserveBasket | Self::Availability => BASKET_BODY_BYTES,
            _ => BODY_BYTES,
        }
    }

    /// Whether it reads a body.
    pub(super) fn takes_body(self) -> bool {
        match self {
            Self::ReserveSingle(_)
            | Self::ReserveBasket
            | Self::Confirm(_)
            | Self::Extend(_)
            | Self::Return(_)
            | Self::SetStock(_)
            | Self::Adjust(_)
            | Self::ItemSale(..)
            | Self::AddUnits(_)
            | Self::Sale(_)
            | Self::Commands
            | Self::Availability => true,
            Self::Reservation(_)
            | Self::Release(_)
            | Self::Available(_)
            | Self::Item(_)
            | Self::Units(_)
            | Self::Unit(..)
            | Self::UnitHistory(..)
            | Self::RetireUnit(..)
            | Self::SeatMap(_)
            | Self::Paused
            | Self::Reservations
            | Self::History(_)
            | Self::Inventory
            | Self::Events
            | Self::EventStream
            | Self::ProblemPage(_)
            | Self::OpenApi
            | Self::Docs
            | Self::Index => false,
        }
    }
}

macro_rules! names {
    ($($name:literal: $route:pat,)+) => {
        impl Route<'_> {
            /// What the route is called in metrics.
            pub(super) fn name(self) -> &'static str {
                match self { $($route => $name),+ }
            }

            /// Every name that [`Route::name`] gives, for metrics to be made beforehand.
            pub(super) const NAMES: &'static [&'static str] = &[$($name),+];
        }
    };
}

names! {
    "reserve": Self::ReserveSingle(_) | Self::ReserveBasket,
    "reservation": Self::Reservation(_),
    "confirm": Self::Confirm(_),
    "extend": Self::Extend(_),
    "release": Self::Release(_),
    "return": Self::Return(_),
    "available": Self::Available(_),
    "item": Self::Item(_),
    "set_stock": Self::SetStock(_),
    "adjust": Self::Adjust(_),
    "add_units": Self::AddUnits(_),
    "units": Self::Units(_),
    "unit": Self::Unit(..),
    "unit_history": Self::UnitHistory(..),
    "retire_unit": Self::RetireUnit(..),
    "seat_map": Self::SeatMap(_),
    "set_sale": Self::ItemSale(..) | Self::Sale(_),
    "sale": Self::Paused,
    "commands": Self::Commands,
    "availability": Self::Availability,
    "reservations": Self::Reservations,
    "history": Self::History(_),
    "inventory": Self::Inventory,
    "events": Self::Events,
    "event_stream": Self::EventStream,
    "page": Self::ProblemPage(_) | Self::OpenApi | Self::Docs | Self::Index,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_methods() {
        let find = Route::find;
        assert_eq!(find("POST", "/v1/inventory/a%2Fb/reserve"), Ok(Route::ReserveSingle("a%2Fb")));
        assert_eq!(find("GET", "/v1/inventory/a/reserve"), Err(Miss::Method("POST")));
        assert_eq!(find("PATCH", "/v1/reservations/x"), Err(Miss::Method("GET, HEAD, DELETE")));
        assert_eq!(find("GET", "/v1/inventory/"), Err(Miss::Path));
        assert_eq!(find("GET", "/v1/inventory/a/b/c/d"), Err(Miss::Path));
        assert_eq!(find("POST", "/v1/inventory/a/reserve/c/d"), Err(Miss::Path));
        assert_eq!(find("POST", "/v1/reservations/"), Err(Miss::Path));
        assert_eq!(find("GET", "//"), Err(Miss::Path));
        assert_eq!(find("GET", "*"), Err(Miss::Path));
        assert_eq!(find("GET", "/"), Ok(Route::Index));
        assert_eq!(find("POST", "/v1/sale/pause"), Ok(Route::Sale(true)));
        assert_eq!(find("GET", "/v1/sale"), Ok(Route::Paused));
        assert_eq!(find("GET", "/v1/reservations"), Ok(Route::Reservations));
        assert_eq!(find("PUT", "/v1/reservations"), Err(Miss::Method("GET, HEAD, POST")));
        assert_eq!(find("HEAD", "/v1/inventory"), Ok(Route::Inventory));
        assert_eq!(find("GET", "/v1/reservations/x/events"), Ok(Route::History("x")));
        assert_eq!(find("GET", "/v1/events/"), Err(Miss::Path));
        assert_eq!(find("GET", "/v1/events/streams"), Err(Miss::Path));
        assert_eq!(find("GET", "/v1/commands"), Err(Miss::Method("POST")));
        assert_eq!(find("GET", "/v1/inventory/a/units"), Ok(Route::Units("a")));
        assert_eq!(find("DELETE", "/v1/inventory/a/units/x%2Fy"), Ok(Route::RetireUnit("a", "x%2Fy")));
        assert_eq!(find("GET", "/v1/inventory/a/units/x%2Fy"), Ok(Route::Unit("a", "x%2Fy")));
        assert_eq!(find("PUT", "/v1/inventory/a/units/x"), Err(Miss::Method("GET, HEAD, DELETE")));
        assert_eq!(find("HEAD", "/v1/inventory/a/units/x/events"), Ok(Route::UnitHistory("a", "x")));
        assert_eq!(find("DELETE", "/v1/inventory/a/units/x/events"), Err(Miss::Method("GET, HEAD")));
        assert_eq!(find("GET", "/v1/inventory/a/units/x/events/"), Err(Miss::Path));
        assert_eq!(find("GET", "/v1/inventory/a/units/x/events/1"), Err(Miss::Path));
        assert_eq!(find("DELETE", "/v1/inventory/a/units/"), Err(Miss::Path));
        assert_eq!(find("POST", "/v1/inventory/a/seat-map"), Err(Miss::Method("GET, HEAD")));
    }
}
