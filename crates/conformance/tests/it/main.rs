//! The seeded runner over whole stores catches a store that is wrong.

mod whole;
