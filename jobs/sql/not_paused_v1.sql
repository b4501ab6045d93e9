-- Of these job types those that may start in a class (P13): none of a paused class, and no paused type.
CREATE FUNCTION not_paused_v1(p_cost_class text, p_types text[]) RETURNS text[] LANGUAGE sql STABLE AS $$
    SELECT array(
        SELECT named.type FROM unnest(p_types) AS named (type)
        WHERE NOT EXISTS (SELECT 1 FROM jobs_classcontrol control WHERE control.cost_class = p_cost_class AND control.paused_at IS NOT NULL)
          AND named.type <> ALL (array(SELECT control.type::text FROM jobs_typecontrol control WHERE control.paused_at IS NOT NULL)))
$$;
