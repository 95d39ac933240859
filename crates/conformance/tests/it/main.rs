//! The suite's own tests: the seeded runner over whole stores catches a store that is wrong, and parsers get what they are
//! promised.

mod mutate;
mod whole;
