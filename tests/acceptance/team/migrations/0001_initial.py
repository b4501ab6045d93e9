from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True
    dependencies = []
    operations = [
        migrations.CreateModel(
            name=name,
            fields=[
                ("job_id", models.UUIDField(primary_key=True, serialize=False)),
                ("kilograms", models.FloatField()),
            ],
        )
        for name in ("Load", "ArchivedLoad")
    ]
