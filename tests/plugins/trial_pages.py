"""Pages on which a reader is tried: those that take long, that end its process, and that take memory."""

import os
import time

from evenkeel_page.reader import Answer, Job

from evenkeel.object_store import S3Connection

_kept: list[bytearray] = []


def answer(job: Job) -> Answer:
    """The page: `pid` says which process made it."""
    number = float(job.arguments.get("number", 0))
    if job.page == "clusters":
        time.sleep(0.4)
    elif job.page == "sleep":
        time.sleep(number)
    elif job.page == "die":
        os.kill(os.getpid(), int(number))
    elif job.page == "grow":
        _kept.append(bytearray(os.urandom(1)) * (int(number) << 20))
        time.sleep(20)  # its end comes earlier: it looks at its memory every half second
    elif job.page == "keep":
        _kept.append(bytearray(os.urandom(1)) * (int(number) << 20))
    elif job.page == "store":
        found = S3Connection.of_words(job.store)
        secrets = found.secret_key.reveal(), found.session_token.reveal()
        return Answer(200, " ".join((found.access_key, *secrets, found.region, found.endpoint)))
    return Answer(200, str(os.getpid()))
