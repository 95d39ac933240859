//! What commands print. If the reader closes standard output, the command ends quietly. If writing there fails for another reason, the
//! error is shown once and the command fails. What can't be written to standard error is dropped. Printing must never panic.
//!
//! Texts of others, such as names that callers of a server have chosen or errors of the server itself, must not control the terminal. So
//! what is printed has no control characters but line ends and tabs, whatever it was made of.
//!
//! `print!`, `println!`, `eprint!` and `eprintln!` of all modules declared after this one are the macros of this module.

use anstyle::Style;
use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use stockhold_api::printable::escaped_lines;
use stockhold_config::exit;

/// Nobody reads any more, or nothing can be written.
static ENDED: AtomicBool = AtomicBool::new(false);
/// Something that should have been written is not.
static LOST: AtomicBool = AtomicBool::new(false);

macro_rules! print {
    ($($text:tt)*) => { $crate::out::put(format_args!($($text)*)) };
}

macro_rules! println {
    () => { print!("\n") };
    ($($text:tt)*) => { print!("{}\n", format_args!($($text)*)) };
}

/// A line that begins with a word in a style, where there are styles.
macro_rules! println_styled {
    ($style:expr, $word:expr, $($text:tt)*) => { $crate::out::put_styled($style, $word, format_args!($($text)*)) };
}

macro_rules! eprint {
    ($($text:tt)*) => { ::stockhold_config::standard_error::write(format_args!($($text)*)) };
}

macro_rules! eprintln {
    ($($text:tt)*) => { eprint!("{}\n", format_args!($($text)*)) };
}

/// Writes it now.
pub(super) fn put(text: Arguments<'_>) {
    bytes(escaped_lines(&text.to_string()).as_bytes());
}

/// Writes a line that begins with a word in a style.
pub(super) fn put_styled(style: Style, word: &str, text: Arguments<'_>) {
    if is_closed() {
        return;
    }
    let text = text.to_string();
    let mut out = anstream::stdout().lock();
    let written = writeln!(out, "{style}{word}{style:#}{}", escaped_lines(&text));
    if let Err(error) = written.and_then(|()| out.flush()) {
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
