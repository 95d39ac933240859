//! The simulator on the store as it is and on stores that are broken on purpose, and the seeded runner over whole stores.

mod simulated;
mod whole;
