//! `stockhold listen`: an application on the developer's machine gets the events of a server.

use crate::sinks::{check, feed, sell, stock};
use crate::support::{Running, Server, said, stockhold};
use crate::web_application::{Answer, Application, Delivery};

#[test]
fn an_application_gets_every_event_once_over_a_restart_of_the_server() {
    let mut server = Server::start();
    stock(&server, "lamp", 100);
    sell(&server, "lamp", 10);
    let application = Application::start(Answer::Status(204));
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let mut command = stockhold(server.dir());
    command.args(["listen", "--server", &server.url(), "--forward-to", &application.url, "--from", "1"]);
    let mut listening = Running::start(command.env("STOCKHOLD_WEBHOOK_SECRET", secret));
    listening.wait_for_line("sending the events from position 1 on");
    application.wait_for(feed(&server).len());

    server.kill();
    server.restart();
    sell(&server, "lamp", 10);
    let known = feed(&server);
    let deliveries = application.wait_for(known.len());
    let events: Vec<_> = deliveries.iter().map(Delivery::event).collect();
    check(&events, &known);
    assert_eq!(events.len(), known.len(), "an event came twice");
    assert!(
        deliveries.iter().all(|delivery| delivery.path == "/hook" && delivery.signed_by(&[secret]) == [1])
    );
    listening.kill();
}

#[test]
fn a_delivery_that_fails_is_shown_and_the_next_one_follows() {
    let server = Server::start();
    stock(&server, "lamp", 10);
    sell(&server, "lamp", 3);
    let application = Application::start(Answer::Status(500));
    let mut command = stockhold(server.dir());
    command.args(["listen", "--server", &server.url(), "--forward-to", &application.url, "--from", "1"]);
    command.args(["--types", "reservation.*"]);
    let mut listening = Running::start(&mut command);
    listening.wait_for_line("the secret of this run is whsec_");
    let deliveries = application.wait_for(5);
    assert!(deliveries.iter().all(|delivery| delivery.kind().starts_with("stockhold.reservation.")));
    let line = listening.line();
    let words: Vec<_> = line.split_whitespace().collect();
    assert_eq!(&words[1..2], ["reservation.created"], "{line}");
    assert_eq!(words[3], "500", "{line}");
    listening.kill();
}

#[test]
fn wrong_arguments_end_with_exit_code_2() {
    let server = Server::start();
    let wrong: [(&[&str], &str); 5] = [
        (&["--forward-to", "localhost:3000"], "--forward-to"),
        (&["--forward-to", "http://me:pass-word@localhost/"], "--forward-to"),
        (&["--forward-to", "http://localhost/", "--types", "order.made"], "--types"),
        (&["--forward-to", "http://localhost/", "--secret", "not-a-secret"], "--secret"),
        (&["--forward-to", "http://localhost/", "--from", "0"], "--from"),
    ];
    for (arguments, named) in wrong {
        let output = stockhold(server.dir()).arg("listen").args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        let text = said(&output);
        assert!(text.contains(named), "{text}");
        assert!(!text.contains("pass-word") && !text.contains("not-a-secret"), "{text}");
    }
}
