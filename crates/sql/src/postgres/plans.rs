//! The statements whose plans matter, and what their plans have to be.

use super::limit_statements::{
    COUNTER_PAGE, LOCK_COUNTERS, LOCK_FREE_COUNTERS, READ_COUNTED_DUE, READ_COUNTERS,
};
use super::statements::{
    LOCK_FREE_HOLDS, LOCK_FREE_ITEMS, LOCK_HOLDS, LOCK_ITEMS, LOCK_RECORDS, READ_ANY_DUE, READ_ANY_RELEASE,
    READ_DUE, READ_EVENTS, READ_HISTORY, READ_HOLDS, READ_ITEMS, READ_KEYS, READ_RECORDS, RECORD_PAGE,
    SCAN_ALL, SCAN_ORDER, SCAN_OWNER, SCAN_SKU,
};
use super::unit_statements::{
    LOCK_FREE_UNITS, LOCK_NAMED_UNITS_THAT_ARE_FREE, LOCK_POOL_UNITS, LOCK_UNITS, READ_FREE_UNITS,
    READ_POOL_UNITS, READ_UNIT, UNIT_FIGURES, UNITS_PAGE,
};

/// A statement and the index that its plan has to use. Tests check the plans.
#[derive(Clone, Copy, Debug)]
pub struct ExpectedPlan {
    /// What it is for.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
    /// The index, or what those of which any will do begin with.
    pub index: &'static str,
    /// Whether rows have to be locked in the order of the arrays.
    pub locks: bool,
}

/// The statements whose plans matter.
pub const PLANS: [ExpectedPlan; 33] = [
    ExpectedPlan { name: "lock items", text: LOCK_ITEMS, index: "items_", locks: true },
    ExpectedPlan { name: "lock free items", text: LOCK_FREE_ITEMS, index: "items_", locks: true },
    ExpectedPlan { name: "lock reservations", text: LOCK_HOLDS, index: "holds_", locks: true },
    ExpectedPlan { name: "lock free reservations", text: LOCK_FREE_HOLDS, index: "holds_", locks: true },
    ExpectedPlan { name: "read items", text: READ_ITEMS, index: "items_", locks: false },
    ExpectedPlan { name: "read reservations", text: READ_HOLDS, index: "holds_", locks: false },
    ExpectedPlan { name: "look a key up", text: READ_KEYS, index: "keys_pkey", locks: false },
    ExpectedPlan { name: "deadlines of an item", text: READ_DUE, index: "active_lines_pkey", locks: false },
    ExpectedPlan { name: "sweep", text: READ_ANY_DUE, index: "active_lines_due", locks: false },
    ExpectedPlan { name: "pools to release", text: READ_ANY_RELEASE, index: "items_releases", locks: false },
    ExpectedPlan { name: "an owner's list", text: SCAN_OWNER, index: "holds_by_owner", locks: false },
    ExpectedPlan { name: "a SKU's list", text: SCAN_SKU, index: "holds_by_sku", locks: false },
    ExpectedPlan { name: "an order's list", text: SCAN_ORDER, index: "hold_orders_by_order", locks: false },
    ExpectedPlan { name: "the list of all", text: SCAN_ALL, index: "holds_by_id", locks: false },
    ExpectedPlan { name: "lock named units", text: LOCK_UNITS, index: "units_pkey", locks: true },
    ExpectedPlan {
        name: "lock named units that are free",
        text: LOCK_NAMED_UNITS_THAT_ARE_FREE,
        index: "units_pkey",
        locks: true,
    },
    ExpectedPlan {
        name: "lock the first free units",
        text: LOCK_FREE_UNITS,
        index: "units_in_order",
        locks: true,
    },
    ExpectedPlan {
        name: "read the first free units",
        text: READ_FREE_UNITS,
        index: "units_in_order",
        locks: false,
    },
    ExpectedPlan {
        name: "lock the first free units of a pool",
        text: LOCK_POOL_UNITS,
        index: "units_in_pools",
        locks: true,
    },
    ExpectedPlan {
        name: "read the first free units of a pool",
        text: READ_POOL_UNITS,
        index: "units_in_pools",
        locks: false,
    },
    ExpectedPlan { name: "figures of units", text: UNIT_FIGURES, index: "unit_counters_pkey", locks: false },
    ExpectedPlan { name: "a page of units", text: UNITS_PAGE, index: "units_in_order", locks: false },
    ExpectedPlan { name: "one unit", text: READ_UNIT, index: "units_pkey", locks: false },
    ExpectedPlan { name: "a history", text: READ_HISTORY, index: "holds_", locks: false },
    ExpectedPlan {
        name: "events after a position",
        text: READ_EVENTS,
        index: "events_by_position",
        locks: false,
    },
    ExpectedPlan { name: "lock counters", text: LOCK_COUNTERS, index: "limit_counters_pkey", locks: true },
    ExpectedPlan {
        name: "lock free counters",
        text: LOCK_FREE_COUNTERS,
        index: "limit_counters_pkey",
        locks: true,
    },
    ExpectedPlan { name: "read counters", text: READ_COUNTERS, index: "limit_counters_pkey", locks: false },
    ExpectedPlan {
        name: "a page of counters",
        text: COUNTER_PAGE,
        index: "limit_counters_pkey",
        locks: false,
    },
    ExpectedPlan {
        name: "deadlines of a counter",
        text: READ_COUNTED_DUE,
        index: "counted_holds_pkey",
        locks: false,
    },
    ExpectedPlan { name: "lock records", text: LOCK_RECORDS, index: "records_pkey", locks: true },
    ExpectedPlan { name: "read records", text: READ_RECORDS, index: "records_pkey", locks: false },
    ExpectedPlan { name: "a page of records", text: RECORD_PAGE, index: "records_pkey", locks: false },
];
