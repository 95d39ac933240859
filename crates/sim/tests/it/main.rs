//! Tests of the simulator: with the correct store, and with flaws.

mod simulated;
