import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
import jobs.states
from django.db import migrations, models

from jobs.sql import function, sql


class Migration(migrations.Migration):

    initial = True

    dependencies = [
    ]

    operations = [
        # Defaults of the tables below.
        migrations.RunSQL("CREATE SEQUENCE jobs_admission_sequence", "DROP SEQUENCE jobs_admission_sequence"),
        function("uuid7_v1"),
        migrations.CreateModel(
            name='ApiClient',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100, unique=True)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                'verbose_name': 'API client',
            },
        ),
        migrations.CreateModel(
            name='Sweep',
            fields=[
                ('name', models.CharField(max_length=32, primary_key=True, serialize=False)),
                ('last_run_at', models.DateTimeField()),
                ('steady_since', models.DateTimeField(blank=True, help_text='Runs without a gap since then (P17).', null=True)),
            ],
        ),
        migrations.CreateModel(
            name='ApiKey',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('digest', models.CharField(max_length=64, unique=True)),
                ('hint', models.CharField(help_text='The first characters, to tell keys apart.', max_length=12)),
                ('scopes', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=32), default=list, size=None)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('expires_at', models.DateTimeField(blank=True, null=True)),
                ('revoked_at', models.DateTimeField(blank=True, null=True)),
                ('last_used_at', models.DateTimeField(blank=True, help_text='To the minute.', null=True)),
                ('client', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='keys', to='jobs.apiclient')),
            ],
            options={
                'verbose_name': 'API key',
            },
        ),
        migrations.CreateModel(
            name='WorkerNode',
            fields=[
                ('id', models.UUIDField(primary_key=True, serialize=False)),
                ('hostname', models.CharField(max_length=255)),
                ('pid', models.IntegerField()),
                ('cost_class', models.CharField(max_length=63)),
                ('processes', models.IntegerField()),
                ('types', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=100), help_text='The job types this node can run.', size=None)),
                ('started_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('seen_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('stopping_at', models.DateTimeField(blank=True, null=True)),
                ('stopped_at', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('stopped_at__isnull', True)), fields=['cost_class'], name='node_live')],
            },
        ),
        migrations.CreateModel(
            name='Job',
            fields=[
                ('id', models.UUIDField(db_default=models.Func(function='uuid7_v1'), primary_key=True, serialize=False)),
                ('sequence', models.BigIntegerField(db_default=models.Func(models.Value('jobs_admission_sequence'), function='nextval'), help_text='The order of admission.', unique=True)),
                ('type', models.CharField(max_length=100)),
                ('cost_class', models.CharField(max_length=63)),
                ('params', models.JSONField(default=dict)),
                ('labels', models.JSONField(default=dict)),
                ('request_id', models.CharField(blank=True, default='', max_length=128)),
                ('state', models.CharField(choices=[('queued', 'queued'), ('running', 'running'), ('succeeded', 'succeeded'), ('failed', 'failed'), ('cancelled', 'cancelled'), ('expired', 'expired')], db_default='queued', max_length=9)),
                ('admitted_bound', models.IntegerField(help_text='queued + running may not exceed this at its admission (P3).')),
                ('accepted_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('available_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('start_by', models.DateTimeField(blank=True, null=True)),
                ('started_at', models.DateTimeField(blank=True, help_text='Its first start.', null=True)),
                ('finished_at', models.DateTimeField(blank=True, null=True)),
                ('deadline_at', models.DateTimeField(blank=True, null=True)),
                ('cancel_requested_at', models.DateTimeField(blank=True, null=True)),
                ('timeout_seconds', models.FloatField()),
                ('attempt', models.IntegerField(db_default=0, help_text='Starts so far; the fencing token of the one that runs.')),
                ('failures', models.IntegerField(db_default=0)),
                ('max_attempts', models.IntegerField(db_default=1)),
                ('lost', models.IntegerField(db_default=0, help_text='Attempts that ended with their child or node.')),
                ('max_deliveries', models.IntegerField(db_default=3, help_text='Lost attempts after which it is poison (P26).')),
                ('pid', models.IntegerField(blank=True, null=True)),
                ('process_started', models.BigIntegerField(blank=True, help_text='Kernel ticks; tells a reused pid apart.', null=True)),
                ('lease_until', models.DateTimeField(blank=True, null=True)),
                ('hard_deadline', models.DateTimeField(blank=True, null=True)),
                ('progress_fraction', models.FloatField(blank=True, null=True)),
                ('progress_note', models.CharField(blank=True, db_default='', max_length=200)),
                ('result', models.JSONField(blank=True, null=True)),
                ('result_expired', models.BooleanField(db_default=False)),
                ('error_code', models.CharField(blank=True, db_default='', max_length=64)),
                ('error_message', models.TextField(blank=True, db_default='')),
                ('error_details', models.JSONField(blank=True, null=True)),
                ('error_retryable', models.BooleanField(db_default=False)),
                ('stopped_by', models.CharField(blank=True, db_default='', max_length=16)),
                ('run_seconds', models.FloatField(blank=True, help_text='Inside attempts, all of them.', null=True)),
                ('cpu_seconds', models.FloatField(blank=True, null=True)),
                ('peak_rss_bytes', models.BigIntegerField(blank=True, null=True)),
                ('client', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='jobs', to='jobs.apiclient')),
                ('node', models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='jobs', to='jobs.workernode')),
            ],
            options={
                'permissions': [('cancel_job', 'Can cancel a job')],
            },
        ),
        migrations.CreateModel(
            name='Attempt',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.IntegerField()),
                ('pid', models.IntegerField()),
                ('process_started', models.BigIntegerField()),
                ('started_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('finished_at', models.DateTimeField(blank=True, null=True)),
                ('outcome', models.CharField(blank=True, db_default='', max_length=16)),
                ('error_code', models.CharField(blank=True, db_default='', max_length=64)),
                ('error_detail', models.TextField(blank=True, db_default='', help_text='For operators: exception text and traceback.')),
                ('log', models.TextField(blank=True, db_default='', help_text='The last 64 KiB of what the handler logged.')),
                ('wait_seconds', models.FloatField(blank=True, help_text='From when it could start to this start.', null=True)),
                ('run_seconds', models.FloatField(blank=True, null=True)),
                ('cpu_seconds', models.FloatField(blank=True, null=True)),
                ('peak_rss_bytes', models.BigIntegerField(blank=True, null=True)),
                ('job', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='attempts', to='jobs.job')),
                ('node', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to='jobs.workernode')),
            ],
        ),
        migrations.CreateModel(
            name='IdempotencyKey',
            fields=[
                ('pk', models.CompositePrimaryKey('client', 'key', blank=True, editable=False, primary_key=True, serialize=False)),
                ('key', models.CharField(max_length=255)),
                ('fingerprint', models.CharField(help_text='SHA-256 of the request, without its deadline.', max_length=64)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('client', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='jobs.apiclient')),
                ('job', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to='jobs.job')),
            ],
            options={
                'indexes': [models.Index(fields=['created_at'], name='key_prune')],
            },
        ),
        migrations.CreateModel(
            name='OnceResult',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(max_length=200)),
                ('result', models.JSONField(help_text='What its function returned; NULL where the key alone was taken.', null=True)),
                ('stored_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('job', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='once_results', to='jobs.job')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('job', 'key'), name='once_per_job')],
            },
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(condition=models.Q(('state', 'queued')), fields=['cost_class', 'sequence'], name='job_claim'),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(condition=models.Q(('state__in', [jobs.states.State['QUEUED'], jobs.states.State['RUNNING']])), fields=['cost_class', 'state', 'start_by'], name='job_live'),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(condition=models.Q(('start_by__isnull', False), ('state', 'queued')), fields=['start_by'], name='job_expire'),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(condition=models.Q(('state', 'running')), fields=['node'], name='job_leases'),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(condition=models.Q(('finished_at__isnull', False)), fields=['cost_class', 'finished_at'], name='job_drain'),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(condition=models.Q(('finished_at__isnull', False)), fields=['finished_at'], name='job_prune'),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(fields=['-accepted_at'], name='job_newest'),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(fields=['client', '-sequence'], name='job_list'),
        ),
        migrations.AddConstraint(
            model_name='job',
            constraint=models.CheckConstraint(condition=models.Q(('state__in', ['queued', 'running', 'succeeded', 'failed', 'cancelled', 'expired'])), name='job_state_known'),
        ),
        migrations.AddConstraint(
            model_name='job',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('finished_at__isnull', False), ('state__in', [jobs.states.State['CANCELLED'], jobs.states.State['EXPIRED'], jobs.states.State['FAILED'], jobs.states.State['SUCCEEDED']])), models.Q(('finished_at__isnull', True), ('state__in', [jobs.states.State['QUEUED'], jobs.states.State['RUNNING']])), _connector='OR'), name='job_finished_at_means_terminal'),
        ),
        migrations.AddConstraint(
            model_name='job',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('hard_deadline__isnull', False), ('lease_until__isnull', False), ('state', 'running')), models.Q(models.Q(('state', 'running'), _negated=True), ('hard_deadline__isnull', True), ('lease_until__isnull', True)), _connector='OR'), name='job_lease_means_running'),
        ),
        migrations.AddConstraint(
            model_name='job',
            constraint=models.CheckConstraint(condition=models.Q(('attempt', 0), ('started_at__isnull', False), _connector='OR'), name='job_started_means_attempt'),
        ),
        migrations.AddConstraint(
            model_name='attempt',
            constraint=models.UniqueConstraint(models.F('job'), models.F('number'), name='attempt_number_once'),
        ),
        # Room for in-place updates (a lease renewal touches no index), and a vacuum before the dead
        # versions of a busy queue are many.
        migrations.RunSQL(
            "ALTER TABLE jobs_job SET (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02)",
            "ALTER TABLE jobs_job RESET (fillfactor, autovacuum_vacuum_scale_factor)",
        ),
        function("live_nodes_v1"),
        function("class_room_v1"),
        function("type_known_v1"),
        function("admit_v1"),
        migrations.RunSQL(
            sql("guard_transitions_v1"),
            "DROP TRIGGER job_moves ON jobs_job; DROP TRIGGER job_begins ON jobs_job; DROP FUNCTION guard_transitions_v1",
        ),
    ]
