-- Decide about one job and insert it, in one round trip (P1, P2, P3, P7, P8).
--
-- VOLATILE, so that each statement below has a snapshot of its own: the count that decides is taken
-- after the class lock was granted and sees every admission that held it before. Must be called in
-- autocommit at READ COMMITTED. Nobody waits longer than a second for the lock (SQLSTATE 55P03).
CREATE FUNCTION admit_v1(
    p_client bigint, p_type text, p_cost_class text, p_params jsonb, p_labels jsonb, p_timeout double precision,
    p_max_attempts integer, p_max_wait interval, p_max_waiting integer, p_beat interval, p_request_id text
) RETURNS TABLE (
    verdict text, waiting integer, running integer, slots integer, job_id uuid, accepted_at timestamptz, start_by timestamptz
) LANGUAGE plpgsql VOLATILE SET lock_timeout = '1s' AS $$
DECLARE
    room record;
    instant timestamptz;
    id_given uuid;
BEGIN
    -- A class that is plainly full is refused without a lock.
    SELECT * INTO room FROM class_room_v1(p_cost_class, p_beat);
    IF room.waiting + room.running >= room.slots + p_max_waiting THEN
        RETURN QUERY SELECT 'queue_full', room.waiting, room.running, room.slots, NULL::uuid, NULL::timestamptz, NULL::timestamptz;
        RETURN;
    END IF;
    IF room.slots > 0 AND NOT type_known_v1(p_cost_class, p_type, p_beat) THEN
        RETURN QUERY SELECT 'type_unavailable', room.waiting, room.running, room.slots, NULL::uuid, NULL::timestamptz, NULL::timestamptz;
        RETURN;
    END IF;

    PERFORM pg_advisory_xact_lock(hashtextextended('class:' || p_cost_class, 0));
    SELECT * INTO room FROM class_room_v1(p_cost_class, p_beat);
    IF room.waiting + room.running >= room.slots + p_max_waiting THEN
        RETURN QUERY SELECT 'queue_full', room.waiting, room.running, room.slots, NULL::uuid, NULL::timestamptz, NULL::timestamptz;
        RETURN;
    END IF;

    instant := clock_timestamp();  -- now() would be from before the wait for the lock
    INSERT INTO jobs_job (client_id, type, cost_class, params, labels, timeout_seconds, max_attempts, request_id,
                          admitted_bound, accepted_at, available_at, start_by)
    VALUES (p_client, p_type, p_cost_class, p_params, p_labels, p_timeout, p_max_attempts, p_request_id,
            room.slots + p_max_waiting, instant, instant, instant + p_max_wait)
    RETURNING id INTO id_given;
    RETURN QUERY SELECT 'admitted', room.waiting + 1, room.running, room.slots, id_given, instant, instant + p_max_wait;
END
$$;
