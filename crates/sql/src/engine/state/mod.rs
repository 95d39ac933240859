//! The part of the database's state that one batch has loaded. Nothing here reads from the database: what was not loaded is
//! [`stockhold_domain::NotLoaded`].

mod changes;
mod deadline_window;
mod limit_state;
mod loaded_state;
mod unit_item_state;

pub(crate) use deadline_window::DeadlineWindow;
pub(crate) use limit_state::queued as queued_under_limits;
pub(crate) use loaded_state::LoadedState;
pub(crate) use unit_item_state::Shortfall;
