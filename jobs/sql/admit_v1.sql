-- Decide about one job and insert it, in one round trip (P1, P2, P3, P5, P6, P7, P8, P9, P10a, P11).
--
-- VOLATILE, so that each statement below has a snapshot of its own: what decides is read after the lock was
-- granted and sees every admission that held it before. Must be called in autocommit at READ COMMITTED.
-- p_declared_cost: seconds of work, as its type says; NULL: it says nothing. p_max_backlog: seconds. p_ageing: the seconds of waiting that a
-- priority of 100 is worth (P11a). p_refused: clients that were refused in the class lately. p_kept, p_kept_seconds, p_own_turns: as decide_v1 has them.
-- Out, of an admitted job: `ahead` of it wait; `paused`: it is accepted, but does not start until an operator resumes its class or type.
-- Nobody waits longer than a second for a lock: 'idempotency_in_flight' for a key's, SQLSTATE 55P03 for the class's.
CREATE FUNCTION admit_v1(
    p_client bigint, p_type text, p_cost_class text, p_params jsonb, p_labels jsonb, p_timeout double precision,
    p_max_attempts integer, p_max_deliveries integer, p_max_wait interval, p_deadline_in interval, p_deadline_at timestamptz,
    p_max_waiting integer, p_max_backlog double precision, p_processes integer, p_beat interval, p_max_jobs integer,
    p_request_id text, p_traceparent text, p_key text, p_fingerprint text,
    p_flow text, p_priority smallint, p_ageing double precision, p_declared_cost double precision, p_limit_keys text[],
    p_refused bigint[], p_kept integer, p_kept_seconds double precision, p_own_turns integer
) RETURNS TABLE (
    verdict text, waiting integer, running integer, slots integer, work_seconds double precision, starts_in double precision,
    job_id uuid, accepted_at timestamptz, start_by timestamptz, deadline_at timestamptz, expected double precision, counts double precision,
    ahead integer, share jsonb, paused boolean
) LANGUAGE plpgsql VOLATILE SET lock_timeout = '1s' AS $$
DECLARE
    cost record;
    decided record;
    place record;
    known record;
    under_the_lock boolean;
BEGIN
    IF p_key IS NOT NULL THEN
        -- One request of a key at a time, from here to its commit; whoever waited sees what the first one stored.
        BEGIN
            PERFORM pg_advisory_xact_lock(hashtextextended('key:' || p_client || ':' || p_key, 0));
        EXCEPTION WHEN lock_not_available THEN
            verdict := 'idempotency_in_flight';
            RETURN NEXT;
            RETURN;
        END;
        SELECT stored.job_id, stored.fingerprint INTO known FROM jobs_idempotencykey stored
        WHERE stored.client_id = p_client AND stored.key = p_key;
        IF FOUND THEN
            verdict := CASE known.fingerprint WHEN p_fingerprint THEN 'replayed' ELSE 'idempotency_mismatch' END;
            job_id := known.job_id;
            RETURN NEXT;
            RETURN;
        END IF;
    END IF;

    IF p_max_jobs IS NOT NULL THEN
        -- Whoever is refused for what an operator said is not told of a quota first.
        verdict := refused_v1(p_client, p_cost_class, p_type);
        IF verdict IS NOT NULL THEN
            RETURN NEXT;
            RETURN;
        END IF;
        IF client_places_v1(p_client, p_max_jobs) = 0 THEN
            verdict := 'too_many_jobs';
            RETURN NEXT;
            RETURN;
        END IF;
    END IF;

    SELECT * INTO cost FROM cost_v1(p_cost_class, p_type, p_declared_cost);
    expected := cost.expected;
    counts := cost.counts;
    deadline_at := least(clock_timestamp() + p_deadline_in, p_deadline_at);  -- of two, the earlier; NULL if there is none
    FOREACH under_the_lock IN ARRAY ARRAY[false, true] LOOP
        IF under_the_lock THEN
            PERFORM pg_advisory_xact_lock(hashtextextended('class:' || p_cost_class, 0));
        END IF;
        SELECT * INTO decided FROM decide_v1(
            p_client, p_flow, p_type, p_cost_class, admit_v1.deadline_at, cost.expected, p_declared_cost IS NOT NULL, p_max_waiting, p_max_backlog,
            p_processes, cost.mean_known, p_beat, p_limit_keys, p_refused, p_kept, p_kept_seconds, p_own_turns);
        verdict := decided.verdict;
        waiting := decided.waiting;
        running := decided.running;
        slots := decided.slots;
        work_seconds := decided.work_seconds;
        starts_in := decided.starts_in;
        share := decided.share;
        IF verdict <> 'admitted' THEN
            RETURN NEXT;
            RETURN;
        END IF;
    END LOOP;

    accepted_at := decided.instant;
    paused := not_paused_v1(p_cost_class, ARRAY[p_type]) = '{}';
    IF paused THEN
        starts_in := NULL;  -- when somebody resumes is not known
    END IF;
    start_by := least(accepted_at + p_max_wait, admit_v1.deadline_at - make_interval(secs => coalesce(cost.expected, 0)));
    SELECT * INTO place FROM fair_charge_v1(p_cost_class, p_client, p_flow, cost.counts, decided.waiting + decided.running = 0);
    SELECT before.waiting INTO ahead FROM jobs_ahead_v1(p_cost_class, place.rank, NULL) before;
    INSERT INTO jobs_job AS job (
        client_id, type, cost_class, params, labels, timeout_seconds, max_attempts, max_deliveries, request_id, traceparent,
        admitted_bound, accepted_at, available_at, start_by, deadline_at, flow, priority, expected_seconds, cost_seconds, estimated_start_at,
        rank, flow_rank, own_order, limit_keys)
    VALUES (
        p_client, p_type, p_cost_class, p_params, p_labels, p_timeout, p_max_attempts, p_max_deliveries, p_request_id, p_traceparent,
        decided.slots + p_max_waiting - p_kept, decided.instant, decided.instant, admit_v1.start_by, admit_v1.deadline_at, p_flow, p_priority,
        cost.expected, cost.counts, decided.instant + make_interval(secs => admit_v1.starts_in), place.rank, place.flow_rank,
        extract(epoch FROM decided.instant) - p_priority / 100.0 * p_ageing, p_limit_keys)
    RETURNING job.id INTO job_id;
    IF p_key IS NOT NULL THEN
        INSERT INTO jobs_idempotencykey (client_id, key, fingerprint, job_id) VALUES (p_client, p_key, p_fingerprint, admit_v1.job_id);
    END IF;
    waiting := waiting + 1;
    RETURN NEXT;
END
$$;
