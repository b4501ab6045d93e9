-- Insert a batch that admit_batch_v1 has decided about, with the jobs of the items that nothing speaks against: whose verdict is NULL.
-- p_jobs: those that items' own keys stand for already. p_began: from when on durations count. Out: its id, and the verdict on each item.
CREATE FUNCTION store_batch_v1(
    p_client bigint, p_atomic boolean, p_items jsonb, p_verdicts text[], p_jobs uuid[], p_rooms jsonb, p_began timestamptz,
    p_instant timestamptz, p_cut_off timestamptz, p_request_id text, p_traceparent text, p_key text, p_fingerprint text
) RETURNS TABLE (batch_id uuid, verdicts text[]) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    begun text[] := '{}';  -- classes that an item of this batch has a place in: only the first can find its class idle
    place record;
    item record;
    job uuid;
BEGIN
    verdicts := p_verdicts;
    INSERT INTO jobs_batch (client_id, atomic, request_id, accepted_at, deadline_at)
    VALUES (p_client, p_atomic, p_request_id, p_instant, p_cut_off) RETURNING id INTO batch_id;
    FOR item IN
        SELECT each.*, cost.expected, cost.counts, least(p_began + make_interval(secs => each.deadline_in), each.deadline_at) AS deadline
        FROM batch_items_v1(p_items) each, LATERAL cost_v1(each.cost_class, each.type, each.declared_cost) cost ORDER BY each.position
    LOOP
        job := p_jobs[item.position];
        IF verdicts[item.position] IS NULL THEN
            verdicts[item.position] := 'admitted';
            SELECT * INTO place FROM fair_charge_v1(
                item.cost_class, p_client, item.flow, item.counts, (p_rooms -> item.cost_class ->> 0)::integer
                    + (p_rooms -> item.cost_class ->> 1)::integer = 0 AND NOT item.cost_class = ANY(begun));
            begun := begun || item.cost_class;
            INSERT INTO jobs_job (client_id, batch_id, type, cost_class, params, labels, timeout_seconds, max_attempts, max_deliveries,
                                  request_id, traceparent, admitted_bound, accepted_at, available_at, start_by, deadline_at, flow, priority,
                                  expected_seconds, cost_seconds, limit_keys, rank, flow_rank, own_order)
            VALUES (p_client, batch_id, item.type, item.cost_class, item.params, item.labels, item.timeout, item.max_attempts,
                    item.max_deliveries, p_request_id, p_traceparent,
                    (p_rooms -> item.cost_class ->> 2)::integer + item.max_waiting - item.kept, p_instant, p_instant,
                    least(p_instant + make_interval(secs => item.max_wait), p_cut_off,
                          item.deadline - make_interval(secs => coalesce(item.expected, 0))), item.deadline, item.flow, item.priority,
                    item.expected, item.counts, item.limit_keys, place.rank, place.flow_rank,
                    extract(epoch FROM p_instant) - item.priority / 100.0 * item.ageing)
            RETURNING id INTO job;
            IF item.key IS NOT NULL THEN
                INSERT INTO jobs_idempotencykey (client_id, key, fingerprint, job_id) VALUES (p_client, item.key, item.fingerprint, job);
            END IF;
        END IF;
        INSERT INTO jobs_batchitem (batch_id, position, name, cost_class, job_id, refusal)
        VALUES (batch_id, item.position, item.name, item.cost_class, job,
                CASE WHEN job IS NULL THEN verdicts[item.position] ELSE '' END);
    END LOOP;
    IF p_key IS NOT NULL THEN
        INSERT INTO jobs_idempotencykey (client_id, key, fingerprint, batch_id) VALUES (p_client, p_key, p_fingerprint, batch_id);
    END IF;
    RETURN NEXT;
END
$$;
