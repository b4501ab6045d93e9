-- Decide about the jobs of one batch and insert those that are admitted, in one round trip (P1, P2, P3, P6, P7, P8). What
-- admit_v2 is for one job: VOLATILE, called in autocommit at READ COMMITTED, nobody waits longer than a second for a lock.
--
-- p_items: an array of objects, numbered from 1 by `position`; durations in seconds. `refused` is a verdict that the caller brings.
-- Out: the verdict on the batch (`about`: the item, class or key that decided it), the verdict on each item by position, and each
-- class's room as it was counted. Only 'admitted' has written anything. Atomic: the first item that cannot be admitted decides.
CREATE FUNCTION admit_batch_v1(
    p_client bigint, p_atomic boolean, p_items jsonb, p_deadline_in interval, p_deadline_at timestamptz, p_beat interval,
    p_max_jobs integer, p_request_id text, p_traceparent text, p_key text, p_fingerprint text
) RETURNS TABLE (verdict text, about text, batch_id uuid, verdicts text[], rooms jsonb)
LANGUAGE plpgsql VOLATILE SET lock_timeout = '1s' AS $$
DECLARE
    said text[] := array_fill(NULL::text, ARRAY[jsonb_array_length(p_items)]);  -- NULL: nothing speaks against it so far
    earlier uuid[] := array_fill(NULL::uuid, ARRAY[jsonb_array_length(p_items)]);  -- jobs that items' own keys stand for
    counted jsonb := '{}';
    began timestamptz;
    instant timestamptz;
    cut_off timestamptz;
    places integer;
    of_class jsonb := '{}';  -- places that are left in each class
    of_client integer;  -- and of the client's quota; NULL without one
    under_the_locks boolean;
    item record;
    asked record;
    room record;
    known record;
    made uuid;
    job uuid;
BEGIN
    -- Every key of the request, in one order, so that two batches that share some cannot wait for each other.
    FOR item IN
        SELECT each.key FROM (
            SELECT p_key AS key UNION SELECT of_item.key FROM jsonb_to_recordset(p_items) AS of_item (key text)
        ) AS each WHERE each.key IS NOT NULL ORDER BY each.key COLLATE "C"
    LOOP
        BEGIN
            PERFORM pg_advisory_xact_lock(hashtextextended('key:' || p_client || ':' || item.key, 0));
        EXCEPTION WHEN lock_not_available THEN
            RETURN QUERY SELECT 'idempotency_in_flight', item.key, NULL::uuid, said, counted;
            RETURN;
        END;
    END LOOP;
    IF p_key IS NOT NULL THEN
        SELECT stored.batch_id AS batch, stored.fingerprint INTO known FROM jobs_idempotencykey stored
        WHERE stored.client_id = p_client AND stored.key = p_key;
        IF FOUND THEN
            verdict := CASE known.fingerprint WHEN p_fingerprint THEN 'replayed' ELSE 'idempotency_mismatch' END;
            RETURN QUERY SELECT verdict, p_key, known.batch, said, counted;
            RETURN;
        END IF;
    END IF;
    FOR item IN
        SELECT each.position, each.key, each.refused, stored.job_id AS job, stored.fingerprint = each.fingerprint AS same
        FROM jsonb_to_recordset(p_items) AS each (position integer, key text, fingerprint text, refused text)
        LEFT JOIN jobs_idempotencykey stored ON stored.client_id = p_client AND stored.key = each.key
        WHERE stored.key IS NOT NULL OR each.refused IS NOT NULL ORDER BY each.position
    LOOP
        IF item.same IS NULL THEN
            said[item.position] := item.refused;
        ELSIF item.same THEN
            said[item.position] := 'replayed';
            earlier[item.position] := item.job;
        ELSIF p_atomic THEN
            RETURN QUERY SELECT 'idempotency_mismatch', item.key, NULL::uuid, said, counted;
            RETURN;
        ELSE
            said[item.position] := 'idempotency_mismatch';
        END IF;
    END LOOP;

    IF p_max_jobs IS NOT NULL AND array_position(said, NULL) IS NOT NULL THEN
        -- Of a client with a quota one submit at a time, after the keys and before the classes (P6). A job past its start_by holds no place (P2).
        PERFORM pg_advisory_xact_lock(hashtextextended('client:' || p_client, 0));
        SELECT greatest(0, p_max_jobs - count(*)) INTO of_client FROM jobs_job live
        WHERE live.client_id = p_client AND live.state IN ('queued', 'running')
          AND (live.state = 'running' OR live.start_by IS NULL OR live.start_by > clock_timestamp());
        IF p_atomic AND cardinality(array_positions(said, NULL)) > of_client THEN
            RETURN QUERY SELECT 'too_many_jobs', NULL, NULL::uuid, said, counted;
            RETURN;
        ELSIF of_client = 0 THEN
            said := array_replace(said, NULL, 'too_many_jobs');
        END IF;
    END IF;

    began := clock_timestamp();
    cut_off := least(began + p_deadline_in, p_deadline_at);  -- of two, the earlier; NULL if there is none
    -- First without the classes' locks, since what is plainly refused needs none: of each item only what no other one has a say in. Then under
    -- them, where a place, of the class and of the quota, is spent only by what is admitted.
    FOREACH under_the_locks IN ARRAY ARRAY[false, true] LOOP
        EXIT WHEN array_position(said, NULL) IS NULL;
        IF under_the_locks THEN
            FOR asked IN
                SELECT DISTINCT each.cost_class COLLATE "C" AS cost_class
                FROM jsonb_to_recordset(p_items) AS each (position integer, cost_class text)
                WHERE said[each.position] IS NULL ORDER BY 1
            LOOP
                BEGIN
                    PERFORM pg_advisory_xact_lock(hashtextextended('class:' || asked.cost_class, 0));
                EXCEPTION WHEN lock_not_available THEN
                    RETURN QUERY SELECT 'unavailable', asked.cost_class, NULL::uuid, said, counted;
                    RETURN;
                END;
            END LOOP;
        END IF;
        FOR asked IN
            SELECT each.cost_class COLLATE "C" AS cost_class, max(each.max_waiting) AS max_waiting, max(each.processes) AS processes,
                   count(*) AS jobs
            FROM jsonb_to_recordset(p_items) AS each (position integer, cost_class text, max_waiting integer, processes integer)
            WHERE said[each.position] IS NULL GROUP BY 1 ORDER BY 1
        LOOP
            SELECT * INTO room FROM class_room_v1(asked.cost_class, p_beat);
            counted := counted || jsonb_build_object(asked.cost_class, jsonb_build_array(room.waiting, room.running, room.slots));
            places := greatest(0, room.slots + asked.max_waiting - room.waiting - room.running);
            of_class := of_class || jsonb_build_object(asked.cost_class, places);
            IF p_atomic AND asked.jobs > places THEN
                verdict := CASE WHEN asked.jobs > greatest(room.slots, asked.processes) + asked.max_waiting
                                THEN 'batch_too_large' ELSE 'queue_full' END;
                RETURN QUERY SELECT verdict, asked.cost_class, NULL::uuid, said, counted;
                RETURN;
            END IF;
        END LOOP;
        -- Not from before the wait, and not from before the counts (P3).
        instant := clock_timestamp();
        IF cut_off <= instant THEN
            RETURN QUERY SELECT 'deadline_infeasible', NULL, NULL::uuid, said, counted;
            RETURN;
        END IF;
        FOR item IN
            SELECT each.position, each.name, each.cost_class,
                   CASE WHEN least(began + make_interval(secs => each.deadline_in), each.deadline_at) <= instant THEN 'deadline_infeasible'
                        WHEN (of_class ->> each.cost_class)::integer = 0 THEN 'queue_full'
                        WHEN NOT under_the_locks AND (counted -> each.cost_class ->> 2)::integer > 0
                             AND NOT type_known_v1(each.cost_class, each.type, p_beat) THEN 'type_unavailable' END AS refusal
            FROM jsonb_to_recordset(p_items) AS each (
                position integer, name text, type text, cost_class text, deadline_in double precision, deadline_at timestamptz)
            WHERE said[each.position] IS NULL ORDER BY each.position
        LOOP
            places := (of_class ->> item.cost_class)::integer;
            IF item.refusal IS NOT NULL AND p_atomic THEN
                RETURN QUERY SELECT item.refusal, item.name, NULL::uuid, said, counted;
                RETURN;
            ELSIF item.refusal IS NOT NULL THEN
                said[item.position] := item.refusal;
            ELSIF NOT under_the_locks THEN
                CONTINUE;
            ELSIF places = 0 THEN
                said[item.position] := 'queue_full';
            ELSIF of_client = 0 THEN
                said[item.position] := 'too_many_jobs';
            ELSE
                of_class := of_class || jsonb_build_object(item.cost_class, places - 1);
                of_client := of_client - 1;
            END IF;
        END LOOP;
    END LOOP;
    IF array_position(said, NULL) IS NULL AND array_position(said, 'replayed') IS NULL THEN
        RETURN QUERY SELECT 'refused', NULL, NULL::uuid, said, counted;
        RETURN;
    END IF;

    instant := coalesce(instant, began);
    INSERT INTO jobs_batch (client_id, atomic, request_id, accepted_at, deadline_at)
    VALUES (p_client, p_atomic, p_request_id, instant, cut_off) RETURNING id INTO made;
    FOR item IN
        SELECT each.*, least(began + make_interval(secs => each.deadline_in), each.deadline_at) AS deadline
        FROM jsonb_to_recordset(p_items) AS each (
            position integer, name text, type text, cost_class text, params jsonb, labels jsonb, timeout double precision,
            max_attempts integer, max_deliveries integer, max_wait double precision, deadline_in double precision,
            deadline_at timestamptz, max_waiting integer, key text, fingerprint text)
        ORDER BY each.position
    LOOP
        job := earlier[item.position];
        IF said[item.position] IS NULL THEN
            said[item.position] := 'admitted';
            INSERT INTO jobs_job (client_id, batch_id, type, cost_class, params, labels, timeout_seconds, max_attempts, max_deliveries,
                                  request_id, traceparent, admitted_bound, accepted_at, available_at, start_by, deadline_at)
            VALUES (p_client, made, item.type, item.cost_class, item.params, item.labels, item.timeout, item.max_attempts,
                    item.max_deliveries, p_request_id, p_traceparent,
                    (counted -> item.cost_class ->> 2)::integer + item.max_waiting, instant, instant,
                    least(instant + make_interval(secs => item.max_wait), item.deadline, cut_off), item.deadline)
            RETURNING id INTO job;
            IF item.key IS NOT NULL THEN
                INSERT INTO jobs_idempotencykey (client_id, key, fingerprint, job_id) VALUES (p_client, item.key, item.fingerprint, job);
            END IF;
        END IF;
        INSERT INTO jobs_batchitem (batch_id, position, name, cost_class, job_id, refusal)
        VALUES (made, item.position, item.name, item.cost_class, job, CASE WHEN job IS NULL THEN said[item.position] ELSE '' END);
    END LOOP;
    IF p_key IS NOT NULL THEN
        INSERT INTO jobs_idempotencykey (client_id, key, fingerprint, batch_id) VALUES (p_client, p_key, p_fingerprint, made);
    END IF;
    RETURN QUERY SELECT 'admitted', NULL, made, said, counted;
END
$$;
