//! Whether other users of this machine can read what the server writes.

use crate::settings::Config;
use stockhold_store::own_files::{DIRECTORY_MODE, FILE_MODE, find_wider};

impl Config {
    /// A sentence for each directory of data that others than its owner may use, or files in it. What the program makes is its owner's;
    /// what was there before keeps its permissions.
    pub fn wide_files(&self) -> Vec<String> {
        let data = self.store.is_embedded().then_some(&self.data_dir);
        let sinks = self.sinks.values().filter_map(|sink| sink.path.as_ref());
        let sentence = |dir: &std::path::PathBuf| {
            let wider = find_wider(dir);
            let first = wider.first()?;
            let others = match wider.len() - 1 {
                0 => String::new(),
                others => format!(" and {others} more"),
            };
            Some(format!(
                "other users of this machine have permissions on {} (mode {:04o}){others}: `chmod -R go= {}` makes directories \
                 {DIRECTORY_MODE:04o} and files {FILE_MODE:04o}",
                first.path.display(),
                first.mode,
                dir.display()
            ))
        };
        data.into_iter().chain(self.archive.dir.as_ref()).chain(sinks).filter_map(sentence).collect()
    }
}
