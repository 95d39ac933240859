//! Takes in changed files of TLS. They are read again and again, and compared by content: a renewal may replace a file, a link
//! or a directory, and no other way notices all of them. Who does not want to wait for the next time asks with [`Tls::reload`].

use super::Tls;
use std::sync::Arc;
use std::time::Duration;
use stockhold_config::TlsFiles;

/// How often the files are read.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

impl Tls {
    /// Has the files read now.
    pub(crate) fn reload(&self) {
        self.reload.notify_one();
    }

    /// Takes in changed files, for as long as it is asked to. `files` are those in force.
    pub(crate) async fn watch_files(self: Arc<Self>, files: TlsFiles) {
        let mut seen = Ok(files);
        loop {
            tokio::select! {
                () = tokio::time::sleep(POLL_INTERVAL) => {}
                () = self.reload.notified() => {}
            }
            let paths = self.paths.clone();
            let read = tokio::task::spawn_blocking(move || paths.read()).await;
            let Ok(found) = read else { continue };
            if found == seen {
                continue;
            }
            seen = found;
            let config = match &seen {
                Ok(files) => self.paths.server_config(files),
                Err(why) => Err(why.clone()),
            };
            match config {
                Ok(config) => {
                    self.config.send_replace(config);
                    tracing::info!("the TLS files have changed: new connections use them");
                }
                Err(why) => tracing::warn!(
                    why,
                    "the TLS files have changed and can't be used: the last good ones stay in force"
                ),
            }
        }
    }
}
