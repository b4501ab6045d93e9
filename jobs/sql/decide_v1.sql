-- Decide about one job as its class is now, and as operators have it (P2, P4, P5, P7, P9, P10a). Writes nothing and takes no lock: admissions ask it twice,
-- before the class's lock, since what is plainly refused needs none, and under it. The model is jobs/decision.py, and the database is held against it.
--
-- p_expected: seconds of work; NULL: not known. p_declared: its type says so itself; of a measure it is never said that it *cannot* be in time.
-- p_mean_known: whether what the class's jobs take was ever measured or declared. p_max_backlog: seconds. p_refused: clients that were refused in the class
-- lately. p_kept, p_kept_seconds: places, and the work of their jobs on all slots, that are for others, whose turn is near (P10); shares are of the whole room. p_own_turns: as over_share_v1 has it. Out: the verdict ('admitted': nothing speaks against it), the room as it was counted, the instant of the decision, in how many seconds the job
-- would probably start (NULL: not known), and of 'share_full' whose share it is (over_share_v1).
CREATE FUNCTION decide_v1(
    p_client bigint, p_flow text, p_type text, p_cost_class text, p_deadline timestamptz, p_expected double precision, p_declared boolean,
    p_max_waiting integer, p_max_backlog double precision, p_processes integer, p_mean_known boolean, p_beat interval, p_limit_keys text[],
    p_refused bigint[], p_kept integer, p_kept_seconds double precision, p_own_turns integer
) RETURNS TABLE (
    verdict text, waiting integer, running integer, slots integer, work_seconds double precision, instant timestamptz,
    starts_in double precision, share jsonb
) LANGUAGE plpgsql STABLE AS $$
DECLARE
    in_seconds double precision;
    before integer;  -- it: jobs that wait and run
    mean_seconds double precision;  -- that one of them takes; NULL: that is not known
    looked boolean := false;
    hands integer;  -- that will do the work
BEGIN
    verdict := refused_v1(p_client, p_cost_class, p_type);
    IF verdict IS NOT NULL THEN
        RETURN NEXT;
        RETURN;
    END IF;
    SELECT room.waiting, room.running, room.slots, room.work_seconds INTO waiting, running, slots, work_seconds
    FROM class_room_v1(p_cost_class, p_beat) room;
    -- Not from before the count: a job that ended in between was not counted, so by the instants that are stored it must have ended
    -- before this one was accepted (P3).
    instant := clock_timestamp();
    hands := CASE slots WHEN 0 THEN p_processes ELSE slots END;
    IF p_deadline IS NOT NULL THEN
        in_seconds := extract(epoch FROM p_deadline - instant);
        looked := p_expected IS NOT NULL AND slots > 0 AND in_seconds > 0;
        IF looked THEN
            SELECT start.before, start.mean_seconds INTO before, mean_seconds
            FROM start_v1(p_cost_class, p_client, p_flow, waiting + running = 0, p_mean_known) start;
            starts_in := starts_in_v1(before, slots, mean_seconds);
        END IF;
        verdict := deadline_verdict_v1(in_seconds, p_expected, p_declared, slots, before, mean_seconds);
        IF verdict IS NOT NULL THEN
            RETURN NEXT;
            RETURN;
        END IF;
    END IF;
    verdict := CASE
        WHEN waiting + running >= slots + p_max_waiting - p_kept THEN 'queue_full'
        WHEN work_seconds / hands > p_max_backlog - p_kept_seconds THEN 'queue_full' END;
    IF verdict IS NULL AND waiting + running >= hands AND (2 * (waiting + running) > hands + p_max_waiting OR 4 * work_seconds > hands * p_max_backlog OR p_own_turns > 0) THEN
        SELECT over_share_v1(own.part, own.part_of_holders, own.held, own.held_seconds, p_own_turns, own.keys, p_limit_keys || (chr(31) || p_type), waiting + running, hands, p_max_waiting,
                             work_seconds, p_max_backlog) INTO share
        FROM standing_v1(p_cost_class, p_client, p_limit_keys || (chr(31) || p_type), p_refused) own;
    END IF;
    verdict := CASE
        WHEN verdict IS NOT NULL THEN verdict
        WHEN share IS NOT NULL THEN 'share_full'
        WHEN slots > 0 AND NOT type_known_v1(p_cost_class, p_type, p_beat) THEN 'type_unavailable'
        ELSE 'admitted' END;
    IF verdict = 'admitted' AND NOT looked AND slots > 0 THEN  -- not of a refusal, which is to be cheap
        SELECT starts_in_v1(start.before, slots, start.mean_seconds) INTO starts_in
        FROM start_v1(p_cost_class, p_client, p_flow, waiting + running = 0, p_mean_known) start;
    END IF;
    RETURN NEXT;
END
$$;
