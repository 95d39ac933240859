//! Reads the messages of a call, each within its size limit and the memory budget.

use super::super::admission::Holder;
use super::super::admission::bounds::BODY_TIMEOUT;
use super::super::admission::memory::{BudgetGuard, MemoryBudget};
use super::Call;
use bytes::{Buf, Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use stockhold_api::problem::Problem;
use stockhold_domain::RequestId;
use stockhold_grpc::{Status, code, of_problem, plain};
use stockhold_store::Failure;
use tokio::time::{Instant, timeout_at};

/// Length of what stands before each message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;
/// Capacity that a stream keeps between messages, in bytes.
const KEPT_BYTES: usize = 64 * 1024;

/// The messages of a call, in order.
pub(super) struct MessageReader {
    body: Incoming,
    read: BytesMut,
    /// Longest message, in bytes.
    limit: usize,
    memory: MemoryBudget,
    holder: Holder,
    budget: BudgetGuard,
    counted: usize,
    /// When a message that has begun has to be complete.
    ends: Option<Instant>,
    request_id: RequestId,
}

impl MessageReader {
    /// The messages of a call, whose memory is counted for this holder.
    pub(super) fn new(call: &Call, body: Incoming, limit: usize, holder: Holder) -> Self {
        let (memory, request_id) = (call.worker.admission.memory.clone(), call.request_id.clone());
        let budget = memory.guard(holder.clone());
        Self {
            body,
            read: BytesMut::new(),
            limit,
            memory,
            holder,
            budget,
            counted: 0,
            ends: None,
            request_id,
        }
    }

    /// The next message, or `None` after the last one. A message that has begun has to end in time. To drop the future loses nothing.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Status> {
        loop {
            if let Some(message) = self.complete()? {
                return Ok(Some(message));
            }
            let frame = if self.read.is_empty() {
                self.body.frame().await
            } else {
                let ends = *self.ends.get_or_insert_with(|| Instant::now() + BODY_TIMEOUT);
                let frame = timeout_at(ends, self.body.frame()).await;
                frame.map_err(|_| status(&Problem::late(), &self.request_id))?
            };
            match frame {
                Some(Ok(frame)) => {
                    let Ok(data) = frame.into_data() else { continue };
                    self.count(data.len())?;
                    self.read.extend_from_slice(&data);
                }
                Some(Err(_)) => {
                    return Err(plain(code::INVALID_ARGUMENT, "The call ended within a message."));
                }
                None if self.read.is_empty() => return Ok(None),
                None => return Err(plain(code::INVALID_ARGUMENT, "The call ended within a message.")),
            }
        }
    }

    /// The only message of a call.
    pub(super) async fn only(&mut self) -> Result<Bytes, Status> {
        let Some(message) = self.next().await? else {
            return Err(plain(code::INVALID_ARGUMENT, "The call has no message, and the method takes one."));
        };
        match self.next().await? {
            None => Ok(message),
            Some(_) => {
                Err(plain(code::INVALID_ARGUMENT, "The call has two messages, and the method takes one."))
            }
        }
    }

    /// The messages that were handed out are done with, so only what is left of the next one is counted.
    pub(super) fn release(&mut self) {
        if self.read.is_empty() && self.counted > 0 {
            (self.budget, self.counted) = (self.memory.guard(self.holder.clone()), 0);
        }
    }

    /// Reserves memory for what was read.
    fn count(&mut self, more: usize) -> Result<(), Status> {
        let unread = self.read.len() + more;
        if unread > self.counted {
            if !self.budget.grow(unread - self.counted) {
                return Err(status(&Problem::from(&Failure::Overloaded), &self.request_id));
            }
            self.counted = unread;
        }
        Ok(())
    }

    /// A message that was read completely.
    fn complete(&mut self) -> Result<Option<Bytes>, Status> {
        let Some((prefix, rest)) = self.read.split_at_checked(PREFIX_BYTES) else { return Ok(None) };
        let length = prefix.iter().skip(1).fold(0_usize, |length, byte| length << 8 | usize::from(*byte));
        if prefix.first() != Some(&0) {
            return Err(plain(code::UNIMPLEMENTED, "Messages can't be compressed: send them as they are."));
        }
        if length > self.limit {
            return Err(status(&Problem::too_large(self.limit), &self.request_id));
        }
        if rest.len() < length {
            return Ok(None);
        }
        self.read.advance(PREFIX_BYTES);
        let message = self.read.split_to(length).freeze();
        self.ends = None;
        if self.read.is_empty() && self.read.capacity() > KEPT_BYTES {
            self.read = BytesMut::new();
        }
        Ok(Some(message))
    }
}

fn status(problem: &Problem, request_id: &RequestId) -> Status {
    let mut json = Vec::new();
    problem.write(&mut json, request_id);
    of_problem(&json, problem.retry_after())
}
