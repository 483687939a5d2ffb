"""Every route of the service."""

from __future__ import annotations

from typing import Final

from flask import Blueprint

from appliance.service.routes import (
    attestations,
    chat,
    embeddings,
    health,
    log,
    metrics,
    models,
    openapi,
    pages,
    status,
    well_known,
)

BLUEPRINTS: Final[tuple[Blueprint, ...]] = (
    health.BLUEPRINT,
    metrics.BLUEPRINT,
    models.BLUEPRINT,
    log.BLUEPRINT,
    well_known.BLUEPRINT,
    status.BLUEPRINT,
    openapi.BLUEPRINT,
    chat.BLUEPRINT,
    embeddings.BLUEPRINT,
    attestations.BLUEPRINT,
    pages.BLUEPRINT,
)
