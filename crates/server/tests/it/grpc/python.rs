//! A client that is generated from the `.proto` files by the tools of gRPC for Python, as `docs/how-to/grpc.md` shows it.

use super::GrpcServer;
use crate::clients::{installed, repository};
use crate::support::said;
use std::fs;
use std::process::Command;

/// The block of the page in this language, by its number.
fn block(page: &str, language: &str, number: usize) -> String {
    let begin = format!("```{language}\n");
    let found =
        page.split(&begin).nth(number + 1).unwrap_or_else(|| panic!("no block {number} of {language}"));
    found.split("```").next().unwrap().to_owned()
}

#[test]
fn the_page_is_followed_word_by_word() {
    let page = fs::read_to_string(repository("docs/how-to/grpc.md")).unwrap();
    let server = GrpcServer::start();
    let dir = tempfile::tempdir().unwrap();
    let run = |command: &mut Command| {
        let bin = installed("python/bin");
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        let output = command.current_dir(dir.path()).env("PATH", path).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        output
    };
    std::os::unix::fs::symlink(repository("proto"), dir.path().join("proto")).unwrap();
    let generate = block(&page, "sh", 1);
    let generate = generate.lines().filter(|line| !line.starts_with("pip ")).collect::<Vec<_>>().join("\n");
    run(Command::new("sh").args(["-ec", &generate]));
    let mut shown = String::new();
    for number in 0..3 {
        let program = block(&page, "python", number).replace("127.0.0.1:8113", &server.address);
        fs::write(dir.path().join(format!("step{number}.py")), program).unwrap();
        let output = run(Command::new("python").arg(format!("step{number}.py")));
        shown += &String::from_utf8(output.stdout).unwrap();
    }
    let expected: String = (0..3).map(|number| block(&page, "text", number)).collect();
    assert_eq!(shown, expected);
}
