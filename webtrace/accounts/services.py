"""Writes: guests that become users, keys, and the word to open sockets that a credential has changed."""

from __future__ import annotations

import logging

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.db import transaction
from django.utils import timezone

from webtrace.accounts.models import ApiKey, User
from webtrace.conversations.live import HUBS
from webtrace.conversations.models import Conversation, Response

logger = logging.getLogger(__name__)


def merge_guest(*, guest: User, user: User) -> None:
    """Give a guest's conversations and responses to the user they turned out to be. The guest's sockets close."""
    guest_id = guest.pk
    with transaction.atomic():
        # Held by whoever starts a response too: one that begins meanwhile would be deleted with the guest.
        if not User.objects.select_for_update().filter(pk=guest_id).exists():
            return  # another tab has signed in with it
        Conversation.objects.filter(owner=guest).update(owner=user)
        Response.objects.filter(owner=guest).update(owner=user)
        guest.delete()
    tell_sockets(user_id=guest_id)


def revoke_key(*, key: ApiKey) -> None:
    """The key is refused from now on, on open connections too. Its row stays."""
    if key.revoked_at is None:
        key.revoked_at = timezone.now()
        key.save(update_fields=("revoked_at",))
        tell_sockets(user_id=key.user_id)


def tell_sockets(*, user_id: int) -> None:
    """Have every open socket of this user check its credential now. If the word is lost, they do so on a timer."""
    try:
        async_to_sync(get_channel_layer().group_send)(HUBS, {"type": "auth.changed", "user_id": user_id})
    except Exception:
        logger.warning("Sockets of user %s could not be told to check their credential.", user_id, exc_info=True)
