//! Standard error. Everything that the program writes there goes through this module, because the reader of standard error must never
//! end it: a line that can't be written is dropped.
//!
//! A server must not wait for the reader either. [`start_queue`] puts a bounded queue and a thread of its own between the program and the
//! reader. A line that has no room in the queue is dropped and counted.

use std::collections::VecDeque;
use std::fmt::Arguments;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use stockhold_api::printable::{escaped, escaped_lines};

/// Most lines that wait to be written.
const LINES: usize = 8_192;
/// Most bytes of them.
const BYTES: usize = 4 * 1024 * 1024;
/// How long the end of the program waits for the lines that are not written yet.
const LAST_WAIT: Duration = Duration::from_secs(1);

static QUEUE: OnceLock<Queue> = OnceLock::new();
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// Lines on their way to standard error.
#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    has_lines: Condvar,
    is_empty: Condvar,
}

#[derive(Default)]
struct State {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    /// Whether the thread writes a line that it has taken.
    is_writing: bool,
}

/// From now on nothing that is written waits for the reader of standard error.
pub fn start_queue() -> io::Result<()> {
    // Not `io::stderr()`: the thread would keep its lock for as long as the reader hangs.
    let target = File::from(io::stderr().as_fd().try_clone_to_owned()?);
    let queue = QUEUE.get_or_init(Queue::default);
    std::thread::Builder::new().name("log".to_owned()).spawn(move || queue.write_to(target))?;
    Ok(())
}

/// Writes a text, which should be whole lines. Characters of it that could control a terminal are escaped: it may have the words of others.
pub fn write(text: Arguments<'_>) {
    write_bytes(escaped_lines(&text.to_string()).into_owned().into_bytes());
}

/// The lines that were not written since the start of the program.
pub fn dropped_lines() -> u64 {
    DROPPED.load(Ordering::Relaxed)
}

/// Waits for the lines that are in the queue, but not for a reader that hangs.
pub fn finish() {
    if let Some(queue) = QUEUE.get() {
        let waits = |state: &mut State| state.is_writing || !state.lines.is_empty();
        // After the wait it does not matter whether all were written.
        let _ = queue.is_empty.wait_timeout_while(queue.lock(), LAST_WAIT, waits);
    }
}

/// A writer of whole lines for the log. It never fails. A line end within a line is escaped, so that no text of others can make a line.
pub struct LineWriter {
    /// Whether the log itself writes escape sequences. It escapes those of values then.
    pub is_styled: bool,
}

impl Write for LineWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        let text = text.strip_suffix('\n').unwrap_or(&text);
        let mut shown = if self.is_styled { text.replace('\n', "\\n") } else { escaped(text).into_owned() };
        shown.push('\n');
        write_bytes(shown.into_bytes());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write_bytes(line: Vec<u8>) {
    let is_lost = match QUEUE.get() {
        Some(queue) => !queue.put(line),
        None => io::stderr().lock().write_all(&line).is_err(),
    };
    if is_lost {
        DROPPED.fetch_add(1, Ordering::Relaxed);
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns false if there is no room.
    fn put(&self, line: Vec<u8>) -> bool {
        let mut state = self.lock();
        if state.lines.len() >= LINES || state.bytes.saturating_add(line.len()) > BYTES {
            return false;
        }
        state.bytes += line.len();
        state.lines.push_back(line);
        drop(state);
        self.has_lines.notify_one();
        true
    }

    fn write_to(&self, mut target: File) {
        loop {
            let waits = |state: &mut State| state.lines.is_empty();
            let waited = self.has_lines.wait_while(self.lock(), waits);
            let mut state = waited.unwrap_or_else(PoisonError::into_inner);
            let Some(line) = state.lines.pop_front() else { continue };
            state.bytes -= line.len();
            state.is_writing = true;
            drop(state);
            if target.write_all(&line).is_err() {
                DROPPED.fetch_add(1, Ordering::Relaxed);
            }
            let mut state = self.lock();
            state.is_writing = false;
            if state.lines.is_empty() {
                self.is_empty.notify_all();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_without_room_are_refused() {
        let queue = Queue::default();
        assert!(queue.put(vec![b'x'; BYTES]));
        assert!(!queue.put(vec![b'x']), "the bytes are bounded");
        let queue = Queue::default();
        assert!((0..LINES).all(|_| queue.put(vec![b'x'])));
        assert!(!queue.put(vec![b'x']), "the lines are bounded");
    }
}
