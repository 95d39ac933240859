//! Moves payments on that are due, from a thread of its own.

use crate::options::CheckoutOptions;
use crate::provider::{PaymentProvider, ProviderState, WebhookHeaders};
use crate::schedule::wait_ms;
use crate::step;
use crate::stripe::StripeProvider;
use crate::test_provider::TestProvider;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use stockhold_api::encode::BuyerAction;
use stockhold_customers::{CustomerError, Customers, MethodLookup, ProviderMethod};
use stockhold_domain::{
    Access, AdvancePayment, Charge, ChargeState, Command, Envelope, EventId, Hold, Label, Origin, Outcome,
    PaymentMethod, PaymentStep, ProviderReport, Reply, RequestId, ReservationId, bucket_of,
};
use stockhold_service::Principal;
use stockhold_store::clock::Clocks;
use stockhold_store::ids::IdSource;
use stockhold_store::{Answer, Failure, Query, QueryResult, Request, Store};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::LocalSet;

/// How often the store is asked for payments that are due. It bounds how late a payment goes on after a restart, and how late an
/// instance takes over what another one has left.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// The same for a server without providers, whose store may have payments of an earlier configuration.
const IDLE_POLL_INTERVAL: Duration = Duration::from_mins(1);
/// Payments that are worked on at a time.
const CONCURRENT_PAYMENTS: usize = 512;
/// Steps of one payment in a row. A payment takes three; the bound keeps a provider that contradicts itself from keeping a task busy.
const STEPS_AT_ONCE: usize = 8;

/// The number of reports of providers, by provider and kind.
const REPORTS: &str = "stockhold_payment_reports_total";
/// The number of payments that are worked on.
const IN_PROGRESS: &str = "stockhold_payments_in_progress";

/// The number of refunds that have failed.
const FAILED_REFUNDS: &str = "stockhold_refunds_failed_total";

type Waiters = Mutex<HashMap<ReservationId, Vec<oneshot::Sender<()>>>>;

/// Moves payments on, and answers about them.
pub struct CheckoutRunner {
    providers: Arc<BTreeMap<&'static str, Arc<dyn PaymentProvider>>>,
    wake: mpsc::UnboundedSender<ReservationId>,
    waiters: Arc<Waiters>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl CheckoutRunner {
    /// Starts the runner.
    pub fn start(
        store: Arc<dyn Store>,
        clocks: Clocks,
        customers: Customers,
        options: &CheckoutOptions,
    ) -> Result<Self, String> {
        let mut providers: BTreeMap<&'static str, Arc<dyn PaymentProvider>> = BTreeMap::new();
        if let Some(stripe) = &options.stripe {
            let stripe = StripeProvider::new(stripe).map_err(|what| format!("providers.stripe: {what}"))?;
            providers.insert("stripe", Arc::new(stripe));
        }
        if let Some(test) = &options.test {
            let test = TestProvider::new(test).map_err(|what| format!("providers.test: {what}"))?;
            providers.insert("test", Arc::new(test));
        }
        let providers = Arc::new(providers);
        let waiters = Arc::new(Waiters::default());
        let (wake, woken) = mpsc::unbounded_channel();
        let (stop, stopped) = watch::channel(false);
        let ids = IdSource::from_system().map_err(|error| error.to_string())?;
        metrics::describe_counter!(REPORTS, "What payment providers said, by provider and report");
        metrics::describe_counter!(
            FAILED_REFUNDS,
            "Refunds that a provider has refused ten times: an operator has to act"
        );
        metrics::counter!(FAILED_REFUNDS).increment(0);
        metrics::describe_gauge!(IN_PROGRESS, "Payments that are being moved on");
        metrics::gauge!(IN_PROGRESS).set(0);
        let work = Work {
            store,
            clocks,
            customers,
            providers: Arc::clone(&providers),
            waiters: Arc::clone(&waiters),
            pauses: (options.retry_base, options.retry_max),
            ids: RefCell::new(ids),
            in_progress: RefCell::default(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error: io::Error| error.to_string())?;
        let thread = std::thread::Builder::new().name("payments".to_owned()).spawn(move || {
            let tasks = LocalSet::new();
            tasks.block_on(&runtime, Rc::new(work).run(woken, stopped));
        });
        let thread = thread.map_err(|error| error.to_string())?;
        Ok(Self { providers, wake, waiters, stop, thread: Some(thread) })
    }

    /// The names of the providers that payments can be asked of.
    pub fn providers(&self) -> impl Iterator<Item = &'static str> {
        self.providers.keys().copied()
    }

    /// Whether a payment of a reservation has changed, once this is done. It is called before the state of the payment is read.
    pub fn changed(&self, id: ReservationId) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        let mut waiters = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
        waiters.entry(id).or_default().push(sender);
        receiver
    }

    /// Moves the payment of a reservation on now, and not at the next poll.
    pub fn wake(&self, id: ReservationId) {
        // A runner that has ended moves nothing on.
        let _ = self.wake.send(id);
    }

    /// Asks the provider what the buyer has to do. `None` if it is nothing, or the provider does not answer.
    pub async fn next_action(&self, hold: &Hold) -> Option<BuyerAction> {
        let charge = hold.charge().filter(|charge| charge.state == ChargeState::RequiresAction)?;
        let provider = self.providers.get(charge.terms.provider.as_str())?;
        match provider.retrieve(charge.provider_ref.as_ref()?).await.ok()?.state {
            ProviderState::RequiresAction(action) => Some(action),
            _ => None,
        }
    }

    /// Whether a provider of this name is configured.
    pub fn has_provider(&self, name: &str) -> bool {
        self.providers.contains_key(name)
    }

    /// Checks the signature of a webhook. Returns the reservation that it is about, if it names one. `None` if there is no such provider.
    pub fn read_webhook(
        &self,
        provider: &str,
        headers: WebhookHeaders<'_>,
        body: &[u8],
        now: stockhold_domain::Instant,
    ) -> Option<Result<Option<ReservationId>, String>> {
        Some(self.providers.get(provider)?.read_webhook(headers, body, now))
    }

    /// Ends the runner. Requests to providers that are under way are given up: their keys make them safe to repeat.
    pub fn stop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of payments panicked");
        }
    }
}

impl Drop for CheckoutRunner {
    fn drop(&mut self) {
        self.stop();
    }
}

struct Work {
    store: Arc<dyn Store>,
    clocks: Clocks,
    customers: Customers,
    providers: Arc<BTreeMap<&'static str, Arc<dyn PaymentProvider>>>,
    waiters: Arc<Waiters>,
    /// The first and the longest pause after a request that was not answered.
    pauses: (Duration, Duration),
    ids: RefCell<IdSource>,
    in_progress: RefCell<HashSet<ReservationId>>,
}

impl Work {
    async fn run(
        self: Rc<Self>,
        mut woken: mpsc::UnboundedReceiver<ReservationId>,
        mut stopped: watch::Receiver<bool>,
    ) {
        let interval = if self.providers.is_empty() { IDLE_POLL_INTERVAL } else { POLL_INTERVAL };
        let mut poll = tokio::time::interval(interval);
        poll.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = stopped.wait_for(|stopped| *stopped) => return,
                Some(id) = woken.recv() => self.begin(id),
                _ = poll.tick() => self.poll().await,
            }
        }
    }

    async fn poll(self: &Rc<Self>) {
        self.forget_gone_waiters();
        let busy = self.in_progress.borrow().len();
        if busy >= CONCURRENT_PAYMENTS {
            return;
        }
        // Those that are worked on are due too, and come first.
        let query = Query::DuePayments { now: self.clocks.store.now(), limit: busy + CONCURRENT_PAYMENTS };
        match stockhold_store::query(&*self.store, query).await {
            Ok(QueryResult::DuePayments(due)) => due.into_iter().for_each(|id| self.begin(id)),
            Ok(_) => tracing::error!("the store answered another question"),
            Err(error) => tracing::warn!(%error, "the payments that are due can't be read"),
        }
    }

    /// A caller that waits no longer leaves its place.
    fn forget_gone_waiters(&self) {
        let mut waiters = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
        waiters.retain(|_, waiting| {
            waiting.retain(|waiter| !waiter.is_closed());
            !waiting.is_empty()
        });
    }

    /// Works on a payment, unless that is done already.
    fn begin(self: &Rc<Self>, id: ReservationId) {
        let mut in_progress = self.in_progress.borrow_mut();
        if in_progress.len() >= CONCURRENT_PAYMENTS || !in_progress.insert(id) {
            return;
        }
        metrics::gauge!(IN_PROGRESS).increment(1);
        let work = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let last = match work.advance(id).await {
                Ok(last) => last,
                Err(error) => {
                    tracing::warn!(%id, %error, "a payment could not be moved on");
                    id
                }
            };
            work.in_progress.borrow_mut().remove(&id);
            metrics::gauge!(IN_PROGRESS).decrement(1);
            work.tell(id);
            if last != id {
                work.tell(last);
            }
        });
    }

    /// Tells those who wait that a payment has changed.
    fn tell(&self, id: ReservationId) {
        let waiting = self.waiters.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        for waiter in waiting.into_iter().flatten() {
            // One that waits no more needs no word.
            let _ = waiter.send(());
        }
    }

    /// Moves a payment on until it waits for somebody. Returns the reservation that has the payment then.
    async fn advance(&self, id: ReservationId) -> Result<ReservationId, Failure> {
        let found = stockhold_store::query(&*self.store, Query::Reservation(id)).await?;
        let QueryResult::Reservation(Some(mut hold)) = found else {
            return Ok(id);
        };
        for _ in 0..STEPS_AT_ONCE {
            let now = self.clocks.store.now();
            let Some(charge) = hold.charge().filter(|charge| charge.due_at.is_some_and(|due| due <= now))
            else {
                break;
            };
            let provider = charge.terms.provider.as_str();
            let report = match self.providers.get(provider) {
                Some(known) => match self.method(charge).await? {
                    Ok(method) => step::ask(&**known, &hold, method.as_ref(), &self.clocks).await,
                    Err(report) => Some(report),
                },
                None => {
                    Label::new("provider_not_configured").ok().map(|error| ProviderReport::NoAnswer { error })
                }
            };
            let Some(report) = report else { break };
            note(&hold, provider, &report);
            let random = u64::try_from(self.ids.borrow_mut().random() >> 65).unwrap_or_default();
            let wait_ms = wait_ms(charge, &report, self.pauses, random);
            let version = hold.version;
            let before = hold.charge().map(|charge| charge.state);
            hold = self.report(&hold, PaymentStep::Reported { version, report, wait_ms }).await?;
            let after = hold.charge().map(|charge| charge.state);
            if after != before {
                self.tell(id);
            }
            if after != before && after == Some(ChargeState::RefundFailed) {
                metrics::counter!(FAILED_REFUNDS).increment(1);
                tracing::error!(reservation_id = %hold.id, "a refund has failed: see the runbook of refund_failed");
            }
        }
        Ok(hold.id)
    }

    /// The payment method that the next step of a payment needs: none if it needs none, or the customer was erased. The inner error
    /// says why the step can't be made now.
    async fn method(
        &self,
        charge: &Charge,
    ) -> Result<Result<Option<ProviderMethod>, ProviderReport>, Failure> {
        if !step::needs_method(charge) {
            return Ok(Ok(None));
        }
        let lookup = match &charge.terms.method {
            PaymentMethod::Named { customer_ref, method_ref } => {
                let (customer_ref, method_ref) = (customer_ref.clone(), method_ref.clone());
                return Ok(Ok(Some(ProviderMethod { customer_ref, method_ref })));
            }
            PaymentMethod::Customer { customer_id, sealed: Some(sealed) } => {
                self.customers.open(customer_id, sealed.as_bytes()).await
            }
            PaymentMethod::Customer { sealed: None, .. } => Ok(MethodLookup::Erased),
        };
        let code = match lookup {
            Ok(MethodLookup::Found(method)) => return Ok(Ok(Some(method))),
            Ok(MethodLookup::Erased) => return Ok(Ok(None)),
            Err(CustomerError::Store(failure)) => return Err(failure),
            Err(CustomerError::NoKey | CustomerError::UnknownKey(_)) => "encryption_key_missing",
            Err(CustomerError::Damaged | CustomerError::Changed(_) | CustomerError::NoRandomNumbers) => {
                "customer_not_readable"
            }
        };
        let error = Label::new(code).map_err(|error| Failure::Internal(error.to_string()))?;
        Ok(Err(ProviderReport::NoAnswer { error }))
    }

    /// Writes what a provider said.
    async fn report(&self, hold: &Hold, step: PaymentStep) -> Result<Hold, Failure> {
        let command = Command::AdvancePayment(AdvancePayment { id: hold.id, step });
        let now = self.clocks.store.now();
        let bucket = hold.lines.first().map_or(0, |line| bucket_of(&line.item));
        let (request, fresh) = {
            let mut ids = self.ids.borrow_mut();
            (EventId::new(now, ids.random()), ids.generate(now, bucket))
        };
        let envelope = Envelope {
            access: Access::Unrestricted,
            command,
            key: None,
            fresh,
            origin: Origin {
                actor: Principal::system().actor,
                key_id: None,
                request_id: RequestId::Made(request.as_u128()),
                trace: None,
            },
        };
        match stockhold_store::call(&*self.store, Request::Command(Box::new(envelope))).await? {
            Answer::Outcome(Outcome::Done(Reply::Reservation(hold))) => Ok(hold),
            other => Err(Failure::Internal(format!("a report about a payment was answered with {other:?}"))),
        }
    }
}

/// Counts a report, and writes what an operator has to know into the log.
fn note(hold: &Hold, provider: &str, report: &ProviderReport) {
    let (name, error) = match report {
        ProviderReport::NoAnswer { error } => ("no_answer", Some(error)),
        ProviderReport::Failed { error } => ("failed", Some(error)),
        ProviderReport::RequiresAction { .. } => ("requires_action", None),
        ProviderReport::Processing { .. } => ("processing", None),
        ProviderReport::Authorized { .. } => ("authorized", None),
        ProviderReport::Captured { .. } => ("captured", None),
        ProviderReport::Declined { .. } => ("declined", None),
        ProviderReport::Cancelled => ("cancelled", None),
        ProviderReport::Refunded => ("refunded", None),
        ProviderReport::RefundRefused { error } => ("refund_refused", Some(error)),
    };
    metrics::counter!(REPORTS, "provider" => provider.to_owned(), "report" => name).increment(1);
    if let Some(error) = error {
        tracing::warn!(reservation_id = %hold.id, provider, report = name, %error, "a payment did not go on");
    }
}
