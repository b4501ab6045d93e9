-- The live nodes of a class (P4): those seen within three keeper beats. Right after a start of the
-- database no node could beat, so for five beats the newest beat there is stands for "now".
--
-- STABLE is right here, as in the functions that build on it: each must see exactly what the statement
-- that calls it sees.
CREATE FUNCTION live_nodes_v1(p_cost_class text, p_beat interval) RETURNS SETOF jobs_workernode LANGUAGE sql STABLE AS $$
    SELECT node.*
    FROM jobs_workernode node
    WHERE node.cost_class = p_cost_class
      AND node.stopped_at IS NULL
      AND node.seen_at >= CASE
              WHEN pg_postmaster_start_time() > clock_timestamp() - 5 * p_beat
              THEN least(clock_timestamp(), (SELECT max(seen_at) FROM jobs_workernode WHERE stopped_at IS NULL))
              ELSE clock_timestamp() END - 3 * p_beat
$$;
