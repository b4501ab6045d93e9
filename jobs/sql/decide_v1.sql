-- Decide about one job as its class is now (P2, P4, P5, P7, P9). Writes nothing and takes no lock: admissions ask it twice, before the class's
-- lock, since what is plainly refused needs none, and under it.
--
-- p_expected: seconds of work; NULL: not known. p_declared: its type says so itself; of a measure it is never said that it *cannot* be in time.
-- p_mean_known: whether what the class's jobs take was ever measured or declared. p_max_backlog: seconds. Out: the verdict ('admitted': nothing speaks
-- against it), the room as it was counted, the instant of the decision, and in how many seconds the job would probably start (NULL: not known).
CREATE FUNCTION decide_v1(
    p_client bigint, p_flow text, p_type text, p_cost_class text, p_deadline timestamptz, p_expected double precision, p_declared boolean,
    p_max_waiting integer, p_max_backlog double precision, p_processes integer, p_mean_known boolean, p_beat interval
) RETURNS TABLE (
    verdict text, waiting integer, running integer, slots integer, work_seconds double precision, instant timestamptz,
    starts_in double precision
) LANGUAGE plpgsql STABLE AS $$
BEGIN
    SELECT room.waiting, room.running, room.slots, room.work_seconds INTO waiting, running, slots, work_seconds
    FROM class_room_v1(p_cost_class, p_beat) room;
    -- Not from before the count: a job that ended in between was not counted, so by the instants that are stored it must have ended
    -- before this one was accepted (P3).
    instant := clock_timestamp();
    IF p_deadline IS NOT NULL THEN
        SELECT judged.verdict, judged.starts_in INTO verdict, starts_in FROM deadline_verdict_v1(
            p_client, p_flow, p_cost_class, extract(epoch FROM p_deadline - instant), p_expected, p_declared, p_mean_known, slots,
            waiting + running = 0, 0) judged;
        IF verdict IS NOT NULL THEN
            RETURN NEXT;
            RETURN;
        END IF;
    END IF;
    verdict := CASE
        WHEN waiting + running >= slots + p_max_waiting THEN 'queue_full'
        WHEN work_seconds / CASE slots WHEN 0 THEN p_processes ELSE slots END > p_max_backlog THEN 'queue_full'
        WHEN slots > 0 AND NOT type_known_v1(p_cost_class, p_type, p_beat) THEN 'type_unavailable'
        ELSE 'admitted' END;
    IF verdict = 'admitted' AND starts_in IS NULL AND slots > 0 THEN  -- not of a refusal, which is to be cheap
        SELECT start.starts_in INTO starts_in FROM start_v1(p_cost_class, p_client, p_flow, slots, waiting + running = 0, 0) start
        WHERE p_mean_known OR start.all_known;
    END IF;
    RETURN NEXT;
END
$$;
