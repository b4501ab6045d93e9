-- The room of one class (P2, P4): what waits, what runs, and the slots of its live nodes.
-- A queued job past its start_by holds no place; a node that got TERM counts only what it still runs.
CREATE FUNCTION class_room_v1(p_cost_class text, p_beat interval)
RETURNS TABLE (waiting integer, running integer, slots integer) LANGUAGE sql STABLE AS $$
    WITH live AS (
        SELECT count(*) FILTER (WHERE state = 'queued' AND (start_by IS NULL OR start_by > clock_timestamp())) AS waiting,
               count(*) FILTER (WHERE state = 'running') AS running
        FROM jobs_job
        WHERE cost_class = p_cost_class AND state IN ('queued', 'running')
    ), capacity AS (
        SELECT sum(CASE WHEN node.stopping_at IS NULL THEN node.processes
                        ELSE (SELECT count(*) FROM jobs_job WHERE state = 'running' AND node_id = node.id) END) AS slots
        FROM live_nodes_v1(p_cost_class, p_beat) node
    )
    SELECT live.waiting::integer, live.running::integer, coalesce(capacity.slots, 0)::integer FROM live, capacity
$$;
