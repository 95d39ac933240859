//! Modules for shops, against a running server.

mod magento2;
