"""Names from the cluster in a URL: each segment quoted once, and then left alone."""

from __future__ import annotations

from urllib.parse import quote, urlencode

PREFIX = "/admin/v2"
# What a path may hold as it is: the signs of RFC 3986 (pchar and /), `?`, and the `%` of what is quoted already.
_AS_IT_IS = "%/?:@!$&'()*+,;=-._~"


def admin_path(*segments: str, **query: str) -> str:
    """`/admin/v2/…` of plain names: a slash, a quote, `%2F` or a sign of any script in a name survives.

    The colon of a broker id stays as it is, as Pulsar's own clients send it.
    """
    path = "/".join([PREFIX, *(_segment(segment) for segment in segments)])
    if not query:
        return path
    return "?".join([path, urlencode(query, safe=":", quote_via=quote)])


def _segment(name: str) -> str:
    # A segment of dots alone would be taken for a folder by whoever stands in between.
    return name.replace(".", "%2E") if name in (".", "..") else quote(name, safe=":")


def request_target(path: str) -> bytes:
    """The path as it goes over the wire. What is quoted stays; blanks, controls and non-ASCII signs are quoted here."""
    return quote(path, safe=_AS_IT_IS).encode("ascii")
