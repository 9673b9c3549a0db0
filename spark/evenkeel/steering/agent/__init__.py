"""The agent beside a cluster: takes commands from a queue, carries them out, and reports back.

What is promised: a command has **at most one effect**, however often and in whatever order the queue delivers it, and
whenever the agent is killed. It rests on four things, each of which holds without the queue's own deduplication:

1. The ledger. That a request is about to go out is committed before it does, what came of it before it is reported,
   and a message is deleted only once its report is on the reports queue. One agent owns a ledger at a time.
2. Waiting and looking. A command found half-way after a crash waits until the longest request is over; then the cluster
   is read, and only a command without an effect whose premise still holds may be sent again.
3. The lease. The right to a message is renewed right before its request goes out, for longer than the longest request
   can take; nobody else receives it (or a later one of its namespace) meanwhile.
4. The fence. Right before sending, owner and boundaries are read again (`steering.command_executor`). Two agents with
   a ledger each share nothing but the cluster: the fence holds where an agent froze for longer than its lease.
"""
