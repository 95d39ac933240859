//! Standard output of the commands. If the reader closes it, the command ends quietly. If writing fails for another reason, the error
//! is shown once and the command fails. It must never panic.
//!
//! `print!` and `println!` of all modules declared after this one are the macros of this module.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use stockhold_config::exit;

/// Nobody reads any more, or nothing can be written.
static ENDED: AtomicBool = AtomicBool::new(false);
/// Something that should have been written is not.
static LOST: AtomicBool = AtomicBool::new(false);

macro_rules! print {
    ($($text:tt)*) => { $crate::out::put(&mut ::std::io::stdout().lock(), format_args!($($text)*)) };
}

macro_rules! println {
    () => { print!("\n") };
    ($($text:tt)*) => { print!("{}\n", format_args!($($text)*)) };
}

/// The same in colours, where there are any.
macro_rules! println_styled {
    ($($text:tt)*) => {
        $crate::out::put(&mut ::anstream::stdout().lock(), format_args!("{}\n", format_args!($($text)*)))
    };
}

/// Writes it now.
pub(super) fn put(out: &mut impl Write, text: Arguments<'_>) {
    if is_closed() {
        return;
    }
    if let Err(error) = out.write_fmt(text).and_then(|()| out.flush()) {
        ended(&error);
    }
}

/// Whether nothing that is written arrives any more: a command that would go on writing is done.
pub(super) fn is_closed() -> bool {
    ENDED.load(Ordering::Relaxed)
}

/// Writes bytes as they are.
pub(super) fn bytes(bytes: &[u8]) {
    if is_closed() {
        return;
    }
    let mut out = io::stdout().lock();
    if let Err(error) = out.write_all(bytes).and_then(|()| out.flush()) {
        ended(&error);
    }
}

/// A writer to standard output. It never fails. A caller that writes much checks [`is_closed`].
pub(super) struct Stdout;

impl Write for Stdout {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        bytes(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn ended(error: &io::Error) {
    ENDED.store(true, Ordering::Relaxed);
    if error.kind() != ErrorKind::BrokenPipe {
        LOST.store(true, Ordering::Relaxed);
        eprintln!("stockhold: writing to standard output: {error}");
    }
}

/// The exit code of a command that comes to this one otherwise.
pub(super) fn code(otherwise: ExitCode) -> ExitCode {
    if LOST.load(Ordering::Relaxed) { ExitCode::from(exit::FAILED) } else { otherwise }
}
