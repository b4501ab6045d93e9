from importlib import import_module

from django.db import migrations, models

_begin = import_module("jobs.migrations.0001_begin")
function, sql = _begin.function, _begin.sql
AS_BEFORE = sql("guard_transitions_v1").replace("CREATE TRIGGER", "CREATE OR REPLACE TRIGGER")


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0001_begin'),
    ]

    operations = [
        migrations.AddField(
            model_name='attempt',
            name='log',
            field=models.TextField(blank=True, db_default='', help_text='The last 64 KiB of what the handler logged.'),
        ),
        migrations.AddField(
            model_name='attempt',
            name='wait_seconds',
            field=models.FloatField(blank=True, help_text='From when it could start to this start.', null=True),
        ),
        migrations.AddField(
            model_name='job',
            name='deadline_at',
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='job',
            name='error_details',
            field=models.JSONField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='job',
            name='error_retryable',
            field=models.BooleanField(db_default=False),
        ),
        migrations.AddField(
            model_name='job',
            name='lost',
            field=models.IntegerField(db_default=0, help_text='Attempts that ended with their child or node.'),
        ),
        migrations.AddField(
            model_name='job',
            name='max_deliveries',
            field=models.IntegerField(db_default=3, help_text='Lost attempts after which it is poison (P26).'),
        ),
        migrations.AddField(
            model_name='job',
            name='stopped_by',
            field=models.CharField(blank=True, db_default='', max_length=16),
        ),
        # admit_v1 stays while web processes of the release before may still call it.
        function("admit_v2"),
        migrations.RunSQL(
            [sql("guard_transitions_v2"), "DROP FUNCTION guard_transitions_v1"],
            [AS_BEFORE, "DROP FUNCTION guard_transitions_v2"],
        ),
    ]
