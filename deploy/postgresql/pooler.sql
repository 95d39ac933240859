-- What Stockhold sets for each session, given to its role: behind PgBouncer with pool_mode = transaction a session has it only from
-- there. Run once: psql -f pooler.sql. Then RECONNECT in the console of PgBouncer, so that open sessions have it too.
-- docs/operating.md says what else PgBouncer needs.
ALTER ROLE stockhold SET lock_timeout = '2s';
ALTER ROLE stockhold SET statement_timeout = '10s';
ALTER ROLE stockhold SET idle_in_transaction_session_timeout = '10s';
ALTER ROLE stockhold SET client_min_messages = 'warning';
ALTER ROLE stockhold SET default_transaction_isolation = 'read committed';
-- Statements look rows up by key, and their plans are kept: one that was made for a small table must do for a large one.
ALTER ROLE stockhold SET plan_cache_mode = 'force_generic_plan';
ALTER ROLE stockhold SET enable_seqscan = off;
ALTER ROLE stockhold SET enable_hashjoin = off;
ALTER ROLE stockhold SET enable_mergejoin = off;
ALTER ROLE stockhold SET jit = off;
