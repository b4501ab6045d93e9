"""What operators change while everything runs: classes and job types, each with what stands; and the record of all changes."""

from collections.abc import Iterable, Mapping
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ActionForm
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from jobs import classes, registry
from jobs.admin.readonly import ReadOnlyAdmin
from jobs.classes import LIVE_LIMITS
from jobs.control import changing, told
from jobs.control.changing import SWITCHES, WHY_LENGTH, Operator, WrongControl
from jobs.models import ClassControl, ControlChange, TypeControl
from jobs.row_locks import RowHeld


def change_all(
    model_admin: "admin.ModelAdmin[Any]",
    request: HttpRequest,
    kind: str,
    names: Iterable[str],
    wanted: Mapping[str, Any],
) -> None:
    """Each by itself, and said how many were."""
    changed, by = 0, _operator(request, next(filter(None, request.POST.getlist("why")), ""))
    for name in names:
        try:
            changed += bool(changing.CHANGE[kind](name, wanted, by))
        except WrongControl as error:
            model_admin.message_user(request, str(error), messages.ERROR)
            return
        except RowHeld:
            model_admin.message_user(request, f"{name} is being changed by somebody else; try again.", messages.WARNING)
    model_admin.message_user(request, f"Changed: {changed}.", messages.SUCCESS)


def _operator(request: HttpRequest, why: str = "") -> Operator:
    return Operator("admin", request.user.get_username(), why)


class WithReason(ActionForm):
    """Of a list whose actions are recorded. A reason that is too long is refused by whoever records it: here it would be "No action selected"."""

    why = forms.CharField(
        required=False, label="why (for the record)", widget=forms.TextInput({"maxlength": WHY_LENGTH})
    )


class ChangeClassForm(forms.ModelForm):  # type: ignore[type-arg]
    """What is left empty is what the settings say."""

    paused = forms.BooleanField(
        required=False, help_text="Nothing of it starts; it takes jobs, which expire in their time."
    )
    draining = forms.BooleanField(required=False, help_text="It takes no more jobs; what it has goes on.")
    why = forms.CharField(required=False, max_length=WHY_LENGTH, help_text="For the record.")

    class Meta:
        model = ClassControl
        fields = LIVE_LIMITS

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for switch in SWITCHES["class"]:
            self.initial[switch] = getattr(self.instance, f"{switch}_at") is not None
        for field in (*SWITCHES["class"], *LIVE_LIMITS):
            # What counts as changed is what differs from the page as it was shown: who sets a limit does not resume what was paused meanwhile.
            self.fields[field].show_hidden_initial = True

    def clean(self) -> dict[str, Any]:
        found: dict[str, Any] = super().clean() or self.cleaned_data
        for field in LIVE_LIMITS:
            try:
                changing.checked("class", self.instance.pk, field, found.get(field))
            except WrongControl as error:
                self.add_error(field, str(error))
        return found


class _Controlled(ReadOnlyAdmin):
    """Rows that stand for what is declared elsewhere, made when they are looked at."""

    kind: str
    action_form = WithReason
    empty_value_display = "not set"

    def names(self) -> Iterable[str]:
        raise NotImplementedError

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm(f"jobs.change_{self.opts.model_name}")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        known = [*self.names()]
        if len(self.model.objects.filter(pk__in=known)) < len(known):
            self.model.objects.bulk_create([self.model(pk=name) for name in known], ignore_conflicts=True)
        return super().get_queryset(request)

    def change_selected(self, request: HttpRequest, chosen: QuerySet[Any], **wanted: bool) -> None:
        change_all(self, request, self.kind, [str(row.pk) for row in chosen], wanted)

    @admin.action(description="Pause: nothing of it starts", permissions=["change"])
    def pause(self, request: HttpRequest, chosen: QuerySet[Any]) -> None:
        self.change_selected(request, chosen, paused=True)

    @admin.action(description="Resume", permissions=["change"])
    def resume(self, request: HttpRequest, chosen: QuerySet[Any]) -> None:
        self.change_selected(request, chosen, **dict.fromkeys(SWITCHES[self.kind], False))


@admin.register(ClassControl)
class ClassControlAdmin(_Controlled):
    kind = "class"
    form = ChangeClassForm
    list_display = ("cost_class", "paused_at", "draining_at", *LIVE_LIMITS)
    fields = ("stands", "paused", "draining", *LIVE_LIMITS, "why")
    readonly_fields = ("stands",)
    actions = ("pause", "drain", "resume")
    ordering = ("cost_class",)

    def names(self) -> Iterable[str]:
        return classes.declared()

    def get_queryset(self, request: HttpRequest) -> QuerySet[ClassControl]:
        return super().get_queryset(request).filter(pk__in=[*self.names()])

    @admin.action(description="Drain: it takes no more jobs", permissions=["change"])
    def drain(self, request: HttpRequest, chosen: QuerySet[ClassControl]) -> None:
        self.change_selected(request, chosen, draining=True)

    @admin.display(description="what stands")
    def stands(self, row: ClassControl) -> SafeString:
        settings = told.one_class(row.pk).settings
        return format_html_join(
            "",
            "<div>{}: {} ({}) {}</div>",
            ((one.field, _said(one.value), one.source, _set_by(one)) for one in settings),
        )

    def save_model(self, request: HttpRequest, obj: ClassControl, form: Any, change: bool) -> None:
        """Not the form's instance: the one place that writes this locks, compares and records."""
        wanted = {field: form.cleaned_data[field] for field in form.changed_data if field != "why"}
        changing.change_class(obj.pk, wanted, _operator(request, form.cleaned_data["why"]))

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            return super().changeform_view(request, *args, **kwargs)
        except RowHeld:
            self.message_user(request, "It is being changed by somebody else; try again.", messages.WARNING)
            return HttpResponseRedirect(request.path)


def _said(value: Any) -> Any:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "not set" if value is None else value


def _set_by(one: told.Setting) -> str:
    if one.last is None:
        return ""
    return f"last set by {one.last.changed_by} at {one.last.changed_at:%Y-%m-%d %H:%M:%S} {one.last.why}"


@admin.register(TypeControl)
class TypeControlAdmin(_Controlled):
    kind = "type"
    list_display = ("type", "paused_at", "refused_at")
    readonly_fields = ("type", "paused_at", "refused_at")
    actions = ("pause", "refuse", "resume")
    ordering = ("type",)

    def names(self) -> Iterable[str]:
        return registry.names()

    @admin.action(description="Refuse: no more of it are taken", permissions=["change"])
    def refuse(self, request: HttpRequest, chosen: QuerySet[TypeControl]) -> None:
        self.change_selected(request, chosen, refused=True)


@admin.register(ControlChange)
class ControlChangeAdmin(ReadOnlyAdmin):
    list_display = ("changed_at", "changed_by", "kind", "name", "field", "was", "became", "why")
    list_filter = ("kind", "field")
    search_fields = ("=name",)
    search_help_text = "A whole name of a class, job type or client"
    list_per_page = 50
    ordering = ("-id",)

    @admin.display(description="before")
    def was(self, change: ControlChange) -> Any:
        return _said(change.before)

    @admin.display(description="after")
    def became(self, change: ControlChange) -> Any:
        return _said(change.after)
