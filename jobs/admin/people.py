"""Clients and their keys. A key is shown once, when it is made: only its hash is kept."""

from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.widgets import AdminSplitDateTime
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from jobs import keys, sweeps
from jobs.admin.control import WithReason, change_all
from jobs.admin.readonly import ReadOnlyAdmin
from jobs.models import ApiClient, ApiKey

OVERLAP = timedelta(days=1)  # in which both keys of a rotation work, as with `manage.py keys rotate`
_NEW_KEY = "weighbridge.new_key"  # in request.META, from the saving to the answer


@admin.register(ApiClient)
class ApiClientAdmin(ReadOnlyAdmin):
    list_display = ("name", "submits_per_minute", "max_jobs", "max_running", "weight", "suspended_at", "created_at")
    fields = ("name", "submits_per_minute", "max_jobs", "max_running", "weight")
    search_fields = ("name",)
    ordering = ("name",)
    actions = ("suspend", "resume")
    action_form = WithReason

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm("jobs.add_apiclient")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm("jobs.change_apiclient")

    def save_model(self, request: HttpRequest, obj: ApiClient, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        if "max_running" in form.changed_data:
            sweeps.after_a_limit()

    @admin.action(description="Suspend: it submits nothing, and nothing of it starts", permissions=["change"])
    def suspend(self, request: HttpRequest, chosen: QuerySet[ApiClient]) -> None:
        change_all(self, request, "client", [client.name for client in chosen], {"suspended": True})

    @admin.action(description="Resume", permissions=["change"])
    def resume(self, request: HttpRequest, chosen: QuerySet[ApiClient]) -> None:
        change_all(self, request, "client", [client.name for client in chosen], {"suspended": False})


class NewKey(forms.ModelForm):  # type: ignore[type-arg]
    scopes = forms.MultipleChoiceField(
        choices=[(scope, scope) for scope in keys.ALL_SCOPES], widget=forms.CheckboxSelectMultiple
    )

    class Meta:
        model = ApiKey
        fields = ("client", "scopes", "expires_at")
        widgets = {"expires_at": AdminSplitDateTime}
        field_classes = {"expires_at": forms.SplitDateTimeField}


@admin.register(ApiKey)
class ApiKeyAdmin(ReadOnlyAdmin):
    list_display = ("hint", "client", "scopes", "created_at", "last_used_at", "expires_at", "revoked_at")
    list_filter = ("client",)
    list_select_related = ("client",)
    exclude = ("digest",)
    ordering = ("-created_at",)
    actions = ("rotate", "revoke")

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm("jobs.add_apikey")

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobs.change_apikey")

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        return NewKey if obj is None else super().get_form(request, obj, change, **kwargs)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return NewKey.Meta.fields if obj is None else super().get_fields(request, obj)

    def save_model(self, request: HttpRequest, obj: ApiKey, form: Any, change: bool) -> None:
        """Into the page of the answer, and nowhere else: not into a message, which is kept in a cookie or a session."""
        request.META[_NEW_KEY] = keys.cut(obj)
        obj.save()

    def response_add(self, request: HttpRequest, obj: ApiKey, post_url_continue: Any = None) -> HttpResponse:
        return self._shown_once(request, request.META[_NEW_KEY], obj)

    def _shown_once(self, request: HttpRequest, key: str, made: ApiKey) -> HttpResponse:
        shown = {**self.admin_site.each_context(request), "key": key, "made": made}
        # No page of the admin lets itself be kept.
        return TemplateResponse(request, "admin/jobs/apikey/made.html", shown)

    @admin.action(
        description="Rotate the selected key: make a new one, and let the old one work for a day",
        permissions=["revoke"],
    )
    def rotate(self, request: HttpRequest, chosen: QuerySet[ApiKey]) -> HttpResponse | None:
        living = [key for key in chosen.select_related("client") if key.revoked_at is None]
        if len(living) != 1 or chosen.count() != 1:
            messages.error(request, "Choose one key that was not revoked: each new one is shown on a page of its own.")
            return None
        key = keys.rotate(living[0], None, OVERLAP)
        self.log_change(request, living[0], "Rotated.")
        made = ApiKey.objects.get(digest=keys.digest(key))
        return self._shown_once(request, key, made)

    @admin.action(description="Revoke the selected keys, at once", permissions=["revoke"])
    def revoke(self, request: HttpRequest, chosen: QuerySet[ApiKey]) -> None:
        revoked = [key for key in chosen if keys.revoke(key)]
        for key in revoked:
            self.log_change(request, key, "Revoked.")
        messages.success(request, f"Revoked: {len(revoked)}; revoked before: {chosen.count() - len(revoked)}.")
