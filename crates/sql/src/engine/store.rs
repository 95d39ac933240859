//! The store as others see it: a mailbox in front of one thread.

use super::dialect::Dialect;
use super::meters;
use super::options::{OpenError, Options};
use super::queue::Mailbox;
use super::run::Floor;
use super::shown::Shown;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use stockhold_domain::{Item, ItemKey};
use stockhold_store::{Job, Store};

/// A [`Store`] over a SQL database. Dropped, it finishes what it was given.
pub(crate) struct SqlStore {
    mailbox: Arc<Mailbox>,
    shown: Arc<Shown>,
    thread: Option<JoinHandle<()>>,
    name: &'static str,
}

impl SqlStore {
    /// Opens the first connection, which brings the schema up to date. Blocks until that is done.
    pub(crate) fn open<D: Dialect>(dialect: D, options: Options) -> Result<Self, OpenError> {
        if let Some(wrong) = options.wrong() {
            return Err(OpenError::Option(wrong));
        }
        meters::describe();
        let mailbox = Arc::new(Mailbox::new(options.queue));
        let shown = Arc::new(Shown::default());
        let (opened, is_open) = sync_channel(1);
        let (jobs, showing) = (Arc::clone(&mailbox), Arc::clone(&shown));
        // All of it on a thread of its own, so that a store can be opened from within anybody's runtime, and so that no
        // caller's going away cancels anything half done.
        let thread = std::thread::Builder::new()
            .name(format!("stockhold-{}", D::NAME))
            .spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let started =
                    runtime.map_err(|error| OpenError::Thread(error.to_string())).and_then(|runtime| {
                        let floor = runtime.block_on(Floor::start(dialect, options, jobs, showing))?;
                        Ok((runtime, floor))
                    });
                match started {
                    Ok((runtime, mut floor)) => {
                        // Whoever asked waits for this, and is there.
                        let _ = opened.send(Ok(()));
                        runtime.block_on(floor.run());
                    }
                    Err(error) => {
                        let _ = opened.send(Err(error));
                    }
                }
            })
            .map_err(|error| OpenError::Thread(error.to_string()))?;
        let silent = || OpenError::Thread("it ended without a word".to_owned());
        is_open.recv().unwrap_or_else(|_| Err(silent()))?;
        Ok(Self { mailbox, shown, thread: Some(thread), name: D::NAME })
    }
}

impl Store for SqlStore {
    fn submit(&self, work: Job) {
        self.mailbox.push(work);
    }

    fn flush(&self) {
        self.mailbox.ring();
    }

    /// Nothing: other instances commit as well, so memory can't know.
    fn published_item(&self, _: &ItemKey) -> Option<Option<Item>> {
        None
    }

    fn newest(&self) -> u64 {
        self.shown.newest()
    }

    fn fatal_error(&self) -> Option<String> {
        self.shown.fatal_error()
    }
}

impl Drop for SqlStore {
    /// Finishes what is in flight and what waits, then closes the connections.
    fn drop(&mut self) {
        self.mailbox.close();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!(store = self.name, "the store's thread had panicked");
        }
    }
}
