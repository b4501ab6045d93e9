from django.urls import path
from django.views.decorators.csrf import csrf_exempt

from jobs.api import artifacts, batches, errors, uploads, views

urlpatterns = [
    path("jobs", views.Jobs.as_view()),
    path("jobs/changes", views.Changes.as_view()),
    path("jobs/<uuid:job_id>", views.OneJob.as_view(), name="job"),
    path("jobs/<uuid:job_id>/result", views.Result.as_view()),
    path("batches", batches.Batches.as_view()),
    path("batches/<uuid:batch_id>", batches.OneBatch.as_view()),
    path("uploads", uploads.Uploads.as_view()),
    path("uploads/<uuid:upload_id>", uploads.OneUpload.as_view()),
    path("jobs/<uuid:job_id>/artifacts/<str:name>", artifacts.OneArtifact.as_view()),
    path("client", views.Client.as_view()),
    path("classes", views.Classes.as_view()),
    path("classes/<str:name>", views.OneClass.as_view()),
    path("types", views.Types.as_view()),
    path("types/<str:name>", views.OneType.as_view()),
    path("<path:anything>", csrf_exempt(errors.not_found)),  # there is nothing here to be forged
]
