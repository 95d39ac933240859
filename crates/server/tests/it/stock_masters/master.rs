//! A stand-in for a stock master that speaks the JSON form, and for the REST API of Magento. It has faults on request. No real ERP can
//! be had for tests.

use crate::support::wait_for;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};

/// The bearer token that it asks for.
pub(crate) const TOKEN: &str = "master-Secret-7";

/// What it does wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fault {
    #[default]
    None,
    /// It books a batch, and the answer is lost.
    LosesAnswers,
    /// It gives no answer to anything.
    IsDown,
    /// It refuses batches.
    RefusesBatches,
    /// It answers that it has booked a batch, and has not.
    ForgetsBatches,
    /// Its figures are those from before the last batch.
    Lags,
    /// It has two figures for one item.
    Contradicts,
    /// Every page of figures has the cursor of the first one.
    RepeatsPages,
    /// Figures below 0.
    IsNegative,
    /// It offers no orders.
    HasNoOrders,
    /// Something in front of it answers every batch with a page and status 200.
    IsBehindAPage,
    /// It books batches, and its answers do not end.
    NeverEnds,
    /// It does not know the token any more.
    RefusesToken,
}

/// The books of the stock master.
#[derive(Default)]
pub(crate) struct Books {
    pub(crate) fault: Fault,
    pub(crate) stock: BTreeMap<String, i64>,
    /// The stock before the last batch, and the batch before it.
    old: (BTreeMap<String, i64>, Option<String>),
    /// The booked batches with their lines.
    batches: BTreeMap<String, Value>,
    last_batch: Option<String>,
    pub(crate) orders: BTreeMap<String, String>,
    /// Requests that a correct client does not send.
    pub(crate) wrong: Vec<String>,
    /// Batches that came again.
    pub(crate) repeated: usize,
    pub(crate) refused: usize,
    /// Whether its figures do not say which batch they contain.
    pub(crate) is_silent: bool,
}

/// A stock master at an address.
pub(crate) struct Master {
    pub(crate) url: String,
    books: Arc<Mutex<Books>>,
}

/// Entries of a page of figures.
const PAGE: usize = 2;

impl Master {
    /// One that has so many units of each SKU, at the default location.
    pub(crate) fn start(stock: &[(&str, i64)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/api", listener.local_addr().unwrap());
        let stock = stock.iter().map(|(sku, units)| ((*sku).to_owned(), *units)).collect();
        let books = Arc::new(Mutex::new(Books { stock, ..Books::default() }));
        let shared = Arc::clone(&books);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || {
                    let mut reader = BufReader::new(stream.unwrap());
                    while let Some(request) = read(&mut reader) {
                        let Some((status, body)) = answer(&shared, &request) else { return };
                        let is_endless =
                            request.method == "POST" && shared.lock().unwrap().fault == Fault::NeverEnds;
                        if write(reader.get_mut(), status, &body, is_endless).is_err() || is_endless {
                            return;
                        }
                    }
                });
            }
        });
        Self { url, books }
    }

    pub(crate) fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap()
    }

    pub(crate) fn set_fault(&self, fault: Fault) {
        self.books().fault = fault;
    }

    pub(crate) fn units(&self, sku: &str) -> i64 {
        self.books().stock[sku]
    }

    pub(crate) fn receive(&self, sku: &str, units: i64) {
        *self.books().stock.get_mut(sku).unwrap() += units;
    }

    pub(crate) fn wait_for_units(&self, sku: &str, units: i64) {
        wait_for(&format!("{units} units of {sku} at the stock master"), || {
            (self.units(sku) == units).then_some(())
        });
    }
}

struct Request {
    method: String,
    path: String,
    query: String,
    key: Option<String>,
    token: Option<String>,
    body: Value,
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let (mut length, mut key, mut token) = (0, None, None);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.split_once(':') else { break };
        let value = value.trim().to_owned();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().ok()?,
            "idempotency-key" => key = Some(value),
            "authorization" => token = Some(value),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    Some(Request { method, path: path.to_owned(), query: query.to_owned(), key, token, body })
}

fn write(stream: &mut TcpStream, status: u16, body: &Value, is_endless: bool) -> std::io::Result<()> {
    let body = body.to_string();
    if is_endless {
        let head = format!("HTTP/1.1 {status} Status\r\ncontent-type: application/json\r\n\r\n{body}");
        stream.write_all(head.as_bytes())?;
        // Until the client has had enough.
        while stream.read(&mut [0])? > 0 {}
        return Ok(());
    }
    let head = format!(
        "HTTP/1.1 {status} Status\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    // In one write, so that no acknowledgement is waited for.
    stream.write_all(format!("{head}{body}").as_bytes())
}

/// The answer to a request. `None`: the connection ends without one.
fn answer(books: &Mutex<Books>, request: &Request) -> Option<(u16, Value)> {
    let mut books = books.lock().unwrap();
    if books.fault == Fault::IsDown {
        return None;
    }
    if books.fault == Fault::RefusesToken || request.token.as_deref() != Some(&format!("Bearer {TOKEN}")) {
        return Some((401, json!({ "error": "no token" })));
    }
    match (request.method.as_str(), request.path.as_str()) {
        ("GET", "/api/stock") => Some((200, figures(&books, &request.query))),
        ("POST", "/api/decrements") => book(&mut books, request),
        ("GET", "/api/orders") if books.fault == Fault::HasNoOrders => Some((404, Value::Null)),
        ("GET", "/api/orders") => {
            let orders = books.orders.iter().map(|(id, at)| json!({ "order_id": id, "placed_at": at }));
            Some((200, json!({ "orders": orders.collect::<Vec<_>>(), "next_cursor": null })))
        }
        ("GET", "/api/V1/inventory/source-items") => {
            let entry = |(sku, units): (&String, &i64)| json!({ "sku": sku, "source_code": "default", "quantity": f64::from(i32::try_from(*units).unwrap()), "status": 1 });
            let items: Vec<_> = books.stock.iter().map(entry).collect();
            Some((200, json!({ "total_count": items.len(), "items": items })))
        }
        ("GET", "/api/V1/orders") => Some((200, json!({ "total_count": 0, "items": [] }))),
        other => {
            books.wrong.push(format!("{other:?}"));
            Some((404, Value::Null))
        }
    }
}

fn figures(books: &Books, query: &str) -> Value {
    let (stock, last_batch) = match books.fault {
        Fault::Lags => (&books.old.0, &books.old.1),
        _ => (&books.stock, &books.last_batch),
    };
    let first: usize = query.strip_prefix("cursor=").map_or(0, |cursor| cursor.parse().unwrap());
    let mut items: Vec<_> = stock
        .iter()
        .skip(first)
        .take(PAGE)
        .map(|(sku, units)| json!({ "sku": sku, "quantity": units }))
        .collect();
    match (books.fault, items.first().cloned()) {
        (Fault::Contradicts, Some(mut other)) => {
            other["quantity"] = json!(other["quantity"].as_i64().unwrap() + 1);
            items.push(other);
        }
        (Fault::IsNegative, Some(_)) => items[0]["quantity"] = json!(-4),
        _ => {}
    }
    let mut next = (first + PAGE < stock.len()).then(|| (first + PAGE).to_string());
    if books.fault == Fault::RepeatsPages {
        next = Some("0".to_owned());
    }
    let mut answer = json!({ "items": items, "next_cursor": next });
    if !books.is_silent {
        answer["booked_batch"] = json!(last_batch);
    }
    answer
}

fn book(books: &mut Books, request: &Request) -> Option<(u16, Value)> {
    let (id, lines) = (request.body["batch_id"].as_str().unwrap().to_owned(), request.body["lines"].clone());
    if request.key.as_deref() != Some(id.as_str()) {
        books.wrong.push(format!("the key {:?} of batch {id}", request.key));
    }
    if books.fault == Fault::IsBehindAPage {
        return Some((200, json!("back soon")));
    }
    if books.fault == Fault::RefusesBatches {
        books.refused += 1;
        return Some((422, json!({ "error": "no such SKU here" })));
    }
    if let Some(known) = books.batches.get(&id) {
        if *known != lines {
            books.wrong.push(format!("batch {id} came with other lines"));
        }
        books.repeated += 1;
    } else if books.fault != Fault::ForgetsBatches {
        books.old = (books.stock.clone(), books.last_batch.clone());
        for line in lines.as_array().unwrap() {
            let units = line["quantity"].as_i64().unwrap();
            *books.stock.entry(line["sku"].as_str().unwrap().to_owned()).or_default() -= units;
            for order in line["order_ids"].as_array().unwrap() {
                // The time of the order: any that is not in the future.
                books.orders.insert(order.as_str().unwrap().to_owned(), super::now());
            }
        }
        books.batches.insert(id.clone(), lines);
        books.last_batch = Some(id);
    }
    (books.fault != Fault::LosesAnswers).then(|| (200, json!({ "batch_id": request.body["batch_id"] })))
}
