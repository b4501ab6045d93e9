-- Of these job types those that may start in a class (P13): none of a paused class, and no paused type.
-- In plpgsql, which keeps its plans: each claim asks it.
CREATE FUNCTION not_paused_v1(p_cost_class text, p_types text[]) RETURNS text[] LANGUAGE plpgsql STABLE AS $$
DECLARE
    paused text[];
BEGIN
    IF EXISTS (SELECT 1 FROM jobs_classcontrol control WHERE control.cost_class = p_cost_class AND control.paused_at IS NOT NULL) THEN
        RETURN '{}';
    END IF;
    paused := array(SELECT control.type FROM jobs_typecontrol control WHERE control.paused_at IS NOT NULL);
    IF paused = '{}' THEN
        RETURN p_types;
    END IF;
    RETURN array(SELECT named.type FROM unnest(p_types) AS named (type) WHERE named.type <> ALL (paused));
END
$$;
