//! `stockhold completions` and `stockhold man`: completions for shells, and manual pages.

use super::out;
use clap::Command;
use clap_complete::Shell;
use std::path::Path;
use std::process::ExitCode;
use stockhold_config::exit;

/// Prints completions for a shell.
pub(super) fn completions(mut command: Command, shell: Shell) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "stockhold", &mut script);
    printed(&script)
}

/// Writes the manual pages into a directory, or the main one to standard output.
pub(super) fn man(command: Command, dir: Option<&Path>) -> ExitCode {
    let Some(dir) = dir else {
        let mut page = Vec::new();
        return match clap_mangen::Man::new(command).render(&mut page) {
            Ok(()) => printed(&page),
            Err(error) => exit::because(exit::FAILED, error),
        };
    };
    let written = std::fs::create_dir_all(dir).and_then(|()| clap_mangen::generate_to(command, dir));
    match written {
        Ok(()) => ExitCode::from(exit::DONE),
        Err(error) => exit::because(exit::FAILED, format!("{}: {error}", dir.display())),
    }
}

fn printed(bytes: &[u8]) -> ExitCode {
    out::bytes(bytes);
    ExitCode::from(exit::DONE)
}
