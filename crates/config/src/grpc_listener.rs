//! Checks of the listener that serves gRPC alone.

use crate::settings::Config;

impl Config {
    /// Checks the listener of gRPC. An error has the key that it is about.
    pub(crate) fn check_grpc_listener(&self) -> Result<(), (&'static str, String)> {
        const KEY: &str = "grpc_listen";
        let Some(address) = self.grpc_listen else { return Ok(()) };
        let others = [
            ("listen", Some(self.listen)),
            ("admin_listen", Some(self.admin_listen)),
            ("hub_listen", self.hub_listen),
            ("storefront_listen", self.storefront_listen),
        ];
        if address.port() != 0
            && let Some((other, _)) = others.into_iter().find(|(_, other)| *other == Some(address))
        {
            return Err((KEY, format!("{other} and {KEY} are both {address}: give each its own port")));
        }
        if !address.ip().is_loopback() && self.tls().is_none() && !self.plain_http {
            let what = format!(
                "{KEY} {address}: without TLS the listener binds to loopback only, because credentials would be readable on the \
                 way; set tls_cert and tls_key, or plain_http if a proxy in front of the server speaks TLS"
            );
            return Err((KEY, what));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_that_are_refused() {
        let own: std::net::SocketAddr = ([127, 0, 0, 1], 8113).into();
        let config = |grpc_listen| Config { grpc_listen: Some(grpc_listen), ..Config::default() };
        config(own).check_grpc_listener().unwrap();
        let taken = config(Config::default().listen).check_grpc_listener().unwrap_err();
        assert!(taken.1.contains("listen and grpc_listen"), "{taken:?}");
        let everywhere = config(([0, 0, 0, 0], 8113).into());
        assert!(everywhere.check_grpc_listener().unwrap_err().1.contains("tls_cert"));
        Config { plain_http: true, ..everywhere }.check_grpc_listener().unwrap();
    }
}
