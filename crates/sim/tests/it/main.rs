//! Tests of the simulator: with the correct store, with flaws, and with whole stores.

mod simulated;
mod whole;
