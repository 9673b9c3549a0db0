"""Meaning of a bad answer for an operator: what is wrong, where, and what to do, in one sentence."""

from __future__ import annotations

from evenkeel.pulsar.admin.http_exchange import Failure, Hop, failure_in
from evenkeel.pulsar.answers import server_reason

_ADVICE = {
    Failure.NO_ADDRESS: "write admin addresses as http://host:port, and brokers as host:port",
    Failure.UNKNOWN_NAME: "check the host's name in the admin address, and this machine's DNS",
    Failure.REFUSED: "check host and port (Pulsar's web port, 8080 by default), and that the broker runs",
    Failure.UNREACHABLE: "check the address, and that no firewall blocks it",
    Failure.TIMED_OUT: "the broker is overloaded or hangs: look at its log, then try again",
    Failure.BROKEN_OFF: "the broker ended, or something between cut the connection: look at its log, then try again",
    Failure.TOO_LARGE: "check that the address is a broker's web address, or raise the limit",
    Failure.PACKED: "check that the address is a broker's web address: a proxy may pack what passes it",
    Failure.BUSY: "other requests hold every connection: raise the number of connections, or try again",
    Failure.NOT_FOLLOWED: "give the brokers' own web addresses, and `broker_url` where their ids name another port",
    Failure.NOT_SENT: "try again",
}
_TLS_ADVICE = (
    ("wrong version number", "this port speaks no TLS: give http://, or `broker_url` with the brokers' TLS port"),
    ("hostname mismatch", "use the name that the certificate was made for, or set check_hostname = false"),
    ("ip address mismatch", "use the name that the certificate was made for, or set check_hostname = false"),
    ("expired", "renew the broker's certificate"),
    ("certificate", "set ca_file to the certificates that signed the broker's"),
)
_NO_SUCH_PATH = ("HTTP 404 Not Found", "Not Found", "no text")


def trouble(hop: Hop, *, is_text: bool = False) -> str | None:
    """Return the fault of this answer, None for a good one. With `is_text` it need not be JSON."""
    if hop.status == 0:
        return _sentence(hop, hop.body.splitlines()[0] if hop.body else "no answer", _advice(hop))
    if hop.is_redirect:
        return _sentence(hop, f"redirected to {hop.location}", "give the brokers' own web addresses")
    if hop.is_good:
        return _of_page(hop) if not is_text and _is_page(hop) else None
    reason = server_reason(hop.body) if not _is_page(hop) else "an HTML page"
    return _sentence(hop, f"answered {hop.status} ({reason})", _advice_of_status(hop, reason))


def _advice(hop: Hop) -> str:
    failure = failure_in(hop)
    if failure is None:
        return "check the address, and that the broker runs"
    if failure is Failure.TLS:
        body = hop.body.lower()
        return next((advice for sign, advice in _TLS_ADVICE if sign in body), "check that the port speaks TLS")
    return _ADVICE[failure]


def _advice_of_status(hop: Hop, reason: str) -> str:
    if hop.status == 401 and not _is_page(hop):  # Pulsar knows the caller
        return "the token is valid, but its role is not a super user: add it to superUserRoles, or take another token"
    if hop.status == 401:
        return "the token is missing, wrong or expired: check the connection's token"
    if hop.status == 403:
        return "this role may not do that, or a proxy forbids it: take the token of a super user"
    if hop.status == 404 and (reason.startswith(_NO_SUCH_PATH) or _is_page(hop)):
        return "this path does not exist: the Pulsar version lacks it (4.0 and 4.2 do), or this is not Pulsar"
    if hop.status in (429, 502, 503, 504):
        return "the broker, or a proxy before it, is not ready or overloaded: try again later"
    if hop.status >= 500:
        return "look at the broker's log"
    return "check what was asked"


def _of_page(hop: Hop) -> str:
    advice = "a proxy or a login page is in front of the brokers: give the brokers' own web addresses"
    return _sentence(hop, f"answered {hop.status} with an HTML page in place of JSON", advice)


def _is_page(hop: Hop) -> bool:
    return hop.body.lstrip()[:1] == "<"


def _sentence(hop: Hop, fault: str, advice: str) -> str:
    return f"{hop.broker or 'no broker'}, {hop.method} {hop.path}: {fault}; {advice}"
