//! The [`Store`] over a SQL database: a mailbox in front of the store's thread.

use super::dispatcher::Dispatcher;
use super::mailbox::Mailbox;
use crate::engine::dialect::Dialect;
use crate::engine::meters;
use crate::engine::options::{OpenError, Options};
use crate::engine::store_status::StoreStatus;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use stockhold_domain::{Item, ItemKey};
use stockhold_store::{Job, Store};

/// A [`Store`] over a SQL database. When it is dropped, it finishes the submitted jobs.
pub struct SqlStore {
    mailbox: Arc<Mailbox>,
    status: Arc<StoreStatus>,
    thread: Option<JoinHandle<()>>,
    name: &'static str,
}

impl SqlStore {
    /// Opens the first connection, which brings the schema up to date. Blocks until then.
    pub(crate) fn open<D: Dialect>(dialect: D, options: Options) -> Result<Self, OpenError> {
        if let Some(wrong) = options.wrong() {
            return Err(OpenError::Option(wrong));
        }
        meters::describe();
        let mailbox = Arc::new(Mailbox::new(options.queue));
        let status = Arc::new(StoreStatus::default());
        let (opened, is_open) = sync_channel(1);
        let (jobs, store_status) = (Arc::clone(&mailbox), Arc::clone(&status));
        // All of it on a thread of its own, so that a store can be opened from within anybody's runtime, and so that no
        // caller's going away cancels anything half done.
        let thread = std::thread::Builder::new()
            .name(format!("stockhold-{}", D::NAME))
            .spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let started =
                    runtime.map_err(|error| OpenError::Thread(error.to_string())).and_then(|runtime| {
                        let dispatcher =
                            runtime.block_on(Dispatcher::start(dialect, options, jobs, store_status))?;
                        Ok((runtime, dispatcher))
                    });
                match started {
                    Ok((runtime, mut dispatcher)) => {
                        // The receiver waits for this message.
                        let _ = opened.send(Ok(()));
                        runtime.block_on(dispatcher.run());
                    }
                    Err(error) => {
                        let _ = opened.send(Err(error));
                    }
                }
            })
            .map_err(|error| OpenError::Thread(error.to_string()))?;
        let silent = || OpenError::Thread("it ended without a word".to_owned());
        is_open.recv().unwrap_or_else(|_| Err(silent()))?;
        Ok(Self { mailbox, status, thread: Some(thread), name: D::NAME })
    }
}

impl Store for SqlStore {
    fn submit(&self, work: Job) {
        self.mailbox.push(work);
    }

    fn flush(&self) {
        self.mailbox.ring();
    }

    /// Always `None`: other instances commit as well, so memory does not know the current item.
    fn published_item(&self, _: &ItemKey) -> Option<Option<Item>> {
        None
    }

    fn newest(&self) -> u64 {
        self.status.newest()
    }

    fn fatal_error(&self) -> Option<String> {
        self.status.fatal_error()
    }
}

impl Drop for SqlStore {
    /// Finishes all submitted jobs, then closes the connections.
    fn drop(&mut self) {
        self.mailbox.close();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!(store = self.name, "the store's thread had panicked");
        }
    }
}
