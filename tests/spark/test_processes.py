import os
import subprocess
import sys

from evenkeel.spark.home import identity, kill_session, lives, pid_of, session_members


def test_a_process_is_known_by_pid_and_start_so_a_used_again_pid_is_another() -> None:
    me = identity(os.getpid())
    assert me is not None
    assert pid_of(me) == os.getpid()
    assert lives(me)
    assert not lives(f"{os.getpid()}-0")


def test_a_zombie_does_not_live() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    known = identity(child.pid)
    assert known is not None
    assert lives(known)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and nobody has collected it yet
    assert not lives(known)
    assert child.stdin is not None
    child.stdin.close()
    child.wait()
    assert identity(child.pid) is None


def test_killing_a_session_reaches_process_groups_of_their_own() -> None:
    code = (
        "import os, subprocess, sys, time\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], process_group=0)\n"
        "print('up', flush=True); time.sleep(600)"
    )
    leader = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert leader.stdout is not None
    assert leader.stdout.readline() == "up\n"
    members = session_members(leader.pid)
    assert len(members) == 2
    kill_session(leader.pid)
    leader.wait()
    leader.stdout.close()
    for member in members:
        member.wait(timeout=10)
    assert session_members(leader.pid) == []
