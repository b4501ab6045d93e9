from django.urls import path
from django.views.decorators.csrf import csrf_exempt

from jobs.api import artifacts, batches, caller, classes, control, errors, jobs, types, uploads

urlpatterns = [
    path("jobs", jobs.Jobs.as_view()),
    path("jobs/changes", jobs.Changes.as_view()),
    path("jobs/<uuid:job_id>", jobs.OneJob.as_view(), name="job"),
    path("jobs/<uuid:job_id>/result", jobs.Result.as_view()),
    path("batches", batches.Batches.as_view()),
    path("batches/<uuid:batch_id>", batches.OneBatch.as_view()),
    path("uploads", uploads.Uploads.as_view()),
    path("uploads/<uuid:upload_id>", uploads.OneUpload.as_view()),
    path("jobs/<uuid:job_id>/artifacts/<str:name>", artifacts.OneArtifact.as_view()),
    path("client", caller.Client.as_view()),
    path("clients/<str:name>", control.OneClient.as_view()),
    path("controls", control.Controls.as_view()),
    path("classes", classes.Classes.as_view()),
    path("classes/<str:name>", classes.OneClass.as_view()),
    path("types", types.Types.as_view()),
    path("types/<str:name>", types.OneType.as_view()),
    path("<path:anything>", csrf_exempt(errors.not_found)),  # there is nothing here to be forged
]
