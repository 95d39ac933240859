//! Tests of the crate from outside.

mod jwt;
mod keys;
