"""Route table of the pages."""

from __future__ import annotations

from typing import Final, Literal

from reenact.server.auth.permissions import Permission
from reenact.server.endpoint import Endpoint, Handler, Needs
from reenact.server.web import expired_session, sign_in
from reenact.server.web.admin import agents, audit, keys, people, tenants
from reenact.server.web.components.layout import send_asset
from reenact.server.web.exchanges import (
    exchange,
    history,
    noise,
    recordings,
    related,
    searches,
)
from reenact.server.web.replays import batches, form, replay

__all__ = ["ENDPOINTS"]

_REPLAYS: Final[tuple[Permission, ...]] = ("replay:execute", "replay:execute:production")


def _page(method: Literal["GET", "POST"], path: str, needs: Needs, handler: Handler) -> Endpoint:
    return Endpoint(method, path, needs, handler, page=True)


ENDPOINTS: Final = (
    _page("GET", "/", "open", sign_in.show_start),
    _page("GET", "/setup", "open", sign_in.show_setup),
    _page("POST", "/setup", "open", sign_in.do_setup),
    _page("GET", "/invite", "open", sign_in.show_invite),
    _page("POST", "/invite", "open", sign_in.do_invite),
    _page("GET", "/signin", "open", sign_in.show_signin),
    _page("POST", "/signin", "open", sign_in.do_signin),
    _page("POST", "/again", "open", expired_session.do_again),
    _page("POST", "/signout", "open", sign_in.do_signout),
    Endpoint("GET", "/static/{version}/{name}", "open", send_asset),
    _page("GET", "/exchanges", "exchange:read", history.show_history),
    _page("GET", "/exchanges/{id}", "exchange:read", exchange.show_exchange),
    _page("GET", "/exchanges/{id}/related", "exchange:read", related.show_related),
    _page("GET", "/exchanges/{id}/view", "exchange:read", recordings.view_exchange),
    _page("GET", "/exchanges/{id}/replay", _REPLAYS, form.edit_replay),
    _page("POST", "/exchanges/{id}/replay", _REPLAYS, form.do_replay),
    _page("POST", "/exchanges/{id}/replay/preview", _REPLAYS, form.preview_replay),
    _page("POST", "/exchanges/{id}/replay/check", _REPLAYS, form.check_replay),
    _page("GET", "/exchanges/{a}/compare/{b}", "exchange:read", replay.show_comparison),
    _page("GET", "/replays", "exchange:read", history.show_replays),
    _page("GET", "/replays/{id}", "exchange:read", replay.show_replay),
    _page("POST", "/replays/{id}/cancel", _REPLAYS, replay.do_cancel),
    _page("GET", "/batches", "exchange:read", batches.show_batches),
    _page("POST", "/batches", _REPLAYS, batches.do_plan_batch),
    _page("GET", "/batches/new", _REPLAYS, batches.edit_batch),
    _page("GET", "/batches/{id}", "exchange:read", batches.show_batch),
    _page("POST", "/batches/{id}/confirm", _REPLAYS, batches.do_confirm_batch),
    _page("POST", "/batches/{id}/cancel", _REPLAYS, batches.do_cancel_batch),
    _page("GET", "/noise", "exchange:read", noise.show_noise),
    _page("POST", "/noise", "replay:execute", noise.do_add_rule),
    _page("POST", "/noise/remove", "replay:execute", noise.do_remove_rule),
    _page("POST", "/noise/learn", "replay:execute", noise.do_learn_rules),
    _page("GET", "/noise/hide", "replay:execute", noise.show_hiding),
    _page("GET", "/searches", "exchange:read", searches.show_searches),
    _page("POST", "/searches", "exchange:read", searches.do_save_search),
    _page("GET", "/searches/new", "exchange:read", searches.edit_search),
    _page("POST", "/searches/{name}/rename", "exchange:read", searches.do_rename_search),
    _page("POST", "/searches/{name}/remove", "exchange:read", searches.do_remove_search),
    _page("GET", "/agents", "agent:read", agents.show_agents),
    _page("GET", "/recordings", "capture:read", recordings.show_recordings),
    _page("GET", "/recordings/{id}/view", "capture:read", recordings.view_capture),
    _page("GET", "/audit", "audit:read", audit.show_audit),
    _page("GET", "/audit/{seq}", "audit:read", audit.show_record),
    _page("GET", "/people", "tenant:admin", people.show_people),
    _page("POST", "/people", "tenant:admin", people.do_add_user),
    _page("POST", "/people/{id}/invite", "tenant:admin", people.do_invite_again),
    _page("POST", "/people/{id}/remove", "tenant:admin", people.do_remove_user),
    _page("POST", "/people/{id}/grants", "tenant:admin", people.do_grant),
    _page("POST", "/people/{id}/grants/{grant}/revoke", "tenant:admin", people.do_revoke),
    _page("GET", "/keys", "tenant:admin", keys.show_keys),
    _page("POST", "/keys", "tenant:admin", keys.do_add_key),
    _page("POST", "/keys/{id}/revoke", "tenant:admin", keys.do_revoke_key),
    _page("GET", "/environments", "agent:read", tenants.show_environments),
    _page("POST", "/environments", "tenant:admin", tenants.do_set_environment),
    _page("GET", "/tenants", "platform:admin", tenants.show_tenants),
    _page("POST", "/tenants", "platform:admin", tenants.do_add_tenant),
    _page("POST", "/tenants/{id}", "platform:admin", tenants.do_change_tenant),
)
