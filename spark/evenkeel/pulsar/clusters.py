"""Which cluster a snapshot shows."""

from __future__ import annotations

import json

from evenkeel.errors import BadInput

CLUSTERS = "/admin/v2/clusters"


def own_cluster(clusters: str | None, configuration: str | None, wanted: str | None, *, where: str) -> str:
    """The cluster's name from the bodies of `/admin/v2/clusters` and of a broker's runtime configuration.

    One name answers itself. Of several (geo-replication lists its peers) it is the one `wanted`, else the
    configuration's `clusterName`. `BadInput` names `where` and what was found.
    """
    names = _names(clusters, where)
    if wanted is not None:
        if wanted in names:
            return wanted
        raise BadInput(f"{where} knows no cluster {wanted!r}; it lists {', '.join(names)}")
    if len(names) == 1:
        return names[0]
    named = _cluster_name(configuration)
    if named in names:
        return str(named)
    raise BadInput(f"{where} lists several clusters ({', '.join(names)}) and does not say which is its own: name one")


def _names(body: str | None, where: str) -> list[str]:
    try:
        names = json.loads(body) if body is not None else None
    except ValueError:
        names = None
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise BadInput(f"{where} has no readable answer of {CLUSTERS}: the cluster's name is not known")
    return sorted(set(names))


def _cluster_name(configuration: str | None) -> object:
    try:
        body = json.loads(configuration) if configuration is not None else None
    except ValueError:
        return None
    return body.get("clusterName") if isinstance(body, dict) else None
