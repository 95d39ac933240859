//! The rules, as tables: each line is an instant, a command and what becomes of it. See [`table`] for how they are read.

mod said;
mod shop;
mod table;

mod access;
mod amends;
mod backorders;
mod budget;
mod deadlines;
mod effects;
mod events;
mod figures;
mod footprints;
mod items;
mod keys;
mod limits;
mod order_of_rejections;
mod payments;
mod pools;
mod records;
mod returns;
mod sourcing;
mod steps_of_the_clock;
mod unit_indexes;
mod unit_pools;
mod units;
mod units_chosen;
