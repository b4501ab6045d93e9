-- Give the right to run one attempt to one process (P11a, P12, P13): the head of the class by rank says whose turn it is, and that client's
-- flows and priorities say which of its jobs it is. That job takes the head's place and leaves its own, so that nobody else's turn moves.
--
-- Takes no lock that an admission holds (P6), and steps over rows that others hold. A node that is stopping, or that was never registered,
-- claims nothing; nor is anything claimed that an operator has paused, or of a client that is suspended. Durations are seconds.
--
-- Limits (P12): where the job whose turn it is has limit keys, or a client that may run only so many, one advisory lock, the same for all
-- limits, is taken before any row, and only what is counted after that decides. A claim whose turn has no limits takes no lock, and
-- gives the process to a job without limits.
CREATE FUNCTION claim_v1(
    p_cost_class text, p_types text[], p_node uuid, p_pid integer, p_process_started bigint, p_lease double precision,
    p_kill_after double precision
) RETURNS TABLE (
    job_id uuid, attempt integer, token bigint, type text, cost_class text, params jsonb, limit_seconds double precision,
    remaining double precision, failures integer, max_attempts integer, waited double precision, request_id text,
    deadline_at timestamptz, traceparent text, has_limits boolean, late double precision
) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    instant timestamptz := clock_timestamp();  -- one for all looks, so that the head cannot expire between two
    limited boolean;  -- some job that waits has limits
    only_free boolean := false;  -- only jobs without limits are looked at
    held_keys varchar[] := '{}';
    held_clients bigint[];
    types text[];  -- of p_types, those that are not paused
    head record;
    flow_head record;
    chosen record;
BEGIN
    PERFORM 1 FROM jobs_workernode node WHERE node.id = p_node AND node.stopping_at IS NULL AND node.stopped_at IS NULL;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    types := not_paused_v1(p_cost_class, p_types);
    IF types = '{}' THEN
        RETURN;
    END IF;
    held_clients := array(SELECT client.id FROM jobs_apiclient client WHERE client.suspended_at IS NOT NULL);
    limited := EXISTS (SELECT 1 FROM jobs_job job WHERE job.cost_class = p_cost_class AND job.state = 'queued' AND job.limit_keys <> '{}')
               OR EXISTS (SELECT 1 FROM jobs_apiclient client WHERE client.max_running IS NOT NULL);
    IF limited THEN
        SELECT held.keys, held.clients INTO held_keys, held_clients FROM held_v1(p_cost_class) held;
        SELECT job.limit_keys = '{}' AND client.max_running IS NULL INTO only_free
        FROM jobs_job job JOIN jobs_apiclient client ON client.id = job.client_id
        WHERE job.cost_class = p_cost_class AND job.state = 'queued' AND job.type = ANY(types)
          AND job.available_at <= instant AND (job.start_by IS NULL OR job.start_by > instant)
          AND NOT job.limit_keys && held_keys AND job.client_id <> ALL(held_clients)
        ORDER BY job.rank, job.turn LIMIT 1;
        IF NOT FOUND THEN
            RETURN;
        ELSIF NOT only_free THEN
            PERFORM pg_advisory_xact_lock(hashtextextended('limits', 0));
            SELECT held.keys, held.clients INTO held_keys, held_clients FROM held_v1(p_cost_class) held;
            types := not_paused_v1(p_cost_class, p_types);  -- it may have been paused while this waited
        END IF;
    END IF;
    SELECT job.id, job.client_id, job.rank, job.turn INTO head FROM jobs_job job
    WHERE job.cost_class = p_cost_class AND job.state = 'queued' AND job.type = ANY(types)
          AND job.available_at <= instant AND (job.start_by IS NULL OR job.start_by > instant)
          AND NOT job.limit_keys && held_keys AND job.client_id <> ALL(held_clients)
          AND (NOT only_free OR job.limit_keys = '{}' AND (SELECT client.max_running FROM jobs_apiclient client WHERE client.id = job.client_id) IS NULL)
    ORDER BY job.rank, job.turn LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT job.id, job.flow, job.flow_rank INTO flow_head FROM jobs_job job
    WHERE job.cost_class = p_cost_class AND job.state = 'queued' AND job.type = ANY(types)
          AND job.available_at <= instant AND (job.start_by IS NULL OR job.start_by > instant)
          AND NOT job.limit_keys && held_keys AND job.client_id <> ALL(held_clients)
          AND (NOT only_free OR job.limit_keys = '{}' AND (SELECT client.max_running FROM jobs_apiclient client WHERE client.id = job.client_id) IS NULL) AND job.client_id = head.client_id
    ORDER BY job.flow_rank, job.sequence LIMIT 1 FOR UPDATE SKIP LOCKED;
    SELECT job.id, job.rank, job.turn, job.flow_rank INTO chosen FROM jobs_job job
    WHERE job.cost_class = p_cost_class AND job.state = 'queued' AND job.type = ANY(types)
          AND job.available_at <= instant AND (job.start_by IS NULL OR job.start_by > instant)
          AND NOT job.limit_keys && held_keys AND job.client_id <> ALL(held_clients)
          AND (NOT only_free OR job.limit_keys = '{}' AND (SELECT client.max_running FROM jobs_apiclient client WHERE client.id = job.client_id) IS NULL) AND job.client_id = head.client_id AND job.flow = flow_head.flow
    ORDER BY job.own_order, job.sequence LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF chosen.id <> head.id OR chosen.id <> flow_head.id THEN
        UPDATE jobs_job job
        SET rank = CASE job.id WHEN head.id THEN chosen.rank ELSE job.rank END,
            turn = CASE job.id WHEN head.id THEN chosen.turn ELSE job.turn END,
            flow_rank = CASE job.id WHEN flow_head.id THEN chosen.flow_rank ELSE job.flow_rank END
        WHERE job.id IN (head.id, flow_head.id) AND job.id <> chosen.id;
    END IF;
    RETURN QUERY
    WITH claimed AS (
        UPDATE jobs_job job
        SET state = 'running', rank = head.rank, turn = head.turn, flow_rank = flow_head.flow_rank, attempt = job.attempt + 1,
            started_at = coalesce(job.started_at, clock_timestamp()), node_id = p_node, pid = p_pid, process_started = p_process_started,
            lease_until = clock_timestamp() + make_interval(secs => p_lease),
            hard_deadline = least(clock_timestamp() + make_interval(secs => job.timeout_seconds), job.deadline_at)
                            + make_interval(secs => p_kill_after)
        WHERE job.id = chosen.id
        RETURNING job.*, extract(epoch FROM clock_timestamp() - greatest(job.accepted_at, job.available_at))::float8 AS waited,
                  extract(epoch FROM job.deadline_at - clock_timestamp())::float8 AS remaining
    ), opened AS (
        INSERT INTO jobs_attempt (job_id, number, node_id, pid, process_started, started_at, wait_seconds)
        SELECT claimed.id, claimed.attempt, claimed.node_id, claimed.pid, claimed.process_started, clock_timestamp(), claimed.waited
        FROM claimed
        RETURNING id AS token
    )
    SELECT claimed.id, claimed.attempt, opened.token, claimed.type::text, claimed.cost_class::text, claimed.params,
           least(claimed.timeout_seconds, claimed.remaining), claimed.remaining, claimed.failures, claimed.max_attempts, claimed.waited,
           claimed.request_id::text, claimed.deadline_at, claimed.traceparent::text,
           claimed.limit_keys <> '{}' OR limited AND EXISTS (
               SELECT 1 FROM jobs_apiclient client WHERE client.id = claimed.client_id AND client.max_running IS NOT NULL),
           extract(epoch FROM claimed.started_at - claimed.estimated_start_at)::float8
    FROM claimed, opened;
END
$$;
