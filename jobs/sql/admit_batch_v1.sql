-- Decide about the jobs of one batch and insert those that are admitted, in one round trip (P1, P2, P3, P5, P6, P7, P8, P9, P10a, P11). What
-- admit_v1 is for one job: VOLATILE, called in autocommit at READ COMMITTED, nobody waits longer than a second for a lock.
--
-- p_items: as batch_items_v1 reads them. p_refused: clients that were refused lately, by class. Out: the verdict on the batch (`about`: the item, class, key or number of places that decided it), the verdict on each item by
-- position, each class's room as it was counted, and in how many seconds the first
-- item would start that would probably be too late, and of the first item beyond a share whose it is (over_share_v1). Only 'admitted' has written anything. Atomic: the first item that cannot be admitted decides.
CREATE FUNCTION admit_batch_v1(
    p_client bigint, p_atomic boolean, p_items jsonb, p_deadline_in interval, p_deadline_at timestamptz, p_beat interval,
    p_max_jobs integer, p_request_id text, p_traceparent text, p_key text, p_fingerprint text, p_refused jsonb
) RETURNS TABLE (verdict text, about text, batch_id uuid, verdicts text[], rooms jsonb, starts_in double precision, share jsonb)
LANGUAGE plpgsql VOLATILE SET lock_timeout = '1s' AS $$
DECLARE
    earlier uuid[] := array_fill(NULL::uuid, ARRAY[jsonb_array_length(p_items)]);  -- jobs that items' own keys stand for
    began timestamptz;
    instant timestamptz;
    cut_off timestamptz;
    places integer;
    of_class jsonb := '{}';  -- places that are left in each class
    of_client integer;  -- and of the client's quota; NULL without one
    standings jsonb;  -- how the client stands in each class in which shares may be held to (P10a), with what has been given to items before
    standing jsonb;
    hands integer;
    over jsonb;
    under_the_locks boolean;
    not_granted text;
    item record;
    asked record;
    room record;
    known record;
BEGIN
    verdicts := array_fill(NULL::text, ARRAY[jsonb_array_length(p_items)]);  -- NULL: nothing speaks against it so far
    rooms := '{}';

    -- 1. Keys: what was accepted before is answered whatever has changed since.
    not_granted := lock_all_v1(ARRAY(
        SELECT 'key:' || p_client || ':' || each.key FROM batch_items_v1(p_items) each WHERE each.key IS NOT NULL
        UNION SELECT 'key:' || p_client || ':' || p_key WHERE p_key IS NOT NULL));
    IF not_granted IS NOT NULL THEN
        verdict := 'idempotency_in_flight';
        about := substr(not_granted, length('key:' || p_client || ':') + 1);
        RETURN NEXT; RETURN;
    END IF;
    SELECT stored.batch_id AS batch, stored.fingerprint INTO known FROM jobs_idempotencykey stored
    WHERE stored.client_id = p_client AND stored.key = p_key;
    IF FOUND THEN
        verdict := CASE known.fingerprint WHEN p_fingerprint THEN 'replayed' ELSE 'idempotency_mismatch' END;
        about := p_key;
        batch_id := known.batch;
        RETURN NEXT; RETURN;
    END IF;
    FOR item IN
        SELECT each.position, each.key, each.refused, stored.job_id AS job, stored.fingerprint = each.fingerprint AS same
        FROM batch_items_v1(p_items) each
        LEFT JOIN jobs_idempotencykey stored ON stored.client_id = p_client AND stored.key = each.key
        WHERE stored.key IS NOT NULL OR each.refused IS NOT NULL ORDER BY each.position
    LOOP
        IF item.same IS NULL THEN
            verdicts[item.position] := item.refused;
        ELSIF item.same THEN
            verdicts[item.position] := 'replayed';
            earlier[item.position] := item.job;
        ELSIF p_atomic THEN
            verdict := 'idempotency_mismatch';
            about := item.key;
            RETURN NEXT; RETURN;
        ELSE
            verdicts[item.position] := 'idempotency_mismatch';
        END IF;
    END LOOP;

    -- 2. The client: whether it is suspended, and its quota.
    IF array_position(verdicts, NULL) IS NOT NULL AND EXISTS (
        SELECT 1 FROM jobs_apiclient client WHERE client.id = p_client AND client.suspended_at IS NOT NULL
    ) THEN
        verdict := 'client_suspended';
        RETURN NEXT; RETURN;
    END IF;
    IF p_max_jobs IS NOT NULL AND array_position(verdicts, NULL) IS NOT NULL THEN
        of_client := client_places_v1(p_client, p_max_jobs);
        IF p_atomic AND cardinality(array_positions(verdicts, NULL)) > of_client THEN
            verdict := 'too_many_jobs';
            about := of_client;
            RETURN NEXT; RETURN;
        ELSIF of_client = 0 THEN
            verdicts := array_replace(verdicts, NULL, 'too_many_jobs');
        END IF;
    END IF;

    -- 3. What operators have refused, deadlines, then room. First without the classes' locks, since what is plainly refused needs none: of each item only what no other one has a
    -- say in. Then under them, where a place, of the class and of the quota, is spent only by what is admitted.
    began := clock_timestamp();
    cut_off := least(began + p_deadline_in, p_deadline_at);  -- of two, the earlier; NULL if there is none
    FOREACH under_the_locks IN ARRAY ARRAY[false, true] LOOP
        EXIT WHEN array_position(verdicts, NULL) IS NULL;
        IF under_the_locks THEN
            not_granted := lock_all_v1(ARRAY(
                SELECT 'class:' || each.cost_class FROM batch_items_v1(p_items) each WHERE verdicts[each.position] IS NULL));
            IF not_granted IS NOT NULL THEN
                verdict := 'unavailable';
                about := substr(not_granted, length('class:') + 1);
                RETURN NEXT; RETURN;
            END IF;
        END IF;
        FOR item IN
            SELECT each.position, each.name, refused.verdict
            FROM batch_items_v1(p_items) each, LATERAL refused_v1(p_client, each.cost_class, each.type) AS refused (verdict)
            WHERE verdicts[each.position] IS NULL AND refused.verdict IS NOT NULL ORDER BY each.position
        LOOP
            IF p_atomic OR item.verdict = 'client_suspended' THEN
                verdict := item.verdict;
                about := item.name;
                RETURN NEXT; RETURN;
            END IF;
            verdicts[item.position] := item.verdict;
        END LOOP;
        EXIT WHEN array_position(verdicts, NULL) IS NULL;
        standings := '{}';
        FOR asked IN
            SELECT each.cost_class, max(each.max_waiting) AS max_waiting, max(each.processes) AS processes, max(each.max_backlog) AS max_backlog,
                   max(each.kept) AS kept, max(each.kept_seconds) AS kept_seconds, max(each.own_turns) AS own_turns,
                   count(*) AS items
            FROM batch_items_v1(p_items) each WHERE verdicts[each.position] IS NULL GROUP BY 1
        LOOP
            SELECT * INTO room FROM class_room_v1(asked.cost_class, p_beat);
            rooms := rooms || jsonb_build_object(
                asked.cost_class, jsonb_build_array(room.waiting, room.running, room.slots, room.work_seconds));
            -- A class with enough work before it has no place, however few its jobs are (P5).
            hands := CASE room.slots WHEN 0 THEN asked.processes ELSE room.slots END;
            places := CASE WHEN room.work_seconds / hands > asked.max_backlog - asked.kept_seconds THEN 0
                           ELSE greatest(0, room.slots + asked.max_waiting - asked.kept - room.waiting - room.running) END;
            of_class := of_class || jsonb_build_object(asked.cost_class, places);
            IF 2 * (room.waiting + room.running + asked.items) > hands + asked.max_waiting OR 4 * room.work_seconds > hands * asked.max_backlog OR asked.own_turns > 0 THEN
                SELECT standings || jsonb_build_object(asked.cost_class, jsonb_build_object(
                    'part', own.part, 'part_of_holders', own.part_of_holders, 'held', own.held, 'held_seconds', own.held_seconds, 'own_turns', asked.own_turns, 'keys', own.keys, 'live', room.waiting + room.running,
                    'hands', hands, 'max_waiting', asked.max_waiting, 'work_seconds', room.work_seconds, 'max_backlog', asked.max_backlog)) INTO standings
                FROM standing_v1(
                    asked.cost_class, p_client,
                    ARRAY(SELECT unnest(each.limit_keys || (chr(31) || each.type)) FROM batch_items_v1(p_items) each WHERE each.cost_class = asked.cost_class),
                    ARRAY(SELECT jsonb_array_elements_text(p_refused -> asked.cost_class)::bigint)) own;
            END IF;
        END LOOP;
        -- Not from before the wait, and not from before the counts (P3).
        instant := clock_timestamp();
        IF cut_off <= instant THEN
            verdict := 'deadline_infeasible';
            RETURN NEXT; RETURN;
        END IF;
        FOR item IN  -- what waits before an item is looked at once for all of its class and flow
            WITH dated AS MATERIALIZED (
                SELECT each.position, each.name, each.cost_class, each.flow, each.declared_cost IS NOT NULL AS declared, cost.expected, cost.mean_known,
                       extract(epoch FROM least(began + make_interval(secs => each.deadline_in), each.deadline_at) - instant)::float8 AS in_time,
                       (count(*) OVER (PARTITION BY each.cost_class ORDER BY each.position) - 1)::integer AS earlier,
                       (rooms -> each.cost_class ->> 2)::integer AS slots,
                       (rooms -> each.cost_class ->> 0)::integer + (rooms -> each.cost_class ->> 1)::integer = 0 AS idle
                FROM batch_items_v1(p_items) each, LATERAL cost_v1(each.cost_class, each.type, each.declared_cost) cost
                WHERE verdicts[each.position] IS NULL
            ), flows AS MATERIALIZED (
                SELECT DISTINCT dated.cost_class, dated.flow, dated.idle, dated.mean_known FROM dated
                WHERE dated.in_time > 0 AND dated.expected IS NOT NULL AND dated.slots > 0
            ), looks AS MATERIALIZED (
                SELECT flows.cost_class, flows.flow, start.* FROM flows,
                       LATERAL start_v1(flows.cost_class, p_client, flows.flow, flows.idle, flows.mean_known) start
            ), judged AS (
                SELECT dated.position, dated.name, starts_in_v1(looks.before + dated.earlier, dated.slots, looks.mean_seconds) AS starts_in,
                       deadline_verdict_v1(
                           dated.in_time, dated.expected, dated.declared, dated.slots, looks.before + dated.earlier, looks.mean_seconds) AS verdict
                FROM dated LEFT JOIN looks ON looks.cost_class = dated.cost_class AND looks.flow = dated.flow AND dated.expected IS NOT NULL
                WHERE dated.in_time IS NOT NULL
            )
            SELECT * FROM judged WHERE judged.verdict IS NOT NULL ORDER BY judged.position
        LOOP
            starts_in := coalesce(starts_in, item.starts_in);
            IF p_atomic THEN
                verdict := item.verdict;
                about := item.name;
                RETURN NEXT; RETURN;
            END IF;
            verdicts[item.position] := item.verdict;
        END LOOP;
        IF p_atomic THEN
            SELECT each.cost_class COLLATE "C" AS name,
                   count(*) > max(greatest((rooms -> each.cost_class ->> 2)::integer, each.processes) + each.max_waiting) AS never INTO asked
            FROM batch_items_v1(p_items) each WHERE verdicts[each.position] IS NULL GROUP BY each.cost_class
            HAVING count(*) > (of_class ->> each.cost_class)::integer ORDER BY 1 LIMIT 1;
            IF FOUND THEN
                verdict := CASE WHEN asked.never THEN 'batch_too_large' ELSE 'queue_full' END;
                about := asked.name;
                RETURN NEXT; RETURN;
            END IF;
        END IF;
        FOR item IN
            SELECT each.position, each.name, each.cost_class, each.limit_keys || (chr(31) || each.type) AS limit_keys,
                   NOT under_the_locks AND (rooms -> each.cost_class ->> 2)::integer > 0
                       AND NOT type_known_v1(each.cost_class, each.type, p_beat) AS unknown
            FROM batch_items_v1(p_items) each WHERE verdicts[each.position] IS NULL ORDER BY each.position
        LOOP
            places := (of_class ->> item.cost_class)::integer;
            standing := standings -> item.cost_class;
            over := CASE WHEN standing IS NOT NULL THEN over_share_v1(
                (standing ->> 'part')::float8, (standing ->> 'part_of_holders')::float8, (standing ->> 'held')::integer,
                (standing ->> 'held_seconds')::float8, (standing ->> 'own_turns')::integer, standing -> 'keys', item.limit_keys,
                (standing ->> 'live')::integer, (standing ->> 'hands')::integer, (standing ->> 'max_waiting')::integer,
                (standing ->> 'work_seconds')::float8, (standing ->> 'max_backlog')::float8) END;
            IF places = 0 THEN  -- never of an atomic one
                verdicts[item.position] := 'queue_full';
            ELSIF over IS NOT NULL THEN
                share := coalesce(share, over);
                IF p_atomic THEN
                    verdict := 'share_full';
                    about := item.name;
                    RETURN NEXT; RETURN;
                END IF;
                verdicts[item.position] := 'share_full';
            ELSIF item.unknown AND p_atomic THEN
                verdict := 'type_unavailable';
                about := item.name;
                RETURN NEXT; RETURN;
            ELSIF item.unknown THEN
                verdicts[item.position] := 'type_unavailable';
            ELSIF NOT under_the_locks AND NOT p_atomic THEN
                CONTINUE;
            ELSIF under_the_locks AND of_client = 0 THEN
                verdicts[item.position] := 'too_many_jobs';
            ELSE
                of_class := of_class || jsonb_build_object(item.cost_class, places - 1);
                of_client := of_client - under_the_locks::integer;
                IF standing IS NOT NULL THEN
                    standings := standings || jsonb_build_object(item.cost_class, standing || jsonb_build_object(
                        'held', (standing ->> 'held')::integer + 1, 'live', (standing ->> 'live')::integer + 1, 'keys', standing -> 'keys' || (
                            SELECT coalesce(jsonb_object_agg(named.key, (standing -> 'keys' ->> named.key)::integer + 1), '{}')
                            FROM unnest(item.limit_keys) AS named (key) WHERE standing -> 'keys' ? named.key)));
                END IF;
            END IF;
        END LOOP;
    END LOOP;

    -- 4. What is left is stored.
    IF array_position(verdicts, NULL) IS NULL AND array_position(verdicts, 'replayed') IS NULL THEN
        verdict := 'refused';
        RETURN NEXT; RETURN;
    END IF;
    SELECT stored.batch_id, stored.verdicts INTO batch_id, verdicts FROM store_batch_v1(
        p_client, p_atomic, p_items, verdicts, earlier, rooms, began, coalesce(instant, began), cut_off,
        p_request_id, p_traceparent, p_key, p_fingerprint) stored;
    verdict := 'admitted';
    RETURN NEXT;
END
$$;
