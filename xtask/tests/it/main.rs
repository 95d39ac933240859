//! The house rules, held by tests.

mod tree;

mod modules;
mod patches;
mod tidy;
mod types;
mod words;
