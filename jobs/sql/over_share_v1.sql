-- Whether one job more would give its client, or a limit key that it names, more of a class than its share (P10a): NULL, or what is over. Only arithmetic on
-- what standing_v1 has seen; the model is jobs/decision.py.
--
-- p_own_turns: refused requests of the client that were told to come about now for its share (P10); up to half of the share they count as what it holds, or whoever of the
-- client asks next would take what another was told to come for. p_keys: jobs by limit key, those with a maximum, and by paused type, as standing_v1 names it. p_named: the keys of the job, its type so named too. p_live: jobs that wait and run. p_hands: the slots, or the configured processes while none
-- is live. p_max_backlog: seconds of work for each of them, with which the class takes no more.
-- Never while a hand is free: it would be kept from work that there is. By places only when more than half of them are taken, and only beside others. By work too, and from a quarter of it on beside those that hold some: what a client holds
-- is worked off by its part of the slots, so it would wait for longer than the class may take (P5) although the class has little work.
CREATE FUNCTION over_share_v1(
    p_part double precision, p_part_of_holders double precision, p_held integer, p_held_seconds double precision, p_own_turns integer, p_keys jsonb, p_named text[],
    p_live integer, p_hands integer, p_max_waiting integer, p_work_seconds double precision, p_max_backlog double precision
) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    places integer := p_hands + p_max_waiting;
    most_work double precision := p_hands * p_max_backlog;
    most integer := greatest(1, floor(places * p_part + 1e-9));  -- a third of 9 is 3, also as a sum of weights that are no binary fractions
    most_of_key integer;
    kept integer := least(p_own_turns, greatest(1, most / 2));
    kept_seconds double precision := least(p_own_turns * p_held_seconds / greatest(1, p_held), p_part * most_work / 2);
    part_of_work double precision := CASE WHEN 2 * (p_work_seconds + kept_seconds) > most_work THEN p_part
                                          WHEN 4 * (p_work_seconds + kept_seconds) > most_work THEN p_part_of_holders END;
    key text;
    parties integer;
BEGIN
    IF p_part >= 1 OR p_live < p_hands THEN
        RETURN NULL;
    END IF;
    IF 2 * (p_live + kept) > places AND p_held + kept >= most THEN
        RETURN jsonb_build_object('by', 'jobs', 'part', p_part, 'most', most, 'held', p_held, 'held_seconds', p_held_seconds, 'kept', kept);
    END IF;
    IF p_held_seconds + kept_seconds > part_of_work * most_work THEN
        RETURN jsonb_build_object('by', 'work', 'part', part_of_work, 'most', most, 'held', p_held, 'held_seconds', p_held_seconds,
                                  'kept', kept, 'kept_seconds', kept_seconds);
    END IF;
    IF 2 * p_live > places AND p_keys <> '{}' THEN
        SELECT count(*) + 1 INTO parties FROM jsonb_each_text(p_keys) of_key WHERE of_key.value::integer > 0;
        most_of_key := greatest(1, places / parties);
        FOREACH key IN ARRAY coalesce(p_named, '{}') LOOP
            IF (p_keys ->> key)::integer >= most_of_key THEN
                RETURN jsonb_build_object('by', CASE left(key, 1) WHEN chr(31) THEN 'paused' ELSE 'key' END, 'key', ltrim(key, chr(31)), 'part', 1.0 / parties, 'most', most_of_key, 'held', (p_keys ->> key)::integer);
            END IF;
        END LOOP;
    END IF;
    RETURN NULL;
END
$$;
