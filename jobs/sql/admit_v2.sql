-- Decide about one job and insert it, in one round trip (P1, P2, P3, P6, P7, P8). admit_v1 with a quota of the client's jobs, and the trace.
--
-- VOLATILE, so that each statement below has a snapshot of its own: what decides is read after the lock was
-- granted and sees every admission that held it before. Must be called in autocommit at READ COMMITTED.
-- Nobody waits longer than a second for a lock: 'idempotency_in_flight' for a key's, SQLSTATE 55P03 for the class's.
CREATE FUNCTION admit_v2(
    p_client bigint, p_type text, p_cost_class text, p_params jsonb, p_labels jsonb, p_timeout double precision,
    p_max_attempts integer, p_max_deliveries integer, p_max_wait interval, p_deadline_in interval, p_deadline_at timestamptz,
    p_max_waiting integer, p_beat interval, p_max_jobs integer, p_request_id text, p_traceparent text, p_key text, p_fingerprint text
) RETURNS TABLE (
    verdict text, waiting integer, running integer, slots integer, job_id uuid, accepted_at timestamptz,
    start_by timestamptz, deadline_at timestamptz
) LANGUAGE plpgsql VOLATILE SET lock_timeout = '1s' AS $$
DECLARE
    room record;
    known record;
    instant timestamptz;
    deadline timestamptz;
    latest_start timestamptz;
    id_given uuid;
BEGIN
    IF p_key IS NOT NULL THEN
        -- One request of a key at a time, from here to its commit; whoever waited sees what the first one stored.
        BEGIN
            PERFORM pg_advisory_xact_lock(hashtextextended('key:' || p_client || ':' || p_key, 0));
        EXCEPTION WHEN lock_not_available THEN
            RETURN QUERY SELECT 'idempotency_in_flight', 0, 0, 0, NULL::uuid, NULL::timestamptz, NULL::timestamptz, NULL::timestamptz;
            RETURN;
        END;
        SELECT stored.job_id, stored.fingerprint INTO known FROM jobs_idempotencykey stored
        WHERE stored.client_id = p_client AND stored.key = p_key;
        IF FOUND THEN
            verdict := CASE known.fingerprint WHEN p_fingerprint THEN 'replayed' ELSE 'idempotency_mismatch' END;
            RETURN QUERY SELECT verdict, 0, 0, 0, known.job_id, NULL::timestamptz, NULL::timestamptz, NULL::timestamptz;
            RETURN;
        END IF;
    END IF;

    IF p_max_jobs IS NOT NULL THEN
        -- Of a client with a quota one submit at a time, after the key and before the class (P6). A job past its start_by holds no place (P2).
        PERFORM pg_advisory_xact_lock(hashtextextended('client:' || p_client, 0));
        IF (SELECT count(*) FROM jobs_job job WHERE job.client_id = p_client AND job.state IN ('queued', 'running')
                AND (job.state = 'running' OR job.start_by IS NULL OR job.start_by > clock_timestamp())) >= p_max_jobs THEN
            RETURN QUERY SELECT 'too_many_jobs', 0, 0, 0, NULL::uuid, NULL::timestamptz, NULL::timestamptz, NULL::timestamptz;
            RETURN;
        END IF;
    END IF;

    instant := clock_timestamp();
    deadline := least(instant + p_deadline_in, p_deadline_at);  -- of two, the earlier; NULL if there is none
    SELECT * INTO room FROM class_room_v1(p_cost_class, p_beat);
    IF deadline <= instant THEN
        verdict := 'deadline_infeasible';
    ELSIF room.waiting + room.running >= room.slots + p_max_waiting THEN
        verdict := 'queue_full';  -- plainly full: refused without the class's lock
    ELSIF room.slots > 0 AND NOT type_known_v1(p_cost_class, p_type, p_beat) THEN
        verdict := 'type_unavailable';
    ELSE
        PERFORM pg_advisory_xact_lock(hashtextextended('class:' || p_cost_class, 0));
        SELECT * INTO room FROM class_room_v1(p_cost_class, p_beat);
        -- Not from before the wait, and not from before the count: a job that ended in between was not counted, so by
        -- the instants that are stored it must have ended before this one was accepted (P3).
        instant := clock_timestamp();
        verdict := CASE WHEN deadline <= instant THEN 'deadline_infeasible'
                        WHEN room.waiting + room.running >= room.slots + p_max_waiting THEN 'queue_full'
                        ELSE 'admitted' END;
    END IF;
    IF verdict <> 'admitted' THEN
        RETURN QUERY SELECT verdict, room.waiting, room.running, room.slots, NULL::uuid, NULL::timestamptz, NULL::timestamptz, deadline;
        RETURN;
    END IF;

    latest_start := least(instant + p_max_wait, deadline);
    INSERT INTO jobs_job (client_id, type, cost_class, params, labels, timeout_seconds, max_attempts, max_deliveries,
                          request_id, traceparent, admitted_bound, accepted_at, available_at, start_by, deadline_at)
    VALUES (p_client, p_type, p_cost_class, p_params, p_labels, p_timeout, p_max_attempts, p_max_deliveries,
            p_request_id, p_traceparent, room.slots + p_max_waiting, instant, instant, latest_start, deadline)
    RETURNING id INTO id_given;
    IF p_key IS NOT NULL THEN
        INSERT INTO jobs_idempotencykey (client_id, key, fingerprint, job_id) VALUES (p_client, p_key, p_fingerprint, id_given);
    END IF;
    RETURN QUERY SELECT verdict, room.waiting + 1, room.running, room.slots, id_given, instant, latest_start, deadline;
END
$$;
