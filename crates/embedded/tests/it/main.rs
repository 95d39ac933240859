//! The embedded store as its users see it: through its directory and the `Store` trait.

mod archive;
mod conformance;
mod damage;
mod mangled;
mod panics;
mod restart;
mod units;
