-- Spreads the tables by item over a Citus cluster, and gives a hot SKU a shard and a machine of its own. Needs Citus 11.1 or newer.
-- Run it on the coordinator, with the servers stopped, after one of them has created the tables.
--
-- NOT TRIED. These statements follow from the schema. Every key of a spread table begins with `bucket`, 0 to 1,023. The bucket of an
-- item comes from its location and SKU, and that of a reservation from its first item. docs/operating.md lists the expected problems.

SET search_path = stockhold;

-- Rows with the same bucket are on the same machine, in all tables.
SELECT create_distributed_table('items', 'bucket', shard_count => 64);
SELECT create_distributed_table('holds', 'bucket', colocate_with => 'items');
SELECT create_distributed_table('hold_histories', 'bucket', colocate_with => 'items');
SELECT create_distributed_table('hold_skus', 'bucket', colocate_with => 'items');
SELECT create_distributed_table('hold_orders', 'bucket', colocate_with => 'items');
SELECT create_distributed_table('active_lines', 'bucket', colocate_with => 'items');
SELECT create_distributed_table('keys', 'bucket', colocate_with => 'items');
SELECT create_distributed_table('units', 'bucket', colocate_with => 'items');
SELECT create_distributed_table('unit_counters', 'bucket', colocate_with => 'items');
SELECT create_distributed_table('unit_sales', 'bucket', colocate_with => 'items');
SELECT create_distributed_table('archived_items', 'bucket', colocate_with => 'items');

-- These tables stay on the coordinator: small ones that every batch reads, the one that numbers events, the events, whose
-- positions are unique over all buckets, and the counters of limits, which are listed in order of their subjects.

-- The bucket of a hot SKU, and the other items in it:
SELECT bucket FROM items WHERE location = 'default' AND sku = 'drop-1';
SELECT location, sku FROM items WHERE bucket = 417;

-- Put that bucket into a shard of its own, in all of these tables:
SELECT isolate_tenant_to_new_shard('items', 417, 'CASCADE', shard_transfer_mode => 'block_writes');

-- Find it, and move it to another machine:
SELECT shardid, nodename, nodeport FROM citus_shards
WHERE table_name = 'stockhold.items'::regclass
  AND shardid = get_shard_id_for_distribution_column('stockhold.items', 417);
SELECT citus_move_shard_placement(102235, 'worker-1', 5432, 'worker-9', 5432, 'block_writes');
