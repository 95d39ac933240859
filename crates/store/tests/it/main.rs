//! The rules against the model, and the suite against a store that is as simple as a store can be, which can be broken on
//! purpose.

mod decide_against_model;
mod fingerprints;
mod flaw;
mod memory_world;
mod mutated;
mod suite;
