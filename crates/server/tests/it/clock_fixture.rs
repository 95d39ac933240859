//! A wall clock that a test moves while a server runs: a library that is preloaded into the server's process.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

const SOURCE: &str = include_str!("../../../../xtask/shim/clockshim.c");

/// A clock that shows the right time until it is moved.
pub(crate) struct MovedClock {
    control: tempfile::NamedTempFile,
}

impl MovedClock {
    pub(crate) fn new() -> Self {
        let control = tempfile::NamedTempFile::new().unwrap();
        control.as_file().set_len(8).unwrap();
        Self { control }
    }

    /// The environment of a process that has this clock.
    pub(crate) fn variables(&self) -> [(&'static str, String); 2] {
        [
            ("LD_PRELOAD", library().display().to_string()),
            ("CLOCKSHIM_CONTROL", self.control.path().display().to_string()),
        ]
    }

    /// From here on it is ahead by so many seconds, or behind.
    pub(crate) fn set(&self, seconds: i64) {
        let nanos = seconds * 1_000_000_000;
        let file: &File = self.control.as_file();
        file.write_all_at(&nanos.to_ne_bytes(), 0).unwrap();
    }
}

/// The library, compiled once for each run of the tests.
fn library() -> &'static PathBuf {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let name = format!("clockshim-{}", std::process::id());
        let (source, library) = (folder.join(format!("{name}.c")), folder.join(format!("{name}.so")));
        std::fs::write(&source, SOURCE).unwrap();
        let output =
            Command::new("cc").args(["-shared", "-fPIC", "-O2", "-o"]).args([&library, &source]).output();
        let output = output.expect("there is no C compiler: scripts/servers installs one");
        assert!(output.status.success(), "{}", crate::support::said(&output));
        library
    })
}
