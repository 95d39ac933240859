//! Messages of gRPC: the first byte chooses the method.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stockhold_grpc::{Commands, Kind, Method, request};

fuzz_target!(|data: &[u8]| {
    let Some((choice, message)) = data.split_first() else { return };
    let mut methods: Vec<_> = Method::all().collect();
    methods.sort_by_key(|(path, _)| *path);
    let (_, method) = methods[usize::from(*choice) % methods.len()];
    let body = if method.kind == Kind::Commands {
        let mut commands = Commands::default();
        commands.add(method, message).map(|()| commands.into_body())
    } else {
        request(method, message).map(|request| request.body)
    };
    match body {
        // What is read is JSON that the API can look at.
        Ok(body) if !body.is_empty() => drop(serde_json::from_slice::<serde_json::Value>(&body).expect("valid JSON")),
        Ok(_) => {}
        Err(fault) => assert!(!fault.detail.is_empty(), "a fault without words"),
    }
});
