//! The gRPC contract of Stockhold: the methods ([`Method`]), and their translation from and to the JSON of the HTTP API.
//!
//! Each method is a twin of a route. A request becomes the parts of an HTTP request ([`HttpRequest`]), which the server answers as it
//! answers all others, and the answer becomes a message. So every rule of validation and of access is written once. This crate knows
//! no rule, reads no clock and does no I/O.

mod answer;
mod descriptors;
mod fault;
mod json;
mod members;
mod method;
mod request;
mod shape;
mod status;
mod wire;

pub use answer::{AnswerError, CommandResults, answer, event_answer, position_answer};
pub use descriptors::DESCRIPTORS;
pub use fault::Fault;
pub use method::{Kind, Method, SERVICES};
pub use request::{Commands, HttpRequest, request};
pub use status::{Status, code, of_fault, of_problem, plain};
