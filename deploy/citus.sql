-- Spreads the tables by item over a Citus cluster, and gives a hot SKU a shard, and a machine, of its own. Citus 11.1 or newer; run
-- on the coordinator, with the servers stopped, after one of them has made the tables.
--
-- NOT TRIED. These statements follow from the schema: every key of a table that is spread begins with `bucket`, 0 to 1,023, which an
-- item has by its location and SKU, and a reservation by its first item. docs/operating.md says what is expected to stand in the way.

SET search_path = stockhold;

-- Rows with the same bucket are on the same machine, whatever table they are in.
SELECT create_distributed_table('items', 'bucket', shard_count => 64);
SELECT create_distributed_table('holds', 'bucket', colocate_with => 'items');
SELECT create_distributed_table('hold_skus', 'bucket', colocate_with => 'items');
SELECT create_distributed_table('active_lines', 'bucket', colocate_with => 'items');
SELECT create_distributed_table('keys', 'bucket', colocate_with => 'items');
SELECT create_distributed_table('units', 'bucket', colocate_with => 'items');
SELECT create_distributed_table('unit_figures', 'bucket', colocate_with => 'items');
SELECT create_distributed_table('unit_sales', 'bucket', colocate_with => 'items');
SELECT create_distributed_table('archived_items', 'bucket', colocate_with => 'items');

-- Few rows that every batch reads, and what gives events their positions, stay on the coordinator; so do the events, whose
-- positions are unique over all buckets.

-- Which bucket a hot SKU has, and what else is in it:
SELECT bucket FROM items WHERE location = 'default' AND sku = 'drop-1';
SELECT location, sku FROM items WHERE bucket = 417;

-- That bucket in a shard of its own, in all of these tables:
SELECT isolate_tenant_to_new_shard('items', 417, 'CASCADE', shard_transfer_mode => 'block_writes');

-- Where it is now, and to another machine with it:
SELECT shardid, nodename, nodeport FROM citus_shards
WHERE table_name = 'stockhold.items'::regclass
  AND shardid = get_shard_id_for_distribution_column('stockhold.items', 417);
SELECT citus_move_shard_placement(102235, 'worker-1', 5432, 'worker-9', 5432, 'block_writes');
