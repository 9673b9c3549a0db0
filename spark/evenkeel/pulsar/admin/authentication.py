"""Credentials for the admin API: a token, a name with its password, or a client certificate.

A client asks for its credentials at each request. So a token that is written to its file again, a renewed access token
and a renewed client certificate are used without a restart.
"""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import NoReturn
from weakref import WeakKeyDictionary

from evenkeel.errors import SettingsError
from evenkeel.secret import Secret, content_of

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Authorization:
    """Content of the header `Authorization`; `password`, if there is one, is hidden as well."""

    scheme: str
    secret: Secret
    password: Secret | None = None

    def header(self) -> str:
        """Return the header: for the request alone."""
        return f"{self.scheme} {self.secret.reveal()}"

    @property
    def longest(self) -> int:
        """Length of the longest secret, in characters."""
        return max(len(secret.reveal()) for secret in self._secrets())

    def hide_in(self, text: str) -> str:
        """Return the text with all secrets hidden: a server may echo its request."""
        for secret in self._secrets():
            text = secret.hide_in(text)
        return text

    def _secrets(self) -> list[Secret]:
        return [self.secret] if self.password is None else [self.secret, self.password]


class Authentication:
    """Authentication of a client without credentials, and the base of the others; thread-safe.

    `needs_tls`: it works over https only. `files`: the files with its secrets.
    """

    needs_tls = False
    files: tuple[Path, ...] = ()

    def check(self) -> None:
        """Raise `SettingsError` if the credentials cannot be read; ask no server."""

    def authorization(self, deadline: float) -> Authorization | None:
        """Return the header of the next request; None for none.

        A server may be asked for it, until `deadline` (`time.monotonic`). Raises `SettingsError` for credentials that
        cannot be read, `Unreachable` if the server does not give them.
        """
        return None

    def renewed(self, refused: Authorization, deadline: float) -> Authorization | None:
        """Return the header to use after a 401 for `refused`; None if there is no other."""
        current = self.authorization(deadline)
        return None if current == refused else current

    def present_in(self, context: ssl.SSLContext) -> None:
        """Load the client certificate into the context unless it has the current one; raises `SettingsError`."""


class Fixed(Authentication):
    """Credentials that stay: a token, or a name with its password."""

    def __init__(self, authorization: Authorization) -> None:
        self._authorization = authorization

    def authorization(self, deadline: float) -> Authorization:
        """Return the header."""
        return self._authorization


def token(secret: Secret) -> Fixed:
    """Return the authentication by a token."""
    return Fixed(Authorization("Bearer", secret))


class FromFile(Authentication):
    """Authentication whose content is in a file, which is read again when it changes.

    If the file cannot be read any more, or holds something else, the former content is used. `place` names the setting
    that names the file, for messages; `parse` reads the text.
    """

    def __init__(self, file: Path, place: str, parse: Callable[[str], Authentication]) -> None:
        self.files = (file,)
        self._place, self._parse = place, parse
        self._lock = Lock()
        self._content: Authentication | None = None
        self._stamp: Stamp | None = None

    @property
    def needs_tls(self) -> bool:  # type: ignore[override]
        """True if the content works over https only."""
        return self._content is not None and self._content.needs_tls

    def check(self) -> None:
        """Read the file."""
        self._current().check()

    def authorization(self, deadline: float) -> Authorization | None:
        """Return the header of the current content."""
        return self._current().authorization(deadline)

    def renewed(self, refused: Authorization, deadline: float) -> Authorization | None:
        """Return the header of the content that has come meanwhile, or of a renewed token."""
        return self._current().renewed(refused, deadline)

    def present_in(self, context: ssl.SSLContext) -> None:
        """Load the client certificate of the current content."""
        self._current().present_in(context)

    def _current(self) -> Authentication:
        with self._lock:
            stamp = stamp_of(*self.files)
            if self._content is None or stamp != self._stamp:
                try:
                    self._content = self._parse(content_of(str(self.files[0]), self._place))
                except SettingsError as error:
                    if self._content is None:
                        raise
                    log.warning("%s. The former content is used", error)
                self._stamp = stamp
            return self._content


class ClientCertificate(Authentication):
    """Authentication by a client certificate. Its files are read again when one of them changes."""

    needs_tls = True

    def __init__(self, certificate: Path, key: Path, place: str) -> None:
        self.files = (key,)
        self._certificate, self._key, self._place = certificate, key, place
        self._loaded: WeakKeyDictionary[ssl.SSLContext, Stamp] = WeakKeyDictionary()
        self._lock = Lock()

    def check(self) -> None:
        """Read both files."""
        self._load(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))

    def present_in(self, context: ssl.SSLContext) -> None:
        """Load the certificate; a pair that does not fit, as in the middle of a renewal, leaves the former one."""
        with self._lock:
            stamp, former = stamp_of(self._certificate, self._key), self._loaded.get(context)
            if stamp == former:
                return
            try:
                self.check()
                self._load(context)
            except SettingsError as error:
                if former is None:
                    raise
                log.warning("%s. The former certificate is used", error)
            self._loaded[context] = stamp

    def _load(self, context: ssl.SSLContext) -> None:
        def refuse() -> NoReturn:
            raise SettingsError(f"{self._place}: tlsKeyFile is encrypted: give a key without a passphrase")

        try:
            context.load_cert_chain(self._certificate, self._key, refuse)
        except (OSError, ssl.SSLError) as error:
            reason = getattr(error, "reason", None) or error.strerror or error
            raise SettingsError(
                f"{self._place}: tlsCertFile and tlsKeyFile cannot be used ({reason}): give a certificate with its "
                "chain, and its key, as PEM files that this user may read"
            ) from None


Stamp = tuple[tuple[int, int, int, int] | None, ...]
"""State of files, each: inode, size in bytes, and the times of its last changes in ns; None if it is missing."""


def stamp_of(*files: Path) -> Stamp:
    """Return the state of files. It differs as soon as one of them is written or replaced."""
    return tuple(_stamp(file) for file in files)


def _stamp(file: Path) -> tuple[int, int, int, int] | None:
    try:
        seen = os.stat(file)
    except OSError:
        return None
    return seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns


def trusting(file: str | None, name: str) -> ssl.SSLContext:
    """Return a client's context that trusts the certificates of a file, None for the system's.

    Raises `SettingsError`, which begins with `name`, for a file that cannot be used.
    """
    try:
        return ssl.create_default_context(cafile=file)
    except (OSError, ssl.SSLError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SettingsError(f"{name} {file} cannot be used ({reason}): give a file of PEM certificates") from None
