//! The SQL stores: they load and lock what a batch of commands may touch, let [`stockhold_domain::decide`] decide, and
//! commit. No rule stands here, in Rust or in SQL.
//!
//! [`postgres`] is a thin first version for counted stock; it shows that the frame fits a store that loads and locks.

pub mod postgres;
