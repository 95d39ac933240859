-- Moves shards of a Citus cluster, and gives a hot SKU a shard and a machine of its own. Run it on the coordinator, while servers run.
-- The tables are spread by `stockhold migrate --distribute` (docs/operating.md).

-- Where the shards are, and how large they are:
SELECT shardid, nodename, nodeport, pg_size_pretty(shard_size) FROM citus_shards
WHERE table_name = 'stockhold.items'::regclass ORDER BY shardid;

-- The bucket of a hot SKU, and the other items in it:
SELECT bucket FROM stockhold.items WHERE location = 'default' AND sku = 'drop-1';
SELECT location, sku FROM stockhold.items WHERE bucket = 417;

-- Put that bucket into a shard of its own, in all of the tables:
SELECT isolate_tenant_to_new_shard('stockhold.items', 417, 'CASCADE', shard_transfer_mode => 'block_writes');

-- Find it, and move it to another machine:
SELECT shardid, nodename, nodeport FROM citus_shards
WHERE table_name = 'stockhold.items'::regclass
  AND shardid = get_shard_id_for_distribution_column('stockhold.items', 417);
SELECT citus_move_shard_placement(102235, 'worker-1', 5432, 'worker-9', 5432, 'block_writes');
