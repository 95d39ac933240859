//! `stockhold`: the service and the tools to run it.

mod address;
mod advice;
mod backend;
mod cli;
mod config;
mod exit;
mod http;
mod logging;
mod serve;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    cli::run()
}
