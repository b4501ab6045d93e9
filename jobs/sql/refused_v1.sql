-- Whether an operator has a job refused (P7): its client is suspended, its class drains, its type is not taken. NULL: nobody has.
CREATE FUNCTION refused_v1(p_client bigint, p_cost_class text, p_type text) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN EXISTS (SELECT 1 FROM jobs_apiclient client WHERE client.id = p_client AND client.suspended_at IS NOT NULL) THEN 'client_suspended'
        WHEN EXISTS (SELECT 1 FROM jobs_classcontrol control WHERE control.cost_class = p_cost_class AND control.draining_at IS NOT NULL)
            THEN 'class_draining'
        WHEN EXISTS (SELECT 1 FROM jobs_typecontrol control WHERE control.type = p_type AND control.refused_at IS NOT NULL) THEN 'type_refused' END
$$;
