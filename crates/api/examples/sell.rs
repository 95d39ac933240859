//! Sells two shirts: a hold, and a sale.

use stockhold_api::client::{At, Client};
use stockhold_api::wire::{Confirmation, Stock, Terms};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("{}", sell("http://127.0.0.1:8101").await?);
    Ok(())
}

pub(crate) async fn sell(server: &str) -> Result<u64, Box<dyn std::error::Error>> {
    let client = Client::new(server)?;
    let shirt = At { sku: "shirt", location: None };
    client.put_stock(shirt, &Stock { total_units: Some(10), ..Stock::default() }, None).await?;

    let terms = Terms { owner_id: "cart-1".to_owned(), ttl_seconds: Some(60), ..Terms::default() };
    let sold = client
        .with_hold(shirt, 2, &terms, None, async |hold| {
            // Take the money here. The hold is extended meanwhile, and released if this function fails.
            let order = Confirmation { order_id: Some("order-1".to_owned()), ..Confirmation::default() };
            hold.confirm(&order, None).await
        })
        .await;
    if let Err(refused) = sold {
        println!("{refused}");
    }
    Ok(client.available(shirt).await?.available)
}
