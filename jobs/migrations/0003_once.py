import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0002_execution"),
    ]

    operations = [
        migrations.CreateModel(
            name="OnceResult",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("key", models.CharField(max_length=200)),
                (
                    "result",
                    models.JSONField(
                        help_text="What its function returned; NULL where the key alone was taken.", null=True
                    ),
                ),
                ("stored_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "job",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="once_results",
                        to="jobs.job",
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("job", "key"), name="once_per_job")],
            },
        ),
    ]
