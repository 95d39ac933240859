//! `stockhold`: the service and the tools to run it.

mod access;
mod archiver;
mod backend;
mod clock_watch;
mod http;
mod logging;
mod secrets_at_rest;
mod serve;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    stockhold_cli::run(serve::serve)
}
