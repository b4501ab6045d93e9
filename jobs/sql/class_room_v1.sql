-- The room of one class (P2, P4, P5): what waits, what runs, the slots of its live nodes, and the expected seconds of work that wait or are
-- still to be done, on all slots together.
-- A queued job past its start_by holds no place; a node that got TERM counts only what it still runs. Work of which nothing is known counts 0.
CREATE FUNCTION class_room_v1(p_cost_class text, p_beat interval)
RETURNS TABLE (waiting integer, running integer, slots integer, work_seconds double precision) LANGUAGE sql STABLE AS $$
    WITH live AS (
        SELECT count(*) FILTER (WHERE state = 'queued') AS waiting,
               count(*) FILTER (WHERE state = 'running') AS running,
               sum(CASE state WHEN 'queued' THEN expected_seconds
                   ELSE greatest(0, expected_seconds - extract(epoch FROM clock_timestamp() - started_at)) END) AS work_seconds
        FROM jobs_job
        WHERE cost_class = p_cost_class AND (state = 'running' OR state = 'queued' AND (start_by IS NULL OR start_by > clock_timestamp()))
    ), capacity AS (
        SELECT sum(CASE WHEN node.stopping_at IS NULL THEN node.processes
                        ELSE (SELECT count(*) FROM jobs_job WHERE state = 'running' AND node_id = node.id) END) AS slots
        FROM live_nodes_v1(p_cost_class, p_beat) node
    )
    SELECT live.waiting::integer, live.running::integer, coalesce(capacity.slots, 0)::integer, coalesce(live.work_seconds, 0)::float8
    FROM live, capacity
$$;
