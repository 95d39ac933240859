//! The house rules, held by tests.

mod tidy;
