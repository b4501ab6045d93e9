from django.db import migrations, models


class Migration(migrations.Migration):
    """What the sweep of files walks along."""

    dependencies = [("jobs", "0007_outbox")]

    operations = [
        migrations.RemoveIndex(model_name="upload", name="upload_prune"),
        migrations.AddIndex(
            model_name="upload", index=models.Index(fields=["created_at", "id"], name="upload_by_age")
        ),
        migrations.AddIndex(
            model_name="artifact", index=models.Index(fields=["created_at", "id"], name="artifact_by_age")
        ),
    ]
